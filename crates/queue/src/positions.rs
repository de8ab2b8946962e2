use crate::position_bitmap::PositionBitmap;
pub use crate::range::PositionRange;

/// A set of positions that grows at its end: the last run is kept as two numbers, however many
/// messages it holds, and what lies before it with holes in between as bits.
///
/// A deep backlog of messages that came one after the other costs nothing. One with holes costs a
/// bit per position or a little more, and 64 bytes for a position that lies alone. Taking positions
/// from the ends is O(1) as long as there are no holes; everything else is O(log n), except that the
/// first hole in a long run copies what lies before it (n / 256 steps, once per position).
#[derive(Clone, Debug)]
pub struct PositionSet {
    /// Below `tail`.
    holed: PositionBitmap,
    /// May be empty; then it says where the last position was.
    tail: PositionRange,
}

impl Default for PositionSet {
    fn default() -> Self {
        Self { holed: PositionBitmap::default(), tail: PositionRange::NONE }
    }
}

impl PartialEq for PositionSet {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.ranges().eq(other.ranges())
    }
}

impl Eq for PositionSet {}

impl PositionSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of positions.
    pub const fn len(&self) -> u64 {
        self.holed.len() + self.tail.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks of bits kept for positions with holes in between: what the set costs in memory, at
    /// about 64 bytes each.
    pub fn n_blocks(&self) -> usize {
        self.holed.n_blocks()
    }

    /// The lowest position.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.holed.first().or_else(|| (!self.tail.is_empty()).then_some(self.tail.start))
    }

    /// The highest position.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        if self.tail.is_empty() { self.holed.last() } else { Some(self.tail.end - 1) }
    }

    /// The positions as ranges that do not touch, lowest first.
    pub fn ranges(&self) -> impl Iterator<Item = PositionRange> + '_ {
        self.ranges_from(0)
    }

    /// Runs of positions from `from` on, as [`PositionSet::ranges`] gives them.
    pub fn ranges_from(&self, from: u64) -> impl Iterator<Item = PositionRange> + '_ {
        let tail = PositionRange { start: self.tail.start.max(from), end: self.tail.end };
        let tail = (!tail.is_empty()).then_some(tail);
        let mut runs = self.holed.runs(from).chain(tail).peekable();
        std::iter::from_fn(move || {
            let mut range = runs.next()?;
            while let Some(next) = runs.next_if(|next| next.start == range.end) {
                range.end = next.end;
            }
            Some(range)
        })
    }

    /// Adds `start..start + n`, which lies above every position in the set.
    #[inline]
    pub fn push_back(&mut self, start: u64, n: u64) {
        if self.tail.end == start {
            self.tail.end += n;
        } else if n > 0 {
            self.begin_tail(start, n);
        }
    }

    #[cold]
    fn begin_tail(&mut self, start: u64, n: u64) {
        debug_assert!(self.last() < Some(start), "positions are pushed in rising order");
        self.holed.insert_range(self.tail);
        self.tail = PositionRange { start, end: start + n };
    }

    /// Takes the lowest position out.
    #[inline]
    pub fn pop_first(&mut self) -> Option<u64> {
        if !self.holed.is_empty() {
            return self.holed.pop_first();
        }
        if self.tail.is_empty() {
            return None;
        }
        let position = self.tail.start;
        self.tail.start += 1;
        Some(position)
    }

    /// Whether `position` is in the set.
    #[must_use]
    pub fn contains(&self, position: u64) -> bool {
        self.tail.contains(position) || (!self.holed.is_empty() && self.holed.contains(position))
    }

    /// Adds one position; false when it was there already.
    pub fn insert(&mut self, position: u64) -> bool {
        if self.contains(position) {
            return false;
        }
        if self.tail.is_empty() && self.holed.is_empty() {
            self.tail = PositionRange::one(position);
        } else if position + 1 == self.tail.start && !self.tail.is_empty() {
            self.tail.start = position;
        } else if position >= self.tail.end && !self.tail.is_empty() {
            self.push_back(position, 1);
        } else {
            self.holed.insert(position);
            self.tail = if self.tail.is_empty() { PositionRange::NONE } else { self.tail };
        }
        true
    }

    /// Takes one position out; false when it was not there.
    #[inline(never)]
    pub fn remove(&mut self, position: u64) -> bool {
        if !self.tail.contains(position) {
            return !self.holed.is_empty() && self.holed.remove(position);
        }
        if position + 1 == self.tail.end && position > self.tail.start {
            self.tail.end = position;
        } else {
            self.cut_tail(position);
            self.tail.start = position + 1;
        }
        true
    }

    /// Moves the part of the tail below `position`, which is in it.
    fn cut_tail(&mut self, position: u64) {
        if position > self.tail.start {
            self.holed.insert_range(PositionRange { start: self.tail.start, end: position });
            self.tail.start = position;
        }
    }

    /// Takes out what lies in `range` and appends it to `taken`, lowest first; returns how many
    /// positions that were.
    pub fn take_range(&mut self, range: PositionRange, taken: &mut Vec<PositionRange>) -> u64 {
        let mut n_taken = 0;
        let mut take = |start: u64, end: u64| {
            n_taken += end - start;
            match taken.last_mut() {
                Some(last) if last.end == start => last.end = end,
                Some(_) | None => taken.push(PositionRange { start, end }),
            }
        };
        if !self.holed.is_empty() {
            self.holed.take_range(range, &mut take);
        }
        let start = range.start.max(self.tail.start);
        let end = range.end.min(self.tail.end);
        if start < end {
            take(start, end);
            if end == self.tail.end && start > self.tail.start {
                self.tail.end = start;
            } else {
                self.cut_tail(start);
                self.tail.start = end;
            }
        }
        n_taken
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_position_set_is_a_set(ops in prop::collection::vec((0..5_u8, 0..600_u64), 0..60)) {
            let mut set = PositionSet::new();
            let mut model = BTreeSet::new();
            for (op, position) in ops {
                match op {
                    0 => prop_assert_eq!(set.insert(position), model.insert(position)),
                    1 => prop_assert_eq!(set.remove(position), model.remove(&position)),
                    2 => prop_assert_eq!(set.pop_first(), model.pop_first()),
                    3 => {
                        let range = PositionRange { start: position, end: position + 70 };
                        let mut taken = Vec::new();
                        let gone: Vec<u64> =
                            model.range(range.start..range.end).copied().collect();
                        prop_assert_eq!(set.take_range(range, &mut taken), gone.len() as u64);
                        model.retain(|at| !range.contains(*at));
                        prop_assert_eq!(taken.iter().flat_map(|r| r.start..r.end).collect::<Vec<_>>(), gone);
                    }
                    _ => {
                        let start = model.last().map_or(0, |last| last + 1) + position % 3 * 100;
                        set.push_back(start, position % 300);
                        model.extend(start..start + position % 300);
                    }
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.last(), model.last().copied());
                prop_assert_eq!(set.contains(position), model.contains(&position));
                let listed: Vec<u64> = set.ranges().flat_map(|r| r.start..r.end).collect();
                prop_assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
                let rest: Vec<u64> = set.ranges_from(position).flat_map(|r| r.start..r.end).collect();
                prop_assert_eq!(rest, model.range(position..).copied().collect::<Vec<_>>());
                let ranges: Vec<_> = set.ranges().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }

    #[test]
    fn a_million_positions_cost_nothing() {
        let mut set = PositionSet::new();
        for position in 0..1_000_000 {
            set.push_back(position, 1);
        }
        assert_eq!((set.len(), set.n_blocks()), (1_000_000, 0));
    }

    #[test]
    fn a_million_positions_with_holes_cost_a_bit_each() {
        let mut set = PositionSet::new();
        set.push_back(0, 1_000_000);
        for position in (0..1_000_000).rev().step_by(2) {
            set.remove(position);
        }
        assert_eq!((set.len(), set.n_blocks()), (500_000, 3_907));
    }
}
