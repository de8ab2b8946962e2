//! Which queue is to be called when. By the time of day for messages that expire or wait, by time that passes
//! for queues that nobody uses: one order of both would be wrong after the time of day was set.

use meta::QueueId;
use queue_type::{AlarmChange, AlarmTimes, RuledQueue};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stdx::{MonotonicMs, TimeScale, UnixMs, WallClock};

/// The alarms of all queues: of each one on each scale at most.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    unix: Alarms<UnixMs>,
    monotonic: Alarms<MonotonicMs>,
}

impl Agenda {
    /// Moves a queue's alarm; true if it is the first one of its scale now.
    pub(super) fn set(
        &mut self,
        queue: Weak<dyn RuledQueue>,
        id: QueueId,
        change: AlarmChange,
    ) -> bool {
        match change {
            AlarmChange::Unix(times) => self.unix.set(queue, id, times),
            AlarmChange::Monotonic(times) => self.monotonic.set(queue, id, times),
        }
    }

    /// A queue whose alarm is due, and on which scale. The alarm is gone then.
    pub(super) fn next_due(
        &mut self,
        time: &WallClock,
    ) -> Option<(Arc<dyn RuledQueue>, TimeScale)> {
        let of_monotonic = self.monotonic.take_due(|| time.monotonic_ms());
        let due = of_monotonic.map(|queue| (queue, TimeScale::Monotonic));
        due.or_else(|| Some((self.unix.take_due(|| time.unix_ms())?, TimeScale::Unix)))
    }

    /// How long to wait for the first alarm; `None` for until the next tick, or for ever.
    pub(super) fn time_until_first(&self, time: &WallClock) -> Option<Duration> {
        let unix_ms = self.unix.first().map(|at| at.since(time.unix_ms()));
        let monotonic_ms = self.monotonic.first().map(|at| at.since(time.monotonic_ms()));
        time.wait(unix_ms.into_iter().chain(monotonic_ms).min()?)
    }
}

/// The alarms on one clock, by time.
#[derive(Debug)]
struct Alarms<T>(BTreeMap<(T, QueueId), Weak<dyn RuledQueue>>);

impl<T> Default for Alarms<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + Ord> Alarms<T> {
    fn first(&self) -> Option<T> {
        self.0.first_key_value().map(|((at, _), _)| *at)
    }

    fn set(&mut self, queue: Weak<dyn RuledQueue>, id: QueueId, times: AlarmTimes<T>) -> bool {
        if let Some(before) = times.before {
            self.0.remove(&(before, id));
        }
        let Some(at) = times.at else { return false };
        let is_first = self.first().is_none_or(|first| at < first);
        self.0.insert((at, id), queue);
        is_first
    }

    fn take_due(&mut self, now: impl FnOnce() -> T) -> Option<Arc<dyn RuledQueue>> {
        self.first()?;
        let now = now();
        loop {
            let first = self.0.first_entry().filter(|first| first.key().0 <= now)?;
            if let Some(queue) = first.remove().upgrade() {
                return Some(queue);
            }
        }
    }
}
