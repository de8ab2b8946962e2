//! How often messages came back, in the log: for queues with a delivery limit, so that a message no
//! consumer can cope with does not begin anew with the node.
//!
//! A note tells the counts of some messages as they are then. The log needs it until a later one tells
//! all of them anew, or until none is left that came back. Nobody waits for a note to be durable.

use super::Queue;
use super::state::QueueState;
use crate::log_records::{self, SegmentCounts};
use log::{SegmentId, Wal};
use queue::DeliveryCounts;
use std::collections::BTreeMap;
use store::backlog::Lookup;

/// Counts in one entry of the log.
const PER_ENTRY: usize = 4_096;
/// All counts are noted anew after so many at the earliest.
const RENEW_FROM: usize = 4_096;

/// What the log knows of counts.
#[derive(Debug, Default)]
pub(super) struct DeliveryCountLog {
    /// Where the notes lie that are needed.
    segments: SegmentCounts,
    /// Counts noted since all were, or since the start.
    n_since: usize,
    /// Counts noted when all were.
    n_all: usize,
}

/// Counts before a restart, and where they were noted.
#[derive(Debug, Default)]
pub(crate) struct RecoveredDeliveryCounts {
    pub(crate) counts: BTreeMap<u64, DeliveryCounts>,
    pub(crate) segments: SegmentCounts,
}

impl DeliveryCountLog {
    pub(super) fn any(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Nothing of it is needed any more.
    pub(super) fn release(&mut self, wal: &Wal) {
        self.segments.release(wal);
        *self = Self::default();
    }

    fn add(&mut self, wal: &Wal, queue: u64, counts: &[(u64, DeliveryCounts)]) {
        for some in counts.chunks(PER_ENTRY) {
            self.segments.add(log_records::append_returned(wal, queue, false, some).segment);
        }
        self.n_since += counts.len();
    }

    /// Tells all of them anew.
    fn renew(&mut self, wal: &Wal, queue: u64, counts: &[(u64, DeliveryCounts)]) {
        let mut before = std::mem::take(self);
        let (first, rest) = counts.split_at(counts.len().min(PER_ENTRY));
        self.segments.add(log_records::append_returned(wal, queue, true, first).segment);
        self.add(wal, queue, rest);
        (self.n_since, self.n_all) = (0, counts.len());
        before.release(wal);
    }

    const fn is_worn(&self) -> bool {
        self.n_since >= RENEW_FROM && self.n_since >= 2 * self.n_all
    }
}

impl QueueState {
    /// Notes how often messages came back, of those whose counts have changed.
    pub(super) fn note_returns(&mut self, queue: &Queue) {
        let changed = self.fifo.take_returned();
        let Some(ruling) = self.ruling.as_deref_mut() else { return };
        let (noted, wal, id) = (&mut ruling.noted_returns, queue.wal(), queue.id().0);
        if !self.keeping.is_logged {
            noted.release(wal);
            return;
        }
        if !changed.is_empty() {
            noted.add(wal, id, &changed);
        }
        if !noted.any() {
            return;
        }
        if ruling.settings.delivery_limit.is_none() {
            // They count no more, and do not when there is a limit again.
            noted.renew(wal, id, &[]);
            noted.release(wal);
        } else if self.fifo.returned().next().is_none() {
            noted.release(wal);
        } else if noted.is_worn() {
            let all: Vec<_> = self.fifo.returned().collect();
            noted.renew(wal, id, &all);
        }
    }

    /// Notes anew what lies in a log segment that is to go.
    pub(super) fn move_noted_returns(&mut self, queue: &Queue, segment: SegmentId) {
        let Some(ruling) = self.ruling.as_deref_mut() else { return };
        if ruling.noted_returns.segments.has(segment) {
            let all: Vec<_> = self.fifo.returned().collect();
            ruling.noted_returns.renew(queue.wal(), queue.id().0, &all);
        }
    }

    /// Tells the core of counts before a restart, of messages that are still there. Returns which log
    /// segments that needs.
    pub(super) fn restore_returns(&mut self, before: RecoveredDeliveryCounts) -> SegmentCounts {
        let RecoveredDeliveryCounts { counts, segments } = before;
        let mut any = false;
        for (position, counts) in counts {
            if !matches!(self.backlog.get(position), Lookup::Gone) {
                self.fifo.restore_returns(position, counts);
                any = true;
            }
        }
        let Some(ruling) = self.ruling.as_deref_mut().filter(|_| any) else {
            return SegmentCounts::default();
        };
        ruling.noted_returns.segments = segments.clone();
        segments
    }
}
