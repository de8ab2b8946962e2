//! Random numbers that can be had again from a printed seed.

use std::hash::{BuildHasher as _, RandomState};

/// Splitmix64.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// From `LEVERET_SEED` or by chance; printed, so that a failed test shows it.
    pub(crate) fn new() -> Self {
        let given = std::env::var("LEVERET_SEED").ok().map(|seed| seed.parse().unwrap());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        eprintln!("LEVERET_SEED={seed}");
        Self(seed)
    }

    /// Another source, for another thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
