//! Counts of how often messages came back, in the log: for queues with a delivery limit, so that a message no
//! consumer can cope with does not begin anew with the node.
//!
//! A note tells the counts of some messages as they are then. The log needs it until a later note tells all
//! counts anew, or until no message is left that came back. Nobody waits for a note to be durable.

use super::{Leaving, Policy};
use crate::queue::Queue;
use content::records;
use log::{SegmentCounts, SegmentId, Wal};
use queue::{DeliveryCounts, Fifo};
use std::collections::BTreeMap;

/// Counts in one entry of the log.
const PER_ENTRY: usize = 4_096;
/// All counts are noted anew after so many at the earliest.
const RENEW_FROM: usize = 4_096;

/// The counts that the log knows.
#[derive(Debug, Default)]
pub(super) struct DeliveryCountLog {
    /// Segments of the notes that are needed.
    segments: SegmentCounts,
    /// Counts noted since all were noted together, or since the start.
    n_since: usize,
    /// Counts noted when all were noted together.
    n_all: usize,
}

/// Counts before a restart, and where they were noted.
#[derive(Debug, Default)]
pub struct RecoveredDeliveryCounts {
    /// By position.
    pub counts: BTreeMap<u64, DeliveryCounts>,
    /// The segments of the notes.
    pub segments: SegmentCounts,
}

impl DeliveryCountLog {
    pub(super) fn any(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Releases all notes in the log.
    pub(super) fn release(&mut self, wal: &Wal) {
        self.segments.release(wal);
        *self = Self::default();
    }

    /// Notes counts by position, which replace all earlier ones if `anew`; returns how many.
    fn add(
        &mut self,
        wal: &Wal,
        queue: u64,
        mut anew: bool,
        counts: impl Iterator<Item = (u64, DeliveryCounts)>,
    ) -> usize {
        let (mut counts, mut n) = (counts.peekable(), 0);
        while anew || counts.peek().is_some() {
            let some = counts.by_ref().take(PER_ENTRY).inspect(|_| n += 1);
            self.segments.add(records::append_returned(wal, queue, anew, some).at.segment);
            anew = false;
        }
        n
    }

    /// Notes all counts anew, by position, and releases the notes before.
    fn renew(
        &mut self,
        wal: &Wal,
        queue: u64,
        counts: impl Iterator<Item = (u64, DeliveryCounts)>,
    ) {
        let mut before = std::mem::take(self);
        self.n_all = self.add(wal, queue, true, counts);
        before.release(wal);
    }

    const fn is_worn(&self) -> bool {
        self.n_since >= RENEW_FROM && self.n_since >= 2 * self.n_all
    }
}

/// Counts of the messages that came back.
fn returned(fifo: &Fifo) -> impl Iterator<Item = (u64, DeliveryCounts)> + '_ {
    fifo.messages().policy().into_iter().flat_map(|policy| policy.returns().iter())
}

impl Leaving<'_> {
    /// Notes how often messages came back, of those whose counts have changed.
    pub(super) fn note_returns(&mut self, queue: &Queue) {
        let policy = self.fifo.messages_mut().policy_mut();
        let changed = policy.map(|it| it.returns_mut().take_changed()).unwrap_or_default();
        let Some(policy) = self.policy.state.as_deref_mut() else { return };
        let (noted, wal, id) = (&mut policy.noted_returns, queue.wal(), queue.id().0);
        if !self.content.durability.is_logged() {
            noted.release(wal);
            return;
        }
        if !changed.is_empty() {
            noted.n_since += noted.add(wal, id, false, changed.into_iter());
        }
        if !noted.any() {
            return;
        }
        if policy.settings.delivery_limit.is_none() {
            // Counts from before do not count again when there is a limit again.
            noted.renew(wal, id, std::iter::empty());
            noted.release(wal);
        } else if returned(self.fifo).next().is_none() {
            noted.release(wal);
        } else if noted.is_worn() {
            noted.renew(wal, id, returned(self.fifo));
        }
    }

    /// Notes anew what lies in a log segment that is to go.
    pub(in crate::queue) fn move_noted_returns(&mut self, queue: &Queue, segment: SegmentId) {
        let Some(policy) = self.policy.state.as_deref_mut() else { return };
        if policy.noted_returns.segments.has(segment) {
            policy.noted_returns.renew(queue.wal(), queue.id().0, returned(self.fifo));
        }
    }
}

impl Policy {
    /// The log has notes in these segments. Returns which of them are needed.
    pub(in crate::queue) fn restore_noted_returns(
        &mut self,
        segments: SegmentCounts,
    ) -> SegmentCounts {
        let Some(policy) = self.state.as_deref_mut() else { return SegmentCounts::default() };
        policy.noted_returns.segments = segments.clone();
        segments
    }
}
