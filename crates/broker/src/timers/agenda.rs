//! Which queue is to be called when. By the time of day for messages that expire or wait, by time that passes
//! for queues that nobody uses: one order of both would be wrong after the time of day was set.

use meta::QueueId;
use queue_type::{AlarmTimes, RuledQueue};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use stdx::{TimeScale, WallClock};

/// The alarms of all queues: of each one on each scale at most.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    unix: Alarms,
    monotonic: Alarms,
}

type Alarms = BTreeMap<(u64, QueueId), Weak<dyn RuledQueue>>;

impl Agenda {
    /// Moves a queue's alarm; true if it is the first one of its scale now.
    pub(super) fn set(
        &mut self,
        queue: Weak<dyn RuledQueue>,
        id: QueueId,
        scale: TimeScale,
        times: AlarmTimes,
    ) -> bool {
        let alarms = self.on(scale);
        if let Some(before_ms) = times.before_ms {
            alarms.remove(&(before_ms, id));
        }
        let Some(at_ms) = times.at_ms else { return false };
        let is_first = alarms.first_key_value().is_none_or(|(first, _)| at_ms < first.0);
        alarms.insert((at_ms, id), queue);
        is_first
    }

    /// A queue whose alarm is due, and on which scale. The alarm is gone then.
    pub(super) fn next_due(
        &mut self,
        time: &WallClock,
    ) -> Option<(Arc<dyn RuledQueue>, TimeScale)> {
        let scales = [TimeScale::Monotonic, TimeScale::Unix];
        scales.into_iter().find_map(|scale| Some((self.next_due_on(scale, time)?, scale)))
    }

    fn next_due_on(&mut self, scale: TimeScale, time: &WallClock) -> Option<Arc<dyn RuledQueue>> {
        let alarms = self.on(scale);
        if alarms.is_empty() {
            return None;
        }
        let now_ms = time.on(scale);
        loop {
            let first = alarms.first_entry()?;
            let (at_ms, QueueId(_)) = *first.key();
            if at_ms > now_ms {
                return None;
            }
            if let Some(queue) = first.remove().upgrade() {
                return Some(queue);
            }
        }
    }

    /// How long to wait for the first alarm; `None` for until the next tick, or for ever.
    pub(super) fn time_until_first(&self, time: &WallClock) -> Option<Duration> {
        let until = |scale, alarms: &Alarms| {
            let ((at_ms, _), _) = alarms.first_key_value()?;
            time.time_until(scale, *at_ms)
        };
        let unix = until(TimeScale::Unix, &self.unix);
        unix.into_iter().chain(until(TimeScale::Monotonic, &self.monotonic)).min()
    }

    const fn on(&mut self, scale: TimeScale) -> &mut Alarms {
        match scale {
            TimeScale::Unix => &mut self.unix,
            TimeScale::Monotonic => &mut self.monotonic,
        }
    }
}
