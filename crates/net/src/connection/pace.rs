//! The pace of a connection: whether it moves, and whom it waits for.

use crate::activity::ONLY_CLIENT_AFTER_MS;
use stdx::{MonotonicMs, Now};

/// A publisher that is ahead of its consumers is not read for this many milliseconds at a time.
const AHEAD_MS: u64 = 1;
/// A client that takes none of its many answers for this many milliseconds is dropped.
const STUCK_MAX_MS: u64 = 5 * 60 * 1000;

/// Times, in monotonic milliseconds, up to which a connection does without something.
#[derive(Debug)]
pub(super) struct Pace {
    /// Time of the last write, or of the last moment with nothing to write.
    moved_ms: MonotonicMs,
    /// The time until which the client's acknowledgements are of messages that another client published just
    /// before.
    answers_until_ms: MonotonicMs,
    /// The time until which others have their turn: the client publishes faster than consumers take.
    slowed_until_ms: Option<MonotonicMs>,
    /// Whether memory was given back, and nothing was written since.
    is_idle: bool,
}

impl Pace {
    pub(super) const fn new(now: Now) -> Self {
        Self {
            moved_ms: now.monotonic_ms,
            answers_until_ms: now.monotonic_ms,
            slowed_until_ms: None,
            is_idle: true,
        }
    }

    /// Slows the client down, which publishes faster than consumers take.
    pub(super) const fn slow_down(&mut self, now: Now) {
        self.slowed_until_ms = Some(now.monotonic_ms.plus(AHEAD_MS));
    }

    /// The time until which the client is slowed down; `None` when it is over.
    pub(super) fn slowed_until_ms(&mut self, now: impl FnOnce() -> Now) -> Option<MonotonicMs> {
        if self.slowed_until_ms.is_some_and(|until| until <= now().monotonic_ms) {
            self.slowed_until_ms = None;
        }
        self.slowed_until_ms
    }

    /// The time at which a client is dropped that takes none of its answers from now on.
    pub(super) const fn stuck_until_ms(&mut self, now: Now, is_stuck: bool) -> MonotonicMs {
        if !is_stuck {
            self.moved_ms = now.monotonic_ms;
        }
        self.moved_ms.plus(STUCK_MAX_MS)
    }

    /// Notes that the client was just given something by another's doing.
    pub(super) const fn was_given(&mut self, now: Now) {
        self.answers_until_ms = now.monotonic_ms.plus(ONLY_CLIENT_AFTER_MS);
    }

    /// Whether acknowledgements that came now are answers to that.
    pub(super) fn answers(&self, now: Now) -> bool {
        now.monotonic_ms < self.answers_until_ms
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.is_idle
    }

    pub(super) const fn set_idle(&mut self, is_idle: bool) {
        self.is_idle = is_idle;
    }
}
