//! The thread of queues in the older form, or the steps that do its work.

use super::conversion::{Converted, Group};
use super::load::Loading;
use super::page_scan::Reading;
use super::{ClassicV1, OPEN_JOURNALS_MAX, QUEUES_DIR, Shared, State, Task, journals_dir_of};
use crate::journal::{Journal, READ_BYTES};
use crate::queue::Queue;
use crate::queue::QueueVersions;
use crate::storage::Storage;
use background::Capacity as _;
use log::{IoContext, LogError, Lsn, list_if_there};
use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use store::StoreError;
use store::v1::{Unsynced, V1Queue};

/// A journal is synced at the latest when it has waited so long. RabbitMQ's time.
const SYNC_AFTER_MS: u64 = 200;
/// A journal that got nothing for so long is idle, and synced ...
const LOOK_MS_MIN: u64 = 1;
/// ... while others are looked at less often.
const LOOK_MS_MAX: u64 = 8;
/// After so many turns without a rest journals have waited as for a look.
const BUSY_TURNS: u32 = 16;
/// So many journals are cheaper to sync with everything else on the disk.
pub(super) const SYNC_ALL_FROM: usize = 16;

/// Starts the thread.
///
/// # Errors
/// The system's.
pub(crate) fn start(storage: &Arc<Storage>) -> io::Result<()> {
    let mut work = Worker::new(storage);
    let shared = Arc::clone(&work.shared);
    let failure = storage.v1.failure();
    let thread =
        background::spawn("older-form", failure, move || shared.end(), move || work.run())?;
    stdx::lock(&storage.v1.thread).replace(thread);
    Ok(())
}

/// A journal with something to sync.
struct DirtyJournal {
    journal: Arc<Journal>,
    /// Bytes it had to sync at the last look.
    seen_bytes: u64,
    waited_ms: u64,
}

/// The next thing to be done after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// More, at once.
    Go,
    /// The same, a little later.
    Look,
    /// Nothing until there is something new.
    Sleep,
}

struct Worker {
    shared: Arc<Shared>,
    storage: Weak<Storage>,
    watched: Vec<DirtyJournal>,
    loading: Option<Loading>,
    reading: Option<Reading>,
    /// Queues that may have to be converted.
    to_review: Vec<Arc<Queue>>,
    converting: Option<Group>,
    scratch: Vec<u8>,
    /// Queues that are gone, whose files may go when the log is durable up to there.
    removals: Vec<(u64, Option<Arc<Journal>>, Lsn)>,
    look_ms: u64,
    n_busy: u32,
    has_dir: bool,
}

impl Worker {
    fn new(storage: &Arc<Storage>) -> Self {
        Self {
            shared: Arc::clone(&storage.v1.shared),
            storage: Arc::downgrade(storage),
            watched: Vec::new(),
            loading: None,
            reading: None,
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
        let mut next = Next::Sleep;
        let mut waited_ms = 0;
        loop {
            let Some(is_urgent) = self.wait(next, &mut waited_ms) else { return };
            match self.turn(waited_ms, is_urgent) {
                Ok(Some(after)) => next = after,
                Ok(None) => return,
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Waits for the next turn; none when there is to be no other.
    fn wait(&mut self, next: Next, waited_ms: &mut u64) -> Option<bool> {
        let shared = Arc::clone(&self.shared);
        let is_busy = self.loading.is_some() || self.reading.is_some();
        let mut state = stdx::lock(&shared.state);
        *waited_ms = 0;
        match next {
            Next::Go => {
                self.n_busy = self.n_busy.wrapping_add(1);
                if self.n_busy.is_multiple_of(BUSY_TURNS) {
                    *waited_ms = LOOK_MS_MAX;
                }
            }
            Next::Look => {
                let time = Duration::from_millis(self.look_ms);
                let is_quiet = |state: &mut State| {
                    let has_task = !is_busy && !state.tasks.is_empty();
                    !state.has_ended && !state.is_urgent && !has_task
                };
                let woken = shared.wanted.wait_timeout_while(state, time, is_quiet);
                let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                state = woken;
                if timeout.timed_out() {
                    *waited_ms = self.look_ms;
                    self.look_ms = (self.look_ms * 2).min(LOOK_MS_MAX);
                }
            }
            Next::Sleep => {
                self.look_ms = LOOK_MS_MIN;
                while !state.has_ended && state.tasks.is_empty() && state.dirty.is_empty() {
                    state = shared.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        let is_urgent = std::mem::take(&mut state.is_urgent);
        (!state.has_ended).then_some(is_urgent)
    }

    /// A part of what is to be done. None when the node is gone.
    fn turn(&mut self, waited_ms: u64, is_urgent: bool) -> Result<Option<Next>, StoreError> {
        let Some(storage) = self.storage.upgrade() else { return Ok(None) };
        if storage.wal.poisoned().is_some() {
            // Nothing is reported durable any more, neither there nor here.
            self.end();
            return Ok(None);
        }
        let dirty = std::mem::take(&mut stdx::lock(&self.shared.state).dirty);
        let watch = |journal| DirtyJournal { journal, seen_bytes: 0, waited_ms: 0 };
        self.watched.extend(dirty.into_iter().map(watch));
        if waited_ms > 0 || is_urgent {
            self.sync_due(&storage, waited_ms)?;
        }
        let next = self.work(&storage)?;
        self.shared.tell_of_capacity();
        Ok(Some(next))
    }

    /// Syncs the journals that are idle, have waited long enough, or have too much to wait.
    fn sync_due(&mut self, storage: &Storage, waited_ms: u64) -> Result<(), StoreError> {
        let mut due = Vec::new();
        self.watched.retain_mut(|watched| {
            let is_due = watched.is_due(waited_ms);
            if is_due {
                due.push(Arc::clone(&watched.journal));
            }
            !is_due
        });
        sync(&self.shared, storage, &due)
    }

    /// A part of loading, removing and the like.
    fn work(&mut self, storage: &Arc<Storage>) -> Result<Next, StoreError> {
        self.remove_due(storage)?;
        if let Some(loading) = &mut self.loading {
            if !storage.pager.has_capacity() {
                return Ok(Next::Look);
            }
            if loading.step(storage, READ_BYTES)? {
                self.loading = None;
            }
            return Ok(Next::Go);
        }
        if let Some(reading) = &mut self.reading {
            if reading.step(storage, READ_BYTES)? {
                self.reading = None;
            }
            return Ok(Next::Go);
        }
        let task = stdx::lock(&self.shared.state).tasks.pop_front();
        match task {
            None => return self.convert(storage),
            Some(Task::Sweep(wanted)) => sweep(storage, &wanted)?,
            Some(Task::Load { queue, cursor }) => {
                self.make_dir(storage)?;
                self.loading = Loading::start(storage, queue, cursor)?;
            }
            Some(Task::Read(reading)) => self.reading = Some(reading),
            Some(Task::Review) => self.review(),
            Some(Task::Remove { queue, journal, upto }) => {
                self.removals.push((queue, journal, upto));
            }
        }
        Ok(Next::Go)
    }

    fn versions(&self) -> Option<Arc<dyn QueueVersions>> {
        self.shared.versions.get().and_then(Weak::upgrade)
    }

    /// Finds the queues that should have another form.
    fn review(&mut self) {
        let Some(versions) = self.versions() else { return };
        self.to_review = versions.queues_to_convert();
        // Taken from the end.
        self.to_review.sort_unstable_by_key(|queue| std::cmp::Reverse(queue.id()));
    }

    /// A part of converting queues.
    fn convert(&mut self, storage: &Arc<Storage>) -> Result<Next, StoreError> {
        let Some(versions) = self.versions() else { return Ok(Next::Sleep) };
        // What is in both forms already is let go of in one.
        let is_copied = self.converting.as_ref().is_some_and(Group::is_copied);
        if storage.is_short() && !is_copied {
            let has_more = !self.watched.is_empty() || !self.removals.is_empty();
            return Ok(if has_more { Next::Look } else { Next::Sleep });
        }
        let Some(group) = &mut self.converting else {
            if self.to_review.is_empty() {
                return Ok(if self.is_idle() { Next::Sleep } else { Next::Look });
            }
            self.make_dir(storage)?;
            let removals = &self.removals;
            let may_start = |id| removals.iter().all(|(removed, ..)| *removed != id);
            self.converting = Group::start(storage, &*versions, &mut self.to_review, may_start)?;
            return Ok(if self.converting.is_some() { Next::Go } else { Next::Look });
        };
        match group.step(&self.shared, storage, &mut self.scratch)? {
            Converted::Part => Ok(Next::Go),
            Converted::Wait => Ok(Next::Look),
            Converted::Done { left } => {
                let upto = storage.wal.stats().appended_upto;
                self.removals
                    .extend(left.into_iter().map(|(id, journal)| (id, Some(journal), upto)));
                self.converting = None;
                // What waits for the log has it commit.
                storage.wal.commit_soon();
                Ok(Next::Go)
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
        let due = self.removals.extract_if(.., |(.., upto)| *upto <= durable_upto);
        for (queue, journal, _) in due.collect::<Vec<_>>() {
            if let Some(journal) = &journal {
                self.watched.retain(|watched| !Arc::ptr_eq(&watched.journal, journal));
                journal.end();
                let counted = journal.counted_bytes.swap(0, Ordering::AcqRel);
                self.shared.unsynced_bytes.fetch_sub(counted, Ordering::Relaxed);
            }
            storage.journals.forget(queue)?;
            V1Queue::remove_all(storage.disk.as_ref(), &journals_dir_of(queue))?;
        }
        Ok(())
    }

    /// Nothing is reported durable from now on.
    fn fail(&self, error: &StoreError) {
        self.shared.failure.note(error);
        self.end();
        // The commit thread finds out.
        if let Some(storage) = self.storage.upgrade() {
            storage.wal.commit_soon();
        }
    }

    /// Does nothing any more; what waits for a journal waits in vain.
    fn end(&self) {
        self.shared.end();
        let dirty = std::mem::take(&mut stdx::lock(&self.shared.state).dirty);
        let watched = self.watched.iter().map(|watched| &watched.journal);
        dirty.iter().chain(watched).for_each(|journal| journal.fail());
    }
}

impl Drop for Worker {
    /// Who waits for the journal of a queue that is gone keeps it.
    fn drop(&mut self) {
        self.removals
            .iter()
            .filter_map(|(_, journal, _)| journal.as_ref())
            .for_each(|one| one.fail());
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

/// Makes everything durable that was noted in journals, and tells those who wait.
pub(super) fn sync(
    shared: &Shared,
    storage: &Storage,
    journals: &[Arc<Journal>],
) -> Result<(), StoreError> {
    // What is noted from here on lists a journal anew.
    journals.iter().for_each(|journal| journal.is_listed.store(false, Ordering::Release));
    for journals in journals.chunks(OPEN_JOURNALS_MAX) {
        make_durable(storage, journals)?;
        journals.iter().for_each(|journal| shared.note_open(journal));
    }
    for journal in journals {
        shared.count(journal);
        journal.tell_synced();
    }
    for journal in journals.iter().filter(|journal| journal.v1.wants_flush()) {
        let flushed = journal.v1.flush(journal.bodies.blobs())?;
        shared.count(journal);
        for damage in flushed.damage {
            storage.note_unreadable(&damage);
            tracing::error!("messages of a queue are lost: {damage}");
        }
        journal.tell_synced();
    }
    Ok(())
}

fn make_durable(storage: &Storage, journals: &[Arc<Journal>]) -> Result<(), StoreError> {
    if journals.len() < SYNC_ALL_FROM {
        return journals
            .iter()
            .try_for_each(|journal| journal.v1.sync(journal.bodies.blobs()).map(drop));
    }
    let write = |journal: &Arc<Journal>| journal.v1.write_unsynced(journal.bodies.blobs());
    let written: Vec<Unsynced> = journals.iter().map(write).collect::<Result<_, StoreError>>()?;
    storage.disk.sync_all().context("sync", QUEUES_DIR)?;
    for (journal, written) in journals.iter().zip(written) {
        journal.v1.confirm(written);
    }
    Ok(())
}

/// Removes what queues have left behind that are gone or in another form.
fn sweep(storage: &Storage, wanted: &HashSet<u64>) -> Result<(), StoreError> {
    let names = list_if_there(storage.disk.as_ref(), QUEUES_DIR)?.unwrap_or_default();
    let ids = names.iter().filter_map(|name| name.parse::<u64>().ok());
    let left: Vec<u64> = ids.filter(|id| !wanted.contains(id)).collect();
    for id in &left {
        V1Queue::remove_all(storage.disk.as_ref(), &journals_dir_of(*id))?;
    }
    if !left.is_empty() {
        // A queue that is declared now may get the number of one whose declaration was lost.
        storage.disk.sync_all().context("sync", QUEUES_DIR)?;
    }
    Ok(())
}

impl ClassicV1 {
    /// Makes everything durable that was noted in a journal. For the end of the node, when nobody
    /// else does it any more.
    ///
    /// # Errors
    /// The disk's, also those of the time before.
    pub fn sync_at_end(&self, storage: &Storage, journal: &Arc<Journal>) -> Result<(), LogError> {
        sync(&self.shared, storage, std::slice::from_ref(journal)).map_err(|error| match error {
            StoreError::Disk(error) => error,
            error @ (StoreError::Missing { .. } | StoreError::Poisoned { .. }) => {
                LogError::Poisoned { reason: error.to_string() }
            }
        })
    }
}

/// Does the work of the thread on demand.
pub struct ClassicV1Stepper(Worker);

impl std::fmt::Debug for ClassicV1Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClassicV1Stepper").finish_non_exhaustive()
    }
}

impl ClassicV1Stepper {
    pub(crate) fn new(storage: &Arc<Storage>) -> Self {
        Self(Worker::new(storage))
    }

    /// Whether a file or the log could not be written, or the node has stopped: nothing is done any
    /// more.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        stdx::lock(&self.0.shared.state).has_ended
    }

    /// One turn, for which the time has come for every sync. False if there is nothing more to do
    /// for now.
    pub fn step(&mut self) -> bool {
        let worker = &mut self.0;
        {
            let state = stdx::lock(&worker.shared.state);
            let is_idle = state.tasks.is_empty() && state.dirty.is_empty();
            if state.has_ended || (is_idle && worker.is_idle()) {
                return false;
            }
        }
        match worker.turn(SYNC_AFTER_MS, true) {
            Ok(next) => next == Some(Next::Go),
            Err(error) => {
                worker.fail(&error);
                true
            }
        }
    }
}

impl Worker {
    fn is_idle(&self) -> bool {
        let has_job = self.loading.is_some() || self.converting.is_some();
        self.watched.is_empty() && !has_job && self.removals.is_empty() && self.to_review.is_empty()
    }
}
