use crate::positions::{PositionRange, PositionSet};
use std::collections::BTreeMap;

/// Counts kept as a set of positions each; higher ones cost an entry per position.
const LEVELS_MAX: usize = 32;

/// Why a message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// Its delivery failed: it was rejected, or its consumer went away.
    Failed,
    /// The consumer gave it back without having tried (`basic.nack`, `basic.recover`).
    Released,
}

/// How often a message came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Failed deliveries: `x-delivery-count`, left out when 0.
    pub n_failed: u32,
    /// Deliveries before this one: `x-acquired-count`, left out when 0.
    pub n_acquired: u32,
}

/// Numbers by position, most of them small: a set of positions for each number, so that a backlog
/// that came back once costs next to nothing.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// The positions whose number is the index plus one.
    levels: Vec<PositionSet>,
    beyond: BTreeMap<u64, u32>,
}

impl Tally {
    fn get(&self, position: u64) -> u32 {
        match self.levels.iter().zip(1..).find(|(level, _)| level.contains(position)) {
            Some((_, n)) => n,
            None => self.beyond.get(&position).copied().unwrap_or(0),
        }
    }

    fn set(&mut self, position: u64, n: u32) {
        self.forget(position);
        let Some(index) = n.checked_sub(1).map(|index| index as usize) else { return };
        if index >= LEVELS_MAX {
            self.beyond.insert(position, n);
            return;
        }
        if self.levels.len() <= index {
            self.levels.resize_with(index + 1, PositionSet::new);
        }
        if let Some(level) = self.levels.get_mut(index) {
            level.insert(position);
        }
    }

    fn increment(&mut self, position: u64) -> u32 {
        let n = self.get(position).saturating_add(1);
        self.set(position, n);
        n
    }

    fn forget(&mut self, position: u64) {
        let in_level = self.levels.iter_mut().any(|level| level.remove(position));
        if !in_level {
            self.beyond.remove(&position);
        }
    }

    fn forget_range(&mut self, range: PositionRange, scratch: &mut Vec<PositionRange>) {
        for level in self.levels.iter_mut().filter(|level| !level.is_empty()) {
            level.take_range(range, scratch);
            scratch.clear();
        }
        if !self.beyond.is_empty() {
            self.beyond.retain(|position, _| !range.contains(*position));
        }
    }
}

/// How often each message came back, of those that did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returns {
    failed: Tally,
    acquired: Tally,
}

impl Returns {
    pub(crate) fn note(&mut self, position: u64, how: Return) -> DeliveryCounts {
        let n_acquired = self.acquired.increment(position);
        let n_failed = match how {
            Return::Failed => self.failed.increment(position),
            Return::Released => self.failed.get(position),
        };
        DeliveryCounts { n_failed, n_acquired }
    }

    pub(crate) fn restore(&mut self, position: u64, counts: DeliveryCounts) {
        self.failed.set(position, counts.n_failed);
        self.acquired.set(position, counts.n_acquired);
    }

    pub(crate) fn of(&self, position: u64) -> DeliveryCounts {
        DeliveryCounts {
            n_failed: self.failed.get(position),
            n_acquired: self.acquired.get(position),
        }
    }

    pub(crate) fn forget(&mut self, position: u64) {
        self.failed.forget(position);
        self.acquired.forget(position);
    }

    pub(crate) fn forget_range(&mut self, range: PositionRange) {
        let mut scratch = Vec::new();
        self.failed.forget_range(range, &mut scratch);
        self.acquired.forget_range(range, &mut scratch);
    }

    /// Every position that came back, with its counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, DeliveryCounts)> + '_ {
        let levels = self.acquired.levels.iter().flat_map(PositionSet::ranges);
        let positions = levels.flat_map(|range| range.start..range.end);
        let positions = positions.chain(self.acquired.beyond.keys().copied());
        positions.map(|position| (position, self.of(position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tally_counts(ops in prop::collection::vec((0..8_u8, 0..6_u64), 0..400)) {
            let mut returns = Returns::default();
            let mut model: BTreeMap<u64, DeliveryCounts> = BTreeMap::new();
            for (op, position) in ops {
                match op {
                    0 => {
                        returns.forget(position);
                        model.remove(&position);
                    }
                    1 if position == 5 => {
                        returns.forget_range(PositionRange { start: 1, end: 4 });
                        model.retain(|at, _| !(1..4).contains(at));
                    }
                    _ => {
                        let how = if op % 2 == 0 { Return::Failed } else { Return::Released };
                        let counts = model.entry(position).or_default();
                        counts.n_acquired += 1;
                        counts.n_failed += u32::from(how == Return::Failed);
                        prop_assert_eq!(returns.note(position, how), *counts);
                    }
                }
                let listed: BTreeMap<u64, DeliveryCounts> = returns.iter().collect();
                prop_assert_eq!(&listed, &model);
            }
        }
    }

    #[test]
    fn a_backlog_that_came_back_once_costs_next_to_nothing() {
        let mut returns = Returns::default();
        for position in 0..100_000 {
            returns.note(position, Return::Failed);
        }
        assert_eq!(returns.of(99_999), DeliveryCounts { n_failed: 1, n_acquired: 1 });
        assert_eq!(returns.failed.levels[0].n_blocks(), 0);
    }
}
