//! The members of the cluster as the definitions name them.

use log::NodeNumber;
use member::Membership;
use meta::{ClusterAddress, ClusterNode, ClusterNodes};
use peer::PeerAddress;
use std::collections::BTreeMap;
use stdx::MonotonicMs;

/// The address of a node, as connections take it.
#[must_use]
pub fn peer_address(ClusterAddress { host, port }: &ClusterAddress) -> PeerAddress {
    PeerAddress { host: host.to_string(), port: *port }
}

/// The members that the node's connections know.
#[derive(Debug, Default)]
pub(crate) struct FollowedMembers(BTreeMap<u16, ClusterNode>);

impl FollowedMembers {
    /// Has connections follow the definitions; returns whether there are members to be dialled anew. A node
    /// that was removed keeps its connections while `has_replica` tells that the group counts it: its vote
    /// may be needed for its removal.
    pub(crate) fn follow(
        &mut self,
        nodes: &ClusterNodes,
        membership: &Membership,
        has_replica: impl Fn(u16) -> bool,
        now: MonotonicMs,
    ) -> bool {
        let mut any = false;
        for node in nodes.iter() {
            if self.0.get(&node.no) != Some(node) {
                let address = peer_address(&node.address);
                let peer = (NodeNumber(node.no), node.boot);
                membership.set_member(peer, &node.name, address, now);
                self.0.insert(node.no, node.clone());
                any = true;
            }
        }
        let gone = self.0.extract_if(.., |no, _| nodes.get(*no).is_none() && !has_replica(*no));
        for (no, _) in gone {
            // The connections' sockets end with their links.
            let _ended = membership.forget(NodeNumber(no));
        }
        any
    }

    /// Whether connections are left of nodes that were removed.
    pub(crate) fn has_others(&self, nodes: &ClusterNodes) -> bool {
        self.0.keys().any(|no| nodes.get(*no).is_none())
    }
}
