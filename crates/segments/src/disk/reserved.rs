//! A disk that keeps space back for what must be written when none is left, that waits when the system opens
//! no more files, and that counts what is read and written. Knows names and sizes. Never what is written, nor
//! what for.
//!
//! ```text
//! a write finds no space --> the reserve is given up --> the write is tried again --> the watcher is told
//!          the reserve is made again <-- the owner says so, once there is space enough
//! ```
//! A write that fails without the reserve fails for good, and so does a failed sync: neither is tried again.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::traffic::{Counter, FileKind, FileTraffic, TrafficCounters};
use super::{Disk, DiskFile, DiskLock, OpenMode, Space};

/// The file that takes the space which is kept back.
pub const RESERVE_FILE: &str = "reserve";
/// The most bytes that are kept back.
pub const RESERVE_BYTES_MAX: u64 = 32 << 20;
/// The divisor of the disk's size that gives the reserve of a small disk.
const RESERVE_SHARE: u64 = 8;
/// The time after which opening a file is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The resource a disk has run out of.
#[derive(Debug)]
pub enum Scarcity<'a> {
    /// No space was left for this file: the reserve was given up for it.
    NoSpace {
        /// The file, relative to the disk's root.
        file: &'a str,
    },
    /// The system opens no more files: the thread that needs this one waits.
    NoDescriptors {
        /// The file, relative to the disk's root.
        file: &'a str,
        /// The system's words.
        error: &'a io::Error,
    },
    /// The system opens files again.
    Descriptors {
        /// The time for which it opened none.
        waited: Duration,
    },
}

/// The function that is told what a disk has run out of.
type Watcher = Box<dyn Fn(&Scarcity<'_>) + Send + Sync>;

/// A [`Disk`] with a reserve. Clones are handles to the same disk.
#[derive(Clone, Debug)]
pub struct ReservedDisk(Arc<ReservedDiskState>);

struct ReservedDiskState {
    disk: Arc<dyn Disk>,
    /// Held while the reserve is made or given up.
    changing: Mutex<()>,
    /// The state of the reserve: one of the constants below.
    reserve: AtomicU8,
    n_given_up: AtomicU64,
    watcher: OnceLock<Watcher>,
    waiting: Mutex<OpenWait>,
    ended: Condvar,
    traffic: TrafficCounters,
}

/// The state of a reserve that can be given up.
const THERE: u8 = 0;
/// The state of a reserve that was given up, or is not made yet.
const USED: u8 = 1;
/// The state of a reserve on a file system that cannot keep space back.
const IMPOSSIBLE: u8 = 2;

impl std::fmt::Debug for ReservedDiskState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReservedDisk").field("disk", &self.disk).finish_non_exhaustive()
    }
}

/// The waiting of threads for a file to be opened.
#[derive(Debug, Default)]
struct OpenWait {
    /// Whether threads wait at all: not before somebody watches, nor at the end.
    is_patient: bool,
    since: Option<Instant>,
}

impl ReservedDisk {
    /// `disk` with the reserve it has; if it has none, [`Self::refill`] makes one. Writes nothing. Bytes
    /// read and written are counted by these kinds of file.
    pub fn new(disk: Arc<dyn Disk>, kinds: &[FileKind]) -> Self {
        let reserved = Self(Arc::new(ReservedDiskState {
            disk,
            changing: Mutex::new(()),
            reserve: AtomicU8::new(THERE),
            n_given_up: AtomicU64::new(0),
            watcher: OnceLock::new(),
            waiting: Mutex::default(),
            ended: Condvar::new(),
            traffic: TrafficCounters::new(kinds),
        }));
        let shared = &*reserved.0;
        if !shared.has_whole_reserve() {
            shared.reserve.store(USED, Ordering::Release);
        }
        reserved
    }

    /// Bytes that files were read and written with since the start, by kind.
    #[must_use]
    pub fn traffic(&self) -> Vec<FileTraffic> {
        self.0.traffic.read()
    }

    /// Whether the reserve is given up, or not made yet.
    pub fn is_used(&self) -> bool {
        self.0.reserve.load(Ordering::Acquire) == USED
    }

    /// Whether this file system cannot keep space back.
    pub fn is_without(&self) -> bool {
        self.0.reserve.load(Ordering::Acquire) == IMPOSSIBLE
    }

    /// Makes the reserve again if that leaves `free_bytes` free, and no less than its own size; true if the
    /// reserve is there.
    pub fn refill(&self, free_bytes: u64) -> bool {
        self.0.refill(free_bytes)
    }

    /// Has `watcher` told from now on, and threads wait for descriptors. Only the first call counts.
    pub fn watch(&self, watcher: impl Fn(&Scarcity<'_>) + Send + Sync + 'static) {
        if self.0.watcher.set(Box::new(watcher)).is_ok() {
            self.0.waiting().is_patient = true;
        }
    }

    /// Ends the waiting for descriptors: from now on a file that cannot be opened is an error.
    pub fn end_waiting(&self) {
        self.0.waiting().is_patient = false;
        self.0.ended.notify_all();
    }
}

impl ReservedDiskState {
    /// How large the reserve of this disk is to be.
    fn wanted_bytes(&self) -> io::Result<(u64, Space)> {
        let space = self.disk.space()?;
        Ok(((space.total_bytes / RESERVE_SHARE).min(RESERVE_BYTES_MAX), space))
    }

    fn has_whole_reserve(&self) -> bool {
        let length = self.disk.open(RESERVE_FILE, OpenMode::Existing).and_then(|file| file.len());
        matches!((length, self.wanted_bytes()), (Ok(length), Ok((wanted, _))) if length == wanted)
    }

    fn refill(&self, free_bytes: u64) -> bool {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reserve.load(Ordering::Acquire) != USED {
            return true;
        }
        // A reserve of another size does not count.
        self.remove();
        let Ok((bytes, space)) = self.wanted_bytes() else { return false };
        if space.free_bytes < bytes.saturating_add(free_bytes.max(bytes)) {
            return false;
        }
        let made = self.disk.set_aside(RESERVE_FILE, bytes);
        if made.is_err() {
            self.remove();
        }
        let reserve = match made {
            Ok(()) => THERE,
            Err(error) if is_full(&error) || is_out_of_descriptors(&error) => USED,
            Err(_) => IMPOSSIBLE,
        };
        self.reserve.store(reserve, Ordering::Release);
        reserve != USED
    }

    fn remove(&self) {
        self.disk.remove(RESERVE_FILE).ok();
    }

    /// Gives the reserve up; false if none is there.
    fn give_up(&self, file: &str) -> bool {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.reserve.compare_exchange(THERE, USED, Ordering::AcqRel, Ordering::Acquire);
        if there.is_err() {
            return false;
        }
        self.remove();
        self.n_given_up.fetch_add(1, Ordering::AcqRel);
        drop(changing);
        self.tell(&Scarcity::NoSpace { file });
        true
    }

    fn tell(&self, scarcity: &Scarcity<'_>) {
        if let Some(watcher) = self.watcher.get() {
            watcher(scarcity);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, OpenWait> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation that may find no space, with the reserve if need be.
    fn in_space<T>(&self, file: &str, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            let n_given_up = self.n_given_up.load(Ordering::Acquire);
            let done = act();
            let is_full = done.as_ref().is_err_and(is_full);
            // Another thread may have given the reserve up meanwhile.
            let has_more =
                || self.give_up(file) || self.n_given_up.load(Ordering::Acquire) != n_given_up;
            if !is_full || !has_more() {
                return done;
            }
        }
    }

    /// Runs an operation that opens `file`, and waits while the system opens no more files.
    fn opening<T>(&self, file: &str, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let file = if file.is_empty() { "the data directory" } else { file };
        let mut has_waited = false;
        loop {
            match act() {
                Err(error) if is_out_of_descriptors(&error) && self.wait(file, &error) => {
                    has_waited = true;
                }
                done => {
                    if has_waited {
                        self.end_episode();
                    }
                    return done;
                }
            }
        }
    }

    /// Waits a moment; false if threads are not to wait.
    fn wait(&self, file: &str, error: &io::Error) -> bool {
        let mut waiting = self.waiting();
        if !waiting.is_patient {
            return false;
        }
        if waiting.since.is_none() {
            waiting.since = Some(Instant::now());
            drop(waiting);
            self.tell(&Scarcity::NoDescriptors { file, error });
            waiting = self.waiting();
        }
        let woken = self.ended.wait_timeout(waiting, TRY_AGAIN_AFTER);
        woken.unwrap_or_else(PoisonError::into_inner).0.is_patient
    }

    /// Ends the waiting once a file was opened: other threads that wait have the same chance.
    fn end_episode(&self) {
        let since = self.waiting().since.take();
        if let Some(since) = since {
            self.tell(&Scarcity::Descriptors { waited: since.elapsed() });
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl Disk for ReservedDisk {
    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.0.in_space(dir, || self.0.disk.create_dir(dir))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.0.opening(dir, || self.0.disk.list(dir))
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let open = || self.0.in_space(name, || self.0.disk.open(name, mode));
        let file = self.0.opening(name, open)?;
        let counter = self.0.traffic.of(name);
        Ok(Box::new(ReservedFile { file, name: name.into(), counter, shared: Arc::clone(&self.0) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.in_space(to, || self.0.disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.disk.remove(name)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.0.disk.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.0.opening(dir, || self.0.disk.sync_dir(dir))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.opening("", || self.0.disk.sync_all())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        self.0.disk.lock(name)
    }

    fn root(&self) -> String {
        self.0.disk.root()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.disk.space()
    }

    fn set_aside(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.0.disk.set_aside(name, bytes)
    }
}

/// A file of a [`ReservedDisk`].
#[derive(Debug)]
struct ReservedFile {
    file: Box<dyn DiskFile>,
    name: Box<str>,
    /// The counter of the file's kind.
    counter: Arc<Counter>,
    shared: Arc<ReservedDiskState>,
}

impl DiskFile for ReservedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(at, into)?;
        self.counter.count_read(n);
        Ok(n)
    }

    fn read_at_no_wait(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at_no_wait(at, into)?;
        self.counter.count_read(n);
        Ok(n)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.shared.in_space(&self.name, || self.file.write_at(at, bytes))?;
        self.counter.count_write(bytes.len());
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.shared.in_space(&self.name, || self.file.set_len(bytes))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn forget(&self, at: u64, bytes: u64) {
        self.file.forget(at, bytes);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
}
