//! The time of day, for those who need it more exactly than from tick to tick.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where the time of day comes from.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The last [`Broker::tick`](crate::Broker::tick): time stands still in between.
    #[default]
    Ticks,
    /// The same; before the first tick it is this time.
    TicksFrom(u64),
    /// A function that reads it, in Unix milliseconds.
    Read(fn() -> u64),
}

/// The broker's clock.
#[derive(Debug, Default)]
pub(crate) struct TimeOfDay {
    clock: Clock,
    ticked_ms: AtomicU64,
}

impl TimeOfDay {
    pub(crate) fn new(clock: Clock) -> Self {
        let started_ms = if let Clock::TicksFrom(started_ms) = clock { started_ms } else { 0 };
        Self { clock, ticked_ms: AtomicU64::new(started_ms) }
    }

    pub(crate) fn tick(&self, unix_ms: u64) {
        self.ticked_ms.store(unix_ms, Ordering::Relaxed);
    }

    /// Unix milliseconds.
    pub(crate) fn unix_ms(&self) -> u64 {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => self.ticked_ms.load(Ordering::Relaxed),
            Clock::Read(read) => read(),
        }
    }

    /// How long to wait until `at_ms`; `None` for until the next tick.
    pub(crate) fn time_until(&self, at_ms: u64) -> Option<Duration> {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => None,
            Clock::Read(read) => Some(Duration::from_millis(at_ms.saturating_sub(read()))),
        }
    }
}
