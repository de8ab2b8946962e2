use crate::positions::PositionRange;
use std::collections::BTreeMap;
use std::ops::Bound;
use stdx::UnixMs;

/// A deadline is rounded up by less than this part of the time that is left until then.
const PRECISION: u64 = 4_096;
/// Entries looked at when one is added and too many are of messages that are gone.
const SWEPT_PER_ENTRY: usize = 8;
/// Entries that are never too many.
const ENTRIES_MIN: usize = 1_024;

/// Time when a bucket is due, and the upper halves of its positions.
type Key = (UnixMs, u32);

/// Deadlines in any order, gathered in buckets: four bytes per message, and up to a hundred for a
/// bucket. A message is due late by less than 1/4096 of its time to live, and never early.
///
/// Entries of messages that are gone stay until their deadline or until they are swept: there are
/// never many more of them than of messages in the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Scattered {
    /// The lower halves of positions.
    buckets: BTreeMap<Key, Vec<u32>>,
    n_entries: usize,
    /// The bucket swept last.
    swept: Option<Key>,
}

const fn position(key: Key, low: u32) -> u64 {
    (key.1 as u64) << 32 | low as u64
}

impl Scattered {
    pub(super) fn push(&mut self, position: u64, deadline_ms: UnixMs, now_ms: UnixMs) {
        let left_ms = deadline_ms.since(now_ms);
        let step_ms = (left_ms / PRECISION + 1).next_power_of_two() / 2;
        let due_ms = deadline_ms.round_up(step_ms.max(1));
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a position")]
        let (high, low) = ((position >> 32) as u32, position as u32);
        self.buckets.entry((due_ms, high)).or_default().push(low);
        self.n_entries += 1;
    }

    pub(super) fn next_ms(&self) -> Option<UnixMs> {
        self.buckets.first_key_value().map(|((due_ms, _), _)| *due_ms)
    }

    /// Takes out at most `limit` positions of the first bucket, in the order they came in, if it is
    /// due; false if it is not.
    pub(super) fn take_due(
        &mut self,
        now_ms: UnixMs,
        limit: u64,
        due: &mut Vec<PositionRange>,
    ) -> bool {
        let Some(mut bucket) = self.buckets.first_entry() else { return false };
        let key = *bucket.key();
        if key.0 > now_ms {
            return false;
        }
        let lows = bucket.get_mut();
        let n = usize::try_from(limit).unwrap_or(usize::MAX).min(lows.len());
        let taken = lows.drain(..n);
        due.extend(taken.map(|low| PositionRange::one(position(key, low))));
        debug_assert!(n > 0 && self.n_entries >= n, "a bucket has entries that are counted");
        self.n_entries -= n;
        if lows.is_empty() {
            bucket.remove();
        }
        true
    }

    /// Whether too many entries are of messages that are gone, when `n_live` are not.
    pub(super) fn wants_sweep(&self, n_live: u64) -> bool {
        self.n_entries > ENTRIES_MIN && self.n_entries as u64 / 2 > n_live
    }

    /// Looks at the next few entries and keeps those of messages that are still there.
    pub(super) fn sweep(&mut self, is_live: impl Fn(u64) -> bool) {
        let mut n_left = SWEPT_PER_ENTRY;
        while n_left > 0 {
            let from = self.swept.map_or(Bound::Unbounded, Bound::Excluded);
            let Some((key, bucket)) = self.buckets.range_mut((from, Bound::Unbounded)).next()
            else {
                self.swept = None;
                return;
            };
            let (key, n_entries) = (*key, bucket.len());
            bucket.retain(|low| is_live(position(key, *low)));
            bucket.shrink_to(2 * bucket.len());
            self.n_entries -= n_entries - bucket.len();
            if bucket.is_empty() {
                self.buckets.remove(&key);
            }
            self.swept = Some(key);
            n_left = n_left.saturating_sub(n_entries);
        }
    }

    /// Positions with when they are due, in that order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (UnixMs, u64)> + '_ {
        self.buckets.iter().flat_map(|(key, lows)| {
            let key = *key;
            lows.iter().map(move |low| (key.0, position(key, *low)))
        })
    }

    #[cfg(test)]
    pub(super) const fn n_entries(&self) -> usize {
        self.n_entries
    }

    #[cfg(test)]
    pub(super) fn n_buckets(&self) -> usize {
        self.buckets.len()
    }
}
