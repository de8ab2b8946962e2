//! The segments that are not freed, and how much of them is still needed.

use std::collections::VecDeque;

use super::buffer::Retained;
use super::owners::Owners;
use super::{Lsn, Owner, SegmentId, SegmentState};

/// A segment that is not freed.
#[derive(Debug)]
pub(super) struct LiveSegment {
    pub(super) id: SegmentId,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    live: u64,
    /// The owners that needed entries in the segment, and may still.
    owners: Owners,
    /// The entry that must be synced before the segment is freed.
    needed_until: Lsn,
}

impl LiveSegment {
    pub(super) fn new(id: SegmentId) -> Self {
        let owners = Owners::default();
        Self { id, entries: 0, bytes: 0, live: 0, owners, needed_until: Lsn(0) }
    }

    /// Counts an append that ends at `upto`.
    pub(super) fn count(&mut self, entries: u32, bytes: usize, upto: Lsn) {
        self.entries += u64::from(entries);
        self.bytes += bytes as u64;
        self.needed_until = upto;
    }

    /// Counts entries of an append that are needed.
    pub(super) fn needed_by(&mut self, Retained { n, owner }: Retained) {
        self.live += n;
        if n > 0 {
            self.owners.add(owner);
        }
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

/// The segments, oldest first; the last is the one appended to.
#[derive(Debug)]
pub(super) struct SegmentTable {
    segments: VecDeque<LiveSegment>,
    freeing: bool,
}

impl SegmentTable {
    pub(super) const fn new(segments: VecDeque<LiveSegment>) -> Self {
        Self { segments, freeing: false }
    }

    pub(super) fn current(&self) -> SegmentId {
        self.segments.back().map_or(SegmentId(1), |segment| segment.id)
    }

    pub(super) fn begin(&mut self, id: SegmentId) {
        assert!(self.segments.back().is_none_or(|newest| newest.id < id), "segments rise");
        self.segments.push_back(LiveSegment::new(id));
    }

    /// The segment that is appended to.
    pub(super) fn newest(&mut self) -> Option<&mut LiveSegment> {
        self.segments.back_mut()
    }

    fn get_mut(&mut self, id: SegmentId) -> Option<&mut LiveSegment> {
        let idx = self.segments.binary_search_by_key(&id, |segment| segment.id).ok()?;
        self.segments.get_mut(idx)
    }

    pub(super) fn retain(&mut self, id: SegmentId, owner: Owner, n: u64) {
        let segment = self.get_mut(id);
        debug_assert!(segment.is_some(), "{id:?} is retained and was freed");
        if let Some(segment) = segment {
            segment.needed_by(Retained { n, owner });
        }
    }

    /// The owners that needed entries in the segment, and may still; in order.
    pub(super) fn owners_in(&self, id: SegmentId) -> Vec<Owner> {
        let segment = self.segments.iter().find(|segment| segment.id == id);
        segment.map(|segment| segment.owners.sorted()).unwrap_or_default()
    }

    /// Releases `n` entries of a segment; `upto` is the last entry appended, which may replace them.
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

    pub(super) fn oldest(&self) -> Option<&LiveSegment> {
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
