//! How much of its requests a session gathers at a stretch before others on its thread have their turn.
//! Knows amounts of work. Never what the work is, or what time it is.

use super::Session;

/// Work done at a stretch: a millisecond or two.
const WORK_MAX: usize = 16 * 1024;
/// What a key costs that is looked up, or a queue that is found or locked.
const WORK_PER_QUEUE: usize = 16;
/// Steps of selectors that cost as much as putting a message into a queue.
const STEPS_PER_WORK: usize = 64;

/// What was done at a stretch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    work: usize,
    /// Queues that messages were gathered for.
    n_places: usize,
}

impl Pace {
    /// A message was routed alone: so many keys and queues, and steps of selectors.
    pub(super) const fn note_routed(&mut self, n_places: usize, n_steps: usize) {
        let work = n_places.saturating_mul(WORK_PER_QUEUE) + n_steps / STEPS_PER_WORK;
        self.work = self.work.saturating_add(work);
    }

    /// A message was gathered for so many queues.
    #[inline]
    pub(super) const fn note_gathered(&mut self, n_queues: usize) {
        self.work = self.work.saturating_add(n_queues);
        self.n_places = self.n_places.saturating_add(n_queues);
    }

    /// For how many queues messages were gathered, each counted for itself, since this was asked last.
    pub(super) const fn take_places(&mut self) -> usize {
        std::mem::replace(&mut self.n_places, 0)
    }

    /// Whether it is time to let others go on.
    #[inline]
    pub(super) const fn is_over(self) -> bool {
        self.work >= WORK_MAX
    }
}

impl Session {
    /// Lets others go on. Who was given something is woken before.
    pub(super) async fn give_way(&mut self) {
        self.before_waiting();
        self.pace = Pace::default();
        tokio::task::yield_now().await;
    }
}
