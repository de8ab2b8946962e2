//! Which positions of one page are meant: relative to the page's first position, in little memory.

use std::ops::Range;

/// Positions a page can span: first to last message, gaps included.
pub(super) const SPAN_MAX: usize = 4096;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = SPAN_MAX / WORD_BITS;

/// A set of positions of one page. One run, the usual case, needs no memory beside the value; any
/// other set is a bitmap of 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageBitmap(Set);

const _: () = assert!(SPAN_MAX.is_multiple_of(WORD_BITS) && SPAN_MAX < u16::MAX as usize);

#[derive(Clone, Debug)]
enum Set {
    Run { start: u16, end: u16 },
    Bits(Box<[u64; WORDS]>),
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        runs(self).eq(runs(other))
    }
}

impl Eq for Set {}

impl PageBitmap {
    /// No positions.
    pub(super) const fn none() -> Self {
        Self(Set::Run { start: 0, end: 0 })
    }

    /// `positions`, which rise and are below `SPAN_MAX`.
    pub(super) fn of(positions: impl Iterator<Item = u16>) -> Self {
        let mut set = Self::none();
        for at in positions {
            set.insert(at);
        }
        set
    }

    pub(super) fn insert(&mut self, at: u16) {
        debug_assert!(usize::from(at) < SPAN_MAX, "a page spans fewer positions");
        match &mut self.0 {
            Set::Run { start, end } if start == end => (*start, *end) = (at, at + 1),
            Set::Run { end, .. } if *end == at => *end = at + 1,
            Set::Run { start, end } if *start <= at && at < *end => {}
            Set::Run { .. } => set_bit(self.bits(), at),
            Set::Bits(bits) => set_bit(bits, at),
        }
    }

    /// Takes `at` out; false when it was not there.
    pub(super) fn remove(&mut self, at: u16) -> bool {
        if !self.contains(at) {
            return false;
        }
        match &mut self.0 {
            Set::Run { start, .. } if *start == at => *start += 1,
            Set::Run { end, .. } if *end == at + 1 => *end = at,
            Set::Run { .. } => clear_bit(self.bits(), at),
            Set::Bits(bits) => clear_bit(bits, at),
        }
        true
    }

    /// Adds everything in `other`.
    pub(super) fn add_all(&mut self, other: &Self) {
        for at in other.iter() {
            self.insert(at);
        }
    }

    pub(super) fn contains(&self, at: u16) -> bool {
        match &self.0 {
            Set::Run { start, end } => *start <= at && at < *end,
            Set::Bits(bits) => {
                let word = bits.get(usize::from(at) / WORD_BITS);
                word.is_some_and(|word| word & mask(at) != 0)
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs().next().is_none()
    }

    /// Number of positions.
    pub(super) fn len(&self) -> usize {
        match &self.0 {
            Set::Run { start, end } => usize::from(end - start),
            Set::Bits(bits) => bits.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// Every position, lowest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.runs().flatten()
    }

    /// Runs of positions, lowest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<u16>> + '_ {
        runs(&self.0)
    }

    /// Runs of positions of a page that begins at `first`, lowest first.
    #[must_use]
    pub fn ranges_from(&self, first: u64) -> Vec<Range<u64>> {
        let absolute = |at: u16| first + u64::from(at);
        self.runs().map(|run| absolute(run.start)..absolute(run.end)).collect()
    }

    /// Whether the position is among those of a page that begins at `first`.
    #[must_use]
    pub fn has(&self, first: u64, position: u64) -> bool {
        let at = position.checked_sub(first).and_then(|at| u16::try_from(at).ok());
        at.is_some_and(|at| self.contains(at))
    }

    /// From the first of them to the last, of a page that begins at `first`.
    #[must_use]
    pub fn span_from(&self, first: u64) -> Range<u64> {
        let mut span = first..first;
        for run in self.ranges_from(first) {
            span = if span.is_empty() { run } else { span.start..run.end };
        }
        span
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(super) const fn heap_bytes(&self) -> usize {
        match &self.0 {
            Set::Run { .. } => 0,
            Set::Bits(_) => WORDS * 8,
        }
    }

    /// Turns a run into a bitmap.
    fn bits(&mut self) -> &mut [u64; WORDS] {
        if let Set::Run { start, end } = self.0 {
            let mut bits = Box::new([0; WORDS]);
            for at in start..end {
                set_bit(&mut bits, at);
            }
            self.0 = Set::Bits(bits);
        }
        match &mut self.0 {
            Set::Bits(bits) => bits,
            Set::Run { .. } => unreachable!("it was just made a bitmap"),
        }
    }
}

fn runs(set: &Set) -> impl Iterator<Item = Range<u16>> + '_ {
    let mut next = 0_usize;
    std::iter::from_fn(move || {
        let (start, end) = match set {
            Set::Run { start, end } if next < usize::from(*end) && start < end => {
                (usize::from(*start), usize::from(*end))
            }
            Set::Run { .. } => return None,
            Set::Bits(bits) => {
                let start = find(bits, next, true)?;
                (start, find(bits, start, false).unwrap_or(SPAN_MAX))
            }
        };
        next = end;
        Some(to_u16(start)..to_u16(end))
    })
}

/// The first place from `from` on whose bit is `wanted`.
fn find(bits: &[u64; WORDS], from: usize, wanted: bool) -> Option<usize> {
    let mut at = from;
    while let Some(word) = bits.get(at / WORD_BITS) {
        let word = if wanted { *word } else { !*word };
        let rest = word >> (at % WORD_BITS);
        if rest != 0 {
            return Some(at + rest.trailing_zeros() as usize);
        }
        at = (at / WORD_BITS + 1) * WORD_BITS;
    }
    None
}

fn set_bit(bits: &mut [u64; WORDS], at: u16) {
    if let Some(word) = bits.get_mut(usize::from(at) / WORD_BITS) {
        *word |= mask(at);
    }
}

fn clear_bit(bits: &mut [u64; WORDS], at: u16) {
    if let Some(word) = bits.get_mut(usize::from(at) / WORD_BITS) {
        *word &= !mask(at);
    }
}

const fn mask(at: u16) -> u64 {
    1 << (at as usize % WORD_BITS)
}

/// A count of a page's positions, or of what its messages have.
pub(super) fn to_u16(value: usize) -> u16 {
    u16::try_from(value).expect("a page spans fewer positions than that")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn positions_in_a_page_are_a_set(
            full in 0..4096_u16,
            ops in prop::collection::vec((any::<bool>(), 0..4096_u16), 0..100),
        ) {
            let mut set = PageBitmap::of(0..full);
            let mut model: BTreeSet<u16> = (0..full).collect();
            for (insert, at) in ops {
                if insert {
                    set.insert(at);
                    model.insert(at);
                } else {
                    prop_assert_eq!(set.remove(at), model.remove(&at));
                }
                prop_assert_eq!(set.contains(at), model.contains(&at));
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert_eq!(PageBitmap::of(model.iter().copied()), set);
        }
    }

    #[test]
    fn a_page_that_empties_from_its_ends_needs_no_bitmap() {
        let mut set = PageBitmap::of(0..4096);
        for at in 0..2000 {
            assert!(set.remove(at));
            assert!(set.remove(4095 - at));
        }
        assert_eq!((set.len(), set.heap_bytes()), (96, 0));
        assert_eq!(set.runs().collect::<Vec<_>>(), vec![2000..2096]);
        assert!(set.remove(2050));
        assert_eq!(set.runs().collect::<Vec<_>>(), vec![2000..2050, 2051..2096]);
    }
}
