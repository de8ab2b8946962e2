//! Failures of a disk, and who has to act.

use std::borrow::Cow;
use std::io;

use crate::stamp::Lsn;

/// Every error of files and of the log. None of them is worth a retry on the same open file.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused an operation on `file`.
    #[error("cannot {what} {file}: {source}")]
    Io {
        /// The operation, as a verb: "write", "sync".
        what: &'static str,
        /// The file or directory, relative to the disk's root.
        file: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Data that had been made durable cannot be read back.
    #[error("{file} is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// The file, relative to the disk's root.
        file: String,
        /// Where the first unusable byte range begins.
        offset: u64,
        /// The bytes that were found there.
        what: &'static str,
    },
    /// A file or directory that must be there is not.
    #[error("{file} is missing: {what}")]
    Missing {
        /// The file or directory, relative to the disk's root.
        file: String,
        /// The evidence for that.
        what: String,
    },
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
    /// The file was written by a newer Leveret.
    #[error("{file} has format version {found}; this Leveret reads up to version {known}")]
    Newer {
        /// The file, relative to the disk's root.
        file: String,
        /// The version found in the file.
        found: u32,
        /// The newest version this program reads.
        known: u32,
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

impl LogError {
    /// Whether the operating system refused for this reason.
    #[must_use]
    pub fn is_kind(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == kind)
    }

    /// Whether a file or directory is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is_kind(io::ErrorKind::NotFound)
    }
}

/// The result of operations on files.
pub type Result<T> = std::result::Result<T, LogError>;

/// Adds the operation and the file to an operating system error.
pub trait IoContext<T> {
    /// `what` is a verb ("write"), `file` relative to the disk's root.
    fn context(self, what: &'static str, file: &str) -> std::result::Result<T, LogError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, what: &'static str, file: &str) -> Result<T> {
        self.map_err(|source| LogError::Io { what, file: file.to_owned(), source })
    }
}
