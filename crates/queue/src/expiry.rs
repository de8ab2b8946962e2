//! Times when messages expire: bounded for a time to live of the whole queue, a few bytes per message with
//! one of its own.

mod arbitrary;
mod monotonic;

use crate::positions::{PositionRange, PositionSet};
use crate::priorities::Priorities;
use arbitrary::Scattered;
use monotonic::Rising;
use stdx::UnixMs;

/// Deadlines of messages, wherever those stand.
///
/// A message that becomes due is taken out when it is ready. One that is away then is remembered (a
/// position each consumer holds, no more) and due at once when it comes back, as with RabbitMQ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    rising: Rising,
    scattered: Scattered,
    /// Away, and due.
    overdue: PositionSet,
    /// Came back when they were due.
    late: PositionSet,
}

impl Deadlines {
    /// Notes that `range`, above everything noted before, is due at `deadline_ms`.
    pub(crate) fn push(
        &mut self,
        range: PositionRange,
        deadline_ms: UnixMs,
        now_ms: UnixMs,
        lanes: &Priorities,
        n_live: u64,
    ) {
        self.rising.trim(lanes.lowest());
        if self.rising.push(range, deadline_ms) {
            return;
        }
        for position in range.start..range.end {
            self.scattered.push(position, deadline_ms, now_ms);
            if self.scattered.wants_sweep(n_live) {
                self.scattered.sweep(|at| lanes.is_ready(at) || lanes.is_away(at));
            }
        }
    }

    /// Time when a message may be due next; 0 for at once.
    pub(crate) fn next_ms(&self) -> Option<UnixMs> {
        if !self.late.is_empty() {
            return Some(UnixMs::default());
        }
        [self.rising.next_ms(), self.scattered.next_ms()].into_iter().flatten().min()
    }

    /// Takes ready messages that are due out of `lanes`, not many more than `limit`; `gone` gets
    /// them.
    pub(crate) fn expire(
        &mut self,
        now_ms: UnixMs,
        limit: u64,
        lanes: &mut Priorities,
        gone: &mut Vec<PositionRange>,
    ) {
        let n_ready = lanes.n_ready();
        let mut due = Vec::new();
        while n_ready - lanes.n_ready() < limit && self.take_due(now_ms, limit, &mut due) {
            for range in due.drain(..) {
                for position in lanes.away_in(range) {
                    self.overdue.insert(position);
                }
                lanes.take_ready(range, gone);
            }
        }
    }

    fn take_due(&mut self, now_ms: UnixMs, limit: u64, due: &mut Vec<PositionRange>) -> bool {
        if let Some(position) = self.late.pop_first() {
            due.push(PositionRange::one(position));
            return true;
        }
        // In the order they are due in, whichever part knows them.
        let scattered_ms = self.scattered.next_ms().unwrap_or(UnixMs::NEVER);
        self.rising.take_due(now_ms.min(scattered_ms), limit, due)
            || self.scattered.take_due(now_ms, limit, due)
    }

    /// Positions with when they are due, in that order; of some the messages are gone.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (UnixMs, u64)> + '_ {
        let late = self.late.ranges().flat_map(|range| range.start..range.end);
        let late = late.map(|at| (UnixMs::default(), at));
        let mut rising = self.rising.in_order().peekable();
        let mut scattered = self.scattered.in_order().peekable();
        let merged = std::iter::from_fn(move || match (rising.peek(), scattered.peek()) {
            (Some(one), Some(other)) if other.0 < one.0 => scattered.next(),
            (Some(_), _) => rising.next(),
            (None, _) => scattered.next(),
        });
        late.chain(merged)
    }

    /// A message that was away is ready again.
    pub(crate) fn come_back(&mut self, position: u64) {
        if !self.overdue.is_empty() && self.overdue.remove(position) {
            self.late.insert(position);
        }
    }

    /// A message that was away is gone.
    pub(crate) fn forget(&mut self, position: u64) {
        if !self.overdue.is_empty() {
            self.overdue.remove(position);
        }
    }
}

#[cfg(test)]
mod tests;
