//! Events of a node's peers, for the host.

use cluster::GroupStep;
use log::NodeNumber;
use peer::{ConnectionKind, Suspicion};

use crate::links::PeerConnection;

/// An event for the host, which carries events out in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// A peer is alive, again or for the first time.
    Alive {
        /// The peer.
        node: NodeNumber,
        /// The life that it is in.
        boot: u32,
    },
    /// A peer that was alive is suspected.
    Suspected {
        /// The peer.
        node: NodeNumber,
        /// The reason.
        suspicion: Suspicion,
    },
    /// A peer that was alive is no member any more.
    Forgotten(NodeNumber),
    /// A link has a connection, for the first time or again: frames were lost before.
    LinkMade(NodeNumber, ConnectionKind),
    /// A connection is stuck: its link has ended it, the host closes its socket.
    Stuck(PeerConnection),
    /// The clocks of this node and a peer differ by more than a second. An event comes once an hour.
    ClockSkew {
        /// The peer.
        node: NodeNumber,
        /// Milliseconds that the peer's clock is ahead; less than 0 if it is behind.
        skew_ms: i64,
    },
}

impl MemberEvent {
    /// The step that each group with a replica on the event's node is to take, and that node.
    #[must_use]
    pub const fn group_step(&self) -> Option<(NodeNumber, GroupStep)> {
        match self {
            Self::Alive { node, .. } | Self::LinkMade(node, ConnectionKind::Raft) => {
                Some((*node, GroupStep::Alive(node.0, true)))
            }
            Self::Suspected { node, .. } | Self::Forgotten(node) => {
                Some((*node, GroupStep::Alive(node.0, false)))
            }
            Self::LinkMade(..) | Self::Stuck(_) | Self::ClockSkew { .. } => None,
        }
    }
}
