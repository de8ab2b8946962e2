//! The time of day, where no connection's clock is at hand.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970 began; none on a clock that is set before it.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
