//! The state that a log's writer shares with its readers: the segments, how far the log reaches, and how
//! far it is committed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use segments::CachedFile;

use crate::counters::{ReadCounters, ReadCounts};
use crate::damage::Damage;
use crate::error::{ChunkLogError, Result};
use crate::field::size;
use crate::files::StreamFiles;
use crate::index::Index;
use crate::segment::{FileName, First, SEGMENT_HEADER_BYTES, decode_header, stream_dir};

/// The most bytes of a write that are kept in memory for readers, until the log is idle.
const FRESH_BYTES_MAX: usize = 4 << 10;

/// A place between two chunks: behind what was written, or behind what is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The ordinal of the next chunk.
    pub next_ordinal: u64,
    /// The offset of the next message.
    pub next_offset: u64,
    /// The id of the last chunk before it, if there is one.
    pub last_chunk_id: Option<u64>,
    pub(crate) segment: u64,
    pub(crate) position: u64,
}

impl LogEnd {
    pub(crate) const fn beginning(first: First) -> Self {
        Self {
            next_ordinal: first.ordinal,
            next_offset: first.offset,
            last_chunk_id: None,
            segment: first.offset,
            position: SEGMENT_HEADER_BYTES,
        }
    }
}

/// A log as readers and listings see it. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct LogView(pub(crate) Arc<SharedLog>);

#[derive(Debug)]
pub(crate) struct SharedLog {
    pub(crate) files: Arc<StreamFiles>,
    pub(crate) dir: Box<str>,
    /// The next offset of `state.committed`, to be looked at without the lock.
    committed_offset: AtomicU64,
    state: Mutex<LogState>,
    pub(crate) counters: ReadCounters,
    damaged: DamagedChunks,
}

/// The most damaged chunks of a log that readers pass over; further ones are met by each reader.
pub const DAMAGED_CHUNKS_MAX: usize = 65_536;

/// Chunks that are known to be damaged, by id, which readers pass over.
#[derive(Debug, Default)]
struct DamagedChunks {
    any: AtomicBool,
    ids: Mutex<BTreeSet<u64>>,
}

#[derive(Debug)]
pub(crate) struct LogState {
    /// The segments by first offset; never empty.
    pub(crate) segments: Vec<Segment>,
    pub(crate) written: LogEnd,
    pub(crate) committed: LogEnd,
    pub(crate) fresh: Fresh,
}

/// Bytes that were written last, if they are few, for readers who wait for them: no copy of the file is made
/// for each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fresh {
    /// The segment that has them: the last one that was written, perhaps not the one where what is committed
    /// ends.
    pub(crate) segment: u64,
    /// Their position there.
    pub(crate) at: u64,
    pub(crate) bytes: Bytes,
}

impl Fresh {
    pub(crate) fn new(segment: u64, at: u64, bytes: &[u8]) -> Self {
        let is_little = bytes.len() <= FRESH_BYTES_MAX;
        Self { segment, at, bytes: Bytes::copy_from_slice(if is_little { bytes } else { &[] }) }
    }
}

/// A segment, as far as it is known without opening its files.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) first_offset: u64,
    first_ordinal: Option<u64>,
    /// Bytes of the segment file, once nothing is added to it any more.
    sealed_bytes: Option<u64>,
    /// The time of its last chunk, once nothing is added any more; [`SharedLog::last_chunk_ms`] finds it.
    pub(crate) last_chunk_ms: Option<i64>,
    chunks: Weak<CachedFile>,
    index: Weak<CachedFile>,
}

impl Segment {
    pub(crate) fn new(first_offset: u64, first_ordinal: Option<u64>) -> Self {
        let (chunks, index) = (Weak::new(), Weak::new());
        let (sealed_bytes, last_chunk_ms) = (None, None);
        Self { first_offset, first_ordinal, sealed_bytes, last_chunk_ms, chunks, index }
    }

    pub(crate) const fn seal(&mut self, bytes: u64) {
        assert!(bytes >= SEGMENT_HEADER_BYTES, "a segment has a header");
        self.sealed_bytes = Some(bytes);
    }

    pub(crate) fn set_slots(&mut self, chunks: &Arc<CachedFile>, index: &Arc<CachedFile>) {
        self.chunks = Arc::downgrade(chunks);
        self.index = Arc::downgrade(index);
    }
}

impl LogState {
    /// The segment with this first offset.
    pub(crate) fn segment(&mut self, first_offset: u64) -> Option<&mut Segment> {
        let at = self.segments.binary_search_by_key(&first_offset, |it| it.first_offset).ok()?;
        self.segments.get_mut(at)
    }

    /// The first offset of the log.
    pub(crate) fn first_offset(&self) -> u64 {
        self.segments.first().map_or(self.written.next_offset, |it| it.first_offset)
    }

    /// The next segment behind one, whether that is still there or not.
    pub(crate) fn after(&self, segment: u64) -> Option<u64> {
        let after = self.segments.partition_point(|it| it.first_offset <= segment);
        self.segments.get(after).map(|it| it.first_offset)
    }
}

impl SharedLog {
    pub(crate) fn new(files: &Arc<StreamFiles>, dir: &str, state: LogState) -> Arc<Self> {
        Arc::new(Self {
            files: Arc::clone(files),
            dir: dir.into(),
            committed_offset: AtomicU64::new(state.committed.next_offset),
            state: Mutex::new(state),
            counters: ReadCounters::default(),
            damaged: DamagedChunks::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn committed_offset(&self) -> u64 {
        self.committed_offset.load(Ordering::Acquire)
    }

    /// Changes what is committed, up or down.
    pub(crate) fn commit(&self, state: &mut LogState, end: LogEnd) {
        state.committed = end;
        self.committed_offset.store(end.next_offset, Ordering::Release);
    }

    /// The file of a segment's chunks.
    pub(crate) fn chunks(&self, segment: u64) -> Option<Arc<CachedFile>> {
        let mut state = self.state();
        let found = state.segment(segment)?;
        let name = FileName::Segment(segment);
        Some(self.shared_slot(&mut found.chunks, name))
    }

    /// The file of chunks of a segment that is no part of the log any more.
    pub(crate) fn removed_chunks(&self, removed: &mut Segment) -> Arc<CachedFile> {
        let name = FileName::Segment(removed.first_offset);
        self.shared_slot(&mut removed.chunks, name)
    }

    /// A segment's index.
    pub(crate) fn index(&self, segment: u64) -> Option<Arc<CachedFile>> {
        let mut state = self.state();
        let found = state.segment(segment)?;
        let name = FileName::Index(segment);
        Some(self.shared_slot(&mut found.index, name))
    }

    fn shared_slot(&self, known: &mut Weak<CachedFile>, name: FileName) -> Arc<CachedFile> {
        known.upgrade().unwrap_or_else(|| {
            let slot = self.files.cache.closed(&name.path(&self.dir));
            *known = Arc::downgrade(&slot);
            slot
        })
    }

    /// The bytes of a segment that is complete.
    pub(crate) fn sealed_bytes(&self, segment: u64, chunks: &Arc<CachedFile>) -> Result<u64> {
        let known = self.state().segment(segment).and_then(|it| it.sealed_bytes);
        if let Some(bytes) = known {
            return Ok(bytes);
        }
        let bytes = chunks.file()?.size()?;
        if let Some(found) = self.state().segment(segment) {
            found.sealed_bytes = Some(bytes);
        }
        Ok(bytes)
    }

    /// The time of the last chunk of a segment that is complete, from its index; none if it has no chunk, or
    /// has gone.
    pub(crate) fn last_chunk_ms(&self, segment: u64) -> Result<Option<i64>> {
        let known = self.state().segment(segment).and_then(|it| it.last_chunk_ms);
        let (None, Some(slot)) = (known, self.index(segment)) else { return Ok(known) };
        let index = Index::open(&slot, None)?;
        let last = index.len().checked_sub(1).map(|last| index.record(last)).transpose()?;
        let last_ms = last.map(|last| last.timestamp_ms);
        if let Some(found) = self.state().segment(segment) {
            found.last_chunk_ms = last_ms;
        }
        Ok(last_ms)
    }

    /// The ordinal of a segment's first chunk, from its index's header, or its own, unless it is known; none
    /// if the segment has gone.
    pub(crate) fn first_ordinal(&self, segment: u64) -> Result<Option<u64>> {
        let known = self.state().segment(segment).map(|it| it.first_ordinal);
        let (Some(None), Some(index), Some(chunks)) =
            (known, self.index(segment), self.chunks(segment))
        else {
            return Ok(known.flatten());
        };
        let first = match Index::open(&index, None)?.first()? {
            Some(first) => Some(first),
            None => read_header(&chunks)?,
        };
        let Some(first) = first else {
            let what = "the headers of the segment and of its index are both damaged";
            return Err(ChunkLogError::corrupt(chunks.name(), 0, what));
        };
        if let Some(found) = self.state().segment(segment) {
            found.first_ordinal = Some(first.ordinal);
        }
        Ok(Some(first.ordinal))
    }
}

/// The header of a segment.
fn read_header(chunks: &Arc<CachedFile>) -> Result<Option<First>> {
    let header = chunks.file()?.read(0, size(SEGMENT_HEADER_BYTES))?;
    decode_header(&header, chunks.name())
}

impl LogView {
    /// A log of which nothing can be read, for now.
    #[must_use]
    pub fn closed(files: &Arc<StreamFiles>, id: u64) -> Self {
        let (written, committed, fresh) = Default::default();
        let state = LogState { segments: Vec::new(), written, committed, fresh };
        Self(SharedLog::new(files, &stream_dir(id), state))
    }

    /// Says how far the log is committed: a place that was returned by an append or by the opening.
    /// Readers see what lies before it. Less than is committed already changes nothing.
    pub fn set_committed(&self, end: LogEnd) {
        let mut state = self.0.state();
        if end.next_ordinal > state.committed.next_ordinal {
            assert!(end.next_ordinal <= state.written.next_ordinal, "what is committed is there");
            self.0.commit(&mut state, end);
        }
    }

    /// Has readers pass over a damaged chunk; whether nobody knew of it. Damage of an index is no chunk's.
    #[must_use]
    pub fn note_damaged(&self, damage: &Damage) -> bool {
        let Some(offset) = damage.offset else { return true };
        let damaged = &self.0.damaged;
        let mut ids = damaged.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = ids.len() < DAMAGED_CHUNKS_MAX && ids.insert(offset);
        damaged.any.store(true, Ordering::Release);
        is_new
    }

    /// Whether the chunk with this id is known to be damaged.
    #[inline]
    #[must_use]
    pub fn is_damaged(&self, chunk_id: u64) -> bool {
        let damaged = &self.0.damaged;
        let ids = || damaged.ids.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.any.load(Ordering::Acquire) && ids().contains(&chunk_id)
    }

    /// How far the log is committed.
    #[must_use]
    pub fn committed(&self) -> LogEnd {
        self.0.state().committed
    }

    /// How far it is written.
    #[must_use]
    pub fn written(&self) -> LogEnd {
        self.0.state().written
    }

    /// The first offset there is; the next one if there is none.
    #[must_use]
    pub fn first_offset(&self) -> u64 {
        self.0.state().first_offset()
    }

    /// The offset behind the last committed message.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.0.committed_offset()
    }

    /// How many segments there are.
    pub fn n_segments(&self) -> usize {
        self.0.state().segments.len()
    }

    /// Bytes of the segments.
    ///
    /// # Errors
    /// The disk's.
    pub fn stored_bytes(&self) -> Result<u64> {
        let (written, segments): (LogEnd, Vec<u64>) = {
            let state = self.0.state();
            (state.written, state.segments.iter().map(|it| it.first_offset).collect())
        };
        let bytes_of = |segment: u64| match self.0.chunks(segment) {
            _ if segment == written.segment => Ok(written.position),
            Some(chunks) => match self.0.sealed_bytes(segment, &chunks) {
                // Retention has removed the segment meanwhile.
                Err(error) if error.is_not_found() => Ok(0),
                bytes => bytes,
            },
            None => Ok(0),
        };
        segments.into_iter().map(bytes_of).sum()
    }

    /// Figures of the readers of this log since it was opened.
    #[must_use]
    pub fn read_counts(&self) -> ReadCounts {
        self.0.counters.read()
    }
}
