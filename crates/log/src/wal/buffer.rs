//! The entries appended that no commit has taken yet: the open block, and whole ones in front of it.

use std::sync::Arc;

use super::{CommitListener, EntryAddress, Lsn, MAX_APPEND_BYTES, Owner, SegmentId};
use crate::block::{
    BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, FIRST_BLOCK_AT, next_block_at, put_entry,
};

/// The entries of one append on their way into the shared buffer.
#[derive(Debug)]
pub struct Batch<'a> {
    buffer: &'a mut Vec<u8>,
    entries: u32,
    first_bytes: u32,
    retained: Retained,
    beside_bytes: usize,
    start: usize,
}

/// The entries of an append that are needed, if there are any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retained {
    pub(super) n: u64,
    /// The owner they are about.
    pub(super) owner: Owner,
}

impl Batch<'_> {
    /// Adds an entry about `owner` whose payload is the concatenation of `parts`.
    ///
    /// # Panics
    /// If the append exceeds [`MAX_APPEND_BYTES`].
    pub fn entry(&mut self, owner: Owner, kind: u8, parts: &[&[u8]]) {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let total = self.buffer.len() - self.start + ENTRY_HEADER_BYTES + bytes;
        assert!(total <= MAX_APPEND_BYTES, "an append of {total} bytes is above the limit");
        let bytes = u32::try_from(bytes).expect("MAX_APPEND_BYTES fits");
        put_entry(self.buffer, owner, kind, parts, bytes);
        if self.entries == 0 {
            self.first_bytes = u32::try_from(total).expect("MAX_APPEND_BYTES fits");
        }
        self.entries += 1;
    }

    /// Says that `n` of this append's entries about `owner` are needed until they are released. Where some
    /// about others are needed too, [`Wal::retain`] says so right behind the append.
    ///
    /// # Panics
    /// If entries about another one are needed.
    ///
    /// [`Wal::retain`]: super::Wal::retain
    pub fn retain(&mut self, owner: Owner, n: u64) {
        assert!(self.retained.n == 0 || self.retained.owner == owner, "one owner keeps an append");
        self.retained = Retained { n: self.retained.n + n, owner };
    }

    /// Says that entries refer to `bytes` elsewhere that [`WalOptions::before_commit`] makes durable:
    /// they count as unsynced until then.
    ///
    /// [`WalOptions::before_commit`]: super::WalOptions::before_commit
    pub const fn count_beside(&mut self, bytes: usize) {
        self.beside_bytes += bytes;
    }
}

/// A block in the making: space for its header, then entries.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) segment: SegmentId,
    pub(super) first: Lsn,
    pub(super) entries: u32,
    pub(super) bytes: Vec<u8>,
    /// The length up to which `bytes` is whole; a panic in `fill` leaves garbage behind it.
    whole: usize,
}

impl Pending {
    fn new(segment: SegmentId, first: Lsn, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(BLOCK_HEADER_BYTES, 0);
        Self { segment, first, entries: 0, bytes, whole: BLOCK_HEADER_BYTES }
    }
}

/// The outcome of one append.
pub(super) struct Filled {
    /// Where the first entry lies.
    pub(super) at: EntryAddress,
    /// Whether the first entry is the first of its segment.
    pub(super) begins_segment: bool,
    pub(super) entries: u32,
    pub(super) retained: Retained,
    /// Bytes of the entries, and beside the log; none if they were dropped.
    pub(super) bytes: usize,
    pub(super) beside_bytes: usize,
}

/// The bytes and segments that one commit takes away.
#[derive(Default)]
pub(super) struct CommitWork {
    pub(super) blocks: Vec<Pending>,
    pub(super) sinks: Vec<Arc<dyn CommitListener>>,
    /// An empty buffer, to be swapped for the full one.
    pub(super) buffer: Vec<u8>,
    /// Unsynced bytes beside the log that entries refer to.
    pub(super) beside_bytes: usize,
}

pub(super) struct Buffer {
    full: Vec<Pending>,
    open: Pending,
    next: Lsn,
    /// Unsynced bytes beside the log that entries refer to.
    beside_bytes: usize,
    /// Bytes of the open block's segment that are taken by blocks before it.
    taken_bytes: u64,
    segment_bytes: u64,
}

impl Buffer {
    pub(super) fn new(segment: SegmentId, next: Lsn, segment_bytes: u64) -> Self {
        Self {
            full: Vec::new(),
            open: Pending::new(segment, next, Vec::new()),
            next,
            beside_bytes: 0,
            taken_bytes: FIRST_BLOCK_AT,
            segment_bytes: segment_bytes.min(MAX_APPEND_BYTES as u64),
        }
    }

    /// Takes what `fill` gives; drops it unless `keep`.
    #[inline]
    pub(super) fn append(&mut self, keep: bool, fill: impl FnOnce(&mut Batch<'_>)) -> Filled {
        let start = self.open.whole;
        self.open.bytes.truncate(start);
        let buffer = &mut self.open.bytes;
        let retained = Retained::default();
        let mut batch =
            Batch { buffer, entries: 0, first_bytes: 0, retained, beside_bytes: 0, start };
        fill(&mut batch);
        let Batch { entries, first_bytes, retained, mut beside_bytes, .. } = batch;
        let mut bytes = self.open.bytes.len() - start;
        let mut begins_segment = false;
        if keep {
            begins_segment = self.keep(start, entries);
            self.beside_bytes += beside_bytes;
        } else {
            self.open.bytes.truncate(start);
            (bytes, beside_bytes) = (0, 0);
        }
        self.next = Lsn(self.next.0 + u64::from(entries));
        let offset = self.taken_bytes + (self.open.bytes.len() - bytes) as u64;
        let offset = u32::try_from(offset).expect("segments are below 4 GiB");
        let at = EntryAddress { segment: self.open.segment, offset, bytes: first_bytes };
        Filled { at, begins_segment, entries, retained, bytes, beside_bytes }
    }

    /// Makes what lies behind `start` part of a block: the open one, or the first of a new segment; true
    /// for the latter.
    fn keep(&mut self, start: usize, entries: u32) -> bool {
        let end = self.taken_bytes + self.open.bytes.len() as u64;
        let rolls = end > self.segment_bytes
            && !(self.open.entries == 0 && self.taken_bytes == FIRST_BLOCK_AT);
        if rolls {
            self.roll(start);
        }
        self.open.whole = self.open.bytes.len();
        self.open.entries += entries;
        rolls
    }

    /// Ends the open block before `start` and takes what follows into a new segment.
    fn roll(&mut self, start: usize) {
        let id = SegmentId(self.open.segment.0 + 1);
        let mut next = Pending::new(id, self.next, Vec::new());
        next.bytes.extend_from_slice(self.open.bytes.get(start..).unwrap_or_default());
        self.open.bytes.truncate(start);
        let ended = std::mem::replace(&mut self.open, next);
        if ended.entries > 0 {
            self.full.push(ended);
        }
        self.taken_bytes = FIRST_BLOCK_AT;
    }

    /// The last entry appended.
    pub(super) const fn upto(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }

    pub(super) fn has_entries(&self) -> bool {
        self.open.entries > 0 || !self.full.is_empty()
    }

    /// Whether entries are to be committed though nobody watches: a segment is full, or there are so many
    /// bytes.
    pub(super) fn is_urgent(&self, eager_bytes: usize) -> bool {
        let bytes = self.open.whole - BLOCK_HEADER_BYTES + self.beside_bytes;
        !self.full.is_empty() || bytes >= eager_bytes
    }

    /// Whether what was appended needs a new segment, or files beside the log.
    pub(super) fn opens_files(&self, current: SegmentId) -> bool {
        self.beside_bytes > 0 || !self.full.is_empty() || self.open.segment != current
    }

    /// Swaps everything into `work`.
    pub(super) fn take(&mut self, work: &mut CommitWork) {
        std::mem::swap(&mut self.full, &mut work.blocks);
        if self.open.entries > 0 {
            self.taken_bytes = next_block_at(self.taken_bytes + self.open.whole as u64);
            let buffer = std::mem::take(&mut work.buffer);
            let fresh = Pending::new(self.open.segment, self.next, buffer);
            let mut taken = std::mem::replace(&mut self.open, fresh);
            taken.bytes.truncate(taken.whole);
            work.blocks.push(taken);
        }
        work.beside_bytes = std::mem::take(&mut self.beside_bytes);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.full = Vec::new();
        self.open = Pending::new(self.open.segment, self.next, Vec::new());
    }
}
