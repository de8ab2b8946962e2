//! What the broker writes into the node's log, entry by entry.
//!
//! ```text
//! kind  entry      payload (integers little-endian)
//! 1     message    queue u64, position u64, message record (see crate `message`)
//! 2     settled    queue u64, position u64 ...           these are gone from the queue
//! 3     purged     queue u64, (start u64, end u64) ...   these ranges are gone from the queue, by a
//!                                                        purge or settled one after the other
//! 4     paged      queue u64, first u64, file u32, index u32, live bytes u64, load bytes u32, live n u16,
//!                  entries n u16, flags u8 (1 has bodies, 2 annotated), (start u64, end u64) ...   messages at these ranges
//!                                                        are in a page image, and no longer elsewhere
//! 5     reference  queue u64, position u64, file u32, index u32, message record without its body,
//!                                                        which lies in the virtual host's body store, with
//!                                                        the properties in front of it if they are large
//! 6     returned   queue u64, anew u8, (position u64, failed u32, acquired u32) ...   messages that came
//!                                                        back so often; 1: and no others
//! 16    meta       serial u64, an encoded definition command (see crate `meta`)
//! 17    stopped    (queue u64, next undelivered position u64) ...   last entry of a clean stop
//! 18    started    nothing        the life after a clean stop: its deliveries are in no log
//! 19    unused     (queue u64, milliseconds u64) ...   before `stopped`: for how long nobody had used these
//! ```
//! An unknown kind is an error: it was written by a newer version.

use log::{Appended, Batch, SegmentId, Wal};
use message::{Head, MessageRef, StandIn};
use queue::{DeliveryCounts, PositionRange};
use stdx::record::{Reader, RecordError};
use store::StoredBody;
use store::backlog::PageNote;
use store::blob::BlobId;

const KIND_MESSAGE: u8 = 1;
const KIND_SETTLED: u8 = 2;
const KIND_PURGED: u8 = 3;
const KIND_PAGED: u8 = 4;
const KIND_REFERENCE: u8 = 5;
const KIND_RETURNED: u8 = 6;
const KIND_META: u8 = 16;
const KIND_STOPPED: u8 = 17;
const KIND_STARTED: u8 = 18;
const KIND_UNUSED: u8 = 19;

/// Of a position and its counts.
const RETURNED_BYTES: usize = 16;
const PAGE_HAS_BODIES: u8 = 1;
const PAGE_IS_ANNOTATED: u8 = 2;

/// An entry as recovery reads it.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    Message { queue: u64, position: u64, record: &'a [u8] },
    Settled { queue: u64, positions: Records<'a, u64> },
    Purged { queue: u64, ranges: Records<'a, PositionRange> },
    Paged { queue: u64, note: PageNote },
    Reference { queue: u64, position: u64, reference: &'a [u8] },
    Returned { queue: u64, anew: bool, counts: Records<'a, (u64, DeliveryCounts)> },
    Meta { serial: u64, command: &'a [u8] },
    Stopped { cursors: Records<'a, (u64, u64)> },
    Started,
    Unused { queues: Records<'a, (u64, u64)> },
}

/// A list of records of fixed size, read where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'a, T> {
    bytes: &'a [u8],
    read: fn(&mut Reader<'a>) -> Result<T, RecordError>,
}

impl<'a, T> Records<'a, T> {
    /// All that is left in `reader`, a whole number of records of `bytes_each`.
    fn rest(
        reader: &mut Reader<'a>,
        bytes_each: usize,
        read: fn(&mut Reader<'a>) -> Result<T, RecordError>,
    ) -> Result<Self, RecordError> {
        let bytes = reader.rest();
        if !bytes.len().is_multiple_of(bytes_each) {
            return Err(RecordError::Invalid);
        }
        Ok(Self { bytes, read })
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = T> + 'a
    where
        T: 'a,
    {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || (self.read)(&mut reader).ok())
    }
}

/// Adds a message to an append; one whose body is stored without it, and with brief properties where those
/// are stored too.
pub(crate) fn put_message(
    batch: &mut Batch<'_>,
    queue: u64,
    position: u64,
    message: &MessageRef<'_>,
    stored: Option<StoredBody>,
) {
    if let Some(StoredBody { blob, bytes, properties_bytes }) = stored {
        let stand_in;
        let (message, fixed) = if properties_bytes > 0 {
            stand_in = StandIn { properties_bytes, brief: message.properties }.to_bytes();
            let message = MessageRef { properties: &stand_in, ..*message };
            (message, message::fixed_part_without_content(&message, bytes))
        } else {
            (*message, message::fixed_part_without_body(message, bytes))
        };
        batch.entry(
            KIND_REFERENCE,
            &[
                &queue.to_le_bytes(),
                &position.to_le_bytes(),
                &blob.file.to_le_bytes(),
                &blob.index.to_le_bytes(),
                &fixed,
                message.exchange,
                message.routing_key,
                message.properties,
                message::annotations_part(&message).as_bytes(),
            ],
        );
        return;
    }
    batch.entry(
        KIND_MESSAGE,
        &[
            &queue.to_le_bytes(),
            &position.to_le_bytes(),
            &message::fixed_part(message),
            message.exchange,
            message.routing_key,
            message.properties,
            message::annotations_part(message).as_bytes(),
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
    stored: Option<StoredBody>,
) -> Appended {
    wal.append(|batch| {
        put_message(batch, queue, position, message, stored);
        batch.retain(1);
    })
}

/// Reads what an entry [`Entry::Reference`] holds: the message without its body, or with brief properties
/// alone, and where the rest is.
pub(crate) fn parse_reference(
    reference: &[u8],
) -> Result<(MessageRef<'_>, StoredBody), RecordError> {
    let mut reader = Reader::new(reference);
    let blob = BlobId { file: reader.u32()?, index: reader.u32()? };
    let head = message::parse_head(reader.rest()).map_err(|_| RecordError::Invalid)?;
    let Head { message, body_bytes: bytes, properties_bytes } = head;
    Ok((message, StoredBody { blob, bytes, properties_bytes }))
}

/// Appends the positions that are gone from a queue, as ranges where that is shorter.
pub(crate) fn append_settled(wal: &Wal, queue: u64, positions: &[u64], scratch: &mut Vec<u8>) {
    let runs = || positions.chunk_by(|a, b| a + 1 == *b);
    scratch.clear();
    let kind = if runs().nth(positions.len() / 2).is_none() {
        for run in runs() {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            scratch.extend_from_slice(&first.to_le_bytes());
            scratch.extend_from_slice(&(last + 1).to_le_bytes());
        }
        KIND_PURGED
    } else {
        for position in positions {
            scratch.extend_from_slice(&position.to_le_bytes());
        }
        KIND_SETTLED
    };
    wal.append(|batch| batch.entry(kind, &[&queue.to_le_bytes(), scratch]));
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

/// Appends what is known about a page image, needed until it is released.
pub(crate) fn append_paged(wal: &Wal, queue: u64, note: &PageNote) -> Appended {
    let mut payload = Vec::with_capacity(49 + note.live.len() * 16);
    payload.extend_from_slice(&queue.to_le_bytes());
    payload.extend_from_slice(&note.first.to_le_bytes());
    payload.extend_from_slice(&note.blob.file.to_le_bytes());
    payload.extend_from_slice(&note.blob.index.to_le_bytes());
    payload.extend_from_slice(&note.live_bytes.to_le_bytes());
    payload.extend_from_slice(&note.load_bytes.to_le_bytes());
    payload.extend_from_slice(&note.n_live.to_le_bytes());
    payload.extend_from_slice(&note.n_entries.to_le_bytes());
    let flags = [(note.has_bodies, PAGE_HAS_BODIES), (note.is_annotated, PAGE_IS_ANNOTATED)];
    payload.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    for range in &note.live {
        payload.extend_from_slice(&range.start.to_le_bytes());
        payload.extend_from_slice(&range.end.to_le_bytes());
    }
    wal.append(|batch| {
        batch.entry(KIND_PAGED, &[&payload]);
        batch.retain(1);
    })
}

fn read_paged<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>, RecordError> {
    let queue = reader.u64()?;
    let mut note = PageNote {
        first: reader.u64()?,
        blob: BlobId { file: reader.u32()?, index: reader.u32()? },
        live: Vec::new(),
        live_bytes: reader.u64()?,
        load_bytes: reader.u32()?,
        n_live: reader.u16()?,
        n_entries: reader.u16()?,
        has_bodies: false,
        is_annotated: false,
    };
    let flags = reader.u8()?;
    note.has_bodies = flags & PAGE_HAS_BODIES != 0;
    note.is_annotated = flags & PAGE_IS_ANNOTATED != 0;
    let ranges = Records::rest(reader, 16, read_range)?;
    note.live = ranges.iter().map(|range| range.start..range.end).collect();
    Ok(Entry::Paged { queue, note })
}

/// Appends how often messages came back, needed until it is released; `anew`: instead of what earlier
/// entries say.
pub(crate) fn append_returned(
    wal: &Wal,
    queue: u64,
    anew: bool,
    counts: &[(u64, DeliveryCounts)],
) -> Appended {
    let mut payload = Vec::with_capacity(9 + counts.len() * RETURNED_BYTES);
    payload.extend_from_slice(&queue.to_le_bytes());
    payload.push(u8::from(anew));
    for (position, DeliveryCounts { n_failed, n_acquired }) in counts {
        payload.extend_from_slice(&position.to_le_bytes());
        payload.extend_from_slice(&n_failed.to_le_bytes());
        payload.extend_from_slice(&n_acquired.to_le_bytes());
    }
    wal.append(|batch| {
        batch.entry(KIND_RETURNED, &[&payload]);
        batch.retain(1);
    })
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

/// Appends the note of a clean stop: for each queue the first position nobody was given, and for how many milliseconds
/// nobody had used those that go for that.
pub(crate) fn append_stopped(wal: &Wal, cursors: &[(u64, u64)], unused: &[(u64, u64)]) -> Appended {
    let payload = |pairs: &[(u64, u64)]| -> Vec<u8> {
        pairs
            .iter()
            .flat_map(|&(queue, number)| [queue, number])
            .flat_map(u64::to_le_bytes)
            .collect()
    };
    wal.append(|batch| {
        if !unused.is_empty() {
            batch.entry(KIND_UNUSED, &[&payload(unused)]);
        }
        batch.entry(KIND_STOPPED, &[&payload(cursors)]);
    })
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
            Ok(Entry::Settled { queue, positions: Records::rest(&mut reader, 8, Reader::u64)? })
        }
        KIND_PURGED => {
            let queue = reader.u64()?;
            Ok(Entry::Purged { queue, ranges: Records::rest(&mut reader, 16, read_range)? })
        }
        KIND_PAGED => read_paged(&mut reader),
        KIND_REFERENCE => Ok(Entry::Reference {
            queue: reader.u64()?,
            position: reader.u64()?,
            reference: reader.rest(),
        }),
        KIND_RETURNED => {
            let (queue, anew) = (reader.u64()?, reader.u8()? != 0);
            let each = |reader: &mut Reader<'_>| {
                let position = reader.u64()?;
                let counts = DeliveryCounts { n_failed: reader.u32()?, n_acquired: reader.u32()? };
                Ok((position, counts))
            };
            let counts = Records::rest(&mut reader, RETURNED_BYTES, each)?;
            Ok(Entry::Returned { queue, anew, counts })
        }
        KIND_META => Ok(Entry::Meta { serial: reader.u64()?, command: reader.rest() }),
        KIND_STOPPED => Ok(Entry::Stopped { cursors: Records::rest(&mut reader, 16, read_pair)? }),
        KIND_STARTED => Ok(Entry::Started),
        KIND_UNUSED => Ok(Entry::Unused { queues: Records::rest(&mut reader, 16, read_pair)? }),
        _ => Err(RecordError::Invalid),
    }
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(u64, u64), RecordError> {
    Ok((reader.u64()?, reader.u64()?))
}

fn read_range(reader: &mut Reader<'_>) -> Result<PositionRange, RecordError> {
    Ok(PositionRange { start: reader.u64()?, end: reader.u64()? })
}

/// Counts of log entries per segment, gathered to be retained or released in few calls.
#[derive(Clone, Debug, Default)]
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

    /// Whether none is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
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

#[cfg(test)]
mod tests {
    use super::*;
    use log::{MemoryDisk, WalOptions};
    use std::sync::Arc;

    /// What the log shows of entries after a restart, as text.
    fn reopened(fill: impl FnOnce(&Wal)) -> Vec<String> {
        let disk = MemoryDisk::new();
        let open = |seen: &mut Vec<String>| {
            Wal::open_stepped(Arc::new(disk.clone()), WalOptions::default(), &mut |entry| {
                seen.push(show(parse(entry.kind, entry.payload).unwrap()));
                for cut in 0..entry.payload.len() {
                    // A shorter list is a list all the same; nothing may panic.
                    let _whole = parse(entry.kind, &entry.payload[..cut]).map(show).is_ok();
                }
                Ok(())
            })
            .unwrap()
        };
        let (wal, mut stepper) = open(&mut Vec::new());
        fill(&wal);
        while stepper.step() {}
        let mut seen = Vec::new();
        drop(open(&mut seen));
        seen
    }

    fn show(entry: Entry<'_>) -> String {
        match entry {
            Entry::Settled { queue, positions } => {
                format!("settled {queue} {:?}", positions.iter().collect::<Vec<_>>())
            }
            Entry::Purged { queue, ranges } => {
                let ranges: Vec<_> = ranges.iter().map(|range| range.start..range.end).collect();
                format!("purged {queue} {ranges:?}")
            }
            Entry::Returned { queue, anew, counts } => {
                let counts = counts.iter().map(|(at, it)| (at, it.n_failed, it.n_acquired));
                format!("returned {queue} {anew} {:?}", counts.collect::<Vec<_>>())
            }
            Entry::Stopped { cursors } => {
                format!("stopped {:?}", cursors.iter().collect::<Vec<_>>())
            }
            Entry::Unused { queues } => format!("unused {:?}", queues.iter().collect::<Vec<_>>()),
            other @ (Entry::Paged { .. }
            | Entry::Message { .. }
            | Entry::Reference { .. }
            | Entry::Meta { .. }
            | Entry::Started) => {
                format!("{other:?}")
            }
        }
    }

    #[test]
    fn a_page_note_reads_back() {
        let note = PageNote {
            first: 5,
            blob: BlobId { file: 6, index: 7 },
            live: vec![5..8, 10..11],
            n_live: 4,
            live_bytes: 1 << 40,
            load_bytes: 8,
            n_entries: 9,
            has_bodies: true,
            is_annotated: true,
        };
        let seen = reopened(|wal| {
            append_paged(wal, 3, &note);
        });
        assert_eq!(seen, [format!("{:?}", Entry::Paged { queue: 3, note })]);
    }

    #[test]
    fn counts_of_returns_read_back() {
        let seen = reopened(|wal| {
            append_returned(wal, 3, true, &[]);
            let counts = DeliveryCounts { n_failed: 1, n_acquired: 2 };
            append_returned(wal, 3, false, &[(5, counts), (u64::MAX, DeliveryCounts::default())]);
        });
        let both = "returned 3 false [(5, 1, 2), (18446744073709551615, 0, 0)]";
        assert_eq!(seen, ["returned 3 true []", both]);
    }

    #[test]
    fn a_message_whose_body_is_stored_reads_back() {
        let sent = MessageRef {
            exchange: b"x",
            routing_key: b"key",
            properties: &[0, 0],
            body: message::Body::Borrowed(b"in the store"),
            persistent: true,
            annotations: Default::default(),
        };
        let blob = BlobId { file: 6, index: 7 };
        let body = StoredBody { blob, bytes: 12, properties_bytes: 0 };
        let mut payload = Vec::new();
        let seen = reopened(|wal| {
            append_message(wal, 3, 5, &sent, Some(body));
        });
        assert!(seen.iter().all(|line| line.starts_with("Reference { queue: 3, position: 5,")));
        payload.extend_from_slice(&[6, 0, 0, 0, 7, 0, 0, 0]);
        payload.extend_from_slice(&message::fixed_part(&sent));
        payload.extend_from_slice(b"xkey\0\0");
        let (read, stored) = parse_reference(&payload).unwrap();
        assert_eq!((read.exchange, read.routing_key), (&b"x"[..], &b"key"[..]));
        assert!(stored == body && read.persistent && read.body.is_empty());
        assert!(seen[0].contains(&format!("{payload:?}")));
        assert!((0..payload.len()).all(|cut| parse_reference(&payload[..cut]).is_err()));
    }

    #[test]
    fn a_message_whose_properties_are_stored_reads_back_with_brief_ones() {
        let brief = [8, 0, 9];
        let sent = MessageRef {
            exchange: b"x",
            routing_key: b"key",
            properties: &brief,
            body: message::Body::Borrowed(b"in the store"),
            persistent: true,
            annotations: Default::default(),
        };
        let blob = BlobId { file: 6, index: 7 };
        let body = StoredBody { blob, bytes: 12, properties_bytes: 70_000 };
        let disk = Arc::new(MemoryDisk::new());
        let (wal, mut stepper) =
            Wal::open_stepped(disk.clone(), WalOptions::default(), &mut |_| Ok(())).unwrap();
        append_message(&wal, 3, 5, &sent, Some(body));
        while stepper.step() {}
        wal.close().unwrap();
        drop((wal, stepper));
        let mut n_seen = 0;
        let mut check = |entry: log::Entry<'_>| {
            if let Ok(Entry::Reference { reference, .. }) = parse(entry.kind, entry.payload) {
                let (read, stored) = parse_reference(reference).unwrap();
                assert_eq!((read.properties, stored), (&brief[..], body));
                assert!(
                    (0..reference.len()).all(|cut| parse_reference(&reference[..cut]).is_err())
                );
                n_seen += 1;
            }
            Ok(())
        };
        Wal::open_stepped(disk, WalOptions::default(), &mut check).unwrap();
        assert_eq!(n_seen, 1);
    }

    #[test]
    fn settled_positions_are_logged_as_ranges_where_that_is_shorter() {
        let seen = reopened(|wal| {
            let mut scratch = Vec::new();
            append_settled(wal, 7, &[3], &mut scratch);
            append_settled(wal, 7, &[3, 4], &mut scratch);
            append_settled(wal, 7, &[3, 5, 6], &mut scratch);
            append_settled(wal, 7, &[9, 3, 4, 5], &mut scratch);
            append_settled(wal, 7, &[4, 3], &mut scratch);
            append_stopped(wal, &[(7, 10), (8, 0)], &[]);
            append_stopped(wal, &[], &[(7, 900)]);
        });
        assert_eq!(
            seen,
            [
                "settled 7 [3]",
                "purged 7 [3..5]",
                "settled 7 [3, 5, 6]",
                "purged 7 [9..10, 3..6]",
                "settled 7 [4, 3]",
                "stopped [(7, 10), (8, 0)]",
                "unused [(7, 900)]",
                "stopped []",
            ]
        );
    }
}
