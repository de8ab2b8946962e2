//! A queue that is filled after a start with what the log has of it.

use super::Queue;
use super::delivery_counts::RecoveredDeliveryCounts;
use super::state::QueueState;
use crate::body_refs::BodyRefs;
use log::{SegmentCounts, SegmentId};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use store::Queued;
use store::backlog::{PageNote, RestoreError};
use store::blob::BlobId;

/// A queue that is being filled after a start.
pub struct QueueRecovery<'a> {
    queue: &'a Queue,
    pub(super) local: MutexGuard<'a, QueueState>,
    reads_later: bool,
}

impl Queue {
    /// Puts messages of an earlier life back in; nobody else may use the queue meanwhile.
    pub fn restoring(&self) -> QueueRecovery<'_> {
        QueueRecovery { queue: self, local: stdx::lock(&self.local), reads_later: false }
    }
}

impl QueueRecovery<'_> {
    /// Whether a page must be read for what the core has to know of its messages.
    pub fn must_read(&self, note: &PageNote) -> bool {
        note.is_annotated || self.local.policy.needs_content()
    }

    /// Pages are read later, and the core is told of all messages then: the queue's clients wait.
    pub fn read_later(&mut self) {
        self.reads_later = true;
        self.local.content.durability.start_loading(self.queue);
    }

    /// Puts a message back in. Positions rise from call to call.
    pub fn message(&mut self, queued: &Queued<'_>, segment: SegmentId) {
        if !self.reads_later {
            let bytes = u64::from(queued.body_bytes());
            self.local.restoring().message(self.queue, (queued.position, bytes), &queued.message);
        }
        self.local.content.backlog.restore(&self.queue.storage.pool, queued, segment);
    }

    /// Adds a reference of a stored body; false if there is no such body.
    pub fn retain_body(&self, blob: BlobId) -> bool {
        self.queue.bodies.retain(blob)
    }

    /// Page images that name stored bodies, and which of those in them are the queue's.
    pub fn names(&self) -> Vec<BodyRefs> {
        let named = self.local.content.backlog.pages().images_with_bodies();
        let names = |(image, positions)| {
            let bodies = Arc::clone(&self.queue.bodies);
            BodyRefs { bodies, image, is_durable: true, positions }
        };
        named.map(names).collect()
    }

    /// Puts a page back in: what is left of it. Positions rise from call to call.
    ///
    /// # Errors
    /// The note cannot be true.
    pub fn page(&mut self, note: &PageNote, segment: SegmentId) -> Result<(), RestoreError> {
        self.local.content.backlog.restore_page(note, segment)?;
        if !self.reads_later {
            self.local.restoring().unread(note);
        }
        Ok(())
    }

    /// Tells the core how often messages came back, once they are back. Returns which log segments that
    /// needs.
    pub fn returns(&mut self, before: RecoveredDeliveryCounts) -> SegmentCounts {
        self.local.restoring().returns(before)
    }

    /// Ends the restoring: positions from `next_position` on are free, and those below
    /// `seen_below` may have been delivered before.
    pub fn end(mut self, next_position: u64, seen_below: u64) {
        let held_bytes = &self.queue.storage.pager.held_bytes;
        if self.reads_later {
            self.queue.counters.publish(&self.local, held_bytes);
            // The core will be told of them.
            let n_messages = self.local.content.backlog.pages().n_messages();
            self.queue.counters.n_ready.store(n_messages, Ordering::Relaxed);
            return;
        }
        self.local.restoring().end(next_position, seen_below);
        // Nothing departs yet: only the alarm is set.
        let is_deleted = self.local.deleted;
        self.local.leaving().settle(self.queue, is_deleted);
        self.queue.counters.publish(&self.local, held_bytes);
    }
}
