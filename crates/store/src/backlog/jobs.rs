//! Which pages are in memory: what is to be written, loaded or let go of, and in which order.
//!
//! The *window* stays: the page of the head and as many after it as fit half the allowance, at least
//! one more if the allowance takes it. Beyond the allowance other pages go, those needed last first:
//! between window and tail from the tail backwards, then those before the head, whose messages
//! consumers hold.

use super::image::{Image, ImageError, LoadedPage};
use super::page::SegmentNumber;
use super::page_bitmap::PageBitmap;
use super::pool::PagePool;
use super::slot::{Busy, Cold, Content, NO_SEGMENT, Slot, StoredImage, load_bytes};
use super::{Backlog, FreedPage, PageKey, PageNote};
use crate::blob::BlobId;
use log::SegmentId;
use std::ops::Range;

/// A page is closed when it would exceed this; a larger message gets a page of its own.
pub(super) const PAGE_BYTES_MAX: usize = 64 * 1024;
/// However little memory the queue is allowed, pages are filled to this, or to all it is allowed.
const PAGE_BYTES_MIN: usize = 8 * 1024;

/// Pages before the head that are expected to be settled soon.
const SETTLING_PAGES: usize = 2;

/// Something the host is to do, then to report under the page's key.
#[derive(Debug, PartialEq, Eq)]
pub enum Job {
    /// Write the image that was made. Then [`Backlog::written`]; what holds logged messages must be
    /// durable first.
    Write {
        /// Of this page.
        page: PageKey,
        /// It holds messages that are to survive a restart: the image belongs among the durable ones.
        is_durable: bool,
    },
    /// Read an image. Then [`Backlog::loaded`] or [`Backlog::failed`].
    Load {
        /// Of this page.
        page: PageKey,
        /// The image.
        blob: BlobId,
        /// Among the durable ones.
        is_durable: bool,
        /// The positions to read: [`LoadedPage::read`].
        wanted: PageBitmap,
    },
}

/// A page's messages moved from log segments into its image.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// What the log is to be told about the page, when any of its messages is to survive a restart;
    /// then [`Backlog::paged_in_log`].
    pub note: Option<PageNote>,
    /// Log segments that held its messages, with how many: to be released after the note.
    pub segments: Vec<(SegmentId, u64)>,
    /// The image it had before.
    pub replaced: Option<FreedPage>,
}

/// A page is back in memory.
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

/// An image as it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) page: PageKey,
    live_bytes: u64,
    load_bytes: u32,
    n_entries: u16,
    pub(super) is_durable: bool,
}

/// What is to be done next, by index of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Evict(usize),
    Write(usize),
    Load(usize),
}

/// What stays in memory.
struct Window {
    slots: Range<usize>,
    /// The tail stays while it is filled to less.
    page_bytes: usize,
}

/// What pages are filled to in a queue that is allowed so much.
fn page_bytes(allowance_bytes: usize) -> usize {
    (allowance_bytes / 4).clamp(PAGE_BYTES_MIN.min(allowance_bytes), PAGE_BYTES_MAX)
}

impl Backlog {
    /// What to do next so that the messages from `head`, the first ready position, are in memory and
    /// all pages take no more than `allowance_bytes` of it, as far as that can be. Pages that have an
    /// image are let go of at once; the image of one to be written is put into `image`. Several jobs
    /// may be under way at a time: call it until there is none.
    pub fn next_job(
        &mut self,
        pool: &PagePool,
        head: u64,
        allowance_bytes: usize,
        image: &mut Image,
    ) -> Option<Job> {
        self.page_bytes = page_bytes(allowance_bytes);
        self.may_lack_bodies &= self.slots.iter().any(Slot::lacks_bodies);
        if !self.slots.is_empty() {
            self.reach = self.reach.max(head.min(self.end()));
        }
        loop {
            match self.next_step(head, allowance_bytes)? {
                Step::Evict(at) => self.evict(pool, at),
                Step::Write(at) => return self.start_writing(pool, at, image),
                Step::Load(at) => return self.start_loading(at),
            }
        }
    }

    /// Whether [`Backlog::next_job`] would find something to do. From now on pages are filled to what
    /// suits the allowance.
    #[must_use]
    pub fn wants_job(&mut self, head: u64, allowance_bytes: usize) -> bool {
        self.page_bytes = page_bytes(allowance_bytes);
        let all_here = self.here.len() == self.slots.len();
        if all_here
            && self.memory.resident_bytes <= allowance_bytes
            && self.sparse.is_empty()
            && !self.may_lack_bodies
        {
            return false;
        }
        self.next_step(head, allowance_bytes).is_some()
    }

    /// From now on nothing is written to make room, or not so any more: what is in memory and in no image stays
    /// there.
    pub const fn only_read(&mut self, on: bool) {
        self.only_reads = on;
    }

    fn end(&self) -> u64 {
        self.slots.back().map_or(0, Slot::end)
    }

    fn next_step(&self, head: u64, allowance_bytes: usize) -> Option<Step> {
        let window = self.window(head, allowance_bytes);
        if let Some(step) = self.next_without_bodies(&window) {
            return Some(step);
        }
        let taken = self.memory.resident_bytes + self.memory.loading_bytes;
        let missing = |at: &usize| {
            self.slots.get(*at).is_some_and(|slot| slot.cold().is_some() && slot.busy == Busy::Idle)
        };
        let cost = |at: usize| self.slots.get(at).map_or(0, Slot::cost_bytes);
        let wanted = window.slots.clone().find(missing);
        // Consumers wait for the head: it is loaded at once, also beyond the allowance.
        if let Some(at) = wanted.filter(|at| *at == window.slots.start)
            && (self.memory.loading_bytes == 0 || taken + cost(at) <= allowance_bytes)
        {
            return Some(Step::Load(at));
        }
        let needed = taken - self.memory.writing_bytes + wanted.map_or(0, cost);
        if let Some(excess) = needed.checked_sub(allowance_bytes).filter(|excess| *excess > 0)
            && let Some(step) = self.make_room(&window, excess)
        {
            return Some(step);
        }
        if let Some(at) = wanted.filter(|at| taken + cost(*at) <= allowance_bytes) {
            return Some(Step::Load(at));
        }
        self.next_rewrite(&window, allowance_bytes)
    }

    /// The slots that are to be in memory for those who take messages from `head` on.
    fn window(&self, head: u64, allowance_bytes: usize) -> Window {
        let start = match self.slots.front() {
            Some(slot) if slot.end() > head => 0,
            _ => self.slots.partition_point(|slot| slot.end() <= head),
        };
        let mut end = start;
        let mut bytes = 0;
        for slot in self.slots.range(start..) {
            bytes += slot.cost_bytes() + slot.missing_bytes();
            let fits = match end - start {
                0 => true,
                1 => bytes <= allowance_bytes,
                _ => bytes <= allowance_bytes / 2,
            };
            if !fits {
                break;
            }
            end += 1;
        }
        Window { slots: start..end, page_bytes: page_bytes(allowance_bytes) }
    }

    /// A page in the window that lacks stored bodies is written, let go of and loaded with them.
    fn next_without_bodies(&self, window: &Window) -> Option<Step> {
        if !self.may_lack_bodies {
            return None;
        }
        let slots = window.slots.clone().filter_map(|at| Some((at, self.slots.get(at)?)));
        let mut lacking = slots.filter(|(_, slot)| slot.lacks_bodies() && slot.busy == Busy::Idle);
        let (at, slot) = lacking.next()?;
        // Without them nobody can be given its messages: it is written also if that is to be avoided.
        Some(if slot.is_clean() { Step::Evict(at) } else { Step::Write(at) })
    }

    /// How to need `excess` bytes less without touching the window.
    fn make_room(&self, window: &Window, excess: usize) -> Option<Step> {
        let clean = self.victims(window).find(|(_, slot)| slot.is_clean());
        if let Some((at, _)) = clean {
            return Some(Step::Evict(at));
        }
        if self.only_reads {
            return None;
        }
        // Of those that must go all the same, the oldest first: what is read in order later is
        // written in order.
        let mut bytes = 0;
        let mut oldest = None;
        for (at, slot) in self.victims(window).filter(|(_, slot)| slot.busy == Busy::Idle) {
            bytes += slot.cost_bytes();
            oldest = Some(oldest.map_or(at, |oldest: usize| oldest.min(at)));
            if bytes >= excess {
                break;
            }
        }
        oldest.map(Step::Write)
    }

    /// Pages in memory that may go, first the one that is needed last.
    fn victims<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = (usize, &'a Slot)> + 'a {
        let last = self.slots.len().saturating_sub(1);
        let start = self.slots.get(window.slots.start).map_or(u64::MAX, |slot| slot.first);
        let n_before = self.here.partition_point(|first| *first < start);
        let after = self.here.range(n_before..).rev();
        let before = self.here.range(..n_before);
        let indexed = after.chain(before).filter_map(|first| {
            let at = self.slots.binary_search_by_key(first, |slot| slot.first).ok()?;
            Some((at, self.slots.get(at)?))
        });
        indexed.filter(move |(at, slot)| {
            let stays = *at == last && !slot.is_closed && slot.cost_bytes() < window.page_bytes;
            !window.slots.contains(at) && !stays && slot.n_live > 0
        })
    }

    /// A page whose sparse image can be replaced now. One that consumers are just working off goes
    /// soon: those in the window and shortly before it are left alone.
    fn next_rewrite(&self, window: &Window, allowance_bytes: usize) -> Option<Step> {
        if self.only_reads {
            return None;
        }
        let worked_off = window.slots.start.saturating_sub(SETTLING_PAGES)..window.slots.end;
        for key in &self.sparse {
            let Some(at) = self.index_of_key(*key) else { continue };
            let slot = self.slots.get(at)?;
            if slot.busy != Busy::Idle || worked_off.contains(&at) {
                continue;
            }
            if slot.page().is_some() {
                return Some(Step::Write(at));
            }
            let free = allowance_bytes.saturating_sub(self.memory.resident_bytes);
            if self.memory.loading_bytes == 0
                && (slot.cost_bytes() <= free || self.memory.writing_bytes == 0)
            {
                return Some(Step::Load(at));
            }
        }
        None
    }

    /// Lets go of a page that has an image.
    fn evict(&mut self, pool: &PagePool, at: usize) {
        let reach = self.reach;
        let Some(slot) = self.slots.get_mut(at) else { return };
        let Some(page) = slot.page() else { return };
        let cold = Cold::of(slot, page, slot.first < reach);
        slot.is_closed = true;
        let first = slot.first;
        if let Content::Here(page) = std::mem::replace(&mut slot.content, Content::Cold(cold)) {
            self.memory.resident_bytes -= page.cost_bytes();
            self.forget_here(first);
            pool.give(page);
        }
    }

    fn start_writing(&mut self, pool: &PagePool, at: usize, image: &mut Image) -> Option<Job> {
        let slot = self.slots.get_mut(at)?;
        slot.is_closed = true;
        slot.busy = Busy::Writing;
        let (first, before_bytes) = (slot.first, slot.cost_bytes());
        let Content::Here(page) = &mut slot.content else { return None };
        image.stored_bytes = page.name_shared_bodies();
        debug_assert_eq!(page.cost_bytes(), before_bytes, "a name takes nothing");
        let page = slot.page()?;
        let is_durable = page.live().any(|(_, entry)| entry.segment.is_logged());
        image.write(pool, first, page);
        self.writing.push(Writing {
            page: slot.key(),
            live_bytes: slot.live_bytes,
            load_bytes: load_bytes(page, image.len()),
            n_entries: slot.n_live,
            is_durable,
        });
        self.memory.writing_bytes += page.cost_bytes();
        Some(Job::Write { page: slot.key(), is_durable })
    }

    fn start_loading(&mut self, at: usize) -> Option<Job> {
        let slot = self.slots.get_mut(at)?;
        let (image, cold) = (slot.image?, slot.cold()?);
        let mut wanted = cold.live.clone();
        if let Some(owed) = cold.owed() {
            wanted.add_all(owed);
        }
        slot.busy = Busy::Loading;
        self.memory.loading_bytes += slot.cost_bytes();
        let (blob, is_durable) = (image.blob, image.is_durable);
        Some(Job::Load { page: slot.key(), blob, is_durable, wanted })
    }

    /// A job on this page is over, or nobody cares for it any more.
    pub(super) fn end_job(
        &mut self,
        page: PageKey,
        busy: Busy,
        cost_bytes: usize,
    ) -> Option<Writing> {
        match busy {
            Busy::Idle => None,
            Busy::Loading => {
                self.memory.loading_bytes -= cost_bytes;
                None
            }
            Busy::Writing => {
                self.memory.writing_bytes -= cost_bytes;
                let at = self.writing.iter().position(|writing| writing.page == page)?;
                Some(self.writing.swap_remove(at))
            }
        }
    }

    /// Nothing came of a job, and it may be given out again.
    pub fn abandon(&mut self, page: PageKey) {
        if let Some(slot) = self.index_of_key(page).and_then(|at| self.slots.get_mut(at)) {
            let busy = std::mem::replace(&mut slot.busy, Busy::Idle);
            let cost_bytes = slot.cost_bytes();
            self.end_job(page, busy, cost_bytes);
        }
    }

    /// The page's image is written as `blob`, and durable if it is to be. None when the page is gone
    /// meanwhile: the caller frees the blob.
    pub fn written(&mut self, page: PageKey, blob: BlobId) -> Option<Written> {
        let at = self.index_of_key(page)?;
        let slot = self.slots.get_mut(at).filter(|slot| slot.busy == Busy::Writing)?;
        slot.busy = Busy::Idle;
        let cost_bytes = slot.cost_bytes();
        let made = self.end_job(page, Busy::Writing, cost_bytes)?;
        let slot = self.slots.get_mut(at)?;
        let replaced = slot.free_image();
        let segments = slot.move_into_image(blob, &made);
        let note = slot.note().filter(|note| !note.live.is_empty());
        if std::mem::take(&mut slot.is_sparse) {
            self.forget_sparse(page);
        }
        self.note_sparse(at);
        Some(Written { note, segments, replaced })
    }

    /// Where in the log the note about the page is.
    pub fn paged_in_log(&mut self, page: PageKey, segment: SegmentId) {
        let slot = self.index_of_key(page).and_then(|at| self.slots.get_mut(at));
        if let Some(image) = slot.and_then(|slot| slot.image.as_mut()) {
            image.segment = segment;
        }
    }

    /// The page is read. None when it is gone meanwhile.
    ///
    /// # Errors
    /// The image is of another page: the caller goes on with [`Backlog::failed`].
    pub fn loaded(
        &mut self,
        pool: &PagePool,
        page: PageKey,
        loaded: LoadedPage,
    ) -> Result<Option<Loaded>, ImageError> {
        let found = self.index_of_key(page);
        let slot = found.and_then(|at| self.slots.get_mut(at));
        let Some(slot) = slot.filter(|slot| slot.busy == Busy::Loading) else {
            pool.give(loaded.page);
            return Ok(None);
        };
        if loaded.first != slot.first || loaded.page.end() > slot.end() {
            return Err(ImageError::OtherPage);
        }
        slot.busy = Busy::Idle;
        self.memory.loading_bytes -= slot.cost_bytes();
        let arrived = slot.take_in(loaded.page);
        self.memory.resident_bytes += slot.cost_bytes();
        self.stored_bytes = self.stored_bytes - arrived.live_bytes_before + slot.live_bytes;
        let (first, n_live) = (slot.first, slot.n_live);
        let place = self.here.partition_point(|other| *other < first);
        self.here.insert(place, first);
        let mut result = Loaded { lost: arrived.lost, bodies: arrived.bodies, page: None };
        if let Some(at) = found.filter(|_| n_live == 0) {
            result.page = self.retire(pool, at);
        }
        Ok(Some(result))
    }
}

/// Counts one message in a list of segments.
pub(super) fn count_segment(segments: &mut Vec<(SegmentId, u64)>, segment: SegmentId) {
    match segments.iter_mut().rev().find(|(known, _)| *known == segment) {
        Some((_, n)) => *n += 1,
        None => segments.push((segment, 1)),
    }
}

/// What came with a page.
struct Arrived {
    live_bytes_before: u64,
    lost: Vec<u64>,
    bodies: Vec<BlobId>,
}

impl Slot {
    /// Whether its image is all there is to know about it.
    fn is_clean(&self) -> bool {
        self.image.is_some() && self.busy == Busy::Idle && !self.is_sparse && self.page().is_some()
    }

    /// What is logged is durable as part of its image from now on. Returns the log segments it lay
    /// in, with how many messages.
    fn move_into_image(&mut self, blob: BlobId, made: &Writing) -> Vec<(SegmentId, u64)> {
        let mut segments: Vec<(SegmentId, u64)> = Vec::new();
        let Content::Here(page) = &mut self.content else { return segments };
        let mut has_bodies = false;
        for (_, entry) in page.live() {
            has_bodies |= page.kept(entry).is_some_and(|kept| kept.blob.is_some());
            if let Some(segment) = page.segment_of(entry.segment) {
                count_segment(&mut segments, segment);
            }
        }
        page.move_into_image();
        self.is_annotated = page.is_annotated;
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
        let Content::Cold(cold) = &self.content else { unreachable!("only a cold page is loaded") };
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
        self.n_live -= super::page::to_u16(lost.len());
        let live_bytes_before = std::mem::replace(&mut self.live_bytes, live_bytes);
        page.drop_gaps_at_ends();
        self.content = Content::Here(page);
        Arrived { live_bytes_before, lost, bodies }
    }
}
