//! Pages of a backlog for a caller that only looks: nothing is moved, loaded into it or counted for that.

use super::image::LoadedPage;
use super::page::Page;
use super::page_bitmap::PageBitmap;
use super::page_bytes::NOWHERE;
use super::pages::Pages;
use super::pool::PagePool;
use super::slot::{Slot, SlotContent};
use super::{Backlog, PageKey};
use crate::blob::BlobId;
use message::MessageRef;
use std::ops::Range;

/// The direction of a look through positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// From this position on.
    Later(u64),
    /// Below this position, the highest first.
    Earlier(u64),
}

impl Toward {
    /// Whether a position lies there.
    pub const fn covers(self, position: u64) -> bool {
        match self {
            Self::Later(from) => position >= from,
            Self::Earlier(end) => position < end,
        }
    }

    /// The positions behind a message.
    #[must_use]
    pub const fn beyond(self, position: u64) -> Self {
        match self {
            Self::Later(_) => Self::Later(position + 1),
            Self::Earlier(_) => Self::Earlier(position),
        }
    }

    /// The positions behind a page.
    #[must_use]
    pub const fn beyond_page(self, span: &Range<u64>) -> Self {
        match self {
            Self::Later(_) => Self::Later(span.end),
            Self::Earlier(_) => Self::Earlier(span.start),
        }
    }
}

/// A page that was found.
#[derive(Debug)]
pub struct FoundPage {
    /// Its positions.
    pub span: Range<u64>,
    /// Its messages.
    pub content: FoundContent,
}

/// The messages of a page that was found.
#[derive(Debug)]
pub enum FoundContent {
    /// A copy of what is in memory.
    Here(LoadedPage),
    /// The page is on disk only: to be read without any lock, then [asked for](BacklogBrowser::live_in)
    /// again.
    Cold(ColdPage),
}

/// A page that is on disk only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdPage {
    /// Its name; stale once it is emptied.
    pub page: PageKey,
    /// Its image.
    pub blob: BlobId,
    /// Whether that is among the durable ones.
    pub is_durable: bool,
    /// The positions to read of it: [`LoadedPage::read`].
    pub live: PageBitmap,
}

/// Pages of a backlog as those see them who only look.
#[derive(Clone, Copy, Debug)]
pub struct BacklogBrowser<'b>(&'b Pages);

impl<'b> BacklogBrowser<'b> {
    /// A look at the pages of a backlog.
    #[must_use]
    pub const fn of(backlog: &'b Backlog) -> Self {
        Self(backlog.pages())
    }

    /// The nearest page with a message there.
    #[must_use]
    pub fn find(self, pool: &PagePool, toward: Toward) -> Option<FoundPage> {
        let slots = self.0.slots();
        let is_wanted = |slot: &&Slot| slot.n_live > 0;
        let slot = match toward {
            Toward::Later(from) => {
                let at = slots.partition_point(|slot| slot.end() <= from);
                slots.range(at..).find(is_wanted)
            }
            Toward::Earlier(end) => {
                let at = slots.partition_point(|slot| slot.first < end);
                slots.range(..at).rev().find(is_wanted)
            }
        }?;
        let content = match (&slot.content, slot.image) {
            (SlotContent::Here(page), _) => {
                FoundContent::Here(LoadedPage { first: slot.first, page: copy(page, pool) })
            }
            (SlotContent::Cold(cold), Some(image)) => FoundContent::Cold(ColdPage {
                page: slot.key(),
                blob: image.blob,
                is_durable: image.is_durable,
                live: cold.live.clone(),
            }),
            (SlotContent::Cold(_), None) => return None,
        };
        Some(FoundPage { span: slot.first..slot.end(), content })
    }

    /// The messages that a page has by now; none if it is in memory, has another image, or is gone.
    #[must_use]
    pub fn live_in(self, page: &ColdPage) -> Option<PageBitmap> {
        let slot = self.0.slots().get(self.0.index_of_key(page.page)?)?;
        let is_same = slot.image.is_some_and(|image| image.blob == page.blob);
        slot.cold().filter(|_| is_same).map(|cold| cold.live.clone())
    }
}

/// A copy; bodies kept apart stay shared.
fn copy(page: &Page, pool: &PagePool) -> Box<Page> {
    let mut copy = pool.take(page.cost_bytes());
    copy.first = page.first;
    copy.entries.extend_from_slice(&page.entries);
    copy.bytes.append(page.bytes.as_slice());
    copy.bodies = page.bodies.clone();
    copy
}

impl LoadedPage {
    /// Its whole messages in the order of the look.
    pub fn in_order(&self, toward: Toward) -> impl Iterator<Item = (u64, MessageRef<'_>)> + '_ {
        let page = &*self.page;
        let mut at = 0..page.entries.len();
        let next = move || match toward {
            Toward::Later(_) => at.next(),
            Toward::Earlier(_) => at.next_back(),
        };
        std::iter::from_fn(next).filter_map(move |at| {
            let entry = page.entries.get(at).filter(|entry| entry.envelope != NOWHERE)?;
            let position = page.first + at as u64;
            toward.covers(position).then(|| page.message(*entry)).flatten().map(|it| (position, it))
        })
    }

    /// Gives its memory back.
    pub fn recycle(self, pool: &PagePool) {
        pool.give(self.page);
    }
}
