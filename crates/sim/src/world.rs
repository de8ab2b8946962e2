//! The world of queues with rules, and of streams: clients with confirms, consumers that settle or give back,
//! time, policies, and crashes at any write. Which of these a run has is a matter of its seed
//! ([`Features`]).
//!
//! The model of `plain_queues.rs` follows every message. Here nobody says when a rule acts, so what clients
//! are told is held against the rules one by one, and each message is asked at the end, and after each
//! start, where it is: in its queue, where its dead letters go, or gone by a rule that allows it
//! ([`ledger`]). Of a stream the offsets have no gap and keep their messages for ever, and only retention
//! takes any, from the front ([`streams`]).

mod accounts;
mod answers;
mod frame_client;
mod frames;
mod hear;
mod ledger;
mod moves;
mod names;
mod peers;
mod restarts;
mod rules;
mod settle;
mod streams;
mod transactions;
mod tx_and_alarms;
mod work;

use crate::harness::{FIRST, Harness, Said};
use crate::node::{Node, NodeOptions, journal_operations_max, some_durability};
use crate::{AMQP10_FROM, LOG_QUEUES_FROM, SENT_ON_FROM};
use broker::{Clock, Diagnosis, StreamDurability};
use frames::Frames;
use ledger::{Copy, Ledger};
use log::Durability;
use meta::QueueVersion;
use names::Names;
use peers::{Link, Peer};
use session::{ErrorKind, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Now;
use streams::Streams;
use testing::Random;
use testing::run::{Trace, fail};

/// The time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;
const HOUR_MS: u64 = 3_600_000;
/// Bytes of messages that a queue never has more of in memory, in these worlds.
const ALLOWANCE_BYTES_MAX: usize = 4 << 20;

/// The features of a run.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "features are independent of each other")]
pub(crate) struct Features {
    /// Quorum queues and streams, in place of classic queues.
    pub(crate) has_logs: bool,
    /// Queues have rules that take messages, hold them back or send them on, and publishers name themselves.
    pub(crate) has_rules: bool,
    /// Queues that confirm a publish once a consumer has had it, among others that do not.
    pub(crate) confirms_late: bool,
    /// Limits in bytes of what waits for consumers, transactions and alarms beside.
    pub(crate) has_tx_and_alarms: bool,
    /// An operator sends messages on from queue to queue, some of them classic ones.
    pub(crate) sends_on: bool,
    /// Clients of AMQP 1.0 beside.
    pub(crate) has_frames: bool,
    /// Publishes wait no longer than an operator policy says, which changes.
    pub(crate) has_timeouts: bool,
}

impl Features {
    /// The features that a run has by its seed; none where queues are plain.
    pub(crate) fn of(seed: u64) -> Option<Self> {
        let none = Self::default();
        match (seed, seed % 4) {
            (AMQP10_FROM.., _) => {
                let (has_logs, has_tx_and_alarms) = (seed.is_multiple_of(2), seed % 4 > 1);
                Some(Self { has_frames: true, has_logs, has_tx_and_alarms, ..none })
            }
            (SENT_ON_FROM.., _) => Some(Self { has_logs: true, sends_on: true, ..none }),
            (LOG_QUEUES_FROM.., _) => Some(Self { has_logs: true, ..none }),
            (_, 0 | 2) => None,
            (_, 1) => Some(none),
            (_, _) => {
                let (has_tx_and_alarms, has_timeouts) = (seed % 8 == 7, seed % 16 == 11);
                Some(Self { confirms_late: true, has_tx_and_alarms, has_timeouts, ..none })
            }
        }
    }
}

/// A client's settlement, as long as it may be refused.
struct Saying {
    peer: usize,
    channel: u16,
    copies: Vec<Copy>,
    outcome: Outcome,
}

/// One run.
pub(crate) struct World {
    pub(crate) harness: Harness,
    features: Features,
    peers: BTreeMap<usize, Peer>,
    frames: Frames,
    /// The consumer, or the gets of a channel, that a client has asked for.
    asking: Option<Link>,
    saying: Option<Saying>,
    /// The client and channel that are expected to fail, and the error.
    failing: Option<(usize, u16, ErrorKind)>,
    ledger: Ledger,
    streams: Streams,
    names: Names,
    /// Queues that are there.
    declared: BTreeSet<&'static str>,
    /// When each queue was used last, at the earliest and at the latest.
    used_ms: BTreeMap<&'static str, (u64, u64)>,
    /// Queues that were published to since the start, and that nothing came back to: their limits hold.
    enforced: BTreeSet<&'static str>,
    returned_to: BTreeSet<&'static str>,
    /// The disk operation that is planned to fail.
    fault_at: Option<u64>,
    has_alarm: bool,
    /// Whether it is the disk's: dead letters wait for its end, and with them their confirms.
    is_disk_short: bool,
    /// Everything was done that the clock asks for.
    is_dry: bool,
    n_links: u64,
    n_messages: u64,
    /// Messages that clients got by asking.
    n_got: u64,
}

impl World {
    pub(crate) fn new(seed: u64, mut features: Features, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let percent = if features.has_frames { 50 } else { 75 };
        features.has_rules = !features.sends_on && (!features.has_logs || random.percent(percent));
        let streams = [StreamDurability::Fsync, StreamDurability::Write];
        let is_synced = features.has_logs || features.confirms_late;
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: if is_synced { Durability::Sync } else { some_durability(&mut random) },
            allowance_bytes: random.choose(&[0, 500, 4_000, ALLOWANCE_BYTES_MAX]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000, 2_000, 1 << 20]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::TicksFrom(Now::at_ms(BEGINS_MS)),
            stream_durability: random.choose(&streams).unwrap_or_default(),
        };
        let rules = rules::queues(&mut random, features).into_iter().collect();
        let streams = Streams::new(&mut random, features.has_logs);
        Self {
            harness: Harness::new(random, vec![options], trace),
            features,
            peers: BTreeMap::new(),
            frames: Frames::default(),
            asking: None,
            saying: None,
            failing: None,
            ledger: Ledger::new(rules, BEGINS_MS, features.has_frames),
            streams,
            names: Names::default(),
            declared: BTreeSet::new(),
            used_ms: BTreeMap::new(),
            enforced: BTreeSet::new(),
            returned_to: BTreeSet::new(),
            fault_at: None,
            has_alarm: false,
            is_disk_short: false,
            is_dry: false,
            n_links: 0,
            n_messages: 0,
            n_got: 0,
        }
    }

    /// Whether the life is over: nothing that is done from now on need be kept.
    fn is_over(&self) -> bool {
        let (disk, operations) =
            (&self.harness.host(FIRST).disk, self.harness.host(FIRST).disk.operations());
        // What a failing disk leaves undone of streams nobody says.
        let is_past = self.fault_at.is_some_and(|at| operations > at) || disk.has_lost_power();
        self.harness.host(FIRST).has_failed() || (self.features.has_logs && is_past)
    }

    /// The queues with rules.
    fn names(&self) -> Vec<&'static str> {
        self.ledger.rules.keys().copied().collect()
    }

    /// Queues with rules that are there.
    fn queues(&self) -> Vec<&'static str> {
        self.names().into_iter().filter(|queue| self.is_there(queue)).collect()
    }

    fn is_stream(&self, queue: &str) -> bool {
        self.streams.has(queue)
    }

    fn is_there(&self, queue: &str) -> bool {
        self.harness.host(FIRST).queue(queue).is_some()
    }

    /// Whether a queue is there, and cannot expire before it has heard a request.
    fn is_usable(&self, queue: &str) -> bool {
        self.is_there(queue) && !self.may_expire(queue)
    }

    /// Whether a queue confirms a publish once a consumer has had it.
    fn is_late(&self, queue: &str) -> bool {
        self.harness
            .host(FIRST)
            .queue(queue)
            .is_some_and(|queue| queue.confirm_on().waits_for_consumers())
    }

    /// Whether nobody uses a queue, for so long that it may be gone.
    fn may_expire(&self, queue: &str) -> bool {
        let expires_ms = self.ledger.rules(queue).expires_ms;
        let used_ms = self.used_ms.get(queue).map_or(0, |(used_ms, _)| *used_ms);
        expires_ms.is_some_and(|it| self.now_ms() >= used_ms + it) && !self.is_used(queue)
    }

    /// Whether a queue has consumers, or clients hold messages of a quorum queue.
    fn is_used(&self, queue: &str) -> bool {
        let is_held = self.ledger.rules(queue).is_quorum && !self.held_of(queue).is_empty();
        self.consumers_of(queue).next().is_some() || is_held
    }

    fn use_queue(&mut self, queue: &'static str) {
        self.used_ms.insert(queue, (self.now_ms(), self.now_ms()));
    }

    /// Clients that hold messages of a quorum queue use it.
    fn use_by_hold(&mut self, queue: &'static str) {
        if self.ledger.rules(queue).is_quorum {
            self.use_queue(queue);
        }
    }

    const fn now_ms(&self) -> u64 {
        self.ledger.now_ms
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            if self.is_over() {
                return;
            }
            self.note_modes();
            let stepped = self.harness.host_mut(FIRST).node.as_mut().is_some_and(Node::step);
            self.take_in();
            if !stepped && !std::mem::take(&mut self.frames.has_heard) {
                return self.check_dry();
            }
        }
        fail("there is no end to what there is to do");
    }

    /// Checks what holds of a node that has nothing left to do by itself.
    fn check_dry(&mut self) {
        self.is_dry = true;
        if self.is_over() {
            return;
        }
        let channels = || self.peers.values().flat_map(|peer| peer.channels.values());
        let waiting: Vec<u64> =
            channels().flat_map(|channel| channel.unconfirmed.values().copied()).collect();
        let overdue = waiting.iter().find(|id| self.ledger.must_be_answered(**id));
        if let Some(id) = overdue.filter(|_| !self.is_disk_short) {
            fail(format!("m{id} is not answered"));
        }
        let queues =
            self.queues().into_iter().filter_map(|name| self.harness.host(FIRST).queue(name));
        let n_pending: u64 = queues.map(|queue| Diagnosis(&queue).pending_confirms().n).sum();
        if !self.features.has_logs && n_pending < waiting.len() as u64 {
            fail(format!("{} wait, and {n_pending} in queues", waiting.len()));
        }
        // A start leaves what a queue has too much to the rules. Under the disk's alarm dead letters wait.
        if !self.is_disk_short {
            self.enforced.extend(self.queues());
        }
        self.check_dry_frames();
        self.peers.values().for_each(Peer::check_listed);
        for (queue, (_, used_ms)) in &self.used_ms {
            let expires_ms = self.ledger.rules(queue).expires_ms;
            let expires_ms = expires_ms.filter(|_| !self.is_used(queue));
            let is_unused = expires_ms.is_some_and(|it| self.now_ms() >= used_ms + it);
            if is_unused && self.is_there(queue) {
                fail(format!("{queue} is unused and still there"));
            }
        }
    }

    /// Checks what holds between two operations.
    fn check(&mut self) {
        self.note_modes();
        for name in self.names() {
            if self.is_over() {
                return;
            }
            let Some(queue) = self.harness.host(FIRST).queue(name) else {
                self.note_missing(name);
                continue;
            };
            let (rules, stat) = (self.ledger.rules(name), queue.local_stat());
            let is_full = rules.max_length.is_some_and(|max| stat.n_ready > max);
            if is_full && self.is_limit_kept(name) {
                fail(format!("{name} has {} messages", stat.n_ready));
            }
            let n_held = self.held_of(name).len() as u64;
            if rules.is_quorum && stat.n_unacked < n_held {
                fail(format!("{name} knows of {} that clients hold", stat.n_unacked));
            }
            let pending = Diagnosis(&queue).pending_confirms();
            let n_there = stat.n_ready + stat.n_unacked + stat.n_departing;
            let is_over = |limit: Option<u64>, n| limit.is_some_and(|limit| n > limit);
            if (pending.n > n_there && !rules.is_quorum)
                || is_over(rules.max_pending, pending.n)
                || is_over(rules.max_pending_bytes, pending.bytes)
            {
                fail(format!("{} wait for {n_there} messages of {name}", pending.n));
            }
            if !rules.is_quorum && pending.n != stat.n_pending_confirms {
                fail(format!("{name} is listed with other confirms than it has"));
            }
        }
    }

    /// Whether a queue has no more messages than it may have by its length.
    fn is_limit_kept(&self, queue: &str) -> bool {
        let rules = self.ledger.rules(queue);
        if rules.is_quorum {
            return !rules.may_refuse();
        }
        // Nothing goes from a full one that refuses publishes, also when something comes back. Sizes of what
        // is on disk only are found out before more goes.
        let is_old = self.ledger.past.n_starts > 0 || self.returned_to.contains(queue);
        let may_stay = rules.may_refuse() && is_old;
        self.enforced.contains(queue) && !may_stay && rules.max_bytes.is_none()
    }

    /// Notes how each queue confirms.
    fn note_modes(&mut self) {
        for name in self.names() {
            let is_late = self
                .harness
                .host(FIRST)
                .queue(name)
                .map(|queue| queue.confirm_on().waits_for_consumers());
            let life = &mut self.ledger.life;
            match is_late {
                None => drop(life.ever_missing.insert(name)),
                Some(true) => drop(life.ever_late.insert(name)),
                Some(false) => drop(life.ever_plain.insert(name)),
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
        self.enforced.remove(queue);
        self.ledger.remove(queue);
        self.names.forget(queue);
        self.frames.lose_queue(queue);
    }

    /// A client's request has these answers.
    fn check_said(&mut self, said: Said) {
        self.take_in();
        if !self.is_over() {
            said.check();
            if self.asking.is_some() {
                fail("a question has no answer");
            }
            if let Some((_, channel, kind)) = self.failing {
                fail(format!("channel {channel} should have failed, {kind:?}"));
            }
        }
        (self.asking, self.failing) = (None, None);
    }
}
