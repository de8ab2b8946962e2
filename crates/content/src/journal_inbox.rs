//! The journals of version 1 as queues know them: queues list journals with something to sync, and ask for
//! files to be loaded, read or removed. The work is in `v1`.

use crate::journal::Journal;
use crate::storage::Storage;
use background::{Inbox, Pending};
use log::Lsn;
use segments::Poison;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use store::StoreError;

/// Bytes in journals that are not durable from which on publishers wait.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

/// Maximum number of journals that have their files open: queues may be many more than a process may have
/// files.
pub const OPEN_JOURNALS_MAX: usize = 256;

/// The journals of a node: the inbox of the thread that touches their files, and which of these are open.
#[derive(Debug)]
pub struct JournalInbox {
    /// Work for the thread. The inbox's excess are bytes that are not durable.
    pub inbox: Inbox<JournalWork>,
    /// Journals whose files may be open, the one that was written first in front.
    open: Mutex<VecDeque<Weak<Journal>>>,
}

/// The work of the thread of version 1.
#[derive(Debug, Default)]
pub struct JournalWork {
    /// Journals with something to sync.
    pub dirty: Vec<Arc<Journal>>,
    /// Tasks in the order in which they came.
    pub tasks: VecDeque<Task>,
    /// Whether a journal is too full to wait for its turn.
    pub is_urgent: bool,
    /// Whether the thread sleeps until a journal is to be synced; otherwise it looks again by itself.
    pub heeds_dirty: bool,
    /// Whether the thread waits for tasks; otherwise it is at one.
    pub heeds_tasks: bool,
}

impl Pending for JournalWork {}

/// A task that touches files.
#[derive(Debug)]
pub enum Task {
    /// Removes the files of these queues: they are gone, or have another version.
    Sweep(Vec<u64>),
    /// Fills a queue after a start, or begins an empty one.
    Fill(Box<dyn Fill>),
    /// Looks for queues that should have another version, and converts them.
    Review,
    /// Removes the files of a queue that is gone for good.
    Remove(Removal),
}

/// A queue that is being filled after a start, by the thread of version 1.
pub trait Fill: Debug + Send {
    /// Whether it is filled from the journal of version 1, which its files have or are to have.
    fn is_of_journal(&self) -> bool;

    /// Reads about `bytes_max`. True when that was the last of it.
    ///
    /// # Errors
    /// The disk's.
    fn step(&mut self, storage: &Storage, bytes_max: u64) -> Result<bool, StoreError>;
}

/// A queue that is gone, whose files may go when the log is durable up to `upto`.
#[derive(Debug)]
pub struct Removal {
    /// Id of the queue.
    pub queue: u64,
    /// Journal of the queue, if that was read.
    pub journal: Option<Arc<Journal>>,
    /// End of the log that says that the queue is gone.
    pub upto: Lsn,
}

impl Drop for Removal {
    /// Fails the journal if its files were not removed: its waiters would keep it in memory.
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.fail();
        }
    }
}

impl JournalInbox {
    /// Makes an inbox without any work. A journal that cannot be written is a `failure`.
    pub fn new(failure: &Poison) -> Arc<Self> {
        let inbox = Inbox::new(UNSYNCED_BYTES_MAX, failure);
        Arc::new(Self { inbox, open: Mutex::default() })
    }

    /// Lists the journal if a queue has noted something in it.
    pub fn noted(&self, journal: &Arc<Journal>) {
        self.count(journal);
        if !journal.v1.is_dirty() {
            return;
        }
        let is_new = !journal.is_listed.swap(true, Ordering::AcqRel);
        let is_urgent = !journal.v1.has_room() || journal.v1.wants_flush();
        if is_new || is_urgent {
            self.inbox.add_quietly(|work| {
                if is_new {
                    work.dirty.push(Arc::clone(journal));
                }
                work.is_urgent |= is_urgent;
                is_urgent || work.heeds_dirty
            });
        }
    }

    /// Has something done that touches files.
    pub fn add(&self, task: Task) {
        self.inbox.add_quietly(|work| {
            work.tasks.push_back(task);
            work.heeds_tasks
        });
    }

    /// Updates the count of a journal's unsynced bytes.
    pub fn count(&self, journal: &Journal) {
        let bytes = journal.v1.unsynced_bytes();
        let before = journal.counted_bytes.swap(bytes, Ordering::AcqRel);
        if bytes > before {
            self.inbox.add_excess(bytes - before);
        } else if bytes < before {
            self.inbox.remove_excess(before - bytes);
        }
    }

    /// Notes that a journal has its files open; closes those of another if they are too many.
    pub fn note_open(&self, journal: &Arc<Journal>) {
        if journal.is_open.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut open = stdx::lock(&self.open);
        open.push_back(Arc::downgrade(journal));
        if open.len() <= OPEN_JOURNALS_MAX {
            return;
        }
        let first = open.pop_front().and_then(|journal| journal.upgrade());
        drop(open);
        if let Some(journal) = first {
            journal.is_open.store(false, Ordering::Release);
            journal.v1.close_files();
        }
    }
}
