//! Which files the stores of bodies have, told outside their directories: a start notices when one of
//! several is missing, although nothing but pages names what is in it.
//!
//! ```text
//! file "leveret-bodies": slots of 16 bytes, in no order
//!  0       4            8        12
//!  +-------+------------+--------+------+
//!  | crc32c| crc of the | file   | 1    |   crc32c: over the 12 bytes after it
//!  | u32   | directory  | number | u32  |
//!  +-------+------------+--------+------+
//! ```
//! A slot is written once its file is durable, and zeroed, synced, before the file goes: whatever a loss of
//! power leaves promises nothing that may be gone. Integers are little-endian.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use segments::{Disk, SlotTable, TableRecord, crc32c};
use stdx::record::Reader;

use crate::error::Result;

/// The file's name, in the root of the data directory.
pub const BODIES_FILE: &str = "leveret-bodies";

const SLOT_BYTES: usize = 16;
const PRESENT: u32 = 1;

/// A file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileKey {
    /// The checksum of its directory's name.
    dir: u32,
    number: u32,
}

impl FileKey {
    fn new(dir: &str, number: u32) -> Self {
        Self { dir: crc32c(dir.as_bytes()), number }
    }

    /// All files of a directory.
    fn all_in(dir: &str) -> RangeInclusive<Self> {
        Self::new(dir, 0)..=Self::new(dir, u32::MAX)
    }
}

/// The record that a file is there.
#[derive(Clone, Copy, Debug)]
struct Present;

impl TableRecord<SLOT_BYTES> for Present {
    type Key = FileKey;

    const FILE: &'static str = BODIES_FILE;

    fn to_slot(&self, FileKey { dir, number }: FileKey) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let (words, _) = slot.as_chunks_mut();
        let numbers = [0, dir, number, PRESENT];
        words.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
        if let Some((crc, rest)) = words.split_first_mut() {
            *crc = crc32c(rest.as_flattened()).to_le_bytes();
        }
        slot
    }

    fn from_slot(slot: &[u8]) -> segments::Result<Option<(FileKey, Self)>> {
        let mut reader = Reader::new(slot);
        let crc = reader.u32();
        let is_whole = crc == Ok(crc32c(reader.rest()));
        let [dir, number, state] = [(); 3].map(|()| reader.u32().unwrap_or_default());
        let key = FileKey { dir, number };
        Ok((is_whole && state == PRESENT).then_some((key, Self)))
    }
}

/// The files that were told.
#[derive(Debug, Default)]
pub struct ToldFiles(BTreeSet<FileKey>);

impl ToldFiles {
    /// Reads the file, without touching anything.
    ///
    /// # Errors
    /// The disk's.
    pub fn read(disk: &dyn Disk) -> Result<Self> {
        let files: Option<BTreeMap<_, Present>> = SlotTable::read(disk)?;
        Ok(Self(files.unwrap_or_default().into_keys().collect()))
    }

    /// Numbers of files that are to be in a directory.
    pub fn of(&self, dir: &str) -> impl Iterator<Item = u32> {
        self.0.range(FileKey::all_in(dir)).map(|key| key.number)
    }
}

/// The file while the node runs.
#[derive(Debug)]
pub struct BodyFiles(SlotTable<Present, SLOT_BYTES>);

impl BodyFiles {
    /// Opens the file, to go on with what it says.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self> {
        Ok(Self(SlotTable::open(disk)?))
    }

    /// Tells of files of a directory, which are durable, without a sync.
    pub(super) fn tell(&self, dir: &str, mut numbers: impl Iterator<Item = u32>) -> Result<()> {
        let untold = |known: Option<&Present>| known.is_none().then_some(Present);
        numbers.try_for_each(|number| {
            self.0.update(FileKey::new(dir, number), untold).map(drop).map_err(Into::into)
        })
    }

    /// Forgets files of a directory for which `is_gone`, durably: they may go.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget(&self, dir: &str, is_gone: impl Fn(u32) -> bool) -> Result<()> {
        Ok(self.0.forget_durably(FileKey::all_in(dir), |file| is_gone(file.number))?)
    }
}
