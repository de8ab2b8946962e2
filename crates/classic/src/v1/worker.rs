//! The thread of queues of version 1, or the steps that do its work.

use super::conversion::{ConversionGroup, Converted};
use super::sync::sync;
use crate::queue::{Queue, WorkerHost};
use background::NextTask;
use content::{
    Fill, Journal, JournalInbox, JournalWork, QUEUES_DIR, READ_BYTES, Removal, Services, Storage,
    Task, journals_dir_of,
};
use segments::IoContext;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::StoreError;

/// Time after which a journal is synced at the latest. RabbitMQ's value.
const SYNC_AFTER_MS: u64 = 200;
/// Shortest time between two looks at unsynced journals. A journal that got nothing in between is idle, and
/// synced.
const LOOK_MS_MIN: u64 = 1;
/// Longest time between two looks at unsynced journals: the time doubles from look to look.
const LOOK_MS_MAX: u64 = 8;
/// Turns without a pause that count as a wait of [`LOOK_MS_MAX`] for the journals.
const BUSY_TURNS: u32 = 16;
/// Starts the thread.
///
/// # Errors
/// The system's.
pub(crate) fn start(services: &Arc<Services>, node: Weak<dyn WorkerHost>) -> io::Result<()> {
    let mut worker = Worker::new(services, node);
    let journals = Arc::clone(&services.journals);
    let end = move || drop(journals.inbox.end());
    services.journals.inbox.spawn("classic-v1", end, move || worker.run())
}

/// A journal with something to sync.
struct DirtyJournal {
    journal: Arc<Journal>,
    /// Unsynced bytes of the journal at the last look.
    seen_bytes: u64,
    waited_ms: u64,
}

/// The time between a turn and the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// The next turn follows at once.
    Go,
    /// The next turn follows after `look_ms`, or earlier if a journal is urgent or a task can begin.
    Look,
    /// The next turn follows when a task is added or a journal has something to sync.
    Sleep,
}

struct Worker {
    journals: Arc<JournalInbox>,
    services: Weak<Services>,
    node: Weak<dyn WorkerHost>,
    watched: Vec<DirtyJournal>,
    filling: Option<Box<dyn Fill>>,
    /// Queues that may have to be converted.
    to_review: Vec<Arc<Queue>>,
    converting: Option<ConversionGroup>,
    scratch: Vec<u8>,
    removals: Vec<Removal>,
    look_ms: u64,
    n_busy: u32,
    has_dir: bool,
}

impl Worker {
    fn new(services: &Arc<Services>, node: Weak<dyn WorkerHost>) -> Self {
        services.journals.add(Task::Review);
        Self {
            journals: Arc::clone(&services.journals),
            services: Arc::downgrade(services),
            node,
            watched: Vec::new(),
            filling: None,
            to_review: Vec::new(),
            converting: None,
            scratch: Vec::new(),
            removals: Vec::new(),
            look_ms: LOOK_MS_MIN,
            n_busy: 0,
            has_dir: false,
        }
    }

    fn run(&mut self) {
        let mut pause = Pause::Sleep;
        while let Some((waited_ms, is_urgent)) = self.wait(pause) {
            match self.turn(waited_ms, is_urgent) {
                Ok(Some(next)) => pause = next,
                Ok(None) => return,
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Waits for the next turn; none after the last turn. Returns for how long journals have waited
    /// meanwhile, in milliseconds, and whether one of them is urgent.
    fn wait(&mut self, pause: Pause) -> Option<(u64, bool)> {
        let is_busy = self.filling.is_some();
        let mut waited_ms = 0;
        match pause {
            Pause::Go => {
                self.n_busy = self.n_busy.wrapping_add(1);
                if self.n_busy.is_multiple_of(BUSY_TURNS) {
                    waited_ms = LOOK_MS_MAX;
                }
            }
            Pause::Look => {
                let look_ms = self.look_ms;
                waited_ms = self.journals.inbox.wait(|work, is_time_over| {
                    (work.heeds_dirty, work.heeds_tasks) = (false, !is_busy);
                    let has_task = !is_busy && !work.tasks.is_empty();
                    match is_time_over {
                        true => NextTask::Do(look_ms),
                        false if work.is_urgent || has_task => NextTask::Do(0),
                        false => NextTask::WaitFor(Duration::from_millis(look_ms)),
                    }
                })?;
                if waited_ms > 0 {
                    self.look_ms = (look_ms * 2).min(LOOK_MS_MAX);
                }
            }
            Pause::Sleep => {
                self.look_ms = LOOK_MS_MIN;
                self.journals.inbox.wait(|work, _| {
                    (work.heeds_dirty, work.heeds_tasks) = (true, true);
                    let is_idle = work.tasks.is_empty() && work.dirty.is_empty();
                    if is_idle { NextTask::Wait } else { NextTask::Do(()) }
                })?;
            }
        }
        let is_urgent = self.journals.inbox.update(|work| std::mem::take(&mut work.is_urgent))?;
        Some((waited_ms, is_urgent))
    }

    /// Does a part of the work. None when the node is gone.
    fn turn(&mut self, waited_ms: u64, is_urgent: bool) -> Result<Option<Pause>, StoreError> {
        let Some(services) = self.services.upgrade() else { return Ok(None) };
        let storage = &services.storage;
        if storage.wal.poisoned().is_some() {
            // A poisoned log reports nothing durable any more, and neither do the journals.
            self.fail_journals(self.journals.inbox.end());
            return Ok(None);
        }
        let dirty = self.journals.inbox.update(|work| std::mem::take(&mut work.dirty));
        let watch = |journal| DirtyJournal { journal, seen_bytes: 0, waited_ms: 0 };
        self.watched.extend(dirty.unwrap_or_default().into_iter().map(watch));
        if waited_ms > 0 || is_urgent {
            self.sync_due(storage, waited_ms)?;
        }
        let next = self.work(&services)?;
        self.journals.inbox.tell_of_capacity();
        Ok(Some(next))
    }

    /// Syncs the journals that are idle, have waited long enough, or are too full to wait.
    fn sync_due(&mut self, storage: &Storage, waited_ms: u64) -> Result<(), StoreError> {
        let mut due = Vec::new();
        self.watched.retain_mut(|watched| {
            let is_due = watched.is_due(waited_ms);
            if is_due {
                due.push(Arc::clone(&watched.journal));
            }
            !is_due
        });
        sync(&self.journals, storage, &due)
    }

    /// Does a part of removing, loading or converting queues.
    fn work(&mut self, services: &Services) -> Result<Pause, StoreError> {
        let storage = &services.storage;
        self.remove_due(storage)?;
        let is_filled = match &mut self.filling {
            None => None,
            Some(filling) if filling.is_of_journal() && !services.pager.has_capacity() => {
                return Ok(Pause::Look);
            }
            Some(filling) => {
                let is_read = filling.step(storage, READ_BYTES)?;
                if is_read && filling.is_of_journal() {
                    services.pager.journal_read();
                }
                Some(is_read)
            }
        };
        if let Some(is_filled) = is_filled {
            self.filling.take_if(|_| is_filled);
            return Ok(Pause::Go);
        }
        let task = self.journals.inbox.update(|work| work.tasks.pop_front());
        match task.flatten() {
            None => return self.convert(services),
            Some(Task::Sweep(unwanted)) => sweep(storage, &unwanted)?,
            Some(Task::Fill(fill)) => {
                if fill.is_of_journal() {
                    self.make_dir(storage)?;
                }
                self.filling = Some(fill);
            }
            Some(Task::Review) => self.review(),
            Some(Task::Remove(removal)) => self.removals.push(removal),
        }
        Ok(Pause::Go)
    }

    /// Finds the queues that should have another version.
    fn review(&mut self) {
        let Some(node) = self.node.upgrade() else { return };
        self.to_review = node.queues_to_convert();
        // Queues are taken from the end.
        self.to_review.sort_unstable_by_key(|queue| std::cmp::Reverse(queue.id()));
    }

    /// Does a part of converting queues.
    fn convert(&mut self, services: &Services) -> Result<Pause, StoreError> {
        let storage = &services.storage;
        let Some(node) = self.node.upgrade() else { return Ok(Pause::Sleep) };
        // A group that is copied goes on even if the disk is short of space: its end frees the old version.
        let is_copied = self.converting.as_ref().is_some_and(ConversionGroup::is_copied);
        if storage.is_short() && !is_copied {
            let has_more = !self.watched.is_empty() || !self.removals.is_empty();
            return Ok(if has_more { Pause::Look } else { Pause::Sleep });
        }
        let Some(group) = &mut self.converting else {
            if self.to_review.is_empty() {
                return Ok(if self.is_idle() { Pause::Sleep } else { Pause::Look });
            }
            self.make_dir(storage)?;
            let removals = &self.removals;
            let may_start = |id| removals.iter().all(|removal| removal.queue != id);
            self.converting =
                ConversionGroup::start(storage, &*node, &mut self.to_review, may_start)?;
            return Ok(if self.converting.is_some() { Pause::Go } else { Pause::Look });
        };
        match group.step(services, &mut self.scratch)? {
            Converted::Part => Ok(Pause::Go),
            Converted::Wait => Ok(Pause::Look),
            Converted::Done { left } => {
                let upto = storage.wal.stats().appended_upto;
                let left = left.into_iter();
                self.removals.extend(left.map(|(queue, journal)| {
                    let journal = Some(journal);
                    Removal { queue, journal, upto }
                }));
                self.converting = None;
                // The removals wait for the log to be durable, so the log is asked to commit.
                storage.wal.commit_soon();
                Ok(Pause::Go)
            }
        }
    }

    /// Makes the directory of all queues, once.
    fn make_dir(&mut self, storage: &Storage) -> Result<(), StoreError> {
        if !self.has_dir {
            storage.disk.create_dir(QUEUES_DIR).context("create", QUEUES_DIR)?;
            storage.disk.sync_dir("").context("sync the directory of", QUEUES_DIR)?;
            self.has_dir = true;
        }
        Ok(())
    }

    /// Removes the files of queues whose end is durable.
    fn remove_due(&mut self, storage: &Storage) -> Result<(), StoreError> {
        let durable_upto = storage.wal.durable_upto();
        let due = self.removals.extract_if(.., |removal| removal.upto <= durable_upto);
        for mut removal in due.collect::<Vec<_>>() {
            if let Some(journal) = removal.journal.take() {
                self.watched.retain(|watched| !Arc::ptr_eq(&watched.journal, &journal));
                journal.end();
                let counted = journal.counted_bytes.swap(0, Ordering::AcqRel);
                self.journals.inbox.remove_excess(counted);
            }
            storage.forget_journal(removal.queue)?;
        }
        Ok(())
    }

    /// Fails all journals: their notes are not reported durable from now on.
    fn fail(&self, error: &StoreError) {
        self.fail_journals(self.journals.inbox.fail(error));
        // The commit thread meets the failure when it commits.
        if let Some(services) = self.services.upgrade() {
            services.storage.wal.commit_soon();
        }
    }

    /// Fails the journals that are unsynced or watched: their waiters wait in vain.
    fn fail_journals(&self, left: JournalWork) {
        let watched = self.watched.iter().map(|watched| &watched.journal);
        left.dirty.iter().chain(watched).for_each(|journal| journal.fail());
    }
}

impl DirtyJournal {
    fn is_due(&mut self, waited_ms: u64) -> bool {
        let bytes = self.journal.v1.unsynced_bytes();
        let is_idle = waited_ms > 0 && bytes == std::mem::replace(&mut self.seen_bytes, bytes);
        self.waited_ms += waited_ms;
        let is_late = self.waited_ms >= SYNC_AFTER_MS;
        is_idle || is_late || !self.journal.v1.has_room() || self.journal.v1.wants_flush()
    }
}

/// Removes the files of queues that are gone or in another version.
fn sweep(storage: &Storage, unwanted: &[u64]) -> Result<(), StoreError> {
    for id in unwanted {
        queue_index::remove_all(storage.disk.as_ref(), &journals_dir_of(*id))?;
    }
    Ok(())
}

/// Does the work of the thread on demand.
pub struct ClassicV1Stepper(Worker);

stdx::debug_of!(|_it: ClassicV1Stepper|);

impl ClassicV1Stepper {
    pub(crate) fn new(services: &Arc<Services>, node: Weak<dyn WorkerHost>) -> Self {
        Self(Worker::new(services, node))
    }

    /// Whether the work has ended: a file or the log could not be written, or the node has stopped.
    pub fn has_failed(&self) -> bool {
        self.0.journals.inbox.has_ended()
    }

    /// Runs one turn, as if every sync were due. False if no more can be done for now.
    pub fn step(&mut self) -> bool {
        let worker = &mut self.0;
        let is_empty = |work: &mut JournalWork| work.tasks.is_empty() && work.dirty.is_empty();
        match worker.journals.inbox.update(is_empty) {
            None => return false,
            Some(true) if worker.is_idle() => return false,
            Some(_) => {}
        }
        match worker.turn(SYNC_AFTER_MS, true) {
            Ok(next) => next == Some(Pause::Go),
            Err(error) => {
                worker.fail(&error);
                true
            }
        }
    }
}

impl Worker {
    fn is_idle(&self) -> bool {
        let has_job = self.filling.is_some() || self.converting.is_some();
        self.watched.is_empty() && !has_job && self.removals.is_empty() && self.to_review.is_empty()
    }
}
