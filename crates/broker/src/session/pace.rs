//! What publishes cost of a slice, as a session gathers them. Knows amounts of work.

use super::Session;
use crate::slices::Slices;

/// What a key costs that is looked up, or a queue that is found or locked.
const WORK_PER_QUEUE: usize = 16;
/// Steps of selectors that cost as much as putting a message into a queue.
const STEPS_PER_WORK: usize = 64;

/// What was done at a stretch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    pub(super) slices: Slices,
    /// Queues that messages were gathered for.
    n_places: usize,
}

impl Pace {
    /// A message was routed alone: so many keys and queues, and steps of selectors.
    pub(super) const fn note_routed(&mut self, n_places: usize, n_steps: usize) {
        self.slices.note(n_places.saturating_mul(WORK_PER_QUEUE) + n_steps / STEPS_PER_WORK);
    }

    /// A message was gathered for so many queues.
    #[inline]
    pub(super) const fn note_gathered(&mut self, n_queues: usize) {
        self.slices.note(n_queues);
        self.n_places = self.n_places.saturating_add(n_queues);
    }

    /// For how many queues messages were gathered, each counted for itself, since this was asked last.
    pub(super) const fn take_places(&mut self) -> usize {
        std::mem::replace(&mut self.n_places, 0)
    }
}

impl Session {
    /// Lets others go on. Who was given something is woken before.
    pub(super) async fn give_way(&mut self) {
        self.before_waiting();
        self.pace.slices.give_way().await;
    }

    /// So much was done: others have their turn if it is time.
    pub(super) async fn did(&mut self, work: usize) {
        self.pace.slices.note(work);
        if self.pace.slices.is_over() {
            self.give_way().await;
        }
    }
}
