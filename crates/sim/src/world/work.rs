//! The work of clients, and changes to queues.

use super::ledger::{Named, Routed, Sent};
use super::names::Publishing;
use super::peers::{Link, Peer};
use super::rules::{Policy, Rules, SPREAD};
use super::{HOUR_MS, World, streams};
use crate::client::{Read, short};
use crate::declare::Arguments;
use crate::harness::FIRST;
use crate::node::{set_operator_policy, set_policy};
use amqp091::{Table as Headers, Value};
use meta::Command;
use session::{Flag, Op, ShortString, Table};
use std::collections::BTreeMap;
use testing::outbox::Content;
use testing::run::{fail, join};

const PUBLISHES_MAX: usize = 12;
/// Unsettled deliveries of a consumer; of streams there must be a limit.
const PREFETCHES: &[u16] = &[0, 1, 3, 10, 100];
const STREAM_PREFETCHES: &[u16] = &[1, 3, 100];
/// Time goes on by so much at once: two weeks pass in most runs of streams alone.
const PASSING_MS: &[u64] = &[500, 1_000, HOUR_MS, 24 * HOUR_MS, 72 * HOUR_MS];
const PASSING_WITH_RULES_MS: &[u64] = &[1, 500, 1_000, 1_000, 3_000, 6_000];
/// The highest priority that tells messages apart, and one above it.
pub(super) const PRIORITIES: &[u8] = &[0, 1, 2, 4, 9, 31, 200];
const PRIORITY_MAX: u8 = 31;
/// The priority of a message without one in a quorum queue.
pub(super) const QUORUM_PRIORITY: u8 = 4;

impl World {
    /// One random thing happens.
    pub(super) fn act(&mut self) {
        let features = self.features;
        let random = &mut self.harness.random;
        if features.has_tx_and_alarms && random.percent(4) {
            return self.set_alarm(!self.has_alarm);
        }
        if features.sends_on && random.percent(45) {
            return self.send_on();
        }
        if features.has_frames && random.percent(80) {
            return self.act_framed();
        }
        match random.below(100) {
            0..10 => self.step(),
            10..20 => self.pass_time(),
            20..25 => self.connect(),
            25..27 => self.leave(),
            27..31 => self.read(),
            31..57 => self.publish(),
            57..73 => self.settle(),
            73..82 => self.consume(),
            82..84 => self.cancel(),
            84..88 => self.get(),
            88 if random.percent(50) => self.purge(),
            88 => self.delete(),
            89..91 => self.change_policy(),
            91..93 => self.declare_missing(),
            93..95 if features.confirms_late => self.write(),
            95..97 if features.confirms_late => self.close_or_open(),
            97 if features.confirms_late => self.recover(),
            98 if features.confirms_late => self.fail(),
            _ => self.dry(),
        }
    }

    fn step(&mut self) {
        self.note_modes();
        if self.features.has_logs && self.harness.random.percent(30) {
            let node = self.harness.host_mut(FIRST).node.as_mut();
            let stepped = node.is_some_and(|node| node.steppers.streams.step());
            self.harness.note(format!("streams: {stepped}"));
        } else {
            self.harness.step_part(FIRST);
        }
        self.take_in();
    }

    fn pass_time(&mut self) {
        let passing_ms = if self.features.has_rules { PASSING_WITH_RULES_MS } else { PASSING_MS };
        self.ledger.now_ms += self.harness.random.choose(passing_ms).unwrap_or(1);
        self.streams.now_ms = self.ledger.now_ms;
        self.is_dry = false;
        self.harness.tick(self.ledger.now_ms);
        self.take_in();
        if self.features.has_rules && self.harness.random.percent(60) {
            self.dry();
        }
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        // Who is gone is told nothing any more.
        self.dry();
        self.disconnect(peer);
    }

    /// A channel is closed, or one opened in its place.
    fn close_or_open(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let channel = 1 + u16::from(self.harness.random.percent(50));
        if !self.peer(peer).channels.contains_key(&channel) {
            return self.open(peer, channel);
        }
        self.release(peer, channel);
        self.control(peer, channel, Op::CloseChannel);
        if self.harness.random.percent(60) && !self.is_over() {
            self.open(peer, channel);
        }
    }

    fn publish(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return self.connect() };
        let (mut read, mut shown, mut published) = (Read::default(), Vec::new(), Vec::new());
        // By queue: messages for it in this read.
        let mut n_new = BTreeMap::new();
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let queues = [self.names(), self.streams.names()].concat();
            let to_several = self.features.confirms_late && self.harness.random.percent(35);
            let one = self.harness.random.choose(&queues).filter(|_| !to_several);
            let (id, content) = match one {
                Some(stream) if self.is_stream(stream) => self.stream_message(stream),
                _ => self.message(one, n_new.entry(one).or_default()),
            };
            read.publish(channel, &content);
            shown.push(format!("m{id}>{}", one.unwrap_or(SPREAD)));
            published.push((id, one));
        }
        self.harness.note(format!("client {peer}, channel {channel} publishes {}", join(shown)));
        if self.has_alarm {
            return self.publish_later((peer, channel), published, read);
        }
        for (id, _) in &published {
            self.peer(peer).number(channel, *id);
        }
        self.submit(peer, read);
        let is_rolled_back = self.is_transactional((peer, channel))
            && self.end_publishing((peer, channel), &published);
        if !is_rolled_back {
            self.enforced.extend(published.iter().filter_map(|(_, one)| *one));
        }
    }

    fn new_content(
        &mut self,
        one: Option<&str>,
        properties: message::Properties,
    ) -> (u64, usize, Content) {
        self.n_messages += 1;
        let bytes = self.harness.random.choose(&[0, 20, 300, 3_000, 9_000]).unwrap_or(0);
        let persistent = self.features.sends_on || self.harness.random.percent(75);
        let delivery_mode = persistent.then_some(2);
        let content = Content {
            exchange: if one.is_some() { Vec::new() } else { SPREAD.into() },
            key: one.unwrap_or("").into(),
            properties: message::Properties { delivery_mode, ..properties }.to_bytes(),
            body: Content::numbered_body(self.n_messages, bytes),
            persistent,
            form: Content::form_of(self.n_messages),
        };
        let is_section = self.features.has_frames && !content.form.is_plain();
        let body = if is_section { data_section(&content.body) } else { content.body };
        (self.n_messages, bytes, Content { body, ..content })
    }

    fn stream_message(&mut self, stream: &'static str) -> (u64, Content) {
        let (id, bytes, mut content) =
            self.new_content(Some(stream), message::Properties::default());
        if !content.form.is_plain() && !self.features.has_frames {
            content.body = data_section(&content.body);
        }
        self.streams.publish(id, stream, bytes);
        (id, content)
    }

    /// A message for one queue, or for those that get what is spread, behind `n_new` others of the same read.
    fn message(&mut self, one: Option<&'static str>, n_new: &mut u64) -> (u64, Content) {
        let may_be_named =
            self.features.has_logs && self.features.has_rules && !self.features.has_tx_and_alarms;
        let queue = one.filter(|queue| may_be_named && self.is_there(queue));
        let queue = queue.filter(|_| self.harness.random.percent(30));
        let random = &mut self.harness.random;
        let named = queue.map(|queue| self.names.publish(random, queue, &self.ledger.sent));
        let named = match named {
            Some(Publishing::Again(id)) => {
                self.ledger.resend(id);
                *n_new += 1;
                let content = self.ledger.sent.get(&id).map(|sent| sent.content.clone());
                return (id, content.expect("it was published"));
            }
            Some(Publishing::New(name, number)) => Some((name, number)),
            None => None,
        };
        let expected = one.and_then(|queue| self.expected(queue, *n_new));
        *n_new += 1;
        let (id, sent) = self.new_message(one, named, expected);
        let content = sent.content.clone();
        self.ledger.publish(id, sent);
        (id, content)
    }

    fn new_message(
        &mut self,
        one: Option<&'static str>,
        named: Option<Named>,
        expected: Option<bool>,
    ) -> (u64, Sent) {
        let has_rules = self.features.has_rules && !self.features.confirms_late;
        let random = &mut self.harness.random;
        let percent = |percent| if has_rules { percent } else { 0 };
        let expiration_ms: Option<u64> = random.perhaps(percent(15), &[0, 700, 4_000]);
        let priority = random.perhaps(percent(60), PRIORITIES);
        let is_quorum = one.is_some_and(|queue| self.ledger.rules(queue).is_quorum);
        let default = if is_quorum { QUORUM_PRIORITY } else { 0 };
        let properties = message::Properties {
            priority,
            expiration: expiration_ms.map(|ms| short(&ms.to_string())),
            headers: named.map(headers),
            ..message::Properties::default()
        };
        let (id, _, content) = self.new_content(one, properties);
        let sent =
            self.sent_of(one, content, (expiration_ms, priority.unwrap_or(default)), expected);
        (id, Sent { named, ..sent })
    }

    /// A message as it is published now.
    pub(super) fn sent_of(
        &self,
        one: Option<&'static str>,
        content: Content,
        (expiration_ms, priority): (Option<u64>, u8),
        expected: Option<bool>,
    ) -> Sent {
        let size = content.body.len() + content.properties.len();
        Sent {
            to: self.route(one, expiration_ms),
            published_ms: self.now_ms(),
            expiration_ms,
            priority: priority.min(PRIORITY_MAX),
            content,
            is_large: size >= self.harness.host(FIRST).options.embed_below_bytes,
            named: None,
            n_attempts: 1,
            is_moved: false,
            is_in_order: true,
            expected,
            answer: None,
            is_committed: false,
        }
    }

    /// The queues that a message goes to that is published now.
    pub(super) fn route(
        &self,
        one: Option<&'static str>,
        expiration_ms: Option<u64>,
    ) -> BTreeMap<&'static str, Routed> {
        let goes_to = |queue: &&'static str| match one {
            Some(one) => *queue == one,
            None => self.ledger.rules(queue).on_spread,
        };
        let routed = |queue: &'static str| {
            let (rules, is_late) = (self.ledger.rules(queue), self.is_late(queue));
            let n_consumers = self.consumers_of(queue).count();
            let may_refuse = rules.may_refuse() || (is_late && rules.limits_pending(n_consumers));
            let deadline_ms = self.ledger.deadline_ms(queue, expiration_ms);
            Routed { is_late, may_refuse, deadline_ms, ..Routed::default() }
        };
        let queues = self.queues().into_iter().filter(goes_to);
        queues.map(|queue| (queue, routed(queue))).collect()
    }

    /// The answer that a publish has to have, behind `n_new` others of the same read, as far as that is
    /// certain.
    pub(super) fn expected(&self, queue: &str, n_new: u64) -> Option<bool> {
        let Some(there) = self.harness.host(FIRST).queue(queue) else { return Some(true) };
        let (rules, stat) = (self.ledger.rules(queue), there.local_stat());
        let ever_waits = self.ledger.ever_waits(queue);
        let is_unknown = !rules.is_quorum || rules.max_bytes.is_some() || ever_waits;
        if is_unknown || rules.confirm_on.is_some() {
            return None;
        }
        let Some(max) = rules.max_length.filter(|_| rules.may_refuse()) else { return Some(true) };
        let n_departing = if rules.is_at_least_once() { stat.n_departing } else { 0 };
        if stat.n_ready + n_departing + n_new < max {
            return Some(true);
        }
        let ends = |sent: &Sent| sent.to.get(queue).is_some_and(|to| to.deadline_ms.is_some());
        let may_leave = self.consumers_of(queue).next().is_some()
            || self.ledger.ever(queue).any(|rules| rules.ttl_ms.is_some())
            || self.ledger.sent.values().any(ends)
            || n_departing > 0;
        (stat.n_ready >= max && !may_leave).then_some(false)
    }

    fn some_queue(&mut self) -> Option<&'static str> {
        let queues: Vec<_> = self.queues().into_iter().filter(|it| self.is_usable(it)).collect();
        self.harness.random.choose(&queues)
    }

    fn consume(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let streams = self.streams.names().into_iter().filter(|stream| self.is_there(stream));
        // A consumer might take what is being sent on.
        let is_usable = |queue: &&str| !self.features.sends_on && self.is_usable(queue);
        let queues = self.queues().into_iter().filter(is_usable);
        let queues: Vec<&'static str> = queues.chain(streams).collect();
        let Some(queue) = self.harness.random.choose(&queues) else { return };
        let is_stream = self.is_stream(queue);
        let prefetches = if is_stream { STREAM_PREFETCHES } else { PREFETCHES };
        let prefetch_count = self.harness.random.choose(prefetches).unwrap_or(1);
        self.control(peer, channel, Op::SetPrefetch { prefetch_count, global: false });
        if self.is_over() {
            return;
        }
        let mut link = Link { prefetch: prefetch_count.into(), ..self.new_link(queue, channel) };
        let random = &mut self.harness.random;
        let mut arguments = Table::default();
        if is_stream {
            if random.percent(70) {
                arguments.push(short("x-stream-offset"), "first");
            }
        } else if self.ledger.rules(queue).is_quorum {
            link.priority = random.perhaps(30, &[-1, 1, 5]).unwrap_or(0);
            arguments.push(short("x-priority"), link.priority);
            self.use_queue(queue);
        } else {
            link.no_ack = random.percent(20);
            self.use_queue(queue);
        }
        self.attach(peer, link, arguments);
    }

    fn cancel(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let links = self.peer(peer).links.values();
        let links = links.filter(|link| link.is_consumer && link.channel == channel);
        let tags: Vec<String> = links.map(|link| link.tag.clone()).collect();
        let Some(tag) = self.harness.random.choose(&tags) else { return };
        self.control(peer, channel, Op::Detach { consumer_tag: short(&tag) });
    }

    fn get(&mut self) {
        let (Some(at), Some(queue)) = (self.some_channel(), self.some_queue()) else { return };
        let rules = self.ledger.rules(queue);
        if !(rules.is_quorum && rules.is_single_active) {
            let no_ack = self.harness.random.percent(30);
            self.get_from(at, queue, no_ack);
        }
    }

    fn purge(&mut self) {
        let (Some((peer, channel)), Some(queue)) = (self.some_channel(), self.some_queue()) else {
            return;
        };
        let held = self.held_of(queue);
        let n_unacked =
            self.harness.host(FIRST).queue(queue).map_or(0, |queue| queue.local_stat().n_unacked);
        self.ledger.purge(queue, &held, n_unacked == held.len() as u64);
        self.control(peer, channel, Op::PurgeQueue { queue: short(queue) });
    }

    /// A queue goes with all that is in it, and with what is held of it.
    pub(super) fn delete(&mut self) {
        let (Some((peer, channel)), Some(queue)) = (self.some_channel(), self.some_queue()) else {
            return;
        };
        self.remove(queue);
        for Peer { held, unwritten, recorder, .. } in self.peers.values_mut() {
            let gone = held.extract_if(.., |_, copy| copy.queue == queue).map(|it| it.0);
            gone.for_each(|(link, position)| recorder.forget(link, position));
            unwritten.retain(|(_, copy)| copy.queue != queue);
        }
        let (if_unused, if_empty) = (Flag::No, Flag::No);
        self.control(peer, channel, Op::DeleteQueue { queue: short(queue), if_unused, if_empty });
        // Consumers are told, or not, where clients do not want to be.
        for link in self.peers.values_mut().flat_map(|peer| peer.links.values_mut()) {
            link.is_consumer &= link.queue != queue;
        }
    }

    fn change_policy(&mut self) {
        let random = &mut self.harness.random;
        if self.features.has_timeouts && random.percent(50) {
            self.set_timeout();
        } else if self.features.confirms_late {
            let pattern = random.choose(&["q0", "q[12]", "d.", ".*"]).unwrap_or(".*");
            let modes = ["ack", "ack", "ack-direct", "ack-direct", "enqueue"];
            let mode = random.choose(&modes).unwrap_or("ack");
            let definition = format!("{{\"confirm-on\":\"{mode}\"}}");
            self.apply(set_policy("confirms", pattern, &definition));
        } else if !self.features.has_logs {
            self.harness.change_versions(FIRST);
        } else if self.features.has_rules {
            let of = random.perhaps(60, &["q0", "q1", "q2"]);
            let policy = Policy::new(random);
            self.set_rules(of, policy);
        }
    }

    pub(super) fn set_rules(&mut self, of: Option<&'static str>, policy: Policy) {
        self.ledger.set_policy(of, policy);
        self.apply(set_policy("rules", of.unwrap_or("^q"), &policy.definition()));
    }

    /// An operator says how long publishes may wait, those that wait already among them.
    pub(super) fn set_timeout(&mut self) {
        let timeouts_ms = [1, 800, 3_000, 10_000, 3_600_000];
        let timeout_ms = self.harness.random.choose(&timeouts_ms).unwrap_or(1);
        self.ledger.set_timeout(timeout_ms);
        let definition = format!("{{\"confirm-timeout\":{timeout_ms}}}");
        self.apply(set_operator_policy("timeouts", ".*", &definition));
    }

    fn apply(&mut self, policy: Command) {
        self.harness.note(format!("{policy:?}"));
        let is_done = self.harness.apply_definition(FIRST, policy);
        self.take_in();
        if !is_done && !self.is_over() {
            fail("a policy is refused");
        }
    }

    /// Declares what is not there.
    pub(super) fn declare_missing(&mut self) {
        for queue in [self.names(), self.streams.names()].concat() {
            let Some(at) = self.some_channel() else { return };
            if self.is_over() {
                return;
            }
            if !self.is_there(queue) {
                self.declare(at, queue);
            }
        }
    }

    fn declare(&mut self, (peer, channel): (usize, u16), queue: &'static str) {
        if let Some(retention) = self.streams.retention(queue) {
            self.control(peer, channel, declaration(queue, retention));
        } else {
            let rules = self.ledger.rules.get(queue).copied();
            let rules = rules.expect("the queue is one of the world's");
            // It may have gone just now.
            self.note_missing(queue);
            self.use_queue(queue);
            self.control(peer, channel, rules.declare(queue));
            if !self.is_over() {
                self.ledger.declared(queue);
                self.names.forget(queue);
            }
            self.bind((peer, channel), queue, &rules);
            if self.is_over() {
                self.ledger.doubt(queue);
            }
        }
        if !self.is_over() {
            self.declared.insert(queue);
        }
    }

    fn bind(&mut self, (peer, channel): (usize, u16), queue: &str, rules: &Rules) {
        for bind in rules.binds(queue) {
            if !self.is_over() {
                self.control(peer, channel, bind);
            }
        }
    }

    /// A crash may have come between a declaration and its bindings.
    pub(super) fn bind_all(&mut self) {
        let Some(at) = self.some_channel() else { return };
        let all: Vec<_> = self.ledger.rules.iter().map(|(queue, rules)| (*queue, *rules)).collect();
        for (queue, rules) in all {
            self.bind(at, queue, &rules);
        }
    }

    /// A client that has a channel, which it may be given now.
    pub(super) fn any_open(&mut self) -> Option<(usize, u16)> {
        let with_channel = |at: &Self| {
            let channels = |peer: &Peer| peer.channels.keys().next().copied();
            at.peers.iter().find_map(|(number, peer)| Some((*number, channels(peer)?)))
        };
        if with_channel(self).is_none() {
            let peer = self.peers.keys().next().copied();
            peer.into_iter().for_each(|peer| self.disconnect(peer));
            self.connect();
        }
        with_channel(self)
    }
}

/// A body as a section of AMQP 1.0.
fn data_section(body: &[u8]) -> Vec<u8> {
    let n_bytes = u32::try_from(body.len()).expect("a simulated body is small").to_be_bytes();
    [b"\x00\x53\x75\xb0", &n_bytes[..], body].concat()
}

/// The headers of a publisher that names itself.
fn headers((name, number): Named) -> Headers {
    let mut headers = Headers::new();
    let name = Value::LongString(name.as_bytes().to_vec());
    headers.push(ShortString::truncated("x-publisher-id"), name);
    let number = Value::I64(i64::try_from(number).unwrap_or(i64::MAX));
    headers.push(ShortString::truncated("x-publishing-id"), number);
    headers
}

fn declaration(stream: &str, retention: streams::Retention) -> Op {
    let mut arguments = Arguments::default();
    arguments.text("x-queue-type", Some("stream"));
    arguments.number("x-stream-max-segment-size-bytes", Some(streams::SEGMENT_BYTES));
    arguments.number("x-max-length-bytes", retention.max_bytes);
    let max_age = retention.max_age_days.map(|days| format!("{days}D"));
    arguments.text("x-max-age", max_age.as_deref());
    arguments.declare(stream, true)
}
