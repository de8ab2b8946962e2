//! A file of slots of one size, in no order, which are written in place. Knows where slots are and which are
//! free; what is in a slot, and when the file is synced, its owner knows.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoContext as _, LogError};
use crate::files::read_file;

/// The file while the node runs. It is made with its first slot.
#[derive(Debug)]
pub struct SlotFile<const SLOT_BYTES: usize> {
    name: &'static str,
    file: Option<Arc<dyn DiskFile>>,
    free: Vec<u64>,
    n_slots: u64,
}

impl<const SLOT_BYTES: usize> SlotFile<SLOT_BYTES> {
    /// Goes on with the file, if it is there. `is_taken` is shown the place and the bytes of each whole slot;
    /// others than those it takes are free.
    ///
    /// # Errors
    /// The disk's, and those of `is_taken`.
    pub fn open<E: From<LogError>>(
        disk: &dyn Disk,
        name: &'static str,
        mut is_taken: impl FnMut(u64, &[u8]) -> Result<bool, E>,
    ) -> Result<Self, E> {
        let mut slots = Self { name, file: None, free: Vec::new(), n_slots: 0 };
        let Some(bytes) = read_file(disk, name)? else { return Ok(slots) };
        let file = disk.open(name, OpenMode::Existing).context("open", name)?;
        slots.file = Some(Arc::from(file));
        for (place, slot) in (0..).zip(bytes.chunks_exact(SLOT_BYTES)) {
            slots.n_slots = place + 1;
            if !is_taken(place, slot)? {
                slots.free.push(place);
            }
        }
        Ok(slots)
    }

    /// The file, if it is there.
    #[must_use]
    pub fn file(&self) -> Option<Arc<dyn DiskFile>> {
        self.file.clone()
    }

    /// The file, which is made, durably, if it is not there.
    ///
    /// # Errors
    /// The disk's.
    pub fn make(&mut self, disk: &dyn Disk) -> Result<Arc<dyn DiskFile>, LogError> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = disk.open(self.name, OpenMode::New).context("create", self.name)?;
        disk.sync_dir("").context("sync the directory of", self.name)?;
        Ok(Arc::clone(self.file.insert(Arc::from(file))))
    }

    /// A free place, which is taken.
    pub fn take_place(&mut self) -> u64 {
        let place = self.free.pop().unwrap_or(self.n_slots);
        self.n_slots = self.n_slots.max(place + 1);
        place
    }

    /// Writes a slot, without a sync.
    ///
    /// # Errors
    /// The disk's.
    pub fn write(
        &mut self,
        disk: &dyn Disk,
        place: u64,
        slot: &[u8; SLOT_BYTES],
    ) -> Result<Arc<dyn DiskFile>, LogError> {
        let file = self.make(disk)?;
        let at = place * SLOT_BYTES as u64;
        file.write_at(at, slot).context("write", self.name)?;
        Ok(file)
    }

    /// Zeroes a slot, without a sync; its place is free then.
    ///
    /// # Errors
    /// The disk's.
    pub fn release(&mut self, disk: &dyn Disk, place: u64) -> Result<Arc<dyn DiskFile>, LogError> {
        let file = self.write(disk, place, &[0; SLOT_BYTES])?;
        self.free.push(place);
        Ok(file)
    }
}
