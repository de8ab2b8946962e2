//! The parts of a node that its streams share: the disk, open files, the clock, the inbox of their threads.

use background::{Inbox, NextTask, Pending};
use chunk_log::{ChunkLogError, ReadAhead, StreamFiles, StreamTable};
use segments::Disk;
use segments::Poison;
use session::ConversionTotals;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use stdx::{Clock, WallClock};
use streamproto::spec::UNCOMPRESSED_BYTES_MAX_DEFAULT;

/// Threads that write and sync.
const N_SYNC_THREADS: usize = 2;
/// The name of the threads that write and sync.
const SYNC_THREAD: &str = "stream-sync";
/// Threads that read what is not in memory: as many reads wait for the device at a time.
const N_READ_THREADS: usize = 4;
/// The name of the threads that read.
const READ_THREAD: &str = "stream-read";
/// The bytes of all streams, waiting for the disk, at which publishers wait too.
const UNWRITTEN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Streams of which a thread looks at what they keep before other work has its turn.
const REVIEWS_AT_ONCE_MAX: usize = 64;
/// The highest number of an update, before numbers start at 0 again; a byte beside is the subscription's.
const UPDATE_NUMBER_MAX: u32 = u32::MAX >> u8::BITS;

/// The event that publishes to streams are confirmed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamDurability {
    /// Publishes are handed to the operating system, as with RabbitMQ.
    #[default]
    Write,
    /// Publishes are synced to the disk.
    Fsync,
}

/// How a node keeps its streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// The event that publishes are confirmed upon.
    pub durability: StreamDurability,
    /// How far consumers read ahead.
    pub read_ahead: ReadAhead,
    /// Files of streams that are open at a time.
    pub open_files_max: usize,
    /// Bytes of a sub-batch that is published, unpacked. What was published under a larger limit is read all
    /// the same, up to the protocol's default.
    pub sub_batch_bytes_max: u32,
    /// The time in which each stream is read once, to find what is damaged; 0: never.
    pub scrub_interval_ms: u64,
}

impl StreamOptions {
    /// Bytes of a sub-batch that is read, unpacked.
    pub(crate) fn unpacked_bytes_max(&self) -> u32 {
        self.sub_batch_bytes_max.max(UNCOMPRESSED_BYTES_MAX_DEFAULT)
    }
}

/// Open files of all streams, where there are descriptors enough.
const OPEN_FILES_MAX: usize = 4_096;

impl Default for StreamOptions {
    fn default() -> Self {
        let (durability, read_ahead) = (StreamDurability::default(), ReadAhead::default());
        let sub_batch_bytes_max = UNCOMPRESSED_BYTES_MAX_DEFAULT;
        Self {
            durability,
            read_ahead,
            open_files_max: OPEN_FILES_MAX,
            sub_batch_bytes_max,
            scrub_interval_ms: 0,
        }
    }
}

/// The parts of a node that its streams share.
#[derive(Debug)]
pub(crate) struct StreamServices {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) files: Arc<StreamFiles>,
    pub(crate) options: StreamOptions,
    pub(crate) time: WallClock,
    /// The inbox of writing, syncing and removing.
    pub(crate) inbox: Inbox<Work>,
    reviews: Mutex<Reviews>,
    /// The inbox of reading what is not in memory.
    reads: Inbox<Work>,
    pub(crate) failure: Poison,
    /// Losses of streams since the start.
    pub(crate) losses: Mutex<StreamLosses>,
    /// Messages converted since the start.
    pub(crate) conversions: ConversionTotals,
    /// The number of the last update that a consumer was told.
    last_update: AtomicU32,
}

/// Reviews of what streams keep that are due.
#[derive(Debug, Default)]
struct Reviews {
    due: Work,
    /// Whether a thread reviews.
    is_under_way: bool,
}

/// Losses of streams since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLosses {
    /// Messages in chunks that are damaged, or that are missing as an operator has accepted.
    pub n_messages: u64,
    /// Bytes at the ends of segments that were cut off.
    pub cut_off_bytes: u64,
}

/// An inbox of the streams.
type InboxOf = fn(&StreamServices) -> &Inbox<Work>;

/// Something for a thread to do.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The work of the threads.
#[derive(Default)]
pub(crate) struct Work(VecDeque<Task>);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.0.len()).finish()
    }
}

impl Pending for Work {}

impl StreamServices {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        options: StreamOptions,
        clock: Clock,
        failure: &Poison,
    ) -> Result<Arc<Self>, ChunkLogError> {
        let time = WallClock::new(clock);
        let table = StreamTable::open(Arc::clone(&disk), time.unix_ms().get())?;
        let files = StreamFiles::with_table(Arc::clone(&disk), options.open_files_max, Some(table));
        let inbox = Inbox::new(UNWRITTEN_BYTES_MAX, failure);
        // Each consumer and each connection has one read at a time.
        let reads = Inbox::new(u64::MAX, failure);
        let (failure, losses) = (failure.clone(), Mutex::default());
        let last_update = AtomicU32::new(0);
        Ok(Arc::new(Self {
            disk,
            files,
            options,
            time,
            inbox,
            reviews: Mutex::default(),
            reads,
            failure,
            losses,
            conversions: ConversionTotals::default(),
            last_update,
        }))
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let writers = (SYNC_THREAD, N_SYNC_THREADS, Self::writes as InboxOf);
        for (name, n, inbox) in [writers, (READ_THREAD, N_READ_THREADS, Self::reads)] {
            for _ in 0..n {
                let (services, ended) = (Arc::clone(self), Arc::clone(self));
                let end = move || ended.stop();
                inbox(self).spawn(name, end, move || do_tasks(inbox(&services)))?;
            }
        }
        Ok(())
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        self.reads.stop();
        self.inbox.stop();
    }

    const fn writes(&self) -> &Inbox<Work> {
        &self.inbox
    }

    const fn reads(&self) -> &Inbox<Work> {
        &self.reads
    }

    /// A number for an update that a consumer is told. Streams share them: a late answer to an update of an
    /// earlier subscription is not taken for another's.
    pub(crate) fn next_update(&self) -> u32 {
        self.last_update.fetch_add(1, Ordering::Relaxed) & UPDATE_NUMBER_MAX
    }

    /// Notes that so many bytes were written and wait no longer.
    pub(crate) fn note_written(&self, bytes: u64) {
        let was_too_much = self.inbox.excess_bytes() >= UNWRITTEN_BYTES_MAX;
        self.inbox.remove_excess(bytes);
        if was_too_much {
            self.inbox.tell_of_capacity();
        }
    }

    /// Whether publishers wait for the disk, or nearly so.
    pub(crate) fn is_busy(&self) -> bool {
        self.inbox.excess_bytes() > UNWRITTEN_BYTES_MAX / 4
    }

    pub(crate) fn remove_files(&self, id: u64) {
        if let Err(error) = chunk_log::delete_log(&self.files, id) {
            tracing::error!("cannot delete the files of deleted stream {id}: {error}");
        }
    }

    /// Has a thread close files that retention has removed, and nobody reads any more.
    pub(crate) fn close_removed(&self) {
        if self.files.has_removed() {
            let files = Arc::clone(&self.files);
            self.ask(Box::new(move || files.close_removed()));
        }
    }

    /// Has a thread run a task.
    pub(crate) fn ask(&self, task: Task) {
        self.inbox.add(|work| work.0.push_back(task));
    }

    /// Has a thread look at what a stream keeps, after those that were asked for before.
    pub(crate) fn review(self: &Arc<Self>, review: Task) {
        let mut reviews = stdx::lock(&self.reviews);
        reviews.due.0.push_back(review);
        if !std::mem::replace(&mut reviews.is_under_way, true) {
            drop(reviews);
            self.go_on_reviewing();
        }
    }

    /// Whether no review is due.
    pub(crate) fn is_reviewed(&self) -> bool {
        !stdx::lock(&self.reviews).is_under_way
    }

    /// Reviews some streams at a time: tasks that wait for a sync run in between.
    fn go_on_reviewing(self: &Arc<Self>) {
        let me = Arc::clone(self);
        self.ask(Box::new(move || {
            for _ in 0..REVIEWS_AT_ONCE_MAX {
                let mut reviews = stdx::lock(&me.reviews);
                let Some(review) = reviews.due.0.pop_front() else {
                    reviews.is_under_way = false;
                    return;
                };
                drop(reviews);
                review();
            }
            me.go_on_reviewing();
        }));
    }

    /// Has a reading thread run a task.
    pub(crate) fn read_beside(&self, task: Task) {
        self.reads.add(|work| work.0.push_back(task));
    }

    /// Runs a task that the threads would run; false if there is none.
    pub(crate) fn step(&self) -> bool {
        let next = |work: &mut Work| work.0.pop_front().map_or(NextTask::Wait, NextTask::Do);
        let task = self.reads.step(next).or_else(|| self.inbox.step(next));
        task.map(|task| task()).is_some()
    }
}

/// Runs the tasks of an inbox on a thread.
fn do_tasks(inbox: &Inbox<Work>) {
    let next = |work: &mut Work, _| work.0.pop_front().map_or(NextTask::Wait, NextTask::Do);
    while let Some(task) = inbox.wait(next) {
        task();
    }
}
