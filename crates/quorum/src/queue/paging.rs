//! Paging: the messages that a queue wants in memory, and its part in the work of the pager.

use super::QuorumQueue;
use super::state::QueueState;
use content::{Journal, Lost, PagedQueue, Services, Storage};
use message_store::BodyStore;
use meta::QueueDef;
use queue::Standings;
use queue_type::Wakes;
use std::sync::Arc;
use store::backlog::{
    BacklogBrowser, ColdPage, FoundPage, Image, Job, LoadedPage, Lookup, PageBitmap, PageKey,
    Toward,
};
use store::blob::BlobId;

impl QueueState {
    /// The position whose message is wanted in memory: one that a consumer waits for, a dead letter, or one
    /// that is looked at; else the first ready one, or the one the next message gets.
    fn head(&self) -> u64 {
        let is_cold = |at: &u64| matches!(self.content.backlog.get(*at), Lookup::Cold);
        let assigned = self.members.waiting().map(|(_, assigned)| assigned.position);
        let letter =
            self.letters.are_wanted().then(|| self.letters.first(self.machine.facts())).flatten();
        let wanted = assigned.chain(letter).chain(self.members.peeked).find(is_cold);
        let wanted = wanted.or(letter).or_else(|| self.machine.facts().ready().next());
        wanted.unwrap_or_else(|| self.machine.facts().next_position())
    }

    fn is_head_cold(&self) -> bool {
        matches!(self.content.backlog.get(self.head()), Lookup::Cold)
    }

    /// Brings up to date what depends on the backlog, after every turn. True if the pager is to be asked.
    pub(crate) fn settle_paging(&mut self, services: &Services, wakes: &mut Wakes) -> bool {
        let may_ask = self.paging.account(services, &self.content.backlog);
        if self.paging.is_waited_for() && (self.is_deleted || !self.is_awaited_cold()) {
            self.paging.wake(wakes);
        }
        if !may_ask {
            return false;
        }
        let head = self.head();
        self.paging.ask(services, &mut self.content.backlog, head)
    }

    fn is_awaited_cold(&self) -> bool {
        let mut awaited =
            self.members.peeked.into_iter().chain(self.machine.facts().ready().next());
        awaited.any(|at| matches!(self.content.backlog.get(at), Lookup::Cold))
    }
}

impl PagedQueue for QuorumQueue {
    fn def(&self) -> &Arc<QueueDef> {
        self.context.def()
    }

    fn storage(&self) -> &Storage {
        self.context.storage()
    }

    fn bodies(&self) -> &Arc<BodyStore> {
        &self.context.bodies
    }

    fn waits_for_page(&self) -> bool {
        stdx::lock(&self.state).is_head_cold()
    }

    fn next_job(&self, image: &mut Image) -> Option<Job> {
        let mut state = stdx::lock(&self.state);
        let head = state.head();
        let QueueState { paging, content, .. } = &mut *state;
        paging.next_job(&self.context.services, &mut content.backlog, head, image)
    }

    fn written(&self, page: PageKey, blob: BlobId, is_durable: bool) {
        self.with(|turn| {
            turn.state.content.upkeep(&self.context).written(page, blob, is_durable);
        });
    }

    fn loaded(&self, page: PageKey, loaded: Result<LoadedPage, String>) {
        self.with(|turn| {
            let lost = turn.state.content.upkeep(&self.context).loaded(page, loaded);
            if let Some(Lost { positions, reason, dropped }) = lost {
                let n_lost: u64 = positions.iter().map(|range| range.end - range.start).sum();
                self.context.storage().count_lost(n_lost);
                self.context.storage().tell_lost(self.def(), &reason, n_lost);
                turn.state.content.free(&self.context, dropped);
            }
            let backlog = &turn.state.content.backlog;
            turn.state.members.peeked =
                turn.state.members.peeked.filter(|at| matches!(backlog.get(*at), Lookup::Cold));
            turn.feed_waiting();
        });
    }

    fn find(&self, toward: Toward) -> Option<(FoundPage, Standings)> {
        let state = stdx::lock(&self.state);
        let pool = self.context.pool();
        let found = BacklogBrowser::of(&state.content.backlog).find(pool, toward)?;
        let standings = state.machine.facts().standings(&found.span);
        Some((found, standings))
    }

    fn still(&self, page: &ColdPage) -> Option<(PageBitmap, Standings)> {
        let state = stdx::lock(&self.state);
        let live = BacklogBrowser::of(&state.content.backlog).live_in(page)?;
        let standings = state.machine.facts().standings(&live.span_from(page.page.first()));
        Some((live, standings))
    }

    fn journal(&self) -> Option<Arc<Journal>> {
        None
    }
}
