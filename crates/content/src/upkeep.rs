//! The content of a queue as a start and background work look after it: pages that are written and read,
//! messages of an earlier life, places in the log that are to be freed.

use crate::body_refs::BodyRefs;
use crate::content::Content;
use crate::context::QueueContext;
use crate::records;
use crate::services::Services;
use log::SegmentId;
use std::ops::Range;
use std::sync::Arc;
use store::Queued;
use store::backlog::{Dropped, LoadedPage, PageKey, PageNote};
use store::blob::BlobId;

/// The content of a queue as a start and background work look after it.
#[derive(Debug)]
pub struct ContentUpkeep<'c> {
    content: &'c mut Content,
    queue: &'c QueueContext,
}

impl Content {
    /// The content as a start and background work look after it.
    pub const fn upkeep<'c>(&'c mut self, queue: &'c QueueContext) -> ContentUpkeep<'c> {
        ContentUpkeep { content: self, queue }
    }
}

/// Messages that cannot be read.
#[derive(Debug)]
pub struct Lost {
    /// Positions of the messages.
    pub positions: Vec<Range<u64>>,
    /// Reason that they cannot be read.
    pub reason: String,
    /// Places of the messages in files, to be [freed](Content::free) once the log knows that they are gone.
    pub dropped: Dropped,
}

impl ContentUpkeep<'_> {
    /// Notes that a page's image is stored, and durable if it is to be.
    pub fn written(&mut self, page: PageKey, blob: BlobId, is_durable: bool) {
        match self.content.backlog.jobs().written(page, blob) {
            Some(written) => self.content.note_page(self.queue, page, &written),
            // The page was emptied meanwhile.
            None => {
                self.queue.storage().images.store(is_durable).release(blob, 1);
            }
        }
    }

    /// Takes the page that was read, or the reason that it cannot be read. Returns the messages that are lost
    /// by that.
    pub fn loaded(&mut self, page: PageKey, loaded: Result<LoadedPage, String>) -> Option<Lost> {
        let pool = self.queue.pool();
        let result = loaded.and_then(|loaded| {
            self.content.backlog.loaded(pool, page, loaded).map_err(|error| error.to_string())
        });
        match result {
            Ok(None) => None,
            Ok(Some(arrived)) => {
                if let Some(freed) = &arrived.page {
                    self.queue.services.free_page(freed.clone(), &self.queue.bodies);
                }
                self.queue.bodies.release(arrived.bodies.iter().copied());
                let positions: Vec<_> = arrived.lost.iter().map(|at| *at..at + 1).collect();
                let reason = "the messages or their bodies cannot be read".to_owned();
                let lost = Lost { positions, reason, dropped: Dropped::default() };
                (!lost.positions.is_empty()).then_some(lost)
            }
            Err(reason) => {
                let (positions, dropped) = self.content.backlog.failed(pool, page)?;
                Some(Lost { positions, reason, dropped })
            }
        }
    }

    /// Restores a message of an earlier life. Positions rise from call to call.
    pub fn restore(&mut self, queued: &Queued<'_>, segment: SegmentId) {
        let (content, segment) = (&mut *self.content, Some(segment));
        match queued.stored {
            Some(_) => content.backlog.restore(self.queue.pool(), queued, segment),
            None => content.push_own(self.queue, queued.position, segment, &queued.message),
        }
    }

    /// Restores a page of an earlier life, with its remaining messages. Positions rise from call to call.
    /// None if the note cannot be true, false if the page's image is missing.
    pub fn restore_page(&mut self, note: &PageNote, segment: SegmentId) -> Option<bool> {
        self.content.backlog.restore_page(note, segment).ok()?;
        Some(self.queue.storage().images.durable.retain(note.blob, 1))
    }

    /// Has the references counted that page images of an earlier life name.
    pub fn count_named(&self) {
        let Services { storage, pager, .. } = &*self.queue.services;
        let named = self.content.backlog.pages().images_with_bodies();
        let names = named.map(|(image, positions)| {
            let bodies = Arc::clone(&self.queue.bodies);
            BodyRefs { bodies, image, is_durable: true, positions }
        });
        // Images stay until they have been read for that.
        let names = names.filter(|names| storage.images.durable.retain(names.image, 1));
        pager.syncs.add(|syncs| syncs.body_refs.count(names.collect()));
    }

    /// Moves messages and notes that lie in log segment `segment` to the log's end.
    pub fn relocate(&mut self, segment: SegmentId) {
        let (wal, id) = (self.queue.wal(), self.queue.id().0);
        let message = |queued: &Queued<'_>| {
            let appended = records::append_message(wal, id, queued);
            wal.release(segment, 1);
            appended.at.segment
        };
        let page = |note: &PageNote| {
            let is_needed = !note.live.is_empty();
            let moved_to = is_needed.then(|| records::append_paged(wal, id, note).at.segment);
            wal.release(segment, 1);
            moved_to
        };
        self.content.backlog.log_places().relocate(segment, message, page);
    }
}
