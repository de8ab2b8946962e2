//! The wishes of whoever reads.

use streamproto::ChunkType;

use crate::bloom::FilterMatcher;

/// Which chunks a reader gives. None gives chunks of types that nobody knows, or of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkSelector {
    /// Those with messages.
    #[default]
    UserData,
    /// Those with tracking records too.
    All,
}

impl ChunkSelector {
    pub(crate) const fn takes(self, chunk_type: ChunkType) -> bool {
        match (self, chunk_type) {
            (_, ChunkType::USER) => true,
            (Self::All, kind) => {
                matches!(kind, ChunkType::TRACKING_DELTA | ChunkType::TRACKING_SNAPSHOT)
            }
            (Self::UserData, _) => false,
        }
    }
}

/// How much is read from a file beyond the chunk that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// By what was seen: after a small chunk more and more, up to 64 KiB; after a large one nothing.
    #[default]
    Adaptive,
    /// Nothing: a read for the header, and one for the data. What RabbitMQ 4.1 does, and 4.2 with
    /// `stream.read_ahead = false`.
    Off,
    /// So many bytes after a chunk that fits in there, nothing after others or with a filter: what
    /// RabbitMQ 4.2 does with `stream.read_ahead_limit`.
    Limit(u32),
}

/// The data of chunks from this size on is sent from the file.
pub const FILE_RANGE_BYTES_MIN_DEFAULT: u64 = 64 << 10;

/// The wishes of whoever reads.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Which chunks.
    pub selector: ChunkSelector,
    /// Passes over chunks that it does not match.
    pub filter: Option<FilterMatcher>,
    /// How much is read beyond.
    pub read_ahead: ReadAhead,
    /// The data of chunks from this size on is given as a range of the file, unless it is read already.
    pub file_range_bytes_min: u64,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self {
            selector: ChunkSelector::default(),
            filter: None,
            read_ahead: ReadAhead::default(),
            file_range_bytes_min: FILE_RANGE_BYTES_MIN_DEFAULT,
        }
    }
}

impl ReaderOptions {
    /// Whether chunks are read ahead, and none of them passed over for its filter.
    pub(crate) fn is_plain(&self) -> bool {
        self.filter.is_none() && self.read_ahead != ReadAhead::Off
    }
}
