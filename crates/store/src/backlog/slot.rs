//! A backlog's knowledge of one page, wherever its messages are. A deep backlog has thousands.

use super::Released;
use super::page::{ENTRY_BYTES, Page};
use super::page_bitmap::PageBitmap;
use super::segments::SegmentNumber;
use crate::blob::BlobId;
use log::SegmentId;
use std::ops::Range;

/// A page of the backlog: positions `first..first + span`.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) first: u64,
    /// Bytes of its live messages, as `MessageRef::size_bytes` counts them. An estimate while the
    /// page is cold and something was released from it unseen.
    pub(super) live_bytes: u64,
    pub(super) content: SlotContent,
    pub(super) image: Option<StoredImage>,
    /// Tells this page from earlier ones at the same positions.
    pub(super) serial: u32,
    pub(super) span: u16,
    pub(super) n_live: u16,
    pub(super) busy: Busy,
    /// Whether the page takes no more messages.
    pub(super) is_closed: bool,
    /// Whether its image is mostly of messages that are gone, and is to be written anew.
    pub(super) is_sparse: bool,
    /// Whether some messages in its image have deadlines.
    pub(super) has_deadlines: bool,
}

const _: () = assert!(size_of::<Slot>() <= 96);

#[derive(Debug)]
pub(super) enum SlotContent {
    Here(Box<Page>),
    Cold(Cold),
}

/// Whether the host is at work on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    Idle,
    Writing,
    Loading,
}

/// Where a page's image is.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredImage {
    pub(super) blob: BlobId,
    /// Where the log's note about it lies; `NO_SEGMENT` for none.
    pub(super) segment: SegmentId,
    /// The slot's `live_bytes` when it was written.
    pub(super) written_bytes: u64,
    /// Memory the page takes when it is loaded.
    pub(super) load_bytes: u32,
    pub(super) n_entries: u16,
    pub(super) is_durable: bool,
    /// Whether some of its messages have their body in the body store.
    pub(super) has_bodies: bool,
}

pub(super) const NO_SEGMENT: SegmentId = SegmentId(0);

/// A page that is on disk only.
#[derive(Debug)]
pub(super) struct Cold {
    pub(super) live: PageBitmap,
    more: Option<Box<More>>,
    /// The size of each live message if they are all of one; else 0.
    uniform_bytes: u32,
    logged: LoggedMessages,
}

/// Which live messages of a cold page survive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoggedMessages {
    None,
    All,
    /// The messages in `More::logged` do.
    Some,
}

/// The knowledge that few cold pages need.
#[derive(Debug)]
struct More {
    /// Sizes and bodies, for messages that consumers hold may go before the page is loaded.
    each: Each,
    logged: PageBitmap,
    /// Messages that are gone and whose stored body is not let go of: its name is in the image only.
    owed: PageBitmap,
}

#[derive(Debug, Default)]
struct Each {
    positions: Box<[u16]>,
    sizes: Box<[u32]>,
    /// Names of stored bodies by message; empty when no message has one.
    bodies: Box<[Option<BlobId>]>,
}

impl More {
    fn new() -> Self {
        Self { each: Each::default(), logged: PageBitmap::none(), owed: PageBitmap::none() }
    }
}

impl Slot {
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.span)
    }

    pub(super) const fn page(&self) -> Option<&Page> {
        match &self.content {
            SlotContent::Here(page) => Some(page),
            SlotContent::Cold(_) => None,
        }
    }

    pub(super) const fn cold(&self) -> Option<&Cold> {
        match &self.content {
            SlotContent::Here(_) => None,
            SlotContent::Cold(cold) => Some(cold),
        }
    }

    /// Memory it takes, or would if it was loaded.
    pub(super) fn cost_bytes(&self) -> usize {
        match (&self.content, &self.image) {
            (SlotContent::Here(page), _) => page.cost_bytes(),
            (SlotContent::Cold(_), Some(image)) => image.load_bytes as usize,
            (SlotContent::Cold(_), None) => 0,
        }
    }

    /// Bytes of stored bodies that the page lacks while it is in memory.
    pub(super) fn missing_bytes(&self) -> usize {
        self.page().map_or(0, |page| page.bodies.missing_bytes())
    }

    pub(super) fn lacks_bodies(&self) -> bool {
        self.missing_bytes() > 0
    }

    pub(super) fn relative(&self, position: u64) -> Option<u16> {
        let at = u16::try_from(position.checked_sub(self.first)?).ok()?;
        (at < self.span).then_some(at)
    }

    pub(super) fn lies_in(&self, positions: &Range<u64>) -> bool {
        positions.start <= self.first && self.end() <= positions.end
    }

    /// Whether less than half of its image is still needed.
    pub(super) fn has_sparse_image(&self) -> bool {
        self.image.is_some_and(|image| {
            let few = u32::from(self.n_live) * 2 < u32::from(image.n_entries);
            // Stored bodies are no part of the image.
            few || (!image.has_bodies && self.live_bytes * 2 < image.written_bytes)
        })
    }

    /// Positions of live messages.
    pub(super) fn live(&self) -> PageBitmap {
        match &self.content {
            SlotContent::Here(page) => PageBitmap::of(self.relatives(page, |_| true)),
            SlotContent::Cold(cold) => cold.live.clone(),
        }
    }

    /// Positions of live messages that are durable as part of the image.
    pub(super) fn live_in_image(&self) -> PageBitmap {
        match &self.content {
            SlotContent::Here(page) => {
                let in_image = |number| number == SegmentNumber::IN_IMAGE;
                PageBitmap::of(self.relatives(page, in_image))
            }
            SlotContent::Cold(cold) => cold.live_logged(),
        }
    }

    fn relatives<'a>(
        &'a self,
        page: &'a Page,
        wanted: impl Fn(SegmentNumber) -> bool + 'a,
    ) -> impl Iterator<Item = u16> + 'a {
        let live = page.live().filter(move |(_, entry)| wanted(entry.segment));
        live.filter_map(|(position, _)| self.relative(position))
    }

    /// Releases a message of a cold page.
    #[cold]
    pub(super) fn release_cold(&mut self, position: u64) -> Option<Released> {
        let at = self.relative(position)?;
        let has_bodies = self.image.is_some_and(|image| image.has_bodies);
        let SlotContent::Cold(cold) = &mut self.content else { return None };
        if !cold.live.remove(at) {
            return None;
        }
        let is_logged = cold.is_logged(at);
        let known = cold.known(at);
        if known.is_none() && has_bodies {
            cold.more.get_or_insert_with(|| Box::new(More::new())).owed.insert(at);
        }
        // Corrected when the page is loaded; what is left over goes with the last one.
        let average = self.live_bytes / u64::from(self.n_live.max(1));
        let (size_bytes, blob) = known.unwrap_or((average, None));
        let size_bytes = if self.n_live == 1 { self.live_bytes } else { size_bytes };
        Some(Released { is_logged, segment: None, size_bytes, body: blob, page: None })
    }
}

impl Cold {
    /// The knowledge that stays of a page that leaves memory. `may_be_held`: consumers may have
    /// some of its messages.
    pub(super) fn of(slot: &Slot, page: &Page, may_be_held: bool) -> Self {
        let live = slot.live();
        let logged = PageBitmap::of(slot.relatives(page, SegmentNumber::is_logged));
        let (logged, some) = match logged.len() {
            0 => (LoggedMessages::None, None),
            n if n == live.len() => (LoggedMessages::All, None),
            _ => (LoggedMessages::Some, Some(logged)),
        };
        let has_bodies = slot.image.is_some_and(|image| image.has_bodies);
        let uniform_bytes = if has_bodies { 0 } else { uniform_size(page) };
        let each = (may_be_held && uniform_bytes == 0).then(|| Each::of(slot, page, has_bodies));
        let mut more = None;
        if some.is_some() || each.is_some() {
            more = Some(Box::new(More {
                each: each.unwrap_or_default(),
                logged: some.unwrap_or_else(PageBitmap::none),
                owed: PageBitmap::none(),
            }));
        }
        Self { live, more, uniform_bytes, logged }
    }

    /// A page of an earlier life, of which `live` messages are left: all are logged.
    pub(super) const fn restored(live: PageBitmap) -> Self {
        Self { live, more: None, uniform_bytes: 0, logged: LoggedMessages::All }
    }

    /// Says which of its messages survive a restart.
    pub(super) fn set_logged(&mut self, positions: PageBitmap) {
        let n_logged = self.live.iter().filter(|at| positions.contains(*at)).count();
        self.logged = match n_logged {
            0 => LoggedMessages::None,
            n if n == self.live.len() => LoggedMessages::All,
            _ => LoggedMessages::Some,
        };
        if self.logged == LoggedMessages::Some {
            self.more.get_or_insert_with(|| Box::new(More::new())).logged = positions;
        }
    }

    pub(super) fn is_logged(&self, at: u16) -> bool {
        match self.logged {
            LoggedMessages::None => false,
            LoggedMessages::All => true,
            LoggedMessages::Some => self.more.as_ref().is_some_and(|more| more.logged.contains(at)),
        }
    }

    pub(super) fn any_logged(&self) -> bool {
        self.live.iter().any(|at| self.is_logged(at))
    }

    fn live_logged(&self) -> PageBitmap {
        match self.logged {
            LoggedMessages::None => PageBitmap::none(),
            LoggedMessages::All => self.live.clone(),
            LoggedMessages::Some => {
                PageBitmap::of(self.live.iter().filter(|at| self.is_logged(*at)))
            }
        }
    }

    /// Size and stored body of the message at `at`, if they are known without the image.
    fn known(&self, at: u16) -> Option<(u64, Option<BlobId>)> {
        if self.uniform_bytes > 0 {
            return Some((u64::from(self.uniform_bytes), None));
        }
        let each = &self.more.as_ref()?.each;
        let index = each.positions.binary_search(&at).ok()?;
        let size = *each.sizes.get(index)?;
        Some((u64::from(size), each.bodies.get(index).copied().flatten()))
    }

    /// Memory it takes beside its slot.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.live.heap_bytes() + self.more.as_ref().map_or(0, |_| size_of::<More>())
    }

    /// Positions whose stored bodies are not let go of though their messages are gone.
    pub(super) fn owed(&self) -> Option<&PageBitmap> {
        self.more.as_ref().map(|more| &more.owed).filter(|owed| !owed.is_empty())
    }
}

/// The size all live messages have in common; 0 when they differ.
fn uniform_size(page: &Page) -> u32 {
    let mut sizes = page.live().map(|(_, entry)| page.size_bytes(entry));
    let Some(first) = sizes.next() else { return 0 };
    if sizes.all(|size| size == first) { u32::try_from(first).unwrap_or(0) } else { 0 }
}

impl Each {
    fn of(slot: &Slot, page: &Page, has_bodies: bool) -> Self {
        let mut positions = Vec::with_capacity(usize::from(slot.n_live));
        let mut sizes = Vec::with_capacity(usize::from(slot.n_live));
        let mut bodies = Vec::new();
        for (position, entry) in page.live() {
            let Some(at) = slot.relative(position) else { continue };
            positions.push(at);
            sizes.push(u32::try_from(page.size_bytes(entry)).unwrap_or(u32::MAX));
            if has_bodies {
                bodies.push(page.bodies.get(entry.body).and_then(|kept| kept.blob));
            }
        }
        Self { positions: positions.into(), sizes: sizes.into(), bodies: bodies.into() }
    }
}

/// Memory that `page` takes when it is loaded from an image of its live messages. A little more
/// than it will: gaps at its ends take nothing.
pub(super) fn load_bytes(page: &Page, image_bytes: usize) -> u32 {
    let n_live = page.live().count();
    let n_gaps = page.entries.len() - n_live;
    let is_stored = |entry: super::page::PageEntry| {
        page.bodies.get(entry.body).is_some_and(|kept| kept.blob.is_some())
    };
    let stored = page.live().filter(|(_, entry)| is_stored(*entry));
    let stored_bytes: usize = stored.map(|(_, entry)| entry.len as usize).sum();
    u32::try_from(image_bytes + n_gaps * ENTRY_BYTES + stored_bytes).unwrap_or(u32::MAX)
}
