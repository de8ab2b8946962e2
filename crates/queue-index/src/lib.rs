//! A classic queue of version 1 on disk: a journal, and segments of 16,384 positions.
//! Knows one queue's messages by position. Never other queues, the log, consumers, clocks, threads.
//! Start reading at [`V1Queue`]; the file formats are drawn in `block.rs`.
//!
//! Every publish, delivery and acknowledgement is appended to the queue's journal; small messages
//! stand in it whole, the bodies of larger ones lie in the body store. A sync makes the journal
//! durable. When it has [`V1Options::journal_operations_max`] operations, or the queue is idle, a
//! flush scatters it to the segments its positions belong to and removes it. A segment whose
//! messages are all acknowledged is removed; nothing is ever moved within one.
//!
//! While a journal is flushed the next one is being filled. A crash in the middle leaves the
//! flushed journal there, which is then flushed again: what is in a segment twice counts once.

mod bits;
mod block;
mod files;
mod flush;
mod open;
mod read;
mod state;
mod sync;
mod table;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stdx::lock;

pub use block::Damage;
pub use files::remove_all;
pub use flush::Flushed;
pub use open::{Live, Recovered, missing_bodies, named_bodies};
pub use sync::Unsynced;
pub use table::{JOURNALS_FILE, JournalTable, Promised};

use files::Files;
use state::V1State;
use store::blob::BlobStore;
use store::{Queued, StoreError};

type Result<T> = std::result::Result<T, StoreError>;

/// Positions that share a segment file.
pub const SEGMENT_POSITIONS: u64 = 16_384;

const _: () = assert!(SEGMENT_POSITIONS <= u32::MAX as u64);

/// The options of a queue's files.
#[derive(Clone, Debug)]
pub struct V1Options {
    /// Its directory, relative to the disk's root. Nothing else may be in it.
    pub dir: String,
    /// A journal of this many operations is to be flushed: `queue_index_max_journal_entries`.
    pub journal_operations_max: u64,
    /// [`V1Queue::has_room`] is false above this much that is not durable yet.
    pub unsynced_bytes_max: u64,
    /// The table that is told which files the queue has, and the queue's number there; none for no table.
    pub told: Option<(Arc<JournalTable>, u64)>,
}

impl V1Options {
    /// 32,768 operations, 4 MiB, in `dir`.
    #[must_use]
    pub fn new(dir: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            journal_operations_max: 32_768,
            unsynced_bytes_max: 4 << 20,
            told: None,
        }
    }
}

/// Figures of a queue's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V1Stats {
    /// Messages published and not acknowledged.
    pub live: u64,
    /// Segment files.
    pub segments: u64,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Operations not scattered to segments yet.
    pub journal_operations: u64,
    /// Bytes noted that are not durable yet.
    pub unsynced_bytes: u64,
    /// Syncs of the journal since the start.
    pub syncs: u64,
    /// Flushes of journals since the start.
    pub flushes: u64,
}

/// A queue of version 1. Every call may come from any thread; only [`Self::sync`],
/// [`Self::flush`] and [`Self::read`] touch the disk, and no lock is held while a read does.
#[derive(Debug)]
pub struct V1Queue {
    files: Files,
    options: V1Options,
    state: Mutex<V1State>,
    /// Held by who syncs or flushes. Taken before `state`.
    writing: Mutex<()>,
    unsynced_bytes: AtomicU64,
}

impl V1Queue {
    /// Takes a message in, and keeps it until its position is acknowledged. Positions usually rise;
    /// none is published twice. Of its body `added_bytes` were added to the body store for it, and wait for
    /// a sync with it. The number returned is durable when [`Self::sync`] says so.
    pub fn publish(&self, queued: &Queued<'_>, added_bytes: usize) -> u64 {
        let added_bytes = added_bytes as u64;
        self.unsynced_bytes.fetch_add(added_bytes, Ordering::Release);
        self.note(|state| state.publish(queued, added_bytes))
    }

    /// Notes that the messages in `positions` were given to consumers.
    pub fn deliver(&self, positions: Range<u64>) -> u64 {
        self.note(|state| state.deliver(&positions))
    }

    /// Acknowledges the messages in `positions`. Positions without a message are passed over, so that
    /// emptying the queue is one call.
    pub fn ack(&self, positions: Range<u64>) -> u64 {
        self.note(|state| {
            state.ack(&positions);
        })
    }

    fn note(&self, what: impl FnOnce(&mut V1State)) -> u64 {
        let mut state = lock(&self.state);
        let before = unwritten_bytes(&state);
        what(&mut state);
        let more = unwritten_bytes(&state).saturating_sub(before);
        self.unsynced_bytes.fetch_add(more, Ordering::Release);
        state.note()
    }

    /// The note behind which everything is durable that is noted now; none if nothing waits for
    /// [`Self::sync`].
    #[must_use]
    pub fn unsynced_note(&self) -> Option<u64> {
        let state = lock(&self.state);
        self.is_dirty().then_some(state.last_note)
    }

    /// Whether something waits for [`Self::sync`].
    pub fn is_dirty(&self) -> bool {
        self.unsynced_bytes() > 0
    }

    /// Bytes that wait for [`Self::sync`].
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes.load(Ordering::Acquire)
    }

    /// Whether more may be published without having too much in memory.
    pub fn has_room(&self) -> bool {
        self.unsynced_bytes() < self.options.unsynced_bytes_max
    }

    /// Flushes or syncs if that is due: for a caller that publishes much at once.
    pub fn make_room(&self, bodies: &BlobStore) -> Result<()> {
        if self.wants_flush() {
            self.flush(bodies)?;
        } else if !self.has_room() {
            self.sync(bodies)?;
        }
        Ok(())
    }

    /// Whether the journal is so long that it should be flushed now.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        lock(&self.state).journal_operations() >= self.options.journal_operations_max
    }

    /// The position behind the highest seen.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        lock(&self.state).next_position
    }

    /// The highest number that is durable.
    #[must_use]
    pub fn synced(&self) -> u64 {
        lock(&self.state).synced_note
    }

    /// Figures of the queue's files. Looks at every segment.
    #[must_use]
    pub fn stats(&self) -> V1Stats {
        let mut stats = lock(&self.state).stats();
        stats.unsynced_bytes = self.unsynced_bytes();
        stats
    }
}

/// How far the journal that is filled reaches, counting what is in no block yet.
fn unwritten_bytes(state: &V1State) -> u64 {
    state.journal.end + state.journal.builder.bytes() as u64
}
