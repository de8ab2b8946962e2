//! The pages of a backlog in order of their positions: which are in memory, and which are worth writing anew.

use super::PageKey;
use super::page_bitmap::PageBitmap;
use super::slot::Slot;
use crate::blob::BlobId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Room for so many pages is kept when there are none.
const SPARE_SLOTS_MAX: usize = 16;

/// The pages of a backlog.
#[derive(Debug, Default)]
pub struct Pages {
    /// The pages by position, which rises.
    slots: VecDeque<Slot>,
    /// First positions of the pages that are in memory, rising.
    here: VecDeque<u64>,
    /// Pages with sparse images, oldest finding first.
    sparse: VecDeque<PageKey>,
    next_serial: u32,
    /// The page that was looked for last: a caller that looks for a message mostly looks for the next one
    /// too.
    near: AtomicUsize,
}

impl Pages {
    /// Number of messages, wherever they are. Counts pages: not for every message's way.
    pub fn n_messages(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.n_live)).sum()
    }

    /// Number of pages, in memory or not.
    pub fn n_pages(&self) -> usize {
        self.slots.len()
    }

    /// Number of pages in memory.
    pub fn n_pages_here(&self) -> usize {
        self.here.len()
    }

    /// The page image the message at `position` is in, and whether it is among the durable ones, for
    /// those who only want to look at it; none if its page has no image.
    #[must_use]
    pub fn image_of(&self, position: u64) -> Option<(BlobId, bool)> {
        let slot = self.index_of(position).and_then(|at| self.slots.get(at))?;
        slot.relative(position)?;
        slot.image.map(|image| (image.blob, image.is_durable))
    }

    /// The images that name bodies in the body store, with the positions whose bodies are counted
    /// for this backlog: what a restart reads to count references.
    pub fn images_with_bodies(&self) -> impl Iterator<Item = (BlobId, PageBitmap)> + '_ {
        self.slots.iter().filter_map(|slot| {
            let image = slot.image.filter(|image| image.has_bodies)?;
            slot.cold().map(|cold| (image.blob, cold.live.clone()))
        })
    }

    #[inline(always)]
    pub(super) const fn slots(&self) -> &VecDeque<Slot> {
        &self.slots
    }

    pub(super) const fn here(&self) -> &VecDeque<u64> {
        &self.here
    }

    pub(super) const fn sparse(&self) -> &VecDeque<PageKey> {
        &self.sparse
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Slot> {
        self.slots.get_mut(at)
    }

    #[inline(always)]
    pub(super) fn back_mut(&mut self) -> Option<&mut Slot> {
        self.slots.back_mut()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut()
    }

    #[inline(always)]
    pub(super) fn index_of(&self, position: u64) -> Option<usize> {
        // Most look at the head.
        if self.slots.front()?.end() > position { Some(0) } else { self.index_beyond(position) }
    }

    fn index_beyond(&self, position: u64) -> Option<usize> {
        if self.slots.back()?.first <= position {
            return self.slots.len().checked_sub(1);
        }
        if self.slots.get(1)?.end() > position {
            return Some(1);
        }
        let near = self.near.load(Ordering::Relaxed);
        let holds = |slot: &Slot| slot.first <= position && position < slot.end();
        if self.slots.get(near).is_some_and(holds) {
            return Some(near);
        }
        let at = self.slots.partition_point(|slot| slot.first <= position).checked_sub(1)?;
        self.near.store(at, Ordering::Relaxed);
        Some(at)
    }

    pub(super) fn index_of_key(&self, key: PageKey) -> Option<usize> {
        let at = self.slots.binary_search_by_key(&key.first, |slot| slot.first).ok()?;
        self.slots.get(at).is_some_and(|slot| slot.serial == key.serial).then_some(at)
    }

    /// The position behind the last one.
    pub(super) fn end(&self) -> u64 {
        self.slots.back().map_or(0, Slot::end)
    }

    /// Puts a page behind the others.
    pub(super) fn push_back(&mut self, slot: Slot) {
        assert!(self.end() <= slot.first, "pages follow one another");
        self.slots.push_back(Slot { serial: self.next_serial, ..slot });
        self.next_serial = self.next_serial.wrapping_add(1);
    }

    /// Gives a page another name: the name before finds no page any more.
    pub(super) fn rename(&mut self, at: usize) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        let before = slot.key();
        slot.serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let (renamed, is_sparse) = (slot.key(), slot.is_sparse);
        if is_sparse {
            self.forget_sparse(before);
            self.sparse.push_back(renamed);
        }
    }

    /// Removes a page, whatever is in it.
    pub(super) fn remove(&mut self, at: usize) -> Option<Slot> {
        let slot = self.slots.remove(at)?;
        if slot.is_sparse {
            self.forget_sparse(slot.key());
        }
        if slot.page().is_some() {
            self.forget_here(slot.first);
        }
        Some(slot)
    }

    /// Takes out the only page, and gives memory back that many pages needed.
    pub(super) fn remove_only(&mut self) -> Option<Slot> {
        let only = self.slots.pop_back();
        self.here.clear();
        if self.slots.capacity() > SPARE_SLOTS_MAX {
            (self.slots, self.here) = (VecDeque::new(), VecDeque::new());
        }
        only
    }

    /// Notes that the page that begins at `first` is in memory.
    pub(super) fn come_here(&mut self, first: u64) {
        let place = self.here.partition_point(|other| *other < first);
        debug_assert!(self.here.get(place) != Some(&first), "it was not");
        self.here.insert(place, first);
    }

    /// Has the last page, which is in memory and empty, begin at `first`.
    #[inline]
    pub(super) fn move_last(&mut self, first: u64) {
        if let Some(last) = self.here.back_mut() {
            debug_assert!(*last <= first, "positions rise");
            *last = first;
        }
    }

    pub(super) fn forget_here(&mut self, first: u64) {
        if self.here.front() == Some(&first) {
            self.here.pop_front();
        } else if let Ok(at) = self.here.binary_search(&first) {
            self.here.remove(at);
        }
    }

    pub(super) fn forget_sparse(&mut self, key: PageKey) {
        if self.sparse.front() == Some(&key) {
            self.sparse.pop_front();
        } else {
            self.sparse.retain(|other| *other != key);
        }
    }

    pub(super) fn note_sparse(&mut self, at: usize) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        if !slot.is_sparse && slot.has_sparse_image() {
            slot.is_sparse = true;
            self.sparse.push_back(slot.key());
        }
    }
}
