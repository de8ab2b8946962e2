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

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{Disk, IoContext as _, LogError, SlotFile, crc32c, read_file};

use crate::error::{ChunkLogError, Result};

/// The file's name, in the root of the data directory.
pub const STREAMS_FILE: &str = "leveret-streams";

const MAGIC: [u8; 4] = *b"LVST";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 128;
const UNCHECKED_BYTES: usize = 8;
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
    pub(crate) scrubbed_at_ms: u64,
}

impl StreamNote {
    fn slot(&self, stream: u64) -> [u8; SLOT_BYTES] {
        let position = u32::try_from(self.position).unwrap_or(u32::MAX);
        let flags = if self.is_loss_accepted { LOSS_ACCEPTED } else { 0 };
        let mut rest = Vec::with_capacity(SLOT_BYTES);
        for number in [VERSION, self.identity] {
            rest.extend(number.to_le_bytes());
        }
        for number in [stream, self.first, self.last] {
            rest.extend(number.to_le_bytes());
        }
        for number in [position, flags] {
            rest.extend(number.to_le_bytes());
        }
        for number in [self.next_offset, self.next_ordinal, self.scrubbed_at_ms] {
            rest.extend(number.to_le_bytes());
        }
        rest.resize(SLOT_BYTES - UNCHECKED_BYTES, 0);
        let mut slot = [0; SLOT_BYTES];
        let parts = MAGIC.into_iter().chain(crc32c(&rest).to_le_bytes()).chain(rest);
        slot.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        slot
    }

    /// The stream and what is noted of it, if anything is.
    fn read(slot: &[u8]) -> Result<Option<(u64, Self)>> {
        let rest = slot.get(UNCHECKED_BYTES..).unwrap_or_default();
        let crc = crc32c(rest).to_le_bytes();
        if !slot.starts_with(&MAGIC) || slot.get(MAGIC.len()..UNCHECKED_BYTES) != Some(&crc) {
            return Ok(None);
        }
        let u32_at = |at: usize| {
            let bytes = slot.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let u64_at = |at: usize| {
            let bytes = slot.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let found = u32_at(8);
        if found > VERSION {
            let file = STREAMS_FILE.to_owned();
            return Err(LogError::Newer { file, found, known: VERSION }.into());
        }
        let note = Self {
            identity: u32_at(12),
            first: u64_at(24),
            last: u64_at(32),
            position: u64::from(u32_at(40)),
            next_offset: u64_at(48),
            next_ordinal: u64_at(56),
            is_loss_accepted: u32_at(44) & LOSS_ACCEPTED != 0,
            scrubbed_at_ms: u64_at(64),
        };
        Ok(Some((u64_at(16), note)))
    }

    /// Whether the note promises nothing that the other does not.
    const fn is_older_than(&self, other: &Self) -> bool {
        self.first < other.first || self.next_ordinal < other.next_ordinal
    }
}

#[derive(Debug)]
struct Slots {
    /// The notes of streams, each with the place of its slot.
    notes: HashMap<u64, (u64, StreamNote)>,
    /// Streams of which nothing was noted, and nothing more is expected.
    believed: HashSet<u64>,
    file: SlotFile<SLOT_BYTES>,
}

/// The file while the node runs.
#[derive(Debug)]
pub struct StreamTable {
    disk: Arc<dyn Disk>,
    /// Whether the file was not there.
    was_missing: bool,
    /// The source of identities of new streams.
    seed: u64,
    slots: Mutex<Slots>,
}

impl StreamTable {
    /// Opens the file, or makes it. `seed` differs from that of other nodes, and of other starts.
    ///
    /// # Errors
    /// The disk's, or one of a newer version.
    pub fn open(disk: Arc<dyn Disk>, seed: u64) -> Result<Self> {
        let mut slots = Slots::read(disk.as_ref())?;
        let was_missing = slots.file.file().is_none();
        slots.file.make(disk.as_ref())?;
        Ok(Self { disk, was_missing, seed, slots: Mutex::new(slots) })
    }

    /// The notes of the file, read without touching anything; none if there is no file.
    ///
    /// # Errors
    /// As [`StreamTable::open`].
    pub fn read(disk: &dyn Disk) -> Result<Option<HashMap<u64, StreamNote>>> {
        let Some(bytes) = read_file(disk, STREAMS_FILE)? else { return Ok(None) };
        let slots = bytes.chunks_exact(SLOT_BYTES).map(StreamNote::read);
        slots.filter_map(Result::transpose).collect::<Result<_>>().map(Some)
    }

    /// Writes a file of these notes in which losses of the streams `accepted` are accepted.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_accepted(
        disk: &dyn Disk,
        notes: HashMap<u64, StreamNote>,
        accepted: &[u64],
    ) -> Result<()> {
        let accept = |(stream, note): (u64, StreamNote)| {
            let is_loss_accepted = note.is_loss_accepted || accepted.contains(&stream);
            StreamNote { is_loss_accepted, ..note }.slot(stream)
        };
        let bytes: Vec<u8> = notes.into_iter().flat_map(accept).collect();
        Ok(log::replace_file(disk, STREAMS_FILE, &bytes)?)
    }

    /// Forgets streams that are not wanted: their numbers may be given to others.
    ///
    /// # Errors
    /// The disk's.
    pub fn retain(&self, is_wanted: impl Fn(u64) -> bool) -> Result<()> {
        let ids: Vec<u64> = self.slots().notes.keys().copied().collect();
        ids.into_iter().filter(|id| !is_wanted(*id)).try_for_each(|id| self.forget(id))
    }

    /// Makes durable what was noted: for a clean stop.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> Result<()> {
        let file = self.slots().file.make(self.disk.as_ref())?;
        Ok(file.sync_data().context("sync", STREAMS_FILE)?)
    }

    /// Notes that all of a stream was verified at a time, without a sync.
    pub fn note_scrubbed(&self, stream: u64, at_ms: u64) {
        let scrubbed = |known: Option<StreamNote>| {
            known.map(|note| StreamNote { scrubbed_at_ms: at_ms, ..note })
        };
        // A time that cannot be noted has the stream verified again.
        self.update(stream, scrubbed).ok();
    }

    /// When all of a stream was verified last; none if it never was.
    pub fn scrubbed_at_ms(&self, stream: u64) -> Option<u64> {
        self.note(stream).map(|note| note.scrubbed_at_ms).filter(|at_ms| *at_ms > 0)
    }

    /// Has the next opening of a stream go on without what is missing, durably.
    ///
    /// # Errors
    /// The disk's.
    pub fn accept_loss(&self, stream: u64) -> Result<()> {
        let accepted = |known: Option<StreamNote>| {
            known.map(|note| StreamNote { is_loss_accepted: true, ..note })
        };
        if !self.update(stream, accepted)? {
            self.believe(stream);
        }
        self.sync()
    }

    /// Expects no more of a stream than what is there.
    pub(crate) fn believe(&self, stream: u64) {
        self.slots().believed.insert(stream);
    }

    /// Whether files of a stream may lack what this file would have noted, had it not been removed.
    pub(crate) fn may_be_incomplete(&self, stream: u64) -> bool {
        self.was_missing && !self.slots().believed.contains(&stream)
    }

    /// Forgets what is noted of a stream. A note that a crash brings back is forgotten by the next start if
    /// the stream is gone.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn forget(&self, stream: u64) -> Result<()> {
        let mut slots = self.slots();
        let Some((place, _)) = slots.notes.remove(&stream) else { return Ok(()) };
        slots.file.release(self.disk.as_ref(), place)?;
        Ok(())
    }

    pub(crate) fn note(&self, stream: u64) -> Option<StreamNote> {
        self.slots().notes.get(&stream).map(|(_, note)| *note)
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
        let newer = |known: Option<StreamNote>| match known {
            Some(known) if note.is_older_than(&known) => None,
            known => {
                let scrubbed_at_ms = known.map_or(0, |known| known.scrubbed_at_ms);
                Some(StreamNote { scrubbed_at_ms, ..note })
            }
        };
        self.update(stream, newer).map(drop)
    }

    /// Notes what a stream has, whatever was noted before.
    pub(crate) fn put(&self, stream: u64, note: StreamNote) -> Result<()> {
        self.update(stream, |_| Some(note)).map(drop)
    }

    /// Changes a stream's note as `change` says, in one step; false if `change` says nothing.
    fn update(
        &self,
        stream: u64,
        change: impl FnOnce(Option<StreamNote>) -> Option<StreamNote>,
    ) -> Result<bool> {
        let mut slots = self.slots();
        let known = slots.notes.get(&stream).copied();
        let Some(note) = change(known.map(|(_, note)| note)) else { return Ok(false) };
        let place = known.map_or_else(|| slots.file.take_place(), |(place, _)| place);
        slots.notes.insert(stream, (place, note));
        slots.file.write(self.disk.as_ref(), place, &note.slot(stream))?;
        Ok(true)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn read(disk: &dyn Disk) -> Result<Self> {
        let mut notes = HashMap::new();
        let file = SlotFile::open(disk, STREAMS_FILE, |place, slot| {
            let note = StreamNote::read(slot)?;
            notes.extend(note.map(|(stream, note)| (stream, (place, note))));
            Ok::<_, ChunkLogError>(note.is_some())
        })?;
        Ok(Self { notes, believed: HashSet::new(), file })
    }
}
