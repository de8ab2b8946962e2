//! Why a start fails.

use chunk_log::ChunkLogError;
use log::LogError;
use segments::FileError;
use store::StoreError;

/// Why the broker cannot start on its data.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file beside the log.
    #[error(transparent)]
    File(#[from] FileError),
    /// The files of pages.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The files of a stream.
    #[error(transparent)]
    Stream(#[from] ChunkLogError),
    /// The machine of a quorum queue, or its commands, in the log.
    #[error("quorum queue {queue} cannot be restored: {reason}; is it of a newer version?")]
    Machine {
        /// The queue's id.
        queue: u64,
        /// The reason.
        reason: String,
    },
    /// The system gives no threads.
    #[error("cannot start the threads of the storage: {0}")]
    Threads(std::io::Error),
    /// The definitions cannot be read.
    #[error("the definitions in {file} cannot be read: {reason}")]
    Definitions {
        /// The file.
        file: &'static str,
        /// The reason.
        reason: String,
    },
}

impl OpenError {
    /// Whether data is damaged or missing, so that a repair may help.
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Stream(ChunkLogError::Lost(_)) => true,
            Self::Log(LogError::File(error))
            | Self::File(error)
            | Self::Store(StoreError::Disk(error)) => {
                !matches!(error, FileError::Io { .. } | FileError::Newer { .. })
            }
            Self::Log(_) | Self::Definitions { .. } => true,
            Self::Store(_) | Self::Stream(_) | Self::Machine { .. } | Self::Threads(_) => false,
        }
    }
}
