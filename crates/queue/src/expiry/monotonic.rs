use crate::positions::{PositionRange, PositionSet};
use std::collections::VecDeque;
use stdx::UnixMs;

/// Steps kept: 16 bytes each.
const STEPS_MAX: usize = 16_384;
/// Blocks of positions that no step speaks for: 64 bytes each.
const EXCEPTION_BLOCKS_MAX: u64 = 16_384;

/// Positions up to `end` are due at `due_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    end: u64,
    due_ms: UnixMs,
}

/// Deadlines that rise with positions, as those of a queue-wide time to live do: a step for every
/// millisecond that differs.
///
/// Exact up to 16,384 steps. Beyond that steps are merged, always to the later deadline, so that a
/// message is due late by less than 1/4096 of the time between the first and the last deadline, and
/// never early.
#[derive(Clone, Debug)]
pub(super) struct Rising {
    /// The first step's first position.
    start: u64,
    steps: VecDeque<Step>,
    /// The highest deadline as it was told.
    newest_ms: UnixMs,
    /// Deadlines are rounded up to a multiple of this power of two.
    resolution_ms: u64,
    /// Positions within steps that have another deadline or none.
    exceptions: PositionSet,
}

impl Default for Rising {
    fn default() -> Self {
        Self {
            start: 0,
            steps: VecDeque::new(),
            newest_ms: UnixMs::default(),
            resolution_ms: 1,
            exceptions: PositionSet::new(),
        }
    }
}

impl Rising {
    /// Notes that `range`, above everything noted before, is due at `deadline_ms`; false when that
    /// does not fit in here.
    #[inline]
    pub(super) fn push(&mut self, range: PositionRange, deadline_ms: UnixMs) -> bool {
        let Some(last) = self.steps.back().copied() else {
            *self = Self { start: range.start, newest_ms: deadline_ms, ..Self::default() };
            self.steps.push_back(Step { end: range.end, due_ms: deadline_ms });
            return true;
        };
        let mut due_ms = self.round_up(deadline_ms);
        if deadline_ms >= self.newest_ms {
            due_ms = due_ms.max(last.due_ms);
        }
        debug_assert!(range.start >= last.end, "positions rise");
        let gap = range.start - last.end;
        let n_blocks = self.exceptions.n_blocks() as u64 + gap / 256;
        if due_ms < last.due_ms || n_blocks > EXCEPTION_BLOCKS_MAX {
            return false;
        }
        self.exceptions.push_back(last.end, gap);
        self.newest_ms = self.newest_ms.max(deadline_ms);
        match self.steps.back_mut() {
            Some(last) if last.due_ms == due_ms => last.end = range.end,
            Some(_) | None => self.push_step(Step { end: range.end, due_ms }),
        }
        true
    }

    fn push_step(&mut self, step: Step) {
        self.steps.push_back(step);
        if self.steps.len() > STEPS_MAX {
            self.coarsen();
        } else if self.steps.len() < STEPS_MAX / 8 && self.resolution_ms > 1 {
            self.resolution_ms /= 2;
        }
    }

    /// Merges steps until half of the room is free.
    fn coarsen(&mut self) {
        while self.steps.len() > STEPS_MAX / 2 {
            self.resolution_ms *= 2;
            let mut merged: VecDeque<Step> = VecDeque::with_capacity(STEPS_MAX);
            for step in std::mem::take(&mut self.steps) {
                let due_ms = self.round_up(step.due_ms);
                match merged.back_mut() {
                    Some(last) if last.due_ms == due_ms => last.end = step.end,
                    Some(_) | None => merged.push_back(Step { end: step.end, due_ms }),
                }
            }
            self.steps = merged;
        }
    }

    fn round_up(&self, deadline_ms: UnixMs) -> UnixMs {
        deadline_ms.round_up(self.resolution_ms)
    }

    pub(super) fn next_ms(&self) -> Option<UnixMs> {
        self.steps.front().map(|step| step.due_ms)
    }

    /// Takes out at most `limit` positions that are due; `due` gets those that steps speak for.
    /// False when nothing is.
    #[inline]
    pub(super) fn take_due(
        &mut self,
        now_ms: UnixMs,
        limit: u64,
        due: &mut Vec<PositionRange>,
    ) -> bool {
        let Some(step) = self.steps.front().copied().filter(|step| step.due_ms <= now_ms) else {
            return false;
        };
        let range = PositionRange {
            start: self.start,
            end: step.end.min(self.start.saturating_add(limit)),
        };
        self.start = range.end;
        if range.end == step.end {
            self.steps.pop_front();
        }
        let mut exceptions = Vec::new();
        self.exceptions.take_range(range, &mut exceptions);
        let mut start = range.start;
        for exception in exceptions {
            due.extend(not_empty(start, exception.start));
            start = exception.end;
        }
        due.extend(not_empty(start, range.end));
        true
    }

    /// Forgets positions below `lowest`; all when there is none.
    #[inline]
    pub(super) fn trim(&mut self, lowest: Option<u64>) {
        let lowest = lowest.unwrap_or(u64::MAX);
        let before = self.start;
        while let Some(step) = self.steps.front().copied().filter(|step| step.end <= lowest) {
            self.start = step.end;
            self.steps.pop_front();
        }
        if self.start > before && !self.exceptions.is_empty() {
            let gone = PositionRange { start: before, end: self.start };
            self.exceptions.take_range(gone, &mut Vec::new());
        }
    }

    /// Positions with when they are due, in that order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (UnixMs, u64)> + '_ {
        let starts = std::iter::once(self.start).chain(self.steps.iter().map(|step| step.end));
        starts.zip(&self.steps).flat_map(move |(start, step)| {
            let spoken_for = move |at: &u64| !self.exceptions.contains(*at);
            (start..step.end).filter(spoken_for).map(move |at| (step.due_ms, at))
        })
    }

    #[cfg(test)]
    pub(super) fn n_steps(&self) -> usize {
        self.steps.len()
    }
}

fn not_empty(start: u64, end: u64) -> Option<PositionRange> {
    (start < end).then_some(PositionRange { start, end })
}
