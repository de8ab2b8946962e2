//! Quorum queues and streams: publishers with confirms, consumers that settle or give back, time, and crashes
//! at any write. What was confirmed is held against what is there after each start: of a quorum queue nothing
//! confirmed is lost, and nothing comes twice without its mark; of a stream the offsets have no gap, keep
//! their messages for ever, and only retention takes any, from the front.
//!
//! In three of four seeds quorum queues have rules that take messages, hold them back or send them on
//! ([`rules`]), and publishers that name themselves and publish again.

mod accounts;
mod hear;
mod ledger;
mod names;
mod quorum;
mod restarts;
mod rules;
mod work;

use crate::client::{Read, control};
use crate::harness::{Harness, fail};
use crate::node::{Node, NodeOptions, journal_operations_max};
use broker::{Clock, Session, StreamDurability};
use ledger::Ledger;
use meta::QueueVersion;
use names::Names;
use quorum::{Copy, QuorumLedger};
use rules::Rules;
use session::{Op, Position};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::Now;
use testing::Random;
use testing::outbox::Recorder;

/// The time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;
const HOUR_MS: u64 = 3_600_000;
/// Bytes of messages that a queue never has more of in memory, in these worlds.
const ALLOWANCE_BYTES_MAX: usize = 4 << 20;
const QUORUM_QUEUES: &[&str] = &["q0", "q1", "q2"];

/// A consumer, or the gets of a channel from one queue.
struct Link {
    queue: &'static str,
    tag: String,
    is_consumer: bool,
    no_ack: bool,
    prefetch: usize,
    priority: i64,
    /// Consumers have come in this order.
    number: u64,
    /// By priority: the newest message it was the first to get.
    newest: BTreeMap<u8, u64>,
}

/// A connection with one channel.
struct Peer {
    /// None while it is being closed.
    session: Option<Session>,
    recorder: Arc<Recorder>,
    /// Whether its outbox is never full.
    has_room: bool,
    n_published: u64,
    /// By number of the publish: its message.
    unconfirmed: BTreeMap<u64, u64>,
    links: BTreeMap<u64, Link>,
    held: BTreeMap<(u64, Position), Copy>,
}

/// A client's request whose answer must be known.
enum Asking {
    Consume(Link),
    Get(Link),
}

/// One run.
pub(crate) struct LogQueues {
    pub(crate) harness: Harness,
    peers: BTreeMap<usize, Peer>,
    asking: Option<Asking>,
    streams: Ledger,
    quorum: QuorumLedger,
    names: Names,
    /// Queues that are there.
    declared: BTreeSet<&'static str>,
    /// When each queue was used last, at the earliest and at the latest.
    used_ms: BTreeMap<&'static str, (u64, u64)>,
    /// The disk operation that is planned to fail.
    fault_at: Option<u64>,
    n_links: u64,
    n_messages: u64,
    has_rules: bool,
}

impl LogQueues {
    pub(crate) fn new(seed: u64, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let stream_durability =
            random.choose(&[StreamDurability::Fsync, StreamDurability::Write]).unwrap_or_default();
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: log::Durability::Sync,
            allowance_bytes: random.choose(&[0, 500, ALLOWANCE_BYTES_MAX]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::TicksFrom(Now::at_ms(BEGINS_MS)),
            stream_durability,
        };
        let has_rules = random.percent(75);
        let mut some_rules = || {
            if has_rules { Rules::new(&mut random, QUORUM_QUEUES) } else { Rules::default() }
        };
        let rules = QUORUM_QUEUES.iter().map(|queue| (*queue, some_rules())).collect();
        let streams = Ledger::new(&mut random, BEGINS_MS);
        Self {
            harness: Harness::new(random, options, echo),
            peers: BTreeMap::new(),
            asking: None,
            streams,
            quorum: QuorumLedger::new(rules, BEGINS_MS),
            names: Names::default(),
            declared: BTreeSet::new(),
            used_ms: BTreeMap::new(),
            fault_at: None,
            n_links: 0,
            n_messages: 0,
            has_rules,
        }
    }

    /// Whether the life is over: the disk has failed.
    fn is_over(&self) -> bool {
        let (disk, operations) = (&self.harness.disk, self.harness.disk.operations());
        // Also by a loss of power that was planned for the start.
        let has_failed = self.harness.has_failed() || disk.has_lost_power();
        has_failed || self.fault_at.is_some_and(|at| operations > at)
    }

    fn queues(&self) -> Vec<&'static str> {
        self.quorum.rules.keys().copied().chain(self.streams.streams()).collect()
    }

    fn is_there(&self, queue: &str) -> bool {
        self.harness.queue(queue).is_some()
    }

    /// Whether a queue is there, and cannot expire before it has heard a request.
    fn is_usable(&self, queue: &str) -> bool {
        self.is_there(queue) && !self.may_expire(queue)
    }

    /// Whether nobody uses a queue, for so long that it may be gone.
    fn may_expire(&self, queue: &str) -> bool {
        let expires_ms = self.quorum.rules(queue).expires_ms;
        let used_ms = self.used_ms.get(queue).map_or(0, |(used_ms, _)| *used_ms);
        expires_ms.is_some_and(|it| self.now_ms() >= used_ms + it) && !self.is_used(queue)
    }

    const fn now_ms(&self) -> u64 {
        self.quorum.now_ms
    }

    fn control(&mut self, peer: usize, op: Op) {
        self.harness.note(format!("client {peer}: {op:?}"));
        self.submit(peer, Read::of(vec![control(1, op)]));
    }

    fn submit(&mut self, peer: usize, read: Read) {
        let session = self.peers.get_mut(&peer).and_then(|peer| peer.session.as_mut());
        let Some(session) = session else { return };
        let said = self.harness.say(session, read);
        self.take_in();
        if !self.is_over() {
            said.check();
            if self.asking.take().is_some() {
                fail("a question has no answer");
            }
        }
        self.asking = None;
    }

    fn some_peer(&mut self) -> Option<usize> {
        self.harness.random.choose_key(&self.peers)
    }

    fn consumers_of(&self, queue: &str) -> impl Iterator<Item = &Link> {
        let links = self.peers.values().flat_map(|peer| peer.links.values());
        links.filter(move |link| link.is_consumer && link.queue == queue)
    }

    /// Whether a queue has consumers, or clients hold messages of it.
    fn is_used(&self, queue: &str) -> bool {
        self.consumers_of(queue).next().is_some() || !self.held_of(queue).is_empty()
    }

    /// The messages of a queue that clients hold.
    fn held_of(&self, queue: &str) -> BTreeSet<u64> {
        let held = self.peers.values().flat_map(|peer| peer.held.values());
        held.filter(|copy| copy.queue == queue).map(|copy| copy.id).collect()
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            if self.is_over() {
                return;
            }
            let stepped = self.harness.node.as_mut().is_some_and(Node::step);
            self.take_in();
            if !stepped {
                return self.check_dry();
            }
        }
        fail("there is no end to what there is to do");
    }

    /// Checks what holds of a node that has nothing left to do by itself.
    fn check_dry(&self) {
        if self.is_over() {
            return;
        }
        let mut waiting = self.peers.values().flat_map(|peer| peer.unconfirmed.values());
        let confirms_late = |id: &&u64| {
            let sent = self.quorum.sent.get(id);
            sent.is_some_and(|sent| self.quorum.rules(sent.queue).confirms_late)
        };
        if let Some(id) = waiting.find(|id| !confirms_late(id)) {
            fail(format!("m{id} is not confirmed"));
        }
        for (queue, (_, used_ms)) in &self.used_ms {
            let expires_ms = self.quorum.rules(queue).expires_ms;
            let expires_ms = expires_ms.filter(|_| !self.is_used(queue));
            let is_unused = expires_ms.is_some_and(|it| self.now_ms() >= used_ms + it);
            if is_unused && self.is_there(queue) {
                fail(format!("{queue} is unused and still there"));
            }
        }
    }

    /// Checks what holds between two operations.
    fn check(&mut self) {
        for queue in QUORUM_QUEUES {
            if self.is_over() {
                return;
            }
            let rules = self.quorum.rules(queue);
            let Some(stat) = self.harness.queue(queue).map(|queue| queue.stat()) else {
                self.note_missing(queue);
                continue;
            };
            if !rules.rejects && rules.max_length.is_some_and(|max| stat.n_ready > max) {
                fail(format!("{queue} has {} messages", stat.n_ready));
            }
            if stat.n_unacked < self.held_of(queue).len() as u64 {
                fail(format!("{queue} knows of {} that clients hold", stat.n_unacked));
            }
        }
    }

    /// A queue is not there: it was not declared, or has not been used for too long.
    fn note_missing(&mut self, queue: &'static str) {
        if !self.declared.contains(queue) {
            return;
        }
        if !self.may_expire(queue) {
            fail(format!("{queue} is gone too early"));
        }
        self.remove(queue);
    }

    /// A queue is gone, or perhaps.
    fn remove(&mut self, queue: &'static str) {
        self.harness.note(format!("{queue} is gone"));
        self.declared.remove(queue);
        self.used_ms.remove(queue);
        self.quorum.remove(queue);
        self.names.forget(queue);
    }

    fn use_queue(&mut self, queue: &'static str) {
        self.used_ms.insert(queue, (self.now_ms(), self.now_ms()));
    }
}
