//! Publishes that wait for a consumer, by position: the publisher of each, and for how long each has waited.

#[cfg(test)]
mod tests;

use crate::{PositionRange, PositionSet};
use std::collections::{BTreeMap, VecDeque};
use stdx::MonotonicMs;

/// Empty places beside those in use from which on the list is made shorter.
const EMPTY_PLACES: usize = 1_024;
/// Messages younger than the last mark by less than this count as old as it, in milliseconds.
const MARK_EVERY_MS: u64 = 100;
/// Maximum number of marks; where more would be needed, each stands for twice the time.
const MARKS_MAX: usize = 4_096;
/// Number of no publisher.
const NOBODY: u32 = u32::MAX;

/// A publish that waits for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaiting {
    /// Publisher of the message: a number that the host gives out, below `u32::MAX`.
    pub publisher: u32,
    /// Number of the publish among those of its publisher.
    pub sequence: u64,
    /// Size of the body, for the limit; a body of 4 GiB or more counts as a little less.
    pub bytes: u32,
}

impl Awaiting {
    const NONE: Self = Self { publisher: NOBODY, sequence: 0, bytes: 0 };

    const fn is_none(&self) -> bool {
        self.publisher == NOBODY
    }
}

/// The times at which publishes came, from a position on up to the next mark.
#[derive(Clone, Copy, Debug)]
struct Mark {
    from: u64,
    first_ms: MonotonicMs,
    last_ms: MonotonicMs,
}

/// The publishes of a queue that are to be confirmed once they have been consumed, by position.
///
/// Publishes come in rising order and mostly leave so: a list indexed by position holds them, 16 bytes each.
/// Publishes that are left behind when the list would become mostly empty are kept apart. Publishes that have
/// waited for too long are [taken](ConfirmWaiters::take_overdue) in that order too; of messages that a
/// consumer has then, only the positions are kept.
#[derive(Clone, Debug)]
pub struct ConfirmWaiters {
    /// The position of the first place.
    first: u64,
    places: VecDeque<Awaiting>,
    n_in_places: usize,
    /// Publishes that were left behind: all below `first`.
    strays: BTreeMap<u64, Awaiting>,
    bytes: u64,
    /// Rising, in position and time.
    marks: VecDeque<Mark>,
    /// The time that a new mark stands for.
    mark_every_ms: u64,
    /// Messages that stay although their publishers were told that they waited for too long.
    given_up: PositionSet,
}

impl Default for ConfirmWaiters {
    fn default() -> Self {
        Self {
            first: 0,
            places: VecDeque::new(),
            n_in_places: 0,
            strays: BTreeMap::new(),
            bytes: 0,
            marks: VecDeque::new(),
            mark_every_ms: MARK_EVERY_MS,
            given_up: PositionSet::new(),
        }
    }
}

impl ConfirmWaiters {
    /// Publishes that wait.
    pub fn len(&self) -> u64 {
        (self.n_in_places + self.strays.len()) as u64
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.n_in_places == 0 && self.strays.is_empty()
    }

    /// Sizes of their bodies together.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From now on `awaiting`, at `position`, waits; one that waits there already is replaced.
    /// Positions rise but for those that waited before and come back.
    pub fn wait(&mut self, position: u64, awaiting: Awaiting, now_ms: MonotonicMs) {
        self.bytes += u64::from(awaiting.bytes);
        if self.is_empty() {
            self.first = position;
            self.marks.clear();
            self.mark_every_ms = MARK_EVERY_MS;
        }
        if position >= self.first + self.places.len() as u64 {
            self.first = if self.n_in_places == 0 { position } else { self.first };
            self.note_time(position, now_ms);
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

    /// Notes that the newest publish came at `now_ms`. A publish that comes back is as old as those about it.
    #[inline]
    fn note_time(&mut self, position: u64, now_ms: MonotonicMs) {
        match self.marks.back_mut() {
            Some(last) if now_ms < last.first_ms.plus(self.mark_every_ms) => last.last_ms = now_ms,
            Some(_) | None => self.mark(position, now_ms),
        }
    }

    #[cold]
    fn mark(&mut self, from: u64, now_ms: MonotonicMs) {
        self.forget_marks();
        if self.marks.len() >= MARKS_MAX {
            self.merge_marks();
            self.mark_every_ms *= 2;
        } else if self.marks.len() < MARKS_MAX / 4 {
            self.mark_every_ms = (self.mark_every_ms / 2).max(MARK_EVERY_MS);
        }
        self.marks.push_back(Mark { from, first_ms: now_ms, last_ms: now_ms });
    }

    /// Joins every second mark to the one before it.
    fn merge_marks(&mut self) {
        let marks: Vec<Mark> = self.marks.drain(..).collect();
        let merged = marks.chunks(2).filter_map(|pair| {
            let (first, last) = (pair.first()?, pair.last()?);
            Some(Mark { last_ms: last.last_ms, ..*first })
        });
        self.marks.extend(merged);
    }

    /// Forgets marks of what went.
    fn forget_marks(&mut self) {
        let Some(first) = self.first_position() else { return };
        let n = self.marks.partition_point(|mark| mark.from <= first);
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

    /// The message at `position` leaves: takes the publish that waits there, if one does.
    #[inline]
    pub fn take(&mut self, position: u64) -> Option<Awaiting> {
        let taken = self.take_waiting(position);
        if taken.is_none() && !self.given_up.is_empty() {
            self.given_up.remove(position);
        }
        taken
    }

    #[inline]
    fn take_waiting(&mut self, position: u64) -> Option<Awaiting> {
        let Some(place) = position.checked_sub(self.first) else {
            return self.take_stray(position);
        };
        let place = self.places.get_mut(usize::try_from(place).ok()?)?;
        let taken = std::mem::replace(place, Awaiting::NONE);
        if taken.is_none() {
            return None;
        }
        debug_assert!(self.n_in_places > 0, "a publish in a place is counted");
        debug_assert!(self.bytes >= u64::from(taken.bytes), "bytes that wait are counted");
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

    /// The messages in `range` leave: takes the publishes that wait there.
    pub fn take_range(&mut self, range: PositionRange, mut taken: impl FnMut(Awaiting)) {
        let strays: Vec<u64> = self.strays.range(range.start..range.end).map(|it| *it.0).collect();
        let start = range.start.max(self.first);
        let end = range.end.min(self.first + self.places.len() as u64);
        for position in strays.into_iter().chain(start..end) {
            if let Some(awaiting) = self.take_waiting(position) {
                taken(awaiting);
            }
        }
        if !self.given_up.is_empty() {
            self.given_up.take_range(range, &mut Vec::new());
        }
    }

    /// Takes up to `n_max` publishes that have waited for `timeout_ms` as of `now_ms`, the oldest first, with
    /// their positions. None is taken before its time, and each once [`ConfirmWaiters::next_overdue_ms`] has
    /// come: a tenth of a second later at most, or a part in a thousand of a long time-out.
    pub fn take_overdue(
        &mut self,
        now_ms: MonotonicMs,
        timeout_ms: u64,
        n_max: usize,
        mut taken: impl FnMut(u64, Awaiting),
    ) {
        let is_over = |mark: &Mark| mark.last_ms.plus(timeout_ms) <= now_ms;
        let n_over = self.marks.partition_point(is_over);
        if n_over == 0 {
            return;
        }
        let end = self.marks.get(n_over).map_or(u64::MAX, |mark| mark.from);
        for _ in 0..n_max {
            let Some(first) = self.first_position().filter(|first| *first < end) else { break };
            let Some(awaiting) = self.take_waiting(first) else { break };
            taken(first, awaiting);
        }
        self.forget_marks();
    }

    /// Time when [`ConfirmWaiters::take_overdue`] may have something to do; none if none waits.
    #[must_use]
    pub fn next_overdue_ms(&self, timeout_ms: u64) -> Option<MonotonicMs> {
        let first = self.marks.front().filter(|_| !self.is_empty())?;
        Some(first.last_ms.plus(timeout_ms))
    }

    /// Gives up the message at `position`, whose publisher was told that it waited for too long: the message
    /// stays, since a consumer has it.
    pub fn give_up(&mut self, position: u64) {
        self.given_up.insert(position);
    }

    /// Whether the message at `position` is one of those that were [given up](ConfirmWaiters::give_up).
    #[inline]
    pub fn is_given_up(&self, position: u64) -> bool {
        !self.given_up.is_empty() && self.given_up.contains(position)
    }

    /// Whether there are messages that were [given up](ConfirmWaiters::give_up).
    pub const fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Publishes that wait, by rising position.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Awaiting)> + '_ {
        let strays = self.strays.iter().map(|(position, one)| (*position, *one));
        let places = (self.first..).zip(self.places.iter().copied());
        strays.chain(places.filter(|(_, one)| !one.is_none()))
    }

    /// Time when the publish at `position` came, or a tenth of a second before; less exactly where some have
    /// waited for minutes.
    #[must_use]
    pub fn came_ms(&self, position: u64) -> MonotonicMs {
        let n = self.marks.partition_point(|mark| mark.from <= position);
        self.marks.get(n.saturating_sub(1)).map_or_else(MonotonicMs::default, |mark| mark.first_ms)
    }

    /// Time when the first publish that waits came; none if none waits.
    pub fn oldest_ms(&self) -> Option<MonotonicMs> {
        self.first_position().map(|first| self.came_ms(first))
    }
}
