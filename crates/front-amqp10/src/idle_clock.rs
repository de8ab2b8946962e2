//! The times of a connection, in milliseconds: each side says how long it bears the other's silence.

use stdx::{MonotonicMs, Now};

/// Something that time brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedStep {
    /// The client is too slow: its socket is to be dropped.
    Dead(&'static str),
    /// A refusal is to be told now.
    TellRefusal,
    /// The client was silent for too long.
    ClientSilent,
    /// The client is to hear something.
    ShowLife,
}

/// The times of a connection.
#[derive(Debug)]
pub(crate) struct IdleClock {
    handshake_until_ms: Option<MonotonicMs>,
    close_until_ms: Option<MonotonicMs>,
    refusal_at_ms: Option<MonotonicMs>,
    /// The client's silence that is borne; `None` without end.
    silence_max_ms: Option<u64>,
    heard_ms: MonotonicMs,
    /// Whether the client is not listened to, so that its silence says nothing.
    is_deaf: bool,
    /// The longest silence of the server's own; `None` without end.
    own_silence_max_ms: Option<u64>,
    said_ms: MonotonicMs,
}

impl IdleClock {
    pub(crate) const fn new(now: Now, handshake_timeout_ms: u64) -> Self {
        Self {
            handshake_until_ms: Some(now.monotonic_ms.plus(handshake_timeout_ms)),
            close_until_ms: None,
            refusal_at_ms: None,
            silence_max_ms: None,
            heard_ms: now.monotonic_ms,
            is_deaf: false,
            own_silence_max_ms: None,
            said_ms: now.monotonic_ms,
        }
    }

    pub(crate) const fn heard(&mut self, now: Now) {
        self.heard_ms = now.monotonic_ms;
    }

    pub(crate) const fn said(&mut self, now: Now) {
        self.said_ms = now.monotonic_ms;
    }

    pub(crate) const fn set_reading(&mut self, now: Now, reading: bool) {
        if self.is_deaf == reading {
            self.is_deaf = !reading;
            self.heard_ms = now.monotonic_ms;
        }
    }

    /// The connection is open. Zero milliseconds are no limit. Of the client's limit half is used.
    pub(crate) fn opened(&mut self, silence_max_ms: u32, clients_silence_max_ms: u32) {
        let limit = |ms: u32| Some(u64::from(ms)).filter(|ms| *ms > 0);
        self.handshake_until_ms = None;
        self.silence_max_ms = limit(silence_max_ms);
        self.own_silence_max_ms = limit(clients_silence_max_ms / 2);
    }

    /// A close was said: its answer is awaited for so long.
    pub(crate) const fn closing(&mut self, now: Now, timeout_ms: u64) {
        self.handshake_until_ms = None;
        self.silence_max_ms = None;
        self.own_silence_max_ms = None;
        self.close_until_ms = Some(now.monotonic_ms.plus(timeout_ms));
    }

    /// The client is refused, and told so in a while.
    pub(crate) const fn refused(&mut self, now: Now, delay_ms: u64) {
        self.handshake_until_ms = None;
        self.refusal_at_ms = Some(now.monotonic_ms.plus(delay_ms));
    }

    fn client_dead_at_ms(&self) -> Option<MonotonicMs> {
        self.silence_max_ms.filter(|_| !self.is_deaf).map(|max| self.heard_ms.plus(max))
    }

    fn life_at_ms(&self) -> Option<MonotonicMs> {
        self.own_silence_max_ms.map(|max| self.said_ms.plus(max))
    }

    /// The next thing that is due by now; ask again after it was done.
    pub(crate) fn due(&mut self, now: Now) -> Option<TimedStep> {
        let is_due = |at: Option<MonotonicMs>| at.is_some_and(|at| at <= now.monotonic_ms);
        if is_due(self.handshake_until_ms) {
            return Some(TimedStep::Dead("handshake timeout"));
        }
        if is_due(self.close_until_ms) {
            return Some(TimedStep::Dead("no answer to the close"));
        }
        if is_due(self.refusal_at_ms) {
            self.refusal_at_ms = None;
            return Some(TimedStep::TellRefusal);
        }
        if is_due(self.client_dead_at_ms()) {
            return Some(TimedStep::ClientSilent);
        }
        if is_due(self.life_at_ms()) {
            self.said_ms = now.monotonic_ms;
            return Some(TimedStep::ShowLife);
        }
        None
    }

    /// The time of the next thing.
    pub(crate) fn next_ms(&self) -> Option<MonotonicMs> {
        let all = [
            self.handshake_until_ms,
            self.close_until_ms,
            self.refusal_at_ms,
            self.client_dead_at_ms(),
            self.life_at_ms(),
        ];
        all.into_iter().flatten().min()
    }
}
