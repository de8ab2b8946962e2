//! The connection of one kind with a peer: whether it is there, and when the next attempt is due.

use crate::connection::ConnectionNumber;
use crate::handshake::HANDSHAKE_MS;
use crate::refusal::PeerRefusalReason;
use stdx::MonotonicMs;

/// The wait after the first failed attempt: several fit into the time that a lost connection has to be made
/// again.
const RETRY_MIN_MS: u64 = 20;
/// The wait after many.
const RETRY_MAX_MS: u64 = 3_000;
/// The wait after a refusal that only an operator can change.
const REFUSED_RETRY_MS: u64 = 10_000;
/// Connections that end sooner count as failed attempts.
const LASTING_MS: u64 = 5_000;
/// The time for an attempt: to resolve the address, to connect, and for the handshake.
const ATTEMPT_MS: u64 = 2 * HANDSHAKE_MS;

/// A connection of one kind with a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionSlot {
    state: SlotState,
    /// Attempts that failed in a row.
    n_failed: u32,
}

#[derive(Clone, Copy, Debug)]
enum SlotState {
    /// No connection is there. The next attempt, on the side that dials, is due at this time.
    Wanted(MonotonicMs),
    /// An attempt is under way. A host that does not tell its end by this time has lost it.
    Dialling(MonotonicMs),
    Open(ConnectionNumber, MonotonicMs),
}

impl ConnectionSlot {
    pub(super) const fn new(now: MonotonicMs) -> Self {
        Self { state: SlotState::Wanted(now), n_failed: 0 }
    }

    /// The connection that is open.
    pub(super) const fn open(&self) -> Option<ConnectionNumber> {
        match self.state {
            SlotState::Open(number, _) => Some(number),
            SlotState::Wanted(_) | SlotState::Dialling(_) => None,
        }
    }

    /// The time at which the next attempt is due.
    pub(super) const fn due(&self) -> MonotonicMs {
        match self.state {
            SlotState::Wanted(at) | SlotState::Dialling(at) => at,
            SlotState::Open(..) => MonotonicMs::NEVER,
        }
    }

    /// Begins an attempt; returns when it must have come to an end.
    pub(super) const fn dial(&mut self, now: MonotonicMs) -> MonotonicMs {
        let deadline = now.plus(ATTEMPT_MS);
        // A margin, in which the host tells of the end.
        self.state = SlotState::Dialling(deadline.plus(ATTEMPT_MS));
        deadline
    }

    /// Notes a connection; returns the one whose place it takes.
    pub(super) fn set_open(
        &mut self,
        number: ConnectionNumber,
        now: MonotonicMs,
    ) -> Option<ConnectionNumber> {
        let replaced = self.open();
        self.state = SlotState::Open(number, now);
        replaced
    }

    /// Notes the end of the open connection: the next attempt is due at once if it has lasted.
    pub(super) fn set_closed(&mut self, now: MonotonicMs, random: u64) {
        if let SlotState::Open(_, since) = self.state {
            if now.since(since) >= LASTING_MS {
                self.n_failed = 0;
                self.state = SlotState::Wanted(now);
            } else {
                self.retry(now, random, None);
            }
        }
    }

    /// Notes a failed attempt.
    pub(super) fn failed(
        &mut self,
        now: MonotonicMs,
        random: u64,
        refusal: Option<PeerRefusalReason>,
    ) {
        if self.open().is_none() {
            self.retry(now, random, refusal);
        }
    }

    /// Sets the time of the next attempt: twice as long after each, with a random part of up to a half.
    fn retry(&mut self, now: MonotonicMs, random: u64, refusal: Option<PeerRefusalReason>) {
        let doubled = RETRY_MIN_MS << self.n_failed.min(16);
        let is_lasting = refusal.is_some_and(PeerRefusalReason::is_lasting);
        let wait_ms = if is_lasting { REFUSED_RETRY_MS } else { doubled.min(RETRY_MAX_MS) };
        self.n_failed = self.n_failed.saturating_add(1);
        self.state = SlotState::Wanted(now.plus(wait_ms / 2 + random % (wait_ms / 2 + 1)));
    }
}
