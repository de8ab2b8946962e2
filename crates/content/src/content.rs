//! The messages of a queue as they are kept: in memory, in page images, in the log or a journal. Never whose
//! turn it is.

use crate::context::QueueContext;
use crate::durability::{Durability, KeptTogether, LoggedAt};
use crate::records;
use crate::services::Services;
use crate::storage::Storage;
use log::{Appended, Owner, SegmentCounts, SegmentId};
use message::{Body, MessageRef};
use message_store::BodyHome;
use queue::PositionRange;
use queue_type::{Any, Incoming};
use std::collections::VecDeque;
use std::sync::Arc;
use store::backlog::{
    Backlog, Dropped, FreedPage, Lookup, PageKey, PagePool, SharedBody, SharedBodyName, Written,
};
use store::blob::BlobId;
use store::{Queued, StoredBody};

/// Messages of a range above which they are forgotten together.
const ONE_BY_ONE_MAX: u64 = 64;

/// The content of a queue.
#[derive(Debug)]
pub struct Content {
    /// The messages by position, in memory and on disk.
    pub backlog: Backlog,
    /// Place where the messages are kept beyond a restart.
    pub durability: Durability,
    /// Logged positions that are gone and not yet noted in the log.
    settled: Vec<u64>,
    /// Log entries nobody needs any more, not yet told to the log.
    freed: SegmentCounts,
    /// None until there is such for the first time, as in most queues there never is.
    unnamed: Option<Box<Unnamed>>,
    scratch: Vec<u8>,
}

/// Files' places that no page names: nobody needs them once the log knows what is gone, or messages on their
/// way in do.
#[derive(Debug, Default)]
struct Unnamed {
    pages: Vec<FreedPage>,
    bodies: Vec<BlobId>,
    /// Bodies of messages on their way in, by position.
    coming: VecDeque<(u64, StoredBody)>,
}

impl Content {
    /// Makes the content of a queue whose commands are in the log, beside its messages.
    #[must_use]
    pub fn beside_commands() -> Self {
        Self::new(Durability::by_commands())
    }

    /// Makes the content of an empty queue.
    pub fn new(durability: Durability) -> Self {
        Self {
            backlog: Backlog::default(),
            durability,
            settled: Vec::new(),
            freed: SegmentCounts::default(),
            unnamed: None,
            scratch: Vec::new(),
        }
    }

    /// Appends the persistent messages to the log or the journal. The first message has the given position,
    /// and each other the next one.
    pub fn keep_incoming(
        &mut self,
        queue: &QueueContext,
        messages: &[Incoming<'_>],
        any: Any,
        first: u64,
        only_confirmed: bool,
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
        if any.stored {
            let kept = messages.iter().filter(|incoming| wanted(incoming));
            stored_bytes = kept.map(|incoming| self.store_shared(incoming)).sum();
        }
        let placed = (first..).zip(messages).filter(|(_, incoming)| wanted(incoming));
        stored_bytes += self.store_own(queue, placed.clone());
        Some(KeptTogether { only_confirmed, ..self.keep(queue, stored_bytes, placed) })
    }

    /// Appends messages to the log, each with its place, and beside them the commands of which these places
    /// came. Returns where all of that lies: that the commands are needed is for the caller to say.
    pub fn keep_commands<'m, 'a: 'm>(
        &mut self,
        queue: &QueueContext,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)> + Clone,
        commands: &[u8],
    ) -> Appended {
        let mut stored_bytes = 0;
        for (_, incoming) in placed.clone().filter(|(_, incoming)| incoming.home.is_some()) {
            stored_bytes += self.store_shared(incoming);
        }
        stored_bytes += self.store_own(queue, placed.clone());
        self.append(queue, stored_bytes, placed, Some(commands))
    }

    /// Stores a message, which is in the log segment `segment` if it is in the log.
    pub fn store(
        &mut self,
        queue: &QueueContext,
        at: u64,
        segment: Option<SegmentId>,
        incoming: &Incoming<'_>,
    ) {
        let message = &incoming.message;
        match (incoming.home, self.take_coming(at)) {
            (Some(home), _) => self.push_shared(queue, at, segment, message, home),
            (None, None) => self.push_own(queue, at, segment, message),
            (None, body) => {
                self.backlog.push(queue.pool(), at, message, segment, body);
            }
        }
    }

    /// Stores a message whose body is stored nowhere else. A large one that the log has goes to the body
    /// store when its page is written, or a journal gets the message: both have a reference then.
    pub fn push_own(
        &mut self,
        queue: &QueueContext,
        at: u64,
        segment: Option<SegmentId>,
        message: &MessageRef<'_>,
    ) {
        let Storage { pool, bodies, .. } = queue.storage();
        if segment.is_none() || !bodies.is_stored(message.body.len()) {
            return self.backlog.push(pool, at, message, segment, None);
        }
        let kept = message.body.to_shared();
        let message = MessageRef { body: Body::Shared(&kept), ..*message };
        let home = BodyHome::new(&queue.bodies, &[], 1);
        self.backlog.push_shared(pool, at, &message, segment, SharedBodyName { home, blob: None });
    }

    /// Whether large bodies of messages on their way in go to the body store at once, their entries and pages
    /// having references. That is so beside a journal, and in a deep queue, whose new messages will be paged:
    /// each body is written once. In a shallow one they mostly go before that, and one write and one sync of
    /// the log confirm them. So they do where little waits for the disk, as when one message after the other
    /// is confirmed: another sync would take longer than to write little twice.
    fn stores_bodies<'m, 'a: 'm>(
        &self,
        queue: &QueueContext,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)>,
    ) -> bool {
        let Services { storage, pager, .. } = &*queue.services;
        let waiting_bytes = || {
            let bytes: usize = placed.map(|(_, incoming)| incoming.message.body.len()).sum();
            storage.wal.unsynced_bytes() + bytes
        };
        let is_deep = || self.backlog.stored_bytes() > pager.allowance_bytes() as u64;
        self.durability.journal().is_some()
            || (is_deep() && waiting_bytes() >= pager.options.stored_at_once_bytes_min)
    }

    /// Stores the body of a message that is about to be kept if it has a home, and is not there yet. Returns
    /// how many bytes that added.
    fn store_shared(&self, incoming: &Incoming<'_>) -> usize {
        let has_journal = self.durability.journal().is_some();
        let home = incoming.home.filter(|home| has_journal || home.is_logged_apart);
        home.map_or(0, |home| home.settle(incoming.message.body.bytes()))
    }

    /// Stores the large bodies of messages that are about to be kept and have no home elsewhere. Returns how
    /// many bytes that added.
    fn store_own<'m, 'a: 'm>(
        &mut self,
        queue: &QueueContext,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)> + Clone,
    ) -> usize {
        if !self.stores_bodies(queue, placed.clone()) {
            return 0;
        }
        let all = &queue.storage().bodies;
        let mut added_bytes = 0;
        for (at, Incoming { message, home, .. }) in placed {
            if home.is_none() && all.is_stored(message.body.len()) {
                let coming = &mut self.unnamed.get_or_insert_default().coming;
                // A message that is kept late comes before others whose bodies are already stored.
                let place = coming.partition_point(|(position, _)| *position < at);
                debug_assert!(
                    coming.get(place).is_none_or(|it| it.0 != at),
                    "a body is stored once"
                );
                coming.insert(place, (at, queue.bodies.store(message.body.bytes())));
                added_bytes += message.body.len();
            }
        }
        added_bytes
    }

    /// The bodies that were stored for messages on their way in.
    fn coming(&self) -> impl Iterator<Item = &(u64, StoredBody)> {
        self.unnamed.iter().flat_map(|unnamed| &unnamed.coming)
    }

    /// Takes the reference of a message's body that was stored on its way in.
    fn take_coming(&mut self, at: u64) -> Option<BlobId> {
        let coming = &mut self.unnamed.as_mut()?.coming;
        coming.pop_front_if(|(position, _)| *position == at).map(|(_, stored)| stored.blob)
    }

    /// Forgets messages that are gone: those of long ranges together.
    pub fn forget(&mut self, queue: &QueueContext, gone: impl IntoIterator<Item = PositionRange>) {
        let mut together = Vec::new();
        for range in gone {
            if range.len() > ONE_BY_ONE_MAX {
                together.push(range);
                continue;
            }
            for at in range.start..range.end {
                self.release(queue.pool(), at);
            }
        }
        if !together.is_empty() {
            self.drop_ranges(queue, &together);
        }
    }

    /// Forgets messages that are gone together.
    pub fn drop_ranges(&mut self, queue: &QueueContext, gone: &[PositionRange]) {
        let ranges = gone.iter().map(|range| range.start..range.end);
        let dropped = self.backlog.purge(queue.pool(), ranges);
        if dropped.any_logged && self.durability.is_log_told() {
            records::append_purged(queue.wal(), queue.id().0, gone);
        }
        if let Some(journal) = self.durability.journal() {
            for range in gone {
                journal.v1.ack(range.start..range.end);
            }
        }
        self.free(queue, dropped);
    }

    /// Keeps a persistent message that was expected to pass through and did not.
    pub fn keep_late(
        &mut self,
        queue: &QueueContext,
        at: u64,
        incoming: &Incoming<'_>,
    ) -> Option<KeptTogether> {
        if !(self.durability.is_kept() && incoming.message.persistent) {
            return None;
        }
        let placed = std::iter::once((at, incoming));
        let stored_bytes = self.store_shared(incoming) + self.store_own(queue, placed.clone());
        Some(self.keep(queue, stored_bytes, placed))
    }

    /// Keeps `placed` messages, each with its position; of their bodies `stored_bytes` were stored for it.
    fn keep<'m, 'a: 'm>(
        &self,
        queue: &QueueContext,
        stored_bytes: usize,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)> + Clone,
    ) -> KeptTogether {
        let is_logged = self.durability.is_logged();
        let appended = is_logged.then(|| self.append(queue, stored_bytes, placed.clone(), None));
        let mut note = None;
        if let Some(journal) = self.durability.journal() {
            let mut added_bytes = stored_bytes;
            self.each_named(placed, BodyHome::named, |position, message, stored| {
                let (message, stored) = (*message, stored.copied());
                let queued = Queued { position, message, stored, is_delivered: false };
                note = Some(journal.v1.publish(&queued, std::mem::take(&mut added_bytes)));
            });
        }
        KeptTogether {
            upto: appended.map(|appended| appended.upto),
            note,
            kept: LoggedAt { segment: appended.map(|appended| appended.at.segment) },
            only_confirmed: false,
        }
    }

    /// Appends messages to the log, and perhaps commands.
    fn append<'m, 'a: 'm>(
        &self,
        queue: &QueueContext,
        stored_bytes: usize,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)>,
        commands: Option<&[u8]>,
    ) -> Appended {
        queue.wal().append(|batch| {
            let mut n_logged = 0;
            self.each_named(placed, BodyHome::logged, |position, message, stored| {
                records::put_message(batch, queue.id().0, position, message, stored);
                n_logged += 1;
            });
            if let Some(commands) = commands {
                records::put_commands(batch, queue.id().0, commands);
            }
            batch.retain(Owner(queue.id().0), n_logged);
            batch.count_beside(stored_bytes);
        })
    }

    /// Calls `each` with each message as it is to be kept, its position, and where its body is if stored:
    /// `of_home` says it of those that other queues have too. Nothing is copied just after it was written,
    /// since that waits for the log's bytes to reach the cache.
    #[inline]
    fn each_named<'m, 'a: 'm>(
        &self,
        placed: impl Iterator<Item = (u64, &'m Incoming<'a>)>,
        of_home: for<'h> fn(&'h BodyHome, &MessageRef<'h>) -> (MessageRef<'h>, Option<StoredBody>),
        mut each: impl FnMut(u64, &MessageRef<'_>, Option<&StoredBody>),
    ) {
        let mut coming = self.coming().peekable();
        for (position, incoming) in placed {
            let stored = coming.next_if(|(at, _)| *at == position).map(|(_, stored)| stored);
            match incoming.home {
                None => each(position, &incoming.message, stored),
                Some(home) => {
                    let (message, stored) = of_home(home, &incoming.message);
                    each(position, &message, stored.as_ref());
                }
            }
        }
    }

    /// Stores a message whose body other queues have too.
    #[cold]
    fn push_shared(
        &mut self,
        queue: &QueueContext,
        at: u64,
        segment: Option<SegmentId>,
        message: &MessageRef<'_>,
        home: &Arc<BodyHome>,
    ) {
        let pool = queue.pool();
        let is_logged = segment.is_some() && home.is_logged_apart;
        let is_named = is_logged || self.durability.journal().is_some();
        let blob = if is_named { home.retain() } else { None };
        let home: Arc<dyn SharedBody> = home.clone();
        self.backlog.push_shared(pool, at, message, segment, SharedBodyName { home, blob });
    }

    /// Forgets a stored message.
    pub fn release(&mut self, pool: &PagePool, at: u64) {
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

    /// Notes that a message which was kept and not stored is gone.
    pub fn note_gone(&mut self, at: u64, kept: Option<LoggedAt>) {
        debug_assert!(matches!(self.backlog.get(at), Lookup::Gone), "what is gone is not stored");
        let Some(kept) = kept else { return };
        self.settled.push(at);
        if let Some(segment) = kept.segment {
            self.freed.add(segment);
        }
        if let Some(body) = self.take_coming(at) {
            self.unnamed.get_or_insert_default().bodies.push(body);
        }
    }

    /// Tells the log or the journal what is gone. Nobody waits for this to be durable: a crash in between
    /// makes the messages come back, marked redelivered.
    pub fn log_settled(&mut self, queue: &QueueContext) {
        if !self.settled.is_empty() {
            let Self { settled, scratch, durability, .. } = self;
            if durability.is_log_told() {
                records::append_settled(queue.wal(), queue.id().0, settled, scratch);
            }
            if let Some(journal) = durability.journal() {
                journal.ack(settled.iter().copied());
            }
            settled.clear();
            self.freed.release(queue.wal());
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
    pub fn free(&self, queue: &QueueContext, mut dropped: Dropped) {
        dropped.segments.release(queue.wal());
        queue.bodies.release(dropped.bodies);
        for freed in dropped.pages {
            queue.services.free_page(freed, &queue.bodies);
        }
    }

    /// Notes in the log that messages are in a page's image, in place of where they were.
    pub fn note_page(&mut self, queue: &QueueContext, page: PageKey, written: &Written) {
        let storage = queue.storage();
        if let Some(note) = &written.note {
            let appended = records::append_paged(&storage.wal, queue.id().0, note);
            self.backlog.log_places().paged_in_log(page, appended.at.segment);
        }
        written.segments.clone().release(&storage.wal);
        if let Some(replaced) = &written.replaced {
            queue.services.free_page(replaced.clone(), &queue.bodies);
        }
    }

    /// Tells the thread of version 1 that something may have been noted in the journal.
    pub fn settle_journal(&mut self, queue: &QueueContext) {
        let Some(journal) = self.durability.journal() else { return };
        queue.services.journals.noted(journal);
        self.durability.note_log_durable(queue.wal());
    }
}
