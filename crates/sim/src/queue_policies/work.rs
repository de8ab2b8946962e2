//! The work of clients of queues with limits, expiry and dead letters.

use super::QueuePolicies;
use super::ledger::Sent;
use crate::client::{Read, settle, short};
use crate::trace::join;
use crate::world::{Channel, World};
use session::{Op, Outcome, Request};
use testing::outbox::Content;

const PUBLISHES_MAX: usize = 12;

impl QueuePolicies {
    /// One random thing happens.
    pub(super) fn do_something(&mut self) {
        match self.harness.random.below(100) {
            0..10 => self.step(),
            10..24 => self.tick(),
            24..30 => self.connect(),
            30..32 => self.leave(),
            32..36 => self.read(),
            36..62 => self.publish(),
            62..80 => self.settle(),
            80..90 => self.consume(),
            90..92 => self.cancel(),
            92..96 => self.get(),
            96..98 => self.harness.change_versions(),
            _ => self.declare_missing(),
        }
    }

    fn tick(&mut self) {
        let ms = self.harness.random.choose(&[1, 500, 1_000, 1_000, 3_000, 6_000]).unwrap_or(1);
        self.ledger.now_ms += ms;
        self.harness.tick(self.ledger.now_ms);
        self.is_dry = false;
        if self.harness.random.percent(60) {
            self.dry();
        }
    }

    fn some_queue(&mut self) -> Option<&'static str> {
        let queues = self.queues();
        self.harness.random.choose(&queues)
    }

    pub(super) fn connect(&mut self) {
        let Some(peer) = self.add_peer() else { return };
        self.control(peer, 1, Op::OpenChannel);
        self.peer(peer).channels.insert(1, Channel::default());
        self.enable_confirms(peer, 1);
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        // Who is gone is told nothing any more.
        self.dry();
        self.disconnect(peer);
    }

    fn publish(&mut self) {
        let Some(peer) = self.some_peer() else { return self.connect() };
        let (mut read, mut shown) = (Read::default(), Vec::new());
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let names: Vec<&'static str> = self.ledger.specs.keys().copied().collect();
            let Some(queue) = self.harness.random.choose(&names) else { return };
            let sent = self.make_message(queue);
            let id = self.ledger.sent.len() as u64 + 1;
            read.publish(1, &sent.content);
            self.peer(peer).number(1, id);
            shown.push(format!("m{id}>{queue}"));
            if sent.is_routed {
                self.enforced.insert(queue);
            }
            self.ledger.sent.insert(id, sent);
        }
        self.harness.note(format!("client {peer} publishes {}", join(shown)));
        self.submit(peer, read);
    }

    fn make_message(&mut self, queue: &'static str) -> Sent {
        let id = self.ledger.sent.len() as u64 + 1;
        let expiration_ms = if self.harness.random.percent(15) {
            self.harness.random.choose(&[0, 700, 4_000])
        } else {
            None
        };
        let priority = u8::try_from(self.harness.random.below(6)).unwrap_or(0);
        let properties = message::Properties {
            priority: self.harness.random.percent(60).then_some(priority),
            expiration: expiration_ms.map(|ms: u64| short(&ms.to_string())),
            ..message::Properties::default()
        };
        let size = self.harness.random.choose(&[0, 20, 300, 3_000, 9_000]).unwrap_or(0);
        let content = Content {
            exchange: Vec::new(),
            key: queue.into(),
            properties: properties.to_bytes(),
            body: Content::numbered_body(id, size),
            persistent: self.harness.random.percent(75),
            form: Content::form_of(id),
        };
        Sent {
            queue,
            published_ms: self.ledger.now_ms,
            expiration_ms,
            priority: properties.priority.unwrap_or(0),
            content,
            is_routed: self.is_there(queue),
            answer: None,
            is_sure: true,
            is_gone: false,
        }
    }

    fn settle(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let held: Vec<_> = self.peer(peer).held.iter().map(|(key, at)| (*key, *at)).collect();
        let some = self.harness.random.choose(&[20, 60, 100]).unwrap_or(100);
        let held: Vec<_> = held.into_iter().filter(|_| self.harness.random.percent(some)).collect();
        if held.is_empty() {
            return;
        }
        let outcomes = [Outcome::Accepted, Outcome::Rejected, Outcome::Modified, Outcome::Released];
        let outcome = self.harness.random.choose(&outcomes).unwrap_or(Outcome::Accepted);
        self.harness.note(format!("client {peer} settles {held:?} {outcome:?}"));
        let mut requests = Vec::new();
        for ((link, position), at) in held {
            self.peer(peer).held.remove(&(link, position));
            self.take_outcome(at, outcome);
            requests.push(Request::Settle(settle(1, (link, position), outcome)));
        }
        self.submit(peer, Read::of(requests));
    }

    fn take_outcome(&mut self, at: (u64, &'static str), outcome: Outcome) {
        match outcome {
            Outcome::Accepted => drop(self.ledger.consumed.insert(at)),
            Outcome::Rejected => drop(self.ledger.rejected.insert(at)),
            Outcome::Modified => {
                self.ledger.note_failed(at);
                self.returned_to.insert(at.1);
            }
            Outcome::Released => drop(self.returned_to.insert(at.1)),
        }
    }

    fn consume(&mut self) {
        let (Some(peer), Some(queue)) = (self.some_peer(), self.some_queue()) else { return };
        let no_ack = self.harness.random.percent(15);
        let prefetch_count = self.harness.random.choose(&[0, 1, 3, 10]).unwrap_or(0);
        self.control(peer, 1, Op::SetPrefetch { prefetch_count, global: false });
        // Those that are there have the limit they came with.
        let is_first = self.peer(peer).links.values().all(|link| !link.is_consumer);
        let state = self.peer(peer);
        let known = state.prefetch;
        let unlimited = prefetch_count == 0 || (!is_first && known == 0);
        state.prefetch = if unlimited { 0 } else { known.max(usize::from(prefetch_count)) };
        if self.harness.has_failed() {
            return;
        }
        let tag = format!("c{}", self.crowd.n_links);
        self.use_queue(queue);
        self.attach(peer, self.consumer(queue, 1, tag, no_ack));
    }

    fn get(&mut self) {
        let (Some(peer), Some(queue)) = (self.some_peer(), self.some_queue()) else { return };
        let no_ack = self.harness.random.percent(20);
        self.use_queue(queue);
        self.get_from(peer, 1, queue, no_ack);
    }

    /// Declares what is not there.
    pub(super) fn declare_missing(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let specs: Vec<_> = self.ledger.specs.values().cloned().collect();
        for spec in specs {
            if self.harness.has_failed() || self.is_there(spec.name) {
                continue;
            }
            // It may have gone just now.
            self.note_missing(&spec);
            self.control(peer, 1, spec.declare());
            if self.harness.has_failed() {
                return;
            }
            self.use_queue(spec.name);
            if let Some(bind) = spec.bind() {
                self.control(peer, 1, bind);
            }
        }
    }
}
