//! The work of clients of queues with limits, expiry and dead letters.

use super::ledger::Sent;
use super::{Asking, Peer, QueuePolicies};
use crate::client::{Read, control, settle, short};
use crate::harness::{Connected, fail};
use crate::trace::join;
use session::{Attachment, Op, Outcome, Request, Table};
use std::collections::BTreeMap;
use testing::outbox::Content;

const PEERS_MAX: usize = 4;
const PUBLISHES_MAX: usize = 12;

impl QueuePolicies {
    /// One random thing happens.
    pub(super) fn act(&mut self) {
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
        self.check();
    }

    /// Parts of the node have a turn.
    fn step(&mut self) {
        self.harness.step_part();
        self.check_events();
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

    fn some_peer(&mut self) -> Option<usize> {
        self.harness.random.choose_key(&self.peers)
    }

    fn some_queue(&mut self) -> Option<&'static str> {
        let queues = self.queues();
        self.harness.random.choose(&queues)
    }

    pub(super) fn connect(&mut self) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let Connected { client: number, recorder, session, .. } = self.harness.connect();
        self.harness.note(format!("client {number} connects"));
        let peer = Peer {
            session: Some(session),
            recorder,
            n_published: 0,
            unconfirmed: BTreeMap::new(),
            links: BTreeMap::new(),
            held: BTreeMap::new(),
            prefetch: 0,
        };
        self.peers.insert(number, peer);
        self.control(number, Op::OpenChannel);
        self.control(number, Op::EnableConfirms);
    }

    pub(super) fn control(&mut self, peer: usize, op: Op) {
        self.harness.note(format!("client {peer}: {op:?}"));
        self.submit(peer, &[], vec![control(1, op)]);
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        // Who is gone is told nothing any more.
        self.dry();
        self.disconnect(peer);
    }

    pub(super) fn disconnect(&mut self, peer: usize) {
        self.harness.note(format!("client {peer} is lost"));
        let session = self.peers.get_mut(&peer).and_then(|state| state.session.take());
        let Some(session) = session else { return };
        let is_closed = self.harness.close(session);
        // What one of its consumers held may have gone to another one first.
        self.check_events();
        let Some(state) = self.peers.remove(&peer) else { return };
        for at in state.held.values() {
            self.ledger.note_failed(*at);
            self.returned_to.insert(at.1);
        }
        let consumers = state.links.values().filter(|link| link.is_consumer);
        let queues: Vec<&'static str> = consumers.map(|link| link.queue).collect();
        queues.into_iter().for_each(|queue| self.use_queue(queue));
        if !is_closed && !self.harness.has_failed() {
            fail("a client cannot leave");
        }
    }

    fn read(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let state = self.peer(peer);
        let links = state.recorder.read_all();
        if let Some(session) = &state.session {
            session.resume(&links);
        }
        self.harness.note(format!("client {peer} reads"));
        self.check_events();
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
            let state = self.peer(peer);
            state.n_published += 1;
            state.unconfirmed.insert(state.n_published, id);
            shown.push(format!("m{id}>{queue}"));
            if sent.is_routed {
                self.enforced.insert(queue);
            }
            self.ledger.sent.insert(id, sent);
        }
        self.harness.note(format!("client {peer} publishes {}", join(shown)));
        self.submit(peer, &read.input, read.requests);
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
        self.submit(peer, &[], requests);
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
        self.control(peer, Op::SetPrefetch { prefetch_count, global: false });
        // Those that are there have the limit they came with.
        let is_first = self.peer(peer).links.values().all(|link| !link.is_consumer);
        let state = self.peer(peer);
        let known = state.prefetch;
        let unlimited = prefetch_count == 0 || (!is_first && known == 0);
        state.prefetch = if unlimited { 0 } else { known.max(usize::from(prefetch_count)) };
        if self.harness.has_failed() {
            return;
        }
        let tag = format!("c{}", self.n_links);
        self.use_queue(queue);
        self.asking = Some(Asking::Consume { queue, tag: tag.clone(), no_ack });
        let op = Op::Attach(Attachment {
            queue: short(queue),
            consumer_tag: short(&tag),
            no_ack,
            exclusive: false,
            arguments: Table::default(),
        });
        self.control(peer, op);
    }

    fn cancel(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let links = self.peer(peer).links.values().filter(|link| link.is_consumer);
        let tags: Vec<String> = links.map(|link| link.tag.clone()).collect();
        let Some(tag) = self.harness.random.choose(&tags) else { return };
        self.control(peer, Op::Detach { consumer_tag: short(&tag) });
    }

    fn get(&mut self) {
        let (Some(peer), Some(queue)) = (self.some_peer(), self.some_queue()) else { return };
        let no_ack = self.harness.random.percent(20);
        self.get_from(peer, queue, no_ack);
    }

    pub(super) fn get_from(&mut self, peer: usize, queue: &'static str, no_ack: bool) {
        self.use_queue(queue);
        self.asking = Some(Asking::Get { queue, no_ack });
        self.control(peer, Op::Get { queue: short(queue), no_ack });
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
            self.control(peer, spec.declare());
            if self.harness.has_failed() {
                return;
            }
            self.use_queue(spec.name);
            if let Some(bind) = spec.bind() {
                self.control(peer, bind);
            }
        }
    }
}
