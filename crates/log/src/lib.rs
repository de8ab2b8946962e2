//! Disk: the node-wide write-ahead log with group commit, atomic snapshot files, the data directory.
//! Knows entries as a kind and bytes. Never queues, messages, protocols, sockets, configuration files.
//! Start reading at [`Wal`], then [`Disk`]; the block format is drawn in `block.rs`.

mod block;
mod data_dir;
mod disk;
mod error;
mod files;
mod position;
mod slots;
mod snapshot;
mod stamp;
mod wal;

pub use block::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, crc32c};
pub use data_dir::{DataDir, FORMAT_FILE, FORMAT_VERSION, LOCK_FILE, may_be_new, version_in};
pub use disk::{
    Disk, DiskFile, DiskLock, FileKind, FileTraffic, OpenMode, RESERVE_BYTES_MAX, RESERVE_FILE,
    RealDisk, ReservedDisk, Scarcity, Space,
};
pub use error::{IoContext, LogError, Refused};
pub use files::{list_if_there, read_file};
pub use position::{EntryAddress, Lsn, NodeId, Owner, SegmentId};
pub use slots::SlotFile;
pub use snapshot::{
    read_snapshot, read_stamped, replace_file, salvage_snapshot, write_snapshot, write_stamped,
};
pub use stamp::{STAMP_BYTES, Stamp, Stamper};
pub use wal::{
    Appended, Batch, BeforeCommit, CommitListener, Durability, Entry, Identities, LOG_FILE,
    MAX_APPEND_BYTES, OnFailure, SYNC_MICROS, Salvaged, SegmentCounts, SegmentState, Stepper, Tail,
    Wal, WalFound, WalOptions, WalStats,
};

// The unit tests' disk, from its source: the one of the crate `testing` is a disk of the log without tests.
#[cfg(test)]
extern crate self as log;
#[cfg(test)]
#[path = "../../testing/src/memory_disk.rs"]
pub mod memory_disk;
#[cfg(test)]
#[path = "../../testing/src/random.rs"]
pub mod random;
