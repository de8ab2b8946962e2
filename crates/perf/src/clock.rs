//! The clocks: one that never goes back, shared by all processes of a machine; the wall's; and that
//! of what this process computes.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds per second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds per millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// Nanoseconds on the clock that never goes back.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    read(ClockId::Realtime) / MILLISECOND
}

/// Nanoseconds this process has computed: user and system time of all threads.
pub(crate) fn own_cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * SECOND + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Seconds as a number that may have a fraction, in nanoseconds; at least 0, at most a century.
#[expect(clippy::cast_possible_truncation, reason = "clamped before")]
pub(crate) fn from_seconds(seconds: f64) -> u64 {
    (seconds.clamp(0.0, 3.0e9) * 1e9) as u64
}
