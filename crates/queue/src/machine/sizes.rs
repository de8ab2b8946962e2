//! The size of each message, exactly: no bytes for a run of equal sizes, one to four bytes each for others.

use crate::positions::PositionRange;
use std::collections::BTreeMap;
use stdx::record::{Reader, RecordError, put_bytes, put_u8, put_u32, put_u64};

/// Positions of a block.
const BLOCK: u64 = 256;
/// Number of blocks up to which they are never too many.
const BLOCKS_MIN: usize = 64;

/// Sizes from a position on, up to the next block; positions that were never told may lie in between.
#[derive(Clone, Debug)]
enum Block {
    /// The size of all messages.
    Uniform(u32),
    /// The size of each message; the last block.
    Open(Vec<u32>),
    /// The size of each message above the smallest, in as few bytes as the largest needs.
    Packed { smallest: u32, width: u8, above: Box<[u8]> },
}

impl Block {
    fn get(&self, at: u64) -> u32 {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        match self {
            Self::Uniform(size) => *size,
            Self::Open(sizes) => sizes.get(at).copied().unwrap_or(0),
            Self::Packed { smallest, width, above } => {
                let width = usize::from(*width);
                let start = at.saturating_mul(width);
                let lies = above.get(start..start.saturating_add(width)).unwrap_or_default();
                let mut bytes = [0; 4];
                bytes.iter_mut().zip(lies).for_each(|(to, from)| *to = *from);
                smallest.saturating_add(u32::from_le_bytes(bytes))
            }
        }
    }

    const fn uniform(&self) -> Option<u32> {
        match self {
            Self::Uniform(size) => Some(*size),
            Self::Open(_) | Self::Packed { .. } => None,
        }
    }

    /// Packs the sizes into less memory.
    fn pack(&mut self) {
        let Self::Open(sizes) = self else { return };
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let range = sizes.iter().copied().max().unwrap_or(0) - smallest;
        let width = range.to_le_bytes().into_iter().zip(1..).filter(|(byte, _)| *byte != 0).last();
        let width = width.map_or(0_u8, |(_, width)| width);
        *self = if width == 0 {
            Self::Uniform(smallest)
        } else {
            let bytes_of = |size: &u32| (size - smallest).to_le_bytes().into_iter();
            let above = sizes.iter().flat_map(|size| bytes_of(size).take(width.into())).collect();
            Self::Packed { smallest, width, above }
        };
    }
}

/// The sizes of a queue's messages by position; some of messages that are gone are still here.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    blocks: BTreeMap<u64, Block>,
    /// The first position and the size of the last block, if all positions from there on have that size.
    tail: Option<(u64, u32)>,
}

impl Sizes {
    /// Adds the size of the message at `position`, above all known positions.
    #[inline]
    pub(super) fn push(&mut self, position: u64, size: u32) {
        if self.tail.is_none_or(|(_, known)| known != size) {
            self.push_other(position, size);
        }
    }

    #[inline(never)]
    fn push_other(&mut self, position: u64, size: u32) {
        if let Some(mut last) = self.blocks.last_entry() {
            let at = position - last.key();
            match last.get_mut() {
                Block::Open(sizes) if at < BLOCK => {
                    sizes.resize(usize::try_from(at).unwrap_or(0), 0);
                    return sizes.push(size);
                }
                block @ (Block::Uniform(_) | Block::Open(_) | Block::Packed { .. }) => block.pack(),
            }
            let known = last.get().uniform().filter(|known| *known == size);
            self.tail = known.map(|size| (*last.key(), size));
            if self.tail.is_none() {
                self.blocks.insert(position, Block::Open(vec![size]));
            }
        } else {
            self.blocks.insert(position, Block::Uniform(size));
            self.tail = Some((position, size));
        }
    }

    /// The size of the message at `position`, which is there.
    #[inline]
    pub(super) fn get(&self, position: u64) -> u32 {
        match self.tail {
            Some((start, size)) if position >= start => size,
            Some(_) | None => self.get_earlier(position),
        }
    }

    fn get_earlier(&self, position: u64) -> u32 {
        let block = self.blocks.range(..=position).next_back();
        block.map_or(0, |(start, block)| block.get(position - start))
    }

    /// Sum of the sizes in `range`.
    pub(super) fn sum(&self, range: PositionRange) -> u64 {
        let first = self.blocks.range(..=range.start).next_back().map_or(range.start, |it| *it.0);
        let mut blocks = self.blocks.range(first..range.end).peekable();
        let mut sum = 0_u64;
        while let Some((start, block)) = blocks.next() {
            let end = blocks.peek().map_or(range.end, |(next, _)| **next);
            let from = range.start.max(*start);
            sum = sum.saturating_add(match block {
                Block::Uniform(size) => u64::from(*size).saturating_mul(end - from),
                Block::Open(_) | Block::Packed { .. } => {
                    // Positions beyond the block were never told, and have no size.
                    let end = end.min(start.saturating_add(BLOCK));
                    (from..end).map(|at| u64::from(block.get(at - start))).sum()
                }
            });
        }
        sum
    }

    /// Whether most blocks are of messages that are gone, when `n_live` are not.
    pub(super) fn wants_sweep(&self, n_live: u64) -> bool {
        self.blocks.len() > BLOCKS_MIN && self.blocks.len() as u64 / 2 > n_live
    }

    /// Forgets blocks in which none of the `live` positions lies, which rise; never the last block.
    pub(super) fn sweep(&mut self, live: &[PositionRange]) {
        let starts: Vec<u64> = self.blocks.keys().copied().collect();
        for pair in starts.windows(2) {
            let &[start, end] = pair else { continue };
            let at = live.partition_point(|range| range.end <= start);
            if live.get(at).is_none_or(|range| range.start >= end) {
                self.blocks.remove(&start);
            }
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.blocks.len() as u64);
        for (start, block) in &self.blocks {
            put_u64(out, *start);
            match block {
                Block::Uniform(size) => {
                    put_u8(out, 0);
                    put_u32(out, *size);
                }
                Block::Open(sizes) => {
                    put_u8(out, 5);
                    let bytes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
                    put_bytes(out, &bytes);
                }
                Block::Packed { smallest, width, above } => {
                    put_u8(out, *width);
                    put_u32(out, *smallest);
                    put_bytes(out, above);
                }
            }
        }
    }

    /// Sizes of positions below `end`.
    pub(super) fn read(reader: &mut Reader<'_>, end: u64) -> Result<Self, RecordError> {
        let mut sizes = Self::default();
        for at in (0..reader.u64()?).rev() {
            let start = reader.u64()?;
            let is_last = at == 0;
            let block = match reader.u8()? {
                0 => Block::Uniform(reader.u32()?),
                5 if is_last => {
                    let bytes = reader.bytes()?;
                    let (sizes, rest) = bytes.as_chunks::<4>();
                    if sizes.len() as u64 > BLOCK || !rest.is_empty() {
                        return Err(RecordError::Invalid);
                    }
                    Block::Open(sizes.iter().map(|size| u32::from_le_bytes(*size)).collect())
                }
                width @ 1..=4 => {
                    let (smallest, above) = (reader.u32()?, reader.bytes()?);
                    if above.len() as u64 > BLOCK * u64::from(width) {
                        return Err(RecordError::Invalid);
                    }
                    Block::Packed { smallest, width, above: above.into() }
                }
                5..=u8::MAX => return Err(RecordError::Invalid),
            };
            let last = sizes.blocks.last_key_value();
            if start >= end || last.is_some_and(|(last, _)| *last >= start) {
                return Err(RecordError::Invalid);
            }
            sizes.blocks.insert(start, block);
        }
        let last = sizes.blocks.last_key_value();
        sizes.tail = last.and_then(|(start, block)| Some((*start, block.uniform()?)));
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sizes_are_exact_also_when_restored(
            pushed in prop::collection::vec((0..3_u64, 1..400_u64, 0..4_u32, 0..5_u32), 1..20),
        ) {
            let (mut sizes, mut model, mut next) = (Sizes::default(), BTreeMap::new(), 0);
            for (gap, n, step, base) in pushed {
                next += gap * 200;
                for at in next..next + n {
                    let size = base * 70_000 + step * (at % 7) as u32 * 60;
                    sizes.push(at, size);
                    model.insert(at, size);
                }
                next += n;
            }
            let live: Vec<u64> = model.keys().copied().filter(|at| at / 300 % 2 == 0).collect();
            let ranges: Vec<_> = live.iter().map(|at| PositionRange::one(*at)).collect();
            sizes.sweep(&ranges);
            let mut written = Vec::new();
            sizes.write(&mut written);
            let restored = Sizes::read(&mut Reader::new(&written), next).unwrap();
            for sizes in [sizes, restored] {
                for at in &live {
                    prop_assert_eq!(sizes.get(*at), model[at]);
                    prop_assert_eq!(sizes.sum(PositionRange::one(*at)), u64::from(model[at]));
                }
                for run in live.chunk_by(|one, next| one + 1 == *next) {
                    let range = PositionRange { start: run[0], end: run[run.len() - 1] + 1 };
                    prop_assert_eq!(sizes.sum(range), run.iter().map(|at| u64::from(model[at])).sum::<u64>());
                }
                let mut again = Vec::new();
                sizes.write(&mut again);
                prop_assert_eq!(&again, &written);
            }
        }
    }

    #[test]
    fn a_million_sizes_cost_little_over_a_byte_each_and_equal_ones_nothing() {
        let bytes = |size: fn(u64) -> u32| {
            let (mut sizes, mut written) = (Sizes::default(), Vec::new());
            (0..1_000_000).for_each(|at| sizes.push(at, size(at)));
            sizes.write(&mut written);
            written.len()
        };
        assert_eq!(bytes(|_| 12), 21);
        assert!(bytes(|at| 1_000 + (at * 37 % 200) as u32) < 1_100_000);
    }
}
