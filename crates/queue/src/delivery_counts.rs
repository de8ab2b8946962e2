use crate::positions::{PositionRange, PositionSet};
use std::collections::BTreeMap;

/// Counts kept as a set of positions each; higher ones cost an entry per position.
pub(crate) const LEVELS_MAX: usize = 32;

/// The way in which a message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// The delivery failed: the message was rejected, or its consumer went away.
    Failed,
    /// The consumer gave the message back without having tried it (`basic.nack`, `basic.recover`).
    Released,
}

/// Counts of how often a message came back.
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
pub(crate) struct Tally {
    /// The positions whose number is the index plus one.
    levels: Vec<PositionSet>,
    beyond: BTreeMap<u64, u32>,
}

impl Tally {
    /// The number one for each of these positions.
    pub(crate) fn ones(positions: &PositionSet) -> Self {
        Self { levels: vec![positions.clone()], beyond: BTreeMap::new() }
    }

    /// Whether no position has a number.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.beyond.is_empty()
    }

    pub(crate) fn get(&self, position: u64) -> u32 {
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

    /// Sets the number of a run above all positions that have that number.
    fn set_run(&mut self, range: PositionRange, n: u32) {
        if n as usize > LEVELS_MAX {
            return (range.start..range.end).for_each(|position| self.set(position, n));
        }
        let Some(index) = n.checked_sub(1).map(|index| index as usize) else { return };
        if self.levels.len() <= index {
            self.levels.resize_with(index + 1, PositionSet::new);
        }
        if let Some(level) = self.levels.get_mut(index) {
            level.push_back(range.start, range.len());
        }
    }

    pub(crate) fn increment(&mut self, position: u64) -> u32 {
        let n = self.get(position).saturating_add(1);
        self.set(position, n);
        n
    }

    pub(crate) fn forget(&mut self, position: u64) {
        let in_level = self.levels.iter_mut().any(|level| level.remove(position));
        if !in_level {
            self.beyond.remove(&position);
        }
        self.drop_empty_levels();
    }

    fn drop_empty_levels(&mut self) {
        while self.levels.pop_if(|level| level.is_empty()).is_some() {}
    }

    pub(crate) fn forget_range(&mut self, range: PositionRange, scratch: &mut Vec<PositionRange>) {
        for level in self.levels.iter_mut().filter(|level| !level.is_empty()) {
            level.take_range(range, scratch);
            scratch.clear();
        }
        if !self.beyond.is_empty() {
            self.beyond.retain(|position, _| !range.contains(*position));
        }
        self.drop_empty_levels();
    }
}

/// Counts of how often each message came back, of those that did.
#[derive(Clone, Debug, Default)]
pub struct Returns {
    failed: Tally,
    acquired: Tally,
    /// Whether messages that come back are counted.
    is_counting: bool,
    /// Positions whose counts have changed since they were taken, if they are to be told.
    changed: Option<Vec<u64>>,
    /// The counts of messages that are settled by being delivered, until they are.
    parted: Vec<(u64, DeliveryCounts)>,
}

impl Returns {
    /// Counts from now on, or not so any more.
    pub(crate) fn set_counting(&mut self, is_counting: bool) {
        if !is_counting {
            (self.failed, self.acquired) = (Tally::default(), Tally::default());
        }
        self.is_counting = is_counting;
    }

    pub(crate) const fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Notes from now on which counts change, or not so any more.
    pub(crate) fn set_noting(&mut self, is_noting: bool) {
        self.changed = is_noting.then(|| self.changed.take().unwrap_or_default());
    }

    /// A message comes back.
    pub(crate) fn note(&mut self, position: u64, how: Return) -> DeliveryCounts {
        if !self.is_counting {
            return DeliveryCounts::default();
        }
        let n_acquired = self.acquired.increment(position);
        let n_failed = match how {
            Return::Failed => self.failed.increment(position),
            Return::Released => self.failed.get(position),
        };
        DeliveryCounts { n_failed, n_acquired }
    }

    /// The message stays in the queue with the counts it has now.
    pub(crate) fn note_changed(&mut self, position: u64) {
        if let Some(changed) = &mut self.changed {
            changed.push(position);
        }
    }

    /// Says how often a message came back before a restart.
    pub fn restore(&mut self, position: u64, counts: DeliveryCounts) {
        if self.is_counting {
            self.failed.set(position, counts.n_failed);
            self.acquired.set(position, counts.n_acquired);
        }
    }

    /// Restores counts as [`Returns::restore`] does, of a run above all that were restored before.
    pub(crate) fn restore_run(&mut self, range: PositionRange, counts: DeliveryCounts) {
        self.failed.set_run(range, counts.n_failed);
        self.acquired.set_run(range, counts.n_acquired);
    }

    fn counted(&self, position: u64) -> DeliveryCounts {
        DeliveryCounts {
            n_failed: self.failed.get(position),
            n_acquired: self.acquired.get(position),
        }
    }

    /// Counts of a message that was just assigned, is held, or waits.
    #[must_use]
    pub fn of(&self, position: u64) -> DeliveryCounts {
        let parted = self.parted.iter().find(|(parted, _)| *parted == position);
        parted.map_or_else(|| self.counted(position), |(_, counts)| *counts)
    }

    /// A message is settled by being delivered: its counts are known until [`Returns::forget_parted`].
    pub(crate) fn part_with(&mut self, position: u64) {
        if !self.is_counting {
            return;
        }
        let counts = self.counted(position);
        if counts != DeliveryCounts::default() {
            self.parted.push((position, counts));
            self.forget(position);
        }
    }

    /// The messages that were settled by being delivered have been.
    pub(crate) fn forget_parted(&mut self) {
        self.parted.clear();
    }

    pub(crate) fn forget(&mut self, position: u64) {
        if self.is_counting {
            self.failed.forget(position);
            self.acquired.forget(position);
        }
    }

    pub(crate) fn forget_ranges(&mut self, ranges: &[PositionRange]) {
        let mut scratch = Vec::new();
        for range in ranges.iter().filter(|_| self.is_counting) {
            self.failed.forget_range(*range, &mut scratch);
            self.acquired.forget_range(*range, &mut scratch);
        }
    }

    /// The counts that have changed since this was asked last, of messages that are there, where
    /// [`QueuePolicy::notes_returns`](crate::QueuePolicy::notes_returns) asks for it.
    #[must_use = "they are not told again"]
    pub fn take_changed(&mut self) -> Vec<(u64, DeliveryCounts)> {
        let Some(changed) = self.changed.as_mut().filter(|changed| !changed.is_empty()) else {
            return Vec::new();
        };
        let changed = std::mem::take(changed);
        let counted = changed.into_iter().map(|position| (position, self.counted(position)));
        counted.filter(|(_, counts)| *counts != DeliveryCounts::default()).collect()
    }

    /// Every position that came back, with its counts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, DeliveryCounts)> + '_ {
        let levels = self.acquired.levels.iter().flat_map(PositionSet::ranges);
        let positions = levels.flat_map(|range| range.start..range.end);
        let positions = positions.chain(self.acquired.beyond.keys().copied());
        positions.map(|position| (position, self.counted(position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counting() -> Returns {
        let mut returns = Returns::default();
        returns.set_counting(true);
        returns
    }

    #[test]
    fn all_that_are_assigned_together_keep_their_counts_until_they_are_delivered() {
        let mut returns = counting();
        let counts = [1, 2].map(|position| returns.note(position, Return::Failed));
        [1, 2, 3].into_iter().for_each(|position| returns.part_with(position));
        assert_eq!([1, 2].map(|position| returns.of(position)), counts);
        assert_eq!(returns.of(3), DeliveryCounts::default());
        returns.forget_parted();
        assert_eq!([1, 2].map(|position| returns.of(position)), [DeliveryCounts::default(); 2]);
    }

    proptest! {
        #[test]
        fn a_tally_counts(ops in prop::collection::vec((0..8_u8, 0..6_u64), 0..400)) {
            let mut returns = counting();
            let mut model: BTreeMap<u64, DeliveryCounts> = BTreeMap::new();
            for (op, position) in ops {
                match op {
                    0 => {
                        returns.forget(position);
                        model.remove(&position);
                    }
                    1 if position == 5 => {
                        returns.forget_ranges(&[PositionRange { start: 1, end: 4 }]);
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
        let mut returns = counting();
        for position in 0..100_000 {
            returns.note(position, Return::Failed);
        }
        assert_eq!(returns.of(99_999), DeliveryCounts { n_failed: 1, n_acquired: 1 });
        assert_eq!(returns.failed.levels[0].n_blocks(), 0);
        returns.forget_ranges(&[PositionRange { start: 0, end: 100_000 }]);
        assert!(returns.failed.is_empty());
    }
}
