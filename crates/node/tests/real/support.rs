//! A node as a process, and a client that can say anything.

pub(crate) mod client;
pub(crate) mod node;
pub(crate) mod random;

use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until the condition holds; fails with `what` when it never does.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "in vain waited for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
