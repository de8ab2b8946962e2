//! The queue's side of paging: jobs of its backlog, and what comes of them.

use super::state::QueueState;
use super::{Queue, Wakes};
use crate::log_records;
use crate::message_store::BodyStore;
use crate::pager::Account;
use crate::storage::Storage;
use queue::PositionRange;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};
use store::backlog::{Dropped, Image, Job, LoadedPage, Lookup, PageKey, Written};
use store::blob::BlobId;

/// What a queue under its lock knows about its paging.
#[derive(Debug, Default)]
pub(super) struct Paging {
    /// The pager is to come, or is at it.
    is_asked: bool,
    account: Account,
    /// Who waits for the first ready message to be in memory.
    waiting: Vec<Waker>,
    /// Of two messages that are wanted, one to be given out and one to be dead-lettered, the latter is
    /// read next.
    is_turn_of_departing: bool,
}

impl Queue {
    pub(crate) const fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    pub(crate) const fn bodies(&self) -> &Arc<BodyStore> {
        &self.bodies
    }

    /// Whether nothing can be delivered before a page is read.
    #[must_use]
    pub fn waits_for_page(&self) -> bool {
        stdx::lock(&self.local).is_head_cold()
    }

    /// Pages of the backlog that are not in memory.
    #[must_use]
    pub fn pages_on_disk(&self) -> usize {
        let local = stdx::lock(&self.local);
        local.backlog.n_pages() - local.backlog.n_pages_here()
    }

    /// The next job of the pager's turn. After none, the queue asks anew when there is one.
    pub(crate) fn next_page_job(&self, image: &mut Image) -> Option<Job> {
        let mut local = stdx::lock(&self.local);
        let head = local.head();
        let allowance_bytes = self.storage.pager.allowance_bytes();
        local.backlog.only_read(self.storage.is_short());
        let job = local.backlog.next_job(&self.storage.pool, head, allowance_bytes, image);
        local.paging.is_asked = job.is_some();
        local.account(&self.storage);
        job
    }

    /// Asks the pager if there is something to do.
    pub(crate) fn look_at_pages(&self) {
        self.with(|_, _| ());
    }

    /// A page's image is where it is to be, and durable if it is to be.
    pub(crate) fn page_written(&self, page: PageKey, blob: BlobId, is_durable: bool) {
        self.with(|local, _| {
            match local.backlog.written(page, blob) {
                Some(written) => local.note_page(self, page, &written),
                // It was emptied meanwhile.
                None => {
                    self.storage.images.store(is_durable).release(blob, 1);
                }
            }
        });
    }

    /// A page was read, or why it cannot be.
    pub(crate) fn page_loaded(&self, page: PageKey, loaded: Result<LoadedPage, String>) {
        self.with(|local, wakes| {
            local.paging.is_turn_of_departing ^= true;
            let pool = &self.storage.pool;
            let result = loaded.and_then(|loaded| {
                let arrived = local.backlog.loaded(pool, page, loaded);
                arrived.map_err(|error| error.to_string())
            });
            match result {
                Ok(None) => {}
                Ok(Some(arrived)) => {
                    if let Some(freed) = &arrived.page {
                        self.storage.free_page(freed.clone(), &self.bodies);
                    }
                    self.bodies.release(arrived.bodies.iter().copied());
                    if !arrived.lost.is_empty() {
                        let lost = arrived.lost.iter().map(|at| *at..at + 1);
                        local.lose(self, lost, "they cannot be read, or their bodies");
                    }
                }
                Err(reason) => {
                    if let Some((lost, dropped)) = local.backlog.failed(pool, page) {
                        local.lose(self, lost.into_iter(), &reason);
                        local.let_go(self, dropped);
                    }
                }
            }
            local.dispatch(self, wakes);
        });
    }

    /// Resolves when the first ready message is in memory, or there is none.
    pub(crate) async fn head_in_memory(&self) {
        poll_fn(|context| {
            self.with(|local, _| {
                if local.is_deleted() || !local.is_head_cold() {
                    return Poll::Ready(());
                }
                stdx::add_waker(&mut local.paging.waiting, context.waker());
                Poll::Pending
            })
        })
        .await;
    }
}

impl QueueState {
    /// The position whose message is wanted in memory: the first ready one or the first one that is to
    /// be dead-lettered; else the one the next message gets.
    fn head(&self) -> u64 {
        if let Some(departing) = self.departing().filter(|_| !self.are_letters_waiting()) {
            let is_cold = matches!(self.backlog.get(departing), Lookup::Cold);
            let is_next = self.paging.is_turn_of_departing || !self.is_head_cold();
            let is_wanted = if is_cold { is_next } else { self.awaits_keeper() };
            if is_wanted {
                return departing;
            }
        }
        self.fifo.head().unwrap_or_else(|| self.fifo.next_position())
    }

    /// Whether the first ready message is on disk only.
    pub(super) fn is_head_cold(&self) -> bool {
        let head = self.fifo.head();
        head.is_some_and(|head| matches!(self.backlog.get(head), Lookup::Cold))
    }

    /// Brings up to date what depends on the backlog, after every operation. True if the pager is
    /// to be asked.
    pub(super) fn settle_paging(&mut self, storage: &Storage, wakes: &mut Wakes) -> bool {
        self.account(storage);
        if !self.paging.waiting.is_empty() && (self.is_deleted() || !self.is_head_cold()) {
            wakes.extend(self.paging.waiting.drain(..));
        }
        if self.paging.is_asked {
            return false;
        }
        let allowance_bytes = storage.pager.allowance_bytes();
        self.backlog.only_read(storage.is_short());
        self.paging.is_asked = self.backlog.wants_job(self.head(), allowance_bytes);
        self.paging.is_asked
    }

    fn account(&mut self, storage: &Storage) {
        storage.pager.account(&mut self.paging.account, self.backlog.resident_bytes());
    }

    /// Notes in the log that messages are in a page's image, in place of where they were.
    fn note_page(&mut self, queue: &Queue, page: PageKey, written: &Written) {
        let storage = &queue.storage;
        if let Some(note) = &written.note {
            let appended = log_records::append_paged(&storage.wal, queue.id().0, note);
            self.backlog.paged_in_log(page, appended.segment);
        }
        for (segment, n) in &written.segments {
            storage.wal.release(*segment, *n);
        }
        if let Some(replaced) = &written.replaced {
            storage.free_page(replaced.clone(), &queue.bodies);
        }
    }

    /// Messages are damaged: nobody is given them.
    fn lose(&mut self, queue: &Queue, lost: impl Iterator<Item = Range<u64>>, reason: &str) {
        let range = |range: Range<u64>| PositionRange { start: range.start, end: range.end };
        let lost: Vec<_> = lost.map(range).collect();
        let n_lost: u64 = lost.iter().map(|range| range.len()).sum();
        stdx::lock(&queue.storage.losses).n_messages += n_lost;
        tracing::error!(
            queue = %queue.def.name,
            vhost = %queue.def.vhost,
            "{n_lost} messages are lost, positions {lost:?}: {reason}"
        );
        for range in &lost {
            self.fifo.discard(*range);
            self.not_consumed(*range);
        }
        if queue.def.durable {
            log_records::append_purged(queue.wal(), queue.id().0, &lost);
        }
    }

    /// Gives back what messages had that went together. The log knows that they are gone.
    pub(super) fn let_go(&self, queue: &Queue, dropped: Dropped) {
        for (segment, n) in dropped.segments {
            queue.wal().release(segment, n);
        }
        queue.bodies.release(dropped.bodies);
        for freed in dropped.pages {
            queue.storage.free_page(freed, &queue.bodies);
        }
    }
}
