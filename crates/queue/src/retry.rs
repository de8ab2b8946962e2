use crate::delivery_counts::Return;
use crate::positions::{PositionRange, PositionSet};
use std::collections::BTreeMap;
use stdx::UnixMs;

/// The messages that come back and wait before they are ready again (`x-delayed-retry-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// All messages.
    All,
    /// Messages whose delivery failed.
    Failed,
    /// Messages that were given back without having been tried.
    Released,
}

/// The wait of a message that comes back until it is ready again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Messages that wait.
    pub on: RetryOn,
    /// Milliseconds for each failed delivery, of which at least one counts.
    pub min_ms: u64,
    /// Maximum wait in milliseconds.
    pub max_ms: u64,
}

impl Retry {
    /// A wait until that time for all messages that come back now.
    pub(crate) const fn until(until_ms: UnixMs, now_ms: UnixMs) -> Self {
        let wait_ms = until_ms.get().saturating_sub(now_ms.get());
        Self { on: RetryOn::All, min_ms: wait_ms, max_ms: wait_ms }
    }

    /// Time when a message that comes back now is ready again; `None` for at once.
    pub(crate) fn ready_at_ms(&self, how: Return, n_failed: u32, now_ms: UnixMs) -> Option<UnixMs> {
        let waits = match (self.on, how) {
            (RetryOn::All, _)
            | (RetryOn::Failed, Return::Failed)
            | (RetryOn::Released, Return::Released) => true,
            (RetryOn::Failed, Return::Released) | (RetryOn::Released, Return::Failed) => false,
        };
        let wait_ms = self.min_ms.saturating_mul(u64::from(n_failed.max(1))).min(self.max_ms);
        waits.then_some(now_ms.plus(wait_ms))
    }
}

/// Messages that wait to be tried again, by time.
#[derive(Clone, Debug, Default)]
pub struct Delayed {
    by_time: BTreeMap<UnixMs, PositionSet>,
    n_messages: u64,
}

impl Delayed {
    /// Number of messages.
    pub const fn len(&self) -> u64 {
        self.n_messages
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.n_messages == 0
    }

    pub(crate) fn push(&mut self, position: u64, ready_at_ms: UnixMs) {
        let is_new = self.by_time.entry(ready_at_ms).or_default().insert(position);
        assert!(is_new, "a message waits once");
        self.n_messages += 1;
    }

    pub(crate) fn next_ms(&self) -> Option<UnixMs> {
        self.by_time.first_key_value().map(|(at, _)| *at)
    }

    pub(crate) fn last_ms(&self) -> Option<UnixMs> {
        self.by_time.last_key_value().map(|(at, _)| *at)
    }

    /// Takes out one that has waited long enough.
    pub(crate) fn pop_due(&mut self, now_ms: UnixMs) -> Option<u64> {
        let mut first = self.by_time.first_entry().filter(|first| *first.key() <= now_ms)?;
        let position = first.get_mut().pop_first();
        assert!(position.is_some(), "a time has a message that waits for it");
        if first.get().is_empty() {
            first.remove();
        }
        self.n_messages -= 1;
        position
    }

    /// Takes out one that waits until `ready_at_ms`.
    pub(crate) fn remove(&mut self, position: u64, ready_at_ms: UnixMs) {
        let Some(waiting) = self.by_time.get_mut(&ready_at_ms) else { return };
        self.n_messages -= u64::from(waiting.remove(position));
        if waiting.is_empty() {
            self.by_time.remove(&ready_at_ms);
        }
    }

    /// Takes everything out; `taken` gets it.
    pub(crate) fn clear(&mut self, taken: &mut Vec<PositionRange>) {
        for set in self.by_time.values() {
            taken.extend(set.ranges());
        }
        *self = Self::default();
    }

    /// Until when they wait, and their positions.
    pub fn iter(&self) -> impl Iterator<Item = (UnixMs, PositionRange)> + '_ {
        self.by_time.iter().flat_map(|(at, set)| set.ranges().map(move |range| (*at, range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_failures_up_to_the_highest() {
        let retry = Retry { on: RetryOn::Failed, min_ms: 100, max_ms: 250 };
        assert_eq!(
            retry.ready_at_ms(Return::Failed, 1, UnixMs::from_raw(1_000)),
            Some(UnixMs::from_raw(1_100))
        );
        assert_eq!(
            retry.ready_at_ms(Return::Failed, 2, UnixMs::from_raw(1_000)),
            Some(UnixMs::from_raw(1_200))
        );
        assert_eq!(
            retry.ready_at_ms(Return::Failed, 3, UnixMs::from_raw(1_000)),
            Some(UnixMs::from_raw(1_250))
        );
        assert_eq!(retry.ready_at_ms(Return::Released, 3, UnixMs::from_raw(1_000)), None);
        let retry = Retry { on: RetryOn::Released, ..retry };
        assert_eq!(
            retry.ready_at_ms(Return::Released, 0, UnixMs::from_raw(1_000)),
            Some(UnixMs::from_raw(1_100))
        );
        assert_eq!(retry.ready_at_ms(Return::Failed, 1, UnixMs::from_raw(1_000)), None);
    }

    #[test]
    fn messages_leave_in_order_of_time() {
        let mut delayed = Delayed::default();
        delayed.push(3, UnixMs::from_raw(20));
        delayed.push(9, UnixMs::from_raw(10));
        delayed.push(1, UnixMs::from_raw(20));
        assert_eq!((delayed.next_ms().map(UnixMs::get), delayed.len()), (Some(10), 3));
        assert_eq!(delayed.pop_due(UnixMs::from_raw(9)), None);
        let order: Vec<u64> =
            std::iter::from_fn(|| delayed.pop_due(UnixMs::from_raw(25))).collect();
        assert_eq!((order, delayed.len()), (vec![9, 1, 3], 0));
    }
}
