//! A node's clocks in simulated time.

use stdx::{MonotonicMs, Now, UnixMs};

/// The clocks of a node, made from the simulated time: by default they show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeClock {
    /// When the machine was started: its monotonic clock begins there.
    booted_ms: u64,
    /// Milliseconds that the time of day is ahead; negative while it is behind.
    ahead_ms: i64,
}

impl NodeClock {
    /// Clocks whose time of day is ahead by so much, or behind.
    #[must_use]
    pub const fn skewed(ahead_ms: i64) -> Self {
        Self { booted_ms: 0, ahead_ms }
    }

    /// The node's time at a simulated time.
    #[must_use]
    pub const fn read(&self, now_ms: u64) -> Now {
        let monotonic_ms = MonotonicMs::from_raw(now_ms.saturating_sub(self.booted_ms));
        let unix_ms = UnixMs::from_raw(now_ms.saturating_add_signed(self.ahead_ms));
        Now { monotonic_ms, unix_ms }
    }

    /// Sets the time of day ahead, or back; the monotonic clock goes on.
    pub const fn jump(&mut self, by_ms: i64) {
        self.ahead_ms += by_ms;
    }

    /// The machine starts anew, and its monotonic clock with it.
    pub const fn reboot(&mut self, now_ms: u64) {
        self.booted_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_moves_the_time_of_day_only() {
        let mut clock = NodeClock::skewed(-5);
        assert_eq!(clock.read(1000).unix_ms.get(), 995);
        clock.jump(100);
        assert_eq!(clock.read(1000).unix_ms.get(), 1095);
        assert_eq!(clock.read(1000).monotonic_ms.get(), 1000);
    }

    #[test]
    fn the_monotonic_clock_begins_anew_with_its_machine() {
        let mut clock = NodeClock::default();
        clock.reboot(1000);
        assert_eq!(clock.read(1500).monotonic_ms.get(), 500);
        assert_eq!(clock.read(1500).unix_ms.get(), 1500);
    }
}
