//! A node whose disk is short of space: it does nothing of its own accord that takes more of it.
//!
//! | | less free than `disk_free_limit` | the reserve is given up as well |
//! |---|---|---|
//! | publishes | wait | wait |
//! | dead letters, delayed messages, traces | wait where they are | the same |
//! | pages that leave memory, conversions | wait | wait |
//! | moving what is left in old files | if there is twice the space it takes | the same |
//! | events | are told | wait |
//! | new definitions | are made | are refused |
//! | deliveries, acknowledgements, deleting, purging | go on | go on |

use super::Storage;
use std::sync::atomic::{AtomicBool, Ordering};

/// Messages that are moved to free space take no more than this part of what is free.
const MOVED_SHARE: u64 = 2;

/// The shortage of space on the disk.
#[derive(Debug, Default)]
pub(crate) struct Scarcity {
    is_short: AtomicBool,
    is_reserve_used: AtomicBool,
}

impl Scarcity {
    pub(crate) const fn new(is_short: bool) -> Self {
        Self { is_short: AtomicBool::new(is_short), is_reserve_used: AtomicBool::new(false) }
    }
}

impl Storage {
    /// Whether nothing is to be written that can wait.
    pub fn is_short(&self) -> bool {
        self.scarcity.is_short.load(Ordering::Relaxed)
    }

    /// Whether only what frees space is to be written.
    pub fn is_reserve_used(&self) -> bool {
        self.scarcity.is_reserve_used.load(Ordering::Relaxed)
    }

    /// The space that was kept back is in use, or no longer.
    pub fn note_reserve(&self, is_used: bool) {
        self.scarcity.is_reserve_used.store(is_used, Ordering::Relaxed);
    }

    /// Whether so many bytes may be written to free more.
    pub fn may_move(&self, bytes: u64) -> bool {
        let is_room = |space: segments::Space| space.free_bytes / MOVED_SHARE >= bytes;
        !self.is_short() || self.disk.space().is_ok_and(is_room)
    }

    /// The disk is short of space, or no longer; false if that is known.
    pub fn set_short(&self, is_short: bool) -> bool {
        let is_new = self.scarcity.is_short.swap(is_short, Ordering::Relaxed) != is_short;
        if is_new {
            self.wal.set_thrifty(is_short);
        }
        is_new
    }
}
