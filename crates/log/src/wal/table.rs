//! The segments that are not freed, and how much of them is still needed.

use std::collections::VecDeque;

use super::{Lsn, SegmentId, SegmentState};

/// A segment that is not freed.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: SegmentId,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    live: u64,
    /// The segment must stay until this is synced.
    needed_until: Lsn,
}

impl Segment {
    pub(super) const fn new(id: SegmentId) -> Self {
        Self { id, entries: 0, bytes: 0, live: 0, needed_until: Lsn(0) }
    }

    pub(super) fn state(&self) -> SegmentState {
        let average = self.bytes.checked_div(self.entries).unwrap_or(0);
        SegmentState {
            id: self.id,
            entries: self.entries,
            bytes: self.bytes,
            live: self.live,
            live_bytes: average.saturating_mul(self.live),
        }
    }
}

/// Oldest first; the last is the one appended to.
#[derive(Debug)]
pub(super) struct SegmentTable {
    segments: VecDeque<Segment>,
    freeing: bool,
}

impl SegmentTable {
    pub(super) const fn new(segments: VecDeque<Segment>) -> Self {
        Self { segments, freeing: false }
    }

    pub(super) fn begin(&mut self, id: SegmentId) {
        self.segments.push_back(Segment::new(id));
    }

    pub(super) fn current(&self) -> SegmentId {
        self.segments.back().map_or(SegmentId(1), |segment| segment.id)
    }

    /// Counts an append to the current segment that ends at `upto`.
    pub(super) fn count(&mut self, entries: u32, bytes: usize, retained: u64, upto: Lsn) {
        if let Some(segment) = self.segments.back_mut() {
            segment.entries += u64::from(entries);
            segment.bytes += bytes as u64;
            segment.live += retained;
            segment.needed_until = upto;
        }
    }

    fn get_mut(&mut self, id: SegmentId) -> Option<&mut Segment> {
        let idx = self.segments.binary_search_by_key(&id, |segment| segment.id).ok()?;
        self.segments.get_mut(idx)
    }

    pub(super) fn retain(&mut self, id: SegmentId, n: u64) {
        let segment = self.get_mut(id);
        debug_assert!(segment.is_some(), "{id:?} is retained and was freed");
        if let Some(segment) = segment {
            segment.live += n;
        }
    }

    /// `upto` is the last entry appended, which may replace what is released.
    pub(super) fn release(&mut self, id: SegmentId, n: u64, upto: Lsn) {
        let segment = self.get_mut(id);
        debug_assert!(segment.as_ref().is_some_and(|s| s.live >= n), "{id:?}: {n} is too many");
        if let Some(segment) = segment {
            segment.live = segment.live.saturating_sub(n);
            segment.needed_until = segment.needed_until.max(upto);
        }
    }

    pub(super) const fn start_freeing(&mut self) {
        self.freeing = true;
    }

    /// Whether the oldest segment only waits for a sync to be freed.
    pub(super) fn has_unneeded(&self) -> bool {
        self.freeing
            && self.segments.len() > 1
            && self.segments.front().is_some_and(|s| s.live == 0)
    }

    /// Forgets the oldest segment if nothing needs it and it is older than `current`.
    pub(super) fn free_oldest(&mut self, current: SegmentId, synced: Lsn) -> Option<SegmentId> {
        let oldest = self.segments.front()?;
        let free = self.freeing
            && oldest.id < current
            && oldest.live == 0
            && oldest.needed_until <= synced;
        if !free {
            return None;
        }
        self.segments.pop_front().map(|segment| segment.id)
    }

    pub(super) fn first(&self) -> SegmentId {
        self.segments.front().map_or(SegmentId(1), |segment| segment.id)
    }

    pub(super) fn oldest(&self) -> Option<&Segment> {
        self.segments.front()
    }

    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.state().live_bytes).sum()
    }
}
