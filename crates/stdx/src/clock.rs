//! The time of day, for those who need it more exactly than from tick to tick, and time that only passes.

use crate::Now;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The source of time.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The last tick that was told: time stands still in between.
    #[default]
    Ticks,
    /// The last tick that was told; before the first tick it is this time in milliseconds, on both scales.
    TicksFrom(u64),
    /// Functions that read it.
    Read {
        /// Unix milliseconds.
        unix_ms: fn() -> u64,
        /// Milliseconds since whenever; they go on evenly.
        monotonic_ms: fn() -> u64,
    },
}

/// The scale that a time is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeScale {
    /// The time of day, which may be set.
    Unix,
    /// Time that passes, whatever the time of day is set to.
    Monotonic,
}

/// The clock of a node.
#[derive(Debug, Default)]
pub struct WallClock {
    clock: Clock,
    ticked_unix_ms: AtomicU64,
    ticked_monotonic_ms: AtomicU64,
}

impl WallClock {
    /// Creates a clock that reads `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let started_ms = if let Clock::TicksFrom(started_ms) = clock { started_ms } else { 0 };
        let started_ms = || AtomicU64::new(started_ms);
        Self { clock, ticked_unix_ms: started_ms(), ticked_monotonic_ms: started_ms() }
    }

    /// Notes that time has gone on to `now`.
    pub fn tick(&self, now: Now) {
        self.ticked_unix_ms.store(now.unix_ms, Ordering::Relaxed);
        self.ticked_monotonic_ms.store(now.monotonic_ms, Ordering::Relaxed);
    }

    /// The time of the last tick.
    pub fn ticked(&self) -> Now {
        Now {
            monotonic_ms: self.ticked_monotonic_ms.load(Ordering::Relaxed),
            unix_ms: self.ticked_unix_ms.load(Ordering::Relaxed),
        }
    }

    /// Unix milliseconds.
    pub fn unix_ms(&self) -> u64 {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => self.ticked().unix_ms,
            Clock::Read { unix_ms, .. } => unix_ms(),
        }
    }

    /// Milliseconds that mean something only beside each other, of this run of the node.
    pub fn monotonic_ms(&self) -> u64 {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => self.ticked().monotonic_ms,
            Clock::Read { monotonic_ms, .. } => monotonic_ms(),
        }
    }

    /// The time on this scale, in milliseconds.
    pub fn on(&self, scale: TimeScale) -> u64 {
        match scale {
            TimeScale::Unix => self.unix_ms(),
            TimeScale::Monotonic => self.monotonic_ms(),
        }
    }

    /// The time to wait until `at_ms` on this scale; `None` for until the next tick.
    pub fn time_until(&self, scale: TimeScale, at_ms: u64) -> Option<Duration> {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => None,
            Clock::Read { .. } => Some(Duration::from_millis(at_ms.saturating_sub(self.on(scale)))),
        }
    }
}
