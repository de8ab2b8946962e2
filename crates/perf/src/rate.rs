//! Rates, also changing ones, and processing times: the times at which messages are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::SECOND;

/// A value that changes over time: steps of a value and how long it holds, over and over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    /// Value and length in nanoseconds; never empty, no length is 0.
    steps: Vec<(f64, u64)>,
}

impl Schedule {
    /// Always the same.
    pub(crate) fn constant(value: f64) -> Self {
        Self { steps: vec![(value, u64::MAX)] }
    }

    /// Steps of value and seconds; `None` without steps or with an empty one.
    pub(crate) fn of(steps: &[(u32, u32)]) -> Option<Self> {
        let steps: Vec<(f64, u64)> =
            steps.iter().map(|&(value, s)| (f64::from(value), u64::from(s) * SECOND)).collect();
        let is_sound = !steps.is_empty() && steps.iter().all(|&(_, length)| length > 0);
        is_sound.then_some(Self { steps })
    }

    /// The value `elapsed` nanoseconds after the start, and when (after the start) it ends.
    pub(crate) fn at(&self, elapsed: u64) -> (f64, u64) {
        let round = self.steps.iter().fold(0_u64, |sum, &(_, length)| sum.saturating_add(length));
        let mut end = elapsed - elapsed.checked_rem(round).unwrap_or_default();
        for &(value, length) in &self.steps {
            end = end.saturating_add(length);
            if elapsed < end {
                return (value, end);
            }
        }
        (self.steps.last().map_or(0.0, |&(value, _)| value), u64::MAX)
    }

    /// The same steps with other values.
    pub(crate) fn map(mut self, change: impl Fn(f64) -> f64) -> Self {
        self.steps.iter_mut().for_each(|(value, _)| *value = change(*value));
        self
    }

    /// The largest value of all.
    pub(crate) fn max(&self) -> f64 {
        self.steps.iter().fold(0.0, |max, &(value, _)| max.max(value))
    }
}

/// Spaces messages evenly at a rate. Falling behind does not move the times that follow: those are
/// the times latencies are measured from, so that a broker that stalls does not hide its stall.
#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    /// Messages per second.
    rate: Schedule,
    /// Nanoseconds after the start; a float, because a message's share of a second is no integer.
    next: f64,
}

impl RateLimiter {
    /// The first message is due `offset` nanoseconds after the start.
    pub(crate) fn new(rate: Schedule, offset: u64) -> Self {
        let mut limiter = Self { rate, next: from_ns(offset) };
        limiter.skip_pauses();
        limiter
    }

    /// The time at which the next message is due, nanoseconds after the start.
    pub(crate) fn next(&self) -> u64 {
        ns(self.next)
    }

    /// Counts one message as sent; gives back when it was due.
    pub(crate) fn take(&mut self) -> u64 {
        let due = self.next();
        let (rate, _) = self.rate.at(due);
        self.next += 1e9 / rate;
        self.skip_pauses();
        due
    }

    /// A rate of 0 is a pause until the next step.
    fn skip_pauses(&mut self) {
        for _ in 0..=self.rate.steps.len() {
            let (rate, end) = self.rate.at(self.next());
            if rate > 0.0 {
                return;
            }
            self.next = from_ns(end);
        }
    }
}

/// Rounded; what does not fit is cut.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
fn ns(ns: f64) -> u64 {
    ns.round() as u64
}

fn from_ns(ns: u64) -> f64 {
    ns as f64
}

/// Lets consumers handle messages no faster than they are meant to. Clones are the same gate: what one
/// lets pass closes all.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// Nanoseconds per message.
    hold: Schedule,
    /// The time at which the next message may be handled, nanoseconds after the start. Consumers of one
    /// gate are on one thread, so that nothing has to be ordered.
    open_at: Arc<AtomicU64>,
}

impl Gate {
    /// Open at the start.
    pub(crate) fn new(hold: Schedule) -> Self {
        Self { hold, open_at: Arc::default() }
    }

    /// The time at which the next message may be handled.
    pub(crate) fn open_at(&self) -> u64 {
        self.open_at.load(Ordering::Relaxed)
    }

    /// A message is handled at `elapsed`. Time lost to timers is made up for, up to a millisecond.
    pub(crate) fn pass(&self, elapsed: u64) {
        let (hold, _) = self.hold.at(elapsed);
        let earliest = elapsed.saturating_sub(crate::clock::MILLISECOND);
        let open_at = self.open_at().max(earliest).saturating_add(ns(hold));
        self.open_at.store(open_at, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_spaced_evenly_without_drift() {
        let mut limiter = RateLimiter::new(Schedule::constant(3.0), 0);
        let due: Vec<u64> = (0..7).map(|_| limiter.take()).collect();
        assert_eq!(due[0], 0);
        assert_eq!(due[3], SECOND);
        assert_eq!(due[6], 2 * SECOND);
        assert_eq!(limiter.next(), 7 * SECOND / 3);
    }

    #[test]
    fn a_late_message_does_not_move_those_after_it() {
        let mut limiter = RateLimiter::new(Schedule::constant(1000.0), 500);
        assert_eq!(limiter.take(), 500);
        // Nothing depends on when take is called: due times are those of the rate alone.
        assert_eq!(limiter.take(), 1_000_500);
        assert_eq!(limiter.next(), 2_000_500);
    }

    #[test]
    fn a_rate_that_changes_and_pauses() {
        let schedule = Schedule::of(&[(2, 1), (0, 3)]).unwrap();
        assert_eq!(schedule.at(0), (2.0, SECOND));
        assert_eq!(schedule.at(SECOND), (0.0, 4 * SECOND));
        assert_eq!(schedule.at(4 * SECOND), (2.0, 5 * SECOND));
        let mut limiter = RateLimiter::new(schedule, 0);
        let due: Vec<u64> = (0..5).map(|_| limiter.take() / 1_000_000).collect();
        assert_eq!(due, [0, 500, 4000, 4500, 8000]);
        assert_eq!(Schedule::of(&[]), None);
        assert_eq!(Schedule::of(&[(1, 0)]), None);
        assert_eq!(Schedule::constant(4.0).at(u64::MAX), (4.0, u64::MAX));
    }

    #[test]
    fn a_gate_holds_each_message_and_catches_up_a_little() {
        let gate = Gate::new(Schedule::constant(10_000_000.0));
        assert_eq!(gate.open_at(), 0);
        gate.pass(0);
        assert_eq!(gate.open_at(), 10_000_000);
        gate.pass(10_000_100);
        assert_eq!(gate.open_at(), 20_000_000);
        gate.pass(90_000_000);
        assert_eq!(gate.open_at(), 99_000_000);
    }
}
