//! The entries of the node itself: how it ended and began.
//!
//! ```text
//! kind  entry      payload (integers little-endian)
//! 17    stopped    (queue u64, next undelivered position u64) ...   last entry of a clean stop
//! 18    started    nothing        the life after a clean stop: its deliveries are in no log
//! 19    unused     (queue u64, milliseconds u64) ...   before `stopped`: for how long nobody had used these
//! ```

use super::NODE;
use log::{Appended, Wal};
use stdx::record::{List, Reader, RecordError};

const KIND_STOPPED: u8 = 17;
const KIND_STARTED: u8 = 18;
const KIND_UNUSED: u8 = 19;

/// An entry of the node as recovery reads it.
#[derive(Debug)]
pub enum NodeEntry<'a> {
    /// A clean stop.
    Stopped {
        /// By id of queue, the first position that was never delivered.
        cursors: List<'a, (u64, u64)>,
    },
    /// A start, which makes the cursors before it void.
    Started,
    /// Queues that were not used before a clean stop.
    Unused {
        /// By id of queue, for how many milliseconds.
        queues: List<'a, (u64, u64)>,
    },
}

/// Appends the note of a clean stop: for each queue the first position nobody was given, and for how many
/// milliseconds nobody had used those that go for that.
pub fn append_stopped(
    wal: &Wal,
    cursors: impl Iterator<Item = (u64, u64)>,
    unused: impl Iterator<Item = (u64, u64)>,
) -> Appended {
    let bytes =
        |(queue, number): (u64, u64)| [queue, number].into_iter().flat_map(u64::to_le_bytes);
    let cursors: Vec<u8> = cursors.flat_map(bytes).collect();
    let unused: Vec<u8> = unused.flat_map(bytes).collect();
    wal.append(|batch| {
        if !unused.is_empty() {
            batch.entry(NODE, KIND_UNUSED, &[&unused]);
        }
        batch.entry(NODE, KIND_STOPPED, &[&cursors]);
    })
}

/// Appends the note that ends the validity of the last stop's cursors.
pub fn append_started(wal: &Wal) -> Appended {
    wal.append(|batch| batch.entry(NODE, KIND_STARTED, &[]))
}

/// Reads an entry of the node.
pub(super) fn parse(kind: u8, payload: &[u8]) -> Result<NodeEntry<'_>, RecordError> {
    let mut reader = Reader::new(payload);
    let reader = &mut reader;
    match kind {
        KIND_STOPPED => Ok(NodeEntry::Stopped { cursors: List::rest(reader, 16, read_pair)? }),
        KIND_STARTED => Ok(NodeEntry::Started),
        KIND_UNUSED => Ok(NodeEntry::Unused { queues: List::rest(reader, 16, read_pair)? }),
        _ => Err(RecordError::Invalid),
    }
}

/// Whether an entry without an owner is one of the node.
pub(super) const fn has_kind(kind: u8) -> bool {
    matches!(kind, KIND_STOPPED | KIND_STARTED | KIND_UNUSED)
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(u64, u64), RecordError> {
    Ok((reader.u64()?, reader.u64()?))
}
