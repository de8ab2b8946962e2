//! A node of a cluster at run time: messages of peers go to the replicas of this node, those of the replicas
//! to the peers; who is a peer is told by the definitions.
//! Knows no sockets, threads, files; the clock is given.
//! Start reading at [`ClusterHost`].

mod clock;
mod host;
mod members;
mod questions;
mod ways;

pub use clock::HostClock;
pub use host::{ClusterHost, HostTick};
pub use members::peer_address;
pub use questions::{PeerQuestion, PendingReply};
