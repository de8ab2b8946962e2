//! The time of day, for those who need it more exactly than from tick to tick, and time that only passes.

use crate::{MonotonicMs, Now, UnixMs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The source of time.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The last tick that was told: time stands still in between.
    #[default]
    Ticks,
    /// The last tick that was told; this time before the first tick.
    TicksFrom(Now),
    /// Functions that read it.
    Read {
        /// The time of day.
        unix_ms: fn() -> UnixMs,
        /// The time on the node's own clock.
        monotonic_ms: fn() -> MonotonicMs,
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
        let this = Self { clock, ..Self::default() };
        if let Clock::TicksFrom(start) = clock {
            this.tick(start);
        }
        this
    }

    /// Notes that time has gone on to `now`.
    pub fn tick(&self, now: Now) {
        self.ticked_unix_ms.store(now.unix_ms.get(), Ordering::Relaxed);
        self.ticked_monotonic_ms.store(now.monotonic_ms.get(), Ordering::Relaxed);
    }

    /// The time of the last tick.
    pub fn ticked(&self) -> Now {
        let monotonic_ms = self.ticked_monotonic_ms.load(Ordering::Relaxed);
        let unix_ms = self.ticked_unix_ms.load(Ordering::Relaxed);
        Now {
            monotonic_ms: MonotonicMs::from_raw(monotonic_ms),
            unix_ms: UnixMs::from_raw(unix_ms),
        }
    }

    /// The time of day.
    pub fn unix_ms(&self) -> UnixMs {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => self.ticked().unix_ms,
            Clock::Read { unix_ms, .. } => unix_ms(),
        }
    }

    /// The time on the node's own clock.
    pub fn monotonic_ms(&self) -> MonotonicMs {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => self.ticked().monotonic_ms,
            Clock::Read { monotonic_ms, .. } => monotonic_ms(),
        }
    }

    /// The time to wait for `span_ms` to pass; `None` for until the next tick.
    pub const fn wait(&self, span_ms: u64) -> Option<Duration> {
        match self.clock {
            Clock::Ticks | Clock::TicksFrom(_) => None,
            Clock::Read { .. } => Some(Duration::from_millis(span_ms)),
        }
    }
}
