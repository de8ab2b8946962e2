//! What the broker writes into the node's log, entry by entry.
//!
//! ```text
//! kind  entry      payload (integers little-endian)
//! 1     message    queue u64, position u64, message record (see crate `message`)
//! 2     settled    queue u64, position u64 ...           these are gone from the queue
//! 3     purged     queue u64, (start u64, end u64) ...   these ranges are gone from the queue
//! 16    meta       serial u64, an encoded definition command (see crate `meta`)
//! 17    stopped    (queue u64, next undelivered position u64) ...   last entry of a clean stop
//! 18    started    nothing        the life after a clean stop: its deliveries are in no log
//! ```
//! An unknown kind is an error: it was written by a newer version.

use log::{Appended, Batch, SegmentId, Wal};
use message::MessageRef;
use queue::PositionRange;
use stdx::record::{Reader, RecordError};

const KIND_MESSAGE: u8 = 1;
const KIND_SETTLED: u8 = 2;
const KIND_PURGED: u8 = 3;
const KIND_META: u8 = 16;
const KIND_STOPPED: u8 = 17;
const KIND_STARTED: u8 = 18;

/// An entry as recovery reads it.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    Message { queue: u64, position: u64, record: &'a [u8] },
    Settled { queue: u64, positions: Vec<u64> },
    Purged { queue: u64, ranges: Vec<PositionRange> },
    Meta { serial: u64, command: &'a [u8] },
    Stopped { cursors: Vec<(u64, u64)> },
    Started,
}

/// Adds a message to an append.
pub(crate) fn put_message(
    batch: &mut Batch<'_>,
    queue: u64,
    position: u64,
    message: &MessageRef<'_>,
) {
    batch.entry(
        KIND_MESSAGE,
        &[
            &queue.to_le_bytes(),
            &position.to_le_bytes(),
            &message::fixed_part(message),
            message.exchange,
            message.routing_key,
            message.properties,
            message.body.bytes(),
        ],
    );
}

/// Appends one message, needed until it is released.
pub(crate) fn append_message(
    wal: &Wal,
    queue: u64,
    position: u64,
    message: &MessageRef<'_>,
) -> Appended {
    wal.append(|batch| {
        put_message(batch, queue, position, message);
        batch.retain(1);
    })
}

/// Appends the positions that are gone from a queue.
pub(crate) fn append_settled(wal: &Wal, queue: u64, positions: &[u64], scratch: &mut Vec<u8>) {
    scratch.clear();
    for position in positions {
        scratch.extend_from_slice(&position.to_le_bytes());
    }
    wal.append(|batch| batch.entry(KIND_SETTLED, &[&queue.to_le_bytes(), scratch]));
}

/// Appends the ranges that were purged from a queue.
pub(crate) fn append_purged(wal: &Wal, queue: u64, ranges: &[PositionRange]) {
    let mut payload = Vec::with_capacity(ranges.len() * 16);
    for range in ranges {
        payload.extend_from_slice(&range.start.to_le_bytes());
        payload.extend_from_slice(&range.end.to_le_bytes());
    }
    wal.append(|batch| batch.entry(KIND_PURGED, &[&queue.to_le_bytes(), &payload]));
}

/// Appends definition commands as one unit, each needed until a snapshot of the definitions covers
/// it. The first has the number `serial`, the next one more, and so on.
pub(crate) fn append_meta(wal: &Wal, serial: u64, commands: &[Vec<u8>]) -> Appended {
    wal.append(|batch| {
        for (command, serial) in commands.iter().zip(serial..) {
            batch.entry(KIND_META, &[&serial.to_le_bytes(), command]);
            batch.retain(1);
        }
    })
}

/// Appends the note of a clean stop: for each queue the first position nobody was given.
pub(crate) fn append_stopped(wal: &Wal, cursors: &[(u64, u64)]) -> Appended {
    let mut payload = Vec::with_capacity(cursors.len() * 16);
    for (queue, position) in cursors {
        payload.extend_from_slice(&queue.to_le_bytes());
        payload.extend_from_slice(&position.to_le_bytes());
    }
    wal.append(|batch| batch.entry(KIND_STOPPED, &[&payload]))
}

/// Appends the note that ends the validity of the last stop's cursors.
pub(crate) fn append_started(wal: &Wal) -> Appended {
    wal.append(|batch| batch.entry(KIND_STARTED, &[]))
}

/// Reads an entry.
pub(crate) fn parse(kind: u8, payload: &[u8]) -> Result<Entry<'_>, RecordError> {
    let mut reader = Reader::new(payload);
    match kind {
        KIND_MESSAGE => Ok(Entry::Message {
            queue: reader.u64()?,
            position: reader.u64()?,
            record: reader.rest(),
        }),
        KIND_SETTLED => {
            let queue = reader.u64()?;
            let positions = until_end(&mut reader, Reader::u64)?;
            Ok(Entry::Settled { queue, positions })
        }
        KIND_PURGED => {
            let queue = reader.u64()?;
            let ranges = until_end(&mut reader, |reader| {
                Ok(PositionRange { start: reader.u64()?, end: reader.u64()? })
            })?;
            Ok(Entry::Purged { queue, ranges })
        }
        KIND_META => Ok(Entry::Meta { serial: reader.u64()?, command: reader.rest() }),
        KIND_STOPPED => {
            let cursors = until_end(&mut reader, |reader| Ok((reader.u64()?, reader.u64()?)))?;
            Ok(Entry::Stopped { cursors })
        }
        KIND_STARTED => Ok(Entry::Started),
        _ => Err(RecordError::Invalid),
    }
}

fn until_end<'a, T>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let mut values = Vec::new();
    while !reader.is_empty() {
        values.push(read(reader)?);
    }
    Ok(values)
}

/// Counts of log entries per segment, gathered to be retained or released in few calls.
#[derive(Debug, Default)]
pub(crate) struct SegmentCounts {
    counts: smallvec::SmallVec<[(SegmentId, u64); 4]>,
}

impl SegmentCounts {
    /// Counts one entry.
    pub(crate) fn add(&mut self, segment: SegmentId) {
        match self.counts.iter_mut().rev().find(|(known, _)| *known == segment) {
            Some((_, n)) => *n += 1,
            None => self.counts.push((segment, 1)),
        }
    }

    /// Whether an entry of that segment is counted.
    pub(crate) fn has(&self, segment: SegmentId) -> bool {
        self.counts.iter().any(|(known, _)| *known == segment)
    }

    /// Counts what another has counted.
    pub(crate) fn add_all(&mut self, other: Self) {
        for (segment, n) in other.counts {
            match self.counts.iter_mut().find(|(known, _)| *known == segment) {
                Some((_, counted)) => *counted += n,
                None => self.counts.push((segment, n)),
            }
        }
    }

    /// Tells the log that what was counted is needed, and starts over.
    pub(crate) fn retain(&mut self, wal: &Wal) {
        for (segment, n) in self.counts.drain(..) {
            wal.retain(segment, n);
        }
    }

    /// Tells the log that what was counted is no longer needed, and starts over.
    pub(crate) fn release(&mut self, wal: &Wal) {
        for (segment, n) in self.counts.drain(..) {
            wal.release(segment, n);
        }
    }
}
