//! A queue's paging: whether the pager was asked, and who waits for a page.

use crate::pager_inbox::Account;
use crate::services::Services;
use queue_type::Wakes;
use std::task::Waker;
use store::backlog::{Backlog, Image, Job};

/// The state of a queue's paging.
#[derive(Debug, Default)]
pub struct Paging {
    /// Whether the pager was asked for a turn that has not ended.
    is_asked: bool,
    account: Account,
    /// Wakers of tasks that wait for the first ready message to be in memory.
    waiting: Vec<Waker>,
    /// Whether the next message read is one to be dead-lettered, if one to be given out is wanted as well.
    pub is_turn_of_departing: bool,
}

impl Paging {
    /// Has a task woken when the first ready message is in memory, or there is none.
    pub fn wait(&mut self, waker: &Waker) {
        stdx::add_waker(&mut self.waiting, waker);
    }

    /// Whether a task waits for the first ready message.
    pub const fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Wakes all tasks that wait.
    pub fn wake(&mut self, wakes: &mut Wakes) {
        wakes.extend(self.waiting.drain(..));
    }

    /// Counts what the backlog takes now. True if the queue may ask the pager for a turn.
    pub fn account(&mut self, services: &Services, backlog: &Backlog) -> bool {
        services.pager.account(&mut self.account, backlog.resident_bytes());
        !self.is_asked
    }

    /// Whether the pager is to be asked for a turn, as the message at `head` is wanted in memory.
    pub fn ask(&mut self, services: &Services, backlog: &mut Backlog, head: u64) -> bool {
        let allowance_bytes = services.pager.allowance_bytes();
        let mut jobs = backlog.jobs();
        jobs.only_read(services.storage.is_short());
        self.is_asked = jobs.are_wanted(head, allowance_bytes);
        self.is_asked
    }

    /// The next job of the pager's turn.
    pub fn next_job(
        &mut self,
        services: &Services,
        backlog: &mut Backlog,
        head: u64,
        image: &mut Image,
    ) -> Option<Job> {
        let allowance_bytes = services.pager.allowance_bytes();
        let mut jobs = backlog.jobs();
        jobs.only_read(services.storage.is_short());
        debug_assert!(self.is_asked, "the pager comes to who has asked");
        let job = jobs.next(&services.storage.pool, head, allowance_bytes, image);
        self.is_asked = job.is_some();
        self.account(services, backlog);
        job
    }
}
