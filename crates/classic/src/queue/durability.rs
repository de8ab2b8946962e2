//! The place where a queue's messages are kept beyond a restart: the log, or a journal of version 1.

use super::{Queue, Removal, Task};
use crate::journal::Journal;
use confirm::DurabilityToken;
use log::{Lsn, SegmentId, Wal};
use meta::QueueVersion;
use queue_type::{Incoming, Wakes};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

/// The place where a queue's messages are kept that survive a restart.
#[derive(Debug)]
pub(super) struct Durability {
    kept: Kept,
    /// Whether the journal is still being read, or page images that the core has to know of.
    is_loading: bool,
    /// Wakers of tasks that wait for the end of loading.
    waiting: Vec<Waker>,
}

#[derive(Debug)]
enum Kept {
    /// The messages are kept nowhere: the queue does not survive a restart itself.
    Nowhere,
    /// The messages are in the node's log: version 2.
    Log,
    /// The messages are in the node's log, beside commands that say what becomes of them.
    Commands,
    /// The messages are in a journal that is yet to be read: version 1.
    UnreadJournal,
    /// The messages are in the queue's own journal: version 1.
    Journal(Counting),
    /// The messages are in both, while the queue goes from one version to the other.
    Both(Counting, Authority),
}

/// A journal that counts only if the log is durable up to `log_upto`.
#[derive(Debug)]
struct Counting {
    journal: Arc<Journal>,
    log_upto: Option<Lsn>,
}

/// The version that confirms wait for while both are written.
#[derive(Clone, Copy, Debug)]
enum Authority {
    Log,
    Journal,
    /// Confirmed messages are in both.
    Both,
}

/// The place in the log of a message on its way in.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedAt {
    /// Log segment that the message lies in, if it is logged.
    pub(super) segment: Option<SegmentId>,
}

/// Messages that were kept together.
#[derive(Clone, Copy)]
pub(super) struct KeptTogether {
    /// End of the log that must be durable for the messages to be.
    pub(super) upto: Option<Lsn>,
    /// Note of the journal that must be durable for the messages to be.
    pub(super) note: Option<u64>,
    pub(super) kept: LoggedAt,
    pub(super) only_confirmed: bool,
}

impl KeptTogether {
    /// Whether `incoming` was one of the messages.
    pub(super) const fn takes(&self, incoming: &Incoming<'_>) -> bool {
        incoming.message.persistent && (incoming.confirm.is_some() || !self.only_confirmed)
    }
}

/// The content of the files of a queue of version 1.
pub(crate) struct V1Content {
    pub(crate) journal: Arc<Journal>,
    pub(crate) next_position: u64,
    /// Position below which messages may have been delivered.
    pub(crate) seen_below: u64,
    /// End of the log from which on the queue has this version.
    pub(crate) log_upto: Lsn,
}

impl Durability {
    /// Makes the durability of a queue that is durable in version 2, or not at all.
    pub(super) const fn new(is_durable: bool) -> Self {
        let kept = if is_durable { Kept::Log } else { Kept::Nowhere };
        Self { kept, is_loading: false, waiting: Vec::new() }
    }

    /// Makes the durability of a queue whose commands are in the log.
    pub(super) const fn by_commands() -> Self {
        Self { kept: Kept::Commands, is_loading: false, waiting: Vec::new() }
    }

    /// Makes the durability of a queue whose journal is yet to be read.
    pub(super) const fn loading() -> Self {
        Self { kept: Kept::UnreadJournal, is_loading: true, waiting: Vec::new() }
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
        queue.services.host.queue_loaded();
    }

    /// The queue is gone for good: so are its files, once the log says so durably.
    pub(super) fn drop_journal(&mut self, queue: &Queue, wakes: &mut Wakes) {
        queue.files_version.forget(&queue.services.storage.wal);
        let journal = match std::mem::replace(&mut self.kept, Kept::Nowhere) {
            Kept::Nowhere | Kept::Log | Kept::Commands => None,
            Kept::UnreadJournal => Some(None),
            Kept::Journal(counting) | Kept::Both(counting, _) => Some(Some(counting.journal)),
        };
        if let Some(journal) = journal {
            let upto = queue.services.storage.wal.stats().appended_upto;
            let removal = Removal { queue: queue.id().0, journal, upto };
            queue.services.journals.add(Task::Remove(removal));
        }
        self.end_loading(queue, wakes);
    }

    /// Whether anything is kept.
    pub(super) const fn is_kept(&self) -> bool {
        !matches!(self.kept, Kept::Nowhere | Kept::UnreadJournal)
    }

    /// Whether messages are in the node's log.
    pub(super) const fn is_logged(&self) -> bool {
        matches!(self.kept, Kept::Log | Kept::Commands | Kept::Both(..))
    }

    /// Whether the log is told which messages are gone.
    pub(super) const fn is_log_told(&self) -> bool {
        matches!(self.kept, Kept::Log | Kept::Both(..))
    }

    /// The queue's own journal, if it has one.
    pub(super) const fn journal(&self) -> Option<&Arc<Journal>> {
        match &self.kept {
            Kept::Nowhere | Kept::Log | Kept::Commands | Kept::UnreadJournal => None,
            Kept::Journal(counting) | Kept::Both(counting, _) => Some(&counting.journal),
        }
    }

    /// Messages count that are in `journal`, as the log says once it is durable up to `log_upto`.
    pub(super) fn use_journal(&mut self, journal: Arc<Journal>, log_upto: Lsn) {
        assert!(matches!(self.kept, Kept::UnreadJournal), "a journal is read once");
        self.kept = Kept::Journal(Counting { journal, log_upto: Some(log_upto) });
    }

    /// From now on what is in the log goes into `journal` too; false if nothing is in the log alone.
    pub(super) fn add_journal(&mut self, journal: &Arc<Journal>) -> bool {
        let is_logged = matches!(self.kept, Kept::Log);
        if is_logged {
            let counting = Counting { journal: Arc::clone(journal), log_upto: None };
            self.kept = Kept::Both(counting, Authority::Log);
        }
        is_logged
    }

    /// From now on what is in the journal goes into the log too; `None` if nothing is in a journal alone.
    pub(super) fn add_log(&mut self) -> Option<Arc<Journal>> {
        let Kept::Journal(Counting { journal, log_upto }) = &self.kept else { return None };
        let (journal, log_upto) = (Arc::clone(journal), *log_upto);
        let counting = Counting { journal: Arc::clone(&journal), log_upto };
        self.kept = Kept::Both(counting, Authority::Journal);
        Some(journal)
    }

    /// From now on what is confirmed is in both versions.
    pub(super) const fn await_both(&mut self) {
        if let Kept::Both(_, authority) = &mut self.kept {
            *authority = Authority::Both;
        }
    }

    /// From now on the version of version `to` counts alone, once the log is durable up to `log_upto`.
    pub(super) fn complete(&mut self, to: QueueVersion, log_upto: Lsn) {
        assert!(matches!(self.kept, Kept::Both(..)), "both forms are written");
        if let Kept::Both(counting, _) = std::mem::replace(&mut self.kept, Kept::Log)
            && to == QueueVersion::V1
        {
            self.kept = Kept::Journal(Counting { log_upto: Some(log_upto), ..counting });
        }
    }

    /// Nobody waits any more for the log to say that the journal counts, once it does.
    pub(super) fn note_log_durable(&mut self, wal: &Wal) {
        if let Kept::Journal(counting) | Kept::Both(counting, _) = &mut self.kept {
            counting.log_upto.take_if(|upto| wal.durable_upto() >= *upto);
        }
    }

    /// The ends that must be durable for messages that were kept just now.
    pub(super) fn awaited(&self, log: Option<Lsn>, note: Option<u64>) -> DurabilityToken {
        let (counting, mut awaited) = match &self.kept {
            Kept::Nowhere
            | Kept::Log
            | Kept::Commands
            | Kept::UnreadJournal
            | Kept::Both(_, Authority::Log) => return DurabilityToken::by_log(log),
            Kept::Both(counting, Authority::Both) => (counting, DurabilityToken::by_log(log)),
            Kept::Both(counting, Authority::Journal) | Kept::Journal(counting) => {
                (counting, DurabilityToken::default())
            }
        };
        if let Some(note) = note {
            awaited.log = awaited.log.max(counting.log_upto);
            awaited.add_journal(Arc::<Journal>::clone(&counting.journal), note);
        }
        awaited
    }

    /// Consumers were given messages that they have to settle.
    pub(super) fn note_delivered(&self, positions: impl Iterator<Item = u64>) {
        if let Some(journal) = self.journal() {
            journal.deliver(positions);
        }
    }
}

impl Queue {
    /// Whether it is still being read after a start: its clients wait for [`Queue::loaded`].
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Acquire)
    }

    /// Resolves when the queue has its messages.
    pub async fn loaded(&self) {
        if !self.is_loading() {
            return;
        }
        poll_fn(|context| {
            let mut state = stdx::lock(&self.state);
            if state.deleted || !state.content.durability.is_loading {
                return Poll::Ready(());
            }
            stdx::add_waker(&mut state.content.durability.waiting, context.waker());
            Poll::Pending
        })
        .await;
    }
}
