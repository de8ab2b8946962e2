//! The messages of a queue as they are kept: in memory, in page images, in the log or a journal. Never whose
//! turn it is.

use super::Queue;
use super::durability::{Durability, KeptTogether, LoggedAt};
use crate::records;
use log::{Owner, SegmentCounts, SegmentId};
use message::MessageRef;
use message_store::BodyHome;
use queue::PositionRange;
use queue_type::{Any, Incoming};
use std::sync::Arc;
use store::backlog::{Backlog, Dropped, FreedPage, PageKey, PagePool, SharedBody, Written};
use store::blob::BlobId;

/// The content of a queue.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) backlog: Backlog,
    pub(super) durability: Durability,
    /// Logged positions that are gone and not yet noted in the log.
    settled: Vec<u64>,
    /// Log entries nobody needs any more, not yet told to the log.
    freed: SegmentCounts,
    /// None until there is such for the first time, as in most queues there never is.
    unnamed: Option<Box<Unnamed>>,
    scratch: Vec<u8>,
}

/// Files' places that nobody needs once the log knows what is gone.
#[derive(Debug, Default)]
struct Unnamed {
    pages: Vec<FreedPage>,
    bodies: Vec<BlobId>,
}

impl Content {
    pub(super) fn new(durability: Durability) -> Self {
        Self {
            backlog: Backlog::default(),
            durability,
            settled: Vec::new(),
            freed: SegmentCounts::default(),
            unnamed: None,
            scratch: Vec::new(),
        }
    }

    /// Appends the persistent ones to the log or the journal. Their positions are known beforehand: the
    /// first message gets the next position, and so on.
    pub(super) fn keep_incoming(
        &self,
        queue: &Queue,
        messages: &[Incoming<'_>],
        any: Any,
        (first, only_confirmed): (u64, bool),
    ) -> Option<KeptTogether> {
        if !self.durability.is_kept() || !any.logged {
            return None;
        }
        let wanted = |incoming: &Incoming<'_>| {
            incoming.message.persistent && (incoming.confirm.is_some() || !only_confirmed)
        };
        if !messages.iter().any(wanted) {
            return None;
        }
        let mut stored_bytes = 0;
        if any.stored && self.durability.is_logged() {
            let logged = messages.iter().filter(|incoming| wanted(incoming));
            stored_bytes = logged.map(store_body).sum();
        }
        let placed = (first..).zip(messages).filter(|(_, incoming)| wanted(incoming));
        Some(KeptTogether { only_confirmed, ..self.keep(queue, stored_bytes, placed) })
    }

    /// Stores a message, which is in the log segment `segment` if it is in the log.
    pub(super) fn store(
        &mut self,
        queue: &Queue,
        (at, segment): (u64, Option<SegmentId>),
        incoming: &Incoming<'_>,
    ) {
        let message = &incoming.message;
        match incoming.home {
            Some(home) => self.push_shared(queue, (at, segment), message, home),
            None => self.backlog.push(&queue.services.storage.pool, at, message, segment, None),
        }
    }

    /// Forgets messages that are gone together.
    pub(super) fn drop_ranges(&mut self, queue: &Queue, gone: &[PositionRange]) {
        let ranges = gone.iter().map(|range| range.start..range.end);
        let dropped = self.backlog.purge(&queue.services.storage.pool, ranges);
        if dropped.any_logged {
            records::append_purged(&queue.services.storage.wal, queue.id().0, gone);
        }
        if let Some(journal) = self.durability.journal() {
            gone.iter().for_each(|range| journal.ack_range(range.start..range.end));
        }
        self.free(queue, dropped);
    }

    /// Keeps a persistent message that was expected to pass through and did not.
    pub(super) fn keep_late(
        &self,
        queue: &Queue,
        at: u64,
        incoming: &Incoming<'_>,
    ) -> Option<KeptTogether> {
        if !(self.durability.is_kept() && incoming.message.persistent) {
            return None;
        }
        let stored_bytes = if self.durability.is_logged() { store_body(incoming) } else { 0 };
        Some(self.keep(queue, stored_bytes, std::iter::once((at, incoming))))
    }

    /// Keeps `placed` messages, each with its position; of their bodies `stored_bytes` were stored for it.
    fn keep<'m, 'a: 'm>(
        &self,
        queue: &Queue,
        stored_bytes: usize,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)> + Clone,
    ) -> KeptTogether {
        let appended = self.durability.is_logged().then(|| {
            queue.services.storage.wal.append(|batch| {
                let mut n_logged = 0;
                for (at, incoming) in placed.clone() {
                    let (message, stored) = match incoming.home {
                        Some(home) => home.logged(&incoming.message),
                        None => (incoming.message, None),
                    };
                    records::put_message(batch, queue.id().0, at, &message, stored);
                    n_logged += 1;
                }
                batch.retain(Owner(queue.id().0), n_logged);
                batch.count_beside(stored_bytes);
            })
        });
        let mut note = None;
        if let Some(journal) = self.durability.journal() {
            for (at, incoming) in placed {
                note = Some(journal.publish(at, &incoming.message));
            }
        }
        KeptTogether {
            upto: appended.map(|appended| appended.upto),
            note,
            kept: LoggedAt { segment: appended.map(|appended| appended.at.segment) },
            only_confirmed: false,
        }
    }

    /// Stores a message whose body other queues have too.
    #[cold]
    fn push_shared(
        &mut self,
        queue: &Queue,
        (at, segment): (u64, Option<SegmentId>),
        message: &MessageRef<'_>,
        home: &Arc<BodyHome>,
    ) {
        let pool = &queue.services.storage.pool;
        let is_named = segment.is_some() && home.is_logged_apart();
        let blob = if is_named { home.retain() } else { None };
        if blob.is_none() && self.durability.journal().is_some() {
            // A journal embeds bodies of any size.
            self.backlog.push(pool, at, message, segment, None);
        } else {
            let home: Arc<dyn SharedBody> = home.clone();
            self.backlog.push_shared(pool, at, message, segment, (home, blob));
        }
    }

    /// Forgets a stored message.
    pub(super) fn release(&mut self, pool: &PagePool, at: u64) {
        stdx::walk::step("release");
        let Some(released) = self.backlog.release(pool, at) else { return };
        if released.is_logged || self.durability.journal().is_some() {
            self.settled.push(at);
        }
        if let Some(segment) = released.segment {
            self.freed.add(segment);
        }
        if let Some(body) = released.body {
            self.unnamed.get_or_insert_default().bodies.push(body);
        }
        if let Some(page) = released.page {
            self.unnamed.get_or_insert_default().pages.push(*page);
        }
    }

    pub(super) fn note_gone(&mut self, at: u64, kept: Option<LoggedAt>) {
        let Some(kept) = kept else { return };
        self.settled.push(at);
        if let Some(segment) = kept.segment {
            self.freed.add(segment);
        }
    }

    /// Tells the log or the journal what is gone. Nobody waits for this to be durable: a crash in between
    /// makes the messages come back, marked redelivered.
    pub(super) fn log_settled(&mut self, queue: &Queue) {
        if !self.settled.is_empty() {
            let Self { settled, scratch, durability, .. } = self;
            if durability.is_logged() {
                records::append_settled(
                    &queue.services.storage.wal,
                    queue.id().0,
                    settled,
                    scratch,
                );
            }
            if let Some(journal) = durability.journal() {
                journal.ack(settled.iter().copied());
            }
            settled.clear();
            self.freed.release(&queue.services.storage.wal);
        }
        let Some(unnamed) = &mut self.unnamed else { return };
        if !unnamed.bodies.is_empty() {
            queue.bodies.release(unnamed.bodies.drain(..));
        }
        for freed in unnamed.pages.drain(..) {
            queue.services.free_page(freed, &queue.bodies);
        }
    }

    /// Gives back what messages had that went together. The log knows that they are gone.
    pub(super) fn free(&self, queue: &Queue, dropped: Dropped) {
        for (segment, n) in dropped.segments {
            queue.services.storage.wal.release(segment, n);
        }
        queue.bodies.release(dropped.bodies);
        for freed in dropped.pages {
            queue.services.free_page(freed, &queue.bodies);
        }
    }

    /// Notes in the log that messages are in a page's image, in place of where they were.
    pub(super) fn note_page(&mut self, queue: &Queue, page: PageKey, written: &Written) {
        let storage = &queue.services.storage;
        if let Some(note) = &written.note {
            let appended = records::append_paged(&storage.wal, queue.id().0, note);
            self.backlog.log_places().paged_in_log(page, appended.at.segment);
        }
        for (segment, n) in &written.segments {
            storage.wal.release(*segment, *n);
        }
        if let Some(replaced) = &written.replaced {
            queue.services.free_page(replaced.clone(), &queue.bodies);
        }
    }

    /// Tells the thread of version 1 that something may have been noted in the journal.
    pub(super) fn settle_journal(&mut self, queue: &Queue) {
        let Some(journal) = self.durability.journal() else { return };
        queue.services.journals.noted(journal);
        self.durability.note_log_durable(&queue.services.storage.wal);
    }

    pub(super) fn trim(&mut self, pool: &PagePool) {
        self.backlog.trim(pool);
    }
}

/// Stores the body of a message that is about to be logged if it has a home, and is not there yet.
/// Returns how many bytes that added.
fn store_body(incoming: &Incoming<'_>) -> usize {
    let home = incoming.home.filter(|home| home.is_logged_apart());
    home.map_or(0, |home| home.settle(incoming.message.body.bytes()))
}
