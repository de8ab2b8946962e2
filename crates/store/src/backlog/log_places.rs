//! The places of messages in the log: they move within it, leave it for another form of storage, or come
//! into it.

use super::image::{ImageError, persistent_positions};
use super::page::{Page, PageEntry};
use super::page_bitmap::PageBitmap;
use super::pages::Pages;
use super::paging::Paging;
use super::segments::SegmentNumber;
use super::slot::{Busy, NO_SEGMENT, SlotContent};
use super::{FreedPage, PageKey, PageNote};
use crate::blob::BlobId;
use crate::queued::Queued;
use log::{SegmentCounts, SegmentId};

/// The next step for a page whose messages are to be logged.
#[derive(Debug)]
pub enum ToLog {
    /// The page is done: its messages in memory were gone through.
    Done {
        /// Where the page after this one begins.
        next: u64,
        /// The image that is the page's no more, with the log's note about it.
        freed: Option<FreedPage>,
    },
    /// The page is on disk: its image is to be among the durable ones, and [`LogPlaces::image_logged`].
    Stored(StoredPage),
    /// The page is being read: it is to be asked for again when it is in memory.
    Busy,
}

/// A page on disk whose messages are to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPage {
    /// The page's key.
    pub page: PageKey,
    /// The page's image.
    pub blob: BlobId,
    /// Whether the image is among the durable ones.
    pub is_durable: bool,
    /// Where the page after this one begins.
    pub next: u64,
}

/// Messages of a page that is on disk only, as they are logged by its image.
#[derive(Debug)]
pub struct ImageLogged {
    /// The note for the log; none if it needs to know nothing. Then [`LogPlaces::paged_in_log`].
    pub note: Option<PageNote>,
    /// The log segment with the note before that one, to be released once.
    pub noted_before: Option<SegmentId>,
    /// The image before, unless it is the same.
    pub replaced: Option<FreedPage>,
}

/// The persistent ones among the messages of a page's image.
#[derive(Clone, Debug)]
pub struct PersistentPositions(PageBitmap);

impl PersistentPositions {
    /// Finds the persistent messages of an image.
    ///
    /// # Errors
    /// The image is damaged or of a newer version.
    pub fn of(image: &[u8]) -> Result<Self, ImageError> {
        persistent_positions(image).map(Self)
    }
}

/// The places of a backlog's messages in the log.
#[derive(Debug)]
pub struct LogPlaces<'a> {
    pub(super) pages: &'a mut Pages,
    pub(super) paging: &'a mut Paging,
}

impl LogPlaces<'_> {
    /// Moves what lies in log segment `segment` to the log's end: calls `message` for every message
    /// there and `page` for every page whose note is there. What they return is the segment it lies
    /// in from now on; they let go of its place in the old one. A note without positions is of a page
    /// that a restart needs not, and `page` may leave it at none. Returns how many were visited.
    pub fn relocate(
        &mut self,
        segment: SegmentId,
        mut message: impl FnMut(&Queued<'_>) -> SegmentId,
        mut page: impl FnMut(&PageNote) -> Option<SegmentId>,
    ) -> u64 {
        let mut n_moved = 0;
        for slot in self.pages.iter_mut() {
            if slot.image.is_some_and(|image| image.segment == segment) {
                let moved_to = slot.note().and_then(|note| page(&note));
                if let Some(image) = &mut slot.image {
                    image.segment = moved_to.unwrap_or(NO_SEGMENT);
                }
                n_moved += 1;
            }
            if let SlotContent::Here(page) = &mut slot.content
                && page.segments.contains(segment)
            {
                let in_it = |page: &Page, entry: PageEntry| {
                    page.segments.of(entry.segment) == Some(segment)
                };
                n_moved += page.append_to_log(in_it, &mut message);
                page.segments.forget(segment);
            }
        }
        n_moved
    }

    /// Notes in which log segment the note about a page lies.
    pub fn paged_in_log(&mut self, page: PageKey, segment: SegmentId) {
        let slot = self.pages.index_of_key(page).and_then(|at| self.pages.get_mut(at));
        if let Some(image) = slot.and_then(|slot| slot.image.as_mut()) {
            image.segment = segment;
        }
    }

    /// Forgets that messages are logged: they are kept elsewhere from now on. Returns the log segments that
    /// messages and notes lay in, with how many: to be released.
    pub fn unlog(&mut self) -> SegmentCounts {
        let mut segments = SegmentCounts::default();
        for slot in self.pages.iter_mut() {
            if let Some(image) = &mut slot.image
                && image.segment != NO_SEGMENT
            {
                segments.add(image.segment);
                image.segment = NO_SEGMENT;
            }
            match &mut slot.content {
                SlotContent::Here(page) => page.unlog(&mut segments),
                SlotContent::Cold(cold) => cold.set_logged(PageBitmap::none()),
            }
        }
        segments
    }

    /// Sees to it that the persistent messages of the first page at or behind `position` are logged.
    /// For a page in memory, `message` appends them to the log, and says in which segment they are.
    /// None when there is no such page.
    pub fn log_next(
        &mut self,
        position: u64,
        message: impl FnMut(&Queued<'_>) -> SegmentId,
    ) -> Option<ToLog> {
        let from = self.pages.slots().partition_point(|slot| slot.end() <= position);
        let at = from + self.pages.slots().range(from..).position(|slot| slot.n_live > 0)?;
        let slot = self.pages.slots().get(at)?;
        let next = slot.end();
        if slot.page().is_some() {
            let freed = self.disown_image(at);
            if let Some(SlotContent::Here(page)) =
                self.pages.get_mut(at).map(|slot| &mut slot.content)
            {
                page.append_to_log(Page::is_to_be_logged, message);
            }
            return Some(ToLog::Done { next, freed });
        }
        if slot.busy != Busy::Idle {
            return Some(ToLog::Busy);
        }
        let Some(image) = slot.image else { return Some(ToLog::Done { next, freed: None }) };
        let (page, blob, is_durable) = (slot.key(), image.blob, image.is_durable);
        Some(ToLog::Stored(StoredPage { page, blob, is_durable, next }))
    }

    /// Takes the image from a page in memory whose messages are about to be logged. Images that do not say
    /// so, finished or being written, must not count for the page any more. If the log has a note about
    /// one, what the note stands for is to be logged with the rest: a start knows no page of which some
    /// messages are in the image and some are not. Returns the image, and where the note is.
    fn disown_image(&mut self, at: usize) -> Option<FreedPage> {
        let slot = self.pages.slots().get(at)?;
        let page = slot.page()?;
        if !page.live().any(|(_, entry)| page.is_to_be_logged(entry)) {
            return None;
        }
        if slot.busy == Busy::Writing && !self.writes_durably(slot.key()) {
            self.give_up_writing(at);
        }
        let slot = self.pages.get_mut(at)?;
        let key = slot.key();
        let image = slot.image.take()?;
        if image.segment != NO_SEGMENT
            && let SlotContent::Here(page) = &mut slot.content
        {
            page.leave_image();
        }
        if std::mem::take(&mut slot.is_sparse) {
            self.pages.forget_sparse(key);
        }
        // The bodies it names are those of the page in memory.
        Some(image.freed(None))
    }

    fn writes_durably(&self, page: PageKey) -> bool {
        self.paging.writing.iter().any(|writing| writing.page == page && writing.is_durable)
    }

    /// Gives up an image that is being written: it will belong to no page.
    fn give_up_writing(&mut self, at: usize) {
        let Some(slot) = self.pages.get_mut(at) else { return };
        let (key, cost_bytes) = (slot.key(), slot.cost_bytes());
        let busy = std::mem::replace(&mut slot.busy, Busy::Idle);
        self.pages.rename(at);
        self.paging.end_job(key, busy, cost_bytes);
    }

    /// Notes that the image of a page on disk is durable as `durable`: the same one if it was among the
    /// durable ones before. None when the page is no longer as it was: the caller asks for the page again,
    /// and frees `durable`.
    pub fn image_logged(
        &mut self,
        page: &StoredPage,
        durable: BlobId,
        persistent: &PersistentPositions,
    ) -> Option<ImageLogged> {
        let at = self.pages.index_of_key(page.page)?;
        // An image that is being read must stay where it is.
        let slot = self.pages.get_mut(at).filter(|slot| slot.busy == Busy::Idle)?;
        let SlotContent::Cold(cold) = &mut slot.content else { return None };
        let image = slot.image.as_mut().filter(|image| image.blob == page.blob)?;
        if image.is_durable != page.is_durable {
            return None;
        }
        let noted_before = Some(image.segment).filter(|segment| *segment != NO_SEGMENT);
        image.segment = NO_SEGMENT;
        let before = *image;
        (image.blob, image.is_durable) = (durable, true);
        cold.set_logged(persistent.0.clone());
        // The bodies that the former image names belong to the new one.
        let replaced = (!before.is_durable).then(|| before.freed(None));
        let note = slot.note().filter(|note| !note.live.is_empty());
        Some(ImageLogged { note, noted_before, replaced })
    }
}

impl Page {
    fn unlog(&mut self, segments: &mut SegmentCounts) {
        let logged = |entry: &&mut PageEntry| entry.is_live() && entry.segment.is_logged();
        for entry in self.entries.iter_mut().filter(logged) {
            segments.extend(self.segments.of(entry.segment));
            entry.segment = SegmentNumber::NONE;
        }
        self.segments.clear();
    }

    /// Whether the message is persistent and the log does not have it.
    fn is_to_be_logged(&self, entry: PageEntry) -> bool {
        !entry.segment.is_logged() && self.head(entry).is_some_and(|head| head.persistent)
    }
}
