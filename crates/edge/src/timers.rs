//! A connection's timers: heartbeats, time-outs, giving back memory.

use crate::{MISSED_HEARTBEATS, Tick};
use stdx::{MonotonicMs, Now};

/// Milliseconds without traffic after which buffers are given back.
const IDLE_AFTER_MS: u64 = 1_000;

/// The heartbeats sent, if nothing else is, in each heartbeat interval of the client: some clients give up
/// after a single interval of silence, so that one at half of it must not be missed by being late.
const CHECKS_PER_INTERVAL: u64 = 4;

/// The part of an outbox that is a matter of time.
pub trait TimedOutbox {
    /// Puts a heartbeat in, unless something else goes out or has since the check that found `n_put_before`.
    fn heartbeat(&self, n_put_before: u64) -> HeartbeatCheck;

    /// Gives back memory that is not in use.
    fn trim(&self);
}

/// The findings of a look at whether a client was sent something.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatCheck {
    /// The bytes ever put into the outbox, with the heartbeat's own.
    pub n_put: u64,
    /// Whether nothing was sent, so that a heartbeat is.
    pub is_silent: bool,
}

/// The times of one connection.
#[derive(Debug)]
pub struct Timers {
    handshake_until_ms: Option<MonotonicMs>,
    close_until_ms: Option<MonotonicMs>,
    /// The time when a refusal is told.
    refusal_at_ms: Option<MonotonicMs>,
    /// The silence of the client that is borne; 0 for any.
    silence_max_ms: u64,
    /// The time between looks at whether the client was sent anything; 0 for never.
    check_every_ms: u64,
    heard_ms: MonotonicMs,
    /// Whether the client is not listened to, so that its silence says nothing.
    deaf: bool,
    check_sent_at_ms: MonotonicMs,
    n_put_before: u64,
    idle_at_ms: Option<MonotonicMs>,
}

impl Timers {
    /// Creates the times of a connection that was accepted now.
    #[must_use]
    pub const fn new(now: Now, handshake_timeout_ms: u64) -> Self {
        Self {
            handshake_until_ms: Some(now.monotonic_ms.plus(handshake_timeout_ms)),
            close_until_ms: None,
            refusal_at_ms: None,
            silence_max_ms: 0,
            check_every_ms: 0,
            heard_ms: now.monotonic_ms,
            deaf: false,
            check_sent_at_ms: now.monotonic_ms,
            n_put_before: 0,
            idle_at_ms: None,
        }
    }

    /// The client was heard.
    pub const fn heard(&mut self, now: Now) {
        self.heard_ms = now.monotonic_ms;
        self.active(now);
    }

    /// Something was heard or written.
    pub const fn active(&mut self, now: Now) {
        self.idle_at_ms = Some(now.monotonic_ms.plus(IDLE_AFTER_MS));
    }

    /// The client is listened to from now on, or not: then it is not taken for dead.
    pub const fn set_reading(&mut self, now: Now, reading: bool) {
        if self.deaf == reading {
            self.deaf = !reading;
            self.heard_ms = now.monotonic_ms;
        }
    }

    /// Heartbeats go both ways from now on, unless the interval is 0. COMPAT: RabbitMQ looks once per
    /// interval and gives up after two to three silent ones.
    pub fn heartbeats(&mut self, now: Now, interval_s: u16) {
        let interval_ms = u64::from(interval_s) * 1000;
        self.bear_silence(now, interval_ms * 5 / 2, interval_ms / CHECKS_PER_INTERVAL);
    }

    /// From now on the client's silence is borne for `max_ms`, and the client is sent something if nothing
    /// was sent between two looks: `check_every_ms` apart, and twice that after a heartbeat. 0 is for
    /// ever.
    pub const fn bear_silence(&mut self, now: Now, max_ms: u64, check_every_ms: u64) {
        self.silence_max_ms = max_ms;
        self.check_every_ms = check_every_ms;
        self.check_sent_at_ms = now.monotonic_ms.plus(check_every_ms);
    }

    /// The client has opened a virtual host in time.
    pub const fn handshake_is_done(&mut self) {
        self.handshake_until_ms = None;
    }

    /// A close was said: its answer is awaited for so long.
    pub const fn closing(&mut self, now: Now, timeout_ms: u64) {
        self.handshake_until_ms = None;
        self.bear_silence(now, 0, 0);
        let until = now.monotonic_ms.plus(timeout_ms);
        match self.close_until_ms {
            Some(earlier) if earlier.get() <= until.get() => {}
            Some(_) | None => self.close_until_ms = Some(until),
        }
    }

    /// The client is refused, and told so in a while: until then its silence says nothing.
    pub const fn refused(&mut self, now: Now, delay_ms: u64) {
        self.handshake_until_ms = None;
        self.bear_silence(now, 0, 0);
        self.refusal_at_ms = Some(now.monotonic_ms.plus(delay_ms));
    }

    /// Whether a refusal is to be said now.
    pub fn takes_refusal(&mut self, now: Now) -> bool {
        self.refusal_at_ms.take_if(|at| *at <= now.monotonic_ms).is_some()
    }

    /// Whether the client was silent for too long; no silence counts from then on.
    pub fn takes_silence(&mut self, now: Now) -> bool {
        let is_silent = self.dead_at_ms().is_some_and(|at| at <= now.monotonic_ms);
        if is_silent {
            self.silence_max_ms = 0;
        }
        is_silent
    }

    /// Does what is due by now; says when to ask again at the latest.
    pub fn tick(&mut self, now: Now, outbox: &impl TimedOutbox) -> Tick {
        let now_ms = now.monotonic_ms;
        if self.handshake_until_ms.is_some_and(|until| until <= now_ms) {
            return Tick::Dead("handshake timeout");
        }
        if self.close_until_ms.is_some_and(|until| until <= now_ms) {
            return Tick::Dead("no answer to the close");
        }
        if self.dead_at_ms().is_some_and(|at| at <= now_ms) {
            return Tick::Dead(MISSED_HEARTBEATS);
        }
        if self.check_every_ms > 0 && self.check_sent_at_ms <= now_ms {
            let check = outbox.heartbeat(self.n_put_before);
            self.n_put_before = check.n_put;
            // Of a client that was just sent a heartbeat the time is known: every other look is spared.
            let n_intervals = if check.is_silent { 2 } else { 1 };
            self.check_sent_at_ms = now_ms.plus(self.check_every_ms * n_intervals);
        }
        let idle = self.idle_at_ms.is_some_and(|at| at <= now_ms);
        if idle {
            self.idle_at_ms = None;
            outbox.trim();
        }
        let next = [
            self.handshake_until_ms,
            self.close_until_ms,
            self.refusal_at_ms,
            self.dead_at_ms(),
            (self.check_every_ms > 0).then_some(self.check_sent_at_ms),
            self.idle_at_ms,
        ];
        let next = next.into_iter().flatten().min();
        if idle { Tick::Idle(next) } else { Tick::Next(next) }
    }

    const fn dead_at_ms(&self) -> Option<MonotonicMs> {
        if self.silence_max_ms == 0 || self.deaf {
            return None;
        }
        Some(self.heard_ms.plus(self.silence_max_ms))
    }
}
