//! Files of a data directory: the seam to the disk, and the parts that all files of segments have in common.
//! Knows names, headers, checksums and bytes. Never entries of the log, messages, chunks, configuration.
//! Start reading at [`Disk`]; then `files.rs`, `slots.rs` and `snapshot.rs`.

mod checksum;
mod disk;
mod error;
mod files;
mod slots;
mod snapshot;
mod stamp;

pub use checksum::crc32c;
pub use disk::{
    Disk, DiskFile, DiskLock, FileKind, FileTraffic, OpenMode, RESERVE_BYTES_MAX, RESERVE_FILE,
    RealDisk, ReservedDisk, Scarcity, Space,
};
pub use error::{IoContext, LogError, Result};
pub use files::{list_if_there, read_file};
pub use slots::SlotFile;
pub use snapshot::{
    read_snapshot, read_stamped, replace_file, salvage_snapshot, write_snapshot, write_stamped,
};
pub use stamp::{Lsn, STAMP_BYTES, Stamp, Stamper};
