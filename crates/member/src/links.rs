//! A node's links to its peers, three to each.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use log::NodeNumber;
use peer::{ConnectionKind, ConnectionNumber, LinkLimits, PeerLink};

/// A connection with a peer, among all of this life of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerConnection {
    /// The peer; 0 if it is no member.
    pub node: NodeNumber,
    /// The purpose.
    pub kind: ConnectionKind,
    /// The number.
    pub number: ConnectionNumber,
}

/// The links of each peer, in the order of [`ConnectionKind::HELD`].
type LinksOfPeer = [Arc<PeerLink>; ConnectionKind::HELD.len()];

/// A node's links to its peers.
#[derive(Debug)]
pub(crate) struct PeerLinks {
    limits: LinkLimits,
    links: RwLock<BTreeMap<NodeNumber, LinksOfPeer>>,
}

impl PeerLinks {
    pub(crate) const fn new(limits: LinkLimits) -> Self {
        Self { limits, links: RwLock::new(BTreeMap::new()) }
    }

    /// Makes the links of a peer, unless they are there.
    pub(crate) fn add(&self, node: NodeNumber) {
        let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
        let limits = self.limits;
        links
            .entry(node)
            .or_insert_with(|| ConnectionKind::HELD.map(|_| Arc::new(PeerLink::new(limits))));
    }

    /// Ends the links of a peer.
    pub(crate) fn remove(&self, node: NodeNumber) {
        let removed = self.links.write().unwrap_or_else(PoisonError::into_inner).remove(&node);
        for link in removed.iter().flatten() {
            end(link);
        }
    }

    /// The peers that have links.
    pub(crate) fn nodes(&self) -> Vec<NodeNumber> {
        self.links.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    pub(crate) fn get(&self, node: NodeNumber, kind: ConnectionKind) -> Option<Arc<PeerLink>> {
        let place = ConnectionKind::HELD.iter().position(|held| *held == kind)?;
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        links.get(&node)?.get(place).cloned()
    }

    /// Ends the connection of a link, whichever there is; returns it.
    pub(crate) fn end(&self, node: NodeNumber, kind: ConnectionKind) -> Option<PeerConnection> {
        let number = end(self.get(node, kind)?.as_ref())?;
        Some(PeerConnection { node, kind, number })
    }

    pub(crate) fn close(&self, connection: PeerConnection) {
        if let Some(link) = self.get(connection.node, connection.kind) {
            link.close(connection.number);
        }
    }
}

fn end(link: &PeerLink) -> Option<ConnectionNumber> {
    let connection = link.connection();
    connection.into_iter().for_each(|number| link.close(number));
    connection
}
