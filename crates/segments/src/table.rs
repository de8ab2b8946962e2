//! A table of what a data directory must have, in one file beside it: a record for each owner of files, in a
//! slot of its own that is written in place.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard};

use stdx::lock;

use crate::disk::Disk;
use crate::error::{FileError, Result};
use crate::file::{File, read_file};
use crate::slots::SlotFile;

/// A record of a table, of `SLOT_BYTES` in its file.
pub trait TableRecord<const SLOT_BYTES: usize>: Clone + Debug {
    /// The number of whom the record is about.
    type Key: Copy + Ord + Debug;

    /// The file's name, in the root of the data directory.
    const FILE: &'static str;

    /// Encodes the record about `key`.
    fn to_slot(&self, key: Self::Key) -> [u8; SLOT_BYTES];

    /// The record in a slot, and whom it is about; none if the slot is not in use.
    ///
    /// # Errors
    /// A slot of a newer version.
    fn from_slot(slot: &[u8]) -> Result<Option<(Self::Key, Self)>>;
}

#[derive(Debug)]
struct TableEntry<R> {
    place: u64,
    record: R,
}

#[derive(Debug)]
struct TableState<R: TableRecord<N>, const N: usize> {
    entries: BTreeMap<R::Key, TableEntry<R>>,
    slots: SlotFile<N>,
}

/// The table while the node runs.
#[derive(Debug)]
pub struct SlotTable<R: TableRecord<N>, const N: usize> {
    disk: Arc<dyn Disk>,
    state: Mutex<TableState<R, N>>,
}

impl<R: TableRecord<N>, const N: usize> SlotTable<R, N> {
    /// Reads the file without touching anything; none if it is not there.
    ///
    /// # Errors
    /// The disk's, or a record of a newer version.
    pub fn read(disk: &dyn Disk) -> Result<Option<BTreeMap<R::Key, R>>> {
        let Some(bytes) = read_file(disk, R::FILE)? else { return Ok(None) };
        let records = bytes.chunks_exact(N).map(R::from_slot);
        records.filter_map(Result::transpose).collect::<Result<_>>().map(Some)
    }

    /// Opens the file, to go on with what it says.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let slots = SlotFile::open(disk.as_ref(), R::FILE, |place, slot| {
            let Some((key, record)) = R::from_slot(slot)? else { return Ok(false) };
            entries.insert(key, TableEntry { place, record });
            Ok::<_, FileError>(true)
        })?;
        Ok(Self { disk, state: Mutex::new(TableState { entries, slots }) })
    }

    fn state(&self) -> MutexGuard<'_, TableState<R, N>> {
        lock(&self.state)
    }

    /// The record about `key`, if there is one.
    pub fn get(&self, key: R::Key) -> Option<R> {
        self.state().entries.get(&key).map(|entry| entry.record.clone())
    }

    /// The keys of all records, rising.
    #[must_use]
    pub fn keys(&self) -> Vec<R::Key> {
        self.state().entries.keys().copied().collect()
    }

    /// Makes the file, if it is not there; false if it was.
    ///
    /// # Errors
    /// The disk's.
    pub fn make(&self) -> Result<bool> {
        let mut state = self.state();
        let is_missing = state.slots.file().is_none();
        state.slots.make(self.disk.as_ref())?;
        Ok(is_missing)
    }

    /// Changes the record about `key` as `change` says, in one step and without a sync; none if `change` says
    /// nothing.
    ///
    /// # Errors
    /// The disk's.
    pub fn update(
        &self,
        key: R::Key,
        change: impl FnOnce(Option<&R>) -> Option<R>,
    ) -> Result<Option<File>> {
        let TableState { entries, slots } = &mut *self.state();
        let known = entries.get(&key);
        let Some(record) = change(known.map(|entry| &entry.record)) else { return Ok(None) };
        let place = known.map_or_else(|| slots.take_place(), |entry| entry.place);
        let slot = record.to_slot(key);
        entries.insert(key, TableEntry { place, record });
        slots.write(self.disk.as_ref(), place, &slot).map(Some)
    }

    /// Sets the record about `key`, without a sync.
    ///
    /// # Errors
    /// The disk's.
    pub fn put(&self, key: R::Key, record: R) -> Result<()> {
        self.update(key, |_| Some(record)).map(drop)
    }

    /// Sets the record about `key`, durably.
    ///
    /// # Errors
    /// The disk's.
    pub fn put_durably(&self, key: R::Key, record: R) -> Result<()> {
        let file = self.update(key, |_| Some(record))?;
        file.map_or(Ok(()), |file| file.sync())
    }

    /// Removes records as [`Self::forget`] does, durably: their files may go.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget_durably(
        &self,
        keys: impl RangeBounds<R::Key>,
        is_unwanted: impl Fn(R::Key) -> bool,
    ) -> Result<()> {
        if self.forget(keys, is_unwanted)? { self.sync() } else { Ok(()) }
    }

    /// Removes the records about those of the `keys` that are unwanted, without a sync; false if there was
    /// none.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget(
        &self,
        keys: impl RangeBounds<R::Key>,
        is_unwanted: impl Fn(R::Key) -> bool,
    ) -> Result<bool> {
        let TableState { entries, slots } = &mut *self.state();
        let mut is_any = false;
        for (_, entry) in entries.extract_if(keys, |key, _| is_unwanted(*key)) {
            slots.release(self.disk.as_ref(), entry.place)?;
            is_any = true;
        }
        Ok(is_any)
    }

    /// Makes durable what the file says, if it is there.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> Result<()> {
        let file = self.state().slots.file();
        file.map_or(Ok(()), |file| file.sync())
    }
}
