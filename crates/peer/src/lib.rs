//! Connections between the nodes of a cluster as values: handshakes, frames, links, pulses, which peers are
//! known and which are alive.
//! Knows bytes, identities and times that are given. Never sockets, clocks, threads, groups, queues.
//! Start reading at [`FrameDecoder`].

mod connection;
mod frame;
mod handshake;
mod hello;
mod kinds;
mod link;
mod liveness;
mod message;
mod peers;
mod pulse;
mod refusal;
mod session_frame;

pub use connection::{ConnectionKind, ConnectionNumber, LinkClass};
pub use frame::{FRAME_BYTES_MAX, FRAME_HEAD_BYTES, PIECE_BYTES_MAX};
pub use frame::{FrameBody, FrameDecoder, PeerFrame, put_frame};
pub use handshake::{HANDSHAKE_MS, HandshakeError, HandshakeRole};
pub use handshake::{PeerCookie, PeerEstablished, PeerHandshake};
pub use hello::{HANDSHAKE_BYTES_MAX, PEER_VERSIONS, PeerHello, SpokenRange};
pub use kinds::{FrameError, FrameKind, KindRow, Vocabulary};
pub use link::{LinkBatch, LinkEnd, LinkLimits, LinkOut, LinkTraffic, PeerLink, TakenFromLink};
pub use liveness::{Liveness, LivenessEvent, Suspicion};
pub use message::{NODE_ROWS, NodeMessage, QUESTION_BYTES_MAX, REPLY_BYTES_MAX};
pub use peers::{PeerAddress, PeerAdmitted, PeerDial, PeerSet};
pub use pulse::{PULSE_INTERVAL_MS, PULSE_ROWS, Pulse, PulseAlarms};
pub use refusal::{PeerRefusal, PeerRefusalReason};
pub use session_frame::{SESSION_ROWS, SessionFrame};
