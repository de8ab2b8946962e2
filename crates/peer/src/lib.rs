//! Connections between the nodes of a cluster as values: handshakes, frames, links, pulses, which peers are
//! known and which are alive.
//! Knows bytes, identities and times that are given. Never sockets, clocks, threads, groups, queues.
//! Start reading at [`FrameDecoder`].

mod connection;
mod frame;
mod kinds;
mod link;

pub use connection::{ConnectionNumber, LinkClass};
pub use frame::{FRAME_BYTES_MAX, FRAME_HEAD_BYTES, PIECE_BYTES_MAX};
pub use frame::{FrameBody, FrameDecoder, PeerFrame, put_frame};
pub use kinds::{FrameError, FrameKind, KindRow, Vocabulary};
pub use link::{LinkBatch, LinkEnd, LinkLimits, LinkOut, LinkTraffic, PeerLink, TakenFromLink};
