//! The intervals between a peer's pulses, and how long its silence may last.

/// A silence up to here is never suspicious.
const LIMIT_MIN_MS: u64 = 1_000;
/// A longer one always is.
const LIMIT_MAX_MS: u64 = 5_000;
/// Deviations above the mean.
const DEVIATIONS: u64 = 8;
/// Means are those of about 2^this intervals.
const SHIFT: u32 = 4;

/// The mean interval and the mean deviation from it, both in milliseconds times 2^[`SHIFT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PulseIntervals {
    mean: u64,
    deviation: u64,
}

impl PulseIntervals {
    /// Expects this interval.
    pub(super) const fn new(interval_ms: u64) -> Self {
        Self { mean: interval_ms << SHIFT, deviation: 0 }
    }

    /// Takes an interval into account.
    pub(super) fn add(&mut self, interval_ms: u64) {
        let interval_ms = interval_ms.min(LIMIT_MAX_MS);
        let difference = interval_ms.abs_diff(self.mean >> SHIFT);
        self.deviation = self.deviation - (self.deviation >> SHIFT) + difference;
        self.mean = self.mean - (self.mean >> SHIFT) + interval_ms;
    }

    /// The longest silence that is not suspicious.
    pub(super) fn limit_ms(self) -> u64 {
        ((self.mean + DEVIATIONS * self.deviation) >> SHIFT).clamp(LIMIT_MIN_MS, LIMIT_MAX_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_intervals_within_bounds() {
        let mut intervals = PulseIntervals::new(200);
        assert_eq!(intervals.limit_ms(), 1_000);
        (0..100).for_each(|n| intervals.add(if n % 2 == 0 { 100 } else { 700 }));
        assert!((2_500..3_000).contains(&intervals.limit_ms()), "{}", intervals.limit_ms());
        intervals.add(u64::MAX);
        (0..100).for_each(|n| intervals.add(if n % 2 == 0 { 100 } else { 5_000 }));
        assert_eq!(intervals.limit_ms(), LIMIT_MAX_MS);
        (0..200).for_each(|_| intervals.add(200));
        assert_eq!(intervals.limit_ms(), 1_000);
    }
}
