//! Survival: messages and pages that outlive their log segment, or the process; and the duties left when
//! many messages go at once.

use super::page::{BodyPlace, Page};
use super::page_bitmap::{PageBitmap, SPAN_MAX, to_u16};
use super::pool::PagePool;
use super::slot::{Busy, Cold, Slot, SlotContent, StoredImage};
use super::{Backlog, FreedPage, MessageRoom, PageKey};
use crate::blob::BlobId;
use crate::queued::Queued;
use log::{SegmentCounts, SegmentId};
use std::ops::Range;

/// The log's note about a page that is in an image: it stands for a log entry of each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageNote {
    /// The page's first position.
    pub first: u64,
    /// The image, among the durable ones.
    pub blob: BlobId,
    /// Positions of messages in it that are to survive a restart, lowest first.
    pub live: Vec<Range<u64>>,
    /// How many those were when the note was made.
    pub n_live: u16,
    /// Their size then, as `MessageRef::size_bytes` counts it.
    pub live_bytes: u64,
    /// Memory the page takes when it is loaded.
    pub load_bytes: u32,
    /// Messages in the image.
    pub n_entries: u16,
    /// Whether some of its messages have their body in the body store.
    pub has_bodies: bool,
    /// Whether some of its messages have deadlines. Older notes say so of all that have annotations.
    pub has_deadlines: bool,
}

/// A page note that cannot be: nothing is live, it overlaps what is there, or spans more than a page
/// can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a page of the backlog does not continue the page before")]
pub struct RestoreError;

/// The duties that many messages leave that went at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// How many messages.
    pub n_messages: u64,
    /// Whether a restart would bring some of them back: the log is to be told that they are gone.
    pub any_logged: bool,
    /// Log segments that held them, with how many: to be released.
    pub segments: SegmentCounts,
    /// References in the body store to be released.
    pub bodies: Vec<BlobId>,
    /// Images nobody needs any more.
    pub pages: Vec<FreedPage>,
}

impl Dropped {
    /// Adds a page with everything in it.
    fn add_slot(&mut self, slot: &Slot) {
        self.n_messages += u64::from(slot.n_live);
        match &slot.content {
            SlotContent::Here(page) => self.add_page(page),
            SlotContent::Cold(cold) => self.any_logged |= cold.any_logged(),
        }
        if let Some(freed) = slot.free_with_bodies() {
            self.pages.push(freed);
        }
    }

    fn add_page(&mut self, page: &Page) {
        for (_, entry) in page.live() {
            self.any_logged |= entry.segment.is_logged();
            self.segments.extend(page.segments.of(entry.segment));
            self.bodies.extend(page.bodies.get(entry.body).and_then(|kept| kept.blob));
        }
    }
}

impl Backlog {
    /// Forgets all messages at `positions`, without loading anything.
    pub fn purge(
        &mut self,
        pool: &PagePool,
        positions: impl IntoIterator<Item = Range<u64>>,
    ) -> Dropped {
        let mut dropped = Dropped::default();
        for range in positions {
            self.purge_range(pool, &range, &mut dropped);
        }
        dropped
    }

    fn purge_range(&mut self, pool: &PagePool, range: &Range<u64>, dropped: &mut Dropped) {
        let mut at = self.pages.slots().partition_point(|slot| slot.end() <= range.start);
        while let Some(slot) = self.pages.slots().get(at).filter(|slot| slot.first < range.end) {
            let (first, end) = (slot.first, slot.end());
            if slot.lies_in(range) {
                dropped.add_slot(slot);
                self.remove(pool, at);
                continue;
            }
            for position in range.start.max(first)..range.end.min(end) {
                if let Some(released) = self.release(pool, position) {
                    dropped.n_messages += 1;
                    dropped.any_logged |= released.is_logged;
                    dropped.segments.extend(released.segment);
                    dropped.bodies.extend(released.body);
                    dropped.pages.extend(released.page.map(|page| *page));
                }
            }
            let is_same = self.pages.slots().get(at).is_some_and(|slot| slot.first == first);
            at += usize::from(is_same);
        }
    }

    /// Forgets everything. Jobs under way find their pages gone.
    pub fn clear(&mut self, pool: &PagePool) -> Dropped {
        let mut dropped = Dropped::default();
        while let Some(slot) = self.pages.slots().back() {
            dropped.add_slot(slot);
            let last = self.pages.slots().len() - 1;
            self.remove(pool, last);
        }
        dropped
    }

    /// Drops a page whose image cannot be read: its messages are lost. None when the page is gone
    /// meanwhile. The positions lost are given beside what is left to be done.
    pub fn failed(&mut self, pool: &PagePool, page: PageKey) -> Option<(Vec<Range<u64>>, Dropped)> {
        let at = self.pages.index_of_key(page)?;
        let slot = self.pages.slots().get(at).filter(|slot| slot.busy == Busy::Loading)?;
        let lost = slot.absolute(&slot.live());
        let mut dropped = Dropped::default();
        dropped.add_slot(slot);
        // Nobody can read the names of its bodies.
        dropped.pages.iter_mut().for_each(|page| page.owed = None);
        self.remove(pool, at);
        Some((lost, dropped))
    }

    /// Puts a message of an earlier life back, from log segment `segment` if it lies in the log; if its
    /// body is stored, one reference is the backlog's, and the body is read when its turn comes. Positions
    /// rise.
    pub fn restore(&mut self, pool: &PagePool, queued: &Queued<'_>, segment: Option<SegmentId>) {
        let Some(stored) = queued.stored else {
            self.push(pool, queued.position, &queued.message, segment, None);
            return;
        };
        let body = BodyPlace::Kept(stored.blob_bytes() as usize);
        let room = MessageRoom { body, size_bytes: queued.size_bytes() };
        self.put(pool, queued.position, room, segment, |page, segment| {
            page.push_queued(queued, segment);
        });
        self.paging.may_lack_bodies |= stored.blob_bytes() > 0;
    }

    /// Puts a page of an earlier life back: `note` as it stands in log segment `segment`, but that
    /// messages gone since are not in `live`; some must be left. Pages and messages are put back in
    /// rising order of positions.
    ///
    /// # Errors
    /// Nothing is live, it does not follow the page before it, or it spans more than a page can.
    pub fn restore_page(
        &mut self,
        note: &PageNote,
        segment: SegmentId,
    ) -> Result<(), RestoreError> {
        let after_last = self.pages.slots().back().is_none_or(|slot| slot.end() <= note.first);
        let live = positions_in_page(note).filter(|_| after_last).ok_or(RestoreError)?;
        let Some(last) = live.iter().last() else { return Err(RestoreError) };
        let n_live = to_u16(live.len());
        let slot = Slot {
            first: note.first,
            live_bytes: part_of(note.live_bytes, n_live, note.n_live),
            n_live,
            span: last + 1,
            content: SlotContent::Cold(Cold::restored(live)),
            image: Some(StoredImage {
                blob: note.blob,
                segment,
                written_bytes: part_of(note.live_bytes, note.n_entries, note.n_live),
                load_bytes: note.load_bytes,
                n_entries: note.n_entries,
                is_durable: true,
                has_bodies: note.has_bodies,
            }),
            serial: 0,
            busy: Busy::Idle,
            is_closed: true,
            is_sparse: false,
            has_deadlines: note.has_deadlines,
        };
        self.stored_bytes += slot.live_bytes;
        self.pages.push_back(slot);
        self.pages.note_sparse(self.pages.slots().len() - 1);
        Ok(())
    }
}

/// The bytes of `n` of `n_all` messages that have `bytes` together.
fn part_of(bytes: u64, n: u16, n_all: u16) -> u64 {
    if n == n_all { bytes } else { bytes.saturating_mul(u64::from(n)) / u64::from(n_all.max(1)) }
}

fn positions_in_page(note: &PageNote) -> Option<PageBitmap> {
    let mut live = PageBitmap::none();
    let mut next = note.first;
    for range in &note.live {
        let end = range.end.checked_sub(note.first)?;
        if range.start < next || range.end < range.start || end > SPAN_MAX as u64 {
            return None;
        }
        next = range.end;
        let start = u16::try_from(range.start - note.first).ok()?;
        (start..u16::try_from(end).ok()?).for_each(|at| live.insert(at));
    }
    Some(live)
}

impl Slot {
    fn absolute(&self, positions: &PageBitmap) -> Vec<Range<u64>> {
        positions.ranges_from(self.first)
    }

    /// The log's note about its image, if it is among the durable ones.
    pub(super) fn note(&self) -> Option<PageNote> {
        let image = self.image.filter(|image| image.is_durable)?;
        let live = self.live_in_image();
        let n_live = to_u16(live.len());
        Some(PageNote {
            first: self.first,
            blob: image.blob,
            live: self.absolute(&live),
            live_bytes: part_of(self.live_bytes, n_live, self.n_live),
            n_live,
            load_bytes: image.load_bytes,
            n_entries: image.n_entries,
            has_bodies: image.has_bodies,
            has_deadlines: self.has_deadlines,
        })
    }

    /// Its image with all bodies in it that are the backlog's, for a page that goes as a whole.
    fn free_with_bodies(&self) -> Option<FreedPage> {
        let image = self.image?;
        let owed = self.cold().filter(|_| image.has_bodies).map(|cold| {
            let mut owed = cold.live.clone();
            if let Some(others) = cold.owed() {
                owed.add_all(others);
            }
            owed
        });
        Some(image.freed(owed))
    }
}
