//! The work of clients of quorum queues and streams.

use super::names::Publishing;
use super::quorum::{Named, Sent};
use super::rules::{Policy, Rules};
use super::{Asking, HOUR_MS, Link, LogQueues, Peer, QUORUM_QUEUES, ledger};
use crate::client::{Read, settle, short};
use crate::declare::Arguments;
use crate::harness::{Connected, fail};
use crate::node::set_policy;
use amqp091::{Table as Headers, Value};
use session::{Attachment, Flag, Op, Request, ShortString, Table};
use std::collections::BTreeMap;
use testing::outbox::Content;

const PEERS_MAX: usize = 3;
const PUBLISHES_MAX: usize = 10;
/// Unsettled deliveries of a consumer.
const PREFETCHES: &[u16] = &[1, 3, 100];
/// Time goes on by so much at once: two weeks pass in most runs of streams alone.
const PASSING_MS: &[u64] = &[500, 1_000, HOUR_MS, 24 * HOUR_MS, 72 * HOUR_MS];
const PASSING_WITH_RULES_MS: &[u64] = &[1, 500, 1_000, 1_000, 3_000, 6_000, HOUR_MS];
/// The highest priority that tells messages apart, and one above it.
const PRIORITIES: &[u8] = &[0, 1, 4, 9, 31, 200];
const PRIORITY_MAX: u8 = 31;
/// The priority of a message without one.
const PRIORITY_DEFAULT: u8 = 4;

impl LogQueues {
    /// One random thing happens.
    pub(super) fn act(&mut self) {
        match self.harness.random.below(100) {
            0..13 => self.step(),
            13..21 => self.pass_time(),
            21..26 => self.connect(),
            26..29 => self.leave(),
            29..34 => self.read(),
            34..60 => self.publish(),
            60..77 => self.settle(),
            77..86 => self.consume(),
            86..88 => self.cancel(),
            88..91 => self.get(),
            91 => self.purge(),
            92 => self.delete(),
            93..95 => self.change_policy(),
            95..97 => self.declare_missing(),
            _ => self.dry(),
        }
        self.check();
    }

    fn step(&mut self) {
        if self.harness.random.percent(30) {
            let stepped =
                self.harness.node.as_ref().is_some_and(|node| node.steppers.streams.step());
            self.harness.note(format!("streams: {stepped}"));
        } else {
            self.harness.step_part();
        }
        self.take_in();
    }

    fn pass_time(&mut self) {
        let passing_ms = if self.has_rules { PASSING_WITH_RULES_MS } else { PASSING_MS };
        self.quorum.now_ms += self.harness.random.choose(passing_ms).unwrap_or(1);
        self.streams.now_ms = self.quorum.now_ms;
        self.harness.tick(self.quorum.now_ms);
        self.take_in();
        if self.has_rules && self.harness.random.percent(60) {
            self.dry();
        }
    }

    pub(super) fn connect(&mut self) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let Connected { client, recorder, session, limit } = self.harness.connect();
        self.harness.note(format!("client {client} connects"));
        let peer = Peer {
            session: Some(session),
            recorder,
            has_room: limit >= 10_000,
            n_published: 0,
            unconfirmed: BTreeMap::new(),
            links: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        self.peers.insert(client, peer);
        self.control(client, Op::OpenChannel);
        self.control(client, Op::EnableConfirms);
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        self.dry();
        self.harness.note(format!("client {peer} is lost"));
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let Some(session) = state.session.take() else { return };
        for copy in std::mem::take(&mut state.held).into_values() {
            if self.streams.retention(copy.queue).is_none() {
                self.quorum.come_back(copy, true);
                self.use_queue(copy.queue);
            }
        }
        let is_closed = self.harness.close(session);
        self.take_in();
        let links = self.peers.remove(&peer).map(|state| state.links).unwrap_or_default();
        for link in links.into_values().filter(|link| link.is_consumer) {
            self.use_queue(link.queue);
        }
        if !is_closed && !self.is_over() {
            fail("a client cannot leave");
        }
    }

    /// A client reads what it was sent.
    fn read(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let Some(state) = self.peers.get(&peer) else { return };
        let links = state.recorder.read_all();
        if let Some(session) = &state.session {
            session.resume(&links);
        }
        self.take_in();
    }

    fn publish(&mut self) {
        let Some(peer) = self.some_peer() else { return self.connect() };
        let (mut read, mut n_new) = (Read::default(), BTreeMap::new());
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let queues = self.queues();
            let Some(queue) = self.harness.random.choose(&queues) else { return };
            let (id, content) = if self.streams.retention(queue).is_some() {
                self.stream_message(queue)
            } else {
                self.quorum_message(queue, n_new.entry(queue).or_default())
            };
            read.publish(1, &content);
            if let Some(state) = self.peers.get_mut(&peer) {
                state.n_published += 1;
                state.unconfirmed.insert(state.n_published, id);
            }
            self.harness.note(format!("client {peer} publishes m{id}>{queue}"));
        }
        self.submit(peer, read);
    }

    fn new_content(
        &mut self,
        queue: &str,
        properties: &message::Properties,
    ) -> (u64, usize, Content) {
        self.n_messages += 1;
        let bytes = self.harness.random.choose(&[0, 20, 300, 3_000]).unwrap_or(0);
        let content = Content {
            exchange: Vec::new(),
            key: queue.into(),
            properties: properties.to_bytes(),
            body: Content::numbered_body(self.n_messages, bytes),
            persistent: self.harness.random.percent(50),
            form: Content::form_of(self.n_messages),
        };
        (self.n_messages, bytes, content)
    }

    fn stream_message(&mut self, stream: &'static str) -> (u64, Content) {
        let (id, bytes, mut content) = self.new_content(stream, &message::Properties::default());
        if !content.form.is_plain() {
            content.body = data_section(&content.body);
        }
        self.streams.publish(id, stream, bytes);
        (id, content)
    }

    /// A message for a quorum queue, to which `n_new` others go in the same read.
    fn quorum_message(&mut self, queue: &'static str, n_new: &mut u64) -> (u64, Content) {
        let is_there = self.is_there(queue);
        let is_named = self.has_rules && is_there && self.harness.random.percent(30);
        let named = is_named
            .then(|| self.names.publish(&mut self.harness.random, queue, &self.quorum.sent));
        let named = match named {
            Some(Publishing::Again(id)) => {
                self.quorum.resend(id);
                *n_new += 1;
                let content = self.quorum.sent.get(&id).map(|sent| sent.content.clone());
                return (id, content.expect("it was published"));
            }
            Some(Publishing::New(name, number)) => Some((name, number)),
            None => None,
        };
        let expected = self.expected(queue, *n_new);
        *n_new += 1;
        let (id, mut sent) = self.new_message(queue, named);
        (sent.expected, sent.is_over) = (expected, !is_there);
        let content = sent.content.clone();
        self.quorum.sent.insert(id, sent);
        (id, content)
    }

    fn new_message(&mut self, queue: &'static str, named: Option<Named>) -> (u64, Sent) {
        let random = &mut self.harness.random;
        let percent = if self.has_rules { 15 } else { 0 };
        let expiration_ms: Option<u64> = random.perhaps(percent, &[0, 700, 4_000]);
        let priority = random.perhaps(if self.has_rules { 60 } else { 0 }, PRIORITIES);
        let properties = message::Properties {
            priority,
            expiration: expiration_ms.map(|ms| short(&ms.to_string())),
            headers: named.map(headers),
            ..message::Properties::default()
        };
        let (id, _, content) = self.new_content(queue, &properties);
        let sent = Sent {
            queue,
            published_ms: self.now_ms(),
            expiration_ms,
            deadline_ms: self.quorum.deadline_ms(queue, expiration_ms),
            priority: priority.unwrap_or(PRIORITY_DEFAULT).min(PRIORITY_MAX),
            content,
            named,
            n_attempts: 1,
            expected: None,
            answer: None,
            is_sure: false,
            is_over: false,
        };
        (id, sent)
    }

    /// The answer that a publish has to have, behind `n_new` others of the same read, as far as that is
    /// certain.
    fn expected(&self, queue: &str, n_new: u64) -> Option<bool> {
        let Some(there) = self.harness.queue(queue) else { return Some(true) };
        let (rules, stat) = (self.quorum.rules(queue), there.stat());
        let ever_waits = self.quorum.ever(queue).any(|rules| rules.retry.is_some());
        if rules.confirms_late || rules.max_bytes.is_some() || ever_waits {
            return None;
        }
        let Some(max) = rules.max_length.filter(|_| rules.rejects) else { return Some(true) };
        let n_departing = if rules.is_at_least_once() { stat.n_departing } else { 0 };
        if stat.n_ready + n_departing + n_new < max {
            return Some(true);
        }
        let ends = |sent: &Sent| sent.queue == queue && sent.deadline_ms.is_some();
        let may_leave = self.consumers_of(queue).next().is_some()
            || self.quorum.ever(queue).any(|rules| rules.ttl_ms.is_some())
            || self.quorum.sent.values().any(ends)
            || n_departing > 0;
        (stat.n_ready >= max && !may_leave).then_some(false)
    }

    fn settle(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let outcome = self.harness.some_outcome();
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let n = self.harness.random.below(state.held.len() + 1);
        let some: Vec<_> = state.held.extract_if(.., |_, _| true).take(n).collect();
        let mut read = Read::default();
        for ((link, position), copy) in some {
            self.peer_forgets(peer, (link, position));
            if self.streams.retention(copy.queue).is_none() {
                self.quorum.settle(copy, outcome);
                self.use_queue(copy.queue);
            }
            read.requests.push(Request::Settle(settle(1, (link, position), outcome)));
        }
        self.harness.note(format!("client {peer} settles {n}, {outcome:?}"));
        self.submit(peer, read);
    }

    fn peer_forgets(&self, peer: usize, (link, position): (u64, session::Position)) {
        if let Some(state) = self.peers.get(&peer) {
            state.recorder.forget(link, position);
        }
    }

    fn new_link(&mut self, queue: &'static str) -> Link {
        self.n_links += 1;
        Link {
            queue,
            tag: format!("c{}", self.n_links),
            is_consumer: true,
            no_ack: false,
            prefetch: 0,
            priority: 0,
            number: self.n_links,
            newest: BTreeMap::new(),
        }
    }

    fn consume(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let queues: Vec<_> = self.queues().into_iter().filter(|it| self.is_usable(it)).collect();
        let Some(queue) = self.harness.random.choose(&queues) else { return };
        let prefetch_count = self.harness.random.choose(PREFETCHES).unwrap_or(1);
        self.control(peer, Op::SetPrefetch { prefetch_count, global: false });
        if self.is_over() {
            return;
        }
        let mut link = Link { prefetch: prefetch_count.into(), ..self.new_link(queue) };
        let mut arguments = Table::default();
        if self.streams.retention(queue).is_some() {
            if self.harness.random.percent(70) {
                arguments.push(short("x-stream-offset"), "first");
            }
        } else {
            self.use_queue(queue);
            link.priority = self.harness.random.perhaps(30, &[-1, 1, 5]).unwrap_or(0);
            arguments.push(short("x-priority"), link.priority);
        }
        let consumer_tag = short(&link.tag);
        self.asking = Some(Asking::Consume(link));
        let (queue, no_ack, exclusive) = (short(queue), false, false);
        let attachment = Attachment {
            queue,
            consumer_tag,
            no_ack,
            has_link_credit: false,
            exclusive,
            arguments,
        };
        self.control(peer, Op::Attach(attachment));
    }

    fn cancel(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let Some(state) = self.peers.get(&peer) else { return };
        let links = state.links.values().filter(|link| link.is_consumer);
        let tags: Vec<String> = links.map(|link| link.tag.clone()).collect();
        let Some(tag) = self.harness.random.choose(&tags) else { return };
        self.control(peer, Op::Detach { consumer_tag: short(&tag) });
    }

    fn some_quorum_queue(&mut self) -> Option<&'static str> {
        let queue = self.harness.random.choose(QUORUM_QUEUES)?;
        self.is_usable(queue).then_some(queue)
    }

    fn get(&mut self) {
        let (Some(peer), Some(queue)) = (self.some_peer(), self.some_quorum_queue()) else {
            return;
        };
        if self.quorum.rules(queue).is_single_active {
            return;
        }
        let no_ack = self.harness.random.percent(30);
        let link = Link { is_consumer: false, no_ack, ..self.new_link(queue) };
        self.use_queue(queue);
        self.asking = Some(Asking::Get(link));
        self.control(peer, Op::Get { queue: short(queue), no_ack });
    }

    fn purge(&mut self) {
        let (Some(peer), Some(queue)) = (self.some_peer(), self.some_quorum_queue()) else {
            return;
        };
        let held = self.held_of(queue);
        let n_unacked = self.harness.queue(queue).map_or(0, |queue| queue.stat().n_unacked);
        self.control(peer, Op::PurgeQueue { queue: short(queue) });
        let is_known = !self.is_over() && n_unacked == held.len() as u64;
        self.quorum.purge(queue, &held, is_known);
    }

    fn delete(&mut self) {
        let (Some(peer), Some(queue)) = (self.some_peer(), self.some_quorum_queue()) else {
            return;
        };
        let (if_unused, if_empty) = (Flag::No, Flag::No);
        self.control(peer, Op::DeleteQueue { queue: short(queue), if_unused, if_empty });
        self.remove(queue);
        for state in self.peers.values_mut() {
            let gone: Vec<_> =
                state.held.extract_if(.., |_, copy| copy.queue == queue).map(|it| it.0).collect();
            gone.into_iter().for_each(|(link, position)| state.recorder.forget(link, position));
            state.links.retain(|_, link| link.queue != queue);
        }
    }

    fn change_policy(&mut self) {
        if self.has_rules {
            let of = self.harness.random.perhaps(60, QUORUM_QUEUES);
            let policy = Policy::new(&mut self.harness.random);
            self.set_policy(of, policy);
        }
    }

    pub(super) fn set_policy(&mut self, of: Option<&'static str>, policy: Policy) {
        let (pattern, definition) = (of.unwrap_or("^q"), policy.definition());
        self.harness.note(format!("policy: {pattern} {definition}"));
        self.quorum.set_policy(of, policy);
        let is_done = self.harness.apply_definition(set_policy("rules", pattern, &definition));
        self.take_in();
        if !is_done && !self.is_over() {
            fail("a policy is not taken");
        }
    }

    /// Declares what is not there.
    pub(super) fn declare_missing(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        for queue in self.queues() {
            if self.is_over() {
                return;
            }
            if !self.is_there(queue) {
                self.declare(peer, queue);
            }
        }
    }

    fn declare(&mut self, peer: usize, queue: &'static str) {
        if let Some(retention) = self.streams.retention(queue) {
            self.control(peer, declaration(queue, retention));
        } else {
            let rules = self.quorum.rules.get(queue).copied().unwrap_or_default();
            // It may have gone just now.
            self.note_missing(queue);
            self.use_queue(queue);
            self.declare_quorum(peer, queue, &rules);
        }
        if !self.is_over() {
            self.declared.insert(queue);
        }
    }

    fn declare_quorum(&mut self, peer: usize, queue: &'static str, rules: &Rules) {
        self.control(peer, rules.declare(queue));
        if !self.is_over() {
            self.quorum.declared(queue);
            self.names.forget(queue);
        }
        if let Some(bind) = rules.bind(queue).filter(|_| !self.is_over()) {
            self.control(peer, bind);
        }
        if self.is_over() {
            self.quorum.doubt(queue);
        }
    }
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

fn declaration(stream: &str, retention: ledger::Retention) -> Op {
    let mut arguments = Arguments::default();
    arguments.text("x-queue-type", Some("stream"));
    arguments.number("x-stream-max-segment-size-bytes", Some(ledger::SEGMENT_BYTES));
    arguments.number("x-max-length-bytes", retention.max_bytes);
    let max_age = retention.max_age_days.map(|days| format!("{days}D"));
    arguments.text("x-max-age", max_age.as_deref());
    arguments.declare(stream, true)
}

/// A body as a section of AMQP 1.0.
fn data_section(body: &[u8]) -> Vec<u8> {
    let n_bytes = u32::try_from(body.len()).expect("a simulated body is small").to_be_bytes();
    [b"\x00\x53\x75\xb0", &n_bytes[..], body].concat()
}
