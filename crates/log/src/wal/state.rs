//! The state that the append lock guards: the shared buffer, the segments' live counts, who waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::buffer::{Batch, Buffer, CommitWork, Filled};
use super::table::{LiveSegment, SegmentTable};
use super::waiters::{Need, Waiters};
use super::{Appended, CommitListener, Lsn, Owner, SegmentId, WalOptions, WalStats};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalPhase {
    Open,
    /// Everything left is to be written, and the commit thread is to stop.
    Closing,
    /// The log is closed or has failed.
    Dead,
}

pub(super) struct WalState {
    buffer: Buffer,
    table: SegmentTable,
    pub(super) waiters: Waiters,
    phase: WalPhase,
    /// Whether something is left for the lazy time: written and not synced, or a segment that may be free.
    lazy: bool,
    eager_bytes: usize,
}

impl WalState {
    /// `segments` ends with the fresh one to write to.
    pub(super) fn new(segments: VecDeque<LiveSegment>, upto: Lsn, options: &WalOptions) -> Self {
        let table = SegmentTable::new(segments);
        Self {
            buffer: Buffer::new(table.current(), Lsn(upto.0 + 1), options.segment_bytes),
            table,
            waiters: Waiters::new(),
            phase: WalPhase::Open,
            lazy: false,
            eager_bytes: options.eager_bytes(),
        }
    }

    /// Appends entries to the buffer; returns where, and the bytes appended, those beside the log included.
    pub(super) fn append(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> (Appended, usize) {
        let Filled { at, begins_segment, entries, retained, bytes, beside_bytes } =
            self.buffer.append(!self.is_dead(), fill);
        let upto = self.buffer.upto();
        if begins_segment {
            self.table.begin(at.segment);
        }
        if let Some(segment) = self.table.newest() {
            debug_assert_eq!(segment.id, at.segment, "the append is counted in its segment");
            segment.count(entries, bytes, upto);
            segment.needed_by(retained);
        }
        (Appended { upto, at, bytes }, bytes + beside_bytes)
    }

    pub(super) fn watch(&mut self, sink: Arc<dyn CommitListener>) {
        if !self.is_dead() {
            self.waiters.watch(sink);
        }
    }

    /// Has the next commit made, though nobody asks to be told of it.
    pub(super) fn watch_once(&mut self) {
        if !self.is_dead() {
            self.waiters.watch_once();
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.phase == WalPhase::Dead
    }

    pub(super) fn retain(&mut self, id: SegmentId, owner: Owner, n: u64) {
        self.table.retain(id, owner, n);
    }

    pub(super) fn owners_in(&self, id: SegmentId) -> Vec<Owner> {
        self.table.owners_in(id)
    }

    pub(super) fn release(&mut self, id: SegmentId, n: u64) {
        self.table.release(id, n, self.buffer.upto());
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

    pub(super) fn stats(&self) -> WalStats {
        WalStats {
            segments: self.table.len() as u64,
            bytes: self.table.bytes(),
            live_bytes: self.table.live_bytes(),
            oldest: self.table.oldest().map(LiveSegment::state),
            appended_upto: self.buffer.upto(),
            ..WalStats::default()
        }
    }

    pub(super) fn close(&mut self) {
        if !self.is_dead() {
            self.phase = WalPhase::Closing;
        }
        self.waiters.wake_up();
    }

    /// Whether what was appended needs a new segment, or files beside the log.
    pub(super) fn opens_files(&self, current: SegmentId) -> bool {
        self.buffer.opens_files(current)
    }

    pub(super) fn need(&self) -> Need {
        if self.phase != WalPhase::Open {
            return Need::Close;
        }
        let has_entries = self.buffer.has_entries();
        if self.waiters.want_commit(has_entries) || self.buffer.is_urgent(self.eager_bytes) {
            return Need::Now;
        }
        if has_entries || self.lazy { Need::Lazy } else { Need::Nothing }
    }

    /// Whether the caller must wake the commit thread; says so once.
    pub(super) fn take_wake(&mut self) -> bool {
        let wake = self.waiters.oversleeps(|| self.need());
        if wake {
            self.waiters.wake_up();
        }
        wake
    }

    /// Swaps everything appended and everybody who waits for it into `work`.
    pub(super) fn take(&mut self, work: &mut CommitWork) {
        self.buffer.take(work);
        self.waiters.take_sinks(&mut work.sinks);
        self.lazy = false;
    }

    /// Notes that something is written and not synced.
    pub(super) const fn set_lazy(&mut self) {
        self.lazy = true;
    }

    /// Ends a log that has failed: nothing is kept, and nobody is told of durability again.
    pub(super) fn die(&mut self) -> (Vec<Waker>, Vec<Arc<dyn CommitListener>>) {
        self.phase = WalPhase::Dead;
        self.buffer.clear();
        let mut sinks = Vec::new();
        self.waiters.take_sinks(&mut sinks);
        (self.waiters.take_room_wakers(), sinks)
    }
}
