//! A queue's figures, as others read them without its lock.

use content::QueueContext;
use meta::{ConfirmOn, QueueVersion};
use queue_type::{QueueStat, Tally, UsedMark};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use store::backlog::Backlog;

/// Number of messages above which a backlog keeps consumers busy for longer than a publisher is slowed down
/// at a time.
const DEEP_MESSAGES: u64 = 16 * 1024;
/// Bytes above which a backlog keeps consumers busy for longer than a publisher is slowed down at a time.
const DEEP_BYTES: u64 = 4 * 1024 * 1024;

/// Messages to be dead-lettered above which publishers are slowed down.
const DEPARTING_MAX: u64 = 16 * 1024;

/// The figures of [`QueueStat`] as of the last operation, written at the end of each.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// Messages that a consumer could get.
    pub n_ready: AtomicU64,
    /// Messages that consumers hold.
    pub n_unacked: AtomicU64,
    n_consumers: AtomicU64,
    message_bytes: AtomicU64,
    /// Publishes that wait for consumers.
    pub n_pending_confirms: AtomicU64,
    /// Messages that are gone and still to be dead-lettered.
    pub n_departing: AtomicU64,
    /// Publishes that were refused because they waited for consumers for too long.
    pub n_confirm_timeouts: AtomicU64,
    /// The version in the upper half, the thousandths and one more in the lower; 0 for none.
    pub conversion: AtomicU64,
    /// Messages that have gone through since the node started.
    pub tally: Tally,
    /// The event upon which publishes are confirmed, as a number.
    confirm_on: AtomicU8,
    used: UsedMark,
}

/// Messages and consumers of a queue at the end of an operation.
#[derive(Clone, Copy, Debug)]
pub struct QueueFigures {
    /// Messages that are ready.
    pub n_ready: u64,
    /// Messages that consumers hold.
    pub n_unacked: u64,
    /// Consumers that get messages.
    pub n_consumers: u64,
}

impl QueueCounters {
    /// Clears the [`UsedMark`], since the figures are about to be read.
    pub fn clear_used(&self) {
        self.used.clear();
    }

    /// The figures as of the last operation.
    #[must_use]
    pub fn stat(&self, version: QueueVersion) -> QueueStat {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let conversion = of(&self.conversion);
        QueueStat {
            n_ready: of(&self.n_ready),
            n_unacked: of(&self.n_unacked),
            n_consumers: of(&self.n_consumers),
            message_bytes: of(&self.message_bytes),
            n_pending_confirms: of(&self.n_pending_confirms),
            n_departing: of(&self.n_departing),
            n_confirm_timeouts: of(&self.n_confirm_timeouts),
            counts: self.tally.counts(),
            version,
            conversion: QueueVersion::of_number(conversion >> 32)
                .map(|to| (to, (conversion & u64::from(u32::MAX)) - 1)),
        }
    }

    /// Takes figures. The node counts the bytes of all queues.
    pub fn note(&self, figures: QueueFigures, backlog: &Backlog, context: &QueueContext) {
        let services = &context.services;
        self.n_ready.store(figures.n_ready, Ordering::Relaxed);
        self.n_unacked.store(figures.n_unacked, Ordering::Relaxed);
        self.n_consumers.store(figures.n_consumers, Ordering::Relaxed);
        let before = self.message_bytes.swap(backlog.stored_bytes(), Ordering::Relaxed);
        services.pager.count_held(before, backlog.stored_bytes());
        self.used.note(&services.used, context.def().id);
    }

    /// Sets how many messages are gone and still to be dead-lettered.
    pub fn note_departing(&self, n: u64) {
        self.n_departing.store(n, Ordering::Relaxed);
    }

    /// Sets how many publishes wait for consumers, and adds those that have waited for too long.
    pub fn note_confirms(&self, n_pending: u64, n_overdue: u64) {
        self.n_pending_confirms.store(n_pending, Ordering::Relaxed);
        self.n_confirm_timeouts.fetch_add(n_overdue, Ordering::Relaxed);
    }

    /// The event upon which publishes are confirmed.
    #[must_use]
    pub fn confirm_on(&self) -> ConfirmOn {
        match self.confirm_on.load(Ordering::Relaxed) {
            1 => ConfirmOn::Ack,
            2 => ConfirmOn::AckDirect,
            _ => ConfirmOn::Enqueue,
        }
    }

    /// Sets the event upon which publishes are confirmed from now on.
    pub fn set_confirm_on(&self, on: ConfirmOn) {
        let shown = match on {
            ConfirmOn::Enqueue => 0,
            ConfirmOn::Ack => 1,
            ConfirmOn::AckDirect => 2,
        };
        self.confirm_on.store(shown, Ordering::Relaxed);
    }

    /// Whether the publisher that asks should let the consumers have their turn: many messages are on their
    /// way out, or the backlog is deep and the consumers are taking from it.
    #[must_use]
    pub fn slows_down(&self) -> bool {
        if self.n_departing.load(Ordering::Relaxed) > DEPARTING_MAX {
            return true;
        }
        let n_ready = self.n_ready.load(Ordering::Relaxed);
        let n_held = self.n_unacked.load(Ordering::Relaxed);
        let bytes = self.message_bytes.load(Ordering::Relaxed);
        let ready_bytes = (bytes / (n_ready + n_held).max(1)).saturating_mul(n_ready);
        let is_deep = n_ready > DEEP_MESSAGES || ready_bytes > DEEP_BYTES;
        if !is_deep || self.n_consumers.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.tally.mark_after((n_ready / 64).clamp(1, DEEP_MESSAGES / 64))
    }
}
