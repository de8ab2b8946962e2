//! The entries of a classic or quorum queue, whose id is their owner: its messages, and what became of them.
//!
//! ```text
//! kind  entry      payload (integers little-endian)
//! 1     message    position u64, message record (see crate `message`)
//! 2     settled    position u64 ...             these are gone from the queue
//! 3     purged     (start u64, end u64) ...     these ranges are gone from the queue, by a purge or
//!                                               settled one after the other
//! 4     paged      first u64, file u32, index u32, live bytes u64, load bytes u32, live n u16,
//!                  entries n u16, flags u8 (1 has bodies, 2 has deadlines), (start u64, end u64) ...
//!                                               messages at these ranges are in a page image, and no
//!                                               longer elsewhere
//! 5     reference  position u64, file u32, index u32, message record without its body, which lies in
//!                                               the virtual host's body store, with the properties in
//!                                               front of it if they are large
//! 6     returned   anew u8, (position u64, failed u32, acquired u32) ...   messages that came back so
//!                                               often; 1: and no others
//! 7     version    version u8                  that of the queue's files from here on; the last one counts,
//!                                               and a queue without any has version 2
//! 8     commands   commands of a quorum queue, one behind the other; messages that they put in are entries
//!                                               of the same append
//! 9     machine    the written form of a quorum queue's machine, after all commands before
//! ```

use log::{Appended, Batch, Owner, Wal};
use message::{Head, MessageRef, RECORD_FIXED_BYTES, StandIn};
use meta::QueueVersion;
use queue::{DeliveryCounts, PositionRange};
use stdx::record::{List, Reader, RecordError};
use store::backlog::PageNote;
use store::blob::BlobId;
use store::{Queued, StoredBody};

const KIND_MESSAGE: u8 = 1;
const KIND_SETTLED: u8 = 2;
const KIND_PURGED: u8 = 3;
const KIND_PAGED: u8 = 4;
const KIND_REFERENCE: u8 = 5;
const KIND_RETURNED: u8 = 6;
const KIND_VERSION: u8 = 7;
const KIND_COMMANDS: u8 = 8;
const KIND_MACHINE: u8 = 9;

/// Bytes of a position and its counts.
const RETURNED_BYTES: usize = 16;
const PAGE_HAS_BODIES: u8 = 1;
const PAGE_HAS_DEADLINES: u8 = 2;

/// An entry of a queue as recovery reads it.
#[derive(Debug)]
pub enum QueueEntry<'a> {
    /// A message.
    Message {
        /// Position of the message.
        position: u64,
        /// The message as `message::parse_record` reads it.
        record: &'a [u8],
    },
    /// Messages are gone.
    Settled {
        /// Positions of the messages.
        positions: List<'a, u64>,
    },
    /// Messages are gone, range by range.
    Purged {
        /// The ranges.
        ranges: List<'a, PositionRange>,
    },
    /// Messages are in a page image.
    Paged {
        /// Which.
        note: PageNote,
    },
    /// A message whose body is in the body store.
    Reference {
        /// Position of the message.
        position: u64,
        /// The message as [`parse_reference`] reads it.
        reference: &'a [u8],
    },
    /// Messages came back.
    Returned {
        /// Whether these counts replace all earlier ones.
        anew: bool,
        /// By position.
        counts: List<'a, (u64, DeliveryCounts)>,
    },
    /// The queue's files have this version from here on.
    Version {
        /// The version.
        version: QueueVersion,
    },
    /// Commands of a quorum queue, one behind the other.
    Commands {
        /// Written form of the commands.
        commands: &'a [u8],
    },
    /// The machine of a quorum queue, as the commands before have made it.
    Machine {
        /// Written form of the machine.
        machine: &'a [u8],
    },
}

/// Adds a message to an append: without its body if that is `stored`, and with brief properties if the
/// properties are stored too.
pub(crate) fn put_message(
    batch: &mut Batch<'_>,
    queue: u64,
    position: u64,
    message: &MessageRef<'_>,
    stored: Option<&StoredBody>,
) {
    let owner = Owner(queue);
    if let Some(StoredBody { blob, bytes, properties_bytes }) = stored.copied() {
        let stand_in;
        let (message, fixed) = if properties_bytes > 0 {
            stand_in = StandIn { properties_bytes, brief: message.properties }.to_bytes();
            let message = MessageRef { properties: &stand_in, ..*message };
            (message, message::fixed_part_without_content(&message, bytes))
        } else {
            (*message, message::fixed_part_without_body(message, bytes))
        };
        batch.entry(
            owner,
            KIND_REFERENCE,
            &[
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
    // A single part instead of two saves about the cost of a message's field.
    let mut fixed = [0; 8 + RECORD_FIXED_BYTES];
    let (at, record) = fixed.split_at_mut(8);
    at.copy_from_slice(&position.to_le_bytes());
    record.copy_from_slice(&message::fixed_part(message));
    batch.entry(
        owner,
        KIND_MESSAGE,
        &[
            &fixed,
            message.exchange,
            message.routing_key,
            message.properties,
            message::annotations_part(message).as_bytes(),
            message.body.bytes(),
        ],
    );
}

/// Appends one message, needed until it is released.
pub fn append_message(wal: &Wal, queue: u64, queued: &Queued<'_>) -> Appended {
    wal.append(|batch| {
        let Queued { position, message, stored, .. } = queued;
        put_message(batch, queue, *position, message, stored.as_ref());
        batch.retain(Owner(queue), 1);
    })
}

/// Reads what an entry [`QueueEntry::Reference`] holds: the message without its body, or with brief
/// properties alone, and where the rest is.
pub fn parse_reference(reference: &[u8]) -> Result<(MessageRef<'_>, StoredBody), RecordError> {
    let mut reader = Reader::new(reference);
    let blob = BlobId { file: reader.u32()?, index: reader.u32()? };
    let head = message::parse_head(reader.rest()).map_err(|_| RecordError::Invalid)?;
    let Head { message, body_bytes: bytes, properties_bytes } = head;
    Ok((message, StoredBody { blob, bytes, properties_bytes }))
}

/// Appends the positions that are gone from a queue, as ranges where that is shorter.
pub fn append_settled(wal: &Wal, queue: u64, positions: &[u64], scratch: &mut Vec<u8>) {
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
    wal.append(|batch| batch.entry(Owner(queue), kind, &[scratch]));
}

/// Appends the ranges that were purged from a queue.
pub fn append_purged(wal: &Wal, queue: u64, ranges: &[PositionRange]) {
    let mut payload = Vec::with_capacity(ranges.len() * 16);
    for range in ranges {
        payload.extend_from_slice(&range.start.to_le_bytes());
        payload.extend_from_slice(&range.end.to_le_bytes());
    }
    wal.append(|batch| batch.entry(Owner(queue), KIND_PURGED, &[&payload]));
}

/// Appends what is known about a page image, needed until it is released.
pub fn append_paged(wal: &Wal, queue: u64, note: &PageNote) -> Appended {
    let payload = paged_payload(note);
    wal.append(|batch| {
        batch.entry(Owner(queue), KIND_PAGED, &[&payload]);
        batch.retain(Owner(queue), 1);
    })
}

pub(crate) fn paged_payload(note: &PageNote) -> Vec<u8> {
    let mut payload = Vec::with_capacity(41 + note.live.len() * 16);
    payload.extend_from_slice(&note.first.to_le_bytes());
    payload.extend_from_slice(&note.blob.file.to_le_bytes());
    payload.extend_from_slice(&note.blob.index.to_le_bytes());
    payload.extend_from_slice(&note.live_bytes.to_le_bytes());
    payload.extend_from_slice(&note.load_bytes.to_le_bytes());
    payload.extend_from_slice(&note.n_live.to_le_bytes());
    payload.extend_from_slice(&note.n_entries.to_le_bytes());
    let flags = [(note.has_bodies, PAGE_HAS_BODIES), (note.has_deadlines, PAGE_HAS_DEADLINES)];
    payload.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    for range in &note.live {
        payload.extend_from_slice(&range.start.to_le_bytes());
        payload.extend_from_slice(&range.end.to_le_bytes());
    }
    payload
}

/// Appends how often messages came back, by position, needed until it is released; `anew`: instead of what
/// earlier entries say.
pub fn append_returned(
    wal: &Wal,
    queue: u64,
    anew: bool,
    counts: impl Iterator<Item = (u64, DeliveryCounts)>,
) -> Appended {
    let mut payload = Vec::with_capacity(1 + counts.size_hint().0 * RETURNED_BYTES);
    payload.push(u8::from(anew));
    for (position, DeliveryCounts { n_failed, n_acquired }) in counts {
        payload.extend_from_slice(&position.to_le_bytes());
        payload.extend_from_slice(&n_failed.to_le_bytes());
        payload.extend_from_slice(&n_acquired.to_le_bytes());
    }
    wal.append(|batch| {
        batch.entry(Owner(queue), KIND_RETURNED, &[&payload]);
        batch.retain(Owner(queue), 1);
    })
}

/// Adds to an append which version a queue's files have.
pub fn put_version(batch: &mut Batch<'_>, queue: u64, version: QueueVersion) {
    batch.entry(Owner(queue), KIND_VERSION, &[&[version.number()]]);
}

/// Appends which version a queue's files have, needed until it is released.
pub fn append_version(wal: &Wal, queue: u64, version: QueueVersion) -> Appended {
    wal.append(|batch| {
        put_version(batch, queue, version);
        batch.retain(Owner(queue), 1);
    })
}

/// Adds commands of a quorum queue to an append.
pub(crate) fn put_commands(batch: &mut Batch<'_>, queue: u64, commands: &[u8]) {
    batch.entry(Owner(queue), KIND_COMMANDS, &[commands]);
}

/// Appends the written form of a quorum queue's machine, needed until it is released.
pub fn append_machine(wal: &Wal, queue: u64, machine: &[u8]) -> Appended {
    wal.append(|batch| {
        batch.entry(Owner(queue), KIND_MACHINE, &[machine]);
        batch.retain(Owner(queue), 1);
    })
}

/// Reads an entry of a queue.
pub fn parse_entry(kind: u8, payload: &[u8]) -> Result<QueueEntry<'_>, RecordError> {
    let mut reader = Reader::new(payload);
    let reader = &mut reader;
    Ok(match kind {
        KIND_MESSAGE => QueueEntry::Message { position: reader.u64()?, record: reader.rest() },
        KIND_SETTLED => QueueEntry::Settled { positions: List::rest(reader, 8, Reader::u64)? },
        KIND_PURGED => QueueEntry::Purged { ranges: List::rest(reader, 16, read_range)? },
        KIND_PAGED => QueueEntry::Paged { note: read_paged(reader)? },
        KIND_REFERENCE => {
            QueueEntry::Reference { position: reader.u64()?, reference: reader.rest() }
        }
        KIND_RETURNED => {
            let anew = reader.u8()? != 0;
            let counts = List::rest(reader, RETURNED_BYTES, read_counts)?;
            QueueEntry::Returned { anew, counts }
        }
        KIND_COMMANDS => QueueEntry::Commands { commands: reader.rest() },
        KIND_MACHINE => QueueEntry::Machine { machine: reader.rest() },
        KIND_VERSION => {
            let version = QueueVersion::of_number(reader.u8()?.into());
            QueueEntry::Version { version: version.ok_or(RecordError::Invalid)? }
        }
        _ => return Err(RecordError::Invalid),
    })
}

pub(crate) fn read_paged(reader: &mut Reader<'_>) -> Result<PageNote, RecordError> {
    let mut note = PageNote {
        first: reader.u64()?,
        blob: BlobId { file: reader.u32()?, index: reader.u32()? },
        live: Vec::new(),
        live_bytes: reader.u64()?,
        load_bytes: reader.u32()?,
        n_live: reader.u16()?,
        n_entries: reader.u16()?,
        has_bodies: false,
        has_deadlines: false,
    };
    let flags = reader.u8()?;
    note.has_bodies = flags & PAGE_HAS_BODIES != 0;
    note.has_deadlines = flags & PAGE_HAS_DEADLINES != 0;
    let ranges = List::rest(reader, 16, read_range)?;
    note.live = ranges.iter().map(|range| range.start..range.end).collect();
    Ok(note)
}

fn read_counts(reader: &mut Reader<'_>) -> Result<(u64, DeliveryCounts), RecordError> {
    let position = reader.u64()?;
    Ok((position, DeliveryCounts { n_failed: reader.u32()?, n_acquired: reader.u32()? }))
}

fn read_range(reader: &mut Reader<'_>) -> Result<PositionRange, RecordError> {
    Ok(PositionRange { start: reader.u64()?, end: reader.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::WalOptions;
    use std::sync::Arc;
    use testing::MemoryDisk;

    /// Entries as the log shows them after a restart, as text.
    fn reopened(fill: impl FnOnce(&Wal)) -> Vec<String> {
        let disk = MemoryDisk::new();
        let open = |seen: &mut Vec<String>| {
            Wal::open_stepped(Arc::new(disk.clone()), WalOptions::default(), &mut |entry| {
                seen.push(show(&entry, parse_entry(entry.kind, entry.payload).unwrap()));
                for cut in 0..entry.payload.len() {
                    // A shorter list is a list all the same; nothing may panic.
                    let parsed = parse_entry(entry.kind, &entry.payload[..cut]);
                    let _whole = parsed.map(|parsed| show(&entry, parsed)).is_ok();
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

    fn show(entry: &log::Entry<'_>, parsed: QueueEntry<'_>) -> String {
        let Owner(queue) = entry.owner.unwrap();
        match parsed {
            QueueEntry::Settled { positions } => {
                format!("settled {queue} {:?}", positions.iter().collect::<Vec<_>>())
            }
            QueueEntry::Purged { ranges } => {
                let ranges: Vec<_> = ranges.iter().map(|range| range.start..range.end).collect();
                format!("purged {queue} {ranges:?}")
            }
            QueueEntry::Returned { anew, counts } => {
                let counts = counts.iter().map(|(at, it)| (at, it.n_failed, it.n_acquired));
                format!("returned {queue} {anew} {:?}", counts.collect::<Vec<_>>())
            }
            other @ (QueueEntry::Message { .. }
            | QueueEntry::Paged { .. }
            | QueueEntry::Reference { .. }
            | QueueEntry::Commands { .. }
            | QueueEntry::Machine { .. }
            | QueueEntry::Version { .. }) => format!("{:?}", (queue, other)),
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
            has_deadlines: true,
        };
        let seen = reopened(|wal| {
            append_paged(wal, 3, &note);
        });
        assert_eq!(seen, [format!("{:?}", (3, QueueEntry::Paged { note }))]);
    }

    #[test]
    fn counts_of_returns_and_versions_read_back() {
        let seen = reopened(|wal| {
            append_returned(wal, 3, true, std::iter::empty());
            let counts = DeliveryCounts { n_failed: 1, n_acquired: 2 };
            let both = [(5, counts), (u64::MAX, DeliveryCounts::default())];
            append_returned(wal, 3, false, both.into_iter());
            append_version(wal, 3, QueueVersion::V1);
        });
        let both = "returned 3 false [(5, 1, 2), (18446744073709551615, 0, 0)]";
        assert_eq!(seen, ["returned 3 true []", both, "(3, Version { version: V1 })"]);
    }

    fn stored<'m>(message: MessageRef<'m>, body: StoredBody) -> Queued<'m> {
        Queued { position: 5, message, stored: Some(body), is_delivered: false }
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
            form: message::BodyForm::Plain,
        };
        let blob = BlobId { file: 6, index: 7 };
        let body = StoredBody { blob, bytes: 12, properties_bytes: 0 };
        let mut payload = Vec::new();
        let seen = reopened(|wal| {
            append_message(wal, 3, &stored(sent, body));
        });
        assert!(seen.iter().all(|line| line.starts_with("(3, Reference { position: 5,")));
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
            form: message::BodyForm::Plain,
        };
        let blob = BlobId { file: 6, index: 7 };
        let body = StoredBody { blob, bytes: 12, properties_bytes: 70_000 };
        let disk = Arc::new(MemoryDisk::new());
        let (wal, mut stepper) =
            Wal::open_stepped(disk.clone(), WalOptions::default(), &mut |_| Ok(())).unwrap();
        append_message(&wal, 3, &stored(sent, body));
        while stepper.step() {}
        wal.close().unwrap();
        drop((wal, stepper));
        let mut n_seen = 0;
        let mut check = |entry: log::Entry<'_>| {
            if let Ok(QueueEntry::Reference { reference, .. }) =
                parse_entry(entry.kind, entry.payload)
            {
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
        });
        assert_eq!(
            seen,
            [
                "settled 7 [3]",
                "purged 7 [3..5]",
                "settled 7 [3, 5, 6]",
                "purged 7 [9..10, 3..6]",
                "settled 7 [4, 3]",
            ]
        );
    }
}
