//! Entries that are needed, counted by segment.

use super::{Owner, SegmentId, Wal};
use smallvec::SmallVec;

/// Counts of log entries per segment, gathered to be retained or released in few calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    counts: SmallVec<[(SegmentId, u64); 2]>,
}

impl SegmentCounts {
    /// Counts one entry.
    pub fn add(&mut self, segment: SegmentId) {
        match self.counts.iter_mut().rev().find(|(known, _)| *known == segment) {
            Some((_, n)) => *n += 1,
            None => self.counts.push((segment, 1)),
        }
    }

    /// Whether none is counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether an entry of that segment is counted.
    #[must_use]
    pub fn has(&self, segment: SegmentId) -> bool {
        self.counts.iter().any(|(known, _)| *known == segment)
    }

    /// Counts what another has counted.
    pub fn add_all(&mut self, other: Self) {
        for (segment, n) in other.counts {
            match self.counts.iter_mut().find(|(known, _)| *known == segment) {
                Some((_, counted)) => *counted += n,
                None => self.counts.push((segment, n)),
            }
        }
    }

    /// Tells the log that what was counted is needed by `owner`, and starts over.
    pub fn retain(&mut self, wal: &Wal, owner: Owner) {
        for (segment, n) in self.counts.drain(..) {
            wal.retain(segment, owner, n);
        }
    }

    /// Tells the log that what was counted is no longer needed, and starts over.
    pub fn release(&mut self, wal: &Wal) {
        for (segment, n) in self.counts.drain(..) {
            wal.release(segment, n);
        }
    }
}

impl Extend<SegmentId> for SegmentCounts {
    fn extend<T: IntoIterator<Item = SegmentId>>(&mut self, segments: T) {
        segments.into_iter().for_each(|segment| self.add(segment));
    }
}

impl IntoIterator for SegmentCounts {
    type Item = (SegmentId, u64);
    type IntoIter = smallvec::IntoIter<[(SegmentId, u64); 2]>;

    fn into_iter(self) -> Self::IntoIter {
        self.counts.into_iter()
    }
}
