//! Everything that the thread of rules has to do, in the order it is done.

use super::InternalMessage;
use super::agenda::Agenda;
use crate::queue_ref::QueueRef;
use background::{Next, Pending};
use classic::{RuledQueue, Storage};
use confirm::DurabilityToken;
use queue_type::{RejectedDeadLetters, SentLetters};
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::TimeScale;

/// Queues that look at policies before others have their turn.
const REVIEWS_PER_TURN: usize = 32;

/// Everything that is to be done.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) agenda: Agenda,
    /// Queues with dead letters to be sent.
    pub(super) asked: VecDeque<Arc<dyn RuledQueue>>,
    /// Letters of messages that are in no queue: their publishers' queue was full.
    pub(super) undelivered: VecDeque<RejectedDeadLetters>,
    /// Queues whose letters are to be durable where they arrived before they leave.
    pub(super) settling: Vec<(Arc<dyn RuledQueue>, SentLetters, DurabilityToken)>,
    /// Queues whose letters go to one that is being read after a start.
    pub(super) deferred: Vec<Arc<dyn RuledQueue>>,
    /// Queues whose letters wait for space on the disk.
    pub(super) without_space: Vec<Arc<dyn RuledQueue>>,
    /// Queues that policies may ask to be different.
    pub(super) to_review: VecDeque<QueueRef>,
    /// Messages of the broker's own; everything else comes first.
    pub(super) notices: VecDeque<InternalMessage>,
}

/// Something to do without the inbox's lock.
pub(crate) enum Task {
    /// Its time has come.
    OnTime(Arc<dyn RuledQueue>, TimeScale),
    /// Its letters are durable where they arrived.
    Settled(Arc<dyn RuledQueue>, SentLetters),
    /// It has dead letters to send.
    Letters(Arc<dyn RuledQueue>),
    /// Letters that are in no queue.
    RejectedDeadLetters(RejectedDeadLetters),
    /// Settings may have changed.
    Review(Vec<QueueRef>),
    /// A message of the broker's own.
    InternalMessage(InternalMessage),
}

impl Pending for Requests {}

impl Requests {
    /// The next thing to do.
    pub(super) fn next(&mut self, storage: &Storage) -> Next<Task> {
        if let Some(task) = self.due(storage) {
            return Next::Do(task);
        }
        self.agenda.time_until_first(&storage.time).map_or(Next::Wait, Next::WaitFor)
    }

    fn due(&mut self, storage: &Storage) -> Option<Task> {
        if let Some((queue, scale)) = self.agenda.next_due(&storage.time) {
            return Some(Task::OnTime(queue, scale));
        }
        let is_settled =
            |(_, _, awaited): &(_, _, DurabilityToken)| awaited.is_durable(&storage.wal);
        if let Some(at) = self.settling.iter().position(is_settled) {
            let (queue, sent, _) = self.settling.swap_remove(at);
            return Some(Task::Settled(queue, sent));
        }
        if !self.to_review.is_empty() {
            let n = self.to_review.len().min(REVIEWS_PER_TURN);
            return Some(Task::Review(self.to_review.drain(..n).collect()));
        }
        if let Some(letters) = self.undelivered.pop_front() {
            return Some(Task::RejectedDeadLetters(letters));
        }
        let is_short = storage.is_short();
        if !is_short && !self.without_space.is_empty() {
            let waiting = std::mem::take(&mut self.without_space);
            self.asked.extend(waiting);
        }
        let letters = self.asked.pop_front().map(Task::Letters);
        letters.or_else(|| {
            let is_reserve_used = storage.is_reserve_used();
            let may_go =
                |notice: &mut InternalMessage| !is_short || (!is_reserve_used && notice.is_event());
            self.notices.pop_front_if(may_go).map(Task::InternalMessage)
        })
    }
}
