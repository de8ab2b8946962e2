//! Times when a queue has itself called. Never what is due then.

use content::QueueContext;
use queue_type::{AlarmTimes, RuledQueue};
use std::sync::Weak;
use stdx::TimeScale;

/// The alarms of one queue, as the thread of rules has them.
#[derive(Debug, Default)]
pub struct QueueAlarms {
    /// For messages.
    unix_ms: Option<u64>,
    /// For a queue that nobody uses, and publishes that wait for consumers.
    monotonic_ms: Option<u64>,
}

impl QueueAlarms {
    /// Has the queue called at `at_ms` at the latest. An alarm that comes too early finds nothing to do, and
    /// costs less than moving it each time.
    pub fn set<Q: RuledQueue + 'static>(
        &mut self,
        (me, queue): (&Weak<Q>, &QueueContext),
        scale: TimeScale,
        at_ms: Option<u64>,
    ) {
        let set_ms = self.on(scale);
        if at_ms.is_some_and(|at_ms| set_ms.is_none_or(|set_ms| at_ms < set_ms)) {
            let times = AlarmTimes { before_ms: std::mem::replace(set_ms, at_ms), at_ms };
            queue.services.host.set_alarm(Weak::<Q>::clone(me), queue.id(), (scale, times));
        }
    }

    /// The alarm has come.
    pub const fn note_come(&mut self, scale: TimeScale) {
        *self.on(scale) = None;
    }

    /// Takes them back.
    pub fn clear<Q: RuledQueue + 'static>(&mut self, (me, queue): (&Weak<Q>, &QueueContext)) {
        for scale in [TimeScale::Unix, TimeScale::Monotonic] {
            let before_ms = self.on(scale).take();
            if before_ms.is_some() {
                let times = AlarmTimes { before_ms, at_ms: None };
                queue.services.host.set_alarm(Weak::<Q>::clone(me), queue.id(), (scale, times));
            }
        }
    }

    const fn on(&mut self, scale: TimeScale) -> &mut Option<u64> {
        match scale {
            TimeScale::Unix => &mut self.unix_ms,
            TimeScale::Monotonic => &mut self.monotonic_ms,
        }
    }
}
