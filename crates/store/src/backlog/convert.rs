//! Pages as a sequence of messages, and a sequence of messages as pages: how a queue's content goes
//! from this form into another one and back.

use super::image::{Image, ImageError, LoadedPage};
use super::page::Page;
use super::page_bitmap::{PageBitmap, SPAN_MAX, to_u16};
use super::pages::Pages;
use super::pool::PagePool;
use super::segments::SegmentNumber;
use super::slot::SlotContent;
use crate::blob::BlobId;
use crate::queued::Queued;

/// The next part of a backlog that is converted.
#[derive(Debug)]
pub enum BacklogPart<'a> {
    /// A page in memory: [`HerePart::messages`].
    Here(HerePart<'a>),
    /// A page whose image is to be read first: [`LoadedPage::read`], then [`LoadedPage::messages`].
    Stored {
        /// The page's first position.
        first: u64,
        /// Its image.
        blob: BlobId,
        /// Whether the image is among the durable ones.
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
    pub fn part_from(&self, position: u64) -> Option<BacklogPart<'_>> {
        let at = self.slots().partition_point(|slot| slot.end() <= position);
        let slot = self.slots().range(at..).find(|slot| slot.n_live > 0)?;
        let end = slot.end();
        match &slot.content {
            SlotContent::Here(page) => {
                Some(BacklogPart::Here(HerePart { page, from: position, end }))
            }
            SlotContent::Cold(cold) => {
                let image = slot.image?;
                let wanted = cold.live.clone();
                let (first, blob, is_durable) = (slot.first, image.blob, image.is_durable);
                Some(BacklogPart::Stored { first, blob, is_durable, wanted, end })
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
    /// The message does not belong to this page.
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

    /// Whether the page has no message.
    pub fn is_empty(&self) -> bool {
        self.page.entries.is_empty()
    }

    /// Its image.
    #[must_use]
    pub fn image(&self, pool: &PagePool) -> Image {
        let mut image = Image::default();
        image.write(pool, self.first, &self.page);
        image
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
    use super::super::page_bytes::to_u32;
    use super::super::paging::PAGE_BYTES_MAX;
    use super::super::{Backlog, PageNote};
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
            form: message::BodyForm::Plain,
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

    /// Writes messages as pages, each with the log's note about it and its image.
    fn write_pages(pool: &PagePool, all: &[Message]) -> Vec<(PageNote, Vec<u8>)> {
        let mut left = all.iter().peekable();
        let mut pages = Vec::new();
        while let Some(first) = left.peek().map(|message| message.0) {
            let mut page = LoadedPage::start(pool, first);
            let (mut live, mut live_bytes) = (PageBitmap::none(), 0);
            let fits = |page: &LoadedPage, message: &Message| {
                let n_bytes = page.page.bytes.len() + message.1.len();
                let spans = message.0 - first < SPAN_MAX as u64;
                page.is_empty() || (spans && n_bytes <= PAGE_BYTES_MAX)
            };
            while let Some(message) = left.next_if(|message| fits(&page, message)) {
                page.push(&queued(message)).unwrap();
                live.insert(u16::try_from(message.0 - first).unwrap());
                live_bytes += queued(message).size_bytes();
            }
            let note = PageNote {
                first,
                blob: BlobId { file: 1, index: to_u32(pages.len()) },
                n_live: to_u16(live.len()),
                live: live.ranges_from(first),
                live_bytes,
                load_bytes: 0,
                n_entries: to_u16(live.len()),
                has_bodies: !page.wanted_bodies().is_empty(),
                has_deadlines: false,
            };
            pages.push((note, page.image(pool).parts().concat()));
        }
        pages
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_to_pages_is_read_from_them(all in messages()) {
            let pool = PagePool::default();
            let pages = write_pages(&pool, &all);
            let mut backlog = Backlog::default();
            for (note, _) in &pages {
                backlog.restore_page(note, log::SegmentId(1)).unwrap();
            }
            let bytes: u64 = all.iter().map(|message| queued(message).size_bytes()).sum();
            prop_assert_eq!(backlog.stored_bytes(), bytes);
            let (mut read, mut next) = (Vec::new(), 0);
            while let Some(part) = backlog.pages().part_from(next) {
                let BacklogPart::Stored { blob, wanted, end, .. } = part else { panic!("all are cold") };
                let (_, image) = &pages[blob.index as usize];
                let loaded = LoadedPage::read(&pool, image, &wanted).unwrap();
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
                let BacklogPart::Here(here) = part else { panic!("all are in memory") };
                read.extend(here.messages().map(owned));
                next = here.end;
            }
            let expected: Vec<Message> =
                all.into_iter().filter(|message| message.0 >= from).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
