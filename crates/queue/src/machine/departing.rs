//! Messages on their way to where dead letters go, in the order they left.

use super::effects::Departing;
use crate::positions::PositionRange;
use crate::queue_policy::Reason;
use std::collections::BTreeMap;

/// The messages that depart: numbered in the order they left, and kept as runs.
#[derive(Clone, Debug, Default)]
pub(super) struct DepartingMessages {
    /// By the number of the first of a run.
    runs: BTreeMap<u64, (PositionRange, Reason)>,
    next_number: u64,
    n_messages: u64,
}

impl DepartingMessages {
    pub(super) const fn len(&self) -> u64 {
        self.n_messages
    }

    /// Messages leave; the number of the first.
    pub(super) fn push(&mut self, positions: PositionRange, reason: Reason) -> u64 {
        assert!(!positions.is_empty(), "a run has messages");
        let number = self.next_number;
        self.runs.insert(number, (positions, reason));
        self.next_number += positions.len();
        self.n_messages += positions.len();
        number
    }

    /// Takes messages out whose numbers lie in `start..end`; of those that are there, the first run.
    pub(super) fn take_first(&mut self, start: u64, end: u64) -> Option<PositionRange> {
        if start >= end {
            return None;
        }
        let covers = |(first, (positions, _)): &(&u64, &(PositionRange, Reason))| {
            *first + positions.len() > start
        };
        let before = self.runs.range(..=start).next_back().filter(covers);
        let (&first, &(positions, reason)) =
            before.or_else(|| self.runs.range(start..).next()).filter(|run| *run.0 < end)?;
        self.runs.remove(&first);
        let from = positions.start + start.saturating_sub(first);
        let to = positions.end.min(positions.start.saturating_add(end - first));
        if positions.start < from {
            let rest = PositionRange { start: positions.start, end: from };
            self.runs.insert(first, (rest, reason));
        }
        if to < positions.end {
            let rest = PositionRange { start: to, end: positions.end };
            self.runs.insert(first + (to - positions.start), (rest, reason));
        }
        assert!(from < to && self.n_messages >= to - from, "what departs is counted");
        self.n_messages -= to - from;
        Some(PositionRange { start: from, end: to })
    }

    /// Takes all of them out.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = PositionRange> + use<> {
        self.n_messages = 0;
        std::mem::take(&mut self.runs).into_values().map(|(positions, _)| positions)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = Departing> + '_ {
        self.runs.iter().map(|(&first_number, &(positions, reason))| Departing {
            first_number,
            positions,
            reason,
        })
    }

    pub(super) const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Messages as they were: the first of `positions` had `number`, which is not below those before.
    pub(super) fn restore(&mut self, number: u64, positions: PositionRange, reason: Reason) {
        self.next_number = number;
        self.push(positions, reason);
    }

    /// The next messages get numbers from this on.
    pub(super) const fn restore_next(&mut self, number: u64) {
        self.next_number = number;
    }
}
