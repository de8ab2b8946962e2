use crate::range::PositionRange;
use std::collections::BTreeMap;

/// Positions per block.
const BLOCK_POSITIONS: u64 = 256;
const N_WORDS: usize = 4;
const WORD_POSITIONS: u64 = 64;

/// Positions full of holes: blocks of bits, found by number. Costs about a bit per position where
/// positions lie close together, and 64 bytes for one that lies alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct PositionBitmap {
    /// None of them empty.
    blocks: BTreeMap<u64, Block>,
    n_positions: u64,
}

impl PositionBitmap {
    pub(crate) const fn len(&self) -> u64 {
        self.n_positions
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn n_blocks(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn first(&self) -> Option<u64> {
        let (number, block) = self.blocks.first_key_value()?;
        Some(number * BLOCK_POSITIONS + block.run_from(0)?.0)
    }

    pub(crate) fn last(&self) -> Option<u64> {
        let (number, block) = self.blocks.last_key_value()?;
        Some(number * BLOCK_POSITIONS + block.last()?)
    }

    #[inline(never)]
    pub(crate) fn contains(&self, position: u64) -> bool {
        let block = self.blocks.get(&(position / BLOCK_POSITIONS));
        block.is_some_and(|block| block.contains(position % BLOCK_POSITIONS))
    }

    /// Adds one position; false when it was there already.
    pub(crate) fn insert(&mut self, position: u64) -> bool {
        let block = self.blocks.entry(position / BLOCK_POSITIONS).or_default();
        let is_new = block.insert(position % BLOCK_POSITIONS);
        self.n_positions += u64::from(is_new);
        is_new
    }

    /// Adds positions of which none is there.
    #[inline(never)]
    pub(crate) fn insert_range(&mut self, range: PositionRange) {
        let mut start = range.start;
        while start < range.end {
            let number = start / BLOCK_POSITIONS;
            let end = range.end.min((number + 1) * BLOCK_POSITIONS);
            let block = self.blocks.entry(number).or_default();
            block.set(start % BLOCK_POSITIONS, end - number * BLOCK_POSITIONS);
            start = end;
        }
        self.n_positions += range.len();
    }

    /// Takes one position out; false when it was not there.
    #[inline(never)]
    pub(crate) fn remove(&mut self, position: u64) -> bool {
        let number = position / BLOCK_POSITIONS;
        let Some(block) = self.blocks.get_mut(&number) else { return false };
        if !block.remove(position % BLOCK_POSITIONS) {
            return false;
        }
        if block.is_empty() {
            self.blocks.remove(&number);
        }
        self.n_positions -= 1;
        true
    }

    /// Takes the lowest position out.
    #[inline(never)]
    pub(crate) fn pop_first(&mut self) -> Option<u64> {
        let mut entry = self.blocks.first_entry()?;
        let first = entry.get().run_from(0)?.0;
        let position = entry.key() * BLOCK_POSITIONS + first;
        entry.get_mut().remove(first);
        if entry.get().is_empty() {
            entry.remove();
        }
        self.n_positions -= 1;
        Some(position)
    }

    /// Takes out what lies in `range`, lowest first, as runs.
    pub(crate) fn take_range(&mut self, range: PositionRange, mut taken: impl FnMut(u64, u64)) {
        let Some(last) = range.end.checked_sub(1) else { return };
        let numbers = range.start / BLOCK_POSITIONS..=last / BLOCK_POSITIONS;
        if numbers.is_empty() {
            return;
        }
        let mut n_taken = 0;
        let mut emptied = Vec::new();
        for (number, block) in self.blocks.range_mut(numbers) {
            let base = number * BLOCK_POSITIONS;
            let mut from = range.start.saturating_sub(base);
            let to = (range.end - base).min(BLOCK_POSITIONS);
            while let Some((start, end)) = block.run_from(from).filter(|run| run.0 < to) {
                let end = end.min(to);
                taken(base + start, base + end);
                n_taken += end - start;
                from = end;
            }
            block.clear(range.start.saturating_sub(base), to);
            if block.is_empty() {
                emptied.push(*number);
            }
        }
        for number in emptied {
            self.blocks.remove(&number);
        }
        debug_assert!(self.n_positions >= n_taken, "positions that are taken were counted");
        self.n_positions -= n_taken;
    }

    /// Runs of positions, lowest first; runs in neighbouring blocks may touch.
    pub(crate) fn runs(&self, from: u64) -> impl Iterator<Item = PositionRange> + '_ {
        self.blocks.range(from / BLOCK_POSITIONS..).flat_map(move |(number, block)| {
            let base = number * BLOCK_POSITIONS;
            let mut next = from.saturating_sub(base);
            std::iter::from_fn(move || {
                let (start, end) = block.run_from(next)?;
                next = end;
                Some(PositionRange { start: base + start, end: base + end })
            })
        })
    }
}

/// Which of 256 positions are there.
#[derive(Clone, Copy, Debug, Default)]
struct Block([u64; N_WORDS]);

/// The bits of one word below `bit`.
const fn below(bit: u64) -> u64 {
    if bit >= WORD_POSITIONS { u64::MAX } else { (1 << bit) - 1 }
}

impl Block {
    fn word(&self, position: u64) -> u64 {
        self.0.get((position / WORD_POSITIONS) as usize).copied().unwrap_or(0)
    }

    fn contains(&self, position: u64) -> bool {
        self.word(position) >> (position % WORD_POSITIONS) & 1 != 0
    }

    fn insert(&mut self, position: u64) -> bool {
        let bit = 1 << (position % WORD_POSITIONS);
        let Some(word) = self.0.get_mut((position / WORD_POSITIONS) as usize) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn remove(&mut self, position: u64) -> bool {
        let bit = 1 << (position % WORD_POSITIONS);
        let Some(word) = self.0.get_mut((position / WORD_POSITIONS) as usize) else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn last(&self) -> Option<u64> {
        let words = (0_u64..).zip(&self.0);
        let (at, word) = words.filter(|(_, word)| **word != 0).last()?;
        Some(at * WORD_POSITIONS + u64::from(word.ilog2()))
    }

    fn each_word(&mut self, start: u64, end: u64, mut act: impl FnMut(&mut u64, u64)) {
        for (at, word) in (0_u64..).zip(&mut self.0) {
            let base = at * WORD_POSITIONS;
            act(word, below(end.saturating_sub(base)) & !below(start.saturating_sub(base)));
        }
    }

    fn set(&mut self, start: u64, end: u64) {
        self.each_word(start, end, |word, mask| *word |= mask);
    }

    fn clear(&mut self, start: u64, end: u64) {
        self.each_word(start, end, |word, mask| *word &= !mask);
    }

    /// The first run of positions at or after `from`: its start, and one past its end.
    fn run_from(&self, from: u64) -> Option<(u64, u64)> {
        let start = self.seek(from, |word| word)?;
        let end = self.seek(start, |word| !word).unwrap_or(BLOCK_POSITIONS);
        Some((start, end))
    }

    /// The first bit at or after `from` that is set in the words as `view` shows them.
    fn seek(&self, from: u64, view: impl Fn(u64) -> u64) -> Option<u64> {
        let mut position = from;
        while position < BLOCK_POSITIONS {
            let rest = view(self.word(position)) >> (position % WORD_POSITIONS);
            if rest != 0 {
                return Some(position + u64::from(rest.trailing_zeros()));
            }
            position = (position / WORD_POSITIONS + 1) * WORD_POSITIONS;
        }
        None
    }
}
