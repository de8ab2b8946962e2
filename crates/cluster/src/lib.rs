//! Raft groups over the node's log: what the replicas of one thing agree on, entry by entry.
//! Knows entries, votes, images and their files, members, messages between replicas. Never sockets, clocks,
//! threads, other files besides the log, what a command means.
//! Start reading at [`RaftGroup`] and [`GroupStep`]; the engine is in `engine.rs`.

mod checks;
mod discarding;
mod effects;
mod engine;
mod entry;
mod group;
mod image_store;
mod images;
mod member_steps;
mod members;
mod message;
mod payload_cache;
mod peers;
mod proposals;
mod raft_log;
mod recovery;
mod sparse;
mod step;
mod wire;

pub use discarding::discard_others;
pub use effects::{
    Committed, GroupEffects, GroupRequest, Health, OutgoingMessage, ProposalOutcome, Ticket,
};
pub use engine::{APPEND_BYTES_MAX, Role};
pub use entry::{
    EntryType, Image, ImageFile, KIND_ENTRY, KIND_GONE, KIND_IMAGE, KIND_VOTE, LogRecord,
    NUMBER_MAX, Payload, Vote, is_of_group,
};
pub use group::{Context, GroupProgress, RaftGroup, found_group, lag_of, note_applied};
pub use image_store::{IMAGE_IN_LOG_BYTES_MAX, IMAGES_DIR, ImageStore, ImageWrite, ImageWritten};
pub use images::{IMAGE_BYTES_MAX, PIECE_BYTES};
pub use member_steps::{LEARNER_LAG_MAX, MemberStep, VOTERS_MAX, next_member_step};
pub use members::{Change, LivingNodes, MEMBERS_MAX, Members, PeerId};
pub use message::{ImageOffer, LogEnd, Message, MessageBody, SentEntry};
pub use payload_cache::{CACHE_BYTES_MAX, CacheBudget, NODE_CACHE_BYTES_MAX};
pub use proposals::{GATHERED_BYTES_MAX, PROPOSAL_BYTES_MAX, UNCOMMITTED_BYTES_MAX};
pub use recovery::{FoundGroup, FoundMachine, GroupRecovery};
pub use step::GroupStep;
pub use wire::{APPEND_ENTRIES_MAX, MESSAGE_BYTES_MAX};
