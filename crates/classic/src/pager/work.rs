//! The pager's two kinds of work, and the threads or the steps that do it.

use super::{AfterSync, Shared};
use crate::queue::{Paged, Queue};
use crate::storage::Storage;
use bytes::Bytes;
use log::Lsn;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use store::StoreError;
use store::backlog::{Image, Job, LoadedPage, PageKey};
use store::blob::{BlobStore, Reclaimed};

/// Jobs of one queue before another has its turn.
const JOBS_PER_TURN: usize = 32;
/// Bytes that reclaiming copies at a time ...
const RECLAIM_STEP_BYTES: u64 = 1 << 20;
/// ... and how long it rests in between.
const RECLAIM_REST: Duration = Duration::from_millis(20);

/// An image in a store's buffer.
#[derive(Debug)]
pub(crate) struct ImageWritten {
    queue: Arc<Queue>,
    page: PageKey,
    blob: store::blob::BlobId,
    is_durable: bool,
    bytes: usize,
    /// Bodies were stored for it.
    has_stored: bool,
}

/// Buffers of the thread that runs jobs.
#[derive(Debug, Default)]
struct Scratch {
    image: Image,
    bytes: Vec<u8>,
    body_bytes: Vec<u8>,
}

/// How far reclaiming has come.
#[derive(Debug, Default)]
struct Reclaiming {
    /// By directory of a store: what was planned may be done when the log is durable up to here.
    planned: BTreeMap<String, Lsn>,
    /// The directory of the store that had its turn last.
    last: String,
}

/// Starts the threads.
///
/// # Errors
/// The system's.
pub(crate) fn start(storage: &Arc<Storage>) -> std::io::Result<()> {
    let spawn = |name, run: fn(&Shared, &Weak<Storage>)| {
        let shared = Arc::clone(&storage.pager.shared);
        let to_end = Arc::clone(&shared);
        let weak = Arc::downgrade(storage);
        let failure = storage.pager.failure();
        background::spawn(name, failure, move || to_end.end(), move || run(&shared, &weak))
    };
    let jobs = spawn("pager-jobs", |shared, _| run_jobs(shared))?;
    let syncs = spawn("pager-sync", run_syncs)?;
    stdx::lock(&storage.pager.threads).extend([jobs, syncs]);
    Ok(())
}

fn run_jobs(shared: &Shared) {
    let mut scratch = Scratch::default();
    while let Some(queue) = wait_for_asked(shared) {
        turn(shared, &mut scratch, queue);
    }
}

fn wait_for_asked(shared: &Shared) -> Option<Arc<Queue>> {
    let mut state = stdx::lock(&shared.state);
    loop {
        if state.has_ended {
            return None;
        }
        if let Some(queue) = state.asked.pop_front() {
            state.n_at_work += 1;
            return Some(queue);
        }
        state = shared.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Runs jobs of a queue that has asked.
fn turn(shared: &Shared, scratch: &mut Scratch, queue: Arc<Queue>) {
    let next = run_some(shared, scratch, &queue);
    let mut state = stdx::lock(&shared.state);
    state.n_at_work -= 1;
    match next {
        _ if state.has_ended => {}
        Next::Done => {}
        Next::Again => state.asked.push_back(queue),
        // What is unsynced may have gone meanwhile.
        Next::AfterSync if state.unsynced_bytes == 0 => state.asked.push_back(queue),
        Next::AfterSync => state.deferred.push(queue),
    }
    drop(state);
    shared.tell_of_capacity();
}

/// The next turn of a queue after this one.
enum Next {
    Done,
    Again,
    AfterSync,
}

fn run_some(shared: &Shared, scratch: &mut Scratch, queue: &Arc<Queue>) -> Next {
    for _ in 0..JOBS_PER_TURN {
        let unsynced_bytes = stdx::lock(&shared.state).unsynced_bytes;
        let only_load = unsynced_bytes >= shared.options.unsynced_bytes_max;
        if only_load && !queue.inspect().waits_for_page() {
            return Next::AfterSync;
        }
        match Paged(queue).next_job(&mut scratch.image) {
            None => return Next::Done,
            Some(Job::Write { page, is_durable }) => {
                write(shared, scratch, queue, page, is_durable);
            }
            Some(job @ Job::Load { .. }) => {
                if let Err(error) = load(scratch, queue, job) {
                    fail(shared, &queue.storage, &error);
                    return Next::Done;
                }
            }
        }
    }
    Next::Again
}

fn write(shared: &Shared, scratch: &Scratch, queue: &Arc<Queue>, page: PageKey, is_durable: bool) {
    let blob = queue.storage.images.store(is_durable).append(&scratch.image.parts());
    let stored_bytes = scratch.image.stored_bytes();
    let bytes = scratch.image.len() + stored_bytes;
    let has_stored = stored_bytes > 0;
    let image =
        ImageWritten { queue: Arc::clone(queue), page, blob, is_durable, bytes, has_stored };
    let mut state = stdx::lock(&shared.state);
    state.unsynced_bytes += bytes;
    state.written.push(image);
    drop(state);
    shared.unsynced.notify_one();
}

/// Reads a page. Damage is the queue's loss; what may go better next time is an error.
fn load(scratch: &mut Scratch, queue: &Arc<Queue>, job: Job) -> Result<(), StoreError> {
    let Job::Load { page, blob, is_durable, wanted } = job else { return Ok(()) };
    let storage = &queue.storage;
    let read = storage.images.store(is_durable).read(blob, &mut scratch.bytes);
    let read = match read {
        Err(error) if error.is_of_disk() => return Err(error),
        read => read,
    };
    let mut loaded = read.map_err(|error| error.to_string()).and_then(|()| {
        LoadedPage::read(&storage.pool, &scratch.bytes, &wanted).map_err(|error| error.to_string())
    });
    if let (Err(reason), Some(journal)) = (&loaded, queue.upkeep().journal()) {
        let (name, vhost) = (&queue.def().name, &queue.def().vhost);
        tracing::error!(queue = %name, %vhost, "a page is taken from the journal instead: {reason}");
        let positions = wanted.ranges_from(page.first());
        let read = journal.page(&storage.pool, page.first(), positions)?;
        loaded = read.ok_or_else(|| reason.clone());
    }
    if let Ok(loaded) = &mut loaded {
        fetch_bodies(&mut scratch.body_bytes, queue, loaded)?;
    }
    Paged(queue).loaded(page, loaded);
    Ok(())
}

/// Reads the stored bodies of a page. A damaged one is the loss of its message.
fn fetch_bodies(
    scratch: &mut Vec<u8>,
    queue: &Queue,
    loaded: &mut LoadedPage,
) -> Result<(), StoreError> {
    let wanted = loaded.wanted_bodies();
    let names: Vec<_> = wanted.iter().map(|wanted| wanted.blob).collect();
    let mut next = wanted.iter();
    let mut failed = None;
    queue.bodies.blobs().read_run(&names, scratch, &mut |_, body| {
        let Some(wanted) = next.next() else { return };
        match body {
            Ok(body) => loaded.put_body(*wanted, Bytes::copy_from_slice(body)),
            Err(error) if error.is_of_disk() => failed = Some(error),
            Err(error) => tracing::error!(
                queue = %queue.def().name,
                vhost = %queue.def().vhost,
                "the body of a message cannot be read: {error}"
            ),
        }
    });
    failed.map_or(Ok(()), Err)
}

fn run_syncs(shared: &Shared, storage: &Weak<Storage>) {
    let mut reclaiming = Reclaiming::default();
    let mut rests = false;
    while let Some(due) = wait_for_unsynced(shared, rests) {
        sync(shared, due.written);
        let Some(storage) = storage.upgrade() else { return };
        count_bodies(shared, &storage);
        if due.is_reclaim_due || rests {
            rests = reclaim(&storage, &mut reclaiming);
        }
    }
}

/// The next thing for the second thread to do.
struct Due {
    written: Vec<ImageWritten>,
    is_reclaim_due: bool,
}

fn wait_for_unsynced(shared: &Shared, rests: bool) -> Option<Due> {
    let mut state = stdx::lock(&shared.state);
    let mut is_rested = false;
    loop {
        if state.has_ended {
            return None;
        }
        let is_reclaim_due = is_rested || std::mem::take(&mut state.is_reclaim_due);
        if is_reclaim_due || !state.written.is_empty() || state.naming.is_due() {
            state.n_at_work += 1;
            return Some(Due { written: std::mem::take(&mut state.written), is_reclaim_due });
        }
        if rests {
            let woken = shared.unsynced.wait_timeout(state, RECLAIM_REST);
            let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            (state, is_rested) = (woken, timeout.timed_out());
        } else {
            state = shared.unsynced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Writes images, and tells their queues.
fn sync(shared: &Shared, written: Vec<ImageWritten>) {
    let bytes: usize = written.iter().map(|image| image.bytes).sum();
    if let Some(first) = written.first() {
        let storage = Arc::clone(&first.queue.storage);
        let has_stored = written.iter().any(|image| image.has_stored);
        let stored = if has_stored { storage.bodies.flush() } else { Ok(()) };
        match stored.and_then(|()| storage.images.sync()) {
            Ok(()) => {
                for image in &written {
                    Paged(&image.queue).written(image.page, image.blob, image.is_durable);
                }
                if let Some(AfterSync(act)) = shared.after_sync.get() {
                    act();
                }
            }
            Err(error) => fail(shared, &storage, &error),
        }
    }
    let mut state = stdx::lock(&shared.state);
    state.unsynced_bytes -= bytes;
    state.n_at_work -= 1;
    let deferred = std::mem::take(&mut state.deferred);
    state.asked.extend(deferred);
    drop(state);
    shared.asked.notify_one();
    shared.tell_of_capacity();
}

/// Reads some of the images whose bodies are to be counted or given back, and does that.
fn count_bodies(shared: &Shared, storage: &Storage) {
    let (part, is_last) = stdx::lock(&shared.state).naming.next();
    let mut scratch = Vec::new();
    for (act, names) in part {
        let images = storage.images.store(names.is_durable);
        if let Err(reason) = names.apply(act, images, &mut scratch) {
            // Their bodies stay until a start finds that nobody names them.
            tracing::error!("cannot tell which bodies image {:?} names: {reason}", names.image);
        }
        storage.release_image(names.image, names.is_durable);
    }
    if is_last && stdx::lock(&shared.state).naming.end_counting() {
        storage.bodies.start_reclaiming();
    }
}

/// Gives space of files back, a part at a time. True if there is more to do soon.
fn reclaim(storage: &Storage, reclaiming: &mut Reclaiming) -> bool {
    let bodies = storage.bodies.all();
    let images = [&storage.images.durable, &storage.images.volatile];
    let mut stores: Vec<&BlobStore> = bodies.iter().map(|(_, store)| store.blobs()).collect();
    stores.extend(images);
    // Those behind the last one are first.
    stores.sort_unstable_by_key(|store| (store.dir() <= reclaiming.last.as_str(), store.dir()));
    let mut moved_bytes = 0;
    let mut has_more = false;
    for store in stores {
        if moved_bytes >= RECLAIM_STEP_BYTES {
            return true;
        }
        match reclaim_part(storage, store, reclaiming) {
            Ok(Part::Nothing) => continue,
            Ok(Part::ConfirmAfter) => has_more = true,
            Ok(Part::Done(reclaimed)) => {
                moved_bytes += reclaimed.moved_bytes;
                has_more |= reclaimed.has_more || reclaimed.freed_bytes > 0;
                store.dir().clone_into(&mut reclaiming.last);
            }
            Err(error) => tracing::warn!("cannot reclaim space in {}: {error}", store.dir()),
        }
    }
    has_more
}

/// The outcome of a store's turn.
enum Part {
    Nothing,
    /// For the log.
    ConfirmAfter,
    Done(Reclaimed),
}

fn reclaim_part(
    storage: &Storage,
    store: &BlobStore,
    reclaiming: &mut Reclaiming,
) -> Result<Part, StoreError> {
    let planned = match reclaiming.planned.remove(store.dir()) {
        Some(planned) => planned,
        None if store.plan_reclaiming(|bytes| storage.may_move(bytes)) => {
            storage.wal.stats().appended_upto
        }
        None => return Ok(Part::Nothing),
    };
    // What gave the references back must not be undone by a crash.
    if storage.wal.durable_upto() < planned {
        reclaiming.planned.insert(store.dir().to_owned(), planned);
        return Ok(Part::ConfirmAfter);
    }
    let reclaimed = store.reclaim_step(RECLAIM_STEP_BYTES)?;
    if reclaimed.has_more {
        reclaiming.planned.insert(store.dir().to_owned(), planned);
    }
    Ok(Part::Done(reclaimed))
}

/// Nothing is reported durable from now on.
fn fail(shared: &Shared, storage: &Storage, error: &StoreError) {
    shared.failure.note(error);
    shared.end();
    // The commit thread finds out.
    storage.wal.commit_soon();
}

/// Does the pager's work on demand instead of threads.
#[derive(Debug)]
pub struct PagerStepper {
    shared: Arc<Shared>,
    storage: Weak<Storage>,
    scratch: Scratch,
    reclaiming: Reclaiming,
}

impl PagerStepper {
    pub(crate) fn new(storage: &Arc<Storage>) -> Self {
        Self {
            shared: Arc::clone(&storage.pager.shared),
            storage: Arc::downgrade(storage),
            scratch: Scratch::default(),
            reclaiming: Reclaiming::default(),
        }
    }

    /// A turn of one queue that has asked; false if none has.
    pub fn step_jobs(&mut self) -> bool {
        let queue = {
            let mut state = stdx::lock(&self.shared.state);
            if state.has_ended {
                return false;
            }
            let Some(queue) = state.asked.pop_front() else { return false };
            state.n_at_work += 1;
            queue
        };
        turn(&self.shared, &mut self.scratch, queue);
        true
    }

    /// One sync and its reports; false if there is nothing to write.
    pub fn step_sync(&mut self) -> bool {
        let written = {
            let mut state = stdx::lock(&self.shared.state);
            if state.has_ended || state.written.is_empty() {
                return false;
            }
            state.n_at_work += 1;
            std::mem::take(&mut state.written)
        };
        sync(&self.shared, written);
        true
    }

    /// A part of counting or giving back what page images name; false if there is nothing to do.
    pub fn step_names(&mut self) -> bool {
        let Some(storage) = self.storage.upgrade() else { return false };
        let is_due = stdx::lock(&self.shared.state).naming.is_due();
        if is_due {
            count_bodies(&self.shared, &storage);
        }
        is_due
    }

    /// A part of reclaiming; false if there is nothing to reclaim.
    pub fn step_reclaim(&mut self) -> bool {
        let Some(storage) = self.storage.upgrade() else { return false };
        reclaim(&storage, &mut self.reclaiming)
    }
}
