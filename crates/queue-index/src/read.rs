//! Reading messages by position, for a page of the queue that is wanted in memory again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use message::{parse_head, parse_record};
use segments::{File, FileError};
use stdx::lock;

use super::block::{BlockRef, OperationBlock, Publication, Tag, What};
use super::files::{Files, read_block};
use super::state::{JournalFile, UnwrittenBlock, V1State, part_in};
use super::{SEGMENT_POSITIONS, V1Queue};
use store::StoreError;

use crate::Result;
use store::{Queued, StoredBody};

/// A read goes over no more positions than this.
const READ_POSITIONS_MAX: u64 = SEGMENT_POSITIONS;
/// Looks again this often when a flush has moved everything in between.
const TRIES: usize = 8;

/// Where a block can be read.
enum BlockPlace {
    Memory(Arc<UnwrittenBlock>),
    File(Option<File>),
}

struct ReadSource {
    tag: Tag,
    block: BlockRef,
    place: BlockPlace,
}

/// A read's positions and blocks, as they were when they were looked up.
struct Plan {
    range: Range<u64>,
    /// Live positions in the range, and whether they were delivered.
    live: BTreeMap<u64, bool>,
    /// Blocks that may have them; what is in a later one counts.
    sources: Vec<ReadSource>,
    generation: u64,
}

/// Records read so far.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    records: BTreeMap<u64, (Range<usize>, Publication)>,
    failure: Option<StoreError>,
}

impl V1Queue {
    /// Hands the live messages of `positions` to `each`, lowest position first, until about
    /// `bytes_max` are read, and returns the position to go on from: `positions.end` when there
    /// are no more. A message that cannot be read is an error in its place.
    pub fn read(
        &self,
        positions: Range<u64>,
        bytes_max: u64,
        each: &mut dyn FnMut(u64, Result<Queued<'_>>),
    ) -> u64 {
        let mut plan = lock(&self.state).plan_read(&positions, bytes_max);
        let mut gathered = Gathered::default();
        for _ in 0..TRIES {
            gathered = self.files.gather(&plan);
            let is_whole = plan.live.len() == gathered.records.len();
            let mut state = lock(&self.state);
            if is_whole || state.generation == plan.generation {
                break;
            }
            plan = state.plan_read(&plan.range, bytes_max);
        }
        let still_live = |position: u64| lock(&self.state).is_live(position);
        for (position, is_delivered) in &plan.live {
            match gathered.records.get(position) {
                Some((record, publication)) => {
                    let record = gathered.bytes.get(record.clone()).unwrap_or_default();
                    each(
                        *position,
                        self.files.queued(*position, publication, record, *is_delivered),
                    );
                }
                // Acknowledged since it was looked up, and maybe flushed away.
                None if !still_live(*position) => {}
                None => each(*position, Err(self.files.lost(*position, gathered.failure.as_ref()))),
            }
        }
        plan.range.end
    }
}

impl Files {
    fn gather(&self, plan: &Plan) -> Gathered {
        let mut gathered = Gathered::default();
        let mut bytes = Vec::new();
        // Neighbours in a file share its handle.
        let (mut opened_tag, mut opened) = (None, None);
        for ReadSource { tag, block, place } in &plan.sources {
            if opened_tag != Some(*tag) {
                (opened_tag, opened) = (Some(*tag), None);
            }
            let read = match place {
                BlockPlace::Memory(chunk) => {
                    bytes.clear();
                    bytes.extend_from_slice(&chunk.bytes);
                    Ok(())
                }
                BlockPlace::File(handle) => self
                    .opened(*tag, handle.as_ref().or(opened.as_ref()))
                    .and_then(|file| read_block(opened.insert(file), block, &mut bytes)),
            };
            let parsed = read.and_then(|()| {
                OperationBlock::parse(&bytes, *tag)
                    .map_err(|what| StoreError::corrupt(&self.name_of(*tag), block.at, what))
            });
            match parsed {
                Ok(block) => gathered.take(&block, &plan.live),
                Err(error) => gathered.failure = Some(error),
            }
        }
        gathered
    }

    fn queued<'a>(
        &self,
        position: u64,
        publication: &Publication,
        record: &'a [u8],
        is_delivered: bool,
    ) -> Result<Queued<'a>> {
        let parsed = match publication.stored() {
            Some(stored) => parse_head(record).map(|head| {
                let properties_bytes = head.properties_bytes;
                (head.message, Some(StoredBody { properties_bytes, ..stored }))
            }),
            None => parse_record(record, None).map(|message| (message, None)),
        };
        let (message, stored) = parsed.map_err(|_| {
            let name = self.name_of(Tag::segment(position / SEGMENT_POSITIONS));
            StoreError::corrupt(&name, 0, "a message's record cannot be read")
        })?;
        Ok(Queued { position, message, stored, is_delivered })
    }

    fn lost(&self, position: u64, failure: Option<&StoreError>) -> StoreError {
        match failure {
            Some(StoreError::Disk(FileError::Corrupt { file, offset, what })) => {
                StoreError::corrupt(file, *offset, what)
            }
            Some(_) | None => {
                let file = self.name_of(Tag::segment(position / SEGMENT_POSITIONS));
                StoreError::Missing { file, index: position }
            }
        }
    }
}

impl Gathered {
    fn take(&mut self, block: &OperationBlock<'_>, live: &BTreeMap<u64, bool>) {
        for (operation, record) in block.operations() {
            let What::Publish(publication) = operation.what else { continue };
            if !live.contains_key(&operation.position) {
                continue;
            }
            let start = self.bytes.len();
            self.bytes.extend_from_slice(record);
            let place = start..self.bytes.len();
            self.records.insert(operation.position, (place, publication));
        }
    }
}

impl V1State {
    fn plan_read(&mut self, positions: &Range<u64>, bytes_max: u64) -> Plan {
        self.journal.close_block();
        let first = self.first_live(positions);
        let end = positions.end.min(first.saturating_add(READ_POSITIONS_MAX));
        let mut range = first..end.max(first);
        let mut blocks = self.blocks_over(&range);
        range.end = end_within(&range, blocks.iter().map(|(_, block)| *block).collect(), bytes_max);
        blocks.retain(|(_, block)| block.overlaps(&range));
        let sources = blocks.iter().map(|(tag, block)| self.source(*tag, *block)).collect();
        Plan { live: self.live_in(&range), range, sources, generation: self.generation }
    }

    /// The first live position in the range, or its end.
    fn first_live(&self, positions: &Range<u64>) -> u64 {
        if positions.is_empty() {
            return positions.end;
        }
        let segments = self.segments.range(positions.start / SEGMENT_POSITIONS..);
        let firsts = segments
            .take_while(|(number, _)| **number * SEGMENT_POSITIONS < positions.end)
            .filter(|(_, segment)| segment.n_live > 0)
            .find_map(|(number, segment)| {
                let part = part_in(*number, positions);
                let first = segment.live().within(part.start, part.end).next()?;
                Some(number * SEGMENT_POSITIONS + u64::from(first))
            });
        firsts.unwrap_or(positions.end)
    }

    fn live_in(&self, range: &Range<u64>) -> BTreeMap<u64, bool> {
        if range.is_empty() {
            return BTreeMap::new();
        }
        let numbers = range.start / SEGMENT_POSITIONS..=(range.end - 1) / SEGMENT_POSITIONS;
        let mut live = BTreeMap::new();
        for (number, segment) in self.segments.range(numbers) {
            let part = part_in(*number, range);
            for relative in segment.live().within(part.start, part.end) {
                let position = number * SEGMENT_POSITIONS + u64::from(relative);
                live.insert(position, segment.delivered.has(relative));
            }
        }
        live
    }

    /// Blocks that publish something in the range, in the order they were written.
    fn blocks_over(&self, range: &Range<u64>) -> Vec<(Tag, BlockRef)> {
        if range.is_empty() {
            return Vec::new();
        }
        let numbers = range.start / SEGMENT_POSITIONS..=(range.end - 1) / SEGMENT_POSITIONS;
        let segments = self.segments.range(numbers).flat_map(|(number, segment)| {
            segment.blocks.iter().map(|block| (Tag::segment(*number), *block))
        });
        let journals = self.older.iter().chain([&self.journal]).flat_map(|journal| {
            journal.blocks.iter().map(|block| (Tag::journal(journal.number), *block))
        });
        segments.chain(journals).filter(|(_, block)| block.overlaps(range)).collect()
    }

    fn source(&self, tag: Tag, block: BlockRef) -> ReadSource {
        let journal = self
            .older
            .iter()
            .chain([&self.journal])
            .find(|journal: &&JournalFile| tag == Tag::journal(journal.number));
        let place = match journal.and_then(|journal| journal.unwritten_at(block.at)) {
            Some(chunk) => BlockPlace::Memory(chunk),
            None => BlockPlace::File(journal.and_then(|journal| journal.handle.clone())),
        };
        ReadSource { tag, block, place }
    }
}

/// Where to stop so that the blocks read have about `bytes_max`, at least one block.
fn end_within(range: &Range<u64>, mut by_first: Vec<BlockRef>, bytes_max: u64) -> u64 {
    by_first.sort_by_key(|block| block.first);
    let mut bytes = 0;
    for block in by_first {
        bytes += block.bytes();
        if bytes > bytes_max && block.first > range.start && bytes > block.bytes() {
            return block.first.min(range.end);
        }
    }
    range.end
}
