//! Counts of messages that died, for figures of the node.

use meta::QueueKind;
use queue::{Reason, machine::DeadLetters};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of messages that died in queues since the start: by the type of queue, and how sure their dead
/// letters are to arrive. Any thread writes them: a message that dies costs more than an atomic addition.
#[derive(Debug, Default)]
pub struct Deaths([[Counters; 3]; 2]);

#[derive(Debug, Default)]
struct Counters {
    by_reason: [AtomicU64; Reason::ALL.len()],
    /// Dead letters that all their queues have.
    n_confirmed: AtomicU64,
}

impl Deaths {
    /// Counts messages.
    pub fn note(&self, kind: QueueKind, dead_letters: DeadLetters, reason: Reason, n: u64) {
        if let Some(counter) = self.of(kind, dead_letters).by_reason.get(reason as usize) {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts dead letters of quorum queues that arrived.
    pub fn note_confirmed(&self, n: u64) {
        let counters = self.of(QueueKind::Quorum, DeadLetters::AtLeastOnce);
        counters.n_confirmed.fetch_add(n, Ordering::Relaxed);
    }

    /// Messages of queues that died for a reason.
    #[must_use]
    pub fn n(&self, kind: QueueKind, dead_letters: DeadLetters, reason: Reason) -> u64 {
        let counter = self.of(kind, dead_letters).by_reason.get(reason as usize);
        counter.map_or(0, |it| it.load(Ordering::Relaxed))
    }

    /// Number of dead letters that all their queues have; only of those sent at least once.
    pub fn n_confirmed(&self) -> u64 {
        let counters = self.of(QueueKind::Quorum, DeadLetters::AtLeastOnce);
        counters.n_confirmed.load(Ordering::Relaxed)
    }

    const fn of(&self, kind: QueueKind, dead_letters: DeadLetters) -> &Counters {
        let [classic, quorum] = &self.0;
        let [dropped, at_most_once, at_least_once] =
            if matches!(kind, QueueKind::Quorum) { quorum } else { classic };
        match dead_letters {
            DeadLetters::Dropped => dropped,
            DeadLetters::AtMostOnce => at_most_once,
            DeadLetters::AtLeastOnce => at_least_once,
        }
    }
}
