//! Counts of values by their size.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of values, `N` of them: one for each limit, of the values up to the limit and above the one
/// before; the last limit is `u64::MAX`. One thread at a time writes, anybody reads.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    sum: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; N], sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Histogram<N> {
    /// Counts a value by these limits, which rise.
    #[inline]
    pub fn note(&self, limits: &[u64; N], value: u64) {
        let at = limits.iter().position(|limit| value <= *limit);
        if let Some(counter) = at.and_then(|at| self.counts.get(at)) {
            count(counter, 1);
            count(&self.sum, value);
        }
    }

    /// The figures as of now.
    #[must_use]
    pub fn counts(&self) -> HistogramCounts<N> {
        HistogramCounts {
            counts: self.counts.each_ref().map(|it| it.load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Adds to a counter that no other thread writes meanwhile.
#[inline]
pub fn count(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// The figures of a [`Histogram`] at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramCounts<const N: usize> {
    /// Values by limit.
    pub counts: [u64; N],
    /// The sum of the values.
    pub sum: u64,
}

impl<const N: usize> Default for HistogramCounts<N> {
    fn default() -> Self {
        Self { counts: [0; N], sum: 0 }
    }
}

impl<const N: usize> HistogramCounts<N> {
    /// The number of values.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_below_the_first_limit_that_it_does_not_exceed() {
        const LIMITS: [u64; 3] = [10, 100, u64::MAX];
        let histogram = Histogram::default();
        [0, 10, 11, 100, 101, u64::MAX >> 1].iter().for_each(|it| histogram.note(&LIMITS, *it));
        let mut counts = histogram.counts();
        assert_eq!((counts.counts, counts.sum), ([2, 2, 2], 222 + (u64::MAX >> 1)));
        counts.add(&HistogramCounts { counts: [1, 0, 0], sum: 5 });
        assert_eq!(counts.n(), 7);
    }
}
