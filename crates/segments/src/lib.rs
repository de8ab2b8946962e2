//! Files of a data directory: the seam to the disk, and the parts that all files of segments have in common.
//! Knows names, headers, checksums and bytes. Never entries of the log, messages, chunks, configuration.
//! Start reading at [`Disk`] and [`File`]; then [`FileCache`], [`SlotTable`], [`NameForm`] and [`Window`].

mod cache;
mod checksum;
mod disk;
mod error;
mod file;
mod names;
mod poison;
mod slots;
mod snapshot;
mod stamp;
mod table;
mod window;

pub use cache::{CachedFile, FileCache};
pub use checksum::{CHECKED_AT, crc32c, seal_record, unseal_record};
pub use disk::{
    Disk, DiskFile, DiskLock, FileKind, FileTraffic, OpenMode, RESERVE_BYTES_MAX, RESERVE_FILE,
    RealDisk, ReservedDisk, Scarcity, Space,
};
pub use error::{FileError, IoContext, Result};
pub use file::{
    File, list_if_there, read_file, remove, remove_if_there, rename_if_there, sync_dir, sync_name,
};
pub use names::{Digits, NameForm};
pub use poison::Poison;
pub use slots::SlotFile;
pub use snapshot::{
    STAMPED_PAYLOAD_AT, read_snapshot, read_stamped, replace_file, salvage_snapshot,
    write_snapshot, write_stamped,
};
pub use stamp::{Lsn, STAMP_BYTES, Stamp, Stamper};
pub use table::{SlotTable, TableRecord};
pub use window::Window;
