//! The node's care for its queues: log segments that are to be freed, pages that take too much memory, times
//! that have come, messages that are held for too long, and what a clean stop notes.

use super::Queue;
use super::policy::unused_for_ms;
use crate::journal::Journal;
use crate::records;
use log::SegmentId;
use queue_type::AfterDetach;
use std::sync::Arc;
use stdx::TimeScale;
use store::backlog::{LiveMessage, PageNote};

/// A queue as the node's background work looks after it.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep<'q>(pub(super) &'q Queue);

/// The note of a clean stop about a queue that survives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopNote {
    /// The first position that no consumer was given; none while the queue is still being read.
    pub first_undelivered: Option<u64>,
    /// For how long nobody has used it, if it goes when that is too long.
    pub unused_ms: Option<u64>,
}

impl Queue {
    /// The queue as background work looks after it.
    #[must_use]
    pub const fn upkeep(&self) -> Upkeep<'_> {
        Upkeep(self)
    }
}

impl Upkeep<'_> {
    /// Its journal, if it has one.
    #[must_use]
    pub fn journal(self) -> Option<Arc<Journal>> {
        stdx::lock(&self.0.state).content.durability.journal().cloned()
    }

    /// Moves what lies in log segment `segment` to the log's end.
    pub fn relocate(self, segment: SegmentId) {
        let mut state = stdx::lock(&self.0.state);
        let (wal, queue) = (&self.0.services.storage.wal, self.0.def.id.0);
        let message = |survivor: LiveMessage<'_>| {
            let LiveMessage { position, message, stored } = survivor;
            let appended = records::append_message(wal, queue, position, &message, stored);
            wal.release(segment, 1);
            appended.at.segment
        };
        let page = |note: &PageNote| {
            let is_needed = !note.live.is_empty();
            let moved_to = is_needed.then(|| records::append_paged(wal, queue, note).at.segment);
            wal.release(segment, 1);
            moved_to
        };
        self.0.files_version.relocate(wal, segment);
        state.leaving().move_noted_returns(self.0, segment);
        state.content.backlog.log_places().relocate(segment, message, page);
    }

    /// Asks the pager if there is something to do.
    pub fn look_at_pages(self) {
        self.0.with(|_, _| ());
    }

    /// Carries out everything that is due by now. To be called when the alarm comes.
    #[must_use]
    pub fn on_time(self, scale: TimeScale) -> AfterDetach {
        self.0.with(|state, wakes| state.on_time(self.0, scale, wakes))
    }

    /// The note that a clean stop takes of it.
    #[must_use]
    pub fn stop_note(self) -> StopNote {
        let state = stdx::lock(&self.0.state);
        let first_undelivered =
            (!self.0.is_loading()).then(|| state.policy.first_undelivered(&state.fifo));
        let unused_ms = unused_for_ms(&state, self.0.services.storage.time.monotonic_ms());
        StopNote { first_undelivered, unused_ms }
    }
}
