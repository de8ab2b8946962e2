//! The state of a queue while it runs: for each segment which positions are published, delivered and
//! acknowledged, and where blocks lie; what is not in a segment yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use segments::File;

use super::bits::Bits;
use super::block::{BlockRef, Builder, FILE_HEADER_BYTES, Tag};
use super::{SEGMENT_POSITIONS, V1Stats};
use store::Queued;

/// A segment: the positions from `number * SEGMENT_POSITIONS` on.
#[derive(Debug, Default)]
pub(super) struct PositionSegment {
    pub(super) published: Bits,
    pub(super) delivered: Bits,
    pub(super) acked: Bits,
    /// How many messages are published and not acknowledged.
    pub(super) n_live: u32,
    /// The blocks in the segment's file.
    pub(super) blocks: Vec<BlockRef>,
    /// Where the file's next block goes; 0 if there is no file.
    pub(super) end: u64,
}

impl PositionSegment {
    pub(super) fn live(&self) -> Bits {
        self.published.without(&self.acked)
    }

    fn is_live(&self, relative: u32) -> bool {
        self.published.has(relative) && !self.acked.has(relative)
    }

    /// Live ones in a part of it. The usual part is one position, which needs no set.
    fn live_within(&self, part: Range<u32>) -> Vec<u32> {
        if part.len() == 1 {
            return part.filter(|relative| self.is_live(*relative)).collect();
        }
        self.live().within(part.start, part.end).collect()
    }
}

/// The segment of a position, and the position in it.
pub(super) fn place_of(position: u64) -> (u64, u32) {
    let relative = u32::try_from(position % SEGMENT_POSITIONS).unwrap_or_default();
    (position / SEGMENT_POSITIONS, relative)
}

/// The part of a range that lies in a segment, relative to it.
pub(super) fn part_in(number: u64, range: &Range<u64>) -> Range<u32> {
    let start = number * SEGMENT_POSITIONS;
    let relative = |position: u64| {
        let within = position.saturating_sub(start).min(SEGMENT_POSITIONS);
        u32::try_from(within).unwrap_or_default()
    };
    relative(range.start)..relative(range.end)
}

/// A block on its way to a journal's file.
#[derive(Debug)]
pub(super) struct UnwrittenBlock {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    /// Bytes that were added to the body store for it.
    pub(super) body_bytes: u64,
}

/// A journal: operations in the order they came.
#[derive(Debug)]
pub(super) struct JournalFile {
    pub(super) number: u64,
    /// All closed blocks, written or not.
    pub(super) blocks: Vec<BlockRef>,
    pub(super) end: u64,
    /// The byte up to which the file is durable.
    pub(super) synced_end: u64,
    pub(super) builder: Builder,
    pub(super) unwritten: VecDeque<Arc<UnwrittenBlock>>,
    /// Operations in it; a run counts once for each position.
    pub(super) n_operations: u64,
    /// Segments its operations are about.
    pub(super) touched: BTreeSet<u64>,
    pub(super) handle: Option<File>,
    pub(super) is_on_disk: bool,
    /// Whether the file's creation survives a loss of power.
    pub(super) is_name_durable: bool,
    /// Whether an earlier process left it: a part of it may be in segments already.
    pub(super) is_recovered: bool,
}

impl JournalFile {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            blocks: Vec::new(),
            end: FILE_HEADER_BYTES,
            synced_end: 0,
            builder: Builder::default(),
            unwritten: VecDeque::new(),
            n_operations: 0,
            touched: BTreeSet::new(),
            handle: None,
            is_on_disk: false,
            is_name_durable: false,
            is_recovered: false,
        }
    }

    /// The block that takes an operation on `position`.
    fn builder_for(&mut self, position: u64) -> &mut Builder {
        if self.builder.is_full_for(position) {
            self.close_block();
        }
        &mut self.builder
    }

    pub(super) fn close_block(&mut self) {
        if self.builder.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(self.builder.bytes());
        let (at, body_bytes) = (self.end, self.builder.body_bytes);
        let tag = Tag::journal(self.number);
        self.blocks.push(self.builder.close(tag, at, self.synced_end, &mut bytes));
        self.end += bytes.len() as u64;
        self.unwritten.push_back(Arc::new(UnwrittenBlock { at, bytes, body_bytes }));
    }

    /// The bytes of a block that is not in the file yet.
    pub(super) fn unwritten_at(&self, at: u64) -> Option<Arc<UnwrittenBlock>> {
        let place = self.unwritten.binary_search_by_key(&at, |chunk| chunk.at).ok()?;
        self.unwritten.get(place).cloned()
    }

    fn count(&mut self, segment: u64, n: u64) {
        self.n_operations += n;
        if !self.touched.contains(&segment) {
            self.touched.insert(segment);
        }
    }
}

#[derive(Debug)]
pub(super) struct V1State {
    pub(super) segments: BTreeMap<u64, PositionSegment>,
    /// The journal that takes operations.
    pub(super) journal: JournalFile,
    /// Journals that are full or left by an earlier process, oldest first: to be flushed.
    pub(super) older: Vec<JournalFile>,
    /// The position behind the highest ever seen.
    pub(super) next_position: u64,
    /// Number of the last call that noted anything.
    pub(super) last_note: u64,
    /// Number of the last such call whose operations are durable.
    pub(super) synced_note: u64,
    /// Whether a message has its body in the body store, or had.
    pub(super) names_bodies: bool,
    /// The number of flushes: after another one a block may lie elsewhere than it was found.
    pub(super) generation: u64,
    pub(super) counted: V1Stats,
}

impl V1State {
    /// Publishes a message, for whose body `added_bytes` were added to the body store.
    pub(super) fn publish(&mut self, queued: &Queued<'_>, added_bytes: u64) {
        let position = queued.position;
        let (number, relative) = place_of(position);
        let segment = self.segments.entry(number).or_default();
        if !segment.published.add(relative) {
            debug_assert!(false, "position {position} was published before");
            return;
        }
        segment.n_live += 1;
        if queued.is_delivered {
            segment.delivered.add(relative);
        }
        self.next_position = self.next_position.max(position + 1);
        let builder = self.journal.builder_for(position);
        builder.publish(queued);
        builder.body_bytes += added_bytes;
        self.names_bodies |= queued.stored.is_some();
        self.journal.count(number, 1);
    }

    pub(super) fn deliver(&mut self, range: &Range<u64>) {
        for (number, segment) in segments_in(&mut self.segments, range) {
            let part = part_in(*number, range);
            for relative in segment.live_within(part) {
                if segment.delivered.add(relative) {
                    let position = number * SEGMENT_POSITIONS + u64::from(relative);
                    self.journal.builder_for(position).deliver(position..position + 1);
                    self.journal.count(*number, 1);
                }
            }
        }
    }

    /// Acknowledges a range; returns how many of its messages were live.
    pub(super) fn ack(&mut self, range: &Range<u64>) -> u64 {
        let before = self.journal.n_operations;
        for (number, segment) in segments_in(&mut self.segments, range) {
            let part = part_in(*number, range);
            for relative in segment.live_within(part) {
                segment.acked.add(relative);
                assert!(segment.n_live > 0, "a message is counted until it is acknowledged");
                segment.n_live -= 1;
                let position = number * SEGMENT_POSITIONS + u64::from(relative);
                self.journal.builder_for(position).ack(position..position + 1);
                self.journal.count(*number, 1);
            }
        }
        self.journal.n_operations - before
    }

    pub(super) fn is_live(&self, position: u64) -> bool {
        let (number, relative) = place_of(position);
        self.segments.get(&number).is_some_and(|segment| segment.is_live(relative))
    }

    /// Counts a call that may have noted something.
    pub(super) fn note(&mut self) -> u64 {
        self.last_note += 1;
        self.last_note
    }

    pub(super) fn journal_operations(&self) -> u64 {
        self.journal.n_operations + self.older.iter().map(|old| old.n_operations).sum::<u64>()
    }

    pub(super) fn stats(&self) -> V1Stats {
        let mut stats = self.counted;
        stats.journal_operations = self.journal_operations();
        for segment in self.segments.values() {
            stats.live += u64::from(segment.n_live);
            stats.segments += u64::from(segment.end > 0);
            stats.file_bytes += segment.end;
        }
        let journals = self.older.iter().chain([&self.journal]);
        stats.file_bytes +=
            journals.filter(|journal| journal.is_on_disk).map(|journal| journal.end).sum::<u64>();
        stats
    }
}

fn segments_in<'a>(
    segments: &'a mut BTreeMap<u64, PositionSegment>,
    range: &Range<u64>,
) -> impl Iterator<Item = (&'a u64, &'a mut PositionSegment)> {
    let first = range.start / SEGMENT_POSITIONS;
    let last = range.end.saturating_sub(1) / SEGMENT_POSITIONS;
    let is_empty = range.is_empty();
    segments.range_mut(first..=last.max(first)).filter(move |_| !is_empty)
}
