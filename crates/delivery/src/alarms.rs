//! Times when a queue has itself called. Never what is due then.

use content::QueueContext;
use queue_type::{AlarmChange, AlarmTimes, RuledQueue};
use std::sync::Weak;
use stdx::{MonotonicMs, TimeScale, UnixMs};

/// The alarms of one queue, as the thread of rules has them.
#[derive(Debug, Default)]
pub struct QueueAlarms {
    /// For messages.
    unix_ms: Option<UnixMs>,
    /// For a queue that nobody uses, and publishes that wait for consumers.
    monotonic_ms: Option<MonotonicMs>,
}

/// A queue that has itself called.
#[derive(Debug)]
pub struct AlarmOwner<'a, Q> {
    /// The queue, to be called.
    pub me: &'a Weak<Q>,
    /// Its id and its host.
    pub context: &'a QueueContext,
}

impl<Q: RuledQueue + 'static> AlarmOwner<'_, Q> {
    fn set(&self, change: AlarmChange) {
        let queue = Weak::<Q>::clone(self.me);
        self.context.services.host.set_alarm(queue, self.context.id(), change);
    }
}

impl QueueAlarms {
    /// Has the queue called at this time of day at the latest. An alarm that comes too early finds nothing to
    /// do, and costs less than moving it each time.
    pub fn set_unix<Q: RuledQueue + 'static>(
        &mut self,
        queue: &AlarmOwner<'_, Q>,
        at: Option<UnixMs>,
    ) {
        if let Some(times) = sooner(&mut self.unix_ms, at) {
            queue.set(AlarmChange::Unix(times));
        }
    }

    /// Has the queue called at this time of the node's own clock at the latest.
    pub fn set_monotonic<Q: RuledQueue + 'static>(
        &mut self,
        queue: &AlarmOwner<'_, Q>,
        at: Option<MonotonicMs>,
    ) {
        if let Some(times) = sooner(&mut self.monotonic_ms, at) {
            queue.set(AlarmChange::Monotonic(times));
        }
    }

    /// Notes that the alarm on this scale has come.
    pub const fn note_come(&mut self, scale: TimeScale) {
        match scale {
            TimeScale::Unix => self.unix_ms = None,
            TimeScale::Monotonic => self.monotonic_ms = None,
        }
    }

    /// Takes them back.
    pub fn clear<Q: RuledQueue + 'static>(&mut self, queue: &AlarmOwner<'_, Q>) {
        if let before @ Some(_) = self.unix_ms.take() {
            queue.set(AlarmChange::Unix(AlarmTimes { before, at: None }));
        }
        if let before @ Some(_) = self.monotonic_ms.take() {
            queue.set(AlarmChange::Monotonic(AlarmTimes { before, at: None }));
        }
    }
}

/// Moves an alarm to `at` if that is before it, or there is none.
fn sooner<T: Copy + Ord>(alarm: &mut Option<T>, at: Option<T>) -> Option<AlarmTimes<T>> {
    let is_sooner = at.is_some_and(|at| alarm.is_none_or(|alarm| at < alarm));
    is_sooner.then(|| AlarmTimes { before: std::mem::replace(alarm, at), at })
}
