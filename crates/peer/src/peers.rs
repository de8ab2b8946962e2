//! The peers that a node knows, their connections, and which of two takes the place of the other.
//!
//! Of two members the one with the lower number dials. An address is a name, which the host resolves anew for
//! each attempt: a peer that moves is found again.

mod dialling;

use crate::connection::{ConnectionKind, ConnectionNumber};
use crate::handshake::{HandshakeRole, PeerEstablished};
use crate::hello::PeerHello;
use crate::refusal::{PeerRefusal, PeerRefusalReason};
use dialling::ConnectionSlot;
use log::{NodeIdentity, NodeNumber};
use std::collections::{BTreeMap, BTreeSet};
use stdx::MonotonicMs;

/// The address of a node, unresolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A host's name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// An attempt to connect that the host is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDial {
    /// The peer.
    pub node: NodeNumber,
    /// The purpose of the connection.
    pub kind: ConnectionKind,
    /// The address, to be resolved.
    pub address: PeerAddress,
    /// The time at which the attempt has failed.
    pub deadline: MonotonicMs,
}

/// A connection that is now one of the node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAdmitted {
    /// Its number, by which its link opens.
    pub number: ConnectionNumber,
    /// The connections that end for it, to be closed.
    pub ended: Vec<(ConnectionKind, ConnectionNumber)>,
}

/// The peers of a node.
#[derive(Debug)]
pub struct PeerSet {
    me: NodeIdentity,
    members: BTreeMap<NodeNumber, KnownPeer>,
    forgotten: BTreeSet<NodeNumber>,
    n_connections: u64,
}

/// A member of the cluster.
#[derive(Debug)]
struct KnownPeer {
    name: String,
    address: PeerAddress,
    /// The newest life of the node that is known.
    boot: u32,
    slots: [ConnectionSlot; ConnectionKind::HELD.len()],
}

impl PeerSet {
    /// Creates the set of a node that knows no others.
    #[must_use]
    pub const fn new(me: NodeIdentity) -> Self {
        Self { me, members: BTreeMap::new(), forgotten: BTreeSet::new(), n_connections: 0 }
    }

    /// Adds a member, or changes its name and address; `boot` is the newest life that is known of it.
    pub fn set_member(
        &mut self,
        peer: (NodeNumber, u32),
        name: &str,
        address: PeerAddress,
        now: MonotonicMs,
    ) {
        let (node, boot) = peer;
        if node == self.me.number {
            return;
        }
        let name = name.to_owned();
        match self.members.get_mut(&node) {
            Some(known) => {
                let boot = known.boot.max(boot);
                *known = KnownPeer { name, address, boot, slots: known.slots };
            }
            None => {
                let slots = [ConnectionSlot::new(now); ConnectionKind::HELD.len()];
                self.members.insert(node, KnownPeer { name, address, boot, slots });
            }
        }
    }

    /// Removes a member for ever; returns its connections, to be closed.
    pub fn forget(&mut self, node: NodeNumber) -> Vec<(ConnectionKind, ConnectionNumber)> {
        self.forgotten.insert(node);
        self.members.remove(&node).map(|known| known.open()).unwrap_or_default()
    }

    /// Decides whether a peer may connect, by its hello. `dialled` is the node that this one has dialled; it
    /// is none if the peer has.
    ///
    /// # Errors
    /// The reason why not, in words for the operators of both nodes.
    pub fn judge(&self, hello: &PeerHello, dialled: Option<NodeNumber>) -> Result<(), PeerRefusal> {
        if hello.kind == ConnectionKind::Ctl {
            return Ok(());
        }
        self.judge_cluster(&hello.identity)?;
        self.judge_member(&hello.identity, dialled)
    }

    /// Checks that a peer of this cluster is a member in its newest life, on the right side.
    fn judge_member(
        &self,
        peer: &NodeIdentity,
        dialled: Option<NodeNumber>,
    ) -> Result<(), PeerRefusal> {
        let (us, them) = (&self.me.name, &peer.name);
        let known = self.members.get(&peer.number);
        let is_ours_to_dial = self.me.number < peer.number;
        let (reason, text) = if let Some(node) = self.namesake(peer) {
            let text = format!(
                "{us} knows node {} by the name or number of {them} (node {}): give it another name, or reset \
                 it if its data directory is a copy",
                node.0, peer.number.0
            );
            (PeerRefusalReason::SameName, text)
        } else if known.is_none() {
            let text = format!(
                "{them} is no member of the cluster of {us}: join it with `leveret ctl join_cluster {us}`"
            );
            (PeerRefusalReason::NotMember, text)
        } else if let Some(known) = known.filter(|known| peer.boot < known.boot) {
            let text = format!(
                "{us} knows start {} of {them}, and this is start {}: an older process still runs, or the data \
                 directory is an old copy; stop it, or forget and reset the node",
                known.boot, peer.boot
            );
            (PeerRefusalReason::OlderBoot, text)
        } else if dialled.is_some_and(|dialled| dialled != peer.number) {
            let text = format!("{us} looked for another node where {them} is: correct its address");
            (PeerRefusalReason::OtherNode, text)
        } else if dialled.is_some() != is_ours_to_dial {
            let text = format!("of {us} and {them} the one with the lower number dials the other");
            (PeerRefusalReason::WrongDialler, text)
        } else {
            return Ok(());
        };
        Err(PeerRefusal::new(reason, text))
    }

    /// Checks that a peer is of this cluster, in its epoch, and was not removed.
    fn judge_cluster(&self, peer: &NodeIdentity) -> Result<(), PeerRefusal> {
        let (us, them) = (&self.me.name, &peer.name);
        let is_stranger = peer.cluster != self.me.cluster || peer.number.0 == 0;
        let has_members_name = self.members.values().any(|known| known.name == peer.name);
        let (reason, text) = if is_stranger && has_members_name {
            let text = format!(
                "{them} is a member of the cluster of {us} and has lost its data: run `leveret ctl \
                 forget_cluster_node {them}`, then join it again"
            );
            (PeerRefusalReason::Reset, text)
        } else if is_stranger {
            let text = format!(
                "{us} and {them} belong to different clusters: reset one of them and join it to the other, or \
                 correct its list of peers"
            );
            (PeerRefusalReason::OtherCluster, text)
        } else if peer.epoch != self.me.epoch {
            let [left, right] = if peer.epoch < self.me.epoch { [them, us] } else { [us, them] };
            let text = format!(
                "{left} was left behind when {right} was forced to start: reset {left} and join it"
            );
            (PeerRefusalReason::OtherEpoch, text)
        } else if self.forgotten.contains(&peer.number) {
            let text =
                format!("{them} was removed from the cluster of {us}: reset it, then join it");
            (PeerRefusalReason::Forgotten, text)
        } else {
            return Ok(());
        };
        Err(PeerRefusal::new(reason, text))
    }

    /// Another node that has the name of a peer, or this one if the peer has its name or number.
    fn namesake(&self, peer: &NodeIdentity) -> Option<NodeNumber> {
        if self.me.name == peer.name || self.me.number == peer.number {
            return Some(self.me.number);
        }
        let mut others = self.members.iter().filter(|(node, _)| **node != peer.number);
        others.find(|(_, known)| known.name == peer.name).map(|(node, _)| *node)
    }

    /// Takes a connection whose handshake is done. An earlier one of its kind ends, and so do all of an
    /// earlier life of the peer; the host tells [`Liveness`](crate::Liveness) of those of other kinds.
    ///
    /// # Errors
    /// Meanwhile a newer life of the peer has connected, or the peer was removed: the connection is closed.
    pub fn admit(
        &mut self,
        established: &PeerEstablished,
        now: MonotonicMs,
    ) -> Result<PeerAdmitted, PeerRefusal> {
        let hello = &established.peer;
        let dialled = established.role == HandshakeRole::Dialler;
        self.judge(hello, dialled.then_some(hello.identity.number))?;
        self.n_connections += 1;
        let number = ConnectionNumber(self.n_connections);
        let mut ended = Vec::new();
        let kind = hello.kind;
        if let (Some(known), Some(place)) =
            (self.members.get_mut(&hello.identity.number), kind.place())
        {
            if hello.identity.boot > known.boot {
                known.boot = hello.identity.boot;
                ended = known.open();
                known.slots.iter_mut().for_each(|slot| slot.set_closed(now, 0));
            }
            let slot = known.slots.get_mut(place);
            let replaced = slot.and_then(|slot| slot.set_open(number, now));
            ended.extend(replaced.map(|replaced| (kind, replaced)));
        }
        Ok(PeerAdmitted { number, ended })
    }

    /// Notes that a connection has ended; false if another has taken its place. `random` spreads attempts.
    pub fn closed(
        &mut self,
        node: NodeNumber,
        connection: (ConnectionKind, ConnectionNumber),
        now: MonotonicMs,
        random: u64,
    ) -> bool {
        let (kind, number) = connection;
        let slot = self.slot(node, kind).filter(|slot| slot.open() == Some(number));
        slot.map(|slot| slot.set_closed(now, random)).is_some()
    }

    /// Notes that an attempt has failed, or was refused by either side.
    pub fn dial_failed(
        &mut self,
        dial: &PeerDial,
        refusal: Option<PeerRefusalReason>,
        now: MonotonicMs,
        random: u64,
    ) {
        if let Some(slot) = self.slot(dial.node, dial.kind) {
            slot.failed(now, random, refusal);
        }
    }

    /// The attempts that are due; returns when the next one will be.
    pub fn dials(&mut self, now: MonotonicMs, dials: &mut Vec<PeerDial>) -> MonotonicMs {
        let mut next = MonotonicMs::NEVER;
        for (node, known) in &mut self.members {
            if *node < self.me.number {
                continue;
            }
            for (kind, slot) in ConnectionKind::HELD.into_iter().zip(&mut known.slots) {
                if slot.due() <= now {
                    let (deadline, address) = (slot.dial(now), known.address.clone());
                    dials.push(PeerDial { node: *node, kind, address, deadline });
                }
                next = next.min(slot.due());
            }
        }
        next
    }

    fn slot(&mut self, node: NodeNumber, kind: ConnectionKind) -> Option<&mut ConnectionSlot> {
        self.members.get_mut(&node)?.slots.get_mut(kind.place()?)
    }
}

impl KnownPeer {
    /// The connections that are open.
    fn open(&self) -> Vec<(ConnectionKind, ConnectionNumber)> {
        let slots = ConnectionKind::HELD.into_iter().zip(&self.slots);
        slots.filter_map(|(kind, slot)| Some((kind, slot.open()?))).collect()
    }
}
