//! Jobs on pages: what the host is given to do, and what it reports.

use super::image::{Image, ImageError, LoadedPage};
use super::look::ColdPage;
use super::page_bitmap::to_u16;
use super::pages::Pages;
use super::paging::{Paging, WrittenImage, page_bytes};
use super::plan::{PageStep, Planner};
use super::pool::PagePool;
use super::segments::SegmentNumber;
use super::slot::{Busy, Cold, NO_SEGMENT, Slot, SlotContent, StoredImage, load_bytes};
use super::{Backlog, FreedPage, PageKey, PageNote};
use crate::blob::BlobId;
use log::SegmentCounts;

/// A job for the host, to be reported under the page's key when it is done.
#[derive(Debug, PartialEq, Eq)]
pub enum Job {
    /// Write the image that was made, then call [`PageJobs::written`]; an image with logged messages must be
    /// durable first.
    Write {
        /// The page of the image.
        page: PageKey,
        /// Whether the page has messages that are to survive a restart: its image is to be a durable one.
        is_durable: bool,
    },
    /// Read an image. Then [`Backlog::loaded`] or [`Backlog::failed`].
    Load(ColdPage),
}

/// A page's messages moved from log segments into its image.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The note for the log about the page, when any of its messages is to survive a restart;
    /// then [`LogPlaces::paged_in_log`](super::log_places::LogPlaces::paged_in_log).
    pub note: Option<PageNote>,
    /// Log segments that held its messages, with how many: to be released after the note.
    pub segments: SegmentCounts,
    /// The image it had before.
    pub replaced: Option<FreedPage>,
}

/// A page that is back in memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Positions whose messages are gone for good: their body was not found.
    pub lost: Vec<u64>,
    /// References in the body store to be released: of messages that went while the page was away,
    /// and of lost ones.
    pub bodies: Vec<BlobId>,
    /// The page's image, when nothing is left of it.
    pub page: Option<FreedPage>,
}

/// The way of a backlog's pages to disk and back.
#[derive(Debug)]
pub struct PageJobs<'a> {
    pub(super) pages: &'a mut Pages,
    pub(super) paging: &'a mut Paging,
}

impl PageJobs<'_> {
    const fn planner(&self) -> Planner<'_> {
        Planner { pages: self.pages, paging: self.paging }
    }

    /// The next job so that the messages from `head`, the first ready position, are in memory and
    /// all pages take no more than `allowance_bytes` of it, as far as that can be. Pages that have an
    /// image are let go of at once; the image of one to be written is put into `image`. Several jobs
    /// may be under way at a time: call it until there is none.
    pub fn next(
        &mut self,
        pool: &PagePool,
        head: u64,
        allowance_bytes: usize,
        image: &mut Image,
    ) -> Option<Job> {
        self.paging.page_bytes = page_bytes(allowance_bytes);
        self.paging.may_lack_bodies &= self.pages.slots().iter().any(Slot::lacks_bodies);
        if !self.pages.slots().is_empty() {
            self.paging.reach = self.paging.reach.max(head.min(self.pages.end()));
        }
        loop {
            match self.planner().next_step(head, allowance_bytes)? {
                PageStep::Evict(at) => self.evict(pool, at),
                PageStep::Write(at) => return self.start_writing(pool, at, image),
                PageStep::Load(at) => return self.start_loading(at),
            }
        }
    }

    /// Whether [`PageJobs::next`] would find something to do. From now on pages are filled to what
    /// suits the allowance.
    #[must_use]
    pub fn are_wanted(&mut self, head: u64, allowance_bytes: usize) -> bool {
        self.paging.page_bytes = page_bytes(allowance_bytes);
        let all_here = self.pages.here().len() == self.pages.slots().len();
        if all_here
            && self.paging.resident_bytes <= allowance_bytes
            && self.pages.sparse().is_empty()
            && !self.paging.may_lack_bodies
        {
            return false;
        }
        self.planner().next_step(head, allowance_bytes).is_some()
    }

    /// Stops writing pages to make room, or starts it again: while it is stopped, what is in memory and in no
    /// image stays there.
    pub const fn only_read(&mut self, on: bool) {
        self.paging.only_reads = on;
    }

    /// Lets go of a page that has an image.
    fn evict(&mut self, pool: &PagePool, at: usize) {
        let reach = self.paging.reach;
        let Some(slot) = self.pages.get_mut(at) else { return };
        let Some(page) = slot.page() else { return };
        let is_in_image = slot.image.is_some() && slot.busy == Busy::Idle;
        assert!(is_in_image, "a page leaves memory once it has an image");
        let cold = Cold::of(slot, page, slot.first < reach);
        slot.is_closed = true;
        let first = slot.first;
        if let SlotContent::Here(page) =
            std::mem::replace(&mut slot.content, SlotContent::Cold(cold))
        {
            self.paging.resident_bytes -= page.cost_bytes();
            self.pages.forget_here(first);
            pool.give(page);
        }
    }

    /// Gives bodies that are to have a name in the body store one, of the first page at or behind `position`
    /// if that is in memory. Returns how many bytes that added to the store.
    pub fn name_bodies(&mut self, position: u64) -> usize {
        let at = self.pages.slots().partition_point(|slot| slot.end() <= position);
        match self.pages.get_mut(at).map(|slot| &mut slot.content) {
            Some(SlotContent::Here(page)) => page.bodies.name_shared(),
            Some(SlotContent::Cold(_)) | None => 0,
        }
    }

    fn start_writing(&mut self, pool: &PagePool, at: usize, image: &mut Image) -> Option<Job> {
        let slot = self.pages.get_mut(at)?;
        assert_eq!(slot.busy, Busy::Idle, "a page has one job at a time");
        slot.is_closed = true;
        slot.busy = Busy::Writing;
        let (first, before_bytes) = (slot.first, slot.cost_bytes());
        let SlotContent::Here(page) = &mut slot.content else { return None };
        image.stored_bytes = page.bodies.name_shared();
        debug_assert_eq!(page.cost_bytes(), before_bytes, "a name takes nothing");
        let page = slot.page()?;
        let is_durable = page.live().any(|(_, entry)| entry.segment.is_logged());
        image.write(pool, first, page);
        self.paging.writing.push(WrittenImage {
            page: slot.key(),
            live_bytes: slot.live_bytes,
            load_bytes: load_bytes(page, image.len()),
            n_entries: slot.n_live,
            is_durable,
        });
        self.paging.writing_bytes += page.cost_bytes();
        Some(Job::Write { page: slot.key(), is_durable })
    }

    fn start_loading(&mut self, at: usize) -> Option<Job> {
        let slot = self.pages.get_mut(at)?;
        let (image, cold) = (slot.image?, slot.cold()?);
        let mut live = cold.live.clone();
        if let Some(owed) = cold.owed() {
            live.add_all(owed);
        }
        assert_eq!(slot.busy, Busy::Idle, "a page has one job at a time");
        slot.busy = Busy::Loading;
        self.paging.loading_bytes += slot.cost_bytes();
        let (blob, is_durable) = (image.blob, image.is_durable);
        Some(Job::Load(ColdPage { page: slot.key(), blob, is_durable, live }))
    }

    /// Notes that a page's image is written as `blob`, and durable if it is to be. None when the page is gone
    /// meanwhile: the caller frees the blob.
    pub fn written(&mut self, page: PageKey, blob: BlobId) -> Option<Written> {
        let at = self.pages.index_of_key(page)?;
        let slot = self.pages.get_mut(at).filter(|slot| slot.busy == Busy::Writing)?;
        slot.busy = Busy::Idle;
        let cost_bytes = slot.cost_bytes();
        let made = self.paging.end_job(page, Busy::Writing, cost_bytes)?;
        let slot = self.pages.get_mut(at)?;
        let replaced = slot.free_image();
        let segments = slot.move_into_image(blob, &made);
        let note = slot.note().filter(|note| !note.live.is_empty());
        if std::mem::take(&mut slot.is_sparse) {
            self.pages.forget_sparse(page);
        }
        self.pages.note_sparse(at);
        Some(Written { note, segments, replaced })
    }
}

impl Backlog {
    /// Takes back a page that was read. None when it is gone meanwhile.
    ///
    /// # Errors
    /// The image is of another page: the caller goes on with [`Backlog::failed`].
    pub fn loaded(
        &mut self,
        pool: &PagePool,
        page: PageKey,
        loaded: LoadedPage,
    ) -> Result<Option<Loaded>, ImageError> {
        let found = self.pages.index_of_key(page);
        let slot = found.and_then(|at| self.pages.get_mut(at));
        let Some(slot) = slot.filter(|slot| slot.busy == Busy::Loading) else {
            pool.give(loaded.page);
            return Ok(None);
        };
        if loaded.first != slot.first || loaded.page.end() > slot.end() {
            return Err(ImageError::OtherPage);
        }
        slot.busy = Busy::Idle;
        self.paging.loading_bytes -= slot.cost_bytes();
        let arrived = slot.take_in(loaded.page);
        self.paging.resident_bytes += slot.cost_bytes();
        self.stored_bytes = self.stored_bytes - arrived.live_bytes_before + slot.live_bytes;
        let (first, n_live) = (slot.first, slot.n_live);
        self.pages.come_here(first);
        let mut result = Loaded { lost: arrived.lost, bodies: arrived.bodies, page: None };
        if let Some(at) = found.filter(|_| n_live == 0) {
            result.page = self.retire(pool, at);
        }
        Ok(Some(result))
    }
}

/// The changes that came with a page.
struct Arrived {
    live_bytes_before: u64,
    lost: Vec<u64>,
    bodies: Vec<BlobId>,
}

impl Slot {
    /// Whether its image is all there is to know about it.
    pub(super) fn is_clean(&self) -> bool {
        self.image.is_some() && self.busy == Busy::Idle && !self.is_sparse && self.page().is_some()
    }

    /// Marks logged messages as durable by the page's image from now on. Returns the log segments they lay
    /// in, with how many messages.
    fn move_into_image(&mut self, blob: BlobId, made: &WrittenImage) -> SegmentCounts {
        let mut segments = SegmentCounts::default();
        let SlotContent::Here(page) = &mut self.content else { return segments };
        let mut has_bodies = false;
        for (_, entry) in page.live() {
            has_bodies |= page.bodies.get(entry.body).is_some_and(|kept| kept.blob.is_some());
            segments.extend(page.segments.of(entry.segment));
        }
        page.move_into_image();
        self.has_deadlines = page.bytes.has_deadlines();
        self.image = Some(StoredImage {
            blob,
            segment: NO_SEGMENT,
            written_bytes: made.live_bytes,
            load_bytes: made.load_bytes,
            n_entries: made.n_entries,
            is_durable: made.is_durable,
            has_bodies,
        });
        segments
    }

    /// Puts a loaded page in the place of what is known about it, less what is gone meanwhile.
    fn take_in(&mut self, mut page: Box<super::page::Page>) -> Arrived {
        let mut bodies = Vec::new();
        let mut lost = Vec::new();
        let mut live_bytes = 0;
        let SlotContent::Cold(cold) = &self.content else {
            unreachable!("only a cold page is loaded")
        };
        let mut missing = cold.live.clone();
        for index in 0..page.entries.len() {
            let position = page.first + index as u64;
            let Some(at) = self.relative(position) else { continue };
            let Some(entry) = page.entries.get(index).copied() else { break };
            if !entry.is_live() {
                continue;
            }
            let is_whole = page.message(entry).is_some();
            let is_live = cold.live.contains(at);
            if is_live && is_whole {
                missing.remove(at);
                live_bytes += page.size_bytes(entry);
                if cold.is_logged(at)
                    && let Some(entry) = page.entries.get_mut(index)
                {
                    entry.segment = SegmentNumber::IN_IMAGE;
                }
                continue;
            }
            let is_owed = is_live || cold.owed().is_some_and(|owed| owed.contains(at));
            let gone = page.release(position);
            bodies.extend(gone.and_then(|gone| gone.blob).filter(|_| is_owed));
        }
        lost.extend(missing.iter().map(|at| self.first + u64::from(at)));
        assert!(lost.len() <= usize::from(self.n_live), "what is lost was counted");
        self.n_live -= to_u16(lost.len());
        let live_bytes_before = std::mem::replace(&mut self.live_bytes, live_bytes);
        page.drop_gaps_at_ends();
        self.content = SlotContent::Here(page);
        Arrived { live_bytes_before, lost, bodies }
    }
}
