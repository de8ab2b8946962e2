//! The work of clients of queues with `x-confirm-on`, and changes to those queues.

use super::ledger::{Copy, Sent};
use super::spec::{SPREAD, Spec};
use super::{ConfirmOn, Kind};
use crate::client::{Read, short};
use crate::harness::fail;
use crate::node::{set_operator_policy, set_policy};
use crate::trace::join;
use crate::world::{Channel, Link, Peer, World};
use session::{Flag, Op};
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::Content;

const CHANNELS_MAX: u16 = 2;
const PUBLISHES_MAX: usize = 12;

impl ConfirmOn {
    /// One random thing happens.
    pub(super) fn do_something(&mut self) {
        if self.kind == Kind::TxAndAlarms && self.harness.random.percent(4) {
            self.set_alarm(!self.has_alarm);
            return;
        }
        if self.kind == Kind::Timeouts && self.harness.random.percent(2) {
            self.set_timeout();
            return;
        }
        match self.harness.random.below(100) {
            0..8 => self.step(),
            8..14 => self.tick(),
            14..19 => self.connect(),
            19..21 => self.leave(),
            21..24 => self.read(),
            24..50 => self.publish(),
            50..66 => self.settle(),
            66..70 => self.write(),
            70..79 => self.consume(),
            79..82 => self.cancel(),
            82..86 => self.get(),
            86..89 => self.close_or_open(),
            89..91 => self.recover(),
            91..93 => self.fail(),
            93..96 => self.change_policy(),
            96 => self.purge(),
            97 => self.delete(),
            _ => self.declare_missing(),
        }
    }

    fn tick(&mut self) {
        self.now_ms += self.harness.random.choose(&[1, 500, 1_000, 5_000]).unwrap_or(1);
        self.ledger.now_ms = self.now_ms;
        self.harness.tick(self.now_ms);
        if self.harness.random.percent(70) {
            self.dry();
        }
    }

    fn some_queue(&mut self) -> Option<&'static str> {
        let queues = self.queues();
        self.harness.random.choose(&queues)
    }

    pub(super) fn connect(&mut self) {
        let Some(peer) = self.add_peer() else { return };
        (1..=CHANNELS_MAX).for_each(|channel| self.open(peer, channel));
    }

    fn open(&mut self, peer: usize, channel: u16) {
        self.control(peer, channel, Op::OpenChannel);
        self.peer(peer).channels.insert(channel, Channel::default());
        if self.kind == Kind::TxAndAlarms
            && self.harness.random.percent(30)
            && !self.harness.has_failed()
        {
            return self.open_tx(peer, channel);
        }
        if self.harness.random.percent(90) && !self.harness.has_failed() {
            self.enable_confirms(peer, channel);
        }
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
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
        if self.harness.random.percent(60) && !self.harness.has_failed() {
            self.open(peer, channel);
        }
    }

    fn publish(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return self.connect() };
        let (mut read, mut shown) = (Read::default(), Vec::new());
        let mut published = Vec::new();
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let (one, sent) = self.make_message();
            let id = self.ledger.sent.len() as u64 + 1;
            read.publish(channel, &sent.content);
            published.push((id, one));
            shown.push(format!("m{id}>{}", join(sent.queues.keys())));
            self.ledger.sent.insert(id, sent);
        }
        self.harness
            .note(format!("client {peer}, channel {channel} publishes {}", shown.join(", ")));
        if self.has_alarm {
            return self.publish_later(peer, channel, published, read);
        }
        for (id, _) in &published {
            self.peer(peer).number(channel, *id);
        }
        self.submit(peer, read);
        if self.is_transactional(peer, channel) {
            self.end_publishing(peer, channel, &published);
        }
    }

    /// A message, and the queue it goes to if it is only one.
    fn make_message(&mut self) -> (Option<&'static str>, Sent) {
        let names = self.names();
        let to_several = self.harness.random.percent(35);
        let one = self.harness.random.choose(&names).filter(|_| !to_several);
        let content = self.make_content(one);
        let size = content.body.len() + content.properties.len();
        let is_large = size >= self.harness.options.embed_below_bytes;
        let (queues, refusable) = self.route(one);
        let (answer, is_committed, at_ms) = (None, false, self.now_ms);
        (one, Sent { queues, refusable, content, is_large, answer, is_committed, at_ms })
    }

    /// The queues a message goes to that is published now, and whether they confirm late; and those of
    /// them that may refuse it.
    pub(super) fn route(
        &self,
        one: Option<&'static str>,
    ) -> (BTreeMap<&'static str, bool>, BTreeSet<&'static str>) {
        let goes_to = |queue: &&'static str| match one {
            Some(one) => *queue == one,
            None => self.ledger.spec(queue).on_spread,
        };
        let queues = self.queues().into_iter().filter(goes_to);
        let is_late = |name| {
            self.harness.queue(name).is_some_and(|queue| queue.confirm_on().waits_for_consumers())
        };
        let queues: BTreeMap<_, _> = queues.map(|name| (name, is_late(name))).collect();
        let may_refuse = |(name, is_late): (&&'static str, &bool)| {
            let spec = self.ledger.spec(name);
            let has_nobody = spec.wants_consumer && self.crowd.n_consumers(name) == 0;
            let may = spec.may_refuse() || (*is_late && (spec.limits_pending() || has_nobody));
            may.then_some(*name)
        };
        let refusable: BTreeSet<_> = queues.iter().filter_map(may_refuse).collect();
        (queues, refusable)
    }

    fn make_content(&mut self, to: Option<&'static str>) -> Content {
        let id = self.ledger.sent.len() as u64 + 1;
        let persistent = self.harness.random.percent(75);
        let properties = message::Properties {
            delivery_mode: persistent.then_some(2),
            ..message::Properties::default()
        };
        let size = self.harness.random.choose(&[0, 20, 300, 3_000]).unwrap_or(0);
        Content {
            exchange: if to.is_some() { Vec::new() } else { SPREAD.into() },
            key: to.unwrap_or("").into(),
            properties: properties.to_bytes(),
            body: Content::numbered_body(id, size),
            persistent,
            form: Content::form_of(id),
        }
    }

    fn consume(&mut self) {
        let (Some((peer, channel)), Some(queue)) = (self.some_channel(), self.some_queue()) else {
            return;
        };
        let no_ack = self.harness.random.percent(25);
        let prefetch_count = self.harness.random.choose(&[0, 1, 3, 10]).unwrap_or(0);
        self.control(peer, channel, Op::SetPrefetch { prefetch_count, global: false });
        if self.harness.has_failed() {
            return;
        }
        self.crowd.n_links += 1;
        let tag = format!("c{}", self.crowd.n_links);
        let link = self.consumer(queue, channel, tag, no_ack);
        self.attach(peer, Link { prefetch: prefetch_count.into(), ..link });
    }

    pub(super) fn cancel_all(&mut self, peer: usize) {
        let links = self.peer(peer).links.values().filter(|link| link.is_consumer);
        let tags: Vec<_> = links.map(|link| (link.channel, link.tag.clone())).collect();
        for (channel, tag) in tags {
            self.control(peer, channel, Op::Detach { consumer_tag: short(&tag) });
        }
    }

    fn get(&mut self) {
        let (Some((peer, channel)), Some(queue)) = (self.some_channel(), self.some_queue()) else {
            return;
        };
        let no_ack = self.harness.random.percent(30);
        self.get_from(peer, channel, queue, no_ack);
    }

    fn change_policy(&mut self) {
        let pattern = self.harness.random.choose(&["q0", "q[12]", "d.", ".*"]).unwrap_or(".*");
        let modes = ["ack", "ack", "ack-direct", "ack-direct", "enqueue"];
        let mode = self.harness.random.choose(&modes).unwrap_or("ack");
        self.harness.note(format!("policy: {pattern} confirms on {mode}"));
        let definition = format!("{{\"confirm-on\":\"{mode}\"}}");
        let is_set = self.harness.apply_definition(set_policy("confirms", pattern, &definition));
        self.check_events();
        if !self.harness.has_failed() && !is_set {
            fail("a policy is refused");
        }
    }

    /// An operator says how long publishes may wait, those that wait already among them.
    pub(super) fn set_timeout(&mut self) {
        let timeouts_ms = [1, 800, 3_000, 10_000, 3_600_000];
        let timeout_ms = self.harness.random.choose(&timeouts_ms).unwrap_or(1);
        self.harness.note(format!("publishes wait for {timeout_ms} ms"));
        self.ledger.set_timeout(timeout_ms);
        let definition = format!("{{\"confirm-timeout\":{timeout_ms}}}");
        let command = set_operator_policy("timeouts", ".*", &definition);
        let is_set = self.harness.apply_definition(command);
        self.check_events();
        if !self.harness.has_failed() && !is_set {
            fail("an operator policy is refused");
        }
    }

    fn purge(&mut self) {
        let (Some((peer, channel)), Some(queue)) = (self.some_channel(), self.some_queue()) else {
            return;
        };
        let held: BTreeSet<Copy> = self.crowd.peers.values().flat_map(Peer::copies).collect();
        let mut dropped = self.ledger.copies_in(queue);
        dropped.retain(|copy| copy.is_letter || !held.contains(copy));
        self.ledger.life.dropped.extend(dropped);
        self.control(peer, channel, Op::PurgeQueue { queue: short(queue) });
    }

    /// A queue goes with all that is in it, and with what is held of it.
    fn delete(&mut self) {
        let (Some((peer, channel)), Some(queue)) = (self.some_channel(), self.some_queue()) else {
            return;
        };
        let dropped = self.ledger.copies_in(queue);
        self.ledger.life.dropped.extend(dropped);
        self.ledger.life.ever_missing.insert(queue);
        for peer in self.crowd.peers.values_mut() {
            peer.held.retain(|_, copy| copy.queue != queue);
            peer.unwritten.retain(|(_, _, copy)| copy.queue != queue);
        }
        let (if_unused, if_empty) = (Flag::No, Flag::No);
        self.control(peer, channel, Op::DeleteQueue { queue: short(queue), if_unused, if_empty });
        // Consumers are told, or not, where clients do not want to be.
        for link in self.crowd.peers.values_mut().flat_map(|peer| peer.links.values_mut()) {
            link.is_consumer &= link.queue != queue;
        }
    }

    /// A crash may have come between a declaration and its bindings.
    pub(super) fn bind_all(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let binds: Vec<Op> = self.ledger.specs.values().flat_map(Spec::binds).collect();
        for bind in binds {
            if !self.harness.has_failed() {
                self.control(peer, channel, bind);
            }
        }
    }

    /// Declares what is not there.
    pub(super) fn declare_missing(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let specs: Vec<_> = self.ledger.specs.values().cloned().collect();
        for spec in specs {
            if self.harness.has_failed() || self.harness.queue(spec.name).is_some() {
                continue;
            }
            self.control(peer, channel, spec.declare());
            for bind in spec.binds() {
                if !self.harness.has_failed() {
                    self.control(peer, channel, bind);
                }
            }
        }
    }
}
