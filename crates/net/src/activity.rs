//! Whether a client has this node to itself.
//!
//! A thread that syncs the log for its own client lets nobody else use it meanwhile. To hand the
//! rest of its work to another thread costs that client the waking of a thread, which is half of a
//! fast disk's sync: it is worth it only if there is anybody else.

use std::sync::atomic::{AtomicU64, Ordering};

/// After so many milliseconds without another client's input a client is alone.
pub(crate) const ALONE_AFTER_MS: u64 = 50;

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
    /// Input of a client was read. Consumers that acknowledge what they were just sent are not to be
    /// told of: they are of the company of whoever published it.
    pub(crate) fn record(&self, client: u64, now_ms: u64) {
        if self.last.load(Ordering::Relaxed) != client
            && self.changed_ms.load(Ordering::Relaxed) < now_ms
        {
            self.last.store(client, Ordering::Relaxed);
            self.changed_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Whether nobody else sent anything lately.
    pub(crate) fn is_only_active_client(&self, client: u64, now_ms: u64) -> bool {
        self.last.load(Ordering::Relaxed) == client
            && now_ms.saturating_sub(self.changed_ms.load(Ordering::Relaxed)) >= ALONE_AFTER_MS
    }
}

#[cfg(test)]
mod tests {
    use super::{ALONE_AFTER_MS, ClientActivity};

    const CLIENT: u64 = 7;
    const OTHER: u64 = 8;

    /// The client sends something every millisecond, and the other as well now and then.
    fn alone_at(until_ms: u64, other_is_heard: impl Fn(u64) -> bool) -> Vec<u64> {
        let activity = ClientActivity::default();
        let record = |now_ms: &u64| {
            if other_is_heard(*now_ms) {
                activity.record(OTHER, *now_ms);
            }
            activity.record(CLIENT, *now_ms);
            activity.is_only_active_client(CLIENT, *now_ms)
        };
        (1..=until_ms).filter(record).collect()
    }

    #[test]
    fn a_client_is_alone_after_a_while() {
        let alone = alone_at(ALONE_AFTER_MS + 2, |_| false);
        assert_eq!(alone, [ALONE_AFTER_MS + 1, ALONE_AFTER_MS + 2]);
    }

    #[test]
    fn another_client_is_company_for_a_while() {
        let once = 200;
        let alone = alone_at(400, |now_ms| now_ms == once);
        let activity: Vec<_> = (100..400).filter(|now_ms| !alone.contains(now_ms)).collect();
        assert_eq!(activity.first(), Some(&once));
        let last = *activity.last().unwrap();
        assert!((once + ALONE_AFTER_MS..once + ALONE_AFTER_MS + 2).contains(&last), "{last}");
    }

    #[test]
    fn nobody_is_alone_beside_another() {
        assert_eq!(alone_at(1000, |now_ms| now_ms % (ALONE_AFTER_MS - 2) == 0), [0; 0]);
        assert_eq!(alone_at(1000, |_| true), [0; 0]);
    }
}
