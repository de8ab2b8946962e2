//! Ranges of whole chunks as bytes, for consumers and followers alike, and what is known by ordinal.

use streamproto::ChunkHeader;

use crate::error::Result;
use crate::field::size;
use crate::lookup::{ChunkPlace, Lookup};
use crate::scan::Scan;
use crate::shared::{LogEnd, LogView};

/// The most bytes of a range; a single chunk may be larger.
const RANGE_BYTES_MAX: u64 = 4 << 20;

/// Up to where a range reads chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Committed chunks only.
    Committed,
    /// All written chunks: for followers, without whom nothing is committed.
    Written,
}

/// The first chunk of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeStart {
    /// The chunk with this ordinal.
    Ordinal(u64),
    /// The chunk that holds this offset, or the log's first chunk if the log begins later.
    Offset(u64),
}

/// An answer for a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Chunks.
    Chunks(ChunkRange),
    /// No chunk there yet: the log ends before it.
    End,
    /// No such chunk any more: the log begins later.
    Gone,
}

/// Whole chunks that lie side by side, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// The ordinal of the first.
    pub first_ordinal: u64,
    /// Their headers.
    pub headers: Vec<ChunkHeader>,
    /// Their bytes: what [`ChunkLog::append`](crate::ChunkLog::append) takes.
    pub bytes: Vec<u8>,
}

impl LogView {
    /// Whole chunks from a start on, up to so many bytes (4 MiB at most), and at least one; all of one
    /// segment. Checksums are not verified.
    ///
    /// # Errors
    /// The disk's; a damaged index or chunk.
    pub fn read_range(&self, start: RangeStart, bound: Bound, bytes_max: u64) -> Result<Range> {
        self.looking_up(bound, |lookup| {
            let place = match start {
                RangeStart::Offset(offset) => Some(lookup.offset(offset)?),
                RangeStart::Ordinal(ordinal) => lookup.ordinal(ordinal)?,
            };
            match place {
                Some(place) => self.range_at(place, lookup.end(), bytes_max.min(RANGE_BYTES_MAX)),
                None => Ok(Range::Gone),
            }
        })
    }

    /// The ordinal of the chunk that holds an offset; none if no chunk does.
    ///
    /// # Errors
    /// The disk's; a damaged index.
    pub fn ordinal_of(&self, offset: u64, bound: Bound) -> Result<Option<u64>> {
        self.looking_up(bound, |lookup| {
            let place = lookup.offset(offset)?;
            let is_there = place.offset <= offset && offset < lookup.end().next_offset;
            Ok(is_there.then_some(place.ordinal))
        })
    }

    /// The id of the chunk with an ordinal, or where the next one begins; none if it is not there.
    ///
    /// # Errors
    /// The disk's; a damaged index.
    pub fn offset_of(&self, ordinal: u64, bound: Bound) -> Result<Option<u64>> {
        let place = self.looking_up(bound, |lookup| lookup.ordinal(ordinal))?;
        Ok(place.map(|place| place.offset))
    }

    /// The time of the first chunk that is committed: milliseconds since 1970.
    ///
    /// # Errors
    /// The disk's; a damaged index.
    pub fn first_timestamp_ms(&self) -> Result<Option<i64>> {
        self.looking_up(Bound::Committed, |lookup| {
            let Some(first) = lookup.first_segment() else { return Ok(None) };
            let index = lookup.index(first)?;
            if index.len() == 0 {
                return Ok(None);
            }
            Ok(Some(index.record(0)?.timestamp_ms))
        })
    }

    fn looking_up<T>(&self, bound: Bound, look: impl Fn(&Lookup<'_>) -> Result<T>) -> Result<T> {
        match bound {
            Bound::Committed => self.look_up(Self::committed, look),
            Bound::Written => self.look_up(Self::written, look),
        }
    }

    fn range_at(&self, place: ChunkPlace, log_end: LogEnd, bytes_max: u64) -> Result<Range> {
        let ChunkPlace { segment, position, ordinal: first_ordinal, .. } = place;
        let Some(slot) = self.0.chunks(segment) else { return Ok(Range::Gone) };
        let end = if segment == log_end.segment {
            log_end.position
        } else {
            self.0.sealed_bytes(segment, &slot)?
        };
        let file = slot.file()?;
        let mut scan = Scan::new(file.clone(), end);
        let mut headers = Vec::new();
        let mut to = position;
        while to < end && to - position < bytes_max {
            let Some(header) = scan.header(to)? else {
                return Err(file.corrupt(to, "no chunk begins here").into());
            };
            let next = to + header.stored_bytes();
            if !headers.is_empty() && next - position > bytes_max {
                break;
            }
            headers.push(header);
            to = next;
        }
        if headers.is_empty() {
            return Ok(Range::End);
        }
        let bytes = file.read(position, size(to - position))?;
        if (bytes.len() as u64) < to - position {
            return Err(file.corrupt(position, "the segment is cut off").into());
        }
        Ok(Range::Chunks(ChunkRange { first_ordinal, headers, bytes }))
    }
}
