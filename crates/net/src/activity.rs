//! The activity of clients: whether one of them has this node to itself.
//!
//! A thread that syncs the log for its own client serves no other client meanwhile. Leaving the sync to the
//! log's thread costs the client two changes of threads, which take half as long as a fast disk's sync: the
//! client's thread syncs only if no other client is active.

use std::sync::atomic::{AtomicU64, Ordering};
use stdx::MonotonicMs;

/// Milliseconds without another client's input after which a client is the only active one.
pub(crate) const ONLY_CLIENT_AFTER_MS: u64 = 50;

/// The client that sent something last. Written at most once a millisecond: readers on many processors
/// share it.
#[derive(Debug, Default)]
pub(crate) struct ClientActivity {
    /// The client whose input was read last, but for what was skipped.
    last: AtomicU64,
    /// The time at which that client's input followed another's, monotonic milliseconds.
    changed_ms: AtomicU64,
}

impl ClientActivity {
    /// Records that input of a client was read. Acknowledgements of deliveries just sent are not to be
    /// recorded: they belong to the activity of the client that published the messages.
    pub(crate) fn record(&self, client: u64, now_ms: MonotonicMs) {
        if self.last.load(Ordering::Relaxed) != client
            && self.changed_ms.load(Ordering::Relaxed) < now_ms.get()
        {
            self.last.store(client, Ordering::Relaxed);
            self.changed_ms.store(now_ms.get(), Ordering::Relaxed);
        }
    }

    /// Whether no other client sent anything lately.
    pub(crate) fn is_only_active_client(&self, client: u64, now_ms: MonotonicMs) -> bool {
        self.last.load(Ordering::Relaxed) == client
            && now_ms.get().saturating_sub(self.changed_ms.load(Ordering::Relaxed))
                >= ONLY_CLIENT_AFTER_MS
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientActivity, ONLY_CLIENT_AFTER_MS};
    use stdx::MonotonicMs;

    const CLIENT: u64 = 7;
    const OTHER: u64 = 8;

    /// The client sends something every millisecond, and the other as well now and then.
    fn alone_at(until_ms: u64, other_is_heard: impl Fn(u64) -> bool) -> Vec<u64> {
        let activity = ClientActivity::default();
        let record = |now_ms: &u64| {
            if other_is_heard(*now_ms) {
                activity.record(OTHER, MonotonicMs::from_raw(*now_ms));
            }
            activity.record(CLIENT, MonotonicMs::from_raw(*now_ms));
            activity.is_only_active_client(CLIENT, MonotonicMs::from_raw(*now_ms))
        };
        (1..=until_ms).filter(record).collect()
    }

    #[test]
    fn a_client_is_alone_after_a_while() {
        let alone = alone_at(ONLY_CLIENT_AFTER_MS + 2, |_| false);
        assert_eq!(alone, [ONLY_CLIENT_AFTER_MS + 1, ONLY_CLIENT_AFTER_MS + 2]);
    }

    #[test]
    fn another_client_counts_for_a_while() {
        let once = 200;
        let alone = alone_at(400, |now_ms| now_ms == once);
        let activity: Vec<_> = (100..400).filter(|now_ms| !alone.contains(now_ms)).collect();
        assert_eq!(activity.first(), Some(&once));
        let last = *activity.last().unwrap();
        assert!(
            (once + ONLY_CLIENT_AFTER_MS..once + ONLY_CLIENT_AFTER_MS + 2).contains(&last),
            "{last}"
        );
    }

    #[test]
    fn nobody_is_alone_beside_another() {
        assert_eq!(alone_at(1000, |now_ms| now_ms % (ONLY_CLIENT_AFTER_MS - 2) == 0), [0; 0]);
        assert_eq!(alone_at(1000, |_| true), [0; 0]);
    }
}
