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

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use segments::{CHECKED_AT, Disk, FileError, SlotTable, TableRecord, seal_record, unseal_record};
use stdx::record::Reader;

use super::block::{Tag, TagKind};
use super::files::FileNumbers;
use crate::Result;

/// The file's name, in the root of the data directory.
pub const JOURNALS_FILE: &str = "leveret-journals";

const MAGIC: [u8; 4] = *b"LVJT";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 64;

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

impl TableRecord<SLOT_BYTES> for Promised {
    type Key = u64;

    const FILE: &'static str = JOURNALS_FILE;

    fn to_slot(&self, queue: u64) -> [u8; SLOT_BYTES] {
        let Self { journals, segments, journal_bytes, segment_bytes, names_bodies } = self;
        let head = u64::from(VERSION) | u64::from(*names_bodies) << 32;
        let numbers = [head, queue, journals.start, journals.end, *segments];
        let mut slot = [0; SLOT_BYTES];
        let (words, _) = slot.as_chunks_mut();
        let numbers = numbers.into_iter().chain([*journal_bytes, *segment_bytes]);
        let rest = words.iter_mut().skip(CHECKED_AT / 8);
        rest.zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
        seal_record(MAGIC, &mut slot);
        slot
    }

    fn from_slot(slot: &[u8]) -> segments::Result<Option<(u64, Self)>> {
        let Some(rest) = unseal_record(MAGIC, slot) else { return Ok(None) };
        let mut reader = Reader::new(rest);
        let [found, flags] = [(); 2].map(|()| reader.u32().unwrap_or_default());
        if found > VERSION {
            let file = JOURNALS_FILE.to_owned();
            return Err(FileError::Newer { file, found, known: VERSION });
        }
        let mut number = || reader.u64().unwrap_or_default();
        let (queue, journals) = (number(), number()..number());
        let (segments, journal_bytes, segment_bytes) = (number(), number(), number());
        let names_bodies = flags == 1;
        Ok(Some((queue, Self { journals, segments, journal_bytes, segment_bytes, names_bodies })))
    }
}

impl Promised {
    /// Holds the files in `dir` against what is promised.
    ///
    /// # Errors
    /// [`FileError::Missing`], and the disk's.
    pub fn check(&self, disk: &dyn Disk, dir: &str) -> Result<()> {
        if self.journals.is_empty() && self.segments == 0 {
            return Ok(());
        }
        let told = format!("{JOURNALS_FILE} lists the file");
        let missing = |file: String, what| Err(FileError::Missing { file, what }.into());
        let Some(FileNumbers { journals, segments }) = FileNumbers::of_dir(disk, dir)? else {
            return missing(dir.to_owned(), told);
        };
        let mut promised = self.journals.clone();
        if let Some(number) = promised.find(|number| journals.binary_search(number).is_err()) {
            return missing(Tag::journal(number).path(dir), told);
        }
        let n_segments = segments.len() as u64;
        if n_segments < self.segments {
            let what = format!(
                "{JOURNALS_FILE} lists {} of these files, the directory has {n_segments}",
                self.segments
            );
            return missing(TagKind::Segment.any_in(dir), what);
        }
        Ok(())
    }
}

/// The file while the node runs.
#[derive(Debug)]
pub struct JournalTable(SlotTable<Promised, SLOT_BYTES>);

impl JournalTable {
    /// The promises of the file, by queue. Touches nothing.
    ///
    /// # Errors
    /// The disk's, or one of a newer version.
    pub fn read(disk: &dyn Disk) -> Result<BTreeMap<u64, Promised>> {
        Ok(SlotTable::<Promised, SLOT_BYTES>::read(disk)?.unwrap_or_default())
    }

    /// Opens the file, to go on with what it says. What is promised for other queues than `is_wanted` ones
    /// is forgotten: their numbers may be given to others.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: Arc<dyn Disk>, is_wanted: impl Fn(u64) -> bool) -> Result<Self> {
        let table = SlotTable::open(disk)?;
        table.forget(.., |queue| !is_wanted(queue))?;
        table.sync()?;
        Ok(Self(table))
    }

    /// The promise for a queue, if anything was told.
    pub(super) fn promised(&self, queue: u64) -> Option<Promised> {
        self.0.get(queue)
    }

    /// Makes durable what was told. For a clean stop: what follows from it outlives a loss of power.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> segments::Result<()> {
        self.0.sync()
    }

    /// Tells what a queue has now, without a sync.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn tell(&self, queue: u64, promised: Promised) -> Result<()> {
        Ok(self.0.put(queue, promised)?)
    }

    /// Tells durably what a queue has: before a file goes.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn tell_durably(&self, queue: u64, promised: Promised) -> Result<()> {
        Ok(self.0.put_durably(queue, promised)?)
    }

    /// Takes back what is promised for a queue, durably: its files may go.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget(&self, queue: u64) -> Result<()> {
        Ok(self.0.forget_durably(queue..=queue, |_| true)?)
    }
}
