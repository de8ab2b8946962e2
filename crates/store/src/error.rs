//! The failures of a queue's files, and who has to act.

use segments::FileError;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk refused, a file is corrupt or newer than this program.
    #[error(transparent)]
    Disk(#[from] FileError),
    /// An entry of a file is missing: it was never durable, or was given back.
    #[error("{file} has no entry {index}")]
    Missing {
        /// The file, relative to the disk's root.
        file: String,
        /// The number of the entry that was asked for.
        index: u64,
    },
    /// A write or sync failed earlier: nothing given to the store since its last sync is durable.
    #[error("{dir} failed earlier and accepts no more writes: {reason}")]
    Poisoned {
        /// The store's directory, relative to the disk's root.
        dir: String,
        /// The first failure, as text.
        reason: String,
    },
}

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    /// Whether the disk is to blame: a later try may succeed, or none does. What was read before is not lost.
    pub const fn is_of_disk(&self) -> bool {
        matches!(self, Self::Poisoned { .. } | Self::Disk(FileError::Io { .. }))
    }

    /// The error of a store in `dir` that has failed for this reason.
    #[must_use]
    pub fn poisoned(dir: &str, reason: String) -> Self {
        Self::Poisoned { dir: dir.to_owned(), reason }
    }

    /// The error of bytes at `offset` of a file that are not what was written there.
    #[must_use]
    pub fn corrupt(file: &str, offset: u64, what: &'static str) -> Self {
        Self::Disk(FileError::Corrupt { file: file.to_owned(), offset, what })
    }
}
