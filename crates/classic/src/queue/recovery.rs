//! A queue that is filled after a start with what the log has of it.

use super::policy::RecoveredDeliveryCounts;
use super::state::QueueState;
use super::{PageScan, Queue};
use content::Restoring;
use log::{SegmentCounts, SegmentId};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use store::Queued;
use store::backlog::PageNote;
use store::blob::BlobId;

/// A queue that is being filled after a start.
pub struct QueueRecovery<'a> {
    queue: &'a Queue,
    pub(super) state: MutexGuard<'a, QueueState>,
    reads_later: bool,
}

impl Queue {
    /// Puts messages of an earlier life back in; nobody else may use the queue meanwhile.
    pub fn restoring(&self) -> QueueRecovery<'_> {
        QueueRecovery { queue: self, state: stdx::lock(&self.state), reads_later: false }
    }
}

impl QueueRecovery<'_> {
    /// Whether a page must be read for what the core has to know of its messages.
    pub fn must_read(&self, note: &PageNote) -> bool {
        note.has_deadlines || self.state.policy.needs_content()
    }

    /// Sets for how long nobody had used the queue when the node was stopped.
    pub fn unused_before(&mut self, unused_before_ms: u64) {
        self.state.policy.unused_before(unused_before_ms);
    }

    /// Pages are read later, and the core is told of all messages then: the queue's clients wait.
    pub fn read_later(&mut self) {
        self.reads_later = true;
        self.state.loading.start(self.queue);
    }

    /// Tells the core how often messages came back, once they are restored. Returns the log segments that are
    /// needed for that.
    pub fn returns(&mut self, before: RecoveredDeliveryCounts) -> SegmentCounts {
        self.state.restoring().returns(before)
    }

    /// Ends the restoring: positions from `next_position` on are free, and those below
    /// `seen_below` may have been delivered before. Returns the pages that are to be read.
    pub fn end(mut self, next_position: u64, seen_below: u64) -> Option<PageScan> {
        self.state.content.upkeep(self.queue).count_named();
        if self.reads_later {
            self.queue.count(&self.state);
            // The core will be told of the messages by the scan.
            let n_messages = self.state.content.backlog.pages().n_messages();
            self.queue.counters.n_ready.store(n_messages, Ordering::Relaxed);
            let me = self.queue.me.upgrade();
            return me.map(|me| PageScan::new(me, next_position, seen_below));
        }
        self.state.restoring().end(self.queue, next_position, seen_below);
        // No message departs yet: only the alarm is set.
        let is_deleted = self.state.deleted;
        self.state.leaving().settle(self.queue, is_deleted);
        self.queue.count(&self.state);
        None
    }
}

impl Restoring for QueueRecovery<'_> {
    fn message(&mut self, queued: &Queued<'_>, segment: SegmentId) {
        if !self.reads_later {
            self.state.restoring().message(self.queue, queued);
        }
        self.state.content.upkeep(self.queue).restore(queued, segment);
    }

    fn page(&mut self, note: &PageNote, segment: SegmentId) -> bool {
        let is_there = self.state.content.upkeep(self.queue).restore_page(note, segment);
        if is_there.is_some() && !self.reads_later {
            self.state.restoring().unread(note);
        }
        is_there.unwrap_or(false)
    }

    fn retain_body(&self, blob: BlobId) -> bool {
        self.queue.retain_body(blob)
    }
}
