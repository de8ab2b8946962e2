//! Publishes that wait for a consumer: at which position each stands, and whom to tell.

use crate::PositionRange;
use std::collections::{BTreeMap, VecDeque};

/// Places that may stand empty beside those in use before the list is made shorter.
const EMPTY_PLACES: usize = 1_024;
/// Messages younger than the last mark by less than this count as old as it, in milliseconds.
const MARK_EVERY_MS: u64 = 100;
/// Marks; of more, every second one is forgotten.
const MARKS_MAX: usize = 4_096;
/// A publisher's number is never this.
const NOBODY: u32 = u32::MAX;

/// A publish that waits for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaiting {
    /// Who published it: a number the host gives out, below `u32::MAX`.
    pub publisher: u32,
    /// Its number among that publisher's.
    pub sequence: u64,
    /// Size of its body, for the limit; one of 4 GiB or more counts as a little less.
    pub bytes: u32,
}

impl Awaiting {
    const NONE: Self = Self { publisher: NOBODY, sequence: 0, bytes: 0 };

    const fn is_none(&self) -> bool {
        self.publisher == NOBODY
    }
}

/// The publishes of a queue that are to be confirmed once they have been consumed, by position.
///
/// They come in rising order and mostly leave so: a list indexed by position holds them, 16 bytes
/// each. Those that are left behind when it would become mostly empty are kept apart.
#[derive(Clone, Debug, Default)]
pub struct ConfirmWaiters {
    /// The position of the first place.
    first: u64,
    places: VecDeque<Awaiting>,
    n_in_places: usize,
    /// Left behind: all below `first`.
    strays: BTreeMap<u64, Awaiting>,
    bytes: u64,
    /// From which position on publishes came at which time or soon after.
    marks: VecDeque<(u64, u64)>,
}

impl ConfirmWaiters {
    /// Publishes that wait.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.n_in_places + self.strays.len()) as u64
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_in_places == 0 && self.strays.is_empty()
    }

    /// Sizes of their bodies together.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From now on `awaiting`, at `position`, waits; one that waits there already is replaced.
    /// Positions rise but for those that waited before and come back.
    pub fn wait(&mut self, position: u64, awaiting: Awaiting, now_ms: u64) {
        self.bytes += u64::from(awaiting.bytes);
        if self.is_empty() {
            self.places.clear();
            self.first = position;
            self.marks.clear();
        }
        if self.marks.back().is_none_or(|(_, at_ms)| *at_ms + MARK_EVERY_MS <= now_ms) {
            self.mark(position, now_ms);
        }
        if position < self.first {
            let before = self.strays.insert(position, awaiting);
            self.bytes -= before.map_or(0, |before| u64::from(before.bytes));
            return;
        }
        let place = usize::try_from(position - self.first).unwrap_or(usize::MAX);
        if place == self.places.len() && place <= self.n_places_max() {
            self.places.push_back(awaiting);
            self.n_in_places += 1;
            return;
        }
        self.wait_at(place, position, awaiting);
    }

    #[cold]
    fn wait_at(&mut self, place: usize, position: u64, awaiting: Awaiting) {
        if let Some(known) = self.places.get_mut(place) {
            self.n_in_places += usize::from(known.is_none());
            self.bytes -= u64::from(known.bytes);
            *known = awaiting;
            return;
        }
        if place > self.n_places_max() {
            self.leave_behind(position);
        }
        let place = usize::try_from(position - self.first).unwrap_or_default();
        self.places.resize(place, Awaiting::NONE);
        self.places.push_back(awaiting);
        self.n_in_places += 1;
    }

    /// More places than this would be mostly empty.
    const fn n_places_max(&self) -> usize {
        EMPTY_PLACES + 4 * self.n_in_places
    }

    #[cold]
    fn mark(&mut self, position: u64, now_ms: u64) {
        self.forget_marks();
        if self.marks.len() >= MARKS_MAX {
            let mut keeps = false;
            self.marks.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        self.marks.push_back((position, now_ms));
    }

    /// Forgets marks of what went.
    fn forget_marks(&mut self) {
        let Some(first) = self.first_position() else { return };
        let n = self.marks.partition_point(|(from, _)| *from <= first);
        self.marks.drain(..n.saturating_sub(1));
    }

    fn first_position(&self) -> Option<u64> {
        let stray = self.strays.keys().next().copied();
        stray.or_else(|| (self.n_in_places > 0).then_some(self.first))
    }

    /// Keeps apart what stands in places, which begin at `first` from now on.
    fn leave_behind(&mut self, first: u64) {
        let left = (self.first..).zip(self.places.drain(..)).filter(|(_, one)| !one.is_none());
        self.strays.extend(left);
        self.n_in_places = 0;
        self.first = first;
    }

    /// Takes the one that waits at `position`, if one does.
    #[inline]
    pub fn take(&mut self, position: u64) -> Option<Awaiting> {
        let Some(place) = position.checked_sub(self.first) else {
            return self.take_stray(position);
        };
        let place = self.places.get_mut(usize::try_from(place).ok()?)?;
        let taken = std::mem::replace(place, Awaiting::NONE);
        if taken.is_none() {
            return None;
        }
        self.n_in_places -= 1;
        self.bytes -= u64::from(taken.bytes);
        while self.places.front().is_some_and(Awaiting::is_none) {
            self.places.pop_front();
            self.first += 1;
        }
        Some(taken)
    }

    #[cold]
    fn take_stray(&mut self, position: u64) -> Option<Awaiting> {
        let taken = self.strays.remove(&position)?;
        self.bytes -= u64::from(taken.bytes);
        Some(taken)
    }

    /// Takes those that wait in `range`.
    pub fn take_range(&mut self, range: PositionRange, mut taken: impl FnMut(Awaiting)) {
        let strays: Vec<u64> = self.strays.range(range.start..range.end).map(|it| *it.0).collect();
        let start = range.start.max(self.first);
        let end = range.end.min(self.first + self.places.len() as u64);
        for position in strays.into_iter().chain(start..end) {
            if let Some(awaiting) = self.take(position) {
                taken(awaiting);
            }
        }
    }

    /// Those that wait, by rising position.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Awaiting)> + '_ {
        let strays = self.strays.iter().map(|(position, one)| (*position, *one));
        let places = (self.first..).zip(self.places.iter().copied());
        strays.chain(places.filter(|(_, one)| !one.is_none()))
    }

    /// When the publish at `position` came, or a tenth of a second before; less exactly where some
    /// have waited for minutes.
    #[must_use]
    pub fn came_ms(&self, position: u64) -> u64 {
        let n = self.marks.partition_point(|(from, _)| *from <= position);
        self.marks.get(n.saturating_sub(1)).map_or(0, |(_, at_ms)| *at_ms)
    }

    /// When the first of them came; none if none waits.
    pub fn oldest_ms(&self) -> Option<u64> {
        self.first_position().map(|first| self.came_ms(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn awaiting(sequence: u64) -> Awaiting {
        Awaiting { publisher: 1, sequence, bytes: 10 }
    }

    proptest! {
        /// Whatever comes and goes, what waits is what came and did not go.
        #[test]
        fn those_wait_that_were_not_taken(
            ops in prop::collection::vec((0..8_u8, 0..400_u64), 0..500),
        ) {
            let (mut pending, mut model) = (ConfirmWaiters::default(), BTreeMap::new());
            let (mut next, mut now_ms) = (0_u64, 0_u64);
            for (op, n) in ops {
                now_ms += n;
                match op {
                    0..=3 => {
                        // Positions of others lie between, sometimes very many.
                        next += if n > 390 { 5_000 } else { n % 3 };
                        pending.wait(next, awaiting(next), now_ms);
                        model.insert(next, (awaiting(next), now_ms));
                        next += 1;
                    }
                    4 | 5 => {
                        let position = model.keys().nth(usize::try_from(n).unwrap() % model.len().max(1)).copied();
                        let position = position.unwrap_or(n);
                        let expected = model.remove(&position).map(|(one, _)| one);
                        prop_assert_eq!(pending.take(position), expected);
                        prop_assert_eq!(pending.take(position), None);
                    }
                    6 => {
                        let start = next.saturating_sub(n);
                        let range = PositionRange { start, end: start + n / 2 };
                        let mut taken = Vec::new();
                        pending.take_range(range, |one| taken.push(one));
                        let inside: Vec<u64> =
                            model.range(range.start..range.end).map(|(at, _)| *at).collect();
                        let expected: Vec<Awaiting> = inside
                            .iter()
                            .filter_map(|at| model.remove(at).map(|(one, _)| one))
                            .collect();
                        prop_assert_eq!(taken, expected);
                    }
                    _ => {
                        // One that was taken comes back.
                        if let Some((position, (one, _))) = model.pop_first() {
                            prop_assert_eq!(pending.take(position), Some(one));
                            pending.wait(position, one, now_ms);
                            model.insert(position, (one, now_ms));
                        }
                    }
                }
                prop_assert_eq!(pending.len(), model.len() as u64);
                prop_assert_eq!(pending.is_empty(), model.is_empty());
                prop_assert_eq!(pending.bytes(), 10 * model.len() as u64);
                let all: Vec<(u64, Awaiting)> = pending.iter().collect();
                let expected: Vec<_> = model.iter().map(|(at, (one, _))| (*at, *one)).collect();
                prop_assert_eq!(all, expected);
                prop_assert_eq!(pending.oldest_ms().is_some(), !model.is_empty());
                let n_places = pending.places.len();
                prop_assert!(n_places <= 2 * EMPTY_PLACES + 8 * pending.n_in_places.max(256));
            }
        }
    }

    #[test]
    fn ages_are_known_within_a_tenth_of_a_second() {
        let mut pending = ConfirmWaiters::default();
        for (position, now_ms) in [(5, 1_000), (6, 1_050), (7, 1_099), (8, 1_100), (20, 9_000)] {
            pending.wait(position, awaiting(position), now_ms);
        }
        assert_eq!(pending.oldest_ms(), Some(1_000));
        assert_eq!((pending.came_ms(7), pending.came_ms(8)), (1_000, 1_100));
        assert!(pending.take(5).is_some() && pending.take(6).is_some());
        assert_eq!(pending.oldest_ms(), Some(1_000));
        assert!(pending.take(7).is_some());
        assert_eq!(pending.oldest_ms(), Some(1_100));
        assert!(pending.take(8).is_some());
        assert_eq!(pending.oldest_ms(), Some(9_000));
        assert!(pending.take(20).is_some());
        assert_eq!(pending.oldest_ms(), None);
    }

    #[test]
    fn one_that_is_left_behind_does_not_keep_the_places_of_those_after_it() {
        let mut pending = ConfirmWaiters::default();
        pending.wait(0, awaiting(1), 0);
        for position in 1..1_000_000 {
            pending.wait(position, awaiting(position), 0);
            assert_eq!(pending.take(position), Some(awaiting(position)));
        }
        assert!(pending.places.len() <= 2 * EMPTY_PLACES);
        assert_eq!(pending.take(0), Some(awaiting(1)));
        assert!(pending.is_empty());
    }
}
