//! A connection with a peer, as its pulses judge it.

use stdx::MonotonicMs;

/// A connection that is lost and not made again for so long is suspicious.
const UNCONNECTED_MAX_MS: u64 = 100;
/// A count that stands still for so long, though bytes were sent, is that of a stuck connection.
const STUCK_MS: u64 = 5_000;
/// Connections that are made again [`REMAKES_MAX`] times within this time are suspicious.
const REMAKES_WITHIN_MS: u64 = 60_000;
const REMAKES_MAX: usize = 2;

/// A watch of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionWatch {
    is_up: bool,
    /// Since when the connection is up or down.
    since: MonotonicMs,
    /// Bytes that this side has sent.
    sent: u64,
    /// Bytes that the peer has told to have received.
    received: u64,
    /// Since when bytes are missing there and none come.
    stands_since: Option<MonotonicMs>,
    /// The last times at which the connection was found stuck.
    stuck_at: [Option<MonotonicMs>; REMAKES_MAX],
}

impl ConnectionWatch {
    pub(super) const fn new(now: MonotonicMs) -> Self {
        let stuck_at = [None; REMAKES_MAX];
        Self { is_up: false, since: now, sent: 0, received: 0, stands_since: None, stuck_at }
    }

    /// Notes that the connection has been made, or has ended.
    pub(super) fn set_up(&mut self, is_up: bool, now: MonotonicMs) {
        if !is_up && !self.is_up {
            return;
        }
        *self = Self { is_up, stuck_at: self.stuck_at, ..Self::new(now) };
    }

    pub(super) const fn sent(&mut self, n_bytes: u64) {
        self.sent = n_bytes;
    }

    pub(super) fn received(&mut self, n_bytes: u64) {
        if self.received != n_bytes {
            self.received = n_bytes;
            self.stands_since = None;
        }
    }

    /// The time from which on the connection is missing for too long, unless it is made before.
    pub(super) const fn missing_at(&self) -> MonotonicMs {
        if self.is_up { MonotonicMs::NEVER } else { self.since.plus(UNCONNECTED_MAX_MS) }
    }

    /// Whether the connection was stuck too often.
    pub(super) fn is_stuck_often(&self, now: MonotonicMs) -> bool {
        self.stuck_at.iter().all(|at| at.is_some_and(|at| now.since(at) < REMAKES_WITHIN_MS))
    }

    /// Whether the connection is stuck and to be made again; `is_heard` is whether the peer tells its count.
    pub(super) fn is_stuck(&mut self, now: MonotonicMs, is_heard: bool) -> bool {
        if !self.is_up || !is_heard || self.sent <= self.received {
            self.stands_since = None;
            return false;
        }
        let since = *self.stands_since.get_or_insert(now);
        let is_stuck = now.since(since) >= STUCK_MS;
        if is_stuck {
            let [_, last] = self.stuck_at;
            self.stuck_at = [last, Some(now)];
            self.stands_since = None;
        }
        is_stuck
    }

    /// Whether a connection of pulses is silent, and to be made again.
    pub(super) const fn is_silent(&mut self, now: MonotonicMs, silence_ms: u64) -> bool {
        let is_silent = self.is_up && silence_ms >= STUCK_MS && now.since(self.since) >= STUCK_MS;
        if is_silent {
            self.since = now;
        }
        is_silent
    }

    /// Moves times on that a pause of this node has made older.
    pub(super) fn forgive(&mut self, pause_ms: u64) {
        self.since = self.since.plus(pause_ms);
        self.stands_since = self.stands_since.map(|since| since.plus(pause_ms));
    }
}
