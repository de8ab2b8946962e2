//! The queue's side of paging: jobs of its backlog, and what comes of them.

use super::content::Content;
use super::pager_inbox::Account;
use super::policy::Policy;
use super::{Queue, Services};
use queue::Fifo;
use queue_type::Wakes;
use std::task::Waker;
use store::backlog::{Image, Job, LoadedPage, Lookup, PageKey};
use store::blob::BlobId;

/// The state of a queue's paging.
#[derive(Debug, Default)]
pub(super) struct Paging {
    /// The pager is to come, or is at it.
    is_asked: bool,
    account: Account,
    /// Who waits for the first ready message to be in memory.
    pub(super) waiting: Vec<Waker>,
    /// Of two messages that are wanted, one to be given out and one to be dead-lettered, the latter is
    /// read next.
    is_turn_of_departing: bool,
}

/// The parts of a queue that have to do with what is wanted in memory.
pub(super) struct PagingTurn<'s> {
    pub(super) fifo: &'s Fifo,
    pub(super) content: &'s mut Content,
    pub(super) policy: &'s Policy,
    pub(super) paging: &'s mut Paging,
}

impl PagingTurn<'_> {
    /// The position whose message is wanted in memory: the first ready one or the first one that is to
    /// be dead-lettered; else the one the next message gets.
    fn head(&self) -> u64 {
        let departing = self.policy.departing().filter(|_| !self.policy.are_letters_waiting());
        if let Some(departing) = departing {
            let is_cold = matches!(self.content.backlog.get(departing), Lookup::Cold);
            let is_next = self.paging.is_turn_of_departing || !self.is_head_cold();
            let is_wanted = if is_cold { is_next } else { self.policy.is_sending_asked() };
            if is_wanted {
                return departing;
            }
        }
        self.fifo.messages().head().unwrap_or_else(|| self.fifo.messages().next_position())
    }

    /// Whether the first ready message is on disk only.
    pub(super) fn is_head_cold(&self) -> bool {
        let head = self.fifo.messages().head();
        head.is_some_and(|head| matches!(self.content.backlog.get(head), Lookup::Cold))
    }

    /// Brings up to date what depends on the backlog, after every operation. True if the pager is
    /// to be asked.
    pub(super) fn settle(
        &mut self,
        services: &Services,
        is_deleted: bool,
        wakes: &mut Wakes,
    ) -> bool {
        self.account(services);
        if !self.paging.waiting.is_empty() && (is_deleted || !self.is_head_cold()) {
            wakes.extend(self.paging.waiting.drain(..));
        }
        if self.paging.is_asked {
            return false;
        }
        let allowance_bytes = services.pager.allowance_bytes();
        let (head, mut jobs) = (self.head(), self.content.backlog.jobs());
        jobs.only_read(services.storage.is_short());
        self.paging.is_asked = jobs.are_wanted(head, allowance_bytes);
        self.paging.is_asked
    }

    fn account(&mut self, services: &Services) {
        services.pager.account(&mut self.paging.account, self.content.backlog.resident_bytes());
    }

    /// The next job of the pager's turn.
    fn next_job(&mut self, services: &Services, image: &mut Image) -> Option<Job> {
        let head = self.head();
        let allowance_bytes = services.pager.allowance_bytes();
        let mut jobs = self.content.backlog.jobs();
        jobs.only_read(services.storage.is_short());
        let job = jobs.next(&services.storage.pool, head, allowance_bytes, image);
        self.paging.is_asked = job.is_some();
        self.account(services);
        job
    }
}

/// A queue as the pager sees it: jobs of its backlog, and what comes of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paged<'q>(pub(crate) &'q Queue);

impl Paged<'_> {
    /// The next job of the pager's turn. After none, the queue asks anew when there is one.
    pub(crate) fn next_job(&self, image: &mut Image) -> Option<Job> {
        stdx::lock(&self.0.state).paging_turn().next_job(&self.0.services, image)
    }

    /// A page's image is where it is to be, and durable if it is to be.
    pub(crate) fn written(&self, page: PageKey, blob: BlobId, is_durable: bool) {
        self.0.with(|state, _| {
            match state.content.backlog.jobs().written(page, blob) {
                Some(written) => state.content.note_page(self.0, page, &written),
                // It was emptied meanwhile.
                None => {
                    self.0.services.storage.images.store(is_durable).release(blob, 1);
                }
            }
        });
    }

    /// A page was read, or why it cannot be.
    pub(crate) fn loaded(&self, page: PageKey, loaded: Result<LoadedPage, String>) {
        self.0.with(|state, wakes| {
            state.paging.is_turn_of_departing ^= true;
            let pool = &self.0.services.storage.pool;
            let result = loaded.and_then(|loaded| {
                let arrived = state.content.backlog.loaded(pool, page, loaded);
                arrived.map_err(|error| error.to_string())
            });
            match result {
                Ok(None) => {}
                Ok(Some(arrived)) => {
                    if let Some(freed) = &arrived.page {
                        self.0.services.free_page(freed.clone(), &self.0.bodies);
                    }
                    self.0.bodies.release(arrived.bodies.iter().copied());
                    if !arrived.lost.is_empty() {
                        let lost = arrived.lost.iter().map(|at| *at..at + 1);
                        state.leaving().lose(self.0, lost, "they cannot be read, or their bodies");
                    }
                }
                Err(reason) => {
                    if let Some((lost, dropped)) = state.content.backlog.failed(pool, page) {
                        state.leaving().lose(self.0, lost.into_iter(), &reason);
                        state.content.free(self.0, dropped);
                    }
                }
            }
            state.deliveries().dispatch(self.0, wakes);
        });
    }
}
