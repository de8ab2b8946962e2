//! Queues that confirm a publish once a consumer has had it (`x-confirm-on`), among others that do not:
//! random work with policies that change, consumers and publishers that go, and crashes of the node.
//!
//! The clients' acknowledgements are written down as they are made; what a publisher is told is held
//! against them ([`ledger`]), and against what clients are given later.

mod hear;
mod ledger;
mod restarts;
mod settle;
mod spec;
mod tx_and_alarms;
mod work;

use crate::harness::{Harness, fail};
use crate::node::{NodeOptions, journal_operations_max};
use crate::world::{Crowd, Peer, World};
use broker::{Clock, StreamDurability};
use ledger::{Copy, Ledger};
use meta::QueueVersion;
use session::{ErrorKind, Outcome};
use testing::Random;
use testing::outbox::Given;

/// The time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// The features of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Usual,
    /// Limits in bytes, transactions and alarms beside.
    TxAndAlarms,
    /// Publishes wait no longer than an operator policy says, which changes.
    Timeouts,
}

impl Kind {
    pub(crate) const fn of(seed: u64) -> Self {
        match seed % 16 {
            7 | 15 => Self::TxAndAlarms,
            11 => Self::Timeouts,
            _ => Self::Usual,
        }
    }
}

impl Peer<Copy> {
    /// The messages the client has and has not settled.
    fn copies(&self) -> impl Iterator<Item = Copy> + '_ {
        self.held.values().copied().chain(self.unwritten.iter().map(|(_, _, copy)| *copy))
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
pub(crate) struct ConfirmOn {
    pub(crate) harness: Harness,
    crowd: Crowd<Copy>,
    saying: Option<Saying>,
    /// The client and channel that are expected to fail, and the error.
    failing: Option<(usize, u16, ErrorKind)>,
    ledger: Ledger,
    now_ms: u64,
    kind: Kind,
    has_alarm: bool,
    /// Whether it is the disk's: dead letters wait for its end, and with them their confirms.
    is_disk_short: bool,
}

impl ConfirmOn {
    pub(crate) fn new(seed: u64, kind: Kind, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: log::Durability::Sync,
            allowance_bytes: random.choose(&[0, 500, 4_000, 4 << 20]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000, 2_000, 1 << 20]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::Ticks,
            stream_durability: StreamDurability::Write,
        };
        let specs =
            spec::specs(&mut random, kind).into_iter().map(|spec| (spec.name, spec)).collect();
        let ledger = Ledger::new(specs, BEGINS_MS);
        Self {
            harness: Harness::new(random, options, echo),
            crowd: Crowd::default(),
            saying: None,
            failing: None,
            ledger,
            now_ms: BEGINS_MS,
            kind,
            has_alarm: false,
            is_disk_short: false,
        }
    }

    fn names(&self) -> Vec<&'static str> {
        self.ledger.specs.keys().copied().collect()
    }

    /// Queues that are there.
    fn queues(&self) -> Vec<&'static str> {
        self.names().into_iter().filter(|queue| self.harness.queue(queue).is_some()).collect()
    }

    /// Checks the invariants between two operations.
    fn check(&mut self) {
        if self.harness.has_failed() {
            return;
        }
        self.note_state();
        for name in self.queues() {
            let Some(queue) = self.harness.queue(name) else { continue };
            let pending = queue.pending_confirms();
            let stat = queue.stat();
            let n_there = stat.n_ready + stat.n_unacked + stat.n_departing;
            if pending.n > n_there {
                fail(format!("{} wait for {n_there} messages of {name}", pending.n));
            }
            let spec = self.ledger.spec(name);
            let is_over = |limit: Option<u64>, n| limit.is_some_and(|limit| n > limit);
            if is_over(spec.max_pending, pending.n)
                || is_over(spec.max_pending_bytes, pending.bytes)
            {
                fail(format!("{} wait for messages of {name}", pending.n));
            }
            if pending.n != stat.n_pending_confirms {
                fail(format!("{name} is listed with other confirms than it has"));
            }
        }
    }

    fn take_saying(&mut self, saying: Saying, is_refused: bool) {
        let Saying { peer, channel, copies, outcome } = saying;
        if is_refused && !copies.iter().all(|copy| self.ledger.always_records(copy.queue)) {
            self.failing = Some((peer, channel, ErrorKind::NotImplementedByMode));
            self.release(peer, channel);
        } else if outcome == Outcome::Rejected {
            self.ledger.life.rejected.extend(copies);
        }
    }

    /// Checks that no other client holds the message.
    fn check_free(&self, copy: Copy) {
        let mut held = self.crowd.peers.values().flat_map(Peer::copies);
        if !copy.is_letter && held.any(|held| held == copy) {
            fail(format!("m{} of {} is given twice", copy.id, copy.queue));
        }
    }

    fn check_by_write(&self, queue: &str, given: &Given, no_ack: bool) {
        let life = &self.ledger.life;
        let must = no_ack && !life.ever_plain.contains(queue);
        let may = no_ack && life.ever_late.contains(queue);
        if (must && !given.by_write) || (given.by_write && !may) {
            fail(format!("a message of {queue} is settled by its write: {}", given.by_write));
        }
    }

    /// Checks that no client holds a confirmed message of a queue that confirms on consumption.
    fn check_nobody_holds(&self, id: u64, ack: bool) {
        let Some(sent) = self.ledger.sent.get(&id).filter(|_| ack) else { return };
        for (queue, is_late) in &sent.queues {
            if *is_late && !self.harness.has_failed() {
                self.check_free(Copy::first(id, queue));
            }
        }
    }

    /// A channel ends: what it holds may be given to others from now on.
    fn release(&mut self, peer: usize, channel: u16) {
        let Peer { links, held, unwritten, channels, .. } = self.peer(peer);
        let is_of = |link: &u64| links.get(link).is_some_and(|link| link.channel == channel);
        held.retain(|(link, _), _| !is_of(link));
        unwritten.retain(|(link, ..)| !is_of(link));
        if let Some(channel) = channels.get_mut(&channel) {
            channel.is_closing = true;
        }
    }
}
