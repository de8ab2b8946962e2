//! Disk: the node-wide write-ahead log with group commit, the data directory.
//! Knows entries as a kind and bytes. Never queues, messages, protocols, sockets, configuration files.
//! Start reading at [`Wal`]; the block format is drawn in `block.rs`.

mod block;
mod data_dir;
mod error;
mod identity;
mod notes;
mod position;
mod wal;

pub use block::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES};
pub use data_dir::{DataDir, FORMAT_FILE, FORMAT_VERSION, LOCK_FILE, may_be_new, version_in};
pub use error::LogError;
pub use identity::{NODE_FILE, NodeIdentity};
pub use notes::{NodeNote, wipe_data};
pub use position::{ClusterId, EntryAddress, NodeId, NodeNumber, Owner, SegmentId};
pub use segments::{Lsn, Stamp, Stamper};
pub use wal::{
    Appended, Batch, BeforeCommit, CommitListener, Durability, Entry, Identities, LOG_FILE,
    MAX_APPEND_BYTES, OnFailure, RefusedEntry, SYNC_MICROS, Salvaged, SegmentCounts, SegmentState,
    Stepper, Tail, Wal, WalFound, WalOptions, WalStats,
};
