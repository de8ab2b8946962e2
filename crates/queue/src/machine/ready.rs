//! The messages that a consumer could get now: first those that came back, in the order they did, then the
//! others by priority, and by position within one.

use crate::positions::{PositionRange, PositionSet};
use std::collections::VecDeque;

/// Runs of returned messages that are kept although most of them are gone from elsewhere.
const STALE_RUNS_MIN: usize = 64;

/// Fresh messages of one priority.
#[derive(Clone, Debug)]
struct Lane {
    priority: u8,
    ready: PositionSet,
}

/// The ready messages of a quorum queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    /// Messages in the order they came back; some may be gone since.
    order: VecDeque<PositionRange>,
    /// Messages of `order` that are still there.
    returned: PositionSet,
    /// Lanes of fresh messages, the highest priority first; some may be empty.
    lanes: Vec<Lane>,
    n_fresh: u64,
}

impl Ready {
    pub(super) const fn len(&self) -> u64 {
        self.n_fresh + self.returned.len()
    }

    /// Adds a fresh message, above all fresh ones before.
    #[inline]
    pub(super) fn push(&mut self, position: u64, priority: u8) {
        self.n_fresh += 1;
        match self.lanes.first_mut() {
            Some(lane) if lane.priority == priority => lane.ready.push_back(position, 1),
            Some(_) | None => self.push_range(PositionRange::one(position), priority),
        }
    }

    fn push_range(&mut self, range: PositionRange, priority: u8) {
        let at = self.lanes.partition_point(|lane| lane.priority > priority);
        if self.lanes.get(at).is_none_or(|lane| lane.priority != priority) {
            self.lanes.insert(at, Lane { priority, ready: PositionSet::new() });
        }
        if let Some(lane) = self.lanes.get_mut(at) {
            lane.ready.push_back(range.start, range.len());
        }
    }

    /// Restores fresh messages: by rising position within a priority.
    pub(super) fn restore(&mut self, range: PositionRange, priority: u8) {
        self.n_fresh += range.len();
        self.push_range(range, priority);
    }

    /// Restores messages that came back, in that order. False if they cannot be right.
    pub(super) fn restore_returned(&mut self, order: Vec<PositionRange>, n_max: u64) -> bool {
        let mut rising = order.clone();
        rising.sort_unstable_by_key(|range| range.start);
        let mut end = 0;
        for range in rising {
            if range.start < end || self.returned.len().saturating_add(range.len()) > n_max {
                return false;
            }
            self.returned.push_back(range.start, range.len());
            end = range.end;
        }
        self.order = order.into();
        true
    }

    /// A message comes back.
    pub(super) fn come_back(&mut self, position: u64) {
        let was_away = self.returned.insert(position);
        assert!(was_away, "a message is held or ready");
        match self.order.back_mut() {
            Some(last) if last.end == position => last.end += 1,
            Some(_) | None => self.order.push_back(PositionRange::one(position)),
        }
    }

    /// A message comes back as the next one: nobody has seen it.
    pub(super) fn come_back_first(&mut self, position: u64) {
        let was_away = self.returned.insert(position);
        assert!(was_away, "a message is held or ready");
        match self.order.front_mut() {
            Some(first) if first.start == position + 1 => first.start = position,
            Some(_) | None => self.order.push_front(PositionRange::one(position)),
        }
    }

    /// Takes the next message out; whether it came back before.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, bool)> {
        if !self.returned.is_empty() {
            return self.pop_returned().map(|position| (position, true));
        }
        let lane = self.lanes.iter_mut().find(|lane| !lane.ready.is_empty())?;
        let position = lane.ready.pop_first()?;
        debug_assert!(self.n_fresh > 0, "a message in a lane is counted");
        self.n_fresh -= 1;
        Some((position, false))
    }

    fn pop_returned(&mut self) -> Option<u64> {
        loop {
            let first = self.order.front_mut()?;
            let position = first.start;
            first.start += 1;
            if first.is_empty() {
                self.order.pop_front();
            }
            if self.returned.remove(position) {
                if self.returned.is_empty() {
                    self.order.clear();
                }
                return Some(position);
            }
        }
    }

    /// Takes out what lies in `range`; `taken` gets it.
    pub(super) fn take_range(&mut self, range: PositionRange, taken: &mut Vec<PositionRange>) {
        if !self.returned.is_empty() {
            self.returned.take_range(range, taken);
            self.forget_stale();
        }
        if range.len() == 1 {
            let lane =
                self.lanes.iter_mut().find_map(|lane| lane.ready.remove(range.start).then_some(()));
            taken.extend(lane.map(|()| range));
            self.n_fresh -= u64::from(lane.is_some());
            return;
        }
        for lane in self.lanes.iter_mut().filter(|lane| !lane.ready.is_empty()) {
            self.n_fresh -= lane.ready.take_range(range, taken);
        }
    }

    fn forget_stale(&mut self) {
        if self.returned.is_empty() {
            self.order.clear();
        } else if self.order.len() > STALE_RUNS_MIN
            && self.order.len() as u64 > 2 * self.returned.len()
        {
            let live: Vec<u64> = self.returned().collect();
            self.order = live.into_iter().map(PositionRange::one).collect();
        }
    }

    /// Takes everything out; `taken` gets it.
    pub(super) fn clear(&mut self, taken: &mut Vec<PositionRange>) {
        taken.extend(self.returned.ranges());
        taken.extend(self.lanes.iter().flat_map(|lane| lane.ready.ranges()));
        *self = Self::default();
    }

    /// Messages that came back, in their order.
    pub(super) fn returned(&self) -> impl Iterator<Item = u64> + '_ {
        let positions = self.order.iter().flat_map(|range| range.start..range.end);
        positions.filter(|position| self.returned.contains(*position))
    }

    /// Messages that never came back, by priority, the highest first.
    pub(super) fn fresh(&self) -> impl Iterator<Item = (u8, &PositionSet)> + '_ {
        let lanes = self.lanes.iter().filter(|lane| !lane.ready.is_empty());
        lanes.map(|lane| (lane.priority, &lane.ready))
    }

    /// Messages that came back, by position.
    pub(super) const fn returned_set(&self) -> &PositionSet {
        &self.returned
    }

    /// All of them, in no particular order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = PositionRange> + '_ {
        self.returned.ranges().chain(self.lanes.iter().flat_map(|lane| lane.ready.ranges()))
    }
}
