//! The journals of version 1 as queues know them: queues list journals with something to sync, and ask for
//! files to be loaded, read or removed. The work is in `v1`.

use super::{PageScan, Queue};
use crate::journal::Journal;
use background::{Inbox, Pending, Poison};
use log::Lsn;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

/// Bytes in journals that are not durable from which on publishers wait.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

/// Maximum number of journals that have their files open: queues may be many more than a process may have
/// files.
pub(crate) const OPEN_JOURNALS_MAX: usize = 256;

/// The journals of a node: the inbox of the thread that touches their files, and which of these are open.
#[derive(Debug)]
pub(crate) struct JournalInbox {
    /// Work for the thread. The inbox's excess are bytes that are not durable.
    pub(crate) inbox: Inbox<JournalWork>,
    /// Journals whose files may be open, the one that was written first in front.
    open: Mutex<VecDeque<Weak<Journal>>>,
}

/// The work of the thread of version 1.
#[derive(Debug, Default)]
pub(crate) struct JournalWork {
    pub(crate) dirty: Vec<Arc<Journal>>,
    pub(crate) tasks: VecDeque<Task>,
    /// Whether a journal is too full to wait for its turn.
    pub(crate) is_urgent: bool,
    /// Whether the thread sleeps until a journal is to be synced; otherwise it looks again by itself.
    pub(crate) heeds_dirty: bool,
    /// Whether the thread waits for tasks; otherwise it is at one.
    pub(crate) heeds_tasks: bool,
}

impl Pending for JournalWork {}

/// A task that touches files.
#[derive(Debug)]
pub(crate) enum Task {
    /// Removes the files of queues that are not in this set.
    Sweep(HashSet<u64>),
    /// Loads a queue after a start, or begins an empty one. Messages from the cursor on were not given to
    /// consumers before a clean stop.
    Load { queue: Arc<Queue>, cursor: Option<u64> },
    /// Reads pages after a start, whichever version their queue has.
    Read(PageScan),
    /// Looks for queues that should have another version, and converts them.
    Review,
    /// Removes the files of a queue that is gone for good.
    Remove(Removal),
}

/// A queue that is gone, whose files may go when the log is durable up to `upto`.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) queue: u64,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) upto: Lsn,
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
    pub(crate) fn new(failure: &Poison) -> Arc<Self> {
        let inbox = Inbox::new(UNSYNCED_BYTES_MAX, failure);
        Arc::new(Self { inbox, open: Mutex::default() })
    }

    /// Lists the journal if a queue has noted something in it.
    pub(super) fn noted(&self, journal: &Arc<Journal>) {
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
    pub(crate) fn add(&self, task: Task) {
        self.inbox.add_quietly(|work| {
            work.tasks.push_back(task);
            work.heeds_tasks
        });
    }

    /// Updates the count of a journal's unsynced bytes.
    pub(crate) fn count(&self, journal: &Journal) {
        let bytes = journal.v1.unsynced_bytes();
        let before = journal.counted_bytes.swap(bytes, Ordering::AcqRel);
        if bytes > before {
            self.inbox.add_excess(bytes - before);
        } else if bytes < before {
            self.inbox.remove_excess(before - bytes);
        }
    }

    /// Notes that a journal has its files open; closes those of another if they are too many.
    pub(crate) fn note_open(&self, journal: &Arc<Journal>) {
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
