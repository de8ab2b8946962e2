//! The memory that one connection has the node keep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The memory that one connection holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) told_bytes: AtomicU64,
    pub(crate) unacked_bytes: AtomicU64,
    /// Whether the connection is to be closed: its memory does not count any more.
    pub(crate) is_refused: AtomicBool,
}

impl Held {
    pub(crate) fn bytes(&self) -> u64 {
        self.told_bytes() + self.unacked_bytes.load(Ordering::Relaxed)
    }

    /// Bytes beside unacked messages, as the connection's task noted them last.
    pub(crate) fn told_bytes(&self) -> u64 {
        self.told_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}
