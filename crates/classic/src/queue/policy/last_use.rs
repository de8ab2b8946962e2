//! For how long nobody has used a queue. Counts time that passes while a node is up, over clean restarts too;
//! after a crash it begins anew.

use stdx::MonotonicMs;

/// The time of a queue's last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastUse {
    /// Time of the last use, or of the node's start, by the monotonic clock.
    at_ms: MonotonicMs,
    /// Milliseconds for which the queue had not been used by then.
    pub(super) unused_before_ms: u64,
}

impl LastUse {
    pub(super) const fn now(now_ms: MonotonicMs) -> Self {
        Self { at_ms: now_ms, unused_before_ms: 0 }
    }

    /// Time when the queue will not have been used for `expires_ms`.
    pub(super) const fn expires_at_ms(self, expires_ms: u64) -> MonotonicMs {
        self.at_ms.plus(expires_ms.saturating_sub(self.unused_before_ms))
    }

    /// Milliseconds for which nobody has used the queue.
    pub(super) const fn unused_for_ms(self, now_ms: MonotonicMs) -> u64 {
        now_ms.since(self.at_ms) + self.unused_before_ms
    }
}
