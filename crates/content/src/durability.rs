//! The place where a queue's messages are kept beyond a restart: the log, or a journal of version 1.

use crate::context::QueueContext;
use crate::journal::Journal;
use crate::journal_inbox::{Removal, Task};
use confirm::DurabilityToken;
use log::{Lsn, SegmentId, Wal};
use meta::QueueVersion;
use queue_type::Incoming;
use std::sync::Arc;

/// The place where a queue's messages are kept that survive a restart.
#[derive(Debug)]
pub struct Durability {
    kept: Kept,
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
pub struct LoggedAt {
    /// Log segment that the message lies in, if it is logged.
    pub segment: Option<SegmentId>,
}

/// Messages that were kept together.
#[derive(Clone, Copy)]
pub struct KeptTogether {
    /// End of the log that must be durable for the messages to be.
    pub upto: Option<Lsn>,
    /// Note of the journal that must be durable for the messages to be.
    pub note: Option<u64>,
    /// Place of the messages in the log.
    pub kept: LoggedAt,
    /// Whether only messages whose publishers wait for a confirm were kept.
    pub only_confirmed: bool,
}

impl KeptTogether {
    /// Whether `incoming` was one of the messages.
    pub const fn takes(&self, incoming: &Incoming<'_>) -> bool {
        incoming.message.persistent && (incoming.confirm.is_some() || !self.only_confirmed)
    }
}

impl Durability {
    /// Makes the durability of a queue that is durable in version 2, or not at all.
    pub const fn new(is_durable: bool) -> Self {
        let kept = if is_durable { Kept::Log } else { Kept::Nowhere };
        Self { kept }
    }

    /// Makes the durability of a queue whose commands are in the log.
    pub const fn by_commands() -> Self {
        Self { kept: Kept::Commands }
    }

    /// Makes the durability of a queue whose journal is yet to be read.
    pub const fn unread_journal() -> Self {
        Self { kept: Kept::UnreadJournal }
    }

    /// The queue is gone for good: so are its files, once the log says so durably.
    pub fn drop_journal(&mut self, queue: &QueueContext) {
        let journal = match std::mem::replace(&mut self.kept, Kept::Nowhere) {
            Kept::Nowhere | Kept::Log | Kept::Commands => None,
            Kept::UnreadJournal => Some(None),
            Kept::Journal(counting) | Kept::Both(counting, _) => Some(Some(counting.journal)),
        };
        if let Some(journal) = journal {
            let upto = queue.wal().stats().appended_upto;
            let removal = Removal { queue: queue.id().0, journal, upto };
            queue.services.journals.add(Task::Remove(removal));
        }
    }

    /// Whether anything is kept.
    pub const fn is_kept(&self) -> bool {
        !matches!(self.kept, Kept::Nowhere | Kept::UnreadJournal)
    }

    /// Whether messages are in the node's log.
    pub const fn is_logged(&self) -> bool {
        matches!(self.kept, Kept::Log | Kept::Commands | Kept::Both(..))
    }

    /// Whether the log is told which messages are gone.
    pub const fn is_log_told(&self) -> bool {
        matches!(self.kept, Kept::Log | Kept::Both(..))
    }

    /// The queue's own journal, if it has one.
    pub const fn journal(&self) -> Option<&Arc<Journal>> {
        match &self.kept {
            Kept::Nowhere | Kept::Log | Kept::Commands | Kept::UnreadJournal => None,
            Kept::Journal(counting) | Kept::Both(counting, _) => Some(&counting.journal),
        }
    }

    /// Messages count that are in `journal`, as the log says once it is durable up to `log_upto`.
    pub fn use_journal(&mut self, journal: Arc<Journal>, log_upto: Lsn) {
        assert!(matches!(self.kept, Kept::UnreadJournal), "a journal is read once");
        self.kept = Kept::Journal(Counting { journal, log_upto: Some(log_upto) });
    }

    /// From now on what is in the log goes into `journal` too; false if nothing is in the log alone.
    pub fn add_journal(&mut self, journal: &Arc<Journal>) -> bool {
        assert!(self.journal().is_none(), "a queue has one journal");
        let is_logged = matches!(self.kept, Kept::Log);
        if is_logged {
            let counting = Counting { journal: Arc::clone(journal), log_upto: None };
            self.kept = Kept::Both(counting, Authority::Log);
        }
        is_logged
    }

    /// From now on what is in the journal goes into the log too; `None` if nothing is in a journal alone.
    pub fn add_log(&mut self) -> Option<Arc<Journal>> {
        let Kept::Journal(Counting { journal, log_upto }) = &self.kept else { return None };
        let (journal, log_upto) = (Arc::clone(journal), *log_upto);
        let counting = Counting { journal: Arc::clone(&journal), log_upto };
        self.kept = Kept::Both(counting, Authority::Journal);
        Some(journal)
    }

    /// From now on what is confirmed is in both versions.
    pub const fn await_both(&mut self) {
        if let Kept::Both(_, authority) = &mut self.kept {
            *authority = Authority::Both;
        }
    }

    /// From now on the version of version `to` counts alone, once the log is durable up to `log_upto`.
    pub fn complete(&mut self, to: QueueVersion, log_upto: Lsn) {
        assert!(matches!(self.kept, Kept::Both(..)), "both forms are written");
        if let Kept::Both(counting, _) = std::mem::replace(&mut self.kept, Kept::Log)
            && to == QueueVersion::V1
        {
            self.kept = Kept::Journal(Counting { log_upto: Some(log_upto), ..counting });
        }
    }

    /// Nobody waits any more for the log to say that the journal counts, once it does.
    pub fn note_log_durable(&mut self, wal: &Wal) {
        if let Kept::Journal(counting) | Kept::Both(counting, _) = &mut self.kept {
            counting.log_upto.take_if(|upto| wal.durable_upto() >= *upto);
        }
    }

    /// The ends that must be durable for messages that were kept just now.
    pub fn awaited(&self, log: Option<Lsn>, note: Option<u64>) -> DurabilityToken {
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
    pub fn note_delivered(&self, positions: impl Iterator<Item = u64>) {
        if let Some(journal) = self.journal() {
            journal.deliver(positions);
        }
    }
}
