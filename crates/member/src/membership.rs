//! A node as a member of its cluster: who its peers are, their connections, and what goes over them.
//!
//! Lock order: a group's lock, which its host holds; then one of this type; then a link's.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Waker;

use cluster::{LivingNodes, OutgoingMessage};
use log::{Lsn, NodeIdentity, NodeNumber, Owner};
use peer::{
    ConnectionKind, FrameKind, LinkClass, LinkLimits, Liveness, LivenessEvent, NodeMessage,
    PEER_VERSIONS, PeerAddress, PeerDial, PeerEstablished, PeerFrame, PeerHello, PeerLink,
    PeerRefusal, PeerRefusalReason, PeerSet, Pulse, PulseAlarms, SessionFrame, SpokenRange,
    Vocabulary,
};
use stdx::{MonotonicMs, Now, lock};

use crate::event::MemberEvent;
use crate::held::{HeldMessages, Hold};
use crate::links::{PeerConnection, PeerLinks};
use crate::vocabulary::{PeerInput, PeerInputError, put_message, read_messages, vocabulary};

/// Messages that leave while the lock of those that wait is held once.
const RELEASED_AT_ONCE: usize = 64;

/// The identity and the limits of a node in its cluster.
#[derive(Clone, Debug)]
pub struct MembershipOptions {
    /// The node, in the life that it is in.
    pub me: NodeIdentity,
    /// The levels of the cluster that the node supports.
    pub levels: SpokenRange,
    /// The limits of each link.
    pub limits: LinkLimits,
}

/// The health of this node, which pulses tell its peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct PulseHealth {
    /// The node's alarms.
    pub alarms: PulseAlarms,
    /// The age of the oldest byte in the node's log that is not synced.
    pub unsynced_age_ms: u32,
    /// Queues that the node leads.
    pub load: u32,
}

/// A connection that is now one of the node's.
#[derive(Debug)]
pub struct MemberAdmission {
    /// The connection.
    pub connection: PeerConnection,
    /// The frames that it carries.
    pub vocabulary: Vocabulary,
    /// Connections that end for it: their links have ended them, the host closes their sockets.
    pub ended: Vec<PeerConnection>,
}

/// A node as a member of its cluster. All that uses its peers shares it.
#[derive(Debug)]
pub struct Membership {
    options: MembershipOptions,
    peers: Mutex<KnownPeers>,
    links: PeerLinks,
    living: RwLock<Arc<LivingNodes>>,
    held: Mutex<HeldMessages>,
}

/// The peers, as far as they are known.
#[derive(Debug)]
struct KnownPeers {
    set: PeerSet,
    liveness: Liveness,
    /// Events for the next tick.
    events: Vec<MemberEvent>,
}

impl Membership {
    /// Creates the part of a node in this life, which knows no peers.
    #[must_use]
    pub fn new(options: MembershipOptions) -> Self {
        let peers = KnownPeers {
            set: PeerSet::new(options.me.clone()),
            liveness: Liveness::new(options.me.boot),
            events: Vec::new(),
        };
        Self {
            peers: Mutex::new(peers),
            links: PeerLinks::new(options.limits),
            living: RwLock::default(),
            held: Mutex::default(),
            options,
        }
    }

    /// The node.
    #[must_use]
    pub const fn me(&self) -> &NodeIdentity {
        &self.options.me
    }

    /// Adds a member, or changes its name and address, by the definitions; `boot` is the newest life that is
    /// known of it. The node itself is left out.
    pub fn set_member(
        &self,
        (node, boot): (NodeNumber, u32),
        name: &str,
        address: PeerAddress,
        now: MonotonicMs,
    ) {
        if node == self.options.me.number {
            return;
        }
        self.links.add(node);
        let mut peers = lock(&self.peers);
        peers.set.set_member((node, boot), name, address, now);
        peers.liveness.add(node, now);
    }

    /// Removes a member for ever, by the definitions. Its links have ended; returns the connections, whose
    /// sockets the host closes.
    pub fn forget(&self, node: NodeNumber) -> Vec<PeerConnection> {
        let mut peers = lock(&self.peers);
        let was_alive = peers.liveness.is_alive(node);
        let ended = peers.set.forget(node);
        peers.liveness.remove(node);
        if was_alive {
            self.set_living(node, false);
            peers.events.push(MemberEvent::Forgotten(node));
        }
        drop(peers);
        self.links.remove(node);
        ended.into_iter().map(|(kind, number)| PeerConnection { node, kind, number }).collect()
    }

    /// The peers that there are links to.
    #[must_use]
    pub fn peers(&self) -> Vec<NodeNumber> {
        self.links.nodes()
    }

    /// The hello of this side of a connection; `nonce` is a new random number.
    #[must_use]
    pub fn hello(&self, kind: ConnectionKind, nonce: u128) -> PeerHello {
        let MembershipOptions { me, levels, .. } = &self.options;
        let (versions, levels, identity) = (PEER_VERSIONS, *levels, me.clone());
        PeerHello { versions, levels, kind, identity, nonce }
    }

    /// Decides whether a peer may connect: as [`PeerSet::judge`].
    ///
    /// # Errors
    /// The reason why not, in words for the operators of both nodes.
    pub fn judge(&self, hello: &PeerHello, dialled: Option<NodeNumber>) -> Result<(), PeerRefusal> {
        lock(&self.peers).set.judge(hello, dialled)
    }

    /// Takes a connection whose handshake is done, and opens its link, unless a newer one has meanwhile. The
    /// next tick tells that the link is made. A connection of kind `ctl` has no link.
    ///
    /// # Errors
    /// Meanwhile a newer life of the peer has connected, or the peer was removed: the connection is closed.
    pub fn admit(
        &self,
        established: &PeerEstablished,
        now: MonotonicMs,
    ) -> Result<MemberAdmission, PeerRefusal> {
        let (node, kind) = (established.peer.identity.number, established.peer.kind);
        let mut peers = lock(&self.peers);
        let admitted = peers.set.admit(established, now)?;
        let connection = PeerConnection { node, kind, number: admitted.number };
        for (kind, _) in &admitted.ended {
            peers.liveness.disconnected(node, *kind, now);
        }
        peers.liveness.connected(node, kind, now);
        drop(peers);
        let of_number = |(kind, number)| PeerConnection { node, kind, number };
        let ended: Vec<_> = admitted.ended.into_iter().map(of_number).collect();
        ended.iter().for_each(|ended| self.links.close(*ended));
        if self.link(node, kind).is_some_and(|link| link.open(admitted.number)) {
            lock(&self.peers).events.push(MemberEvent::LinkMade(node, kind));
        }
        let vocabulary = vocabulary(kind, established.level);
        Ok(MemberAdmission { connection, vocabulary, ended })
    }

    /// Notes that a connection has ended, for whatever reason. `random` spreads attempts to make it again.
    pub fn closed(&self, connection: PeerConnection, now: MonotonicMs, random: u64) {
        self.links.close(connection);
        let PeerConnection { node, kind, number } = connection;
        let mut peers = lock(&self.peers);
        if peers.set.closed(node, (kind, number), now, random) {
            peers.liveness.disconnected(node, kind, now);
        }
    }

    /// The attempts to connect that are due; returns when the next one will be.
    pub fn dials(&self, now: MonotonicMs, dials: &mut Vec<PeerDial>) -> MonotonicMs {
        lock(&self.peers).set.dials(now, dials)
    }

    /// Notes that an attempt has failed, or was refused by either side.
    pub fn dial_failed(
        &self,
        dial: &PeerDial,
        refusal: Option<PeerRefusalReason>,
        now: MonotonicMs,
        random: u64,
    ) {
        lock(&self.peers).set.dial_failed(dial, refusal, now, random);
    }

    /// The link to a peer.
    #[must_use]
    pub fn link(&self, node: NodeNumber, kind: ConnectionKind) -> Option<Arc<PeerLink>> {
        self.links.get(node, kind)
    }

    /// Counts bytes that were read from a connection. False if that has ended: they count for nothing.
    #[must_use]
    pub fn read(&self, connection: PeerConnection, n_bytes: usize) -> bool {
        let link = self.link(connection.node, connection.kind);
        link.is_some_and(|link| link.received(connection.number, n_bytes))
    }

    /// Takes a frame of a connection that has not ended; appends what the host is to do about it to
    /// `inputs`. Pulses are heard.
    ///
    /// # Errors
    /// The peer has violated the rules, or refuses to go on: the host closes the connection.
    pub fn received(
        &self,
        connection: PeerConnection,
        frame: PeerFrame<'_>,
        now: Now,
        inputs: &mut Vec<PeerInput>,
    ) -> Result<(), PeerInputError> {
        let PeerConnection { node, kind: of, .. } = connection;
        let kind = frame.kind;
        if kind == FrameKind::REFUSED {
            return Err(PeerRefusal::decode(&frame.body).into());
        }
        let damaged = |error| PeerInputError::Damaged { kind: kind.0, error };
        match of {
            ConnectionKind::Pulse => {
                let pulse = Pulse::decode(&frame.body).map_err(damaged)?;
                let mut events = Vec::new();
                let mut peers = lock(&self.peers);
                peers.liveness.hear(node, &pulse, now, &mut events);
                self.note(&mut peers, &events);
            }
            ConnectionKind::Raft => {
                let ends = [node, self.options.me.number];
                read_messages(kind, frame.body.into_bytes(), ends, inputs)?;
            }
            ConnectionKind::Work => {
                let body = frame.body.into_bytes();
                if let Some(frame) = SessionFrame::of_kind(kind) {
                    inputs.push(PeerInput::Session(frame, body));
                } else {
                    let message = NodeMessage::decode(kind, &body);
                    inputs.extend(message.map_err(damaged)?.map(PeerInput::Node));
                }
            }
            ConnectionKind::Ctl => {}
        }
        Ok(())
    }

    /// Ends the connection of a link, whichever there is: the host closes its socket.
    pub fn end(&self, node: NodeNumber, kind: ConnectionKind) {
        let _ended = self.links.end(node, kind);
    }

    /// Sends a message of a group, whose lock the caller holds, now or once the log is durable up to its
    /// position. Messages of a group to one node keep their order within their class. Returns the writer's
    /// waker, to be called without that lock.
    #[must_use]
    pub fn send(&self, group: Owner, outgoing: OutgoingMessage) -> Option<Waker> {
        let OutgoingMessage { message, after } = outgoing;
        let node = NodeNumber(message.to.node());
        let hold = lock(&self.held).hold(group, message, after);
        match hold {
            Hold::Leaves(message) => {
                let link = self.link(node, ConnectionKind::Raft)?;
                link.put(|out| put_message(out, group, &message))
            }
            Hold::Waits => None,
            Hold::Full => {
                // The receiver is asked again once the link is made anew.
                self.links.end(node, ConnectionKind::Raft);
                None
            }
        }
    }

    /// Sends a message of the node. Returns the writer's waker, to be called without a lock.
    #[must_use]
    pub fn send_node(&self, node: NodeNumber, message: &NodeMessage) -> Option<Waker> {
        self.link(node, ConnectionKind::Work)?.put(|out| message.put(out))
    }

    /// Notes that the node's log is durable up to a position: what waits for that leaves, without any
    /// group's lock. Returns the writers' wakers.
    #[must_use]
    pub fn durable(&self, upto: Lsn) -> Vec<Waker> {
        let mut wakers = Vec::new();
        lock(&self.held).set_durable(upto);
        loop {
            let mut held = lock(&self.held);
            for _ in 0..RELEASED_AT_ONCE {
                let Some(next) = held.next() else { return wakers };
                let node = NodeNumber(next.message.to.node());
                if let Some(link) = self.link(node, ConnectionKind::Raft) {
                    wakers.extend(link.put(|out| put_message(out, next.group, &next.message)));
                }
            }
        }
    }

    /// Begins a round of pulses, due every [`PULSE_INTERVAL_MS`](peer::PULSE_INTERVAL_MS): one goes into the
    /// link to each peer. Returns the writers' wakers.
    #[must_use]
    pub fn begin_round(&self, now: Now, health: PulseHealth) -> Vec<Waker> {
        let mut peers = lock(&self.peers);
        let sequence = peers.liveness.begin_round(now.monotonic_ms);
        let mut wakers = Vec::new();
        for node in self.links.nodes() {
            let of_kind = |kind| self.link(node, kind).map_or(0, |link| link.traffic().received);
            let pulse = Pulse {
                boot: self.options.me.boot,
                sequence,
                heard: peers.liveness.newest(node).map_or(0, |newest| newest.sequence),
                received: [ConnectionKind::Raft, ConnectionKind::Work].map(of_kind),
                alarms: health.alarms,
                unsynced_age_ms: health.unsynced_age_ms,
                clock: now.unix_ms,
                level: self.options.levels.max,
                load: health.load,
            };
            if let Some(link) = self.link(node, ConnectionKind::Pulse) {
                let encode = |out: &mut Vec<u8>| pulse.encode(out);
                wakers.extend(
                    link.put(|out| out.push(LinkClass::Urgent, FrameKind::PULSE, encode, &[])),
                );
            }
        }
        wakers
    }

    /// The time at which the next tick is due, if that is before the next round.
    #[must_use]
    pub fn due(&self) -> MonotonicMs {
        let peers = lock(&self.peers);
        if peers.events.is_empty() { peers.liveness.due() } else { MonotonicMs::default() }
    }

    /// Judges all peers, with each round and when it is due; returns what has happened since the last time.
    #[must_use]
    pub fn tick(&self, now: MonotonicMs) -> Vec<MemberEvent> {
        let mut peers = lock(&self.peers);
        for node in self.links.nodes() {
            for kind in [ConnectionKind::Raft, ConnectionKind::Work] {
                if let Some(link) = self.link(node, kind) {
                    peers.liveness.sent(node, kind, link.traffic().sent);
                }
            }
        }
        let mut events = Vec::new();
        peers.liveness.tick(now, &mut events);
        self.note(&mut peers, &events);
        std::mem::take(&mut peers.events)
    }

    /// The nodes that are alive, this one left out, as of the last tick.
    #[must_use]
    pub fn living(&self) -> Arc<LivingNodes> {
        Arc::clone(&self.living.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest pulse of a peer: its alarms, its level, its load.
    #[must_use]
    pub fn newest_pulse(&self, node: NodeNumber) -> Option<Pulse> {
        lock(&self.peers).liveness.newest(node).copied()
    }

    fn set_living(&self, node: NodeNumber, is_alive: bool) {
        let mut living = self.living.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut living).set(node.0, is_alive);
    }

    fn note(&self, peers: &mut KnownPeers, events: &[LivenessEvent]) {
        for event in events {
            peers.events.push(match *event {
                LivenessEvent::Suspected { node, suspicion } => {
                    self.set_living(node, false);
                    MemberEvent::Suspected { node, suspicion }
                }
                LivenessEvent::Alive { node, boot } => {
                    self.set_living(node, true);
                    MemberEvent::Alive { node, boot }
                }
                LivenessEvent::Remake { node, kind } => {
                    let Some(connection) = self.links.end(node, kind) else { continue };
                    MemberEvent::Stuck(connection)
                }
                LivenessEvent::ClockSkew { node, skew_ms } => {
                    MemberEvent::ClockSkew { node, skew_ms }
                }
            });
        }
    }
}
