//! The content of queues as the log tells it, gathered entry by entry.
//!
//! Records are copied into chunks that are given back when nothing in them is left: what a start
//! needs follows what is alive, not what the log holds, and costs no allocation per message.

use classic::RecoveredDeliveryCounts;
use content::records::QueueEntry;
use log::SegmentId;
use meta::{QueueId, State};
use queue::PositionRange;
use quorum::LoggedMachine;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use stdx::record::RecordError;
use store::backlog::PageNote;

const CHUNK_BYTES: usize = 1 << 20;
/// The number of a queue's items from which on items that are gone are cleared away.
const COMPACT_FROM_ITEMS: usize = 4_096;
/// Length of an item that is gone.
const GONE: u32 = u32::MAX;

/// Where a record lies in memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    chunk: u32,
    offset: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    position: u64,
    segment: SegmentId,
    place: Place,
    /// Whether the body is stored elsewhere: the record is a reference to it.
    is_reference: bool,
}

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    n_live: u32,
}

/// Records, in chunks.
#[derive(Debug, Default)]
struct Records {
    chunks: Vec<Chunk>,
}

impl Records {
    fn put(&mut self, record: &[u8]) -> Place {
        let is_full = |chunk: &Chunk| chunk.bytes.capacity() - chunk.bytes.len() < record.len();
        if self.chunks.last().is_none_or(is_full) {
            // The chunk before is not written to any more.
            if let Some(last) = self.chunks.last_mut().filter(|chunk| chunk.n_live == 0) {
                last.bytes = Vec::new();
            }
            let bytes = Vec::with_capacity(CHUNK_BYTES.max(record.len()));
            self.chunks.push(Chunk { bytes, n_live: 0 });
        }
        let index = self.chunks.len() - 1;
        let chunk = self.chunks.last_mut().expect("a chunk was just made sure of");
        let offset = to_u32(chunk.bytes.len());
        chunk.bytes.extend_from_slice(record);
        chunk.n_live += 1;
        Place { chunk: to_u32(index), offset, len: to_u32(record.len()) }
    }

    fn get(&self, place: Place) -> &[u8] {
        let start = place.offset as usize;
        let chunk = self.chunks.get(place.chunk as usize);
        let bytes = chunk.and_then(|chunk| chunk.bytes.get(start..start + place.len as usize));
        bytes.unwrap_or_default()
    }

    fn forget(&mut self, place: Place) {
        let is_last = place.chunk as usize + 1 == self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(place.chunk as usize) else { return };
        chunk.n_live -= 1;
        if chunk.n_live == 0 {
            if is_last {
                chunk.bytes.clear();
            } else {
                chunk.bytes = Vec::new();
            }
        }
    }
}

fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("chunks and records are far below 4 GiB")
}

/// The messages of one queue.
#[derive(Debug, Default)]
struct OfQueue {
    /// Messages in rising order of position.
    items: Vec<Item>,
    n_gone: usize,
    /// Messages that were moved to the log's end and came after ones with higher positions.
    moved: BTreeMap<u64, Item>,
    /// Page images by first position, and where the log's note about each lies.
    pages: BTreeMap<u64, (SegmentId, PageNote)>,
    /// Counts of how often messages came back.
    returns: RecoveredDeliveryCounts,
    /// The position behind the highest one seen.
    next_position: u64,
    /// The machine, for a quorum queue.
    machine: Option<Box<LoggedMachine>>,
}

impl OfQueue {
    fn index_of(&self, position: u64) -> Option<usize> {
        let first = self.items.first()?.position;
        // Mostly there are no gaps.
        let guess = usize::try_from(position.checked_sub(first)?).ok()?;
        if self.items.get(guess).is_some_and(|item| item.position == position) {
            return Some(guess);
        }
        self.items.binary_search_by_key(&position, |item| item.position).ok()
    }

    fn take(&mut self, records: &mut Records, segment: SegmentId, logged: &Logged<'_>) {
        let Logged { position, record, is_reference } = *logged;
        self.next_position = self.next_position.max(position + 1);
        // A message that a page has may be logged again by itself: the log's entry counts.
        let last_page = self.pages.last_key_value().and_then(|(_, (_, note))| note.live.last());
        if last_page.is_some_and(|range| position < range.end) {
            self.forget_paged(&(position..position + 1));
        }
        if self.items.last().is_none_or(|last| last.position < position) {
            let place = records.put(record);
            self.items.push(Item { position, segment, place, is_reference });
            return;
        }
        // The record is a copy, made to free its segment.
        let known = match self.index_of(position) {
            Some(index) => self.items.get_mut(index).filter(|item| item.place.len != GONE),
            None => self.moved.get_mut(&position),
        };
        if let Some(known) = known {
            known.segment = segment;
        } else {
            let place = records.put(record);
            let item = Item { position, segment, place, is_reference };
            self.moved.insert(position, item);
        }
    }

    fn forget(&mut self, records: &mut Records, position: u64) {
        let item = self.index_of(position).and_then(|index| self.items.get_mut(index));
        if let Some(item) = item.filter(|item| item.place.len != GONE) {
            records.forget(item.place);
            item.place.len = GONE;
            self.n_gone += 1;
        } else if let Some(item) = self.moved.remove(&position) {
            records.forget(item.place);
        } else {
            self.forget_paged(&(position..position + 1));
        }
    }

    /// Forgets messages that are gone, and how often they came back.
    fn settle(&mut self, records: &mut Records, positions: impl Iterator<Item = u64>) {
        for position in positions {
            self.forget(records, position);
            self.returns.counts.remove(&position);
        }
        self.compact();
    }

    /// Forgets ranges of messages that are gone, and how often they came back.
    fn purge(&mut self, records: &mut Records, ranges: impl Iterator<Item = PositionRange>) {
        for range in ranges {
            self.forget_range(records, range);
            let positions = range.start..range.end;
            self.returns.counts.retain(|position, _| !positions.contains(position));
        }
    }

    /// Takes positions out of the pages that cover them.
    fn forget_paged(&mut self, range: &Range<u64>) {
        let before = self.pages.range(..range.start).next_back().map(|(first, _)| *first);
        let from = before.unwrap_or(range.start);
        let mut emptied = Vec::new();
        for (first, (_, note)) in self.pages.range_mut(from..range.end) {
            subtract(&mut note.live, range);
            if note.live.is_empty() {
                emptied.push(*first);
            }
        }
        for first in emptied {
            self.pages.remove(&first);
        }
    }

    /// Notes that messages are in a page image from now on.
    fn page(&mut self, records: &mut Records, segment: SegmentId, note: PageNote) {
        self.pages.remove(&note.first);
        for range in &note.live {
            self.next_position = self.next_position.max(range.end);
            let range = PositionRange { start: range.start, end: range.end };
            self.forget_range(records, range);
        }
        if !note.live.is_empty() {
            self.pages.insert(note.first, (segment, note));
        }
    }

    fn forget_range(&mut self, records: &mut Records, range: PositionRange) {
        let from = self.items.partition_point(|item| item.position < range.start);
        for item in self.items.iter_mut().skip(from) {
            if item.position >= range.end {
                break;
            }
            if item.place.len != GONE {
                records.forget(item.place);
                item.place.len = GONE;
                self.n_gone += 1;
            }
        }
        while let Some((position, item)) = self.moved.range(range.start..range.end).next() {
            let position = *position;
            records.forget(item.place);
            self.moved.remove(&position);
        }
        self.forget_paged(&(range.start..range.end));
        self.compact();
    }

    fn compact(&mut self) {
        if self.items.len() >= COMPACT_FROM_ITEMS && self.n_gone > self.items.len() / 2 {
            self.items.retain(|item| item.place.len != GONE);
            self.n_gone = 0;
        }
    }
}

/// Takes `range` out of `live`, which rises.
fn subtract(live: &mut Vec<Range<u64>>, range: &Range<u64>) {
    let from = live.partition_point(|one| one.end <= range.start);
    let to = live.partition_point(|one| one.start < range.end);
    let (Some(first), Some(last)) = (live.get(from), live.get(to.wrapping_sub(1))) else { return };
    if from >= to {
        return;
    }
    let before = first.start..range.start;
    let after = range.end..last.end;
    let left = [before, after].into_iter().filter(|one| one.start < one.end);
    live.splice(from..to, left);
}

/// A message as the log has it.
#[derive(Clone, Copy)]
pub(super) struct Logged<'a> {
    pub(super) position: u64,
    pub(super) record: &'a [u8],
    /// Whether the record says where the body is stored.
    pub(super) is_reference: bool,
}

/// A message or a page that is left.
pub(super) enum Left<'a> {
    Message { segment: SegmentId, logged: Logged<'a> },
    Page { segment: SegmentId, note: PageNote },
}

/// The content that is left in all queues.
#[derive(Debug, Default)]
pub(super) struct Contents {
    records: Records,
    queues: Vec<OfQueue>,
    index: HashMap<u64, usize>,
    /// The queue of the last entry: mostly the next one is about the same.
    last: Option<(u64, usize)>,
}

impl Contents {
    fn queue(&mut self, id: u64, make: bool) -> Option<(&mut OfQueue, &mut Records)> {
        let index = match self.last {
            Some((last, index)) if last == id => index,
            Some(_) | None => match self.index.get(&id) {
                Some(index) => *index,
                None if make => {
                    self.queues.push(OfQueue::default());
                    self.index.insert(id, self.queues.len() - 1);
                    self.queues.len() - 1
                }
                None => return None,
            },
        };
        self.last = Some((id, index));
        Some((self.queues.get_mut(index)?, &mut self.records))
    }

    /// Takes an entry about a queue.
    pub(super) fn take(&mut self, segment: SegmentId, queue: u64, entry: QueueEntry<'_>) {
        let makes = !matches!(
            entry,
            QueueEntry::Version { .. } | QueueEntry::Settled { .. } | QueueEntry::Purged { .. }
        );
        let Some((queue, records)) = self.queue(queue, makes) else { return };
        match entry {
            QueueEntry::Message { position, record } => {
                queue.take(records, segment, &Logged { position, record, is_reference: false });
            }
            QueueEntry::Reference { position, reference: record } => {
                queue.take(records, segment, &Logged { position, record, is_reference: true });
            }
            QueueEntry::Version { .. } => {}
            QueueEntry::Settled { positions } => queue.settle(records, positions.iter()),
            QueueEntry::Purged { ranges } => queue.purge(records, ranges.iter()),
            QueueEntry::Paged { note } => queue.page(records, segment, note),
            QueueEntry::Commands { commands } => {
                queue.machine.get_or_insert_default().take_commands(segment, commands);
            }
            QueueEntry::Machine { machine } => {
                queue.machine.get_or_insert_default().take_form(segment, machine);
            }
            QueueEntry::Returned { anew, counts } => {
                if anew {
                    queue.returns = RecoveredDeliveryCounts::default();
                }
                queue.returns.counts.extend(counts.iter());
                queue.returns.segments.add(segment);
            }
        }
    }

    /// Makes the machines of quorum queues that exist, once the log is read, and forgets the messages that
    /// are gone by their commands. The log need not have everything of a deleted queue any more. The error
    /// names the queue.
    pub(super) fn restore_machines(&mut self, meta: &State) -> Result<(), (u64, RecordError)> {
        let is_there = |id: u64| meta.queue_by_id(QueueId(id)).is_some();
        for (id, index) in self.index.iter().filter(|(id, _)| is_there(**id)) {
            let Some(queue) = self.queues.get_mut(*index) else { continue };
            let Some(machine) = &mut queue.machine else { continue };
            for range in machine.restore().map_err(|error| (*id, error))? {
                queue.forget_range(&mut self.records, range);
            }
        }
        Ok(())
    }

    /// A quorum queue's machine as it was found in the log.
    pub(super) fn take_machine(&mut self, queue: u64) -> LoggedMachine {
        let queue = self.queue(queue, false);
        queue.and_then(|(queue, _)| queue.machine.take()).map(|it| *it).unwrap_or_default()
    }

    /// Takes the counts of how often messages came back that may be in the queue. To be called before
    /// `drain`.
    pub(super) fn take_returns(&mut self, queue: u64) -> RecoveredDeliveryCounts {
        let queue = self.queue(queue, false);
        queue.map(|(queue, _)| std::mem::take(&mut queue.returns)).unwrap_or_default()
    }

    /// Whether `is_such` holds for one of a queue's pages.
    pub(super) fn any_page(&self, queue: u64, is_such: impl Fn(&PageNote) -> bool) -> bool {
        self.pages(queue).any(is_such)
    }

    /// The pages of a queue.
    pub(super) fn pages(&self, queue: u64) -> impl Iterator<Item = &PageNote> {
        let queue = self.index.get(&queue).and_then(|index| self.queues.get(*index));
        queue.into_iter().flat_map(|queue| queue.pages.values().map(|(_, note)| note))
    }

    /// The records of a queue's messages whose bodies are stored elsewhere.
    pub(super) fn references(&self, queue: u64) -> impl Iterator<Item = &[u8]> {
        let queue = self.index.get(&queue).and_then(|index| self.queues.get(*index));
        let items =
            queue.into_iter().flat_map(|queue| queue.items.iter().chain(queue.moved.values()));
        let left = items.filter(|item| item.is_reference && item.place.len != GONE);
        left.map(|item| self.records.get(item.place))
    }

    /// Shows what is left in a queue, in rising order of position, and forgets it; returns the position
    /// behind the highest one ever seen.
    pub(super) fn drain(&mut self, queue: u64, mut visit: impl FnMut(Left<'_>)) -> u64 {
        let Some(index) = self.index.get(&queue) else { return 0 };
        let Some(queue) = self.queues.get_mut(*index) else { return 0 };
        let OfQueue { items, moved, pages, next_position, .. } = std::mem::take(queue);
        let mut moved = moved.into_values().peekable();
        let items = items.into_iter().filter(|item| item.place.len != GONE);
        let mut items = items.peekable();
        let mut pages = pages.into_iter().peekable();
        loop {
            let is_moved = match (items.peek(), moved.peek()) {
                (Some(item), Some(moved)) => moved.position < item.position,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            let next = if is_moved { moved.peek() } else { items.peek() };
            let next = next.map_or(u64::MAX, |item| item.position);
            if let Some((_, (segment, note))) = pages.next_if(|(first, _)| *first <= next) {
                visit(Left::Page { segment, note });
                continue;
            }
            let Some(item) = (if is_moved { moved.next() } else { items.next() }) else { break };
            let Item { position, segment, place, is_reference } = item;
            let logged = Logged { position, record: self.records.get(place), is_reference };
            visit(Left::Message { segment, logged });
            self.records.forget(place);
        }
        next_position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use store::blob::BlobId;

    #[derive(Clone, Debug)]
    enum Step {
        Message(u64, u64),
        Move(usize),
        Settle(u64, u64),
        Range(u64, u64, u64),
        Page(u64, usize),
        MovePage(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..2_u64, 1..4_u64).prop_map(|(queue, skip)| Step::Message(queue, skip)),
            1 => any::<usize>().prop_map(Step::Move),
            3 => (0..3_u64, 0..60_u64).prop_map(|(queue, at)| Step::Settle(queue, at)),
            1 => (0..3_u64, 0..60_u64, 0..9_u64)
                .prop_map(|(queue, start, n)| Step::Range(queue, start, start + n)),
            1 => (0..2_u64, 1..9_usize).prop_map(|(queue, n)| Step::Page(queue, n)),
            1 => any::<usize>().prop_map(Step::MovePage),
        ]
    }

    fn note(first: u64, live: &[u64]) -> PageNote {
        let runs = live.chunk_by(|a, b| a + 1 == *b);
        PageNote {
            first,
            blob: BlobId { file: 0, index: 0 },
            live: runs.map(|run| run[0]..run[run.len() - 1] + 1).collect(),
            n_live: 0,
            live_bytes: 0,
            load_bytes: 0,
            n_entries: 0,
            has_bodies: false,
            has_deadlines: false,
        }
    }

    impl Contents {
        fn message(&mut self, segment: SegmentId, queue: u64, logged: &Logged<'_>) {
            let (queue, records) = self.queue(queue, true).unwrap();
            queue.take(records, segment, logged);
        }

        fn paged(&mut self, segment: SegmentId, queue: u64, note: PageNote) {
            let (queue, records) = self.queue(queue, true).unwrap();
            queue.page(records, segment, note);
        }
    }

    fn logged(position: u64, record: &[u8]) -> Logged<'_> {
        Logged { position, record, is_reference: position.is_multiple_of(3) }
    }

    /// Where a message is in the model: its segment, and its record or the first position of its
    /// page.
    type Known = (u64, Result<Vec<u8>, u64>);

    /// Positions with segments and records, those in pages without.
    fn drained(contents: &mut Contents, queue: u64) -> (Vec<(u64, Known)>, u64) {
        let mut left = Vec::new();
        let seen = contents.drain(queue, |one| match one {
            Left::Message { segment, logged } => {
                assert_eq!(logged.is_reference, logged.position.is_multiple_of(3));
                left.push((logged.position, (segment.0, Ok(logged.record.to_vec()))));
            }
            Left::Page { segment, note } => {
                let positions = note.live.into_iter().flatten();
                left.extend(positions.map(|at| (at, (segment.0, Err(note.first)))));
            }
        });
        (left, seen)
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_came_and_did_not_go(
            steps in prop::collection::vec(step(), 0..120),
        ) {
            let mut contents = Contents::default();
            let mut model: BTreeMap<(u64, u64), Known> = BTreeMap::new();
            let mut next = [0_u64; 3];
            for (segment, step) in (1..).zip(steps) {
                match step {
                    Step::Message(queue, skip) => {
                        let next = &mut next[usize::try_from(queue).unwrap()];
                        let position = *next + skip - 1;
                        *next = position + 1;
                        let record = vec![u8::try_from(position % 251).unwrap(); 300_000];
                        contents.message(SegmentId(segment), queue, &logged(position, &record));
                        model.insert((queue, position), (segment, Ok(record)));
                    }
                    Step::Move(n) => {
                        let Some(n) = n.checked_rem(model.len()) else { continue };
                        let (at, (old, record)) = model.iter_mut().nth(n).unwrap();
                        let Ok(record) = record else { continue };
                        *old = segment;
                        contents.message(SegmentId(segment), at.0, &logged(at.1, record));
                    }
                    Step::Settle(queue, at) => {
                        if let Some((queue, records)) = contents.queue(queue, false) {
                            queue.settle(records, [at].into_iter());
                        }
                        model.remove(&(queue, at));
                    }
                    Step::Range(queue, start, end) => {
                        let range = PositionRange { start, end };
                        if let Some((queue, records)) = contents.queue(queue, false) {
                            queue.purge(records, [range].into_iter());
                        }
                        model.retain(|at, _| at.0 != queue || at.1 < start || at.1 >= end);
                    }
                    Step::Page(queue, n) => {
                        let of_queue = model.range_mut((queue, 0)..(queue + 1, 0));
                        let messages = of_queue.skip_while(|(_, known)| known.1.is_err());
                        let run = messages.take_while(|(_, known)| known.1.is_ok()).take(n);
                        let mut run: Vec<_> = run.collect();
                        let Some(first) = run.first().map(|one| one.0.1) else { continue };
                        let live: Vec<u64> = run.iter().map(|one| one.0.1).collect();
                        contents.paged(SegmentId(segment), queue, note(first, &live));
                        run.iter_mut().for_each(|one| *one.1 = (segment, Err(first)));
                    }
                    Step::MovePage(n) => {
                        let Some(n) = n.checked_rem(model.len()) else { continue };
                        let (at, (_, known)) = model.iter().nth(n).unwrap();
                        let (queue, Err(first)) = (at.0, known.clone()) else { continue };
                        let is_same = |(at, known): &(&(u64, u64), &mut Known)| {
                            at.0 == queue && known.1 == Err(first)
                        };
                        let mut page: Vec<_> = model.iter_mut().filter(is_same).collect();
                        let live: Vec<u64> = page.iter().map(|one| one.0.1).collect();
                        contents.paged(SegmentId(segment), queue, note(first, &live));
                        page.iter_mut().for_each(|one| one.1.0 = segment);
                    }
                }
            }
            for queue in 0..3 {
                let (left, seen) = drained(&mut contents, queue);
                let of_queue = model.range((queue, 0)..(queue + 1, 0));
                let expected: Vec<_> = of_queue.map(|(at, known)| (at.1, known.clone())).collect();
                prop_assert_eq!(left, expected);
                prop_assert_eq!(seen, next[usize::try_from(queue).unwrap()]);
            }
            let held: usize = contents.records.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
            prop_assert_eq!(held, 0);
        }
    }

    #[test]
    fn a_message_that_is_logged_again_counts_more_than_the_page_that_had_it() {
        let mut contents = Contents::default();
        contents.paged(SegmentId(1), 7, note(33, &[35, 36]));
        for at in [33, 35, 36] {
            contents.message(SegmentId(2), 7, &logged(at, b"again"));
        }
        let (left, _) = drained(&mut contents, 7);
        let again = |at| (at, (2, Ok(b"again".to_vec())));
        assert_eq!(left, [again(33), again(35), again(36)]);
    }

    /// A segment whose first life is over in the log does not hide a later copy.
    #[test]
    fn a_message_whose_first_copy_is_no_longer_in_the_log_takes_its_old_place() {
        let mut contents = Contents::default();
        contents.message(SegmentId(2), 7, &logged(10, b"ten"));
        contents.message(SegmentId(3), 7, &logged(4, b"four"));
        contents.message(SegmentId(4), 7, &logged(4, b"four"));
        let (left, _) = drained(&mut contents, 7);
        assert_eq!(left, [(4, (4, Ok(b"four".to_vec()))), (10, (2, Ok(b"ten".to_vec())))]);
    }
}
