//! Everything that the thread of rules has to do, in the order it is done.

use super::agenda::Agenda;
use background::{NextTask, Pending};
use confirm::DurabilityToken;
use content::Storage;
use queue_type::RuledQueue;
use queue_type::{RejectedDeadLetters, SentLetters};
use queues::QueueRef;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::TimeScale;
use trace::InternalMessage;

/// Queues that take their settings before other work has its turn.
const REVIEWS_PER_TURN: usize = 32;

/// The work that is to be done.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) agenda: Agenda,
    /// Queues with dead letters to be sent.
    pub(super) asked: VecDeque<Arc<dyn RuledQueue>>,
    /// Letters of messages that are in no queue: the queue that they were published to was full.
    pub(super) undelivered: VecDeque<RejectedDeadLetters>,
    /// Queues with letters that leave once they are durable where they were sent.
    pub(super) settling: Vec<(Arc<dyn RuledQueue>, SentLetters, DurabilityToken)>,
    /// Queues whose letters go to a queue that is still being read after a start.
    pub(super) deferred: Vec<Arc<dyn RuledQueue>>,
    /// Queues whose letters wait for space on the disk.
    pub(super) without_space: Vec<Arc<dyn RuledQueue>>,
    /// Queues whose settings policies may change.
    pub(super) to_review: VecDeque<QueueRef>,
    /// Messages of the broker's own; everything else comes first.
    pub(super) notices: VecDeque<InternalMessage>,
}

/// A piece of work that is done without the inbox's lock.
pub(crate) enum Task {
    /// The time that a queue has set has come, by this time scale.
    OnTime(Arc<dyn RuledQueue>, TimeScale),
    /// The letters that a queue has sent are durable where they went.
    Settled(Arc<dyn RuledQueue>, SentLetters),
    /// The queue has dead letters to send.
    Letters(Arc<dyn RuledQueue>),
    /// The letters are in no queue.
    RejectedDeadLetters(RejectedDeadLetters),
    /// The settings of these queues may have changed.
    Review(Vec<QueueRef>),
    /// A message of the broker's own.
    InternalMessage(InternalMessage),
}

impl Pending for Requests {}

impl Requests {
    /// Takes the next task, or says for how long to wait for it.
    pub(super) fn next(&mut self, storage: &Storage) -> NextTask<Task> {
        if let Some(task) = self.due(storage) {
            return NextTask::Do(task);
        }
        self.agenda.time_until_first(&storage.time).map_or(NextTask::Wait, NextTask::WaitFor)
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
