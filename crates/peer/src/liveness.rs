//! Which peers are alive, judged by their pulses and by the connections with them.
//!
//! The host sends a pulse to each peer every [`PULSE_INTERVAL_MS`](crate::PULSE_INTERVAL_MS), and calls
//! [`Liveness::tick`] then and when [`Liveness::due`] tells. A mistake costs an election or a wait, never a
//! message.

mod event;
mod health;
mod intervals;
mod skew;
mod watch;

pub use event::{LivenessEvent, Suspicion};

use crate::connection::ConnectionKind;
use crate::pulse::Pulse;
use health::PeerHealth;
use log::NodeNumber;
use std::collections::{BTreeMap, VecDeque};
use stdx::{MonotonicMs, Now};

/// Ticks that are further apart tell that this node stood still itself, and excuse its peers.
const OWN_PAUSE_MS: u64 = 500;
/// Rounds of pulses whose times are remembered: more than the longest limit.
const ROUNDS_MAX: usize = 64;

/// The peers of a node, and which of them are alive.
#[derive(Debug)]
pub struct Liveness {
    peers: BTreeMap<NodeNumber, PeerHealth>,
    sequence: u64,
    /// The times of the latest rounds of pulses, the newest of which is that of `sequence`.
    rounds: VecDeque<MonotonicMs>,
    ticked: Option<MonotonicMs>,
}

impl Liveness {
    /// Creates the judgement of a node in this life, without peers.
    #[must_use]
    pub const fn new(boot: u32) -> Self {
        let sequence = (boot as u64) << 32;
        Self { peers: BTreeMap::new(), sequence, rounds: VecDeque::new(), ticked: None }
    }

    /// Watches a peer from now on. It is not alive before it is heard.
    pub fn add(&mut self, node: NodeNumber, now: MonotonicMs) {
        self.peers.entry(node).or_insert_with(|| PeerHealth::new(node, now));
    }

    /// Watches a peer no longer.
    pub fn remove(&mut self, node: NodeNumber) {
        self.peers.remove(&node);
    }

    /// Begins a round of pulses, one to each peer; returns their number, above those of all earlier lives.
    pub fn begin_round(&mut self, now: MonotonicMs) -> u64 {
        self.sequence += 1;
        self.rounds.push_back(now);
        if self.rounds.len() > ROUNDS_MAX {
            self.rounds.pop_front();
        }
        self.sequence
    }

    /// The newest pulse that was heard of a peer: its number goes with the next pulse to that peer.
    #[must_use]
    pub fn newest(&self, node: NodeNumber) -> Option<&Pulse> {
        self.peers.get(&node).map(|health| &health.newest).filter(|newest| newest.sequence > 0)
    }

    /// Whether a peer is alive.
    #[must_use]
    pub fn is_alive(&self, node: NodeNumber) -> bool {
        self.peers.get(&node).is_some_and(PeerHealth::is_alive)
    }

    /// Takes a pulse of a peer.
    pub fn hear(
        &mut self,
        node: NodeNumber,
        pulse: &Pulse,
        now: Now,
        events: &mut Vec<LivenessEvent>,
    ) {
        if let Some(health) = self.peers.get_mut(&node) {
            health.hear(pulse, now, events);
        }
    }

    /// Notes that a connection with a peer has been made.
    pub fn connected(&mut self, node: NodeNumber, kind: ConnectionKind, now: MonotonicMs) {
        self.set_up(node, kind, true, now);
    }

    /// Notes that a connection with a peer has ended, and no other has taken its place.
    pub fn disconnected(&mut self, node: NodeNumber, kind: ConnectionKind, now: MonotonicMs) {
        self.set_up(node, kind, false, now);
    }

    /// Notes how many bytes this node has sent over the connection that there is now
    /// ([`PeerLink::traffic`](crate::PeerLink::traffic)), before each tick.
    pub fn sent(&mut self, node: NodeNumber, kind: ConnectionKind, n_bytes: u64) {
        if let Some(watch) = self.watch(node, kind) {
            watch.sent(n_bytes);
        }
    }

    /// The time at which peers are to be judged, if that is before the next round: one may be alive, or has
    /// lost a connection.
    #[must_use]
    pub fn due(&self) -> MonotonicMs {
        self.peers.values().map(PeerHealth::due).min().unwrap_or(MonotonicMs::NEVER)
    }

    /// Judges all peers.
    pub fn tick(&mut self, now: MonotonicMs, events: &mut Vec<LivenessEvent>) {
        let pause_ms = self.ticked.map_or(0, |last| now.since(last));
        self.ticked = Some(now);
        if pause_ms >= OWN_PAUSE_MS {
            self.rounds.iter_mut().for_each(|at| *at = at.plus(pause_ms));
            self.peers.values_mut().for_each(|health| health.forgive(pause_ms));
        }
        for health in self.peers.values_mut() {
            let n_since = self.sequence.saturating_sub(health.newest.heard);
            let sent_at =
                usize::try_from(n_since).ok().and_then(|n| self.rounds.iter().rev().nth(n));
            health.tick(now, sent_at.map_or(u64::MAX, |at| now.since(*at)), events);
        }
    }

    fn set_up(&mut self, node: NodeNumber, kind: ConnectionKind, is_up: bool, now: MonotonicMs) {
        if let Some(watch) = self.watch(node, kind) {
            watch.set_up(is_up, now);
        }
    }

    fn watch(
        &mut self,
        node: NodeNumber,
        kind: ConnectionKind,
    ) -> Option<&mut watch::ConnectionWatch> {
        self.peers.get_mut(&node)?.connections.get_mut(kind.place()?)
    }
}
