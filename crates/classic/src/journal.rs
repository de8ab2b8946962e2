//! The journal of a queue of version 1, and those who wait for what was noted in it to be durable. Never the
//! queue itself, or when journals are synced.

use confirm::{DurableJournal, JournalSynced};
use message::MessageRef;
use message_store::BodyStore;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use store::backlog::{LoadedPage, PagePool};
use store::v1::V1Queue;
use store::{Queued, StoreError, StoredBody};

/// Where the queues are that have files of their own.
pub const QUEUES_DIR: &str = "queues";

/// The directory of a queue of version 1.
pub fn journals_dir_of(queue: u64) -> String {
    format!("{QUEUES_DIR}/{queue}")
}

/// Bytes read from a queue's files before others have their turn.
pub(crate) const READ_BYTES: u64 = 1 << 20;

/// The journal of a queue of version 1, and who waits for it to be durable.
#[derive(Debug)]
pub struct Journal {
    pub(crate) v1: V1Queue,
    /// Of its virtual host.
    pub(crate) bodies: Arc<BodyStore>,
    waiting: Mutex<Waiting>,
    /// The thread knows that there is something to sync.
    pub(crate) is_listed: AtomicBool,
    /// As part of what all journals have.
    pub(crate) counted_bytes: AtomicU64,
    /// Among those whose files may be open.
    pub(crate) is_open: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    by_note: Vec<(u64, Box<dyn JournalSynced>)>,
    /// Nobody needs to wait any more: the queue is gone.
    is_moot: bool,
    has_failed: bool,
}

impl Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("n", &self.by_note.len()).finish_non_exhaustive()
    }
}

impl Journal {
    pub(crate) fn new(v1: V1Queue, bodies: Arc<BodyStore>) -> Arc<Self> {
        Arc::new(Self {
            v1,
            bodies,
            waiting: Mutex::default(),
            is_listed: AtomicBool::new(false),
            counted_bytes: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
        })
    }

    /// Takes a persistent message in, for whose body `added_bytes` were added to the body store. What is
    /// returned is durable, with the body, when a [wait](Self::wait) for it ends.
    pub(crate) fn publish(
        &self,
        position: u64,
        (message, stored): (&MessageRef<'_>, Option<StoredBody>),
        added_bytes: usize,
    ) -> u64 {
        let queued = Queued { position, message: *message, stored, is_delivered: false };
        self.v1.publish(&queued, added_bytes)
    }

    /// Messages were given to consumers. Those it does not hold are passed over.
    pub(crate) fn deliver(&self, positions: impl Iterator<Item = u64>) {
        each_run(positions, |run| {
            self.v1.deliver(run);
        });
    }

    /// Messages are gone. Those it does not hold are passed over.
    pub(crate) fn ack(&self, positions: impl Iterator<Item = u64>) {
        each_run(positions, |run| {
            self.v1.ack(run);
        });
    }

    /// All messages in a range are gone.
    pub(crate) fn ack_range(&self, positions: Range<u64>) {
        self.v1.ack(positions);
    }

    /// Fills the page that begins at `first` with what it has of `positions`, for one whose image is damaged.
    /// None if it has none of them.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn page(
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

    /// Tells those whose notes are durable.
    pub(crate) fn tell_synced(&self) {
        let done: Vec<_> = {
            let mut waiting = stdx::lock(&self.waiting);
            let (synced, is_moot) = (self.v1.synced(), waiting.is_moot);
            waiting.by_note.extract_if(.., |(note, _)| is_moot || *note <= synced).collect()
        };
        done.into_iter().for_each(|(_, waiter)| wake(waiter.synced()));
    }

    /// The queue is gone for good: nobody waits any more.
    pub(crate) fn end(&self) {
        stdx::lock(&self.waiting).is_moot = true;
        self.tell_synced();
    }

    /// Nothing that is waited for will ever be durable.
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

/// Calls `act` for each run of neighbours.
fn each_run(positions: impl Iterator<Item = u64>, mut act: impl FnMut(Range<u64>)) {
    let mut run: Option<Range<u64>> = None;
    for at in positions {
        match &mut run {
            Some(run) if run.end == at => run.end += 1,
            _ => {
                if let Some(run) = run.replace(at..at + 1) {
                    act(run);
                }
            }
        }
    }
    if let Some(run) = run {
        act(run);
    }
}
