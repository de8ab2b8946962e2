//! The content of one queue's messages, by position, in pages of which only some are in memory.
//!
//! ```text
//! slots:   [cold, some held][here][here][cold] .... [cold][here]      oldest first, positions rise
//!                            ^ head: the first ready position   ^ tail: takes what comes
//!
//! a page:  filling (the tail) -> full, here -> writing -> here, with an image -> cold <-> loading
//! ```
//! Messages are appended at the tail and released in any order; a page goes when its last message
//! does, and one that is emptied before it is written is never written. When the queue takes more
//! memory than it is allowed, [`PageJobs::next`] says which pages to write or to load, and lets
//! go of those that have an image: the pages at the head and the tail stay, those in between go.
//!
//! A pure state machine: it does no IO and knows no clock. A host runs the jobs, outside of any lock
//! it guards the backlog with, and reports what came of them under the key of the page. A page may
//! be emptied, purged or refilled meanwhile; the report then finds no page of that key.

mod convert;
mod image;
mod jobs;
mod kept;
mod log_places;
mod look;
mod page;
mod page_bitmap;
mod page_bytes;
mod pages;
mod paging;
mod plan;
mod pool;
mod relocate;
mod segments;
mod slot;
#[cfg(test)]
mod tests;

pub use convert::{BacklogPart, HerePart};
pub use image::{Image, ImageError, LoadedPage, WantedBody, stored_bodies};
pub use jobs::{Job, Loaded, PageJobs, Written};
pub use kept::SharedProperties;
pub use log_places::{ImageLogged, LogPlaces, PersistentPositions, StoredPage, ToLog};
pub use look::{BacklogBrowser, ColdPage, FoundContent, FoundPage, Toward};
pub use page_bitmap::PageBitmap;
pub use pages::Pages;
pub use pool::PagePool;
pub use relocate::{Dropped, PageNote, RestoreError};

use crate::blob::BlobId;
use log::SegmentId;
use message::{Body, MessageRef};
use page::{Added, BodyPlace, Page};
use page_bitmap::to_u16;
use paging::Paging;
use segments::SegmentNumber;
use slot::{Busy, NO_SEGMENT, Slot, SlotContent, StoredImage};
use std::sync::Arc;

/// The key of a page for whoever does its jobs. It goes stale when the page is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey {
    first: u64,
    serial: u32,
}

impl PageKey {
    /// The page's first position.
    pub const fn first(&self) -> u64 {
        self.first
    }
}

/// Where a message is.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// The message is in memory.
    Here(MessageRef<'a>),
    /// The message or its body is on disk: [`PageJobs::next`] has the page loaded when it is the head.
    Cold,
    /// The message was released, never there, or lost by damage.
    Gone,
}

/// A body that several backlogs have, stored once when the first of them has it written.
pub trait SharedBody: std::fmt::Debug + Send + Sync {
    /// Its name in the body store, with a reference for the caller, and how many bytes were added to
    /// the store for it.
    fn name(&self, body: &[u8]) -> (Option<BlobId>, usize);

    /// The message's properties, if they are kept in front of the body.
    fn properties(&self) -> Option<&SharedProperties>;
}

/// A body that several backlogs have, and its name in the body store if it is there.
#[derive(Debug)]
pub struct SharedBodyName {
    /// The body that gives itself a name when it has none.
    pub home: Arc<dyn SharedBody>,
    /// Its name: one reference of it is the backlog's.
    pub blob: Option<BlobId>,
}

/// The room that a message takes.
#[derive(Clone, Copy)]
struct MessageRoom {
    body: BodyPlace,
    /// Bytes of the message, as [`MessageRef::size_bytes`] counts them.
    size_bytes: u64,
}

/// The duties that a released message leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Released {
    /// Whether a restart would bring the message back: the log is to be told that it is gone.
    pub is_logged: bool,
    /// The log segment that held it, to be released once; none for a message that is in the log by
    /// its page's note.
    pub segment: Option<SegmentId>,
    /// Envelope, properties and body, as [`MessageRef::size_bytes`] counts them. An estimate for a
    /// message nobody was given that goes while its page is on disk only.
    pub size_bytes: u64,
    /// Its body's reference in the body store, to be released.
    pub body: Option<BlobId>,
    /// The image of its page, if the message was the last one there.
    pub page: Option<Box<FreedPage>>,
}

/// An image nobody needs any more. What names it in the log must be gone durably before the blob is
/// let go: release it once everything appended to the log until now is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreedPage {
    /// The image.
    pub blob: BlobId,
    /// Whether the image is among the durable ones.
    pub is_durable: bool,
    /// The log segment with the note about it, to be released once.
    pub segment: Option<SegmentId>,
    /// Positions whose stored bodies nobody else lets go of: before the blob is released the image is to be
    /// read, and the references of [`stored_bodies`] at these positions released.
    pub owed: Option<PageBitmap>,
}

/// The content of a queue by position. See the module's description.
#[derive(Debug, Default)]
pub struct Backlog {
    pages: Pages,
    paging: Paging,
    stored_bytes: u64,
}

impl Backlog {
    /// Memory its pages take: content and 16 bytes for each message.
    pub const fn resident_bytes(&self) -> usize {
        self.paging.resident_bytes
    }

    /// Bytes of all messages, wherever they are, as [`MessageRef::size_bytes`] counts them.
    pub const fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Its pages, to be looked at.
    pub const fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The way of its pages to disk and back.
    pub const fn jobs(&mut self) -> PageJobs<'_> {
        PageJobs { pages: &mut self.pages, paging: &mut self.paging }
    }

    /// The places of its messages in the log.
    pub const fn log_places(&mut self) -> LogPlaces<'_> {
        LogPlaces { pages: &mut self.pages, paging: &mut self.paging }
    }

    #[cfg(test)]
    fn heap_bytes_of_cold(&self) -> usize {
        self.pages.slots().iter().filter_map(Slot::cold).map(slot::Cold::heap_bytes).sum()
    }

    /// Stores a message. Positions rise from call to call. `segment` is the log segment it lies in,
    /// `body` its body's name in the body store (one reference of it is the backlog's from now on).
    pub fn push(
        &mut self,
        pool: &PagePool,
        position: u64,
        message: &MessageRef<'_>,
        segment: Option<SegmentId>,
        body: Option<BlobId>,
    ) {
        let body_bytes = message.body.len();
        let is_kept = body.is_some() || matches!(message.body, Body::Shared(_));
        let body_place =
            if is_kept { BodyPlace::Kept(body_bytes) } else { BodyPlace::Inline(body_bytes) };
        let room = MessageRoom { body: body_place, size_bytes: message.size_bytes() as u64 };
        self.put(pool, position, room, segment, |page, segment| {
            page.push(&Added { message, segment, blob: body });
        });
    }

    /// As [`push`](Self::push), for a message whose body, and perhaps its properties, other backlogs have
    /// too. Without a name in the body store it gets one when its page is written first.
    pub fn push_shared(
        &mut self,
        pool: &PagePool,
        position: u64,
        message: &MessageRef<'_>,
        segment: Option<SegmentId>,
        shared: SharedBodyName,
    ) {
        let SharedBodyName { home, blob } = shared;
        let properties_bytes = home.properties().map_or(0, |shared| shared.whole.len());
        let body = BodyPlace::Kept(properties_bytes + message.body.len());
        let room = MessageRoom { body, size_bytes: message.size_bytes() as u64 };
        self.put(pool, position, room, segment, |page, segment| {
            page.push_shared(&Added { message, segment, blob }, home);
        });
    }

    /// Has a page take a message.
    #[inline(always)]
    fn put(
        &mut self,
        pool: &PagePool,
        position: u64,
        room: MessageRoom,
        segment: Option<SegmentId>,
        push: impl FnOnce(&mut Page, SegmentNumber),
    ) {
        let MessageRoom { body, size_bytes } = room;
        self.stored_bytes += size_bytes;
        let slot = self.slot_for(pool, position, body);
        slot.live_bytes += size_bytes;
        slot.n_live += 1;
        let SlotContent::Here(page) = &mut slot.content else { unreachable!("the tail is here") };
        let before = page.cost_bytes();
        debug_assert!(page.end() <= position, "positions rise");
        if page.end() < position {
            page.fill_gap(position);
        }
        let segment = segment.map_or(SegmentNumber::NONE, |segment| page.segments.number(segment));
        push(page, segment);
        debug_assert_eq!(page.end(), position + 1, "the message is the page's last");
        slot.span = to_u16(page.entries.len());
        self.paging.resident_bytes += page.cost_bytes() - before;
    }

    /// The slot that takes `position` next: the last one, or a new one behind it.
    fn slot_for(&mut self, pool: &PagePool, position: u64, body: BodyPlace) -> &mut Slot {
        let page_bytes = self.paging.page_bytes;
        let fits = match self.pages.back_mut() {
            Some(slot) if slot.is_closed => false,
            Some(slot) if slot.n_live == 0 => {
                slot.start_at(position);
                self.pages.move_last(position);
                true
            }
            Some(slot) => {
                debug_assert!(slot.end() <= position, "positions rise");
                let is_full = |page: &Page| page.is_full_for(position, body, page_bytes);
                !slot.page().is_none_or(is_full)
            }
            None => false,
        };
        if !fits {
            self.start_page(pool, position);
        }
        self.pages.back_mut().expect("a page was just made sure of")
    }

    #[cold]
    fn start_page(&mut self, pool: &PagePool, first: u64) {
        let like = self.pages.slots().back().and_then(Slot::page);
        let mut page = pool.take(like.map_or(0, Page::cost_bytes));
        page.first = first;
        // A queue's first page grows with its messages; a backlog's next ones have their size from
        // the start.
        if let Some(like) = like {
            page.bytes.reserve_exact(like.bytes.len());
            page.entries.reserve_exact(like.entries.len());
        }
        self.pages.push_back(Slot::of(page));
        self.pages.come_here(first);
    }

    /// The message at `position`, if it is in memory as a whole.
    #[expect(
        clippy::inline_always,
        reason = "a struct that is copied whole just after it was filled in stalls"
    )]
    #[inline(always)]
    #[must_use]
    pub fn here(&self, position: u64) -> Option<MessageRef<'_>> {
        let slot = self.pages.slots().get(self.pages.index_of(position)?)?;
        slot.page()?.get(position)
    }

    /// The message at `position`.
    #[must_use]
    pub fn get(&self, position: u64) -> Lookup<'_> {
        if let Some(message) = self.here(position) {
            return Lookup::Here(message);
        }
        let slot = self.pages.index_of(position).and_then(|at| self.pages.slots().get(at));
        match slot.map(|slot| (slot, &slot.content)) {
            Some((_, SlotContent::Here(page))) if page.lacks_body_of(position) => Lookup::Cold,
            Some((_, SlotContent::Here(_))) => Lookup::Gone,
            Some((slot, SlotContent::Cold(cold))) => {
                let is_live = slot.relative(position).is_some_and(|at| cold.live.contains(at));
                if is_live { Lookup::Cold } else { Lookup::Gone }
            }
            None => Lookup::Gone,
        }
    }

    /// Forgets the message at `position`; none when it is not there.
    pub fn release(&mut self, pool: &PagePool, position: u64) -> Option<Released> {
        let at = self.pages.index_of(position)?;
        let slot = self.pages.get_mut(at)?;
        let mut released = match &mut slot.content {
            SlotContent::Here(page) => {
                let gone = page.release(position)?;
                if gone.kept_bytes > 0 {
                    self.paging.resident_bytes -= gone.kept_bytes;
                    if slot.busy == Busy::Writing {
                        self.paging.writing_bytes -= gone.kept_bytes;
                    }
                }
                Released {
                    is_logged: gone.segment.is_logged(),
                    segment: page.segments.of(gone.segment),
                    size_bytes: gone.size_bytes,
                    body: gone.blob,
                    page: None,
                }
            }
            SlotContent::Cold(_) => slot.release_cold(position)?,
        };
        assert!(slot.n_live > 0, "a message is counted until it is released");
        debug_assert!(slot.live_bytes >= released.size_bytes, "so are its bytes");
        slot.n_live -= 1;
        slot.live_bytes -= released.size_bytes;
        let (is_empty, has_image, is_closed) =
            (slot.n_live == 0, slot.image.is_some(), slot.is_closed);
        self.stored_bytes -= released.size_bytes;
        self.paging.reach = self.paging.reach.max(position + 1);
        if is_empty {
            if is_closed || at + 1 < self.pages.slots().len() {
                released.page = self.retire(pool, at).map(Box::new);
            } else {
                self.empty_tail();
            }
        } else if has_image {
            self.pages.note_sparse(at);
        }
        Some(released)
    }

    /// Clears the page that is being filled, which has no messages left: it waits for the next one, or is
    /// given back by `trim`.
    fn empty_tail(&mut self) {
        if let Some(slot) = self.pages.back_mut()
            && let SlotContent::Here(page) = &mut slot.content
        {
            self.paging.resident_bytes -= page.cost_bytes();
            page.clear();
            slot.span = 0;
        }
    }

    /// Removes a closed page without messages.
    #[cold]
    fn retire(&mut self, pool: &PagePool, at: usize) -> Option<FreedPage> {
        let freed = self.pages.slots().get(at)?.free_image();
        self.remove(pool, at);
        freed
    }

    /// Removes a page, whatever is in it.
    fn remove(&mut self, pool: &PagePool, at: usize) {
        let Some(slot) = self.pages.remove(at) else { return };
        self.stored_bytes -= slot.live_bytes;
        self.paging.end_job(slot.key(), slot.busy, slot.cost_bytes());
        if let SlotContent::Here(page) = slot.content {
            self.paging.resident_bytes -= page.cost_bytes();
            pool.give(page);
        }
    }

    /// Gives the last page back when nothing is left in it.
    #[inline]
    pub fn trim(&mut self, pool: &PagePool) {
        if self.stored_bytes == 0 && self.pages.slots().len() == 1 {
            self.give_back(pool);
        }
    }

    fn give_back(&mut self, pool: &PagePool) {
        // Messages may be of no bytes at all.
        if self.pages.slots().front().is_none_or(|slot| slot.n_live > 0) {
            return;
        }
        if let Some(Slot { content: SlotContent::Here(page), .. }) = self.pages.remove_only() {
            self.paging.resident_bytes -= page.cost_bytes();
            pool.give(page);
        }
    }
}

impl Slot {
    fn of(page: Box<Page>) -> Self {
        Self {
            first: page.first,
            live_bytes: 0,
            content: SlotContent::Here(page),
            image: None,
            serial: 0,
            span: 0,
            n_live: 0,
            busy: Busy::Idle,
            is_closed: false,
            is_sparse: false,
            has_deadlines: false,
        }
    }

    /// Has an empty page begin at `first`.
    fn start_at(&mut self, first: u64) {
        self.first = first;
        if let SlotContent::Here(page) = &mut self.content {
            page.first = first;
        }
    }

    pub(super) const fn key(&self) -> PageKey {
        PageKey { first: self.first, serial: self.serial }
    }

    /// The page's image as one that is not needed any more.
    fn free_image(&self) -> Option<FreedPage> {
        let image = self.image?;
        let owed = match &self.content {
            SlotContent::Cold(cold) if image.has_bodies => cold.owed().cloned(),
            SlotContent::Here(_) | SlotContent::Cold(_) => None,
        };
        Some(image.freed(owed))
    }
}

impl StoredImage {
    fn freed(self, owed: Option<PageBitmap>) -> FreedPage {
        let segment = (self.segment != NO_SEGMENT).then_some(self.segment);
        FreedPage { blob: self.blob, is_durable: self.is_durable, segment, owed }
    }
}
