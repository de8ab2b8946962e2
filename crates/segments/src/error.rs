//! The failures of files, and who has to act.

use std::io;

/// Every error of this crate. None of them is worth a retry on the same open file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
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
}

impl FileError {
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
pub type Result<T> = std::result::Result<T, FileError>;

/// Adds the operation and the file to an operating system error.
pub trait IoContext<T> {
    /// `what` is a verb ("write"), `file` relative to the disk's root.
    fn context(self, what: &'static str, file: &str) -> std::result::Result<T, FileError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, what: &'static str, file: &str) -> Result<T> {
        self.map_err(|source| FileError::Io { what, file: file.to_owned(), source })
    }
}
