//! Keeps backlogs out of memory: runs the jobs of queues' backlogs beside the connections' threads.
//!
//! ```text
//! over its allowance, or its head is cold --(ask)--> [asked] --> jobs: read a page, append its image
//!                                                                                    |
//!            room, the next job <-- report: note in the log <-- sync of the stores <-+
//! ```
//! Two threads, so that reading never waits for a sync: one takes jobs from queues that asked and makes
//! images, the other syncs and reports them, and reclaims files. A queue is locked for one job or report at a
//! time. What fails here ends the log: see [`PagerInbox`].

use crate::journal::Journal;
use crate::paged_queue::{PagedQueue, PagerHost};
use crate::pager_inbox::{ImageWritten, Jobs, PagerInbox, Syncs};
use crate::services::Services;
use crate::storage::Storage;
use background::NextTask;
use bytes::Bytes;
use confirm::DurableJournal;
use log::Lsn;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::StoreError;
use store::backlog::{ColdPage, Image, Job, LoadedPage, PageKey};
use store::blob::{BlobStore, Reclaimed};

/// Jobs of one queue before another has its turn.
const JOBS_PER_TURN: usize = 32;
/// Bytes that reclaiming copies at a time.
const RECLAIM_STEP_BYTES: u64 = 1 << 20;
/// Time for which reclaiming rests between two of its steps.
const RECLAIM_REST: Duration = Duration::from_millis(20);

/// Buffers for running jobs, or for reading pages to browse them.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    image: Image,
    bytes: Vec<u8>,
    body_bytes: Vec<u8>,
}

/// Ends of the log and of journals that must be durable before a planned reclaiming: then a crash undoes no
/// entry that gave references back.
#[derive(Debug)]
struct AfterPlan {
    /// End of the log.
    upto: Lsn,
    /// Last notes of the journals whose messages have bodies in the store.
    notes: Vec<(Weak<Journal>, u64)>,
}

impl AfterPlan {
    /// The current ends of the log, and of those `journals` that have bodies in `store`.
    fn now(storage: &Storage, store: &BlobStore, journals: &[Arc<Journal>]) -> Self {
        let unsynced = journals
            .iter()
            .filter(|journal| journal.bodies.blobs.dir() == store.dir())
            .filter_map(|journal| Some((Arc::downgrade(journal), journal.v1.unsynced_note()?)));
        Self { notes: unsynced.collect(), upto: storage.wal.stats().appended_upto }
    }

    fn is_durable(&self, storage: &Storage) -> bool {
        let is_noted = |(journal, note): &(Weak<Journal>, u64)| {
            journal.upgrade().is_none_or(|journal| journal.is_durable(*note))
        };
        storage.wal.durable_upto() >= self.upto && self.notes.iter().all(is_noted)
    }
}

/// Progress of reclaiming.
#[derive(Debug, Default)]
struct Reclaiming {
    /// Conditions of planned reclaiming by the directory of its store.
    planned: BTreeMap<String, AfterPlan>,
    /// The directory of the store that had its turn last.
    last: String,
}

/// Starts the threads.
///
/// # Errors
/// The system's.
pub fn start(services: &Arc<Services>, node: Weak<dyn PagerHost>) -> io::Result<()> {
    let pager = &services.pager;
    let end = || {
        let pager = Arc::clone(pager);
        move || pager.end()
    };
    let PagerStepper { mut jobs, mut syncs } = PagerStepper::new(services, node);
    pager.jobs.spawn("pager-jobs", end(), move || jobs.run())?;
    pager.syncs.spawn("pager-sync", end(), move || syncs.run())
}

/// The work of the thread that reads pages and makes images.
#[derive(Debug)]
struct JobWorker {
    pager: Arc<PagerInbox>,
    scratch: Scratch,
}

impl JobWorker {
    fn run(&mut self) {
        while let Some(queue) = self.pager.jobs.wait(|jobs, _| next_asked(jobs)) {
            self.turn(queue);
        }
    }

    /// Runs jobs of a queue that has asked.
    fn turn(&mut self, queue: Arc<dyn PagedQueue>) {
        let Self { pager, scratch } = self;
        let turn = run_some(pager, scratch, &queue);
        pager.jobs.add(|jobs| {
            jobs.is_at_work = false;
            match turn {
                Turn::Done => {}
                Turn::Again => jobs.asked.push_back(queue),
                // The unsynced bytes may have been synced meanwhile.
                Turn::AfterSync if jobs.unsynced_bytes == 0 => jobs.asked.push_back(queue),
                Turn::AfterSync => jobs.deferred.push(queue),
            }
        });
        pager.jobs.tell_of_capacity();
    }
}

/// The queue whose turn it is.
fn next_asked(jobs: &mut Jobs) -> NextTask<Arc<dyn PagedQueue>> {
    let queue = jobs.asked.pop_front();
    jobs.is_at_work = queue.is_some();
    queue.map_or(NextTask::Wait, NextTask::Do)
}

/// The next turn of a queue after this one.
enum Turn {
    Done,
    Again,
    AfterSync,
}

fn run_some(pager: &PagerInbox, scratch: &mut Scratch, queue: &Arc<dyn PagedQueue>) -> Turn {
    for _ in 0..JOBS_PER_TURN {
        let unsynced_bytes = pager.jobs.update(|jobs| jobs.unsynced_bytes);
        let only_load = unsynced_bytes >= Some(pager.options.unsynced_bytes_max);
        if only_load && !queue.waits_for_page() {
            return Turn::AfterSync;
        }
        match queue.next_job(&mut scratch.image) {
            None => return Turn::Done,
            Some(Job::Write { page, is_durable }) => {
                write(pager, scratch, queue, page, is_durable);
            }
            Some(Job::Load(cold)) => {
                if let Err(error) = load(scratch, queue, &cold) {
                    pager.fail(queue.storage(), &error);
                    return Turn::Done;
                }
            }
        }
    }
    Turn::Again
}

fn write(
    pager: &PagerInbox,
    scratch: &Scratch,
    queue: &Arc<dyn PagedQueue>,
    page: PageKey,
    is_durable: bool,
) {
    let blob = queue.storage().images.store(is_durable).append(&scratch.image.parts());
    let stored_bytes = scratch.image.stored_bytes;
    let bytes = scratch.image.len() + stored_bytes;
    let has_stored = stored_bytes > 0;
    let image =
        ImageWritten { queue: Arc::clone(queue), page, blob, is_durable, bytes, has_stored };
    pager.jobs.update(|jobs| jobs.unsynced_bytes += bytes);
    pager.syncs.add(|syncs| syncs.written.push(image));
}

/// Reads a page. Damage is the queue's loss; what may go better next time is an error.
fn load(
    scratch: &mut Scratch,
    queue: &Arc<dyn PagedQueue>,
    cold: &ColdPage,
) -> Result<(), StoreError> {
    let mut loaded = read_page(scratch, &**queue, cold)?;
    if let Ok(loaded) = &mut loaded {
        scratch.fetch_bodies(&**queue, loaded)?;
    }
    queue.loaded(cold.page, loaded);
    Ok(())
}

/// Reads the messages of a page from its image, or from the queue's journal where that cannot be read. Damage
/// is told inside.
pub(crate) fn read_page(
    scratch: &mut Scratch,
    queue: &dyn PagedQueue,
    ColdPage { page, blob, is_durable, live }: &ColdPage,
) -> Result<Result<LoadedPage, String>, StoreError> {
    let storage = queue.storage();
    let read = storage.images.store(*is_durable).read(*blob, &mut scratch.bytes);
    let read = match read {
        Err(error) if error.is_of_disk() => return Err(error),
        read => read,
    };
    let mut loaded = read.map_err(|error| error.to_string()).and_then(|()| {
        LoadedPage::read(&storage.pool, &scratch.bytes, live).map_err(|error| error.to_string())
    });
    if let (Err(reason), Some(journal)) = (&loaded, queue.journal()) {
        let (name, vhost) = (&queue.def().name, &queue.def().vhost);
        tracing::error!(queue = %name, %vhost, "reading a page from the journal instead: {reason}");
        let positions = live.ranges_from(page.first());
        let read = journal.page(&storage.pool, page.first(), positions)?;
        loaded = read.ok_or_else(|| reason.clone());
    }
    Ok(loaded)
}

impl Scratch {
    /// Reads the stored bodies of a page. A damaged one is the loss of its message.
    pub(crate) fn fetch_bodies(
        &mut self,
        queue: &dyn PagedQueue,
        loaded: &mut LoadedPage,
    ) -> Result<(), StoreError> {
        let wanted = loaded.wanted_bodies();
        let names: Vec<_> = wanted.iter().map(|wanted| wanted.blob).collect();
        let mut next = wanted.iter();
        let (mut failed, mut unread) = (None, BTreeMap::<u32, u64>::new());
        queue.bodies().blobs.read_run(&names, &mut self.body_bytes, &mut |_, body| {
            let Some(wanted) = next.next() else { return };
            match body {
                Ok(body) => loaded.put_body(*wanted, Bytes::copy_from_slice(body)),
                Err(error) if error.is_of_disk() => failed = Some(error),
                Err(_) => *unread.entry(wanted.blob.file).or_default() += 1,
            }
        });
        for (file, n) in unread {
            let file = BlobStore::name_of(queue.bodies().blobs.dir(), file);
            let reason = format!("their bodies are damaged in {file}, or not there");
            queue.storage().tell_lost(queue.def(), &reason, n);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The work of the thread that makes images durable and gives back space.
#[derive(Debug)]
struct SyncWorker {
    pager: Arc<PagerInbox>,
    services: Weak<Services>,
    node: Weak<dyn PagerHost>,
    reclaiming: Reclaiming,
}

/// The work that is due on the sync thread.
struct Due {
    written: Vec<ImageWritten>,
    is_reclaim_due: bool,
}

impl SyncWorker {
    fn run(&mut self) {
        let mut rests = false;
        while let Some(due) = self.wait(rests) {
            if !due.written.is_empty() {
                self.sync(due.written);
            }
            let Some(services) = self.services.upgrade() else { return };
            count_bodies(&services);
            if due.is_reclaim_due || rests {
                rests = self.reclaim(&services.storage);
            }
        }
    }

    /// Waits for work, or, if reclaiming `rests`, until it goes on.
    fn wait(&self, rests: bool) -> Option<Due> {
        self.pager.syncs.wait(|syncs, is_time_over| {
            let is_reclaim_due = is_time_over || std::mem::take(&mut syncs.is_reclaim_due);
            if is_reclaim_due || !syncs.written.is_empty() || syncs.body_refs.is_due() {
                NextTask::Do(Due { written: std::mem::take(&mut syncs.written), is_reclaim_due })
            } else if rests {
                NextTask::WaitFor(RECLAIM_REST)
            } else {
                NextTask::Wait
            }
        })
    }

    fn reclaim(&mut self, storage: &Storage) -> bool {
        let journals = || self.node.upgrade().map_or_else(Vec::new, |node| node.journals());
        reclaim(storage, &mut self.reclaiming, &journals)
    }

    /// Makes images durable, and tells their queues.
    fn sync(&self, written: Vec<ImageWritten>) {
        let bytes: usize = written.iter().map(|image| image.bytes).sum();
        if let Some(first) = written.first() {
            let storage = &first.queue.storage();
            let has_stored = written.iter().any(|image| image.has_stored);
            let stored = if has_stored { storage.bodies.flush() } else { Ok(()) };
            match stored.and_then(|()| storage.images.sync()) {
                Ok(()) => {
                    for image in &written {
                        image.queue.written(image.page, image.blob, image.is_durable);
                    }
                    if let Some(node) = self.node.upgrade() {
                        node.pages_synced();
                    }
                }
                Err(error) => self.pager.fail(storage, &error),
            }
        }
        self.pager.jobs.add(|jobs| {
            assert!(jobs.unsynced_bytes >= bytes, "bytes that were synced were counted");
            jobs.unsynced_bytes -= bytes;
            jobs.asked.extend(jobs.deferred.drain(..));
        });
        self.pager.jobs.tell_of_capacity();
    }
}

/// Reads some of the images whose bodies are to be counted or given back, and does that.
fn count_bodies(services: &Services) {
    let (syncs, storage) = (&services.pager.syncs, &services.storage);
    let Some((part, is_last)) = syncs.update(|syncs| syncs.body_refs.next()) else { return };
    let mut scratch = Vec::new();
    for (act, names) in part {
        let images = storage.images.store(names.is_durable);
        if let Err(reason) = names.apply(act, images, &mut scratch) {
            // Bodies that the image names stay until a start finds that nobody names them.
            tracing::error!("cannot tell which bodies image {:?} names: {reason}", names.image);
        }
        storage.release_image(names.image, names.is_durable);
    }
    if is_last && syncs.update(|syncs| syncs.body_refs.end_counting()) == Some(true) {
        storage.bodies.start_reclaiming();
    }
}

/// Reclaims space of files, a part at a time; `journals` are those of version 1. True if the next part may
/// follow soon.
fn reclaim(
    storage: &Storage,
    reclaiming: &mut Reclaiming,
    journals: &dyn Fn() -> Vec<Arc<Journal>>,
) -> bool {
    let bodies = storage.bodies.all();
    let images = [&storage.images.durable, &storage.images.volatile];
    let mut stores: Vec<&BlobStore> = bodies.iter().map(|(_, store)| &store.blobs).collect();
    stores.extend(images);
    // Stores behind the last one reclaimed come first.
    stores.sort_unstable_by_key(|store| (store.dir() <= reclaiming.last.as_str(), store.dir()));
    let mut moved_bytes = 0;
    let mut has_more = false;
    for store in stores {
        if moved_bytes >= RECLAIM_STEP_BYTES {
            return true;
        }
        match reclaim_part(storage, store, reclaiming, journals) {
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
    /// Reclaiming waits for the log or a journal to be durable.
    ConfirmAfter,
    Done(Reclaimed),
}

fn reclaim_part(
    storage: &Storage,
    store: &BlobStore,
    reclaiming: &mut Reclaiming,
    journals: &dyn Fn() -> Vec<Arc<Journal>>,
) -> Result<Part, StoreError> {
    let planned = match reclaiming.planned.remove(store.dir()) {
        Some(planned) => planned,
        None if store.plan_reclaiming(|bytes| storage.may_move(bytes)) => {
            AfterPlan::now(storage, store, &journals())
        }
        None => return Ok(Part::Nothing),
    };
    // A crash must not undo the entries that gave the references back.
    if !planned.is_durable(storage) {
        reclaiming.planned.insert(store.dir().to_owned(), planned);
        return Ok(Part::ConfirmAfter);
    }
    let reclaimed = store.reclaim_step(RECLAIM_STEP_BYTES)?;
    if reclaimed.has_more {
        reclaiming.planned.insert(store.dir().to_owned(), planned);
    }
    Ok(Part::Done(reclaimed))
}

/// Does the pager's work on demand instead of threads.
#[derive(Debug)]
pub struct PagerStepper {
    jobs: JobWorker,
    syncs: SyncWorker,
}

impl PagerStepper {
    /// Makes the pager's work for a node whose threads are not started.
    pub fn new(services: &Arc<Services>, node: Weak<dyn PagerHost>) -> Self {
        let pager = || Arc::clone(&services.pager);
        let services = Arc::downgrade(services);
        Self {
            jobs: JobWorker { pager: pager(), scratch: Scratch::default() },
            syncs: SyncWorker { pager: pager(), services, node, reclaiming: Reclaiming::default() },
        }
    }

    /// Runs a turn of one queue that has asked; false if none has.
    pub fn step_jobs(&mut self) -> bool {
        let queue = self.jobs.pager.jobs.step(next_asked);
        queue.map(|queue| self.jobs.turn(queue)).is_some()
    }

    /// Runs one sync and tells its queues; false if no image waits for a sync.
    pub fn step_sync(&mut self) -> bool {
        let take = |syncs: &mut Syncs| match std::mem::take(&mut syncs.written) {
            written if written.is_empty() => NextTask::Wait,
            written => NextTask::Do(written),
        };
        let written = self.syncs.pager.syncs.step(take);
        written.map(|written| self.syncs.sync(written)).is_some()
    }

    /// Counts or releases a part of the bodies that page images name; false if no image waits for that.
    pub fn step_names(&mut self) -> bool {
        let Some(services) = self.syncs.services.upgrade() else { return false };
        let is_due = services.pager.syncs.update(|syncs| syncs.body_refs.is_due()) == Some(true);
        if is_due {
            count_bodies(&services);
        }
        is_due
    }

    /// Reclaims a part of the space; false if no space is left to reclaim.
    pub fn step_reclaim(&mut self) -> bool {
        let Some(services) = self.syncs.services.upgrade() else { return false };
        self.syncs.reclaim(&services.storage)
    }
}
