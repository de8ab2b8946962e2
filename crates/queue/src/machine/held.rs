//! The deliveries that a consumer holds, by number.

use std::collections::VecDeque;

const GONE: u64 = 1 << 63;
/// Entries that are never too many.
const ENTRIES_MIN: usize = 64;

/// A delivery that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) number: u64,
    /// The top bit marks a delivery that was settled out of order.
    pub(super) position: u64,
    /// Time of the assignment, in Unix milliseconds.
    pub(super) at_ms: u64,
}

impl Delivery {
    const fn is_gone(&self) -> bool {
        self.position & GONE != 0
    }
}

/// The deliveries that a consumer holds. Settling from the front, the usual order, is O(1); any other order
/// is a binary search and a mark.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// By rising number; neither the first nor the last is gone.
    entries: VecDeque<Delivery>,
    n_held: usize,
}

impl Held {
    pub(super) const fn len(&self) -> usize {
        self.n_held
    }

    #[inline]
    pub(super) fn push(&mut self, delivery: Delivery) {
        self.entries.push_back(delivery);
        self.n_held += 1;
    }

    /// Takes the first delivery out whose number lies in `start..end`.
    #[inline]
    pub(super) fn take_first(&mut self, start: u64, end: u64) -> Option<Delivery> {
        let first = *self.entries.front()?;
        if first.number < start {
            return self.take_inner(start, end);
        }
        if first.number >= end {
            return None;
        }
        self.entries.pop_front();
        self.n_held -= 1;
        self.trim_front();
        Some(first)
    }

    fn take_inner(&mut self, start: u64, end: u64) -> Option<Delivery> {
        let from = self.entries.partition_point(|entry| entry.number < start);
        let entry = self.entries.range_mut(from..).find(|entry| !entry.is_gone())?;
        let taken = *entry;
        if taken.number >= end {
            return None;
        }
        entry.position |= GONE;
        self.n_held -= 1;
        while self.entries.back().is_some_and(Delivery::is_gone) {
            self.entries.pop_back();
        }
        if self.entries.len() > ENTRIES_MIN && self.entries.len() > 2 * self.n_held {
            self.entries.retain(|entry| !entry.is_gone());
        }
        Some(taken)
    }

    #[inline]
    fn trim_front(&mut self) {
        while self.entries.front().is_some_and(Delivery::is_gone) {
            self.entries.pop_front();
        }
    }

    /// The oldest.
    pub(super) fn first(&self) -> Option<&Delivery> {
        self.entries.front()
    }

    /// All, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.entries.iter().filter(|entry| !entry.is_gone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn held_is_what_was_not_taken(
            ops in prop::collection::vec((0..4_u8, 0..300_u64, 0..9_u64), 0..600),
        ) {
            let (mut held, mut model, mut next) = (Held::default(), BTreeMap::new(), 0);
            for (op, start, n) in ops {
                if op < 2 {
                    next += n + 1;
                    held.push(Delivery { number: next, position: next / 2, at_ms: next });
                    model.insert(next, next / 2);
                } else {
                    let first = model.range(start..start + n).next().map(|(number, at)| (*number, *at));
                    let taken = held.take_first(start, start + n);
                    prop_assert_eq!(taken.map(|it| (it.number, it.position)), first);
                    first.map(|(number, _)| model.remove(&number));
                }
                prop_assert_eq!(held.len(), model.len());
                let listed: Vec<(u64, u64)> = held.iter().map(|it| (it.number, it.position)).collect();
                prop_assert_eq!(listed, model.iter().map(|(n, at)| (*n, *at)).collect::<Vec<_>>());
                prop_assert_eq!(held.first().map(|it| it.number), model.keys().next().copied());
                prop_assert!(held.entries.len() <= ENTRIES_MIN.max(2 * model.len() + 2));
            }
        }
    }
}
