//! The log of chunks of one stream on disk: segments and their indexes, retention, recovery, readers with
//! read-ahead. Knows files (through [`segments::Disk`]) and chunks' headers. Never queues, consumers,
//! sessions, commands of a protocol, clocks (time is an argument), threads. Start reading at
//! [`ChunkLog`], which writes, and [`Reader`]; formats are drawn in `segment.rs` and `index.rs`.
//!
//! ```text
//! finished chunks -> ChunkLog::append -> LogEnd -> LogView::set_committed -> Reader::read_next -> chunks
//! ```
//! The log is a sink: the maker of chunks gives them their ids, epochs and times, and puts a snapshot of the
//! [`Tracking`] in front when [`ChunkLog::is_snapshot_due`] says so. The host says what is committed; only
//! followers read beyond that.
//!
//! - **Offsets and ordinals.** A chunk takes at least one offset, whatever its type, so its id names it. The
//!   ordinal counts chunks since the stream's beginning.
//! - **Seals.** The maker of chunks seals them ([`seal_chunk`]), so that a start notices every torn one.
//! - **Failures.** After a failed write or sync a log takes nothing more until it is opened anew.

mod bloom;

mod chunk;
mod counters;
mod damage;
mod error;
mod field;
mod files;
mod index;
mod lack;
mod lookup;
mod notes;
mod range;
mod reader;
mod reader_options;
mod recovery;
mod removal;
mod restore;
mod retention;
mod scan;
mod scrub;
mod seal;
mod segment;
mod shared;
mod sync;
mod table;
mod tail;
mod tracking;
mod window;
mod writer;

pub use bloom::{BloomFilter, FilterMatcher};
pub use chunk::{ChunkAtHand, ChunkBytes, FileRange, StoredChunk};
pub use counters::ReadCounts;
pub use damage::{Damage, Lack};
pub use error::{ChunkLogError, RefusalReason, Result};
pub use files::StreamFiles;
pub use lack::find_unaccepted;
pub use lookup::Start;
pub use notes::LogNotes;
pub use range::{Bound, ChunkRange, Range, RangeStart};
pub use reader::{Next, Reader, Wait};
pub use reader_options::{ChunkSelector, FILE_RANGE_BYTES_MIN_DEFAULT, ReadAhead, ReaderOptions};
pub use recovery::{Cut, Recovered};
pub use removal::{delete_log, is_blank, move_log};
pub use retention::{Retention, SEGMENT_CHUNKS_MAX};
pub use scrub::{DAMAGE_MAX, SCRUB_STEP_BYTES, Scrub, Scrubbed};
pub use seal::seal_chunk;
pub use shared::{DAMAGED_CHUNKS_MAX, LogEnd, LogView};
pub use sync::SyncJob;
pub use table::{STREAMS_FILE, StreamNote, StreamTable};
pub use tracking::{REFERENCES_MAX, SNAPSHOT_SEQUENCES_MAX, Sequence, Tracking};
pub use writer::{Appended, ChunkLog, LogOptions, SEGMENT_BYTES_MAX_DEFAULT, may_be_too_old};

use streamproto::ChunkType;

/// The directory of all streams below the data directory's root; a stream's own is its id below it.
pub const STREAMS_DIR: &str = "streams";

/// The type of chunks that the engine writes for itself: nothing, or who replicates the stream. No
/// client ever sees one.
pub const ENGINE_CHUNK: ChunkType = ChunkType(0x80);
