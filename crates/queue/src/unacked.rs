use std::collections::VecDeque;

const GONE: u64 = 1 << 63;

/// Positions one consumer holds, sorted. Settling from the front, the usual order, is O(1); any
/// other order is a binary search and a mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unacked {
    /// Sorted by position; the top bit marks a position settled out of order.
    entries: VecDeque<u64>,
    n_held: usize,
}

const fn position_of(entry: u64) -> u64 {
    entry & !GONE
}

const fn is_gone(entry: u64) -> bool {
    entry & GONE != 0
}

impl Unacked {
    pub(crate) const fn len(&self) -> usize {
        self.n_held
    }

    #[inline]
    pub(crate) fn hold(&mut self, position: u64) {
        debug_assert!(!is_gone(position), "positions stay below 2^63");
        self.n_held += 1;
        if self.entries.back().is_none_or(|last| position_of(*last) < position) {
            self.entries.push_back(position);
        } else {
            self.hold_again(position);
        }
    }

    fn hold_again(&mut self, position: u64) {
        // A message that came back and is delivered again: below what is held already.
        match self.entries.binary_search_by_key(&position, |entry| position_of(*entry)) {
            Ok(at) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    assert!(is_gone(*entry), "a position is held once");
                    *entry = position;
                }
            }
            Err(at) => self.entries.insert(at, position),
        }
    }

    /// Lets go of `position`; false when it is not held.
    #[inline]
    pub(crate) fn release(&mut self, position: u64) -> bool {
        if self.entries.front() == Some(&position) {
            self.entries.pop_front();
            self.n_held -= 1;
            self.trim();
            return true;
        }
        let Ok(at) = self.entries.binary_search_by_key(&position, |entry| position_of(*entry))
        else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(at) else { return false };
        if is_gone(*entry) {
            return false;
        }
        *entry |= GONE;
        self.n_held -= 1;
        self.trim();
        if self.entries.len() > 64 && self.entries.len() > 2 * self.n_held {
            self.entries.retain(|entry| !is_gone(*entry));
        }
        true
    }

    pub(crate) fn holds(&self, position: u64) -> bool {
        let found = self.entries.binary_search_by_key(&position, |entry| position_of(*entry));
        found.is_ok_and(|at| self.entries.get(at).is_some_and(|entry| !is_gone(*entry)))
    }

    fn trim(&mut self) {
        while self.entries.front().is_some_and(|entry| is_gone(*entry)) {
            self.entries.pop_front();
        }
        while self.entries.back().is_some_and(|entry| is_gone(*entry)) {
            self.entries.pop_back();
        }
    }

    /// The held positions, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().copied().filter(|entry| !is_gone(*entry))
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
            let mut unacked = Unacked::default();
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
                let held: Vec<u64> = unacked.iter().collect();
                prop_assert_eq!(held, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(unacked.entries.len() <= 64.max(2 * model.len() + 2));
            }
        }
    }
}
