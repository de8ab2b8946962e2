//! The journals of version 1 as queues know them: they list those with something to sync, and ask for files
//! to be loaded, read or removed. The work is in `v1`.

use super::{PageScan, Queue};
use crate::journal::Journal;
use background::{Inbox, Pending, Poison};
use log::Lsn;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

/// Publishers wait while journals have so much that is not durable.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

/// So many journals may have their files open, for queues may be many more than a process may have
/// files.
pub(crate) const OPEN_JOURNALS_MAX: usize = 256;

/// The journals of a node: the inbox of the thread that touches their files, and which of these are open.
#[derive(Debug)]
pub(crate) struct JournalInbox {
    /// Its excess are bytes that are not durable.
    pub(crate) inbox: Inbox<JournalWork>,
    /// Journals whose files may be open, the one that was written first in front.
    open: Mutex<VecDeque<Weak<Journal>>>,
}

/// The work of the thread of version 1.
#[derive(Debug, Default)]
pub(crate) struct JournalWork {
    pub(crate) dirty: Vec<Arc<Journal>>,
    pub(crate) tasks: VecDeque<Task>,
    /// A journal has too much to wait for its turn.
    pub(crate) is_urgent: bool,
    /// The thread sleeps until there is a journal to sync; otherwise it looks again by itself.
    pub(crate) heeds_dirty: bool,
    /// The thread waits for tasks; otherwise it is at one.
    pub(crate) heeds_tasks: bool,
}

impl Pending for JournalWork {}

/// Something that touches files.
#[derive(Debug)]
pub(crate) enum Task {
    /// Removes the files of queues that are not among these.
    Sweep(HashSet<u64>),
    /// Loads a queue after a start, or begins one. What consumers were not given before a clean
    /// stop begins at the cursor.
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
    /// Who waits for the journal of a queue that is gone keeps it.
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.fail();
        }
    }
}

impl JournalInbox {
    /// Without any work. A journal that cannot be written is a `failure`.
    pub(crate) fn new(failure: &Poison) -> Arc<Self> {
        let inbox = Inbox::new(UNSYNCED_BYTES_MAX, failure);
        Arc::new(Self { inbox, open: Mutex::default() })
    }

    /// A queue has noted something, or may have.
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

    /// Brings up to date what is counted of a journal.
    pub(crate) fn count(&self, journal: &Journal) {
        let bytes = journal.v1.unsynced_bytes();
        let before = journal.counted_bytes.swap(bytes, Ordering::AcqRel);
        if bytes > before {
            self.inbox.add_excess(bytes - before);
        } else if bytes < before {
            self.inbox.remove_excess(before - bytes);
        }
    }

    /// A journal has written its file, and keeps it open as long as there are not too many.
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
