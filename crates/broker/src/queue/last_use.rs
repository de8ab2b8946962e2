//! For how long nobody has used a queue. Counts time that passes while a node is up, over clean restarts too; after a
//! crash it begins anew.

use super::Queue;
use super::state::QueueState;

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
}

impl QueueState {
    /// When the queue will have been unused for too long.
    pub(super) fn unused_ms(&self) -> Option<u64> {
        let ruling = self.ruling.as_deref()?;
        let expires_ms = ruling.settings.expires_ms.filter(|_| self.fifo.n_consumers() == 0)?;
        let left_ms = expires_ms.saturating_sub(ruling.last_use.unused_before_ms);
        Some(ruling.last_use.at_ms.saturating_add(left_ms))
    }

    /// Somebody uses the queue.
    pub(super) fn touch(&mut self, queue: &Queue) {
        if let Some(ruling) = &mut self.ruling
            && ruling.settings.expires_ms.is_some()
        {
            ruling.last_use = LastUse::now(queue.storage.time.monotonic_ms());
        }
    }
}

impl Queue {
    /// For how long nobody has used it, if it goes when that is too long.
    pub(crate) fn unused_for_ms(&self) -> Option<u64> {
        let local = stdx::lock(&self.local);
        local.unused_ms()?;
        let LastUse { at_ms, unused_before_ms } = local.ruling.as_deref()?.last_use;
        Some(self.storage.time.monotonic_ms().saturating_sub(at_ms) + unused_before_ms)
    }

    /// When the node was stopped, nobody had used it for so long.
    pub(crate) fn restore_last_use(&self, unused_before_ms: u64) {
        if let Some(ruling) = &mut stdx::lock(&self.local).ruling {
            ruling.last_use.unused_before_ms = unused_before_ms;
        }
    }
}
