//! The failures of a log of chunks, and who has to act.

use segments::FileError;

use crate::damage::Lack;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum ChunkLogError {
    /// The disk refused, or a file is damaged or newer than this program.
    #[error(transparent)]
    Disk(#[from] FileError),
    /// The caller's mistake: what was to be appended or cut off does not belong there. Nothing has changed.
    #[error("{dir}: {reason}")]
    Refused {
        /// The stream's directory, relative to the disk's root.
        dir: String,
        /// The mistake.
        reason: RefusalReason,
    },
    /// A write or sync failed earlier: the log takes nothing more until it is opened anew.
    #[error("{dir} failed earlier and accepts no more writes: {reason}")]
    Failed {
        /// The stream's directory, relative to the disk's root.
        dir: String,
        /// The first failure, as text.
        reason: String,
    },
    /// Files that were synced are missing. Nothing was changed; the log opens once the loss is accepted.
    #[error("{}", .0.what)]
    Lost(Lack),
    /// The reader has to read from the device, and was told not to wait.
    #[error("the data has not been read into memory")]
    WouldBlock,
}

/// The mistake in what the log was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// The headers are not those of the bytes.
    #[error("the headers announce {expected} bytes of chunks, the data has {found}")]
    Length {
        /// The bytes by the headers.
        expected: u64,
        /// The bytes in the buffer.
        found: u64,
    },
    /// A chunk does not follow on the one before.
    #[error("the chunk has offset {found}, expected {expected}")]
    Offset {
        /// The next offset.
        expected: u64,
        /// The chunk's id.
        found: u64,
    },
    /// A chunk of an epoch that is over.
    #[error("the chunk has epoch {found}, the one before has {last}")]
    Epoch {
        /// The epoch of the last chunk.
        last: u64,
        /// The epoch of the new chunk.
        found: u64,
    },
    /// A chunk that takes no offset.
    #[error("the chunk has no records")]
    NoRecords,
    /// A chunk without a seal, of which a start could not tell whether it is torn.
    #[error("the chunk at offset {0} has no seal")]
    NoSeal(u64),
    /// More chunks than a segment holds.
    #[error("one write has more chunks than a segment holds")]
    TooMuch,
    /// A cut of what is committed, which stays.
    #[error("cannot truncate at ordinal {0}: chunks from there on are committed")]
    Committed(u64),
}

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, ChunkLogError>;

impl ChunkLogError {
    /// The error of a log in `dir` that has failed for this reason.
    pub(crate) fn failed(dir: &str, reason: String) -> Self {
        Self::Failed { dir: dir.to_owned(), reason }
    }

    /// The error of an operation on a log in `dir` that is the caller's mistake.
    pub(crate) fn refused(dir: &str, reason: RefusalReason) -> Self {
        Self::Refused { dir: dir.to_owned(), reason }
    }

    pub(crate) fn corrupt(file: &str, offset: u64, what: &'static str) -> Self {
        Self::Disk(FileError::Corrupt { file: file.to_owned(), offset, what })
    }

    /// Whether a file is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_not_found())
    }

    /// Whether what was read is not what was written.
    pub const fn is_corrupt(&self) -> bool {
        matches!(self, Self::Disk(FileError::Corrupt { .. }))
    }
}
