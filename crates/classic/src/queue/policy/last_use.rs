//! For how long nobody has used a queue. Counts time that passes while a node is up, over clean restarts too;
//! after a crash it begins anew.

/// The time of a queue's last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastUse {
    /// Time of the last use, or of the node's start, by the monotonic clock.
    at_ms: u64,
    /// Milliseconds for which the queue had not been used by then.
    pub(super) unused_before_ms: u64,
}

impl LastUse {
    pub(super) const fn now(now_ms: u64) -> Self {
        Self { at_ms: now_ms, unused_before_ms: 0 }
    }

    /// Time when the queue will not have been used for `expires_ms`.
    pub(super) const fn expires_at_ms(self, expires_ms: u64) -> u64 {
        self.at_ms.saturating_add(expires_ms.saturating_sub(self.unused_before_ms))
    }

    /// Milliseconds for which nobody has used the queue.
    pub(super) const fn unused_for_ms(self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms) + self.unused_before_ms
    }
}
