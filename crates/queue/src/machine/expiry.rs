//! Times when messages expire, wherever they stand.

use crate::positions::{PositionRange, PositionSet};
use std::collections::{BTreeMap, VecDeque};
use stdx::UnixMs;

/// A deadline is rounded up by less than this part of the time to live.
const PRECISION: u64 = 4_096;
/// Runs that are never too many.
const RUNS_MIN: usize = 1_024;

/// Deadlines of messages. One that becomes due while a consumer holds it is remembered, and gone when it
/// comes back.
///
/// A deadline is rounded up by less than 1/4096 of the time to live, so that there are few of them; below
/// four seconds it is exact. Runs of messages that are gone stay until their deadline, or until most are
/// such.
#[derive(Clone, Debug, Default)]
pub(super) struct Expiry {
    /// By deadline, and in the order they came within one; none is empty.
    pub(super) buckets: BTreeMap<UnixMs, VecDeque<PositionRange>>,
    n_runs: usize,
    /// Held, and due.
    pub(super) overdue: PositionSet,
}

impl Expiry {
    /// The message at `position`, above all others, expires after `ttl_ms`.
    pub(super) fn push(&mut self, position: u64, now_ms: UnixMs, ttl_ms: u64) {
        let step_ms = ((ttl_ms / PRECISION + 1).next_power_of_two() / 2).max(1);
        self.push_run(now_ms.plus(ttl_ms).round_up(step_ms), PositionRange::one(position));
    }

    /// Adds a run at the end of its bucket.
    pub(super) fn push_run(&mut self, due_ms: UnixMs, run: PositionRange) {
        debug_assert!(!run.is_empty(), "a run has messages");
        let bucket = self.buckets.entry(due_ms).or_default();
        match bucket.back_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            Some(_) | None => {
                bucket.push_back(run);
                self.n_runs += 1;
            }
        }
    }

    /// Time when a message may be due next.
    pub(super) fn next_ms(&self) -> Option<UnixMs> {
        self.buckets.first_key_value().map(|(due_ms, _)| *due_ms)
    }

    /// A message that was held is gone, or back; whether it was due.
    #[inline]
    pub(super) fn forget(&mut self, position: u64) -> bool {
        !self.overdue.is_empty() && self.overdue.remove(position)
    }

    /// The next messages that are due, at most `n_max` of them; of some that are gone, too.
    pub(super) fn pop_due(&mut self, now_ms: UnixMs, n_max: u64) -> Option<PositionRange> {
        let mut bucket = self.buckets.first_entry().filter(|bucket| *bucket.key() <= now_ms)?;
        let first = bucket.get_mut().front_mut()?;
        let due = PositionRange {
            start: first.start,
            end: first.end.min(first.start.saturating_add(n_max)),
        };
        first.start = due.end;
        if first.is_empty() {
            bucket.get_mut().pop_front();
            assert!(self.n_runs > 0, "a run in a bucket is counted");
            self.n_runs -= 1;
        }
        if bucket.get().is_empty() {
            bucket.remove();
        }
        Some(due)
    }

    /// Whether most runs are of messages that are gone, when `n_live` are not.
    pub(super) const fn wants_sweep(&self, n_live: u64) -> bool {
        self.n_runs > RUNS_MIN && self.n_runs as u64 / 2 > n_live
    }

    /// Forgets deadlines of messages that are not among `live`, which rise.
    pub(super) fn sweep(&mut self, live: &[PositionRange]) {
        for runs in self.buckets.values_mut() {
            *runs = runs.iter().flat_map(|run| intersection(*run, live)).collect();
        }
        self.buckets.retain(|_, runs| !runs.is_empty());
        self.n_runs = self.buckets.values().map(VecDeque::len).sum();
    }
}

/// The parts of `run` that lie in `live`, which rises.
fn intersection(
    run: PositionRange,
    live: &[PositionRange],
) -> impl Iterator<Item = PositionRange> + '_ {
    let from = live.partition_point(|range| range.end <= run.start);
    let near = live.iter().skip(from).take_while(move |range| range.start < run.end);
    near.map(move |range| PositionRange {
        start: range.start.max(run.start),
        end: range.end.min(run.end),
    })
}
