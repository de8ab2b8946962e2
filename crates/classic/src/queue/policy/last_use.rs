//! For how long nobody has used a queue. Counts time that passes while a node is up, over clean restarts too;
//! after a crash it begins anew.

use crate::queue::recovery::QueueRecovery;
use crate::queue::state::QueueState;

/// The time of a queue's last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastUse {
    /// Time of the last use, or of the node's start, by the monotonic clock.
    at_ms: u64,
    /// Milliseconds for which the queue had not been used by then.
    unused_before_ms: u64,
}

impl LastUse {
    pub(super) const fn now(now_ms: u64) -> Self {
        Self { at_ms: now_ms, unused_before_ms: 0 }
    }

    /// Time when the queue will not have been used for `expires_ms`.
    pub(super) const fn expires_at_ms(self, expires_ms: u64) -> u64 {
        self.at_ms.saturating_add(expires_ms.saturating_sub(self.unused_before_ms))
    }
}

/// Milliseconds for which nobody has used a queue, if it goes when that is too long.
pub(in crate::queue) fn unused_for_ms(state: &QueueState, now_ms: u64) -> Option<u64> {
    state.policy.expires_at_ms(state.fifo.consumers().n_active() > 0)?;
    let LastUse { at_ms, unused_before_ms } = state.policy.state.as_deref()?.last_use;
    Some(now_ms.saturating_sub(at_ms) + unused_before_ms)
}

impl QueueRecovery<'_> {
    /// Sets for how long nobody had used the queue when the node was stopped.
    pub fn unused_before(&mut self, unused_before_ms: u64) {
        if let Some(policy) = &mut self.state.policy.state {
            policy.last_use.unused_before_ms = unused_before_ms;
        }
    }
}
