//! A file of slots of one size, in no order, which are written in place. Knows where slots are and which are
//! free; what is in a slot, and when the file is synced, its owner knows.

use crate::disk::Disk;
use crate::error::{FileError, Result};
use crate::file::{File, sync_name};

/// The file while the node runs. It is made with its first slot.
#[derive(Debug)]
pub struct SlotFile<const SLOT_BYTES: usize> {
    name: &'static str,
    file: Option<File>,
    free: Vec<u64>,
    n_slots: u64,
}

impl<const SLOT_BYTES: usize> SlotFile<SLOT_BYTES> {
    /// Goes on with the file, if it is there. `is_taken` is shown the place and the bytes of each whole slot;
    /// others than those it takes are free.
    ///
    /// # Errors
    /// The disk's, and those of `is_taken`.
    pub fn open<E: From<FileError>>(
        disk: &dyn Disk,
        name: &'static str,
        mut is_taken: impl FnMut(u64, &[u8]) -> std::result::Result<bool, E>,
    ) -> std::result::Result<Self, E> {
        let mut slots = Self { name, file: None, free: Vec::new(), n_slots: 0 };
        let Some(file) = File::open_if_there(disk, name)? else { return Ok(slots) };
        for (place, slot) in (0..).zip(file.read_all()?.chunks_exact(SLOT_BYTES)) {
            slots.n_slots = place + 1;
            if !is_taken(place, slot)? {
                slots.free.push(place);
            }
        }
        slots.file = Some(file);
        Ok(slots)
    }

    /// The file, if it is there.
    #[must_use]
    pub fn file(&self) -> Option<File> {
        self.file.clone()
    }

    /// The file, which is made, durably, if it is not there.
    ///
    /// # Errors
    /// The disk's.
    pub fn make(&mut self, disk: &dyn Disk) -> Result<File> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let file = File::create(disk, self.name)?;
        sync_name(disk, self.name)?;
        Ok(self.file.insert(file).clone())
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
    pub fn write(&mut self, disk: &dyn Disk, place: u64, slot: &[u8; SLOT_BYTES]) -> Result<File> {
        assert!(place < self.n_slots, "a slot is written where one was taken");
        let file = self.make(disk)?;
        file.write(place * SLOT_BYTES as u64, slot)?;
        Ok(file)
    }

    /// Zeroes a slot, without a sync; its place is free then.
    ///
    /// # Errors
    /// The disk's.
    pub fn release(&mut self, disk: &dyn Disk, place: u64) -> Result<File> {
        let file = self.write(disk, place, &[0; SLOT_BYTES])?;
        debug_assert!(!self.free.contains(&place), "a slot is released once");
        self.free.push(place);
        Ok(file)
    }
}
