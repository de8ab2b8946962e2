//! Disk: the node-wide write-ahead log with group commit, the data directory.
//! Knows entries as a kind and bytes. Never queues, messages, protocols, sockets, configuration files.
//! Start reading at [`Wal`]; the block format is drawn in `block.rs`.

mod block;
mod data_dir;
mod position;
mod wal;

pub use block::{BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES};
pub use data_dir::{DataDir, FORMAT_FILE, FORMAT_VERSION, LOCK_FILE, may_be_new, version_in};
pub use position::{EntryAddress, NodeId, Owner, SegmentId};
pub use segments::{
    Disk, DiskFile, DiskLock, FileKind, FileTraffic, IoContext, LogError, Lsn, OpenMode,
    RESERVE_BYTES_MAX, RESERVE_FILE, RealDisk, ReservedDisk, STAMP_BYTES, Scarcity, SlotFile,
    Space, Stamp, Stamper, crc32c, list_if_there, read_file, read_snapshot, read_stamped,
    replace_file, salvage_snapshot, write_snapshot, write_stamped,
};
pub use wal::{
    Appended, Batch, BeforeCommit, CommitListener, Durability, Entry, Identities, LOG_FILE,
    MAX_APPEND_BYTES, OnFailure, Refused, SYNC_MICROS, Salvaged, SegmentCounts, SegmentState,
    Stepper, Tail, Wal, WalFound, WalOptions, WalStats,
};
