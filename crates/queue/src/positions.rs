use std::collections::VecDeque;

/// Positions `start..end` of one queue, end excluded; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionRange {
    /// First position.
    pub start: u64,
    /// One past the last position.
    pub end: u64,
}

impl PositionRange {
    /// How many positions it holds.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Never true for a range held in a set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// A set of positions kept as sorted, disjoint, non-adjacent ranges: a deep backlog is one range
/// however many messages it holds, and every hole costs one more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionSet {
    ranges: VecDeque<PositionRange>,
    n_positions: u64,
}

impl PositionSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of positions.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.n_positions
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n_positions == 0
    }

    /// Number of ranges: what the set costs in memory.
    #[must_use]
    pub fn n_ranges(&self) -> usize {
        self.ranges.len()
    }

    /// The lowest position.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.ranges.front().map(|range| range.start)
    }

    /// The ranges, lowest first.
    pub fn ranges(&self) -> impl Iterator<Item = PositionRange> + '_ {
        self.ranges.iter().copied()
    }

    /// Adds `start..start + n`, which lies above every position in the set.
    pub fn push_back(&mut self, start: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.n_positions += n;
        match self.ranges.back_mut() {
            Some(last) if last.end == start => last.end = start + n,
            Some(last) => {
                debug_assert!(last.end < start, "positions are pushed in rising order");
                self.ranges.push_back(PositionRange { start, end: start + n });
            }
            None => self.ranges.push_back(PositionRange { start, end: start + n }),
        }
    }

    /// Takes the lowest position out.
    pub fn pop_first(&mut self) -> Option<u64> {
        let first = self.ranges.front_mut()?;
        let position = first.start;
        first.start += 1;
        if first.is_empty() {
            self.ranges.pop_front();
        }
        self.n_positions -= 1;
        Some(position)
    }

    /// Whether `position` is in the set.
    #[must_use]
    pub fn contains(&self, position: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.end <= position);
        self.ranges.get(next).is_some_and(|range| range.start <= position)
    }

    /// Adds one position; false when it was there already.
    pub fn insert(&mut self, position: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.end < position);
        let Some(range) = self.ranges.get_mut(next) else {
            self.push_back(position, 1);
            return true;
        };
        // `range` is the first one that ends at or after `position`.
        if range.start <= position && position < range.end {
            return false;
        }
        self.n_positions += 1;
        if range.end == position {
            range.end += 1;
            let end = range.end;
            if self.ranges.get(next + 1).is_some_and(|after| after.start == end) {
                self.merge_with_next(next);
            }
        } else if range.start == position + 1 {
            range.start = position;
        } else {
            self.ranges.insert(next, PositionRange { start: position, end: position + 1 });
        }
        true
    }

    fn merge_with_next(&mut self, at: usize) {
        if let Some(after) = self.ranges.remove(at + 1)
            && let Some(range) = self.ranges.get_mut(at)
        {
            range.end = after.end;
        }
    }

    /// Takes one position out; false when it was not there.
    pub fn remove(&mut self, position: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= position);
        let Some(range) = self.ranges.get_mut(at) else { return false };
        if range.start > position {
            return false;
        }
        self.n_positions -= 1;
        let old = *range;
        if old.start == position {
            range.start += 1;
            if range.is_empty() {
                self.ranges.remove(at);
            }
        } else if old.end == position + 1 {
            range.end = position;
        } else {
            range.end = position;
            self.ranges.insert(at + 1, PositionRange { start: position + 1, end: old.end });
        }
        true
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
        fn a_position_set_is_a_set(ops in prop::collection::vec((0..4_u8, 0..40_u64), 0..200)) {
            let mut set = PositionSet::new();
            let mut model = BTreeSet::new();
            for (op, position) in ops {
                match op {
                    0 => prop_assert_eq!(set.insert(position), model.insert(position)),
                    1 => prop_assert_eq!(set.remove(position), model.remove(&position)),
                    2 => prop_assert_eq!(set.pop_first(), model.pop_first()),
                    _ => {
                        let start = model.last().map_or(0, |last| last + 1) + position % 3;
                        set.push_back(start, 2);
                        model.extend([start, start + 1]);
                    }
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.contains(position), model.contains(&position));
                let listed: Vec<u64> = set.ranges().flat_map(|r| r.start..r.end).collect();
                prop_assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = set.ranges().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }

    #[test]
    fn a_million_positions_are_one_range() {
        let mut set = PositionSet::new();
        for position in 0..1_000_000 {
            set.push_back(position, 1);
        }
        assert_eq!((set.len(), set.n_ranges()), (1_000_000, 1));
    }
}
