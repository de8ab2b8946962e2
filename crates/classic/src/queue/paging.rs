//! The queue's side of paging: jobs of its backlog, and their results.

use super::Queue;
use super::policy::Policy;
use content::{Content, Journal, Lost, PagedQueue, Paging, Services, Storage};
use delivery::Sending;
use message_store::BodyStore;
use meta::QueueDef;
use queue::{Fifo, Standings};
use queue_type::Wakes;
use std::ops::Range;
use std::sync::Arc;
use store::backlog::{
    BacklogBrowser, ColdPage, FoundPage, Image, Job, LoadedPage, Lookup, PageBitmap, PageKey,
    Toward,
};
use store::blob::BlobId;

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
        let sending = self.policy.sending();
        let departing = self.policy.departing().filter(|_| sending != Sending::WaitsForSpace);
        if let Some(departing) = departing {
            let is_cold = matches!(self.content.backlog.get(departing), Lookup::Cold);
            let is_next = self.paging.is_turn_of_departing || !self.is_head_cold();
            let is_wanted = if is_cold { is_next } else { sending == Sending::Asked };
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
        let may_ask = self.paging.account(services, &self.content.backlog);
        if self.paging.is_waited_for() && (is_deleted || !self.is_head_cold()) {
            self.paging.wake(wakes);
        }
        if !may_ask {
            return false;
        }
        let head = self.head();
        self.paging.ask(services, &mut self.content.backlog, head)
    }

    /// Standings of the messages at `positions`.
    fn standings(&self, positions: &Range<u64>) -> Standings {
        let held = self.fifo.consumers().held().map(|(_, position)| position);
        Standings::of(self.fifo.messages(), positions, held, self.policy.all_departing())
    }

    /// The next job of the pager's turn.
    fn next_job(&mut self, services: &Services, image: &mut Image) -> Option<Job> {
        let head = self.head();
        self.paging.next_job(services, &mut self.content.backlog, head, image)
    }
}

impl PagedQueue for Queue {
    fn def(&self) -> &Arc<QueueDef> {
        &self.def
    }

    fn storage(&self) -> &Storage {
        self.context.storage()
    }

    fn bodies(&self) -> &Arc<BodyStore> {
        &self.bodies
    }

    fn find(&self, toward: Toward) -> Option<(FoundPage, Standings)> {
        let mut state = stdx::lock(&self.state);
        let found = BacklogBrowser::of(&state.content.backlog).find(self.pool(), toward)?;
        let standings = state.paging_turn().standings(&found.span);
        Some((found, standings))
    }

    fn still(&self, page: &ColdPage) -> Option<(PageBitmap, Standings)> {
        let mut state = stdx::lock(&self.state);
        let live = BacklogBrowser::of(&state.content.backlog).live_in(page)?;
        let standings = state.paging_turn().standings(&live.span_from(page.page.first()));
        Some((live, standings))
    }

    fn journal(&self) -> Option<Arc<Journal>> {
        self.upkeep().journal()
    }

    fn waits_for_page(&self) -> bool {
        self.inspect().waits_for_page()
    }

    fn next_job(&self, image: &mut Image) -> Option<Job> {
        stdx::lock(&self.state).paging_turn().next_job(&self.services, image)
    }

    fn written(&self, page: PageKey, blob: BlobId, is_durable: bool) {
        self.with(|state, _| state.content.upkeep(self).written(page, blob, is_durable));
    }

    fn loaded(&self, page: PageKey, loaded: Result<LoadedPage, String>) {
        self.with(|state, wakes| {
            state.paging.is_turn_of_departing ^= true;
            if let Some(Lost { positions, reason, dropped }) =
                state.content.upkeep(self).loaded(page, loaded)
            {
                state.leaving().lose(self, positions.into_iter(), &reason);
                state.content.free(self, dropped);
            }
            state.deliveries().dispatch(self, wakes);
        });
    }
}
