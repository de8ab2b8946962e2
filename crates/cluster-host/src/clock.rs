//! The time and the chance that a host is given.

use stdx::Now;

/// The time and the chance that a host has.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    /// Returns the time.
    pub now: fn() -> Now,
    /// Returns a random number.
    pub random: fn() -> u64,
}
