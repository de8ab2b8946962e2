//! The commit thread: swap, write, sync, tell.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use super::segment::SegmentFiles;
use super::state::{Need, Work};
use super::{Durability, Shared};
use crate::error::{LogError, Result};

/// Buffers below this keep their memory for good.
const SHRINK_ABOVE_BYTES: usize = 256 << 10;
/// After so many commits in a row that used little of a large buffer, it is shrunk.
const SHRINK_AFTER_COMMITS: u32 = 64;
/// "Little": less than this fraction.
const SHRINK_BELOW_FRACTION: usize = 8;

/// Everything the commit thread owns.
pub(super) struct Committer {
    shared: Arc<Shared>,
    files: SegmentFiles,
    work: Work,
    little_used: u32,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, files: SegmentFiles) -> Self {
        shared.counters.spare_segments.store(files.spares() as u64, Ordering::Relaxed);
        Self { shared, files, work: Work::default(), little_used: 0 }
    }

    /// The thread's life.
    pub(super) fn run(mut self) {
        let _guard = FailOnPanic(Arc::clone(&self.shared));
        let lazy_sync = self.shared.options.lazy_sync;
        let mut unsynced_since = None;
        loop {
            let need = self.wait();
            let overdue = unsynced_since.is_some_and(|since: Instant| since.elapsed() >= lazy_sync);
            let must_sync = overdue || matches!(need, Need::Lazy | Need::Close);
            if let Err(error) = self.commit(must_sync) {
                self.shared.fail(&error);
                return;
            }
            if need == Need::Close {
                self.close();
                return;
            }
            unsynced_since = if self.files.unsynced_bytes() == 0 {
                None
            } else {
                unsynced_since.or_else(|| Some(Instant::now()))
            };
        }
    }

    /// Sleeps until there is something to do. Lingers for the lazy time after a commit, so that
    /// appends nobody watches wake nobody; sleeps for good if nothing came meanwhile.
    fn wait(&self) -> Need {
        let lazy_sync = self.shared.options.lazy_sync;
        let mut until = Some(Instant::now() + lazy_sync);
        let mut state = self.shared.state();
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
                state.sleep(true);
                let woken = self.shared.work.wait_timeout(state, left);
                woken.unwrap_or_else(std::sync::PoisonError::into_inner).0
            } else if need == Need::Lazy {
                until = Some(Instant::now() + lazy_sync);
                continue;
            } else {
                state.sleep(false);
                let woken = self.shared.work.wait(state);
                woken.unwrap_or_else(std::sync::PoisonError::into_inner)
            };
            state.wake_up();
        }
    }

    /// One group commit: everything appended so far becomes one block (or more, over a segment's
    /// end), is written, synced if that is wanted, and everybody who watches is told.
    fn commit(&mut self, must_sync: bool) -> Result<()> {
        self.shared.state().take(&mut self.work);
        let synced = self.write_and_sync(must_sync)?;
        let upto = match self.shared.options.durability {
            Durability::Sync => self.files.synced(),
            Durability::Write => self.files.written(),
        };
        self.shared.durable_upto.store(upto.0, Ordering::Release);
        self.shared.unsynced_bytes.fetch_sub(synced, Ordering::Relaxed);
        self.work.sinks.retain(|sink| sink.durable(upto));
        self.finish();
        self.free()?;
        self.reuse_buffer();
        Ok(())
    }

    /// Returns the entry bytes that became synced.
    fn write_and_sync(&mut self, must_sync: bool) -> Result<usize> {
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
            synced += self.files.sync()?;
            counters.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(synced)
    }

    /// Puts back who goes on watching, and wakes who waited for room.
    fn finish(&mut self) {
        let mut state = self.shared.state();
        state.put_back(&mut self.work.sinks);
        if self.files.unsynced_bytes() > 0 {
            state.set_lazy();
        }
        let limit = self.shared.options.unsynced_bytes_max;
        let has_room = self.shared.unsynced_bytes.load(Ordering::Relaxed) < limit;
        let wakers = if has_room { state.take_room_wakers() } else { Vec::new() };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Frees what is not needed, oldest first. Only when everything is synced: the header of the
    /// current segment carries the position from which the log goes on.
    fn free(&mut self) -> Result<()> {
        if self.files.unsynced_bytes() > 0 {
            return Ok(());
        }
        loop {
            let (current, synced) = (self.files.current(), self.files.synced());
            let freed = self.shared.state().free_oldest(current, synced);
            let Some(freed) = freed else { return Ok(()) };
            self.files.recycle(freed)?;
            let spares = self.files.spares() as u64;
            self.shared.counters.spare_segments.store(spares, Ordering::Relaxed);
        }
    }

    /// The end of a log that did not fail; everything is synced.
    fn close(&mut self) {
        match self.files.finish() {
            Ok(()) => self.shared.end(),
            Err(error) => self.shared.fail(&error),
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

/// A panic in a watcher must not leave others waiting for ever.
struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "the commit thread panicked".to_owned();
            self.0.fail(&LogError::Poisoned { reason });
        }
    }
}

/// Commits on demand instead of a thread.
pub struct Stepper {
    committer: Committer,
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper").finish_non_exhaustive()
    }
}

impl Stepper {
    pub(super) const fn new(committer: Committer) -> Self {
        Self { committer }
    }

    /// Does what the commit thread would do now, as if the lazy time were over. False if there was
    /// nothing to do or the log has failed.
    pub fn step(&mut self) -> bool {
        let need = self.committer.shared.state().need();
        let shared = Arc::clone(&self.committer.shared);
        if need == Need::Nothing || shared.state().is_dead() {
            return false;
        }
        let must_sync = matches!(need, Need::Lazy | Need::Close);
        if let Err(error) = self.committer.commit(must_sync) {
            shared.fail(&error);
            return false;
        }
        if need == Need::Close {
            self.committer.close();
        }
        true
    }
}
