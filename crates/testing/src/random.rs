//! Random numbers from a seed.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

/// A small generator (splitmix64): the same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From `LEVERET_SEED` or by chance; printed, so that a failed test shows it.
    ///
    /// # Panics
    /// `LEVERET_SEED` is no number.
    #[must_use]
    #[allow(clippy::print_stderr, reason = "shown with a failed test")]
    pub fn by_chance() -> Self {
        let given = std::env::var("LEVERET_SEED").ok();
        let given = given.map(|seed| seed.parse().expect("LEVERET_SEED is a number"));
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        eprintln!("LEVERET_SEED={seed}");
        Self(seed)
    }

    /// Another source, for another thread.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which is not empty.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        let at = self.below(items.len());
        items.get(at).expect("something to pick from")
    }

    /// `Some` of one of `items` in so many of a hundred cases.
    pub fn perhaps<T: Clone>(&mut self, percent: usize, items: &[T]) -> Option<T> {
        if self.percent(percent) { self.choose(items) } else { None }
    }

    /// One of the keys of `map`, if there is one.
    pub fn choose_key<K: Copy, V>(&mut self, map: &BTreeMap<K, V>) -> Option<K> {
        let at = self.below(map.len());
        map.keys().nth(at).copied()
    }

    /// One of `items`, if there is one.
    pub fn choose<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let at = self.below(items.len());
        items.get(at).cloned()
    }
    /// So many bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
