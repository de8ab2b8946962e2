//! Pages as a sequence of messages, and a sequence of messages as pages: how a queue's content goes
//! from this form into another one and back.

use super::PageNote;
use super::image::{Image, ImageError, LoadedPage};
use super::page::{ENTRY_BYTES, Page, SPAN_MAX, to_u16};
use super::page_bitmap::PageBitmap;
use super::pages::Pages;
use super::pool::PagePool;
use super::segments::SegmentNumber;
use super::slot::Content;
use crate::blob::BlobId;
use crate::queued::Queued;

/// Makes images of pages from messages in the order of their positions. Holds one page.
#[derive(Debug)]
pub struct PageWriter {
    first: u64,
    /// Begins there, wherever its first message lies.
    is_placed: bool,
    positions: Vec<u16>,
    page: Page,
    /// Of bodies in the body store, which a loaded page holds.
    stored_bytes: usize,
    all: Counted,
    persistent: Counted,
    image: Image,
}

#[derive(Debug)]
struct Counted {
    positions: PageBitmap,
    bytes: u64,
}

impl Default for Counted {
    fn default() -> Self {
        Self { positions: PageBitmap::none(), bytes: 0 }
    }
}

/// A page whose image was made, and what there is to know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPage {
    /// The page with all of its messages.
    pub all: PageNote,
    /// The page as the log is to know it: with those that are to survive a restart, if there are any.
    pub persistent: Option<PageNote>,
}

impl Default for PageWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl PageWriter {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            first: 0,
            is_placed: false,
            positions: Vec::new(),
            page: Page::default(),
            stored_bytes: 0,
            all: Counted::default(),
            persistent: Counted::default(),
            image: Image::default(),
        }
    }

    /// For one page that begins at `first`, which is to take the place of another image.
    #[must_use]
    pub fn of_page(first: u64) -> Self {
        Self { first, is_placed: true, ..Self::new() }
    }

    /// Adds a message, whose position is higher than the one before it.
    pub fn push(&mut self, queued: &Queued<'_>) {
        if self.positions.is_empty() && !self.is_placed {
            self.first = queued.position;
        }
        let at = to_u16(usize::try_from(queued.position - self.first).unwrap_or(usize::MAX));
        debug_assert!(self.positions.last().is_none_or(|last| *last < at), "positions rise");
        self.positions.push(at);
        self.page.push_queued(queued, SegmentNumber::NONE);
        self.stored_bytes += queued.stored.map_or(0, |stored| stored.blob_bytes() as usize);
        let size_bytes = queued.size_bytes();
        self.all.add(at, size_bytes);
        if queued.message.persistent {
            self.persistent.add(at, size_bytes);
        }
    }

    /// Hands the image of what was added, if anything was, to `write`, which says where it is.
    pub fn finish(&mut self, write: impl FnOnce(&[&[u8]]) -> BlobId) -> Option<WrittenPage> {
        let last = *self.positions.last()?;
        let n = self.positions.len();
        self.image.write_dense(self.first, self.positions.drain(..), &self.page);
        let blob = write(&self.image.parts());
        let n_gaps = usize::from(last) + 1 - n;
        let load_bytes = self.image.len() + n_gaps * ENTRY_BYTES + self.stored_bytes;
        let note = |counted: Counted| PageNote {
            first: self.first,
            blob,
            n_live: to_u16(counted.positions.len()),
            live: counted.positions.ranges_from(self.first),
            live_bytes: counted.bytes,
            load_bytes: u32::try_from(load_bytes).unwrap_or(u32::MAX),
            n_entries: to_u16(n),
            has_bodies: self.stored_bytes > 0,
            is_annotated: self.page.bytes.is_annotated(),
        };
        let all = note(std::mem::take(&mut self.all));
        let persistent = note(std::mem::take(&mut self.persistent));
        self.page.clear();
        self.stored_bytes = 0;
        Some(WrittenPage { all, persistent: Some(persistent).filter(|note| note.n_live > 0) })
    }
}

impl Counted {
    fn add(&mut self, at: u16, size_bytes: u64) {
        self.positions.insert(at);
        self.bytes += size_bytes;
    }
}

/// The next part of a backlog that is converted.
#[derive(Debug)]
pub enum Part<'a> {
    /// A page in memory: [`HerePart::messages`].
    Here(HerePart<'a>),
    /// A page whose image is to be read first: [`LoadedPage::read`], then [`LoadedPage::messages`].
    Stored {
        /// The page's first position.
        first: u64,
        /// Its image.
        blob: BlobId,
        /// Among the durable ones.
        is_durable: bool,
        /// Positions of its messages.
        wanted: PageBitmap,
        /// Where the part after this one begins.
        end: u64,
    },
}

/// A page in memory.
#[derive(Debug)]
pub struct HerePart<'a> {
    page: &'a Page,
    from: u64,
    /// Where the part after this one begins.
    pub end: u64,
}

impl<'a> HerePart<'a> {
    /// Its messages by position. None is marked as delivered: that is for the caller to know.
    pub fn messages(&self) -> impl Iterator<Item = Queued<'a>> + use<'a> {
        let Self { page, from, .. } = *self;
        let live = page.live().skip_while(move |(position, _)| *position < from);
        live.filter_map(move |(position, entry)| page.queued(position, entry))
    }
}

impl Pages {
    /// The first page with messages at or behind `position`, to go through all of them part by
    /// part. What is pushed or released meanwhile is seen if it lies behind.
    #[must_use]
    pub fn part_from(&self, position: u64) -> Option<Part<'_>> {
        let at = self.slots().partition_point(|slot| slot.end() <= position);
        let slot = self.slots().range(at..).find(|slot| slot.n_live > 0)?;
        let end = slot.end();
        match &slot.content {
            Content::Here(page) => Some(Part::Here(HerePart { page, from: position, end })),
            Content::Cold(cold) => {
                let image = slot.image?;
                let wanted = cold.live.clone();
                let (first, blob, is_durable) = (slot.first, image.blob, image.is_durable);
                Some(Part::Stored { first, blob, is_durable, wanted, end })
            }
        }
    }
}

impl LoadedPage {
    /// A page whose first position is `first`, to be filled from another form of storage.
    #[must_use]
    pub fn start(pool: &PagePool, first: u64) -> Self {
        let mut page = pool.take(0);
        page.first = first;
        Self { first, page }
    }

    /// Adds a message; positions rise.
    ///
    /// # Errors
    /// It does not belong to this page.
    pub fn push(&mut self, queued: &Queued<'_>) -> Result<(), ImageError> {
        let position = queued.position;
        let is_empty = self.page.entries.is_empty();
        let spans = position.checked_sub(self.first).is_some_and(|at| at < SPAN_MAX as u64);
        if !spans || (!is_empty && position < self.page.end()) {
            return Err(ImageError::OtherPage);
        }
        if is_empty {
            self.page.first = position;
        }
        self.page.fill_gap(position);
        self.page.push_queued(queued, SegmentNumber::NONE);
        Ok(())
    }

    /// Reads all messages of an image. Needs no lock.
    ///
    /// # Errors
    /// The image is damaged or of a newer version.
    pub fn read_all(pool: &PagePool, image: &[u8]) -> Result<Self, ImageError> {
        Self::read(pool, image, &PageBitmap::of(0..to_u16(SPAN_MAX)))
    }

    /// Its messages by position, without the bodies that are in the body store. None is marked as
    /// delivered: that is for the caller to know.
    pub fn messages(&self) -> impl Iterator<Item = Queued<'_>> {
        let page = &self.page;
        page.live().filter_map(|(position, entry)| page.queued(position, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Backlog;
    use super::super::page::to_u32;
    use super::super::plan::PAGE_BYTES_MAX;
    use super::*;
    use crate::queued::StoredBody;
    use message::{Body, MessageRef};
    use proptest::prelude::*;

    type Message = (u64, Vec<u8>, Option<StoredBody>, bool);

    fn messages() -> impl Strategy<Value = Vec<Message>> {
        let gap = prop_oneof![8 => Just(0_u64), 2 => 1_u64..100, 1 => 4_000_u64..5_000];
        let body_bytes = prop_oneof![8 => 0..400_usize, 1 => 4_000..70_000_usize];
        let one = (gap, body_bytes, prop::bool::weighted(0.2), any::<bool>());
        prop::collection::vec(one, 0..200).prop_map(|all| {
            let mut next = 7;
            let message = |(gap, body_bytes, is_stored, is_persistent)| {
                let position = next + gap;
                next = position + 1;
                let blob = BlobId { file: 3, index: to_u32(body_bytes) };
                let stored = StoredBody { blob, bytes: to_u32(body_bytes), properties_bytes: 0 };
                let own = if is_stored { 0 } else { body_bytes };
                (position, vec![7; own], is_stored.then_some(stored), is_persistent)
            };
            all.into_iter().map(message).collect()
        })
    }

    fn queued(message: &Message) -> Queued<'_> {
        let (position, body, stored, persistent) = message;
        let routing_key: &[u8] = if position.is_multiple_of(3) { b"other" } else { b"key" };
        let message = MessageRef {
            exchange: b"e",
            routing_key,
            properties: &[0, 0],
            body: Body::Borrowed(body),
            persistent: *persistent,
            annotations: Default::default(),
        };
        Queued { position: *position, message, stored: *stored, is_delivered: false }
    }

    fn owned(queued: Queued<'_>) -> Message {
        let message = queued.message;
        assert_eq!((message.exchange, message.properties), (&b"e"[..], &[0, 0][..]));
        let expected: &[u8] = if queued.position.is_multiple_of(3) { b"other" } else { b"key" };
        assert_eq!(message.routing_key, expected);
        (queued.position, message.body.bytes().to_vec(), queued.stored, message.persistent)
    }

    fn is_full_for(writer: &PageWriter, message: &Message) -> bool {
        let beyond = message.0 - writer.first >= SPAN_MAX as u64;
        let n_bytes = writer.page.bytes.len() + message.1.len();
        !writer.positions.is_empty() && (beyond || n_bytes > PAGE_BYTES_MAX)
    }

    fn write_pages(all: &[Message]) -> (Vec<WrittenPage>, Vec<Vec<u8>>) {
        let (mut writer, mut pages, mut images) = (PageWriter::new(), Vec::new(), Vec::new());
        let mut finish = |writer: &mut PageWriter| {
            pages.extend(writer.finish(|parts| {
                images.push(parts.concat());
                BlobId { file: 1, index: to_u32(images.len() - 1) }
            }));
        };
        for message in all {
            if is_full_for(&writer, message) {
                finish(&mut writer);
            }
            writer.push(&queued(message));
        }
        finish(&mut writer);
        finish(&mut writer);
        (pages, images)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_to_pages_is_read_from_them(all in messages()) {
            let pool = PagePool::default();
            let (pages, images) = write_pages(&all);
            prop_assert_eq!(pages.len(), images.len());
            let mut backlog = Backlog::default();
            for page in &pages {
                backlog.restore_page(&page.all, log::SegmentId(1)).unwrap();
            }
            let bytes: u64 = all.iter().map(|message| queued(message).size_bytes()).sum();
            prop_assert_eq!(backlog.stored_bytes(), bytes);
            let kept: u64 = pages.iter().flat_map(|page| &page.persistent)
                .map(|note| u64::from(note.n_live)).sum();
            prop_assert_eq!(kept, all.iter().filter(|message| message.3).count() as u64);
            let (mut read, mut next) = (Vec::new(), 0);
            while let Some(part) = backlog.pages().part_from(next) {
                let Part::Stored { blob, wanted, end, .. } = part else { panic!("all are cold") };
                let image = &images[blob.index as usize];
                let loaded = LoadedPage::read(&pool, image, &wanted).unwrap();
                let note = &pages[blob.index as usize].all;
                prop_assert!(loaded.page.cost_bytes() <= note.load_bytes as usize);
                read.extend(loaded.messages().map(owned));
                let whole = LoadedPage::read_all(&pool, image).unwrap();
                prop_assert_eq!(whole.messages().count(), loaded.messages().count());
                next = end;
            }
            prop_assert_eq!(read, all);
        }

        #[test]
        fn a_page_is_filled_without_an_image(all in messages()) {
            let pool = PagePool::default();
            let first = 5;
            let mut loaded = LoadedPage::start(&pool, first);
            let fits: Vec<Message> =
                all.into_iter().take_while(|message| message.0 - first < SPAN_MAX as u64).collect();
            for message in &fits {
                loaded.push(&queued(message)).unwrap();
                prop_assert!(loaded.push(&queued(message)).is_err(), "it is there");
            }
            let beyond = (first + SPAN_MAX as u64, Vec::new(), None, true);
            prop_assert!(loaded.push(&queued(&beyond)).is_err());
            let wanted: Vec<BlobId> = loaded.wanted_bodies().iter().map(|one| one.blob).collect();
            let stored = fits.iter().filter_map(|message| message.2);
            let missing: Vec<BlobId> =
                stored.filter(|body| body.bytes > 0).map(|body| body.blob).collect();
            prop_assert_eq!(wanted, missing);
            prop_assert_eq!(loaded.messages().map(owned).collect::<Vec<_>>(), fits);
        }

        #[test]
        fn a_backlog_in_memory_is_gone_through_in_order(all in messages(), from in 0_u64..200) {
            let (pool, mut backlog) = (PagePool::default(), Backlog::default());
            for message in &all {
                let queued = queued(message);
                let body = vec![1; queued.body_bytes() as usize];
                let whole = match queued.stored {
                    Some(_) => MessageRef { body: Body::Borrowed(&body), ..queued.message },
                    None => queued.message,
                };
                let blob = queued.stored.map(|stored| stored.blob);
                backlog.push(&pool, message.0, &whole, None, blob);
            }
            let (mut read, mut next) = (Vec::new(), from);
            while let Some(part) = backlog.pages().part_from(next) {
                let Part::Here(here) = part else { panic!("all are in memory") };
                read.extend(here.messages().map(owned));
                next = here.end;
            }
            let expected: Vec<Message> =
                all.into_iter().filter(|message| message.0 >= from).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
