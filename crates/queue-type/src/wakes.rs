//! Waking connection tasks once no lock is held.

use smallvec::SmallVec;
use std::task::Waker;

/// Wakers to be called when no lock is held.
pub type Wakes = SmallVec<[Waker; 4]>;

/// Wakes every connection task that was given something.
pub fn wake_all(wakes: &mut Wakes) {
    for waker in wakes.drain(..) {
        waker.wake();
    }
}
