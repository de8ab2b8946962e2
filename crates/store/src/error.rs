//! The failures of a queue's files, and who has to act.

use std::sync::OnceLock;

use log::LogError;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk refused, a file is corrupt or newer than this program.
    #[error(transparent)]
    Disk(#[from] LogError),
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
        matches!(self, Self::Poisoned { .. } | Self::Disk(LogError::Io { .. }))
    }

    pub(crate) fn corrupt(file: &str, offset: u64, what: &'static str) -> Self {
        Self::Disk(LogError::Corrupt { file: file.to_owned(), offset, what })
    }
}

/// The first failed write or sync of a store, after which none succeeds: nobody knows what is on
/// the medium, and a second sync would not tell.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// An error if the store in `dir` has failed.
    pub(crate) fn check(&self, dir: &str) -> Result<()> {
        let Some(reason) = self.0.get() else { return Ok(()) };
        Err(StoreError::Poisoned { dir: dir.to_owned(), reason: reason.clone() })
    }

    /// Remembers the error, if it is the first.
    pub(crate) fn by(&self, error: StoreError) -> StoreError {
        self.0.get_or_init(|| error.to_string());
        error
    }
}
