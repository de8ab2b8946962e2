//! The files that each stream has on disk, told outside its directory: a start notices when some of them, or
//! all, are missing.
//!
//! ```text
//! file "leveret-streams": slots of 128 bytes, in no order
//!  0       4       8         12         16      24      32     40         44      48
//!  +-------+-------+---------+----------+-------+-------+------+----------+-------+
//!  | "LVST"| crc32c| version | identity | stream| first | last | position | flags |
//!  |       | u32   | u32     | u32      | u64   | u64   | u64  | u32      | u32   |
//!  +-------+-------+---------+----------+-------+-------+------+----------+-------+
//!  48            56             64            72        128
//!  +-------------+--------------+-------------+----------+
//!  | next offset | next ordinal | scrubbed at | reserved |
//!  | u64         | u64          | u64, ms     |          |
//!  +-------------+--------------+-------------+----------+
//!  identity     in the headers of the stream's files; 0 in those of files that are older than this file
//!  first, last  the segments that begin with these offsets are there, and those between, without a gap
//!  position     chunks were synced up to here in the last of them, ...
//!  next         ... which is in front of this offset, and of this ordinal
//!  flags        1 if an operator has accepted that some of it is missing
//! ```
//! A slot is written after a sync and never runs ahead of what is durable: it is synced itself before files
//! of segments are removed, and at a clean stop. Whatever a loss of power leaves of it holds. One whose
//! checksum (over everything after it) fails promises nothing. Integers are little-endian.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use segments::{
    CHECKED_AT, Disk, FileError, SlotTable, TableRecord, crc32c, replace_file, seal_record,
    unseal_record,
};

use stdx::record::Reader;

use crate::error::Result;
use stdx::UnixMs;

/// The file's name, in the root of the data directory.
pub const STREAMS_FILE: &str = "leveret-streams";

const MAGIC: [u8; 4] = *b"LVST";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 128;
const LOSS_ACCEPTED: u32 = 1;

/// The files that a stream has on disk, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamNote {
    /// The identity in the headers of the stream's files.
    pub(crate) identity: u32,
    /// The first offset of its first segment.
    pub(crate) first: u64,
    /// The first offset of the last segment of which something was synced.
    pub(crate) last: u64,
    /// Bytes of that segment that were synced.
    pub(crate) position: u64,
    /// The offset behind what was synced.
    pub(crate) next_offset: u64,
    /// The ordinal behind what was synced.
    pub(crate) next_ordinal: u64,
    /// Whether some of it is missing and the next opening goes on without.
    pub(crate) is_loss_accepted: bool,
    /// When all of it was verified last, in milliseconds since 1970.
    pub(crate) scrubbed_at_ms: UnixMs,
}

impl TableRecord<SLOT_BYTES> for StreamNote {
    type Key = u64;

    const FILE: &'static str = STREAMS_FILE;

    fn to_slot(&self, stream: u64) -> [u8; SLOT_BYTES] {
        let position = u32::try_from(self.position).unwrap_or(u32::MAX);
        let flags = if self.is_loss_accepted { LOSS_ACCEPTED } else { 0 };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let Self { first, last, next_offset, next_ordinal, scrubbed_at_ms, .. } = *self;
        let numbers = [pair(VERSION, self.identity), stream, first, last, pair(position, flags)];
        let numbers = numbers.into_iter().chain([next_offset, next_ordinal, scrubbed_at_ms.get()]);
        let mut slot = [0; SLOT_BYTES];
        let (words, _) = slot.as_chunks_mut();
        let rest = words.iter_mut().skip(CHECKED_AT / 8);
        rest.zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
        seal_record(MAGIC, &mut slot);
        slot
    }

    fn from_slot(slot: &[u8]) -> segments::Result<Option<(u64, Self)>> {
        let Some(rest) = unseal_record(MAGIC, slot) else { return Ok(None) };
        let mut reader = Reader::new(rest);
        let halves = |reader: &mut Reader<'_>| [(); 2].map(|()| reader.u32().unwrap_or_default());
        let [found, identity] = halves(&mut reader);
        if found > VERSION {
            let file = STREAMS_FILE.to_owned();
            return Err(FileError::Newer { file, found, known: VERSION });
        }
        let [stream, first, last] = [(); 3].map(|()| reader.u64().unwrap_or_default());
        let [position, flags] = halves(&mut reader);
        let mut number = || reader.u64().unwrap_or_default();
        let note = Self {
            identity,
            first,
            last,
            position: u64::from(position),
            next_offset: number(),
            next_ordinal: number(),
            is_loss_accepted: flags & LOSS_ACCEPTED != 0,
            scrubbed_at_ms: UnixMs::from_raw(number()),
        };
        Ok(Some((stream, note)))
    }
}

impl StreamNote {
    /// Whether the note promises nothing that the other does not.
    const fn is_older_than(&self, other: &Self) -> bool {
        self.first < other.first || self.next_ordinal < other.next_ordinal
    }
}

/// The file while the node runs.
#[derive(Debug)]
pub struct StreamTable {
    notes: SlotTable<StreamNote, SLOT_BYTES>,
    /// Streams of which nothing was noted, and nothing more is expected.
    believed: Mutex<HashSet<u64>>,
    /// Whether the file was not there.
    was_missing: bool,
    /// The source of identities of new streams.
    seed: u64,
}

impl StreamTable {
    /// Opens the file, or makes it. `seed` differs from that of other nodes, and of other starts.
    ///
    /// # Errors
    /// The disk's, or one of a newer version.
    pub fn open(disk: Arc<dyn Disk>, seed: u64) -> Result<Self> {
        let notes = SlotTable::open(disk)?;
        let was_missing = notes.make()?;
        Ok(Self { notes, believed: Mutex::default(), was_missing, seed })
    }

    /// The notes of the file, read without touching anything; none if there is no file.
    ///
    /// # Errors
    /// As [`StreamTable::open`].
    pub fn read(disk: &dyn Disk) -> Result<Option<BTreeMap<u64, StreamNote>>> {
        Ok(SlotTable::read(disk)?)
    }

    /// Writes a file of these notes in which losses of the streams `accepted` are accepted.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_accepted(
        disk: &dyn Disk,
        notes: BTreeMap<u64, StreamNote>,
        accepted: &[u64],
    ) -> Result<()> {
        let accept = |(stream, note): (u64, StreamNote)| {
            let is_loss_accepted = note.is_loss_accepted || accepted.contains(&stream);
            StreamNote { is_loss_accepted, ..note }.to_slot(stream)
        };
        let bytes: Vec<u8> = notes.into_iter().flat_map(accept).collect();
        Ok(replace_file(disk, STREAMS_FILE, &bytes)?)
    }

    /// Forgets streams that are not wanted.
    ///
    /// # Errors
    /// The disk's.
    pub fn retain(&self, is_wanted: impl Fn(u64) -> bool) -> Result<()> {
        Ok(self.notes.forget(.., |stream| !is_wanted(stream)).map(drop)?)
    }

    /// Makes durable what was noted: for a clean stop.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> Result<()> {
        Ok(self.notes.sync()?)
    }

    /// Notes that all of a stream was verified at a time, without a sync.
    pub fn note_scrubbed(&self, stream: u64, at_ms: UnixMs) {
        let scrubbed = |known: Option<&StreamNote>| {
            known.map(|note| StreamNote { scrubbed_at_ms: at_ms, ..*note })
        };
        // A time that cannot be noted has the stream verified again.
        self.notes.update(stream, scrubbed).ok();
    }

    /// When all of a stream was verified last; none if it never was.
    pub fn scrubbed_at_ms(&self, stream: u64) -> Option<UnixMs> {
        let at_ms = self.note(stream).map(|note| note.scrubbed_at_ms);
        at_ms.filter(|at_ms| *at_ms > UnixMs::default())
    }

    /// Has the next opening of a stream go on without what is missing, durably.
    ///
    /// # Errors
    /// The disk's.
    pub fn accept_loss(&self, stream: u64) -> Result<()> {
        let accepted = |known: Option<&StreamNote>| {
            known.map(|note| StreamNote { is_loss_accepted: true, ..*note })
        };
        if self.notes.update(stream, accepted)?.is_none() {
            self.believe(stream);
        }
        self.sync()
    }

    /// Expects no more of a stream than what is there.
    pub(crate) fn believe(&self, stream: u64) {
        self.believed().insert(stream);
    }

    /// Whether files of a stream may lack what this file would have noted, had it not been removed.
    pub(crate) fn may_be_incomplete(&self, stream: u64) -> bool {
        self.was_missing && !self.believed().contains(&stream)
    }

    /// Forgets what is noted of a stream. A note that a crash brings back is forgotten by the next start if
    /// the stream is gone.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn forget(&self, stream: u64) -> Result<()> {
        Ok(self.notes.forget(stream..=stream, |_| true).map(drop)?)
    }

    /// Notes of the stream `to` durably what is noted of `from`.
    pub(crate) fn copy(&self, from: u64, to: u64) -> Result<()> {
        let Some(note) = self.note(from) else { return Ok(()) };
        Ok(self.notes.put_durably(to, note)?)
    }

    pub(crate) fn note(&self, stream: u64) -> Option<StreamNote> {
        self.notes.get(stream)
    }

    /// An identity for the files of a new stream.
    pub(crate) fn new_identity(&self, stream: u64) -> u32 {
        crc32c(&[stream.to_le_bytes(), self.seed.to_le_bytes()].concat()).max(1)
    }

    /// Notes what a stream has, without a sync, unless more is noted already.
    ///
    /// # Errors
    /// The disk's; what was noted before holds.
    pub(crate) fn tell(&self, stream: u64, note: StreamNote) -> Result<()> {
        assert!(note.first <= note.last && note.last <= note.next_offset, "offsets rise");
        let newer = |known: Option<&StreamNote>| match known {
            Some(known) if note.is_older_than(known) => None,
            known => {
                let scrubbed_at_ms =
                    known.map_or_else(UnixMs::default, |known| known.scrubbed_at_ms);
                Some(StreamNote { scrubbed_at_ms, ..note })
            }
        };
        Ok(self.notes.update(stream, newer).map(drop)?)
    }

    /// Notes what a stream has, whatever was noted before.
    pub(crate) fn put(&self, stream: u64, note: StreamNote) -> Result<()> {
        Ok(self.notes.put(stream, note)?)
    }

    fn believed(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
