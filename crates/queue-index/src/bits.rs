//! A set of the positions of one segment, no longer than its highest member needs.

const WORD_BITS: u32 = u64::BITS;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn has(&self, at: u32) -> bool {
        let word = self.0.get((at / WORD_BITS) as usize);
        word.is_some_and(|word| word & (1 << (at % WORD_BITS)) != 0)
    }

    /// Adds a member; false if it was one.
    pub(super) fn add(&mut self, at: u32) -> bool {
        let place = (at / WORD_BITS) as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        let Some(word) = self.0.get_mut(place) else { return false };
        let bit = 1 << (at % WORD_BITS);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// The members that are not in `other`.
    pub(super) fn without(&self, other: &Self) -> Self {
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        Self(self.0.iter().zip(others).map(|(word, other)| word & !other).collect())
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The members from `from` on, before `upto`, rising.
    pub(super) fn within(&self, from: u32, upto: u32) -> impl Iterator<Item = u32> + '_ {
        let words = self.0.iter().zip(0_u32..).skip((from / WORD_BITS) as usize);
        words
            .take_while(move |(_, number)| number * WORD_BITS < upto)
            .flat_map(|(word, number)| {
                let mut left = *word;
                std::iter::from_fn(move || {
                    let bit = (left != 0).then(|| left.trailing_zeros())?;
                    left &= left - 1;
                    Some(number * WORD_BITS + bit)
                })
            })
            .filter(move |at| (from..upto).contains(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_holds_what_a_set_holds() {
        let (mut bits, mut set) = (Bits::default(), BTreeSet::new());
        for n in 0..300_u32 {
            let at = n * 37 % 1000;
            assert_eq!(bits.add(at), set.insert(at));
        }
        assert!(!bits.add(37));
        assert_eq!(bits.count() as usize, set.len());
        for (from, upto) in [(0, 1001), (64, 128), (63, 65), (990, 5000), (10, 10), (5000, 6000)] {
            let expected: Vec<u32> = set.range(from..upto).copied().collect();
            assert_eq!(bits.within(from, upto).collect::<Vec<_>>(), expected);
        }
        assert!(bits.without(&bits).is_empty() && !bits.is_empty());
    }
}
