//! The health of a peer, as its pulses and connections show it.

use super::event::{LivenessEvent, Suspicion};
use super::intervals::PulseIntervals;
use super::skew::SkewWatch;
use super::watch::ConnectionWatch;
use crate::connection::ConnectionKind;
use crate::pulse::{PULSE_INTERVAL_MS, Pulse};
use log::NodeNumber;
use stdx::{MonotonicMs, Now};

/// A disk whose oldest unsynced byte is as old does not sync.
const UNSYNCED_MAX_MS: u32 = 2_000;
/// A suspected peer is alive again after so long without a reason.
const STEADY_MS: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HealthState {
    /// The peer has not been alive in this life of it.
    New,
    Alive,
    /// Suspected, and since when there is no reason any more.
    Suspected(Option<MonotonicMs>),
}

/// The health of a peer.
#[derive(Debug)]
pub(super) struct PeerHealth {
    node: NodeNumber,
    state: HealthState,
    /// The newest pulse; the default before there is one.
    pub(super) newest: Pulse,
    heard_at: Option<MonotonicMs>,
    intervals: PulseIntervals,
    pub(super) connections: [ConnectionWatch; ConnectionKind::HELD.len()],
    skew: SkewWatch,
    /// Whether the peer was heard, and whether it was started again, since the last tick.
    is_heard: bool,
    is_restarted: bool,
}

impl PeerHealth {
    pub(super) fn new(node: NodeNumber, now: MonotonicMs) -> Self {
        Self {
            node,
            state: HealthState::New,
            newest: Pulse::default(),
            heard_at: None,
            intervals: PulseIntervals::new(PULSE_INTERVAL_MS),
            connections: [ConnectionWatch::new(now); ConnectionKind::HELD.len()],
            skew: SkewWatch::default(),
            is_heard: false,
            is_restarted: false,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.state == HealthState::Alive
    }

    /// The time at which the peer may be found in another state than before.
    pub(super) fn due(&self) -> MonotonicMs {
        if self.is_restarted || (self.is_heard && !self.is_alive()) {
            return MonotonicMs::default();
        }
        let missing = self.connections.iter().filter(|_| self.is_alive());
        missing.map(ConnectionWatch::missing_at).min().unwrap_or(MonotonicMs::NEVER)
    }

    /// Takes a pulse; one that is older than the newest counts for nothing.
    pub(super) fn hear(&mut self, pulse: &Pulse, now: Now, events: &mut Vec<LivenessEvent>) {
        if pulse.sequence <= self.newest.sequence {
            return;
        }
        if let Some(heard_at) = self.heard_at {
            if pulse.boot == self.newest.boot {
                self.intervals.add(now.monotonic_ms.since(heard_at));
            } else {
                self.intervals = PulseIntervals::new(PULSE_INTERVAL_MS);
                self.is_restarted = true;
            }
        }
        self.is_heard = true;
        self.newest = *pulse;
        self.heard_at = Some(now.monotonic_ms);
        let [_, raft, work] = &mut self.connections;
        [raft, work].into_iter().zip(pulse.received).for_each(|(it, n)| it.received(n));
        let (node, skew_ms) = (self.node, self.skew.add(pulse.clock, now));
        events.extend(skew_ms.map(|skew_ms| LivenessEvent::ClockSkew { node, skew_ms }));
    }

    /// Judges the peer; `heard_age_ms` is how long ago the pulse was sent that the peer heard last.
    pub(super) fn tick(
        &mut self,
        now: MonotonicMs,
        heard_age_ms: u64,
        events: &mut Vec<LivenessEvent>,
    ) {
        let suspicion = self.suspicion(now, heard_age_ms);
        self.is_heard = false;
        let (node, is_restarted) = (self.node, std::mem::take(&mut self.is_restarted));
        self.state = match (self.state, suspicion) {
            (HealthState::Alive, Some(suspicion)) => {
                events.push(LivenessEvent::Suspected { node, suspicion });
                if is_restarted { HealthState::New } else { HealthState::Suspected(None) }
            }
            (HealthState::Suspected(_), Some(_)) if is_restarted => HealthState::New,
            (HealthState::Suspected(_), Some(_)) => HealthState::Suspected(None),
            (HealthState::Suspected(since), None)
                if since.is_none_or(|since| now.since(since) < STEADY_MS) =>
            {
                HealthState::Suspected(since.or(Some(now)))
            }
            (HealthState::New | HealthState::Suspected(_), None) => {
                events.push(LivenessEvent::Alive { node, boot: self.newest.boot });
                HealthState::Alive
            }
            (HealthState::New, Some(_)) | (HealthState::Alive, None) => self.state,
        };
        self.find_stuck(now, events);
    }

    /// The first reason there is to suspect the peer.
    fn suspicion(&self, now: MonotonicMs, heard_age_ms: u64) -> Option<Suspicion> {
        let limit_ms = self.intervals.limit_ms();
        let kinds = || ConnectionKind::HELD.into_iter().zip(&self.connections);
        let missing = kinds().find(|(_, watch)| watch.missing_at() <= now);
        let stuck = kinds().find(|(_, watch)| watch.is_stuck_often(now));
        if self.is_restarted {
            Some(Suspicion::Restarted)
        } else if let Some((kind, _)) = missing {
            Some(Suspicion::Unconnected(kind))
        } else if self.silence_ms(now) > limit_ms {
            Some(Suspicion::Silent)
        } else if heard_age_ms > limit_ms + PULSE_INTERVAL_MS {
            Some(Suspicion::Deaf)
        } else if self.newest.unsynced_age_ms >= UNSYNCED_MAX_MS {
            Some(Suspicion::DiskStalled)
        } else {
            stuck.map(|(kind, _)| Suspicion::Stuck(kind))
        }
    }

    /// The time since the newest pulse was heard.
    fn silence_ms(&self, now: MonotonicMs) -> u64 {
        self.heard_at.map_or(u64::MAX, |at| now.since(at))
    }

    /// Finds the connections that are stuck, which are to be closed and made again.
    fn find_stuck(&mut self, now: MonotonicMs, events: &mut Vec<LivenessEvent>) {
        let (node, silence_ms) = (self.node, self.silence_ms(now));
        let is_heard = silence_ms <= self.intervals.limit_ms();
        for (kind, watch) in ConnectionKind::HELD.into_iter().zip(&mut self.connections) {
            let is_stuck = if kind == ConnectionKind::Pulse {
                watch.is_silent(now, silence_ms)
            } else {
                watch.is_stuck(now, is_heard)
            };
            events.extend(is_stuck.then_some(LivenessEvent::Remake { node, kind }));
        }
    }

    /// Moves times on that a pause of this node has made older.
    pub(super) fn forgive(&mut self, pause_ms: u64) {
        self.heard_at = self.heard_at.map(|at| at.plus(pause_ms));
        self.connections.iter_mut().for_each(|watch| watch.forgive(pause_ms));
    }
}
