//! Waking connection tasks once no lock is held.

use smallvec::SmallVec;
use std::task::Waker;

/// Wakers to be called when no lock is held.
#[derive(Debug, Default)]
pub struct Wakes {
    wakers: SmallVec<[Waker; 4]>,
    /// Connections that will be given messages by queues among the wakers.
    n_gathered_for: usize,
}

impl Wakes {
    /// Makes a list without wakers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queue that has gathered messages for `n_consumers`, and gives them out when it is woken.
    pub fn add_gathering(&mut self, queue: Waker, n_consumers: usize) {
        self.wakers.push(queue);
        self.n_gathered_for = self.n_gathered_for.saturating_add(n_consumers);
    }

    /// Connections that were given something and sleep, or are about to be given something.
    pub fn n_connections(&self) -> usize {
        self.wakers.len().saturating_add(self.n_gathered_for)
    }
}

impl Extend<Waker> for Wakes {
    #[inline]
    fn extend<T: IntoIterator<Item = Waker>>(&mut self, wakers: T) {
        self.wakers.extend(wakers);
    }
}

/// Wakes every connection task that was given something.
pub fn wake_all(wakes: &mut Wakes) {
    wakes.n_gathered_for = 0;
    for waker in wakes.wakers.drain(..) {
        waker.wake();
    }
}
