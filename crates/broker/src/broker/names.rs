//! Names and numbers that nobody can tell beforehand.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Characters of a name behind its prefix.
const NAME_CHARS: usize = 22;

/// A source of names that differ from all others it gives out.
#[derive(Debug, Default)]
pub(crate) struct NameSource {
    hasher: RandomState,
    n_given: AtomicU64,
}

impl NameSource {
    /// A random number.
    pub(crate) fn random_u64(&self) -> u64 {
        self.hasher.hash_one(self.n_given.fetch_add(1, Ordering::Relaxed))
    }

    /// A name nobody else has: `prefix` and 22 characters.
    pub(crate) fn name(&self, prefix: &str) -> String {
        let n = self.n_given.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [self.hasher.hash_one((n, "high")), self.hasher.hash_one((n, "low"))];
        let mut bits = (u128::from(high) << 64) | u128::from(low);
        let mut name = prefix.to_owned();
        for _ in 0..NAME_CHARS {
            let index = usize::try_from(bits & 63).unwrap_or(0);
            name.push(char::from(*ALPHABET.get(index).unwrap_or(&b'A')));
            bits >>= 6;
        }
        name
    }
}
