//! The standings of messages at some positions, for browsing.

use crate::delivery_counts::DeliveryCounts;
use crate::messages::Messages;
use crate::positions::{PositionRange, PositionSet};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::UnixMs;

/// Runs of delayed messages that are searched; messages of later runs are delayed for an unknown time.
const DELAYED_RUNS_MAX: usize = 100_000;

/// The state of a message in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A consumer could get it now.
    Ready,
    /// A consumer holds it.
    Held,
    /// The message waits to be tried again, until this time if that is known.
    Delayed(Option<UnixMs>),
    /// The message is gone, but for its dead letter.
    Departing,
}

/// The standings of the messages at some positions. Positions without a message are not told apart: whoever
/// has the messages' content knows them.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    ready: Vec<PositionRange>,
    redelivered: Vec<PositionRange>,
    delayed: Vec<(PositionRange, Option<UnixMs>)>,
    departing: Vec<PositionRange>,
    counts: BTreeMap<u64, DeliveryCounts>,
}

impl Standings {
    /// Standings of the messages at `positions`, some of which are `held` or `departing`.
    #[must_use]
    pub fn of(
        messages: &Messages,
        positions: &Range<u64>,
        held: impl Iterator<Item = u64>,
        departing: impl Iterator<Item = PositionRange>,
    ) -> Self {
        let ready = messages.ready_by_priority().map(|(_, ready)| ready);
        let mut standings = Self::begin(positions, ready, departing);
        standings.redelivered = Self::within(positions, messages.redelivered());
        let Some(policy) = messages.policy() else { return standings };
        standings.note_delayed(positions, policy.delayed().iter());
        let returned = standings.redelivered.iter().flat_map(|range| range.start..range.end);
        let held = held.filter(|position| positions.contains(position));
        let counts = returned.chain(held).map(|at| (at, policy.returns().of(at)));
        standings.counts = counts.filter(|(_, it)| *it != DeliveryCounts::default()).collect();
        standings
    }

    pub(crate) fn begin<'s>(
        positions: &Range<u64>,
        ready: impl Iterator<Item = &'s PositionSet>,
        departing: impl Iterator<Item = PositionRange>,
    ) -> Self {
        let mut ready: Vec<_> = ready.flat_map(|ready| Self::within(positions, ready)).collect();
        ready.sort_unstable_by_key(|range| range.start);
        let mut departing: Vec<_> = departing.filter_map(|it| clipped(positions, it)).collect();
        departing.sort_unstable_by_key(|range| range.start);
        Self { ready, departing, ..Self::default() }
    }

    pub(crate) fn note_redelivered(&mut self, positions: &Range<u64>, redelivered: &PositionSet) {
        self.redelivered = Self::within(positions, redelivered);
    }

    pub(crate) fn note_counts(&mut self, counts: impl Iterator<Item = (u64, DeliveryCounts)>) {
        self.counts.extend(counts.filter(|(_, counts)| *counts != DeliveryCounts::default()));
    }

    pub(crate) fn note_delayed(
        &mut self,
        positions: &Range<u64>,
        delayed: impl Iterator<Item = (UnixMs, PositionRange)>,
    ) {
        let within = |(due_ms, range)| Some((clipped(positions, range)?, Some(due_ms)));
        self.delayed = delayed.take(DELAYED_RUNS_MAX).filter_map(within).collect();
        self.delayed.sort_unstable_by_key(|(range, _)| range.start);
    }

    /// The part of a set that is at `positions`.
    pub(crate) fn within(positions: &Range<u64>, set: &PositionSet) -> Vec<PositionRange> {
        let runs = set.ranges_from(positions.start).take_while(|range| range.start < positions.end);
        runs.filter_map(|range| clipped(positions, range)).collect()
    }

    /// Standing of the message at a position, which has one.
    #[must_use]
    pub fn at(&self, position: u64) -> Standing {
        if find(&self.ready, position, |range| *range).is_some() {
            Standing::Ready
        } else if let Some((_, due_ms)) = find(&self.delayed, position, |(range, _)| *range) {
            Standing::Delayed(*due_ms)
        } else if find(&self.departing, position, |range| *range).is_some() {
            Standing::Departing
        } else {
            Standing::Held
        }
    }

    /// Whether a consumer had it before, of a message that nobody holds.
    pub fn is_redelivered(&self, position: u64) -> bool {
        find(&self.redelivered, position, |range| *range).is_some()
    }

    /// Counts of how often a message came back, as far as that is counted.
    #[must_use]
    pub fn counts(&self, position: u64) -> DeliveryCounts {
        self.counts.get(&position).copied().unwrap_or_default()
    }
}

fn find<T>(sorted: &[T], position: u64, range: impl Fn(&T) -> PositionRange) -> Option<&T> {
    let at = sorted.partition_point(|one| range(one).end <= position);
    sorted.get(at).filter(|one| range(one).contains(position))
}

fn clipped(positions: &Range<u64>, range: PositionRange) -> Option<PositionRange> {
    let (start, end) = (range.start.max(positions.start), range.end.min(positions.end));
    (start < end).then_some(PositionRange { start, end })
}
