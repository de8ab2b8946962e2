//! Keeps backlogs out of memory: runs the jobs of queues' backlogs beside the connections' threads.
//!
//! ```text
//! queue is over its allowance, or its head is cold --(ask)--> [asked] --> jobs: read a page, or append its
//! image
//!                                                                                    |
//!            room, the next job <-- report: note in the log <-- sync of the stores <-+
//! ```
//! Two threads, so that reading never waits for a sync: one takes jobs from queues that asked, the
//! other writes images, reports them, and reclaims files. A queue is locked for one job or report
//! at a time. What fails here ends the log: see [`Pager::failure`].

mod work;

pub use work::PagerStepper;
pub(crate) use work::{ImageWritten, start};

use crate::body_refs::{BodyRefCounter, BodyRefs};
use crate::options::PagerOptions;
use crate::queue::Queue;
use background::Poison;
use background::{Capacity, CapacityWaiters};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::Waker;
use std::thread::JoinHandle;

/// The pager of a node. Dropping it ends its threads.
#[derive(Debug)]
pub struct Pager {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Bytes of all messages in queues, on disk too.
    pub held_bytes: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    options: PagerOptions,
    state: Mutex<State>,
    waiters: CapacityWaiters,
    /// Something is asked for.
    asked: Condvar,
    /// Images wait for a sync, or it is time to reclaim.
    unsynced: Condvar,
    /// The bytes a queue may have in memory now.
    allowance_bytes: AtomicUsize,
    /// Queues that take more than the least allowance.
    n_deep: AtomicUsize,
    /// Bytes that queues take beyond their allowance, together.
    excess_bytes: AtomicU64,
    failure: Poison,
    after_sync: OnceLock<AfterSync>,
}

/// Called after images were written, without any lock.
struct AfterSync(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for AfterSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AfterSync")
    }
}

#[derive(Debug, Default)]
struct State {
    asked: VecDeque<Arc<Queue>>,
    /// Queues that are to write more once what is unsynced has become less.
    deferred: Vec<Arc<Queue>>,
    /// Images in the stores' buffers.
    written: Vec<ImageWritten>,
    unsynced_bytes: usize,
    naming: BodyRefCounter,
    n_at_work: usize,
    is_reclaim_due: bool,
    has_ended: bool,
}

impl State {
    /// Whether something is under way after which there may be more room.
    fn is_busy(&self) -> bool {
        let has_jobs = !self.asked.is_empty() || !self.deferred.is_empty();
        (has_jobs || !self.written.is_empty() || self.n_at_work > 0) && !self.has_ended
    }
}

/// A queue's part in what the pager counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    is_deep: bool,
    excess_bytes: usize,
}

impl Pager {
    pub(crate) fn new(options: PagerOptions) -> Self {
        let allowance_bytes = AtomicUsize::new(options.allowance_bytes_max);
        let shared = Shared {
            options,
            state: Mutex::default(),
            waiters: CapacityWaiters::default(),
            asked: Condvar::new(),
            unsynced: Condvar::new(),
            allowance_bytes,
            n_deep: AtomicUsize::new(0),
            excess_bytes: AtomicU64::new(0),
            failure: Poison::default(),
            after_sync: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), threads: Mutex::default(), held_bytes: AtomicU64::new(0) }
    }

    /// Has `act` called after images were written: the log may be shortened then. Set once.
    pub fn after_sync(&self, act: impl Fn() + Send + Sync + 'static) {
        if self.shared.after_sync.set(AfterSync(Box::new(act))).is_err() {
            tracing::error!("the pager is told twice what to do after a sync");
        }
    }

    /// The bytes a queue may have in memory now.
    pub(crate) fn allowance_bytes(&self) -> usize {
        self.shared.allowance_bytes.load(Ordering::Relaxed)
    }

    /// Runs a queue's jobs soon. The queue sees to it that it asks once.
    pub(crate) fn ask(&self, queue: Arc<Queue>) {
        let mut state = stdx::lock(&self.shared.state);
        if !state.has_ended {
            state.asked.push_back(queue);
        }
        drop(state);
        self.shared.asked.notify_one();
    }

    /// Brings up to date what is counted of a queue that takes `resident_bytes` now.
    pub(crate) fn account(&self, account: &mut Account, resident_bytes: usize) {
        let shared = &*self.shared;
        let is_deep = resident_bytes > shared.options.allowance_bytes_min;
        if is_deep != account.is_deep {
            account.is_deep = is_deep;
            shared.count_deep(is_deep);
        }
        let excess_bytes = resident_bytes.saturating_sub(self.allowance_bytes());
        if excess_bytes >= account.excess_bytes {
            let more = excess_bytes - account.excess_bytes;
            shared.excess_bytes.fetch_add(more as u64, Ordering::Relaxed);
        } else {
            let less = account.excess_bytes - excess_bytes;
            shared.excess_bytes.fetch_sub(less as u64, Ordering::Relaxed);
        }
        account.excess_bytes = excess_bytes;
    }

    /// Queues that take more than they are allowed, though nobody uses them, are to be looked at.
    pub fn has_excess(&self) -> bool {
        self.shared.excess_bytes.load(Ordering::Relaxed) > 0
            || self.allowance_bytes() < self.shared.options.allowance_bytes_max
    }

    /// References of bodies that page images of an earlier life name are to be counted.
    pub fn count_named(&self, names: Vec<BodyRefs>) {
        stdx::lock(&self.shared.state).naming.count(names);
    }

    /// Has references given back that a page's image names, and then the image.
    pub(crate) fn release_named(&self, names: BodyRefs) {
        stdx::lock(&self.shared.state).naming.release(names);
        self.shared.unsynced.notify_one();
    }

    /// Files are looked through for space to give back.
    pub fn reclaim(&self) {
        stdx::lock(&self.shared.state).is_reclaim_due = true;
        self.shared.unsynced.notify_one();
    }

    /// A page that could not be read or written.
    pub(crate) fn failure(&self) -> Poison {
        self.shared.failure.clone()
    }

    /// Does nothing any more, and lets nobody wait.
    pub fn end(&self) {
        self.shared.end();
        let threads = std::mem::take(&mut *stdx::lock(&self.threads));
        threads.into_iter().for_each(background::join);
    }
}

impl Capacity for Pager {
    fn has_capacity(&self) -> bool {
        self.shared.has_capacity()
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.shared.waiters.poll(waker, || self.has_capacity())
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn has_capacity(&self) -> bool {
        self.is_within_limits() || !stdx::lock(&self.state).is_busy()
    }

    fn is_within_limits(&self) -> bool {
        let excess_bytes = self.excess_bytes.load(Ordering::Relaxed);
        excess_bytes < self.options.excess_bytes_max as u64
    }

    fn count_deep(&self, more: bool) {
        let n_deep = if more {
            self.n_deep.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            self.n_deep.fetch_sub(1, Ordering::Relaxed) - 1
        };
        let options = &self.options;
        let share = options.budget_bytes / n_deep.max(1);
        let most = options.allowance_bytes_max.max(options.allowance_bytes_min);
        let allowance_bytes = share.clamp(options.allowance_bytes_min, most);
        self.allowance_bytes.store(allowance_bytes, Ordering::Relaxed);
    }

    fn end(&self) {
        let (queues, written) = {
            let mut state = stdx::lock(&self.state);
            state.has_ended = true;
            state.naming.clear();
            let mut queues = std::mem::take(&mut state.deferred);
            queues.extend(std::mem::take(&mut state.asked));
            let written = std::mem::take(&mut state.written);
            (queues, written)
        };
        self.asked.notify_all();
        self.unsynced.notify_all();
        self.waiters.end();
        // These keep the storage, which keeps this.
        drop((queues, written));
    }

    /// Wakes who waits for room, if there is some.
    fn tell_of_capacity(&self) {
        self.waiters.tell(self.has_capacity());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_allowance_is_a_share_of_the_budget_within_its_limits() {
        let options = PagerOptions {
            budget_bytes: 1_000,
            allowance_bytes_min: 100,
            allowance_bytes_max: 400,
            ..PagerOptions::default()
        };
        let pager = Pager::new(options);
        let mut accounts = [Account::default(); 12];
        let mut seen = Vec::new();
        for account in &mut accounts {
            pager.account(account, 101);
            seen.push(pager.allowance_bytes());
        }
        assert_eq!(seen[..5], [400, 400, 333, 250, 200]);
        assert_eq!(pager.allowance_bytes(), 100);
        for account in &mut accounts {
            pager.account(account, 100);
        }
        assert_eq!(pager.allowance_bytes(), 400);
        assert_eq!(pager.shared.excess_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nobody_waits_for_room_when_nothing_is_under_way() {
        let options = PagerOptions { excess_bytes_max: 10, ..PagerOptions::default() };
        let pager = Pager::new(options);
        let mut account = Account::default();
        pager.account(&mut account, options.allowance_bytes_max + 10);
        assert!(pager.has_capacity(), "nothing could make any");
        stdx::lock(&pager.shared.state).n_at_work = 1;
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        assert!(!pager.has_capacity() && !pager.poll_capacity(&waker));
        pager.shared.tell_of_capacity();
        assert!(!flag.0.load(Ordering::SeqCst));
        pager.account(&mut account, options.allowance_bytes_max + 9);
        pager.shared.tell_of_capacity();
        assert!(flag.0.load(Ordering::SeqCst) && pager.poll_capacity(&waker));
        pager.account(&mut account, options.allowance_bytes_max + 10);
        assert!(!pager.poll_capacity(&waker));
        flag.0.store(false, Ordering::SeqCst);
        pager.end();
        assert!(flag.0.load(Ordering::SeqCst) && pager.has_capacity());
    }
}
