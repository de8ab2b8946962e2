//! The failures of the log and of the data directory, and who has to act.

use std::borrow::Cow;

use segments::{FileError, Lsn};

/// Every error of this crate. None of them is worth a retry on the same open log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk refused, or a file is damaged, missing, or newer than this program.
    #[error(transparent)]
    File(#[from] FileError),
    /// The log ends before entries that had been synced.
    #[error(
        "the log ends in {file} at byte {offset} with entry {}; {told_by} lists entry {} as synced: \
         {} entries are lost",
        .upto.0, .synced.0, .synced.0.saturating_sub(.upto.0)
    )]
    CutOff {
        /// The last segment file, relative to the disk's root.
        file: String,
        /// The byte at which the readable part of the file ends.
        offset: u64,
        /// The last entry there is.
        upto: Lsn,
        /// The last entry that was synced, as far as is known.
        synced: Lsn,
        /// The file that tells.
        told_by: String,
    },
    /// The directory or file is not Leveret's.
    #[error("{file}: {what}")]
    Foreign {
        /// The file or directory.
        file: String,
        /// Why it is not taken for Leveret's.
        what: &'static str,
    },
    /// Another process holds the data directory.
    #[error("another node is running on this data directory ({file} is locked)")]
    Locked {
        /// The lock file.
        file: String,
    },
    /// The caller refused a surviving entry.
    #[error("cannot apply entry {} in {file}: {reason}", .lsn.0)]
    Refused {
        /// The segment file.
        file: String,
        /// The entry's position.
        lsn: Lsn,
        /// The caller's words.
        reason: Cow<'static, str>,
    },
    /// The log failed earlier; nothing appended since the last commit is durable.
    #[error("the log failed earlier and accepts no more entries: {reason}")]
    Poisoned {
        /// The first failure, as text.
        reason: String,
    },
}

/// The result of operations on the log.
pub(crate) type Result<T> = std::result::Result<T, LogError>;
