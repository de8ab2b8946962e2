//! The bound of the time that a client's input gathers: a tick that wakes the connections whose input was not
//! read since the tick before. It runs only while some connection's input gathers, and costs one wake-up of a
//! thread for all of them, while each of them is read for its own reasons.

use crate::timers::Timers;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// The time between two ticks, which the timers round up to 2 ms at most. Input is read at the second tick
/// after its last read at the latest, settlements at the fifth.
const TICK: Duration = Duration::from_millis(1);

/// The connections whose input gathers.
#[derive(Debug, Default)]
pub(crate) struct ReadClock {
    gathering: Mutex<Vec<Arc<Gathering>>>,
    has_begun: Notify,
}

/// A connection whose input gathers, for as long as it holds this.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// Ticks until it is due.
    n_ticks_left: AtomicU8,
    is_due: AtomicBool,
    task: Waker,
}

impl ReadClock {
    /// A clock that ticks on this thread.
    pub(crate) fn start(timers: &Timers) -> Arc<Self> {
        let this = Arc::new(Self::default());
        let clock = Arc::clone(&this);
        timers.spawn(async move {
            loop {
                clock.has_begun.notified().await;
                while clock.tick() {
                    tokio::time::sleep(TICK).await;
                }
            }
        });
        this
    }

    /// Lets the input of a task gather from now on: it is not due before `n_ticks` ticks after the next one.
    pub(crate) fn gather(&self, task: &Waker, n_ticks: u8) -> Arc<Gathering> {
        let gathering = Arc::new(Gathering {
            n_ticks_left: AtomicU8::new(n_ticks),
            is_due: AtomicBool::new(false),
            task: task.clone(),
        });
        let mut all = stdx::lock(&self.gathering);
        all.push(Arc::clone(&gathering));
        if all.len() == 1 {
            self.has_begun.notify_one();
        }
        gathering
    }

    /// Connections whose input gathers.
    pub(crate) fn n_gathering(&self) -> usize {
        let all = stdx::lock(&self.gathering);
        all.iter().filter(|gathering| Arc::strong_count(gathering) > 1).count()
    }

    /// Wakes tasks that were not read for as many ticks as they may wait. False if no input gathers.
    fn tick(&self) -> bool {
        let mut all = stdx::lock(&self.gathering);
        all.retain(|gathering| Arc::strong_count(gathering) > 1);
        for gathering in &*all {
            gathering.tick();
        }
        !all.is_empty()
    }
}

impl Gathering {
    /// Makes input not due before `n_ticks` ticks after the next one.
    pub(crate) fn wait_for(&self, n_ticks: u8) {
        self.n_ticks_left.store(n_ticks, Ordering::Relaxed);
        self.is_due.store(false, Ordering::Relaxed);
    }

    /// Whether the connection is to be read now, however little has gathered; once.
    pub(crate) fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::Relaxed)
    }

    fn tick(&self) {
        match self.n_ticks_left.load(Ordering::Relaxed) {
            0 if !self.is_due.swap(true, Ordering::Relaxed) => self.task.wake_by_ref(),
            0 => {}
            n => self.n_ticks_left.store(n - 1, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadClock;
    use std::task::Waker;

    #[test]
    fn input_is_due_once_and_not_when_it_was_read_after_the_tick() {
        let clock = ReadClock::default();
        let gathering = clock.gather(Waker::noop(), 1);
        assert!(clock.tick() && !gathering.take_due());
        assert!(clock.tick() && gathering.take_due() && !gathering.take_due());
        assert!(clock.tick());
        gathering.wait_for(1);
        assert!(!gathering.take_due(), "it was read meanwhile");
        assert!(clock.tick() && !gathering.take_due());
        assert!(clock.tick() && gathering.take_due());
        assert_eq!(clock.n_gathering(), 1);
        drop(gathering);
        assert_eq!(clock.n_gathering(), 0);
        assert!(!clock.tick());
    }
}
