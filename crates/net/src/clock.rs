//! The one place where connections read the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stdx::{MonotonicMs, Now, UnixMs};

/// Reads the monotonic clock; the time of day is taken once and follows it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_unix_ms: UnixMs,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_unix_ms: UnixMs::from_raw(millis(unix)) }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Now {
        let elapsed_ms = millis(self.start.elapsed());
        Now {
            monotonic_ms: MonotonicMs::from_raw(elapsed_ms),
            unix_ms: self.start_unix_ms.plus(elapsed_ms),
        }
    }

    /// The moment a monotonic time stands for.
    pub(crate) fn instant(&self, monotonic_ms: MonotonicMs) -> tokio::time::Instant {
        (self.start + Duration::from_millis(monotonic_ms.get())).into()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
