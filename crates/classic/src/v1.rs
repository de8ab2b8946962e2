//! Queues in the older form: each keeps what survives a restart in a journal and segments of its
//! own (see `store::v1`) instead of the node's log.
//!
//! ```text
//! queue, under its lock --(note)--> Journal, in memory --(noted)--> [dirty]
//!                                                                      |
//!       confirms of those that wait <-- synced <-- sync when idle, after 200 ms, or when much waits
//! ```
//! One thread does what touches files: it syncs and flushes journals, loads queues after a start (and reads
//! what others left for later), and removes what is not needed. What fails here ends the log: see
//! [`ClassicV1::failure`].

mod conversion;
mod load;
mod page_scan;
mod worker;

pub use page_scan::Reading;
pub use worker::ClassicV1Stepper;
pub(crate) use worker::start;

use crate::journal::Journal;
use crate::queue::Queue;
use crate::queue::QueueVersions;
use background::Poison;
use background::{Capacity, CapacityWaiters};
use log::Lsn;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::thread::JoinHandle;

/// Publishers wait while journals have so much that is not durable.
const UNSYNCED_BYTES_MAX: u64 = 16 << 20;

/// So many journals may have their files open, for queues may be many more than a process may have
/// files.
const OPEN_JOURNALS_MAX: usize = 256;

/// Where the queues are that have files of their own.
pub const QUEUES_DIR: &str = "queues";

/// The directory of a queue in the older form.
pub fn journals_dir_of(queue: u64) -> String {
    format!("{QUEUES_DIR}/{queue}")
}

/// The worker that the queues of version 1 share. Dropping it ends its thread.
#[derive(Debug)]
pub struct ClassicV1 {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do.
    wanted: Condvar,
    waiters: CapacityWaiters,
    unsynced_bytes: AtomicU64,
    /// Journals whose files may be open, the one that was written first in front.
    open: Mutex<VecDeque<Weak<Journal>>>,
    failure: Poison,
    versions: OnceLock<Weak<dyn QueueVersions>>,
}

#[derive(Debug, Default)]
struct State {
    dirty: Vec<Arc<Journal>>,
    tasks: VecDeque<Task>,
    /// A journal has too much to wait for its turn.
    is_urgent: bool,
    has_ended: bool,
}

/// Something that touches files.
#[derive(Debug)]
enum Task {
    /// Removes the files of queues that are not among these.
    Sweep(HashSet<u64>),
    /// Loads a queue after a start, or begins one. What consumers were not given before a clean
    /// stop begins at the cursor.
    Load { queue: Arc<Queue>, cursor: Option<u64> },
    /// Reads pages after a start, whichever form their queue has.
    Read(Reading),
    /// Looks for queues that should have another form, and converts them.
    Review,
    /// Removes the files of a queue that is gone for good when the log is durable up to here.
    Remove { queue: u64, journal: Option<Arc<Journal>>, upto: Lsn },
}

impl ClassicV1 {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default(), thread: Mutex::default() }
    }

    /// Who says which version queues should have. Told once.
    pub fn belong_to(&self, versions: Weak<dyn QueueVersions>) {
        if self.shared.versions.set(versions).is_err() {
            tracing::error!("the queues of version 1 are told twice whose they are");
        }
        self.review();
    }

    /// Looks for queues that should have another form than they have.
    pub fn review(&self) {
        self.add(Task::Review);
    }

    /// A queue has noted something, or may have.
    pub(crate) fn noted(&self, journal: &Arc<Journal>) {
        let shared = &*self.shared;
        shared.count(journal);
        if !journal.v1.is_dirty() {
            return;
        }
        let is_new = !journal.is_listed.swap(true, Ordering::AcqRel);
        let is_urgent = !journal.v1.has_room() || journal.v1.wants_flush();
        if is_new || is_urgent {
            let mut state = stdx::lock(&shared.state);
            if is_new {
                state.dirty.push(Arc::clone(journal));
            }
            state.is_urgent |= is_urgent;
            drop(state);
            shared.wanted.notify_one();
        }
    }

    /// Loads queues that were in the older form before the start, and removes what others have left
    /// behind.
    pub fn load_all(&self, queues: Vec<(Arc<Queue>, Option<u64>)>, to_read: Vec<Reading>) {
        let ids = queues.iter().map(|(queue, _)| queue.id().0).collect();
        let mut state = stdx::lock(&self.shared.state);
        state.tasks.extend(to_read.into_iter().map(Task::Read));
        state.tasks.push_back(Task::Sweep(ids));
        let loads = queues.into_iter().map(|(queue, cursor)| Task::Load { queue, cursor });
        state.tasks.extend(loads);
        drop(state);
        self.shared.wanted.notify_one();
    }

    /// Begins the files of a new queue.
    pub fn begin(&self, queue: Arc<Queue>) {
        self.add(Task::Load { queue, cursor: None });
    }

    /// Removes the files of a queue when the log is durable up to `upto`.
    pub(crate) fn remove(&self, queue: u64, journal: Option<Arc<Journal>>, upto: Lsn) {
        self.add(Task::Remove { queue, journal, upto });
    }

    fn add(&self, task: Task) {
        let mut state = stdx::lock(&self.shared.state);
        if !state.has_ended {
            state.tasks.push_back(task);
        }
        drop(state);
        self.shared.wanted.notify_one();
    }

    /// A journal that could not be written.
    pub(crate) fn failure(&self) -> Poison {
        self.shared.failure.clone()
    }

    /// Makes everything durable that was noted, does nothing any more, and lets nobody wait.
    pub fn end(&self) {
        self.shared.end();
        let thread = stdx::lock(&self.thread).take();
        thread.into_iter().for_each(background::join);
    }
}

impl Capacity for ClassicV1 {
    fn has_capacity(&self) -> bool {
        self.shared.has_capacity()
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.shared.waiters.poll(waker, || self.has_capacity())
    }
}

impl Drop for ClassicV1 {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn has_capacity(&self) -> bool {
        self.unsynced_bytes.load(Ordering::Relaxed) < UNSYNCED_BYTES_MAX
    }

    /// Brings up to date what is counted of a journal.
    fn count(&self, journal: &Journal) {
        let bytes = journal.v1.unsynced_bytes();
        let before = journal.counted_bytes.swap(bytes, Ordering::AcqRel);
        if bytes != before {
            self.unsynced_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// A journal has written its file, and keeps it open as long as there are not too many.
    fn note_open(&self, journal: &Arc<Journal>) {
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

    fn tell_of_capacity(&self) {
        self.waiters.tell(self.has_capacity());
    }

    fn end(&self) {
        let tasks = {
            let mut state = stdx::lock(&self.state);
            state.has_ended = true;
            std::mem::take(&mut state.tasks)
        };
        self.wanted.notify_all();
        self.waiters.end();
        for task in tasks {
            if let Task::Remove { journal: Some(journal), .. } = task {
                journal.fail();
            }
        }
    }
}
