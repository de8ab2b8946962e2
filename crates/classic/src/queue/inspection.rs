//! A look into a queue, for listings and for tests.

use super::Queue;
use queue_type::{ConsumerView, Holder, Owner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use stdx::MonotonicMs;
use store::backlog::Lookup;

/// A queue as listings look into it. Each answer takes the queue's lock.
#[derive(Clone, Copy, Debug)]
pub struct Inspection<'q>(pub(super) &'q Queue);

impl Queue {
    /// The queue as listings look into it.
    pub const fn inspect(&self) -> Inspection<'_> {
        Inspection(self)
    }
}

impl Inspection<'_> {
    /// Consumers of the queue.
    #[must_use]
    pub fn consumers(self) -> Vec<ConsumerView> {
        stdx::lock(&self.0.state).membership().views()
    }

    /// Adds up how many messages each channel holds.
    pub fn count_held(self, held: &mut BTreeMap<Owner, u64>) {
        if self.0.counters.n_unacked.load(Ordering::Relaxed) > 0 {
            stdx::lock(&self.0.state).membership().count_held(held);
        }
    }

    /// Consumers that hold the messages at these positions, as far as there is a record of it.
    #[must_use]
    pub fn holders(self, positions: &BTreeSet<u64>) -> Vec<Holder> {
        let now_ms = self.0.time().monotonic_ms();
        stdx::lock(&self.0.state).membership().holders(positions, now_ms)
    }

    /// Property `timestamp` of the message that the queue gives out next; none while that is not in memory.
    #[must_use]
    pub fn head_timestamp(self) -> Option<u64> {
        let state = stdx::lock(&self.0.state);
        match state.content.backlog.get(state.fifo.messages().head()?) {
            Lookup::Here(message) => message.index().timestamp(),
            Lookup::Cold | Lookup::Gone => None,
        }
    }

    /// Whether nothing can be delivered before a page is read.
    #[must_use]
    pub fn waits_for_page(self) -> bool {
        stdx::lock(&self.0.state).paging_turn().is_head_cold()
    }

    /// Pages of the backlog that are not in memory.
    #[must_use]
    pub fn pages_on_disk(self) -> usize {
        let state = stdx::lock(&self.0.state);
        state.content.backlog.pages().n_pages() - state.content.backlog.pages().n_pages_here()
    }

    /// Notes for how long each channel has held its oldest message, at least: since a look at what its
    /// consumers held, as of now by a clock that never goes back.
    pub fn note_held_ms(self, now_ms: MonotonicMs, held_ms: &mut BTreeMap<Owner, u64>) {
        let state = stdx::lock(&self.0.state);
        for (consumer, owner) in state.consumers.owners() {
            let holder = state.fifo.consumers().get(consumer).filter(|it| it.n_held() > 0);
            let Some(holder) = holder else { continue };
            let host = state.consumers.get(consumer).filter(|_| holder.holds_unrecorded());
            let since_ms = state.ages.since_ms(consumer, holder, host).unwrap_or(now_ms);
            let oldest_ms = held_ms.entry(owner).or_default();
            *oldest_ms = now_ms.since(since_ms).max(*oldest_ms);
        }
    }
}
