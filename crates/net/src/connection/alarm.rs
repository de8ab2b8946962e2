//! The alarm clock of a connection.

use crate::clock::Clock;
use crate::server::Server;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use stdx::{MonotonicMs, Now};
use tokio::time::Sleep;

/// Milliseconds after which time is looked at again when nothing is due.
const FAR_MS: u64 = 24 * 3600 * 1000;

/// A time to wake up at, at the latest.
#[derive(Debug)]
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// Monotonic milliseconds.
    at_ms: MonotonicMs,
}

impl Alarm {
    /// Far away.
    pub(super) fn new(server: &Server, now: Now) -> Self {
        let at_ms = now.monotonic_ms.plus(FAR_MS);
        Self { sleep: Box::pin(server.timers.sleep_until(server.clock.instant(at_ms))), at_ms }
    }

    /// Something is due then, in monotonic milliseconds. An alarm that goes off too early is cheaper than
    /// setting it at every turn.
    pub(super) fn set(&mut self, clock: &Clock, now: Now, due_ms: MonotonicMs) {
        let has_gone_off = self.sleep.is_elapsed();
        if due_ms < self.at_ms || has_gone_off {
            self.at_ms = due_ms.min(now.monotonic_ms.plus(FAR_MS));
            self.sleep.as_mut().reset(clock.instant(self.at_ms));
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}
