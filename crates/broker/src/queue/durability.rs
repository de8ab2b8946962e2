//! The queue's side of the older form: where its messages are kept beyond a restart.

use super::state::{Incoming, QueueState, restored_ms};
use super::{Queue, Wakes};
use crate::confirm::DurabilityToken;
use crate::journal::Journal;
use crate::log_records;
use crate::message_store::BodyHome;
use bytes::Bytes;
use log::{Lsn, SegmentId};
use message::{Body, MessageRef};
use meta::QueueVersion;
use queue::{PositionRange, PositionSet};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use store::Queued;
use store::backlog::{
    LiveMessage, LoadedPage, Part, PersistentPositions, SharedBody, StoredPage, ToLog,
};
use store::blob::BlobId;

/// Where the messages of a queue are kept that survive a restart. For a queue that does not survive
/// one itself, nowhere.
#[derive(Debug)]
pub(super) struct Durability {
    /// In the node's log.
    pub(super) is_logged: bool,
    /// In the queue's own journal.
    pub(super) journal: Option<Arc<Journal>>,
    /// What confirms wait for.
    counts: Authority,
    /// What is kept in the journal counts only if the log is durable up to here.
    journal_counts_from: Option<Lsn>,
    /// The journal is still being read, or page images the core has to know of.
    is_loading: bool,
    /// Who waits for that.
    waiting: Vec<Waker>,
}

/// Which form counts, while both are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authority {
    Log,
    Journal,
    /// What is confirmed is in both.
    Both,
}

/// How a message on its way in is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedAt {
    /// The log segment it lies in.
    pub(super) segment: Option<SegmentId>,
}

/// Messages that were kept together.
#[derive(Clone, Copy)]
pub(super) struct KeptTogether {
    /// Durable when the log is so up to here ...
    pub(super) upto: Option<Lsn>,
    /// ... and the journal up to here.
    pub(super) note: Option<u64>,
    pub(super) kept: LoggedAt,
    pub(super) only_confirmed: bool,
}

impl KeptTogether {
    /// Whether `incoming` was one of them.
    pub(super) const fn takes(&self, incoming: &Incoming<'_>) -> bool {
        incoming.message.persistent && (incoming.confirm || !self.only_confirmed)
    }
}

/// What a queue in the older form had in its files.
pub(crate) struct OlderContent {
    pub(crate) journal: Arc<Journal>,
    pub(crate) next_position: u64,
    /// Positions below may have been delivered.
    pub(crate) seen_below: u64,
    /// The log says that the queue has this form when it is durable up to here.
    pub(crate) log_upto: Lsn,
}

impl Durability {
    pub(super) const fn new(is_logged: bool) -> Self {
        Self {
            is_logged,
            journal: None,
            counts: Authority::Log,
            journal_counts_from: None,
            is_loading: false,
            waiting: Vec::new(),
        }
    }

    /// In a journal that is yet to be read.
    pub(super) fn loading() -> Self {
        let mut loading = Self::new(false);
        loading.is_loading = true;
        loading.counts = Authority::Journal;
        loading
    }

    pub(super) const fn is_loading(&self) -> bool {
        self.is_loading
    }

    pub(super) const fn start_loading(&mut self) {
        self.is_loading = true;
    }

    /// Whether anything is kept.
    pub(super) const fn is_kept(&self) -> bool {
        self.is_logged || self.journal.is_some()
    }

    /// What must be durable for messages that were kept just now.
    pub(super) fn awaited(&self, log: Option<Lsn>, note: Option<u64>) -> DurabilityToken {
        let mut awaited = match self.counts {
            Authority::Log => return DurabilityToken::by_log(log),
            Authority::Both => DurabilityToken::by_log(log),
            Authority::Journal => DurabilityToken::default(),
        };
        if let (Some(journal), Some(note)) = (&self.journal, note) {
            awaited.log = awaited.log.max(self.journal_counts_from);
            awaited.add_journal(Arc::clone(journal), note);
        }
        awaited
    }

    /// Consumers were given messages that they have to settle.
    pub(super) fn note_delivered(&self, positions: impl Iterator<Item = u64>) {
        if let Some(journal) = &self.journal {
            journal.deliver(positions);
        }
    }
}

impl Queue {
    /// Whether it is still being read after a start: its clients wait for [`Queue::loaded`].
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Acquire)
    }

    /// Resolves when the queue has its messages.
    pub(crate) async fn loaded(&self) {
        if !self.is_loading() {
            return;
        }
        poll_fn(|context| {
            let mut local = stdx::lock(&self.local);
            if local.is_deleted() || !local.keeping.is_loading {
                return Poll::Ready(());
            }
            stdx::add_waker(&mut local.keeping.waiting, context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Puts a message back in that was read from the queue's files. Positions rise from call to
    /// call.
    pub(crate) fn load_older(&self, position: u64, message: &MessageRef<'_>) {
        let mut local = stdx::lock(&self.local);
        if !local.is_deleted() {
            let stored = local.stored(position, message, message.body.len() as u64);
            local.fifo.restore(&stored, restored_ms(self, &stored));
            local.backlog.push(&self.storage.pool, position, message, None, None);
        }
    }

    /// Everything was read: the queue can be used.
    pub(crate) fn older_loaded(&self, content: OlderContent) {
        self.with(|local, wakes| {
            if local.is_deleted() {
                return;
            }
            let OlderContent { journal, next_position, seen_below, log_upto } = content;
            local.fifo.restored(next_position, seen_below, &PositionSet::new());
            local.keeping.journal = Some(journal);
            local.keeping.journal_counts_from = Some(log_upto);
            self.end_loading(local, wakes);
        });
    }

    pub(super) fn end_loading(&self, local: &mut QueueState, wakes: &mut Wakes) {
        if !std::mem::take(&mut local.keeping.is_loading) {
            return;
        }
        self.is_loading.store(false, Ordering::Release);
        wakes.extend(local.keeping.waiting.drain(..));
        self.storage.rules.note_loaded();
    }

    /// Its journal, if it has one.
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        stdx::lock(&self.local).keeping.journal.clone()
    }
}

/// What was read of a page that is published in a journal.
#[derive(Default)]
pub(crate) struct ReadForPage {
    /// Its image.
    pub(crate) image: Option<(BlobId, Vec<u8>)>,
    /// Bodies that are in the body store; none for those that cannot be read.
    pub(crate) bodies: BTreeMap<BlobId, Option<Bytes>>,
}

/// A page on its way into a journal.
struct PageCopy<'a> {
    journal: &'a Journal,
    positions: &'a Range<u64>,
    read: &'a ReadForPage,
}

impl PageCopy<'_> {
    /// All messages, or none if bodies are missing.
    fn pour<'m, M: Iterator<Item = Queued<'m>>>(
        &self,
        messages: impl Fn() -> M,
        end: u64,
    ) -> CopyOutcome {
        let is_wanted = |queued: &Queued<'_>| {
            queued.message.persistent && self.positions.contains(&queued.position)
        };
        let wanted = || messages().filter(is_wanted);
        let stored = wanted().filter_map(|queued| queued.stored).map(|stored| stored.blob);
        let is_missing = |blob: &BlobId| !self.read.bodies.contains_key(blob);
        let missing: Vec<BlobId> = stored.filter(is_missing).collect();
        if !missing.is_empty() {
            return CopyOutcome::ReadBodies(missing);
        }
        for Queued { position, message, stored, .. } in wanted() {
            match stored.map(|stored| self.read.bodies.get(&stored.blob).cloned().flatten()) {
                None => drop_note(self.journal.publish(position, &message)),
                Some(Some(mut body)) => {
                    let n_bytes = stored.map_or(0, |stored| stored.properties_bytes as usize);
                    let properties = body.split_to(n_bytes.min(body.len()));
                    let mut message = MessageRef { body: Body::Shared(&body), ..message };
                    if n_bytes > 0 {
                        message.properties = &properties;
                    }
                    drop_note(self.journal.publish(position, &message));
                }
                // Nobody could be given it.
                Some(None) => {}
            }
        }
        if end >= self.positions.end { CopyOutcome::All } else { CopyOutcome::Upto(end) }
    }
}

/// Nobody waits for this note.
const fn drop_note(_: u64) {}

/// What comes of publishing a page in a journal.
pub(crate) enum CopyOutcome {
    /// It is done; the next one begins here.
    Upto(u64),
    /// There was none.
    All,
    /// Its image is to be read first; the next page begins at `next`.
    Read { blob: BlobId, is_durable: bool, next: u64 },
    /// These bodies are to be read first.
    ReadBodies(Vec<BlobId>),
    /// The image that was read makes no sense.
    Damaged { next: u64 },
}

/// What comes of having a page logged.
pub(crate) enum LogPageOutcome {
    /// It is done; the next one begins here.
    Upto(u64),
    /// There was none.
    All,
    /// It is on disk: its image is to be copied, then [`Queue::log_image`].
    Stored(StoredPage),
    /// It is being read.
    Busy,
}

/// The queue goes into another form. `older::conversion` says in which order.
impl Queue {
    /// From now on what is in the log goes into `journal` too. Returns the position from which on
    /// all is in both; none if the queue is not there to be converted.
    pub(crate) fn write_journal_too(&self, journal: &Arc<Journal>) -> Option<u64> {
        let mut local = stdx::lock(&self.local);
        if local.is_deleted() || local.keeping.journal.is_some() {
            return None;
        }
        local.keeping.journal = Some(Arc::clone(journal));
        Some(local.fifo.next_position())
    }

    /// From now on what is in the journal goes into the log too. Returns the journal, and the
    /// position from which on all is in both.
    pub(crate) fn write_log_too(&self) -> Option<(Arc<Journal>, u64)> {
        let mut local = stdx::lock(&self.local);
        let journal = local.keeping.journal.clone()?;
        if local.is_deleted() || local.keeping.is_logged {
            return None;
        }
        // What the log knows is from before the queue had the older form, or from an attempt that
        // did not come to its end.
        log_records::append_purged(
            self.wal(),
            self.def.id.0,
            &[PositionRange { start: 0, end: u64::MAX }],
        );
        local.keeping.is_logged = true;
        Some((journal, local.fifo.next_position()))
    }

    /// Publishes the persistent messages of the first page in `positions` in a journal, with what was
    /// read for it.
    pub(crate) fn pour_page(
        &self,
        journal: &Journal,
        positions: Range<u64>,
        read: &ReadForPage,
    ) -> CopyOutcome {
        if positions.is_empty() {
            return CopyOutcome::All;
        }
        let local = stdx::lock(&self.local);
        let pouring = PageCopy { journal, positions: &positions, read };
        match local.backlog.part_from(positions.start) {
            Some(Part::Here(page)) => pouring.pour(|| page.messages(), page.end),
            Some(Part::Stored { blob, is_durable, wanted, end, .. }) => match &read.image {
                Some((of, image)) if *of == blob => {
                    match LoadedPage::read(&self.storage.pool, image, &wanted) {
                        Ok(loaded) => pouring.pour(|| loaded.messages(), end),
                        Err(_) => CopyOutcome::Damaged { next: end },
                    }
                }
                Some(_) | None => CopyOutcome::Read { blob, is_durable, next: end },
            },
            None => CopyOutcome::All,
        }
    }

    /// Has the persistent messages of the first page in `positions` logged, if it is in memory.
    pub(crate) fn log_page(&self, positions: Range<u64>) -> LogPageOutcome {
        if positions.is_empty() {
            return LogPageOutcome::All;
        }
        let mut local = stdx::lock(&self.local);
        let append = |survivor: LiveMessage<'_>| {
            let LiveMessage { position, message, stored } = survivor;
            log_records::append_message(self.wal(), self.def.id.0, position, &message, stored)
                .segment
        };
        match local.backlog.log_next(positions.start, append) {
            None => LogPageOutcome::All,
            Some(ToLog::Busy) => LogPageOutcome::Busy,
            Some(ToLog::Stored(page)) => LogPageOutcome::Stored(page),
            Some(ToLog::Done { next, freed }) => {
                if let Some(freed) = freed {
                    self.storage.free_page(freed, &self.bodies);
                }
                LogPageOutcome::Upto(next)
            }
        }
    }

    /// A page's image is durable as `durable`, and the log comes to know it. False if the page is
    /// no longer as it was.
    pub(crate) fn log_image(
        &self,
        page: &StoredPage,
        durable: BlobId,
        persistent: &PersistentPositions,
    ) -> bool {
        let mut local = stdx::lock(&self.local);
        let Some(logged) = local.backlog.image_logged(page, durable, persistent) else {
            if !page.is_durable {
                self.storage.images.durable.release(durable, 1);
            }
            return false;
        };
        if let Some(note) = &logged.note {
            let appended = log_records::append_paged(self.wal(), self.def.id.0, note);
            local.backlog.paged_in_log(page.page, appended.segment);
        }
        if let Some(segment) = logged.noted_before {
            self.wal().release(segment, 1);
        }
        if let Some(replaced) = logged.replaced {
            self.storage.free_page(replaced, &self.bodies);
        }
        true
    }

    /// From now on what is confirmed is in both forms.
    pub(crate) fn await_both(&self) {
        stdx::lock(&self.local).keeping.counts = Authority::Both;
    }

    /// From now on the other form counts: `note` says so in the log, up to where it returns, or that
    /// the queue has gone.
    pub(crate) fn change_form(&self, to: QueueVersion, note: impl FnOnce() -> Option<Lsn>) {
        let mut local = stdx::lock(&self.local);
        if local.is_deleted() {
            return;
        }
        let Some(upto) = note() else { return };
        let keeping = &mut local.keeping;
        match to {
            QueueVersion::V1 => {
                keeping.is_logged = false;
                keeping.counts = Authority::Journal;
                keeping.journal_counts_from = Some(upto);
                for (segment, n) in local.backlog.unlog() {
                    self.wal().release(segment, n);
                }
            }
            QueueVersion::V2 => {
                keeping.journal = None;
                keeping.counts = Authority::Log;
                keeping.journal_counts_from = None;
            }
        }
    }

    /// Shows how far a conversion has come, in thousandths; or that there is none.
    pub(crate) fn note_conversion(&self, conversion: Option<(QueueVersion, u64)>) {
        let shown =
            conversion.map_or(0, |(to, permille)| u64::from(to.number()) << 32 | (permille + 1));
        self.counters.conversion.store(shown, Ordering::Relaxed);
    }

    /// The form it is being converted to, and how far that has come, in thousandths.
    #[must_use]
    pub fn conversion(&self) -> Option<(QueueVersion, u64)> {
        let shown = self.counters.conversion.load(Ordering::Relaxed);
        Some((QueueVersion::of_number(shown >> 32)?, (shown & u64::from(u32::MAX)) - 1))
    }
}

impl QueueState {
    /// Keeps the messages that `each` shows, with their positions; of their bodies `stored_bytes` were
    /// stored for it.
    pub(super) fn keep(
        &self,
        queue: &Queue,
        stored_bytes: usize,
        each: impl Fn(&mut dyn FnMut(u64, &Incoming<'_>)),
    ) -> KeptTogether {
        let appended = self.keeping.is_logged.then(|| {
            queue.wal().append(|batch| {
                let mut n_logged = 0;
                each(&mut |at, incoming| {
                    let (message, stored) = match incoming.home {
                        Some(home) => home.logged(&incoming.message),
                        None => (incoming.message, None),
                    };
                    log_records::put_message(batch, queue.id().0, at, &message, stored);
                    n_logged += 1;
                });
                batch.retain(n_logged);
                batch.count_beside(stored_bytes);
            })
        });
        let mut note = None;
        if let Some(journal) = &self.keeping.journal {
            each(&mut |at, incoming| note = Some(journal.publish(at, &incoming.message)));
        }
        KeptTogether {
            upto: appended.map(|appended| appended.upto),
            note,
            kept: LoggedAt { segment: appended.map(|appended| appended.segment) },
            only_confirmed: false,
        }
    }

    /// Keeps a persistent message that was expected to pass through and did not.
    pub(super) fn keep_late(
        &self,
        queue: &Queue,
        at: u64,
        incoming: &Incoming<'_>,
    ) -> Option<KeptTogether> {
        if !(self.keeping.is_kept() && incoming.message.persistent) {
            return None;
        }
        let stored_bytes = if self.keeping.is_logged { store_body(incoming) } else { 0 };
        Some(self.keep(queue, stored_bytes, |act| act(at, incoming)))
    }

    /// Tells the journal's keeper that something may have been noted.
    pub(super) fn settle_journal(&mut self, queue: &Queue) {
        let keeping = &mut self.keeping;
        let Some(journal) = &keeping.journal else { return };
        queue.storage.older.noted(journal);
        let durable = |upto: &mut Lsn| queue.wal().durable_upto() >= *upto;
        keeping.journal_counts_from.take_if(durable);
    }

    /// The queue is gone for good: so are its files, once the log says so durably.
    pub(super) fn drop_journal(&mut self, queue: &Queue, wakes: &mut Wakes) {
        let journal = self.keeping.journal.take();
        let is_of_journal = self.keeping.counts == Authority::Journal;
        if journal.is_some() || (self.keeping.is_loading && is_of_journal) {
            let upto = queue.wal().stats().appended_upto;
            queue.storage.older.remove(queue.id().0, journal, upto);
        }
        queue.end_loading(self, wakes);
    }
}

impl QueueState {
    /// Stores a message whose body other queues have too.
    #[cold]
    pub(super) fn push_shared(
        &mut self,
        queue: &Queue,
        (at, segment): (u64, Option<SegmentId>),
        message: &MessageRef<'_>,
        home: &Arc<BodyHome>,
    ) {
        let pool = &queue.storage.pool;
        let is_named = segment.is_some() && home.is_logged_apart();
        let blob = if is_named { home.retain() } else { None };
        if blob.is_none() && self.keeping.journal.is_some() {
            // A journal embeds bodies of any size.
            self.backlog.push(pool, at, message, segment, None);
        } else {
            let home: Arc<dyn SharedBody> = home.clone();
            self.backlog.push_shared(pool, at, message, segment, (home, blob));
        }
    }
}

/// Stores the body of a message that is about to be logged if it has a home, and is not there yet.
/// Returns how many bytes that added.
pub(super) fn store_body(incoming: &Incoming<'_>) -> usize {
    let home = incoming.home.filter(|home| home.is_logged_apart());
    home.map_or(0, |home| home.settle(incoming.message.body.bytes()))
}
