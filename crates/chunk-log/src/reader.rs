//! A reader of a log: chunk by chunk from its start to what is committed, with read-ahead for small chunks.
//!
//! ```text
//!                 buffer: bytes of the segment that one read brought
//! file  |...|chunk|chunk|chunk|chunk|chunk|chu|nk ...
//!                       ^ position            ^ the next read begins with the chunk that is not whole
//! ```
//! A reader holds a file open only through its slot, and chunks only in its buffer; [`Reader::release`]
//! gives both back. A segment that retention removes is read to its end by whoever is in it, unless its
//! file is closed before; whoever comes back then goes on with the first chunk there is.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use segments::{CachedFile, File, FileError, IoContext as _};
use streamproto::ChunkHeader;
use streamproto::spec::CHUNK_HEADER_BYTES;

use crate::chunk::{ChunkAtHand, ChunkBytes, FileRange, StoredChunk};
use crate::counters::ReadCounts;
use crate::damage::Damage;
use crate::error::{ChunkLogError, Result};
use crate::field::size;
use crate::lookup::{ChunkPlace, Start};
use crate::reader_options::{ReadAhead, ReaderOptions};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::shared::{Fresh, LogEnd, LogState, LogView};
use crate::window::{SMALL_CHUNK_BYTES_MAX, Window};

/// Chunks up to this size are given at hand, to be copied; larger ones as parts of the buffer.
const AT_HAND_BYTES_MAX: u64 = 8 << 10;
/// The most chunks that one call passes over.
const PASSED_OVER_MAX: u32 = 1024;

const _: () = assert!(AT_HAND_BYTES_MAX <= SMALL_CHUNK_BYTES_MAX);

/// The next thing a reader has.
#[derive(Debug)]
pub enum Next {
    /// A chunk.
    Chunk(StoredChunk),
    /// No chunk yet: many chunks were passed over, and more follow.
    PassedOver,
    /// The end of what is committed. A reader that waits for more compares [`LogView::next_offset`] with
    /// [`Reader::next_offset`] once it is registered.
    End,
}

/// The way of a reader when data is not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Waits for the device.
    #[default]
    ForDisk,
    /// Returns [`ChunkLogError::WouldBlock`], also when a file is not open; nothing has changed then.
    Never,
}

/// A reader.
#[derive(Debug)]
pub struct Reader {
    view: LogView,
    options: ReaderOptions,
    window: Window,
    /// The offset that the next chunk begins with, or a later one.
    next_offset: u64,
    segment: u64,
    position: u64,
    /// The position up to which the segment may be read.
    end: u64,
    is_sealed: bool,
    file: Option<Arc<CachedFile>>,
    buffer: Buffer,
    counts: ReadCounts,
}

/// The bytes that one read brought.
#[derive(Debug, Default)]
struct Buffer {
    at: u64,
    bytes: Bytes,
}

impl Buffer {
    /// The bytes from a position on: `n`, if so many are there.
    fn get(&self, position: u64, n: u64) -> Option<Range<usize>> {
        let from = size(position.checked_sub(self.at)?);
        let to = from.checked_add(size(n))?;
        (to <= self.bytes.len()).then_some(from..to)
    }
}

impl LogView {
    /// A reader.
    ///
    /// # Errors
    /// The disk's; a damaged index.
    pub fn reader(&self, start: Start, options: ReaderOptions) -> Result<Reader> {
        let place = self.place_of(start)?;
        Ok(Reader::new(self.clone(), place, options))
    }
}

impl Reader {
    fn new(view: LogView, place: ChunkPlace, options: ReaderOptions) -> Self {
        let window = Window::new(options.read_ahead, options.filter.is_some());
        let ChunkPlace { segment, position, offset, .. } = place;
        Self {
            view,
            options,
            window,
            next_offset: offset,
            segment,
            position,
            end: position,
            is_sealed: false,
            file: None,
            buffer: Buffer::default(),
            counts: ReadCounts::default(),
        }
    }

    /// The log that is read.
    pub const fn log(&self) -> &LogView {
        &self.view
    }

    /// The offset behind the last chunk that was given or passed over; at the start, the first chunk's.
    pub const fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// The next chunk.
    ///
    /// # Errors
    /// The disk's; a chunk that is damaged. The reader stays where it is.
    pub fn read_next(&mut self, wait: Wait) -> Result<Next> {
        let next = self.next(wait);
        match next {
            Ok(Next::Chunk(_)) => {}
            Ok(Next::PassedOver) | Err(_) => self.tell_counts(),
            Ok(Next::End) => self.release(),
        }
        next
    }

    /// Whether there is a next chunk at hand.
    pub fn has_at_hand(&self) -> bool {
        self.at_hand().is_some()
    }

    /// The next chunk, if it is small, and all of it was read together with one before; none of any other:
    /// [`Reader::read_next`] gives that.
    #[inline]
    pub fn next_at_hand(&mut self) -> Option<ChunkAtHand<'_>> {
        let (header, range) = self.at_hand()?;
        self.counts.chunks += 1;
        self.counts.chunks_read_ahead += u64::from(self.buffer.at < self.position);
        self.window.note(&header);
        self.position += header.stored_bytes();
        self.next_offset = header.next_offset();
        Some(ChunkAtHand { header, stored: self.buffer.bytes.get(range)? })
    }

    #[inline]
    fn at_hand(&self) -> Option<(ChunkHeader, Range<usize>)> {
        if !self.options.is_plain() {
            return None;
        }
        let from = size(self.position.checked_sub(self.buffer.at)?);
        let header = ChunkHeader::decode(self.buffer.bytes.get(from..)?.first_chunk()?).ok()?;
        let bytes_max = AT_HAND_BYTES_MAX.min(self.end.saturating_sub(self.position));
        let range = self.buffer.get(self.position, header.stored_bytes())?;
        let is_wanted = header.chunk_id == self.next_offset
            && header.n_records > 0
            && header.stored_bytes() <= bytes_max
            && self.options.selector.takes(header.chunk_type)
            && !self.view.is_damaged(header.chunk_id);
        is_wanted.then_some((header, range))
    }

    /// Gives the buffer and the file back: for consumers that are idle or stalled.
    pub fn release(&mut self) {
        self.buffer = Buffer::default();
        self.file = None;
        self.tell_counts();
    }

    fn next(&mut self, wait: Wait) -> Result<Next> {
        for _ in 0..PASSED_OVER_MAX {
            match self.step(wait) {
                Ok(Next::PassedOver) => {}
                Ok(next) => return Ok(next),
                Err(error) if error.is_not_found() => {
                    // Where to go on is looked up on the disk.
                    if wait == Wait::Never {
                        return Err(ChunkLogError::WouldBlock);
                    }
                    let gone = self.segment;
                    self.go_to_first()?;
                    if self.segment == gone {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Next::PassedOver)
    }

    fn step(&mut self, wait: Wait) -> Result<Next> {
        if self.position < self.end {
            let chunk = self.one(wait)?;
            return Ok(chunk.map_or(Next::PassedOver, Next::Chunk));
        }
        let has_more = self.find_more(wait)?;
        Ok(if has_more { Next::PassedOver } else { Next::End })
    }

    /// The chunk at the position; none if it was passed over.
    fn one(&mut self, wait: Wait) -> Result<Option<StoredChunk>> {
        if self.view.is_damaged(self.next_offset) {
            // Where the next one begins is looked up on the disk.
            if wait == Wait::Never {
                return Err(ChunkLogError::WouldBlock);
            }
            self.pass_damaged()?;
            return Ok(None);
        }
        let header = self.header(wait)?;
        let chunk = if self.is_wanted(&header, wait)? {
            self.counts.chunks += 1;
            Some(self.take(header, wait)?)
        } else {
            self.counts.chunks_passed_over += 1;
            None
        };
        self.window.note(&header);
        self.position += header.stored_bytes();
        self.next_offset = header.next_offset();
        Ok(chunk)
    }

    /// Finds more to read, in this segment or the next, and steps there; false if nothing more is committed.
    fn find_more(&mut self, wait: Wait) -> Result<bool> {
        if self.next_offset >= self.view.0.committed_offset() {
            return Ok(false);
        }
        if self.is_sealed {
            let next = self.view.0.state().after(self.segment);
            next.into_iter().for_each(|next| self.enter(next));
            return Ok(next.is_some());
        }
        let (committed, fresh) = self.committed();
        match committed.segment.cmp(&self.segment) {
            Ordering::Less => {}
            Ordering::Equal => {
                self.end = committed.position;
                fresh
                    .into_iter()
                    .for_each(|Fresh { at, bytes, .. }| self.buffer = Buffer { at, bytes });
            }
            Ordering::Greater => {
                let (slot, _) = (self.slot()?, self.open_file(wait)?);
                self.end = self.view.0.sealed_bytes(self.segment, &slot)?;
                self.is_sealed = true;
            }
        }
        Ok(self.is_sealed || self.position < self.end)
    }

    /// How far the log is committed, and what comes next if that is in memory. COMPAT: without read-ahead
    /// each chunk is read from the file.
    fn committed(&self) -> (LogEnd, Option<Fresh>) {
        let state = self.view.0.state();
        let LogState { committed, fresh, .. } = &*state;
        let is_next = (fresh.segment, fresh.at) == (self.segment, self.position)
            && committed.segment == fresh.segment
            && committed.position >= fresh.at + fresh.bytes.len() as u64
            && self.options.read_ahead != ReadAhead::Off;
        (*committed, is_next.then(|| fresh.clone()))
    }

    /// Goes on behind the chunk at the position, which is damaged: its header may be as well.
    fn pass_damaged(&mut self) -> Result<()> {
        let behind = self.view.behind(self.segment, self.next_offset)?;
        self.buffer = Buffer::default();
        self.counts.chunks_passed_over += 1;
        (self.position, self.next_offset) = behind.unwrap_or_else(|| {
            let next = self.view.0.state().after(self.segment);
            (self.end, next.unwrap_or_else(|| self.view.next_offset()))
        });
        Ok(())
    }

    /// The damage of the chunk at the position, which could not be read; none if it cannot be told where the
    /// next one begins.
    pub fn damage(&self) -> Option<Damage> {
        let file = crate::segment::FileName::Segment(self.segment).path(&self.view.0.dir);
        let (at, first) = (self.position, self.next_offset);
        let behind = self.view.behind(self.segment, first).ok()?;
        let next =
            behind.map(|(_, offset)| offset).or_else(|| self.view.0.state().after(self.segment));
        let n_messages = next.unwrap_or_else(|| self.view.next_offset()).checked_sub(first)?;
        let what = "the chunk's header cannot be read";
        let is_there = self.position < self.end && n_messages > 0;
        is_there.then_some(Damage { file, at, offset: Some(first), n_messages, what })
    }

    /// Leaves a segment that has gone for the first one, or for the one that holds what comes next.
    fn go_to_first(&mut self) -> Result<()> {
        let place = self.view.place_of(Start::Offset(self.next_offset))?;
        self.enter(place.segment);
        self.position = place.position;
        self.next_offset = place.offset;
        self.end = place.position;
        Ok(())
    }

    fn enter(&mut self, segment: u64) {
        self.buffer = Buffer::default();
        self.file = None;
        self.segment = segment;
        self.next_offset = self.next_offset.max(segment);
        self.position = SEGMENT_HEADER_BYTES;
        self.end = SEGMENT_HEADER_BYTES;
        self.is_sealed = false;
    }

    /// The header of the chunk at the position.
    fn header(&mut self, wait: Wait) -> Result<ChunkHeader> {
        let available = self.end - self.position;
        let header_bytes = CHUNK_HEADER_BYTES as u64;
        if self.buffer.get(self.position, header_bytes).is_none() {
            let bytes = self.window.next_read(available);
            self.fill(bytes, header_bytes, wait)?;
        }
        let range = self.buffer.get(self.position, header_bytes);
        let bytes = range.and_then(|range| self.buffer.bytes.get(range)?.first_chunk());
        let Some(bytes) = bytes else { return Err(self.damaged("the chunk's header is cut off")) };
        let Ok(header) = ChunkHeader::decode(bytes) else {
            return Err(self.damaged("no chunk begins here"));
        };
        if header.chunk_id != self.next_offset || header.n_records == 0 {
            return Err(self.damaged("the chunk has an unexpected offset"));
        }
        if header.stored_bytes() > available {
            return Err(self.damaged("the chunk is longer than the segment"));
        }
        Ok(header)
    }

    fn is_wanted(&mut self, header: &ChunkHeader, wait: Wait) -> Result<bool> {
        if !self.options.selector.takes(header.chunk_type) || self.view.is_damaged(header.chunk_id)
        {
            return Ok(false);
        }
        if self.options.filter.is_none() {
            return Ok(true);
        }
        let data_at = header.data_at();
        if self.buffer.get(self.position, data_at).is_none() {
            self.fill(data_at, data_at, wait)?;
        }
        let filter = self.buffer.get(self.position, data_at);
        let filter =
            filter.and_then(|range| self.buffer.bytes.get(range)?.get(CHUNK_HEADER_BYTES..));
        let matches = |matcher: &crate::FilterMatcher| matcher.matches(filter.unwrap_or_default());
        Ok(self.options.filter.as_ref().is_none_or(matches))
    }

    /// The chunk at the position, from the buffer if it is there.
    fn take(&mut self, header: ChunkHeader, wait: Wait) -> Result<StoredChunk> {
        let stored = header.stored_bytes();
        let data_bytes = u64::from(header.data_bytes);
        let is_off = self.options.read_ahead == ReadAhead::Off;
        if is_off || self.buffer.get(self.position, stored).is_none() {
            if data_bytes >= self.options.file_range_bytes_min {
                let file = self.open_file(wait)?;
                let at = self.position + header.data_at();
                self.counts.file_ranges += 1;
                self.counts.file_range_bytes += data_bytes;
                let range = FileRange::new(file, at, data_bytes);
                return Ok(StoredChunk { header, bytes: ChunkBytes::File(range) });
            }
            self.fill(stored, stored, wait)?;
        }
        let Some(range) = self.buffer.get(self.position, stored) else {
            return Err(self.damaged("the chunk is cut off"));
        };
        if self.buffer.at < self.position {
            self.counts.chunks_read_ahead += 1;
        }
        let bytes = self.buffer.bytes.slice(range);
        if stored > SMALL_CHUNK_BYTES_MAX {
            self.buffer = Buffer::default();
        }
        Ok(StoredChunk { header, bytes: ChunkBytes::Memory(bytes) })
    }

    /// Reads so many bytes from the position on.
    fn fill(&mut self, bytes: u64, needed: u64, wait: Wait) -> Result<()> {
        let file = self.open_file(wait)?;
        let mut into = match std::mem::take(&mut self.buffer.bytes).try_into_mut() {
            Ok(free) => free,
            Err(_) => BytesMut::new(),
        };
        into.resize(size(bytes), 0);
        let read = match wait {
            Wait::ForDisk => file.handle().read_at(self.position, &mut into),
            Wait::Never => match file.handle().read_at_no_wait(self.position, &mut into) {
                Ok(n) if (n as u64) < needed => Err(std::io::ErrorKind::WouldBlock.into()),
                read => read,
            },
        };
        let n = match read {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Err(ChunkLogError::WouldBlock);
            }
            read => read.context("read", file.name())?,
        };
        into.truncate(n);
        self.buffer = Buffer { at: self.position, bytes: into.freeze() };
        self.counts.file_reads += 1;
        self.counts.read_bytes += n as u64;
        self.tell_counts();
        Ok(())
    }

    fn open_file(&mut self, wait: Wait) -> Result<File> {
        let slot = self.slot()?;
        match wait {
            Wait::ForDisk => Ok(slot.file()?),
            Wait::Never => slot.file_at_hand().ok_or(ChunkLogError::WouldBlock),
        }
    }

    fn slot(&mut self) -> Result<Arc<CachedFile>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let Some(slot) = self.view.0.chunks(self.segment) else {
            let file = crate::segment::FileName::Segment(self.segment).path(&self.view.0.dir);
            let source = std::io::ErrorKind::NotFound.into();
            return Err(FileError::Io { what: "open", file, source }.into());
        };
        self.file = Some(Arc::clone(&slot));
        Ok(slot)
    }

    fn tell_counts(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        if counts != ReadCounts::default() {
            self.view.0.counters.add(counts);
            self.view.0.files.counters().add(counts);
        }
    }

    fn damaged(&self, what: &'static str) -> ChunkLogError {
        let name = crate::segment::FileName::Segment(self.segment).path(&self.view.0.dir);
        ChunkLogError::corrupt(&name, self.position, what)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.tell_counts();
    }
}
