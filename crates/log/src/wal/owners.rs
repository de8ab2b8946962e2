//! The owners of entries in a segment.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::Owner;

/// The owners whose entries are needed, or were: a search for what is left in a segment asks them alone.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// The owner added last: mostly the next one is the same.
    last: Option<Owner>,
    all: HashSet<Owner, BuildHasherDefault<Spread>>,
}

impl Owners {
    pub(super) fn add(&mut self, owner: Owner) {
        if self.last != Some(owner) {
            self.last = Some(owner);
            self.all.insert(owner);
        }
    }

    pub(super) fn sorted(&self) -> Vec<Owner> {
        let mut sorted: Vec<_> = self.all.iter().copied().collect();
        sorted.sort_unstable();
        sorted
    }
}

/// A hash of numbers that are given out one after the other, by no peer: an odd factor keeps them apart in
/// the low bits and mixes the high ones.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
