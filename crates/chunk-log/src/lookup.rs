//! From an offset, a time or an ordinal to a chunk: binary searches, first for the segment, then in its
//! index.

use crate::damage::Damage;
use crate::error::Result;
use crate::index::{Index, IndexRecord};
use crate::segment::{FileName, SEGMENT_HEADER_BYTES};
use crate::shared::{LogEnd, LogView};
use streamproto::ChunkType;

/// The tries of a search, since segments may go while it looks at them.
const ATTEMPTS: usize = 4;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Start with the log's first chunk.
    First,
    /// Start with the last chunk that has messages; without one, as `Next`.
    Last,
    /// Start behind the last chunk.
    Next,
    /// Start with the chunk that holds this offset; the first one if all come later, as `Next` if all come
    /// before.
    Offset(u64),
    /// Start with the first chunk of this time or later, milliseconds since 1970; as `Next` if all are older.
    /// Chunks are taken to be in the order of their times.
    Timestamp(i64),
}

/// A chunk in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPlace {
    pub(crate) segment: u64,
    pub(crate) position: u64,
    pub(crate) ordinal: u64,
    /// The chunk's id.
    pub(crate) offset: u64,
}

impl From<LogEnd> for ChunkPlace {
    fn from(end: LogEnd) -> Self {
        let LogEnd { next_ordinal, next_offset, segment, position, .. } = end;
        Self { segment, position, ordinal: next_ordinal, offset: next_offset }
    }
}

/// Finds places among the chunks before an end.
#[derive(Debug)]
pub(crate) struct Lookup<'v> {
    view: &'v LogView,
    end: LogEnd,
    /// First offsets, up to the end's.
    segments: Vec<u64>,
}

impl LogView {
    /// The place where a reader begins.
    pub(crate) fn place_of(&self, start: Start) -> Result<ChunkPlace> {
        self.look_up(Self::committed, |lookup| lookup.start(start))
    }

    /// Looks up among the chunks before an end, again if a segment has gone meanwhile.
    pub(crate) fn look_up<T>(
        &self,
        end: impl Fn(&Self) -> LogEnd,
        look: impl Fn(&Lookup<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut attempts_left = ATTEMPTS;
        loop {
            let looked = look(&Lookup::new(self, end(self)));
            attempts_left -= 1;
            match looked {
                Err(error) if error.is_not_found() && attempts_left > 0 => {}
                looked => return looked,
            }
        }
    }
}

impl LogView {
    /// Where a segment's first chunk behind an offset is, and that chunk's offset; none if no chunk follows
    /// there.
    pub(crate) fn behind(&self, segment: u64, offset: u64) -> Result<Option<(u64, u64)>> {
        self.look_up(Self::committed, |lookup| {
            let index = lookup.index(segment)?;
            let n = index.partition_point(|record| record.first_offset <= offset)?;
            if n >= index.len() {
                return Ok(None);
            }
            let record = index.record(n)?;
            Ok(Some((record.position, record.first_offset)))
        })
    }

    /// The damage of a chunk whose first message has this offset.
    ///
    /// # Errors
    /// The disk's; a damaged index.
    pub fn damage_at(&self, offset: u64, n_messages: u64, what: &'static str) -> Result<Damage> {
        let place = self.place_of(Start::Offset(offset))?;
        let file = FileName::Segment(place.segment).path(&self.0.dir);
        Ok(Damage { file, at: place.position, offset: Some(offset), n_messages, what })
    }
}

impl<'v> Lookup<'v> {
    pub(crate) fn new(view: &'v LogView, end: LogEnd) -> Self {
        let state = view.0.state();
        let segments = state.segments.iter().map(|it| it.first_offset);
        let segments = segments.take_while(|first| *first <= end.segment).collect();
        drop(state);
        Self { view, end, segments }
    }

    pub(crate) const fn end(&self) -> LogEnd {
        self.end
    }

    pub(crate) fn first_segment(&self) -> Option<u64> {
        self.segments.first().copied()
    }

    fn start(&self, start: Start) -> Result<ChunkPlace> {
        match start {
            Start::First => self.first(),
            Start::Next => Ok(self.end.into()),
            Start::Last => self.last_with_messages(),
            Start::Offset(offset) => self.offset(offset),
            Start::Timestamp(at_ms) => self.timestamp(at_ms),
        }
    }

    fn first(&self) -> Result<ChunkPlace> {
        match self.segments.first() {
            Some(first) => self.beginning_of(*first),
            None => Ok(self.end.into()),
        }
    }

    /// The chunk that holds an offset.
    pub(crate) fn offset(&self, offset: u64) -> Result<ChunkPlace> {
        if offset >= self.end.next_offset {
            return Ok(self.end.into());
        }
        let after = self.segments.partition_point(|first| *first <= offset);
        let Some(segment) = after.checked_sub(1).and_then(|at| self.segments.get(at)) else {
            return self.first();
        };
        let index = self.index(*segment)?;
        let after = index.partition_point(|record| record.first_offset <= offset)?;
        match after.checked_sub(1) {
            Some(n) => self.place(*segment, n, &index.record(n)?),
            None => self.beginning_of(*segment),
        }
    }

    /// The chunk with an ordinal; none if it is not there.
    pub(crate) fn ordinal(&self, ordinal: u64) -> Result<Option<ChunkPlace>> {
        if ordinal >= self.end.next_ordinal {
            return Ok((ordinal == self.end.next_ordinal).then_some(self.end.into()));
        }
        let after = self
            .partition_segments(|lookup, segment| Ok(lookup.first_ordinal(segment)? <= ordinal))?;
        let Some(segment) = after.checked_sub(1).and_then(|at| self.segments.get(at)) else {
            return Ok(None);
        };
        let n = ordinal - self.first_ordinal(*segment)?;
        let record = self.index(*segment)?.record(n)?;
        self.place(*segment, n, &record).map(Some)
    }

    fn timestamp(&self, at_ms: i64) -> Result<ChunkPlace> {
        let after = self.partition_segments(|lookup, segment| {
            let index = lookup.index(segment)?;
            Ok(index.len() > 0 && index.record(0)?.timestamp_ms < at_ms)
        })?;
        let Some(before) = after.checked_sub(1) else { return self.first() };
        let Some(segment) = self.segments.get(before) else { return self.first() };
        let index = self.index(*segment)?;
        let n = index.partition_point(|record| record.timestamp_ms < at_ms)?;
        if n < index.len() {
            return self.place(*segment, n, &index.record(n)?);
        }
        match self.segments.get(after) {
            Some(next) => self.beginning_of(*next),
            None => Ok(self.end.into()),
        }
    }

    fn last_with_messages(&self) -> Result<ChunkPlace> {
        for segment in self.segments.iter().rev() {
            let has_messages = |record: &IndexRecord| record.chunk_type == ChunkType::USER.0;
            if let Some((n, record)) = self.index(*segment)?.rfind(has_messages)? {
                return self.place(*segment, n, &record);
            }
        }
        Ok(self.end.into())
    }

    /// How many segments come before the first for which `is_before` is false.
    fn partition_segments(&self, is_before: impl Fn(&Self, u64) -> Result<bool>) -> Result<usize> {
        let (mut low, mut high) = (0, self.segments.len());
        while low < high {
            let middle = low.midpoint(high);
            let Some(segment) = self.segments.get(middle) else { break };
            if is_before(self, *segment)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// A segment's index, with the records before the end.
    pub(crate) fn index(&self, segment: u64) -> Result<Index> {
        let slot = self.view.0.index(segment).ok_or_else(|| self.gone(segment))?;
        if segment != self.end.segment {
            return Index::open(&slot, None);
        }
        let n = self.end.next_ordinal.saturating_sub(self.first_ordinal(segment)?);
        Index::open(&slot, Some(n))
    }

    fn first_ordinal(&self, segment: u64) -> Result<u64> {
        self.view.0.first_ordinal(segment)?.ok_or_else(|| self.gone(segment))
    }

    fn beginning_of(&self, segment: u64) -> Result<ChunkPlace> {
        let ordinal = self.first_ordinal(segment)?;
        Ok(ChunkPlace { segment, position: SEGMENT_HEADER_BYTES, ordinal, offset: segment })
    }

    fn place(&self, segment: u64, n: u64, record: &IndexRecord) -> Result<ChunkPlace> {
        let ordinal = self.first_ordinal(segment)? + n;
        let IndexRecord { position, first_offset: offset, .. } = *record;
        Ok(ChunkPlace { segment, position, ordinal, offset })
    }

    fn gone(&self, segment: u64) -> crate::ChunkLogError {
        let name = FileName::Index(segment).path(&self.view.0.dir);
        let source = std::io::ErrorKind::NotFound.into();
        segments::FileError::Io { what: "open", file: name, source }.into()
    }
}
