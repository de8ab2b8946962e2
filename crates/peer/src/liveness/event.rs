//! Events of peers, for the host.

use crate::connection::ConnectionKind;
use log::NodeNumber;

/// An event for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LivenessEvent {
    /// A peer that was alive is suspected.
    Suspected {
        /// The peer.
        node: NodeNumber,
        /// The reason.
        suspicion: Suspicion,
    },
    /// A peer is alive, again or for the first time.
    Alive {
        /// The peer.
        node: NodeNumber,
        /// The life that it is in.
        boot: u32,
    },
    /// A connection is stuck: the host closes it, and whoever dials makes it again.
    Remake {
        /// The peer.
        node: NodeNumber,
        /// The connection.
        kind: ConnectionKind,
    },
    /// The clocks of this node and a peer differ by more than a second. An event comes once an hour.
    ClockSkew {
        /// The peer.
        node: NodeNumber,
        /// Milliseconds that the peer's clock is ahead; less than 0 if it is behind.
        skew_ms: i64,
    },
}

/// A reason to suspect a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// The peer was silent for longer than the limit.
    Silent,
    /// The peer hears nothing of this node.
    Deaf,
    /// The peer has been started again.
    Restarted,
    /// The peer's disk does not sync.
    DiskStalled,
    /// A connection is lost and cannot be made again.
    Unconnected(ConnectionKind),
    /// A connection was stuck again and again.
    Stuck(ConnectionKind),
}
