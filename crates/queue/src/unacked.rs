//! Messages that one consumer holds: positions, or deliveries by their numbers.

use std::collections::VecDeque;

/// Entries that are never too many.
const ENTRIES_MIN: usize = 64;
/// The bit that marks an entry which was settled out of order.
pub(crate) const GONE: u64 = 1 << 63;

/// A message that a consumer holds.
pub(crate) trait Entry: Copy {
    /// The key that the message is settled by, which stays below [`GONE`].
    fn key(&self) -> u64;

    /// The word that has the mark.
    fn marked(&self) -> u64;

    /// The word that has the mark, to be changed.
    fn marked_mut(&mut self) -> &mut u64;
}

impl Entry for u64 {
    #[inline]
    fn key(&self) -> u64 {
        *self & !GONE
    }

    #[inline]
    fn marked(&self) -> u64 {
        *self
    }

    #[inline]
    fn marked_mut(&mut self) -> &mut u64 {
        self
    }
}

#[inline]
fn is_gone(entry: &impl Entry) -> bool {
    entry.marked() & GONE != 0
}

/// Messages one consumer holds, by key. Settling from the front, the usual order, is O(1); any other order is
/// a binary search and a mark.
#[derive(Clone, Debug)]
pub(crate) struct Unacked<E> {
    /// By rising key; neither the first nor the last is gone.
    entries: VecDeque<E>,
    n_held: usize,
}

impl<E> Default for Unacked<E> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), n_held: 0 }
    }
}

impl<E: Entry> Unacked<E> {
    pub(crate) const fn len(&self) -> usize {
        self.n_held
    }

    #[inline]
    pub(crate) fn hold(&mut self, entry: E) {
        debug_assert!(!is_gone(&entry), "positions and numbers stay below 2^63");
        self.n_held += 1;
        if self.entries.back().is_none_or(|last| last.key() < entry.key()) {
            self.entries.push_back(entry);
        } else {
            self.hold_again(entry);
        }
    }

    /// Holds a message that came back and is delivered again: below what is held already.
    #[cold]
    fn hold_again(&mut self, entry: E) {
        match self.entries.binary_search_by_key(&entry.key(), E::key) {
            Ok(at) => {
                if let Some(known) = self.entries.get_mut(at) {
                    assert!(is_gone(known), "a message is held once");
                    *known = entry;
                }
            }
            Err(at) => self.entries.insert(at, entry),
        }
    }

    /// Lets go of the message with this key; false when it is not held.
    #[inline]
    pub(crate) fn release(&mut self, key: u64) -> bool {
        match self.entries.front() {
            Some(first) if first.key() == key => {
                self.pop_front();
                true
            }
            _ => self.take_inner(key, key.saturating_add(1)).is_some(),
        }
    }

    /// Takes the first message out whose key lies in `start..end`.
    #[inline]
    pub(crate) fn take_first(&mut self, start: u64, end: u64) -> Option<E> {
        let first = *self.entries.front()?;
        if first.key() < start {
            return self.take_inner(start, end);
        }
        if first.key() >= end {
            return None;
        }
        self.pop_front();
        Some(first)
    }

    /// Lets go of the first message.
    #[inline]
    fn pop_front(&mut self) {
        let first = self.entries.pop_front();
        debug_assert!(first.is_some_and(|first| !is_gone(&first)), "the first is held");
        debug_assert!(self.n_held > 0, "what is held is counted");
        self.n_held -= 1;
        while self.entries.front().is_some_and(is_gone) {
            self.entries.pop_front();
        }
    }

    /// Lets go of messages behind the last held one that are gone.
    #[inline]
    fn trim_back(&mut self) {
        while self.entries.back().is_some_and(is_gone) {
            self.entries.pop_back();
        }
    }

    fn take_inner(&mut self, start: u64, end: u64) -> Option<E> {
        if start < end && self.entries.back().is_some_and(|last| last.key() == start) {
            let last = self.entries.pop_back();
            self.n_held -= 1;
            self.trim_back();
            return last;
        }
        let from = self.entries.partition_point(|entry| entry.key() < start);
        let entry = self.entries.range_mut(from..).find(|entry| !is_gone(*entry))?;
        let taken = *entry;
        if taken.key() >= end {
            return None;
        }
        *entry.marked_mut() |= GONE;
        self.n_held -= 1;
        self.trim_back();
        if self.entries.len() > ENTRIES_MIN && self.entries.len() > 2 * self.n_held {
            self.entries.retain(|entry| !is_gone(entry));
        }
        Some(taken)
    }

    pub(crate) fn holds(&self, key: u64) -> bool {
        self.get(key).is_some()
    }

    /// The message with this key, if it is held.
    pub(crate) fn get(&self, key: u64) -> Option<&E> {
        let at = self.entries.binary_search_by_key(&key, E::key).ok()?;
        self.entries.get(at).filter(|entry| !is_gone(*entry))
    }

    /// The first message.
    pub(crate) fn first(&self) -> Option<&E> {
        self.entries.front()
    }

    /// All messages, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().filter(|entry| !is_gone(*entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn unacked_holds_what_was_not_released(
            ops in prop::collection::vec((any::<bool>(), 0..200_u64), 0..600),
        ) {
            let mut unacked = Unacked::<u64>::default();
            let mut model = BTreeSet::new();
            for (hold, position) in ops {
                if hold {
                    if model.insert(position) {
                        unacked.hold(position);
                    }
                } else {
                    prop_assert_eq!(unacked.release(position), model.remove(&position));
                }
                prop_assert_eq!(unacked.len(), model.len());
                prop_assert_eq!(unacked.holds(position), model.contains(&position));
                let held: Vec<u64> = unacked.iter().copied().collect();
                prop_assert_eq!(held, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(unacked.entries.len() <= 64.max(2 * model.len() + 2));
            }
        }
    }
}
