//! The node's care for its queues: log segments that are to be freed, pages that take too much memory, times
//! that have come, messages that are held for too long, and what a clean stop notes.

use super::Queue;
use super::state::QueueState;
use content::{Journal, StopNote};
use delivery::ConsumerChannel;
use log::SegmentId;
use queue_type::AckTimeout;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::MonotonicMs;

/// A queue as the node's background work looks after it.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep<'q>(pub(super) &'q Queue);

impl Queue {
    /// The queue as background work looks after it.
    pub const fn upkeep(&self) -> Upkeep<'_> {
        Upkeep(self)
    }
}

impl Upkeep<'_> {
    /// Journal of the queue, if it has one.
    #[must_use]
    pub fn journal(self) -> Option<Arc<Journal>> {
        stdx::lock(&self.0.state).content.durability.journal().cloned()
    }

    /// Moves what lies in log segment `segment` to the log's end.
    pub fn relocate(self, segment: SegmentId) {
        let mut state = stdx::lock(&self.0.state);
        self.0.files_version.relocate(self.0.wal(), segment);
        state.leaving().move_noted_returns(self.0, segment);
        state.content.upkeep(self.0).relocate(segment);
    }

    /// Asks the pager if there is something to do.
    pub fn look_at_pages(self) {
        self.0.with(|_, _| ());
    }

    /// The note that a clean stop takes of it.
    #[must_use]
    pub fn stop_note(self) -> StopNote {
        let state = stdx::lock(&self.0.state);
        let first_undelivered =
            (!self.0.is_loading()).then(|| state.policy.first_undelivered(&state.fifo));
        let has_consumers = state.fifo.consumers().n_active() > 0;
        let now_ms = self.0.time().monotonic_ms();
        let unused_ms = state.policy.unused_for_ms(has_consumers, now_ms);
        StopNote { first_undelivered, unused_ms }
    }

    /// The channels that hold a message of this queue for too long, as of now by a clock that never
    /// goes back.
    #[must_use]
    pub fn overdue(self, node_timeout_ms: Option<u64>, now_ms: MonotonicMs) -> Vec<AckTimeout> {
        if self.0.counters.n_unacked.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut state = stdx::lock(&self.0.state);
        let of_queue_ms = state.policy.consumer_timeout_ms();
        let QueueState { fifo, consumers, ages, .. } = &mut *state;
        // A consumer's own time-out comes before the queue's, and that before the node's.
        let timeout_ms_of = |consumer: Option<&ConsumerChannel>| {
            let timeout_ms =
                consumer.and_then(ConsumerChannel::timeout_ms).or(of_queue_ms).or(node_timeout_ms);
            timeout_ms.filter(|timeout_ms| *timeout_ms > 0)
        };
        ages.overdue(fifo.consumers(), consumers, timeout_ms_of, now_ms)
    }
}
