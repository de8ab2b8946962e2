//! Where the blobs of one file lie, and how many references each has: 16 bytes a blob.

/// A blob of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobSlot {
    /// Its number in the file.
    pub(super) index: u32,
    /// Where its record begins in the file.
    pub(super) offset: u32,
    /// Length of the blob, without the record's header.
    pub(super) bytes: u32,
    /// References; below zero only while references are still being counted after a start.
    pub(super) refs: i32,
}

impl BlobSlot {
    pub(super) const fn new(index: u32, offset: u32, bytes: u32) -> Self {
        Self { index, offset, bytes, refs: 0 }
    }
}

/// Blobs by index, which rises.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<BlobSlot>);

impl Slots {
    pub(super) fn push(&mut self, slot: BlobSlot) {
        assert!(self.0.last().is_none_or(|last| last.index < slot.index), "indexes rise");
        self.0.push(slot);
    }

    /// Forgets the blobs without a reference.
    pub(super) fn forget_garbage(&mut self) {
        self.0.retain(|slot| slot.refs > 0);
        self.0.shrink_to_fit();
    }

    /// Gives back what was reserved for more.
    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, BlobSlot> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, BlobSlot> {
        self.0.iter_mut()
    }

    /// The index after the last one.
    pub(super) fn next_index(&self) -> u32 {
        self.0.last().map_or(0, |last| last.index + 1)
    }

    pub(super) fn get(&self, index: u32) -> Option<&BlobSlot> {
        self.0.get(self.place(index)?)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut BlobSlot> {
        let place = self.place(index)?;
        self.0.get_mut(place)
    }

    /// Files that were never rewritten have every index: the search is for the others.
    fn place(&self, index: u32) -> Option<usize> {
        let guess = index as usize;
        if self.0.get(guess).is_some_and(|slot| slot.index == index) {
            return Some(guess);
        }
        self.0.binary_search_by_key(&index, |slot| slot.index).ok()
    }
}
