//! The share of the processor that a long look takes: all of one core while nobody else needs it, a tenth of
//! one beside clients.

use rustix::time::{ClockId, clock_gettime};
use std::thread::park_timeout;
use std::time::Duration;

/// Time that a look works before it checks whether others need the processor.
const WORK: Duration = Duration::from_millis(5);
/// Others are at work if they take more than this part of a core.
const OTHERS_PART: f64 = 0.1;
/// Rest after work, in parts of it.
const REST_PARTS: u32 = 9;

/// The share of the processor that one look takes.
pub(super) struct Pace(Times);

/// Times so far: since something, of this thread, and of all the others.
#[derive(Clone, Copy)]
struct Times {
    passed: Duration,
    others: Duration,
}

impl Times {
    fn now() -> Self {
        let time = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
        let (all, own) = (time(ClockId::ProcessCPUTime), time(ClockId::ThreadCPUTime));
        Self { passed: time(ClockId::Monotonic), others: all.saturating_sub(own) }
    }
}

impl Pace {
    pub(super) fn new() -> Self {
        Self(Times::now())
    }

    /// Rests if it is time to, after a step.
    pub(super) fn rest(&mut self) {
        let now = Times::now();
        let work = now.passed.saturating_sub(self.0.passed);
        if work < WORK {
            return;
        }
        let others = now.others.saturating_sub(self.0.others);
        if others > work.mul_f64(OTHERS_PART) {
            park_timeout(work * REST_PARTS);
        }
        self.0 = Times::now();
    }
}
