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

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use log::{Disk, IoContext, SlotFile, crc32c, read_file};
use stdx::lock;

use crate::error::{Result, StoreError};

/// The file's name, in the root of the data directory.
pub const BODIES_FILE: &str = "leveret-bodies";

const SLOT_BYTES: usize = 16;
const PRESENT: u32 = 1;

/// A file of a store: the checksum of its directory's name, and its number.
type FileKey = (u32, u32);

fn slot((dir, number): FileKey) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let rest: Vec<u8> = [dir, number, PRESENT].iter().flat_map(|it| it.to_le_bytes()).collect();
    let bytes = crc32c(&rest).to_le_bytes().into_iter().chain(rest);
    slot.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    slot
}

fn read(slot: &[u8]) -> Option<FileKey> {
    let number = |at: usize| Some(u32::from_le_bytes(*slot.get(at..)?.first_chunk()?));
    let is_whole = number(12)? == PRESENT && number(0)? == crc32c(slot.get(4..)?);
    if is_whole { Some((number(4)?, number(8)?)) } else { None }
}

fn key_of(dir: &str) -> u32 {
    crc32c(dir.as_bytes())
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
        let bytes = read_file(disk, BODIES_FILE)?.unwrap_or_default();
        Ok(Self(bytes.chunks_exact(SLOT_BYTES).filter_map(read).collect()))
    }

    /// Numbers of files that are to be in a directory.
    pub fn of(&self, dir: &str) -> impl Iterator<Item = u32> {
        let dir = key_of(dir);
        self.0.range((dir, 0)..=(dir, u32::MAX)).map(|(_, number)| *number)
    }
}

#[derive(Debug)]
struct BodySlots {
    places: BTreeMap<FileKey, u64>,
    slots: SlotFile<SLOT_BYTES>,
}

/// The file while the node runs.
#[derive(Debug)]
pub struct BodyFiles {
    disk: Arc<dyn Disk>,
    state: Mutex<BodySlots>,
}

impl BodyFiles {
    /// Opens the file, to go on with what it says.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self> {
        let mut places = BTreeMap::new();
        let slots = SlotFile::open(disk.as_ref(), BODIES_FILE, |place, slot| {
            let key = read(slot);
            places.extend(key.map(|key| (key, place)));
            Ok::<_, StoreError>(key.is_some())
        })?;
        Ok(Self { disk, state: Mutex::new(BodySlots { places, slots }) })
    }

    /// Tells of files of a directory, which are durable, without a sync.
    pub(super) fn tell(&self, dir: &str, numbers: impl Iterator<Item = u32>) -> Result<()> {
        let BodySlots { places, slots } = &mut *lock(&self.state);
        for number in numbers {
            let key = (key_of(dir), number);
            if let Entry::Vacant(untold) = places.entry(key) {
                let place = *untold.insert(slots.take_place());
                slots.write(self.disk.as_ref(), place, &slot(key))?;
            }
        }
        Ok(())
    }

    /// Forgets files of a directory for which `is_gone`, durably: they may go.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget(&self, dir: &str, is_gone: impl Fn(u32) -> bool) -> Result<()> {
        let mut state = lock(&self.state);
        let BodySlots { places, slots } = &mut *state;
        let dir = key_of(dir);
        let of_dir = places.range((dir, 0)..=(dir, u32::MAX));
        let gone: Vec<FileKey> = of_dir.map(|(key, _)| *key).filter(|it| is_gone(it.1)).collect();
        for key in &gone {
            if let Some(place) = places.remove(key) {
                slots.release(self.disk.as_ref(), place)?;
            }
        }
        let file = slots.file().filter(|_| !gone.is_empty());
        drop(state);
        Ok(file.map_or(Ok(()), |file| file.sync_data()).context("sync", BODIES_FILE)?)
    }
}
