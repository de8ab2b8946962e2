//! The work of the thread of rules: what is due, one piece after the other, by a thread or in steps.

use super::transfer::{self, Sent};
use crate::broker::{Broker, at_once, notice_of};
use crate::publish::publish_internally;
use crate::timers::{QueueTimers, Task};
use confirm::DurabilityToken;
use content::Services;
use meta::{Command, QueueId};
use queue_type::{AfterDetach, LetterLimits, RejectedDeadLetters, SentLetters};
use queue_type::{QueueHost as _, RuledQueue};
use std::sync::{Arc, Weak};
use trace::InternalMessage;

/// Letters of one queue that are sent before another queue has its turn.
const LETTERS_PER_TURN: LetterLimits = LetterLimits { n_max: 256, bytes_max: 1 << 20 };

/// Starts the thread.
///
/// # Errors
/// The system's.
pub(crate) fn start(broker: &Arc<Broker>) -> std::io::Result<()> {
    let QueueTimersStepper { timers, services, broker: weak } = QueueTimersStepper::new(broker);
    broker.timers.start_thread(move || {
        while let Some(task) = timers.wait(&services) {
            work_off(&timers, &weak, task);
        }
    })
}

fn work_off(timers: &Arc<QueueTimers>, broker: &Weak<Broker>, task: Task) {
    let Some(broker) = broker.upgrade() else { return };
    match task {
        Task::OnTime(queue, scale) => {
            if queue.on_time(scale) == AfterDetach::DeleteQueue {
                delete_unused(&broker, queue.def().id);
            }
        }
        Task::Settled(queue, sent) => note_sent(&*queue, sent),
        Task::Letters(queue) => send_letters(timers, &broker, queue),
        Task::RejectedDeadLetters(letters) => send_undelivered(&broker, letters),
        Task::InternalMessage(message) => {
            let bytes = message.size_bytes();
            publish(&broker, message);
            timers.note_published(bytes);
        }
        Task::Review(queues) => {
            queues.iter().for_each(|queue| broker.changes().review_rules(queue))
        }
    }
}

/// Deletes a queue that nobody uses, or leaves that to a task if other nodes have to agree.
fn delete_unused(broker: &Broker, id: QueueId) {
    if let Some(replication) = broker.control_plane.replication() {
        return replication.node_work().add_unused(id);
    }
    let deletion = Command::DeleteQueueById { id };
    if let Some(Err(error)) = at_once(broker.changes().apply(&deletion)) {
        tracing::debug!("cannot delete an unused queue: {error}");
    }
}

fn send_letters(timers: &Arc<QueueTimers>, broker: &Broker, queue: Arc<dyn RuledQueue>) {
    if broker.classic.storage().is_short() {
        queue.letters_wait_for_space();
        timers.wait_for_space(queue);
        return;
    }
    let Some(batch) = queue.first_letters(LETTERS_PER_TURN) else {
        return;
    };
    if let Some(awaited) = &batch.awaited {
        let letters = &batch.letters;
        match transfer::send_awaited(broker, queue.def(), &batch.to, letters, awaited) {
            None => timers.defer(queue),
            Some((durable, tried)) => {
                note_when_durable(timers, broker, queue, SentLetters::Tried(tried), durable);
            }
        }
        return;
    }
    match transfer::send(broker, queue.def(), &batch.to, &batch.letters) {
        Sent::NotYet => {
            queue.keep_letters(&batch.letters, 0);
            timers.defer(queue);
        }
        Sent::Done { n_letters, awaited, undelivered } => {
            let unsent = batch.letters.get(n_letters..).unwrap_or_default();
            let n_positions = unsent.first().map_or(batch.n_positions, |first| first.n_before);
            if !unsent.is_empty() {
                queue.keep_letters(unsent, n_positions);
            }
            undelivered.into_iter().for_each(|letters| broker.timers.send_rejected(letters));
            let sent = SentLetters::First(n_positions);
            note_when_durable(timers, broker, queue, sent, awaited);
        }
    }
}

fn note_when_durable(
    timers: &Arc<QueueTimers>,
    broker: &Broker,
    queue: Arc<dyn RuledQueue>,
    sent: SentLetters,
    durable: DurabilityToken,
) {
    // In one log the order is enough: what came first is durable first.
    if durable.journals.is_empty() && !queue.has_journal() {
        note_sent(&*queue, sent);
    } else {
        timers.settle_when_durable(broker.classic.storage(), queue, sent, durable);
    }
}

fn note_sent(queue: &dyn RuledQueue, sent: SentLetters) {
    match sent {
        SentLetters::First(n) => queue.letters_left(n),
        SentLetters::Tried(tried) => queue.letters_tried(tried),
    }
}

fn send_undelivered(broker: &Broker, mut letters: RejectedDeadLetters) {
    let (turn, _) = letters.letters.as_slices();
    let turn = turn.get(..LETTERS_PER_TURN.n_max).unwrap_or(turn);
    let n_done = match transfer::send(broker, &letters.from, &letters.to, turn) {
        // Letters of refused messages may be lost: their publishers know.
        Sent::NotYet => {
            tracing::warn!(
                queue = %letters.from.name,
                "{} dead letters are discarded: their queue is still being recovered", turn.len()
            );
            turn.len()
        }
        Sent::Done { n_letters, undelivered, .. } => {
            undelivered.into_iter().for_each(|letters| broker.timers.send_rejected(letters));
            n_letters
        }
    };
    let bytes = letters.letters.drain(..n_done).map(|letter| letter.bytes()).sum();
    broker.timers.put_back(letters, bytes);
}

/// Publishes a message of the broker's own.
fn publish(broker: &Broker, message: InternalMessage) {
    match message {
        InternalMessage::Publish { vhost, message } => {
            let (view, tracing) = (broker.view(), &broker.timers.tracing);
            publish_internally(&view, tracing, &vhost, &message.message());
        }
        InternalMessage::Delivered(delivered) => {
            if let Some(notice) = notice_of(broker, &delivered) {
                publish(broker, notice);
            }
        }
    }
}

/// The work of that thread, done by the caller. For simulation.
#[derive(Debug)]
pub struct QueueTimersStepper {
    timers: Arc<QueueTimers>,
    services: Weak<Services>,
    broker: Weak<Broker>,
}

impl QueueTimersStepper {
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        let timers = Arc::clone(&broker.timers);
        let services = Arc::downgrade(&broker.classic.services);
        Self { timers, services, broker: Arc::downgrade(broker) }
    }

    /// Does one thing; false if there was nothing to do.
    pub fn step(&mut self) -> bool {
        let Some(services) = self.services.upgrade() else { return false };
        let Some(task) = self.timers.step(&services.storage) else { return false };
        drop(services);
        work_off(&self.timers, &self.broker, task);
        true
    }
}
