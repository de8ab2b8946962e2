//! A node's part in its cluster: the peers that it knows, the links to them, who is alive, what Raft groups
//! send over the links and when each group is to be stepped again.
//! Knows bytes, identities, times and log positions that are given. Never sockets, clocks, threads, files,
//! queues, what a group's commands or a node's questions mean.
//! Start reading at [`Membership`]; the frames of groups are in `vocabulary.rs`.

mod event;
mod held;
mod links;
mod membership;
mod timers;
mod vocabulary;

pub use event::MemberEvent;
pub use held::{HELD_BYTES_MAX, HELD_MESSAGES_MAX};
pub use links::PeerConnection;
pub use membership::{MemberAdmission, Membership, MembershipOptions, PulseHealth};
pub use timers::{GroupTimers, GroupWork};
pub use vocabulary::{GROUP_ROWS, PeerInput, PeerInputError, vocabulary};
