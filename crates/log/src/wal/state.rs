//! What the append lock guards: the shared buffer, the segments' live counts, who waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::table::{Segment, SegmentTable};
use super::{
    Appended, CommitListener, Lsn, MAX_APPEND_BYTES, SegmentId, SegmentState, WalOptions, WalStats,
};
use crate::block::{
    BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, FIRST_BLOCK_AT, next_block_at, put_entry,
};

/// The entries of one append on their way into the shared buffer.
#[derive(Debug)]
pub struct Batch<'a> {
    buffer: &'a mut Vec<u8>,
    entries: u32,
    retained: u64,
    beside_bytes: usize,
    start: usize,
}

impl Batch<'_> {
    /// Adds an entry whose payload is the concatenation of `parts`.
    ///
    /// # Panics
    /// If the append exceeds [`MAX_APPEND_BYTES`].
    pub fn entry(&mut self, kind: u8, parts: &[&[u8]]) {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let total = self.buffer.len() - self.start + ENTRY_HEADER_BYTES + bytes;
        assert!(total <= MAX_APPEND_BYTES, "an append of {total} bytes is above the limit");
        let bytes = u32::try_from(bytes).expect("MAX_APPEND_BYTES fits");
        put_entry(self.buffer, kind, parts, bytes);
        self.entries += 1;
    }

    /// Says that `n` of this append's entries are needed until they are released.
    pub const fn retain(&mut self, n: u64) {
        self.retained += n;
    }

    /// Says that entries refer to `bytes` elsewhere that [`WalOptions::before_commit`] makes durable:
    /// they count as unsynced until then.
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
    /// Up to here `bytes` is whole; a panic in `fill` leaves garbage behind it.
    whole: usize,
}

impl Pending {
    fn new(segment: SegmentId, first: Lsn, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(BLOCK_HEADER_BYTES, 0);
        Self { segment, first, entries: 0, bytes, whole: BLOCK_HEADER_BYTES }
    }

    const fn payload_bytes(&self) -> usize {
        self.whole - BLOCK_HEADER_BYTES
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// It looks at the state before it sleeps.
    Awake,
    /// It sleeps and looks at the lazy work when the time is over.
    Lingering,
    /// It sleeps until woken.
    Asleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// What there is is to be written, and the commit thread is to stop.
    Closing,
    /// Closed or failed.
    Dead,
}

/// Why the commit thread should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// Within the lazy time.
    Lazy,
    Now,
    Close,
}

/// What one commit takes away.
#[derive(Default)]
pub(super) struct Work {
    pub(super) blocks: Vec<Pending>,
    pub(super) sinks: Vec<Arc<dyn CommitListener>>,
    /// An empty buffer, to be swapped for the full one.
    pub(super) buffer: Vec<u8>,
    /// Unsynced bytes beside the log that entries refer to.
    pub(super) beside_bytes: usize,
}

pub(super) struct State {
    full: Vec<Pending>,
    open: Pending,
    next: Lsn,
    table: SegmentTable,
    /// Unsynced bytes beside the log that entries refer to.
    beside_bytes: usize,
    /// Bytes of the open block's segment that are taken by blocks before it.
    taken_bytes: u64,
    sinks: Vec<Arc<dyn CommitListener>>,
    room_wakers: Vec<Waker>,
    thread: Thread,
    /// Somebody watches since the last commit began.
    newly_watched: bool,
    /// Written and not synced, or a segment may be free: something for the lazy time.
    lazy: bool,
    phase: Phase,
    segment_bytes: u64,
    eager_bytes: usize,
}

impl State {
    /// `segments` ends with the fresh one to write to.
    pub(super) fn new(segments: VecDeque<Segment>, upto: Lsn, options: &WalOptions) -> Self {
        let table = SegmentTable::new(segments);
        let next = Lsn(upto.0 + 1);
        Self {
            full: Vec::new(),
            open: Pending::new(table.current(), next, Vec::new()),
            next,
            table,
            beside_bytes: 0,
            taken_bytes: FIRST_BLOCK_AT,
            sinks: Vec::new(),
            room_wakers: Vec::new(),
            thread: Thread::Awake,
            newly_watched: false,
            lazy: false,
            phase: Phase::Open,
            segment_bytes: options.segment_bytes.min(MAX_APPEND_BYTES as u64),
            eager_bytes: options.eager_bytes(),
        }
    }

    /// Also returns the bytes appended, those beside the log included.
    pub(super) fn append(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> (Appended, usize) {
        let start = self.open.whole;
        self.open.bytes.truncate(start);
        let buffer = &mut self.open.bytes;
        let mut batch = Batch { buffer, entries: 0, retained: 0, beside_bytes: 0, start };
        fill(&mut batch);
        let Batch { entries, retained, mut beside_bytes, .. } = batch;
        let mut bytes = self.open.bytes.len() - start;
        if self.is_dead() {
            self.open.bytes.truncate(start);
            (bytes, beside_bytes) = (0, 0);
        } else {
            self.keep(start, entries);
            self.beside_bytes += beside_bytes;
        }
        self.next = Lsn(self.next.0 + u64::from(entries));
        let upto = Lsn(self.next.0 - 1);
        self.table.count(entries, bytes, retained, upto);
        (Appended { upto, segment: self.open.segment }, bytes + beside_bytes)
    }

    /// Makes what lies behind `start` part of a block: the open one, or the first of a new segment.
    fn keep(&mut self, start: usize, entries: u32) {
        let is_first = self.open.entries == 0 && self.taken_bytes == FIRST_BLOCK_AT;
        let end = self.taken_bytes + self.open.bytes.len() as u64;
        if end > self.segment_bytes && !is_first {
            self.roll(start);
        }
        self.open.whole = self.open.bytes.len();
        self.open.entries += entries;
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
        self.table.begin(id);
        self.taken_bytes = FIRST_BLOCK_AT;
    }

    pub(super) fn watch(&mut self, sink: Arc<dyn CommitListener>) {
        if !self.is_dead() {
            self.sinks.push(sink);
            self.newly_watched = true;
        }
    }

    /// The next commit is wanted, though nobody asks to be told of it.
    pub(super) fn watch_once(&mut self) {
        self.newly_watched |= !self.is_dead();
    }

    pub(super) fn wait_for_room(&mut self, waker: &Waker) {
        stdx::add_waker(&mut self.room_wakers, waker);
    }

    pub(super) fn is_dead(&self) -> bool {
        self.phase == Phase::Dead
    }

    pub(super) fn retain(&mut self, id: SegmentId, n: u64) {
        self.table.retain(id, n);
    }

    pub(super) fn release(&mut self, id: SegmentId, n: u64) {
        self.table.release(id, n, Lsn(self.next.0 - 1));
        self.lazy |= self.table.has_unneeded();
    }

    pub(super) fn start_freeing(&mut self) {
        self.table.start_freeing();
        self.lazy |= self.table.has_unneeded();
    }

    /// Forgets the oldest segments that nothing needs and that are older than `current`; also
    /// returns the oldest that stays.
    pub(super) fn free_oldest(
        &mut self,
        current: SegmentId,
        synced: Lsn,
    ) -> (Vec<SegmentId>, SegmentId) {
        let freed = std::iter::from_fn(|| self.table.free_oldest(current, synced)).collect();
        (freed, self.table.first())
    }

    pub(super) fn oldest(&self) -> Option<SegmentState> {
        self.table.oldest().filter(|_| self.table.len() > 1).map(Segment::state)
    }

    pub(super) fn stats(&self) -> WalStats {
        WalStats {
            segments: self.table.len() as u64,
            bytes: self.table.bytes(),
            live_bytes: self.table.live_bytes(),
            oldest: self.table.oldest().map(Segment::state),
            appended_upto: Lsn(self.next.0 - 1),
            ..WalStats::default()
        }
    }

    pub(super) fn close(&mut self) {
        if !self.is_dead() {
            self.phase = Phase::Closing;
        }
        self.thread = Thread::Awake;
    }

    /// Whether what was appended needs a new segment, or files beside the log.
    pub(super) fn opens_files(&self, current: SegmentId) -> bool {
        self.beside_bytes > 0 || !self.full.is_empty() || self.open.segment != current
    }

    fn has_entries(&self) -> bool {
        self.open.entries > 0 || !self.full.is_empty()
    }

    pub(super) fn need(&self) -> Need {
        if self.phase != Phase::Open {
            return Need::Close;
        }
        let has_entries = self.has_entries();
        if self.newly_watched
            || (has_entries && (!self.sinks.is_empty() || !self.room_wakers.is_empty()))
            || !self.full.is_empty()
            || self.open.payload_bytes() + self.beside_bytes >= self.eager_bytes
        {
            return Need::Now;
        }
        if has_entries || self.lazy { Need::Lazy } else { Need::Nothing }
    }

    /// Whether the caller must wake the commit thread; says so once.
    pub(super) fn take_wake(&mut self) -> bool {
        let wake = match self.thread {
            Thread::Awake => false,
            Thread::Lingering => matches!(self.need(), Need::Now | Need::Close),
            Thread::Asleep => self.need() != Need::Nothing,
        };
        if wake {
            self.thread = Thread::Awake;
        }
        wake
    }

    pub(super) const fn sleep(&mut self, lingering: bool) {
        self.thread = if lingering { Thread::Lingering } else { Thread::Asleep };
    }

    pub(super) const fn wake_up(&mut self) {
        self.thread = Thread::Awake;
    }

    /// Swaps everything appended and everybody who waits for it into `work`.
    pub(super) fn take(&mut self, work: &mut Work) {
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
        std::mem::swap(&mut self.sinks, &mut work.sinks);
        self.newly_watched = false;
        self.lazy = false;
    }

    /// Keeps those who want to hear of the next commit too.
    pub(super) fn put_back(&mut self, sinks: &mut Vec<Arc<dyn CommitListener>>) {
        self.sinks.append(sinks);
    }

    /// Something is written and not synced.
    pub(super) const fn set_lazy(&mut self) {
        self.lazy = true;
    }

    pub(super) fn take_room_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.room_wakers)
    }

    /// The log has failed: nothing is kept, nobody is told of durability again.
    pub(super) fn die(&mut self) -> (Vec<Waker>, Vec<Arc<dyn CommitListener>>) {
        self.phase = Phase::Dead;
        self.full = Vec::new();
        self.open = Pending::new(self.open.segment, self.next, Vec::new());
        (self.take_room_wakers(), std::mem::take(&mut self.sinks))
    }
}
