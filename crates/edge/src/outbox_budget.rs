//! The memory one outbox may hold, so that all outboxes of a node together keep within bounds, however many
//! clients there are. Knows their number; must never know what they hold.

use session::{ConversionTotals, ConvertedTo};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes that wait before links are told that there is no room; fewer where there are many
/// connections ([`OutboxBudget`]). When half of the limit or less is on its way, links that found no room are
/// resumed.
pub const OUTBOX_HIGH_WATER_BYTES: usize = 1024 * 1024;
/// The number of waiting bytes from which on the client is not listened to. Deliveries alone, which keep to
/// the high water, do not come near: a slow consumer is still heard.
pub const OUTBOX_STUCK_BYTES: usize = 8 * OUTBOX_HIGH_WATER_BYTES;
/// The memory of all outboxes together, unless there are so many that each has its least.
const OUTBOXES_BYTES: usize = 32 * OUTBOX_HIGH_WATER_BYTES;
/// The memory that an outbox may always hold.
const HIGH_WATER_BYTES_MIN: usize = 16 * 1024;

/// The number of a node's outboxes, and the memory each may hold; and where all of them count.
#[derive(Debug)]
pub struct OutboxBudget {
    conversions: Arc<ConversionTotals>,
    n: AtomicUsize,
    high_water_bytes: AtomicUsize,
}

impl Default for OutboxBudget {
    fn default() -> Self {
        Self {
            conversions: Arc::default(),
            n: AtomicUsize::new(0),
            high_water_bytes: AtomicUsize::new(OUTBOX_HIGH_WATER_BYTES),
        }
    }
}

impl OutboxBudget {
    /// A budget of outboxes that count there what they convert.
    #[must_use]
    pub fn counting(conversions: Arc<ConversionTotals>) -> Self {
        Self { conversions, ..Self::default() }
    }

    /// The number of waiting bytes with which the links of an outbox are told that there is no room.
    #[must_use]
    pub fn high_water_bytes(&self) -> usize {
        self.high_water_bytes.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.divide(self.n.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn remove(&self) {
        self.divide(self.n.fetch_sub(1, Ordering::Relaxed) - 1);
    }

    fn divide(&self, n: usize) {
        let share = OUTBOXES_BYTES / n.max(1);
        let share = share.clamp(HIGH_WATER_BYTES_MIN, OUTBOX_HIGH_WATER_BYTES);
        self.high_water_bytes.store(share, Ordering::Relaxed);
    }
}

/// The share of an outbox in the budget, as of the last look at it.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<OutboxBudget>,
    high_water_bytes: usize,
}

impl Share {
    pub(crate) fn new(budget: &Arc<OutboxBudget>) -> Self {
        budget.add();
        Self { budget: Arc::clone(budget), high_water_bytes: budget.high_water_bytes() }
    }

    /// The number of waiting bytes with which links are told that there is no room.
    #[inline]
    pub(crate) const fn high_water_bytes(&self) -> usize {
        self.high_water_bytes
    }

    /// Counts a message that was converted for its consumer.
    pub(crate) fn note_converted(&self, to: ConvertedTo) {
        self.budget.conversions.note(to);
    }

    pub(crate) fn look_again(&mut self) {
        self.high_water_bytes = self.budget.high_water_bytes();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_share_what_few_do_not_need() {
        let budget = OutboxBudget::default();
        let share_of = |n: usize| {
            for _ in 0..n {
                budget.add();
            }
            let share = budget.high_water_bytes();
            for _ in 0..n {
                budget.remove();
            }
            share
        };
        let shares = [0, 1, 32, 64, 1_024, 100_000].map(share_of);
        assert_eq!(shares.map(|bytes| bytes >> 10), [1_024, 1_024, 1_024, 512, 32, 16]);
        assert_eq!(budget.high_water_bytes(), OUTBOX_HIGH_WATER_BYTES);
    }
}
