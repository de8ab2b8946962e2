//! The journal of a queue of version 1, and the waiters for its notes to be durable. Never the queue itself,
//! or when journals are synced.

use confirm::{DurableJournal, JournalSynced};
use message_store::BodyStore;
use queue_index::V1Queue;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use store::backlog::{LoadedPage, PagePool};
use store::{Queued, StoreError};

/// Directory of the queues that have files of their own.
pub const QUEUES_DIR: &str = "queues";

/// The directory of a queue of version 1.
pub fn journals_dir_of(queue: u64) -> String {
    format!("{QUEUES_DIR}/{queue}")
}

/// Bytes read from a queue's files before others have their turn.
pub const READ_BYTES: u64 = 1 << 20;

/// The journal of a queue of version 1, and the waiters for its notes to be durable.
#[derive(Debug)]
pub struct Journal {
    /// Files of the queue, with what is noted and not yet in them.
    pub v1: V1Queue,
    /// Bodies of the queue's virtual host.
    pub bodies: Arc<BodyStore>,
    waiting: Mutex<Waiting>,
    /// Whether the journal is listed for its thread as one with something to sync.
    pub is_listed: AtomicBool,
    /// Unsynced bytes of the journal that are counted in the sum of all journals.
    pub counted_bytes: AtomicU64,
    /// Whether the journal is among those whose files may be open.
    pub is_open: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    by_note: Vec<(u64, Box<dyn JournalSynced>)>,
    /// Whether nobody needs to wait any more, since the queue is gone.
    is_moot: bool,
    has_failed: bool,
}

stdx::debug_of!(|it: Waiting| n = it.by_note.len());

impl Journal {
    /// Makes the journal of a queue with these files.
    pub fn new(v1: V1Queue, bodies: Arc<BodyStore>) -> Arc<Self> {
        Arc::new(Self {
            v1,
            bodies,
            waiting: Mutex::default(),
            is_listed: AtomicBool::new(false),
            counted_bytes: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
        })
    }

    /// Notes that messages were given to consumers. Messages that are not in the journal are passed over.
    pub fn deliver(&self, positions: impl Iterator<Item = u64>) {
        each_run(positions, |run| self.v1.deliver(run));
    }

    /// Notes that messages are gone. Messages that are not in the journal are passed over.
    pub fn ack(&self, positions: impl Iterator<Item = u64>) {
        each_run(positions, |run| self.v1.ack(run));
    }

    /// Fills the page that begins at `first` with the journal's messages at `positions`, in place of a
    /// damaged image. None if the journal has none of them.
    ///
    /// # Errors
    /// The disk's.
    pub fn page(
        &self,
        pool: &PagePool,
        first: u64,
        positions: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<Option<LoadedPage>, StoreError> {
        let mut page = LoadedPage::start(pool, first);
        let mut failure = None;
        for mut left in positions {
            while !left.is_empty() {
                let mut take = |position, queued: Result<Queued<'_>, StoreError>| match queued {
                    Ok(queued) => {
                        let pushed = page.push(&queued);
                        debug_assert!(pushed.is_ok(), "positions rise");
                    }
                    Err(error) if error.is_of_disk() => failure = Some(error),
                    Err(error) => tracing::error!(position, "cannot read a message: {error}"),
                };
                left.start = self.v1.read(left.clone(), READ_BYTES, &mut take);
            }
        }
        failure.map_or_else(|| Ok(Some(page).filter(|page| !page.is_empty())), Err)
    }

    /// Tells the waiters whose notes are durable.
    pub fn tell_synced(&self) {
        let done: Vec<_> = {
            let mut waiting = stdx::lock(&self.waiting);
            let (synced, is_moot) = (self.v1.synced(), waiting.is_moot);
            waiting.by_note.extract_if(.., |(note, _)| is_moot || *note <= synced).collect()
        };
        done.into_iter().for_each(|(_, waiter)| wake(waiter.synced()));
    }

    /// Ends all waits, since the queue is gone for good.
    pub fn end(&self) {
        stdx::lock(&self.waiting).is_moot = true;
        self.tell_synced();
    }

    /// Drops all waiters: their notes will never be durable.
    pub fn fail(&self) {
        let mut waiting = stdx::lock(&self.waiting);
        waiting.has_failed = true;
        let dropped = std::mem::take(&mut waiting.by_note);
        drop(waiting);
        drop(dropped);
    }
}

impl DurableJournal for Journal {
    fn wait(&self, note: u64, waiter: Box<dyn JournalSynced>) {
        let mut waiting = stdx::lock(&self.waiting);
        if waiting.has_failed {
            return;
        }
        if !waiting.is_moot && self.v1.synced() < note {
            waiting.by_note.push((note, waiter));
            return;
        }
        drop(waiting);
        wake(waiter.synced());
    }

    fn is_durable(&self, note: u64) -> bool {
        stdx::lock(&self.waiting).is_moot || self.v1.synced() >= note
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Notes each run of neighbours.
fn each_run(positions: impl Iterator<Item = u64>, note: impl Fn(Range<u64>) -> u64) {
    let mut run: Option<Range<u64>> = None;
    for at in positions {
        match &mut run {
            Some(run) if run.end == at => run.end += 1,
            _ => {
                run.replace(at..at + 1).map(&note);
            }
        }
    }
    run.map(note);
}
