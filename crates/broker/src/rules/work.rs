//! The keeper's work: what is due, one piece after the other, by a thread or in steps.

use super::transfer::{self, RejectedDeadLetters, Sent};
use super::{InternalMessage, Shared, State, WakeOnDurable};
use crate::background;
use crate::broker::Broker;
use crate::clock::TimeScale;
use crate::queue::{AfterDetach, Queue};
use crate::storage::Storage;
use log::Lsn;
use meta::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

/// Letters of one queue before another has its turn ...
const LETTERS_PER_TURN: usize = 256;
/// ... and their bytes, more or less.
const LETTER_BYTES_PER_TURN: usize = 1 << 20;
/// Queues that look at policies before others have their turn.
const REVIEWS_PER_TURN: usize = 32;

/// Starts the thread.
///
/// # Errors
/// The system's.
pub(crate) fn start(storage: &Arc<Storage>) -> std::io::Result<()> {
    let shared = Arc::clone(&storage.rules.shared);
    let to_end = Arc::clone(&shared);
    let weak = Arc::downgrade(storage);
    let failure = storage.rules.failure();
    let thread =
        background::spawn("rules", failure, move || to_end.end(), move || run(&shared, &weak))?;
    *stdx::lock(&storage.rules.thread) = Some(thread);
    Ok(())
}

fn run(shared: &Arc<Shared>, weak: &Weak<Storage>) {
    while let Some(task) = wait(shared, weak) {
        work_off(shared, task);
    }
}

/// Waits for something to do; none when there will be nothing any more.
fn wait(shared: &Shared, weak: &Weak<Storage>) -> Option<Task> {
    let mut state = stdx::lock(&shared.state);
    loop {
        if state.has_ended {
            return None;
        }
        let storage = weak.upgrade()?;
        if let Some(task) = next_task(&mut state, &storage) {
            return Some(task);
        }
        let time = state.agenda.time_until_first(&storage.time);
        drop(storage);
        state = match time {
            None => shared.wanted.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                shared.wanted.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Something to do without the keeper's lock.
enum Task {
    /// Its time has come.
    OnTime(Arc<Queue>, TimeScale),
    /// Its letters are durable where they arrived.
    Settled(Arc<Queue>, u64),
    Letters(Arc<Queue>),
    RejectedDeadLetters(RejectedDeadLetters),
    Review(Vec<Arc<Queue>>),
    InternalMessage(InternalMessage),
}

fn next_task(state: &mut State, storage: &Storage) -> Option<Task> {
    state.is_time_to_look = false;
    if let Some((queue, scale)) = state.agenda.next_due(&storage.time) {
        return Some(Task::OnTime(queue, scale));
    }
    let is_settled = |(_, _, awaited): &(_, _, crate::confirm::DurabilityToken)| {
        awaited.is_durable(&storage.wal)
    };
    if let Some(at) = state.settling.iter().position(is_settled) {
        let (queue, n, _) = state.settling.swap_remove(at);
        return Some(Task::Settled(queue, n));
    }
    if !state.to_review.is_empty() {
        let n = state.to_review.len().min(REVIEWS_PER_TURN);
        return Some(Task::Review(state.to_review.drain(..n).collect()));
    }
    if let Some(letters) = state.undelivered.pop_front() {
        return Some(Task::RejectedDeadLetters(letters));
    }
    let is_short = storage.is_short();
    if !is_short && !state.without_space.is_empty() {
        let waiting = std::mem::take(&mut state.without_space);
        state.asked.extend(waiting);
    }
    let letters = state.asked.pop_front().map(Task::Letters);
    letters.or_else(|| {
        let is_reserve_used = storage.is_reserve_used();
        let may_go =
            |notice: &mut InternalMessage| !is_short || (!is_reserve_used && notice.is_event());
        state.notices.pop_front_if(may_go).map(Task::InternalMessage)
    })
}

fn work_off(shared: &Arc<Shared>, task: Task) {
    let Some(broker) = shared.broker.get().and_then(Weak::upgrade) else { return };
    match task {
        Task::OnTime(queue, scale) => {
            if queue.on_time(scale) == AfterDetach::DeleteQueue {
                let gone = broker.change(&Command::DeleteQueueById { id: queue.id() });
                if let Err(error) = gone {
                    tracing::debug!("an unused queue is not deleted: {error}");
                }
            }
        }
        Task::Settled(queue, n) => queue.letters_left(n),
        Task::Letters(queue) => send_letters(shared, &broker, queue),
        Task::RejectedDeadLetters(letters) => send_undelivered(shared, &broker, letters),
        Task::InternalMessage(notice) => shared.told(notice, &broker),
        Task::Review(queues) => queues.iter().for_each(|queue| broker.review_rules(queue)),
    }
}

fn send_letters(shared: &Arc<Shared>, broker: &Broker, queue: Arc<Queue>) {
    if broker.storage.is_short() {
        queue.let_letters_wait();
        shared.add(|state| state.without_space.push(queue));
        return;
    }
    let Some(batch) = queue.letters(LETTERS_PER_TURN, LETTER_BYTES_PER_TURN) else { return };
    match transfer::send(broker, queue.def(), &batch.to, &batch.letters) {
        Sent::NotYet => {
            queue.keep_letters(&batch.letters, 0);
            shared.add(|state| state.deferred.push(queue));
        }
        Sent::Done { n_letters, awaited, undelivered } => {
            let unsent = batch.letters.get(n_letters..).unwrap_or_default();
            let n_positions = unsent.first().map_or(batch.n_positions, |first| first.n_before);
            if !unsent.is_empty() {
                queue.keep_letters(unsent, n_positions);
            }
            undelivered.into_iter().for_each(|letters| broker.storage.rules.send(letters));
            // In one log the order is enough: what came first is durable first.
            if awaited.journals.is_empty() && queue.journal().is_none() {
                queue.letters_left(n_positions);
                return;
            }
            let nudge = |upto| WakeOnDurable { shared: Arc::clone(shared), upto };
            if let Some(upto) = awaited.log {
                broker.storage.wal.watch(Arc::new(nudge(upto)));
            }
            for (journal, note) in &awaited.journals {
                journal.wait(*note, Box::new(nudge(Lsn(0))));
            }
            shared.add(|state| state.settling.push((queue, n_positions, awaited)));
        }
    }
}

fn send_undelivered(shared: &Arc<Shared>, broker: &Broker, mut letters: RejectedDeadLetters) {
    let (turn, _) = letters.letters.as_slices();
    let turn = turn.get(..LETTERS_PER_TURN).unwrap_or(turn);
    let n_done = match transfer::send(broker, &letters.from, &letters.to, turn) {
        // Letters of refused messages may be lost: their publishers know.
        Sent::NotYet => {
            tracing::warn!(
                queue = %letters.from.name,
                "{} dead letters are dropped: a queue is still being read", turn.len()
            );
            turn.len()
        }
        Sent::Done { n_letters, undelivered, .. } => {
            undelivered.into_iter().for_each(|letters| broker.storage.rules.send(letters));
            n_letters
        }
    };
    let bytes = letters.letters.drain(..n_done).map(|letter| letter.bytes()).sum();
    if !letters.letters.is_empty() {
        shared.add(|state| state.undelivered.push_front(letters));
    }
    shared.letter_bytes.fetch_sub(bytes, Ordering::Relaxed);
    shared.tell_of_capacity();
}

/// The keeper's work, done by the caller. For simulation.
#[derive(Debug)]
pub struct QueueTimersStepper {
    shared: Arc<Shared>,
    storage: Weak<Storage>,
}

impl QueueTimersStepper {
    pub(crate) fn new(storage: &Arc<Storage>) -> Self {
        Self { shared: Arc::clone(&storage.rules.shared), storage: Arc::downgrade(storage) }
    }

    /// Does one thing; false if there was nothing to do.
    pub fn step(&mut self) -> bool {
        let Some(storage) = self.storage.upgrade() else { return false };
        let task = next_task(&mut stdx::lock(&self.shared.state), &storage);
        drop(storage);
        let Some(task) = task else { return false };
        work_off(&self.shared, task);
        true
    }
}
