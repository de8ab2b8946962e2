//! Counts of messages that have gone through a queue, or from a queue to a channel, for rates.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Messages that came.
    Published,
    /// Deliveries that are to be settled.
    Delivered,
    /// Deliveries that are not to be settled.
    DeliveredAuto,
    /// Messages fetched that are to be settled.
    Got,
    /// Messages fetched that are not to be settled.
    GotAuto,
    /// Fetches that found nothing.
    GotEmpty,
    /// Deliveries that were not the message's first.
    Redelivered,
    /// Messages that were acknowledged.
    Acked,
    /// Messages that filters of consumers have passed over.
    PassedOver,
}

/// Number of kinds of count.
const KINDS: usize = 9;

/// Counters that anybody reads, and one thread at a time writes each of: under the lock of the queue, or of
/// the channel's outbox. A tally that was never used has no counters.
#[derive(Debug, Default)]
pub struct Tally(OnceLock<Box<Counters>>);

#[derive(Debug, Default)]
struct Counters {
    counts: [AtomicU64; KINDS],
    /// Messages that had been given out at the last mark.
    mark: AtomicU64,
}

impl Tally {
    /// Adds `n` to a count.
    pub fn add(&self, what: Count, n: u64) {
        if n == 0 {
            return;
        }
        if let Some(counter) = self.0.get_or_init(Box::default).counts.get(what as usize) {
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        }
    }

    /// The figures as of now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Some(counters) = self.0.get() else { return Counts::default() };
        Counts(counters.counts.each_ref().map(|it| it.load(Ordering::Relaxed)))
    }

    /// Sets a mark if `n` messages or more have been given out since the last one; true if it was set.
    pub fn mark_after(&self, n: u64) -> bool {
        let Some(counters) = self.0.get() else { return false };
        let n_delivered = self.counts().n_delivered();
        let is_due = n_delivered.wrapping_sub(counters.mark.load(Ordering::Relaxed)) >= n;
        if is_due {
            counters.mark.store(n_delivered, Ordering::Relaxed);
        }
        is_due
    }
}

/// The figures of a [`Tally`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; KINDS]);

/// Figures with these counts, and 0 for all others.
impl FromIterator<(Count, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (Count, u64)>>(counts: I) -> Self {
        let mut this = Self::default();
        for (what, n) in counts {
            if let Some(slot) = this.0.get_mut(what as usize) {
                *slot = n;
            }
        }
        this
    }
}

impl Counts {
    /// Count of one kind.
    #[must_use]
    pub fn of(&self, what: Count) -> u64 {
        self.0.get(what as usize).copied().unwrap_or_default()
    }

    /// Number of messages that went to consumers and fetchers.
    pub fn n_delivered(&self) -> u64 {
        [Count::Delivered, Count::DeliveredAuto, Count::Got, Count::GotAuto]
            .into_iter()
            .map(|what| self.of(what))
            .sum()
    }

    /// The difference to an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |(now, before): (&u64, &u64)| now.saturating_sub(*before);
        let mut counts = Self::default();
        for (slot, both) in counts.0.iter_mut().zip(self.0.iter().zip(&earlier.0)) {
            *slot = difference(both);
        }
        counts
    }

    /// Adds the figures of another tally.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(slot, more)| *slot += more);
    }
}
