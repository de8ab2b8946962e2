//! For how long nobody has used a queue. Counts time that passes while a node is up, over clean restarts too;
//! after a crash it begins anew.

use crate::queue::recovery::QueueRecovery;
use crate::queue::state::QueueState;

/// When a queue was used last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastUse {
    /// Time that passes: when that was, or when the node has started.
    at_ms: u64,
    /// For so long it had not been used by then.
    unused_before_ms: u64,
}

impl LastUse {
    pub(super) const fn now(now_ms: u64) -> Self {
        Self { at_ms: now_ms, unused_before_ms: 0 }
    }

    /// When a queue will not have been used for `expires_ms`.
    pub(super) const fn expires_at_ms(self, expires_ms: u64) -> u64 {
        self.at_ms.saturating_add(expires_ms.saturating_sub(self.unused_before_ms))
    }
}

/// For how long nobody has used a queue, if it goes when that is too long.
pub(in crate::queue) fn unused_for_ms(state: &QueueState, now_ms: u64) -> Option<u64> {
    state.policy.expires_at_ms(state.fifo.consumers().n_active() > 0)?;
    let LastUse { at_ms, unused_before_ms } = state.policy.state.as_deref()?.last_use;
    Some(now_ms.saturating_sub(at_ms) + unused_before_ms)
}

impl QueueRecovery<'_> {
    /// When the node was stopped, nobody had used the queue for so long.
    pub fn unused_before(&mut self, unused_before_ms: u64) {
        if let Some(policy) = &mut self.state.policy.state {
            policy.last_use.unused_before_ms = unused_before_ms;
        }
    }
}
