//! The pager as queues know it: they ask it for turns, count what they have in memory, and leave it what only
//! page images name. The work is in `pager`.

use crate::body_refs::BodyRefCounter;
use crate::options::PagerOptions;
use crate::paged_queue::PagedQueue;
use crate::storage::Storage;
use background::{Inbox, Pending};
use segments::Poison;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use store::StoreError;
use store::backlog::PageKey;
use store::blob::BlobId;

/// The pager of a node: the inboxes of its two threads, and the memory that backlogs take and may take.
#[derive(Debug)]
pub struct PagerInbox {
    pub(crate) options: PagerOptions,
    /// Queues that asked. The inbox's excess are bytes that queues take beyond their allowance, together.
    pub(crate) jobs: Inbox<Jobs>,
    pub(crate) syncs: Inbox<Syncs>,
    /// The bytes a queue may have in memory now.
    allowance_bytes: AtomicUsize,
    /// Queues that take more than the least allowance.
    n_deep: AtomicUsize,
    /// Bytes of all messages in queues, on disk too.
    held_bytes: AtomicU64,
}

/// The work of the thread that reads pages and makes images.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) asked: VecDeque<Arc<dyn PagedQueue>>,
    /// Queues that are to write more once what is unsynced has become less.
    pub(crate) deferred: Vec<Arc<dyn PagedQueue>>,
    /// Bytes of images that wait for a sync, or are being synced.
    pub(crate) unsynced_bytes: usize,
    pub(crate) is_at_work: bool,
}

impl Pending for Jobs {
    fn may_give_capacity(&self) -> bool {
        let has_jobs = !self.asked.is_empty() || !self.deferred.is_empty();
        has_jobs || self.is_at_work || self.unsynced_bytes > 0
    }
}

/// The work of the thread that syncs images, counts references of bodies, and gives back space.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    /// Images in the stores' buffers.
    pub(crate) written: Vec<ImageWritten>,
    pub(crate) body_refs: BodyRefCounter,
    pub(crate) is_reclaim_due: bool,
}

impl Pending for Syncs {}

/// An image in a store's buffer.
#[derive(Debug)]
pub(crate) struct ImageWritten {
    pub(crate) queue: Arc<dyn PagedQueue>,
    pub(crate) page: PageKey,
    pub(crate) blob: BlobId,
    pub(crate) is_durable: bool,
    pub(crate) bytes: usize,
    /// Bodies were stored for it.
    pub(crate) has_stored: bool,
}

/// A queue's part in what the pager counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    is_deep: bool,
    excess_bytes: usize,
}

impl PagerInbox {
    /// Without any work. A page that cannot be read or written is a `failure`.
    pub fn new(options: PagerOptions, failure: &Poison) -> Arc<Self> {
        Arc::new(Self {
            options,
            jobs: Inbox::new(options.excess_bytes_max as u64, failure),
            syncs: Inbox::new(u64::MAX, failure),
            allowance_bytes: AtomicUsize::new(options.allowance_bytes_max),
            n_deep: AtomicUsize::new(0),
            held_bytes: AtomicU64::new(0),
        })
    }

    /// The bytes a queue may have in memory now.
    pub(crate) fn allowance_bytes(&self) -> usize {
        self.allowance_bytes.load(Ordering::Relaxed)
    }

    /// Whether publishers may go on as far as backlogs' memory goes.
    pub fn has_capacity(&self) -> bool {
        self.jobs.has_capacity()
    }

    /// Runs a queue's jobs soon. The queue sees to it that it asks once.
    pub fn ask(&self, queue: Arc<dyn PagedQueue>) {
        self.jobs.add(|jobs| jobs.asked.push_back(queue));
    }

    /// Brings up to date what is counted of a queue that takes `resident_bytes` now.
    pub(crate) fn account(&self, account: &mut Account, resident_bytes: usize) {
        let is_deep = resident_bytes > self.options.allowance_bytes_min;
        if is_deep != account.is_deep {
            account.is_deep = is_deep;
            self.count_deep(is_deep);
        }
        let excess_bytes = resident_bytes.saturating_sub(self.allowance_bytes());
        if excess_bytes >= account.excess_bytes {
            self.jobs.add_excess((excess_bytes - account.excess_bytes) as u64);
        } else {
            self.jobs.remove_excess((account.excess_bytes - excess_bytes) as u64);
        }
        account.excess_bytes = excess_bytes;
    }

    fn count_deep(&self, more: bool) {
        let n_deep = if more {
            self.n_deep.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            let before = self.n_deep.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a deep queue is counted");
            before - 1
        };
        let options = &self.options;
        let share = options.budget_bytes / n_deep.max(1);
        let most = options.allowance_bytes_max.max(options.allowance_bytes_min);
        let allowance_bytes = share.clamp(options.allowance_bytes_min, most);
        self.allowance_bytes.store(allowance_bytes, Ordering::Relaxed);
    }

    /// A queue's messages take `now` bytes instead of `before`, on disk too.
    pub fn count_held(&self, before: u64, now: u64) {
        if now >= before {
            self.held_bytes.fetch_add(now - before, Ordering::Relaxed);
        } else {
            let all = self.held_bytes.fetch_sub(before - now, Ordering::Relaxed);
            debug_assert!(all >= before - now, "bytes of a queue are counted");
        }
    }

    /// Bytes of all messages in queues, on disk too.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Whether unused queues are to be checked, since queues may take more memory than they are allowed.
    pub fn has_excess(&self) -> bool {
        self.jobs.excess_bytes() > 0 || self.allowance_bytes() < self.options.allowance_bytes_max
    }

    /// Adds a journal to be read: until then nobody knows which bodies it names.
    pub(crate) fn await_journal(&self) {
        self.syncs.update(|syncs| syncs.body_refs.await_journal());
    }

    /// Notes that a journal was read, or that its queue is gone.
    pub fn journal_read(&self) {
        self.syncs.add(|syncs| syncs.body_refs.journal_read());
    }

    /// Has files checked for space to reclaim.
    pub fn reclaim(&self) {
        self.syncs.add(|syncs| syncs.is_reclaim_due = true);
    }

    /// Fails the pager: nothing is reported durable from now on.
    pub(crate) fn fail(&self, storage: &Storage, error: &StoreError) {
        drop(self.jobs.fail(error));
        self.end();
        // The commit thread meets the failure when it commits.
        storage.wal.commit_soon();
    }

    /// Ends the pager's work, and all waits for it.
    pub(crate) fn end(&self) {
        // Queues in the inboxes keep their services, which keep this inbox.
        drop((self.jobs.end(), self.syncs.end()));
    }

    /// Ends the pager's work as `PagerInbox::end` does, and waits for its threads.
    pub fn stop(&self) {
        self.end();
        self.jobs.stop();
        self.syncs.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::task::{Wake, Waker};

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
        let pager = PagerInbox::new(options, &Poison::default());
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
        assert_eq!(pager.jobs.excess_bytes(), 0);
    }

    #[test]
    fn nobody_waits_for_room_when_nothing_is_under_way() {
        let options = PagerOptions { excess_bytes_max: 10, ..PagerOptions::default() };
        let pager = PagerInbox::new(options, &Poison::default());
        let mut account = Account::default();
        pager.account(&mut account, options.allowance_bytes_max + 10);
        assert!(pager.jobs.has_capacity(), "nothing could make any");
        pager.jobs.add(|jobs| jobs.is_at_work = true);
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        assert!(!pager.jobs.has_capacity() && !pager.jobs.poll_capacity(&waker));
        pager.jobs.tell_of_capacity();
        assert!(!flag.0.load(Ordering::SeqCst));
        pager.account(&mut account, options.allowance_bytes_max + 9);
        pager.jobs.tell_of_capacity();
        assert!(flag.0.load(Ordering::SeqCst) && pager.jobs.poll_capacity(&waker));
        pager.account(&mut account, options.allowance_bytes_max + 10);
        assert!(!pager.jobs.poll_capacity(&waker));
        flag.0.store(false, Ordering::SeqCst);
        pager.stop();
        assert!(flag.0.load(Ordering::SeqCst) && pager.jobs.has_capacity());
    }
}
