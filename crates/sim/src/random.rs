//! Random numbers from a seed.

use std::collections::BTreeMap;

/// A small generator (splitmix64): the same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which is not empty.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        let at = self.below(items.len());
        items.get(at).expect("something to pick from")
    }

    /// `Some` of one of `items` in so many of a hundred cases.
    pub(crate) fn perhaps<T: Clone>(&mut self, percent: usize, items: &[T]) -> Option<T> {
        if self.percent(percent) { self.choose(items) } else { None }
    }

    /// One of the keys of `map`, if there is one.
    pub(crate) fn choose_key<K: Copy, V>(&mut self, map: &BTreeMap<K, V>) -> Option<K> {
        let at = self.below(map.len());
        map.keys().nth(at).copied()
    }

    /// One of `items`, if there is one.
    pub(crate) fn choose<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let at = self.below(items.len());
        items.get(at).cloned()
    }
}
