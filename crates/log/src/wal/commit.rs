//! The group commit (swap, write, sync, tell), and the thread that commits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::buffer::CommitWork;
use super::segment::SegmentFiles;
use super::waiters::Need;
use super::{CommitListener, Durability, SYNC_MICROS, SharedWal};
use crate::error::{LogError, Result};

/// The size below which a buffer keeps its memory for good.
const SHRINK_ABOVE_BYTES: usize = 256 << 10;
/// Commits in a row that used little of a large buffer, after which it is shrunk.
const SHRINK_AFTER_COMMITS: u32 = 64;
/// The divisor of a buffer's size below which a commit used little of it.
const SHRINK_BELOW_FRACTION: usize = 8;
/// About how many of the last syncs `sync_time` averages.
const N_SYNCS_LATELY: u32 = 8;

/// The state that a commit needs, by the commit thread or by a caller that cannot wait for it.
pub(super) struct Committer {
    shared: Arc<SharedWal>,
    files: SegmentFiles,
    work: CommitWork,
    little_used: u32,
    /// When the oldest of what is written and not synced was written.
    unsynced_since: Option<Instant>,
    /// The time that writes with a sync took lately.
    sync_time: Duration,
}

/// Commits on a thread of its own until the log is closed or has failed.
pub(super) fn run(shared: &Arc<SharedWal>, committer: &Mutex<Committer>) {
    let _guard = FailOnPanic(shared);
    loop {
        let need = shared.wait();
        // Poisoned by a panic that has failed the log.
        let Ok(mut committer) = committer.lock() else { return };
        if committer.commit(need).is_err() || need == Need::Close {
            return;
        }
    }
}

/// Commits on the caller's thread, if that is wanted, nobody commits just now, and the disk is fast.
pub(super) fn commit_here(shared: &Arc<SharedWal>, committer: &Mutex<Committer>) {
    let Ok(mut committer) = committer.try_lock() else { return };
    if committer.sync_time > shared.options.sync_here_max {
        return;
    }
    // A commit that may have to wait for space or for a file to be opened is left to the commit thread.
    let may_wait = || shared.state().opens_files(committer.files.current());
    if shared.is_thrifty() || may_wait() {
        return;
    }
    let need = shared.state().need();
    if need == Need::Now {
        let _guard = FailOnPanic(shared);
        // The log says itself that it failed.
        let _failed = committer.commit(need).is_err();
    }
}

impl SharedWal {
    /// Sleeps until there is something to do. Lingers for the lazy time after a commit, so that
    /// appends nobody watches wake nobody; sleeps for good if nothing came meanwhile.
    fn wait(&self) -> Need {
        let lazy_sync = self.options.lazy_sync;
        let mut until = Some(Instant::now() + lazy_sync);
        let mut state = self.state();
        loop {
            let need = state.need();
            if matches!(need, Need::Now | Need::Close) {
                return need;
            }
            state = if let Some(deadline) = until {
                let left = deadline.saturating_duration_since(Instant::now());
                match (left.is_zero(), need) {
                    (true, Need::Lazy) => return need,
                    (true, _) => {
                        until = None;
                        continue;
                    }
                    (false, _) => {}
                }
                state.waiters.sleep(true);
                let woken = self.work.wait_timeout(state, left);
                woken.unwrap_or_else(std::sync::PoisonError::into_inner).0
            } else if need == Need::Lazy {
                until = Some(Instant::now() + lazy_sync);
                continue;
            } else {
                state.waiters.sleep(false);
                let woken = self.work.wait(state);
                woken.unwrap_or_else(std::sync::PoisonError::into_inner)
            };
            state.waiters.wake_up();
        }
    }
}

impl Committer {
    pub(super) fn new(shared: Arc<SharedWal>, files: SegmentFiles) -> Self {
        let (work, unsynced_since, sync_time) = (CommitWork::default(), None, Duration::ZERO);
        let committer = Self { shared, files, work, little_used: 0, unsynced_since, sync_time };
        committer.count_spares();
        committer
    }

    /// Commits for a reason. After an error the log has failed.
    fn commit(&mut self, need: Need) -> Result<()> {
        if self.shared.state().is_dead() {
            return Err(self.shared.poison_error());
        }
        let lazy_sync = self.shared.options.lazy_sync;
        let is_overdue = self.unsynced_since.is_some_and(|since| since.elapsed() >= lazy_sync);
        let must_sync = is_overdue || matches!(need, Need::Lazy | Need::Close);
        self.shared.state().take(&mut self.work);
        // The listeners are dropped after a failure, when it has been told.
        let mut sinks = std::mem::take(&mut self.work.sinks);
        self.commit_group(&mut sinks, must_sync).inspect_err(|error| self.shared.fail(error))?;
        self.work.sinks = sinks;
        if need == Need::Close {
            self.close();
        }
        self.unsynced_since = match self.files.unsynced_bytes() {
            0 => None,
            _ => self.unsynced_since.or_else(|| Some(Instant::now())),
        };
        Ok(())
    }

    /// Commits a group: everything appended so far becomes a block (or more, over a segment's end), is
    /// written, synced if that is wanted, and every listener is told.
    fn commit_group(
        &mut self,
        sinks: &mut Vec<Arc<dyn CommitListener>>,
        must_sync: bool,
    ) -> Result<()> {
        let synced = self.write_and_sync(must_sync)?;
        let upto = match self.shared.options.durability {
            Durability::Sync => self.files.synced(),
            Durability::Write => self.files.written(),
        };
        let before = self.shared.durable_upto.swap(upto.0, Ordering::Release);
        assert!(before <= upto.0, "what is durable stays durable");
        self.shared.unsynced_bytes.fetch_sub(synced, Ordering::Relaxed);
        // Before anybody is told: what a killed process has confirmed is known to have been synced.
        if self.shared.options.stamper.stamp().synced < self.files.synced() {
            self.shared.options.stamper.synced(self.files.synced());
            self.files.tell_synced();
        }
        sinks.retain(|sink| sink.durable(upto));
        self.finish(sinks);
        self.free()?;
        self.reuse_buffer();
        Ok(())
    }

    /// Writes, and syncs if that is wanted or due. Returns the entry bytes that became synced.
    fn write_and_sync(&mut self, must_sync: bool) -> Result<usize> {
        let began = Instant::now();
        let counters = &self.shared.counters;
        if let Some(before_commit) = &self.shared.options.before_commit {
            before_commit()?;
        }
        let mut synced = std::mem::take(&mut self.work.beside_bytes);
        for block in &mut self.work.blocks {
            synced += self.files.write(block)?;
            counters.blocks.fetch_add(1, Ordering::Relaxed);
            counters.written_bytes.fetch_add(block.bytes.len() as u64, Ordering::Relaxed);
        }
        let unsynced = self.files.unsynced_bytes();
        let sync = match self.shared.options.durability {
            Durability::Sync => unsynced > 0,
            Durability::Write => {
                unsynced >= self.shared.options.eager_bytes() || (must_sync && unsynced > 0)
            }
        };
        if sync {
            stdx::walk::step("sync");
            let sync_began = Instant::now();
            synced += self.files.sync()?;
            self.sync_time = lately(self.sync_time, began.elapsed());
            counters.sync_micros.note(&SYNC_MICROS, micros(sync_began.elapsed()));
            counters.commit_micros.store(micros(self.sync_time), Ordering::Relaxed);
        }
        Ok(synced)
    }

    /// Puts back the listeners that go on watching, and wakes the tasks that waited for room.
    fn finish(&self, sinks: &mut Vec<Arc<dyn CommitListener>>) {
        let mut state = self.shared.state();
        state.waiters.put_back(sinks);
        if self.files.unsynced_bytes() > 0 {
            state.set_lazy();
        }
        let limit = self.shared.options.unsynced_bytes_max;
        let has_capacity = self.shared.unsynced_bytes.load(Ordering::Relaxed) < limit;
        let wakers = if has_capacity { state.waiters.take_room_wakers() } else { Vec::new() };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Frees what is not needed, oldest first. Only when everything is synced: the header of the
    /// current segment carries the position from which the log goes on.
    fn free(&mut self) -> Result<()> {
        if self.files.unsynced_bytes() > 0 {
            return Ok(());
        }
        self.files.keep_spares(self.shared.spare_segments())?;
        let (current, synced) = (self.files.current(), self.files.synced());
        let (freed, oldest) = self.shared.state().free_oldest(current, synced);
        if !freed.is_empty() {
            self.files.free(&freed, oldest)?;
        }
        self.count_spares();
        Ok(())
    }

    fn count_spares(&self) {
        let spares = self.files.spares() as u64;
        self.shared.counters.spare_segments.store(spares, Ordering::Relaxed);
    }

    /// Ends a log that did not fail; everything is synced.
    fn close(&mut self) {
        match self.files.finish() {
            Ok(()) => self.shared.end(),
            Err(error) => self.shared.fail(&error.into()),
        }
    }

    fn reuse_buffer(&mut self) {
        let largest = self.work.blocks.drain(..).max_by_key(|block| block.bytes.capacity());
        let Some(block) = largest else { return };
        let used = block.bytes.len();
        let mut buffer = block.bytes;
        buffer.clear();
        let is_large = buffer.capacity() > SHRINK_ABOVE_BYTES;
        if is_large && used < buffer.capacity() / SHRINK_BELOW_FRACTION {
            self.little_used += 1;
            if self.little_used > SHRINK_AFTER_COMMITS {
                buffer.shrink_to(SHRINK_ABOVE_BYTES.max(2 * used));
            }
        } else if is_large {
            self.little_used = 0;
        }
        self.work.buffer = buffer;
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A moving average: what was lately, and now.
fn lately(before: Duration, now: Duration) -> Duration {
    (before * (N_SYNCS_LATELY - 1) + now) / N_SYNCS_LATELY
}

/// Fails the log on a panic: one in a watcher must not leave others waiting for ever.
struct FailOnPanic<'a>(&'a SharedWal);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "a watcher of the log panicked".to_owned();
            self.0.fail(&LogError::Poisoned { reason });
        }
    }
}

/// Commits on demand instead of a thread.
pub struct Stepper {
    shared: Arc<SharedWal>,
    committer: Arc<Mutex<Committer>>,
}

stdx::debug_of!(|_it: Stepper|);

impl Stepper {
    pub(super) const fn new(shared: Arc<SharedWal>, committer: Arc<Mutex<Committer>>) -> Self {
        Self { shared, committer }
    }

    /// Does what the commit thread would do now, as if the lazy time were over. False if there was
    /// nothing to do or the log has failed.
    pub fn step(&mut self) -> bool {
        let need = self.shared.state().need();
        if need == Need::Nothing || self.shared.state().is_dead() {
            return false;
        }
        self.committer.lock().is_ok_and(|mut committer| committer.commit(need).is_ok())
    }
}
