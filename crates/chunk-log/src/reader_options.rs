//! The options of a reader.

use streamproto::ChunkType;

use crate::bloom::FilterMatcher;

/// Which chunks a reader gives. Chunks of unknown types and of the engine are never given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkSelector {
    /// Chunks with messages.
    #[default]
    UserData,
    /// Chunks with messages or tracking records.
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
    /// By the chunks seen: after a small one more and more bytes, up to 64 KiB; after a large one none.
    #[default]
    Adaptive,
    /// No read-ahead: a read for the header, and one for the data, as in RabbitMQ 4.1, and in 4.2 with
    /// `stream.read_ahead = false`.
    Off,
    /// The bytes of a read after a chunk that fits in there; none after others or with a filter, as in
    /// RabbitMQ 4.2 with `stream.read_ahead_limit`.
    Limit(u32),
}

/// The data of chunks from this size on is sent from the file.
pub const FILE_RANGE_BYTES_MIN_DEFAULT: u64 = 64 << 10;

/// The options of a reader.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The chunks to give.
    pub selector: ChunkSelector,
    /// The filter: chunks that it does not match are passed over.
    pub filter: Option<FilterMatcher>,
    /// The bytes that are read beyond the chunk that is due.
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
