//! The write-ahead log of a node: one sequence of entries, written in group commits.
//!
//! ```text
//!   append --> [ shared buffer ] --(commit thread: write, sync)--> segment files --> watchers told
//! ```
//!
//! - `append` copies entries into the shared buffer under one short lock; no system call.
//! - The commit thread swaps the buffer, writes one block, syncs, tells the watchers. Whatever was
//!   appended meanwhile is the next block. If nobody watches, it waits a bounded time. Who would only
//!   wait for it may do the same on its own thread.
//! - Segments are freed strictly oldest first, once nothing in them is needed and what made them
//!   superfluous is itself synced; a freed file is renamed and overwritten.
//! - The first failed write or sync ends the log: nothing is reported durable after it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use stdx::{Histogram, HistogramCounts};

use crate::error::{LogError, Result};
use crate::position::{ClusterId, EntryAddress, NodeId, Owner, SegmentId};
use segments::{Disk, FileError, Lsn, Stamp, Stamper};

mod buffer;
mod commit;
mod counts;
mod extent;
mod owners;
mod read;
mod recovery;
mod salvage;
mod segment;
mod state;
mod table;
mod waiters;

pub use buffer::Batch;
pub use commit::Stepper;
pub use counts::SegmentCounts;
pub use extent::LOG_FILE;
pub use recovery::{Tail, WalFound};
pub use salvage::Salvaged;

use commit::Committer;
use state::WalState;

/// Largest total of one append; it is written as one block into one segment.
pub const MAX_APPEND_BYTES: usize = 1 << 30;

const _: () = assert!(MAX_APPEND_BYTES < u32::MAX as usize);

/// Freed segment files that are kept for reuse while space is short.
const SPARE_SEGMENTS_MIN: usize = 1;

/// Where an append went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position of the append's last entry; the append is durable when `durable_upto` reaches it.
    pub upto: Lsn,
    /// Where its first entry lies; the others are right behind it.
    pub at: EntryAddress,
    /// Bytes that its entries take in the log.
    pub bytes: usize,
}

/// An entry that survived, shown once to the caller of [`Wal::open`].
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The entry's place in the segment files.
    pub at: EntryAddress,
    /// The entry's position.
    pub lsn: Lsn,
    /// The owner the entry is about; entries of format 5 and before do not say so here.
    pub owner: Option<Owner>,
    /// The caller's tag.
    pub kind: u8,
    /// The caller's bytes.
    pub payload: &'a [u8],
}

/// The reason why the caller of [`Wal::open`] cannot accept an entry.
#[derive(Debug)]
pub struct RefusedEntry(pub Cow<'static, str>);

/// A listener for durability.
///
/// The implementation decides under its own lock whether it still waits for something: if it
/// answers false and appends more later, it calls [`Wal::watch`] again.
pub trait CommitListener: Send + Sync {
    /// Notes that everything up to and including `upto` is durable. Called from the thread that commits,
    /// without the lock that appends take. True to be called again after the next commit.
    fn durable(&self, upto: Lsn) -> bool;
}

/// The meaning of "durable".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Entries survive the loss of power: reported after `fdatasync`.
    #[default]
    Sync,
    /// Entries survive the death of the process: reported after the write, synced within
    /// [`WalOptions::lazy_sync`].
    Write,
}

/// The function called once with the first failure, from the thread that met it. The node logs it and exits.
pub type OnFailure = Box<dyn Fn(&LogError) + Send + Sync>;

/// The function called by the commit thread at the start of every commit, to make durable what entries
/// refer to. Whatever was there before an entry of this commit was appended is there when it is called.
/// An error ends the log as a failed write does.
pub type BeforeCommit = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// The options of a log.
pub struct WalOptions {
    /// Directory of the segment files, relative to the disk's root.
    pub dir: String,
    /// Size of a segment file in bytes; a larger append gets a larger segment of its own.
    pub segment_bytes: u64,
    /// Freed segment files kept for reuse; more are deleted.
    pub spare_segments: usize,
    /// The end that is reported as durable.
    pub durability: Durability,
    /// Longest time an append nobody watches stays unsynced.
    pub lazy_sync: Duration,
    /// A disk whose syncs took longer than this lately is left to the commit thread, also by callers
    /// of [`Wal::commit_here`].
    pub sync_here_max: Duration,
    /// Unsynced bytes at which the log syncs though nobody watches.
    pub eager_sync_bytes: usize,
    /// Unsynced bytes at which [`Wal::has_capacity`] becomes false.
    pub unsynced_bytes_max: usize,
    /// The identities of a new log, and of a node that has none yet.
    pub given: Identities,
    /// The stamper that is kept true of this log, for files beside it.
    pub stamper: Arc<Stamper>,
    /// The function told about the first failure.
    pub on_failure: Option<OnFailure>,
    /// The function that makes durable what entries refer to, before they are written.
    pub before_commit: Option<BeforeCommit>,
}

/// Numbers that tell logs and nodes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identities {
    /// The salt of the log's blocks.
    pub salt: u64,
    /// The node's number.
    pub node: NodeId,
    /// The cluster that a new node is the first one of.
    pub cluster: ClusterId,
}

impl Identities {
    fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The standard hasher's keys come from the operating system's random source.
        let random = |what| RandomState::new().hash_one(what);
        // 0 is no node's.
        Self {
            salt: random("leveret wal salt"),
            node: NodeId(random("leveret node") | 1),
            cluster: ClusterId::of_halves(["leveret cluster", "leveret cluster too"].map(random)),
        }
    }
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            dir: "wal".to_owned(),
            segment_bytes: 16 << 20,
            spare_segments: 4,
            durability: Durability::Sync,
            lazy_sync: Duration::from_millis(200),
            sync_here_max: Duration::from_millis(1),
            eager_sync_bytes: 2 << 20,
            unsynced_bytes_max: 8 << 20,
            given: Identities::random(),
            stamper: Arc::default(),
            on_failure: None,
            before_commit: None,
        }
    }
}

impl WalOptions {
    /// The eager limit, low enough that room is made before it runs out.
    fn eager_bytes(&self) -> usize {
        self.eager_sync_bytes.min(self.unsynced_bytes_max / 2)
    }
}

stdx::debug_of!(|it: WalOptions| dir = it.dir);

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// The segment's id.
    pub id: SegmentId,
    /// Entries in it, written or still buffered.
    pub entries: u64,
    /// Bytes of these entries with their headers.
    pub bytes: u64,
    /// Entries still needed, by the caller's count.
    pub live: u64,
    /// Estimate of the bytes still needed: the average entry times `live`.
    pub live_bytes: u64,
}

/// A moment's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalStats {
    /// Segments that are not freed.
    pub segments: u64,
    /// Bytes of entries in them.
    pub bytes: u64,
    /// Estimate of the bytes of entries in them that are still needed.
    pub live_bytes: u64,
    /// The oldest of them.
    pub oldest: Option<SegmentState>,
    /// Freed files kept for reuse.
    pub spare_segments: u64,
    /// Last entry appended.
    pub appended_upto: Lsn,
    /// Last entry reported durable.
    pub durable_upto: Lsn,
    /// Bytes appended and not yet synced.
    pub unsynced_bytes: u64,
    /// Blocks written since the start.
    pub blocks: u64,
    /// Bytes written since the start.
    pub written_bytes: u64,
    /// Syncs of segment files since the start, by the time they took: by [`SYNC_MICROS`].
    pub sync_micros: HistogramCounts<14>,
    /// The time that a write with its sync took lately, microseconds.
    pub commit_micros: u64,
}

/// Times of syncs by which they are counted, microseconds.
pub const SYNC_MICROS: [u64; 14] = [
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    u64::MAX,
];

/// Counters the commit thread keeps and anybody reads.
#[derive(Debug, Default)]
struct WalCounters {
    spare_segments: AtomicU64,
    blocks: AtomicU64,
    written_bytes: AtomicU64,
    sync_micros: Histogram<14>,
    commit_micros: AtomicU64,
}

struct SharedWal {
    state: Mutex<WalState>,
    work: Condvar,
    durable_upto: AtomicU64,
    unsynced_bytes: AtomicUsize,
    poisoned: AtomicBool,
    /// Whether space is short: see [`Wal::set_thrifty`].
    is_thrifty: AtomicBool,
    failure: OnceLock<String>,
    counters: WalCounters,
    options: WalOptions,
}

impl SharedWal {
    fn state(&self) -> MutexGuard<'_, WalState> {
        // A panic of an append's `fill` leaves the state as before that append.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_thrifty(&self) -> bool {
        self.is_thrifty.load(Ordering::Relaxed)
    }

    /// Freed files that are kept now.
    fn spare_segments(&self) -> usize {
        let usual = self.options.spare_segments;
        if self.is_thrifty() { usual.min(SPARE_SEGMENTS_MIN) } else { usual }
    }

    fn wake_if_needed(&self, mut state: MutexGuard<'_, WalState>) {
        let wake = state.take_wake();
        drop(state);
        if wake {
            self.work.notify_one();
        }
    }

    fn poison_error(&self) -> LogError {
        let reason = self.failure.get().cloned().unwrap_or_else(|| "the log is closed".to_owned());
        LogError::Poisoned { reason }
    }

    /// Ends the log: nothing appended from now on is kept, nobody is told of durability again.
    fn end(&self) {
        let (wakers, sinks) = self.state().die();
        self.unsynced_bytes.store(0, Ordering::Relaxed);
        self.work.notify_one();
        wakers.into_iter().for_each(Waker::wake);
        drop(sinks);
    }

    fn fail(&self, error: &LogError) {
        if self.failure.set(error.to_string()).is_err() {
            return;
        }
        self.poisoned.store(true, Ordering::Release);
        self.end();
        if let Some(on_failure) = &self.options.on_failure {
            on_failure(error);
        }
    }
}

/// The open log. Dropping it closes it; [`Wal::close`] also tells whether that went well.
pub struct Wal {
    disk: Arc<dyn Disk>,
    shared: Arc<SharedWal>,
    committer: Arc<Mutex<Committer>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

stdx::debug_of!(|it: Wal| stats = it.stats());

impl Wal {
    /// Opens the log: [`WalFound::read`], then [`Wal::start`].
    ///
    /// # Errors
    /// As both.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: WalOptions,
        visit: &mut dyn FnMut(Entry<'_>) -> std::result::Result<(), RefusedEntry>,
    ) -> Result<Self> {
        let found = WalFound::read(&disk, &options, visit)?;
        Self::start(found, disk, options)
    }

    /// Goes on with a log that was read, and starts the commit thread. No segment is freed until
    /// [`Wal::start_freeing`].
    ///
    /// # Errors
    /// The disk's.
    pub fn start(found: WalFound, disk: Arc<dyn Disk>, options: WalOptions) -> Result<Self> {
        let wal = Self::prepare(found, disk, options)?;
        let (shared, committer) = (Arc::clone(&wal.shared), Arc::clone(&wal.committer));
        let spawned = std::thread::Builder::new()
            .name("wal-commit".to_owned())
            .spawn(move || commit::run(&shared, &committer))
            .map_err(|source| FileError::Io {
                what: "start the thread of",
                file: wal.shared.options.dir.clone(),
                source,
            })?;
        *wal.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawned);
        Ok(wal)
    }

    /// As [`Wal::open`], without a thread: the caller commits by [`Stepper::step`]. For simulation.
    ///
    /// # Errors
    /// As [`Wal::open`].
    pub fn open_stepped(
        disk: Arc<dyn Disk>,
        options: WalOptions,
        visit: &mut dyn FnMut(Entry<'_>) -> std::result::Result<(), RefusedEntry>,
    ) -> Result<(Self, Stepper)> {
        let found = WalFound::read(&disk, &options, visit)?;
        Self::start_stepped(found, disk, options)
    }

    /// As [`Wal::start`], without a thread.
    ///
    /// # Errors
    /// As [`Wal::start`].
    pub fn start_stepped(
        found: WalFound,
        disk: Arc<dyn Disk>,
        options: WalOptions,
    ) -> Result<(Self, Stepper)> {
        let wal = Self::prepare(found, disk, options)?;
        let stepper = Stepper::new(Arc::clone(&wal.shared), Arc::clone(&wal.committer));
        Ok((wal, stepper))
    }

    fn prepare(found: WalFound, disk: Arc<dyn Disk>, options: WalOptions) -> Result<Self> {
        let recovered = found.start(Arc::clone(&disk), &options)?;
        let upto = recovered.files.synced();
        let shared = Arc::new(SharedWal {
            state: Mutex::new(WalState::new(recovered.segments, upto, &options)),
            work: Condvar::new(),
            durable_upto: AtomicU64::new(upto.0),
            unsynced_bytes: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
            is_thrifty: AtomicBool::new(false),
            failure: OnceLock::new(),
            counters: WalCounters::default(),
            options,
        });
        let committer = Committer::new(Arc::clone(&shared), recovered.files);
        let committer = Arc::new(Mutex::new(committer));
        Ok(Self { disk, shared, committer, thread: Mutex::new(None) })
    }

    /// Appends the entries that `fill` puts into the batch, as one unit: after a crash all of them
    /// are there or none. Never waits for the disk; see [`Wal::has_capacity`] for the limit to keep.
    ///
    /// After a failure of the log entries are dropped and never reported durable.
    ///
    /// # Panics
    /// If the batch exceeds [`MAX_APPEND_BYTES`].
    pub fn append(&self, fill: impl FnOnce(&mut Batch<'_>)) -> Appended {
        let mut state = self.shared.state();
        stdx::walk::step("log");
        let (appended, bytes) = state.append(fill);
        self.shared.unsynced_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.wake_if_needed(state);
        appended
    }

    /// Calls `sink` after the next commit, which covers everything appended so far; soon also if
    /// all of that is durable already.
    pub fn watch(&self, sink: Arc<dyn CommitListener>) {
        let mut state = self.shared.state();
        state.watch(sink);
        self.shared.wake_if_needed(state);
    }

    /// As [`Wal::watch`] by a caller who very soon calls [`Wal::commit_here`] or
    /// [`Wal::commit_soon`]: nobody is woken.
    pub fn watch_here(&self, sink: Arc<dyn CommitListener>) {
        self.shared.state().watch(sink);
    }

    /// Commits what somebody waits for on this thread, which saves two changes of threads, and so
    /// about half of what a single publish waits for on a fast disk. **Blocks for a write and a
    /// sync**. Where others commit already or syncs take long, it leaves the work to the commit thread
    /// and returns at once.
    pub fn commit_here(&self) {
        commit::commit_here(&self.shared, &self.committer);
        self.shared.wake_if_needed(self.shared.state());
    }

    /// Has the commit thread commit what was appended, as if somebody had begun to watch.
    pub fn commit_soon(&self) {
        let mut state = self.shared.state();
        state.watch_once();
        self.shared.wake_if_needed(state);
    }

    /// Blocks until `upto` is durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if that will never be.
    pub fn wait_durable(&self, upto: Lsn) -> Result<()> {
        struct DurabilityWaiter {
            wanted: Lsn,
            done: mpsc::Sender<()>,
        }
        impl CommitListener for DurabilityWaiter {
            fn durable(&self, upto: Lsn) -> bool {
                upto < self.wanted || self.done.send(()).is_err()
            }
        }
        if self.durable_upto() >= upto {
            return Ok(());
        }
        let (done, told) = mpsc::channel();
        self.watch(Arc::new(DurabilityWaiter { wanted: upto, done }));
        told.recv().map_err(|_| self.shared.poison_error())
    }

    /// The last entry that is durable, in the sense of the log's [`Durability`].
    #[must_use]
    pub fn durable_upto(&self) -> Lsn {
        Lsn(self.shared.durable_upto.load(Ordering::Acquire))
    }

    /// Bytes appended and not yet synced.
    #[must_use]
    pub fn unsynced_bytes(&self) -> usize {
        self.shared.unsynced_bytes.load(Ordering::Relaxed)
    }

    /// Whether the caller may go on reading from its peers; see [`Wal::poll_capacity`].
    pub fn has_capacity(&self) -> bool {
        self.unsynced_bytes() < self.shared.options.unsynced_bytes_max
    }

    /// True if there is room now; otherwise `waker` is woken once when there is (or when the log
    /// has failed).
    #[must_use = "false means: wait to be woken"]
    pub fn poll_capacity(&self, waker: &Waker) -> bool {
        let mut state = self.shared.state();
        if self.has_capacity() || state.is_dead() {
            return true;
        }
        state.waiters.wait_for_room(waker);
        self.shared.wake_if_needed(state);
        false
    }

    /// Says that `n` more entries of `segment` about `owner` are needed. For what recovery has shown;
    /// an append says it in its batch ([`Batch::retain`]), else the segment might be gone before.
    pub fn retain(&self, segment: SegmentId, owner: Owner, n: u64) {
        self.shared.state().retain(segment, owner, n);
    }

    /// Says that `n` entries of `segment` are no longer needed. The segment is freed when that
    /// holds for all its entries and all older segments, and everything appended until now is
    /// synced (it may be what replaces those entries).
    pub fn release(&self, segment: SegmentId, n: u64) {
        let mut state = self.shared.state();
        state.release(segment, n);
        self.shared.wake_if_needed(state);
    }

    /// Starts freeing unneeded segments: recovery is over, and its entries are retained.
    pub fn start_freeing(&self) {
        let mut state = self.shared.state();
        state.start_freeing();
        self.shared.wake_if_needed(state);
    }

    /// Sets whether space is short: then freed segment files are removed but for one, and commits are left to
    /// the commit thread.
    pub fn set_thrifty(&self, on: bool) {
        if self.shared.is_thrifty.swap(on, Ordering::Relaxed) != on {
            self.commit_soon();
        }
    }

    /// The owners of the needed entries of `segment`, in order; and some whose entries are needed no longer.
    #[must_use]
    pub fn owners_in(&self, segment: SegmentId) -> Vec<Owner> {
        self.shared.state().owners_in(segment)
    }

    /// The log as it is now, for a file beside it.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.shared.options.stamper.stamp()
    }

    /// Figures of this moment.
    #[must_use]
    pub fn stats(&self) -> WalStats {
        let counters = &self.shared.counters;
        let state = self.shared.state();
        WalStats {
            durable_upto: self.durable_upto(),
            unsynced_bytes: self.unsynced_bytes() as u64,
            spare_segments: counters.spare_segments.load(Ordering::Relaxed),
            blocks: counters.blocks.load(Ordering::Relaxed),
            written_bytes: counters.written_bytes.load(Ordering::Relaxed),
            sync_micros: counters.sync_micros.counts(),
            commit_micros: counters.commit_micros.load(Ordering::Relaxed),
            ..state.stats()
        }
    }

    /// The first failure, if there was one: nothing becomes durable any more.
    pub fn poisoned(&self) -> Option<&str> {
        if self.shared.poisoned.load(Ordering::Acquire) {
            return Some(self.shared.failure.get().map_or("", String::as_str));
        }
        None
    }

    /// Writes and syncs everything appended, tells the watchers, stops the thread.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if the log has failed, before or now.
    pub fn close(&self) -> Result<()> {
        let mut state = self.shared.state();
        state.close();
        drop(state);
        self.shared.work.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A watcher may own the last handle; the commit thread cannot wait for itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            return Err(LogError::Poisoned { reason: "a watcher panicked".to_owned() });
        }
        if self.poisoned().is_some() { Err(self.shared.poison_error()) } else { Ok(()) }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`; `on_failure` has been told as well.
        drop(self.close());
    }
}
