//! Which files queues of the older form have, told outside their directories: a start notices when
//! some of them, or all, are missing.
//!
//! ```text
//! file "leveret-journals": slots of 64 bytes, in no order
//!  0       4       8         12  16      24      32     40         48        56
//!  +-------+-------+---------+---+-------+-------+------+----------+---------+---------+
//!  | "LVJT"| crc32c| version | b | queue | first | next | segments | journal | segment |
//!  |       | u32   | u32     |   | u64   | u64   | u64  | u64      | bytes   | bytes   |
//!  +-------+-------+---------+---+-------+-------+------+----------+---------+---------+
//!  b              1 if messages in them name bodies in the body store, or did
//!  first, next    the journals from the first number to before the other are there
//!  segments       there are so many segment files, or more
//!  journal bytes  blocks of so many bytes were synced in all journals together, or more
//!  segment bytes  the same of all segments
//! ```
//! A slot is written after each sync of a journal, and, synced, before a file is removed and at a
//! clean stop. It never runs ahead of what is durable, so that a loss of power, which may leave any
//! slot written since its last sync, leaves none that promises too much. One whose checksum (over
//! everything after it) fails, or that is all zeroes, promises nothing; no bytes are promised by
//! programs that knew nothing of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use log::{Disk, DiskFile, IoContext, LogError, SlotFile, crc32c, list_if_there, read_file};
use stdx::lock;
use stdx::record::{Reader, put_u32, put_u64};

use super::files::{journal_name, numbers};
use crate::error::{Result, StoreError};

/// The file's name, in the root of the data directory.
pub const JOURNALS_FILE: &str = "leveret-journals";

const MAGIC: [u8; 4] = *b"LVJT";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 64;
const UNCHECKED_BYTES: usize = 8;

/// Files that a queue has, and perhaps others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    /// Numbers of journals.
    pub journals: Range<u64>,
    /// How many segment files.
    pub segments: u64,
    /// Bytes of blocks that were synced in all journals together.
    pub journal_bytes: u64,
    /// Bytes of blocks that were synced in all segments together.
    pub segment_bytes: u64,
    /// Whether messages in them name bodies in the body store, or did.
    pub names_bodies: bool,
}

impl Promised {
    fn slot(&self, queue: u64) -> [u8; SLOT_BYTES] {
        let mut rest = Vec::with_capacity(SLOT_BYTES);
        put_u32(&mut rest, VERSION);
        let Self { journals, segments, journal_bytes, segment_bytes, names_bodies } = self;
        put_u32(&mut rest, u32::from(*names_bodies));
        for number in
            [queue, journals.start, journals.end, *segments, *journal_bytes, *segment_bytes]
        {
            put_u64(&mut rest, number);
        }
        let mut slot = [0; SLOT_BYTES];
        let bytes = MAGIC.into_iter().chain(crc32c(&rest).to_le_bytes()).chain(rest);
        slot.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        slot
    }

    /// The queue and what is promised for it, if anything is.
    fn read(slot: &[u8]) -> Result<Option<(u64, Self)>> {
        let rest = slot.get(UNCHECKED_BYTES..).unwrap_or_default();
        let crc = crc32c(rest).to_le_bytes();
        if !slot.starts_with(&MAGIC) || slot.get(MAGIC.len()..UNCHECKED_BYTES) != Some(&crc) {
            return Ok(None);
        }
        let mut reader = Reader::new(rest);
        let [found, flags] = [(); 2].map(|()| reader.u32().unwrap_or_default());
        if found > VERSION {
            let file = JOURNALS_FILE.to_owned();
            return Err(LogError::Newer { file, found, known: VERSION }.into());
        }
        let mut number = || reader.u64().unwrap_or_default();
        let (queue, journals) = (number(), number()..number());
        let (segments, journal_bytes, segment_bytes) = (number(), number(), number());
        let names_bodies = flags == 1;
        Ok(Some((queue, Self { journals, segments, journal_bytes, segment_bytes, names_bodies })))
    }

    /// Holds the files in `dir` against what is promised.
    ///
    /// # Errors
    /// [`LogError::Missing`], and the disk's.
    pub fn check(&self, disk: &dyn Disk, dir: &str) -> Result<()> {
        if self.journals.is_empty() && self.segments == 0 {
            return Ok(());
        }
        let told = format!("{JOURNALS_FILE} lists the file");
        let missing = |file: String, what| Err(LogError::Missing { file, what }.into());
        let Some(names) = list_if_there(disk, dir)? else {
            return missing(dir.to_owned(), told);
        };
        let (journals, segments) = numbers(&names);
        let mut promised = self.journals.clone();
        if let Some(number) = promised.find(|number| journals.binary_search(number).is_err()) {
            return missing(journal_name(dir, number), told);
        }
        let n_segments = segments.len() as u64;
        if n_segments < self.segments {
            let what = format!(
                "{JOURNALS_FILE} lists {} of these files, the directory has {n_segments}",
                self.segments
            );
            return missing(format!("a file {dir}/*.idx"), what);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct V1State {
    /// Where the slots of queues are, by number.
    places: HashMap<u64, u64>,
    slots: SlotFile<SLOT_BYTES>,
}

/// The file while the node runs.
#[derive(Debug)]
pub struct JournalTable {
    disk: Arc<dyn Disk>,
    state: Mutex<V1State>,
}

impl JournalTable {
    /// The promises of the file, by queue. Touches nothing.
    ///
    /// # Errors
    /// The disk's, or one of a newer version.
    pub fn read(disk: &dyn Disk) -> Result<BTreeMap<u64, Promised>> {
        let Some(bytes) = read_file(disk, JOURNALS_FILE)? else { return Ok(BTreeMap::new()) };
        let slots = bytes.chunks_exact(SLOT_BYTES).map(Promised::read);
        slots.filter_map(Result::transpose).collect()
    }

    /// Opens the file, to go on with what it says. What is promised for other queues than `is_wanted` ones
    /// is forgotten: their numbers may be given to others.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: Arc<dyn Disk>, is_wanted: impl Fn(u64) -> bool) -> Result<Self> {
        let (mut places, mut unwanted) = (HashMap::new(), Vec::new());
        let mut slots = SlotFile::open(disk.as_ref(), JOURNALS_FILE, |place, slot| {
            let told = Promised::read(slot)?;
            match told {
                Some((queue, _)) if is_wanted(queue) => drop(places.insert(queue, place)),
                Some(_) => unwanted.push(place),
                None => {}
            }
            Ok::<_, StoreError>(told.is_some())
        })?;
        for place in unwanted {
            slots.release(disk.as_ref(), place)?;
        }
        if let Some(file) = slots.file() {
            file.sync_data().context("sync", JOURNALS_FILE)?;
        }
        Ok(Self { disk, state: Mutex::new(V1State { places, slots }) })
    }

    /// The promise for a queue; nothing is promised if nothing was told.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn promised(&self, queue: u64) -> Result<Promised> {
        let state = lock(&self.state);
        let told = state.places.get(&queue).zip(state.slots.file());
        let Some((place, file)) = told else { return Ok(Promised::default()) };
        let mut slot = [0; SLOT_BYTES];
        file.read_at(place * SLOT_BYTES as u64, &mut slot).context("read", JOURNALS_FILE)?;
        Ok(Promised::read(&slot)?.map(|(_, promised)| promised).unwrap_or_default())
    }

    /// Makes durable what was told. For a clean stop: what follows from it outlives a loss of power.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> std::result::Result<(), LogError> {
        let file = lock(&self.state).slots.file();
        file.map_or(Ok(()), |file| file.sync_data()).context("sync", JOURNALS_FILE)
    }

    /// Tells what a queue has now, without a sync.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn tell(&self, queue: u64, promised: &Promised) -> Result<()> {
        self.write(queue, promised).map(drop)
    }

    /// Tells durably what a queue has: before a file goes.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn tell_durably(&self, queue: u64, promised: &Promised) -> Result<()> {
        let file = self.write(queue, promised)?;
        Ok(file.sync_data().context("sync", JOURNALS_FILE)?)
    }

    /// Takes back what is promised for a queue, durably: its files may go.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget(&self, queue: u64) -> Result<()> {
        let mut state = lock(&self.state);
        let Some(place) = state.places.remove(&queue) else { return Ok(()) };
        let file = state.slots.release(self.disk.as_ref(), place)?;
        drop(state);
        Ok(file.sync_data().context("sync", JOURNALS_FILE)?)
    }

    fn write(&self, queue: u64, promised: &Promised) -> Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        let known = state.places.get(&queue).copied();
        let place = known.unwrap_or_else(|| state.slots.take_place());
        state.places.insert(queue, place);
        Ok(state.slots.write(self.disk.as_ref(), place, &promised.slot(queue))?)
    }
}
