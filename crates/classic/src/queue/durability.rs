//! The queue's side of the older form: where its messages are kept beyond a restart.

use super::incoming::Incoming;
use super::{Queue, Removal, Task, Wakes};
use crate::journal::Journal;
use crate::records;
use bytes::Bytes;
use confirm::DurabilityToken;
use log::{Lsn, SegmentId, Wal};
use message::{Body, MessageRef};
use meta::QueueVersion;
use queue::PositionRange;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use store::Queued;
use store::backlog::{LiveMessage, LoadedPage, Part, PersistentPositions, StoredPage, ToLog};
use store::blob::BlobId;

/// Where the messages of a queue are kept that survive a restart. For a queue that does not survive
/// one itself, nowhere.
#[derive(Debug)]
pub(super) struct Durability {
    /// In the node's log.
    pub(super) is_logged: bool,
    /// In the queue's own journal.
    pub(super) journal: Option<Arc<Journal>>,
    /// The form that confirms wait for.
    counts: Authority,
    /// The journal counts only if the log is durable up to here.
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
    /// Confirmed messages are in both.
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
        incoming.message.persistent && (incoming.confirm.is_some() || !self.only_confirmed)
    }
}

/// The content of the files of a queue of version 1.
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

    /// From now on clients wait until the queue is read.
    pub(super) fn start_loading(&mut self, queue: &Queue) {
        self.is_loading = true;
        queue.is_loading.store(true, Ordering::Release);
    }

    /// The queue has its messages: who waited for that goes on.
    pub(super) fn end_loading(&mut self, queue: &Queue, wakes: &mut Wakes) {
        if !std::mem::take(&mut self.is_loading) {
            return;
        }
        queue.is_loading.store(false, Ordering::Release);
        wakes.extend(self.waiting.drain(..));
        queue.services.host.note_loaded();
    }

    /// The queue is gone for good: so are its files, once the log says so durably.
    pub(super) fn drop_journal(&mut self, queue: &Queue, wakes: &mut Wakes) {
        queue.files_version.forget(&queue.services.storage.wal);
        let journal = self.journal.take();
        if journal.is_some() || (self.is_loading && self.counts == Authority::Journal) {
            let upto = queue.services.storage.wal.stats().appended_upto;
            let removal = Removal { queue: queue.id().0, journal, upto };
            queue.services.journals.add(Task::Remove(removal));
        }
        self.end_loading(queue, wakes);
    }

    /// Whether anything is kept.
    pub(super) const fn is_kept(&self) -> bool {
        self.is_logged || self.journal.is_some()
    }

    /// Messages count that are in `journal`, as the log says once it is durable up to `log_upto`.
    pub(super) fn use_journal(&mut self, journal: Arc<Journal>, log_upto: Lsn) {
        self.journal = Some(journal);
        self.journal_counts_from = Some(log_upto);
    }

    /// Nobody waits any more for the log to say that the journal counts, once it does.
    pub(super) fn note_log_durable(&mut self, wal: &Wal) {
        self.journal_counts_from.take_if(|upto| wal.durable_upto() >= *upto);
    }

    /// The ends that must be durable for messages that were kept just now.
    pub(super) fn awaited(&self, log: Option<Lsn>, note: Option<u64>) -> DurabilityToken {
        let mut awaited = match self.counts {
            Authority::Log => return DurabilityToken::by_log(log),
            Authority::Both => DurabilityToken::by_log(log),
            Authority::Journal => DurabilityToken::default(),
        };
        if let (Some(journal), Some(note)) = (&self.journal, note) {
            awaited.log = awaited.log.max(self.journal_counts_from);
            awaited.add_journal(Arc::<Journal>::clone(journal), note);
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
    pub async fn loaded(&self) {
        if !self.is_loading() {
            return;
        }
        poll_fn(|context| {
            let mut local = stdx::lock(&self.local);
            if local.deleted || !local.content.durability.is_loading {
                return Poll::Ready(());
            }
            stdx::add_waker(&mut local.content.durability.waiting, context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// The image and bodies of a page that is published in a journal.
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

/// The outcome of publishing a page in a journal.
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

/// The outcome of having a page logged.
pub(crate) enum LogPageOutcome {
    /// It is done; the next one begins here.
    Upto(u64),
    /// There was none.
    All,
    /// It is on disk: its image is to be copied, then [`VersionChange::log_image`].
    Stored(StoredPage),
    /// It is being read.
    Busy,
}

/// The queue goes into another form. `v1::conversion` says in which order.
/// A queue on its way into the other version. `v1::conversion` says in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionChange<'q>(pub(crate) &'q Queue);

impl VersionChange<'_> {
    /// From now on what is in the log goes into `journal` too. Returns the position from which on
    /// all is in both; none if the queue is not there to be converted.
    pub(crate) fn write_journal_too(&self, journal: &Arc<Journal>) -> Option<u64> {
        let mut local = stdx::lock(&self.0.local);
        if local.deleted || local.content.durability.journal.is_some() {
            return None;
        }
        local.content.durability.journal = Some(Arc::clone(journal));
        Some(local.fifo.messages().next_position())
    }

    /// From now on what is in the journal goes into the log too. Returns the journal, and the
    /// position from which on all is in both.
    pub(crate) fn write_log_too(&self) -> Option<(Arc<Journal>, u64)> {
        let mut local = stdx::lock(&self.0.local);
        let journal = local.content.durability.journal.clone()?;
        if local.deleted || local.content.durability.is_logged {
            return None;
        }
        // What the log knows is from before the queue had the older form, or from an attempt that
        // did not come to its end.
        records::append_purged(
            &self.0.services.storage.wal,
            self.0.def.id.0,
            &[PositionRange { start: 0, end: u64::MAX }],
        );
        local.content.durability.is_logged = true;
        Some((journal, local.fifo.messages().next_position()))
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
        let local = stdx::lock(&self.0.local);
        let pouring = PageCopy { journal, positions: &positions, read };
        match local.content.backlog.pages().part_from(positions.start) {
            Some(Part::Here(page)) => pouring.pour(|| page.messages(), page.end),
            Some(Part::Stored { blob, is_durable, wanted, end, .. }) => match &read.image {
                Some((of, image)) if *of == blob => {
                    match LoadedPage::read(&self.0.services.storage.pool, image, &wanted) {
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
        let mut local = stdx::lock(&self.0.local);
        let append = |survivor: LiveMessage<'_>| {
            let LiveMessage { position, message, stored } = survivor;
            records::append_message(
                &self.0.services.storage.wal,
                self.0.def.id.0,
                position,
                &message,
                stored,
            )
            .at
            .segment
        };
        match local.content.backlog.log_places().log_next(positions.start, append) {
            None => LogPageOutcome::All,
            Some(ToLog::Busy) => LogPageOutcome::Busy,
            Some(ToLog::Stored(page)) => LogPageOutcome::Stored(page),
            Some(ToLog::Done { next, freed }) => {
                if let Some(freed) = freed {
                    self.0.services.free_page(freed, &self.0.bodies);
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
        let mut local = stdx::lock(&self.0.local);
        let Some(logged) =
            local.content.backlog.log_places().image_logged(page, durable, persistent)
        else {
            if !page.is_durable {
                self.0.services.storage.images.durable.release(durable, 1);
            }
            return false;
        };
        if let Some(note) = &logged.note {
            let appended =
                records::append_paged(&self.0.services.storage.wal, self.0.def.id.0, note);
            local.content.backlog.log_places().paged_in_log(page.page, appended.at.segment);
        }
        if let Some(segment) = logged.noted_before {
            self.0.services.storage.wal.release(segment, 1);
        }
        if let Some(replaced) = logged.replaced {
            self.0.services.free_page(replaced, &self.0.bodies);
        }
        true
    }

    /// From now on what is confirmed is in both forms.
    pub(crate) fn await_both(&self) {
        stdx::lock(&self.0.local).content.durability.counts = Authority::Both;
    }

    /// From now on the other form counts: one log entry says so.
    pub(crate) fn complete(&self, to: QueueVersion) {
        let mut local = stdx::lock(&self.0.local);
        if local.deleted {
            return;
        }
        let upto = self.0.files_version.log(&self.0.services.storage.wal, to);
        let keeping = &mut local.content.durability;
        match to {
            QueueVersion::V1 => {
                keeping.is_logged = false;
                keeping.counts = Authority::Journal;
                keeping.journal_counts_from = Some(upto);
                for (segment, n) in local.content.backlog.log_places().unlog() {
                    self.0.services.storage.wal.release(segment, n);
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
    pub(crate) fn show_progress(&self, conversion: Option<(QueueVersion, u64)>) {
        let shown =
            conversion.map_or(0, |(to, permille)| u64::from(to.number()) << 32 | (permille + 1));
        self.0.counters.conversion.store(shown, Ordering::Relaxed);
    }
}
