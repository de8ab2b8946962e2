//! Everything that the thread of rules has to do, in the order it is done.

use super::agenda::Agenda;
use super::{InternalMessage, Tracing};
use background::{Capacity, CapacityWaiters, Poison};
use classic::{AlarmTimes, Owner, Queue, QueueHost, RejectedDeadLetters, Storage};
use confirm::DurabilityToken;
use log::{CommitListener, Lsn};
use message::MessageRef;
use meta::{QueueDef, QueueId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::Waker;
use stdx::TimeScale;

/// Publishers wait while letters that are in no queue take more than this.
const LETTER_BYTES_MAX: usize = 8 << 20;

/// Messages of the broker's own that wait to be published take at most this.
const NOTICE_BYTES_MAX: usize = 8 << 20;
/// Queues that look at policies before others have their turn.
const REVIEWS_PER_TURN: usize = 32;

/// Everything that is to be done.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    wanted: Condvar,
    waiters: CapacityWaiters,
    /// Of letters in `State::undelivered`.
    letter_bytes: AtomicUsize,
    /// Of what is in `State::notices`.
    notice_bytes: AtomicUsize,
    n_notices_dropped: AtomicUsize,
    tracing: Tracing,
    failure: Poison,
}

#[derive(Debug, Default)]
struct State {
    agenda: Agenda,
    /// Queues with dead letters to be sent.
    asked: VecDeque<Arc<Queue>>,
    /// Letters of messages that are in no queue: their publishers' queue was full.
    undelivered: VecDeque<RejectedDeadLetters>,
    /// Queues whose letters are to be durable where they arrived before they leave.
    settling: Vec<(Arc<Queue>, u64, DurabilityToken)>,
    /// Queues whose letters go to one that is being read after a start.
    deferred: Vec<Arc<Queue>>,
    /// Queues whose letters wait for space on the disk.
    without_space: Vec<Arc<Queue>>,
    /// Queues that policies may ask to be different.
    to_review: VecDeque<Arc<Queue>>,
    /// Messages of the broker's own; everything else comes first.
    notices: VecDeque<InternalMessage>,
    has_ended: bool,
}

/// Something to do without the inbox's lock.
pub(crate) enum Task {
    /// Its time has come.
    OnTime(Arc<Queue>, TimeScale),
    /// Its letters are durable where they arrived.
    Settled(Arc<Queue>, u64),
    /// It has dead letters to send.
    Letters(Arc<Queue>),
    /// Letters that are in no queue.
    RejectedDeadLetters(RejectedDeadLetters),
    /// Settings may have changed.
    Review(Vec<Arc<Queue>>),
    /// A message of the broker's own.
    InternalMessage(InternalMessage),
}

impl Inbox {
    /// The next thing to do; none if there is nothing for now.
    pub(crate) fn next(&self, storage: &Storage) -> Option<Task> {
        stdx::lock(&self.state).next(storage)
    }

    /// Waits for something to do; none when there will be nothing any more.
    pub(crate) fn wait(&self, weak: &Weak<Storage>) -> Option<Task> {
        let mut state = stdx::lock(&self.state);
        loop {
            if state.has_ended {
                return None;
            }
            let storage = weak.upgrade()?;
            if let Some(task) = state.next(&storage) {
                return Some(task);
            }
            let time = state.agenda.time_until_first(&storage.time);
            drop(storage);
            state = match time {
                None => self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    self.wanted.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Has these queues look again at what policies ask for.
    pub(crate) fn review(&self, queues: impl Iterator<Item = Arc<Queue>>) {
        self.add(|state| state.to_review.extend(queues));
    }

    /// A queue's letters go to one that is being read after a start: they wait for that.
    pub(crate) fn defer(&self, queue: Arc<Queue>) {
        self.add(|state| state.deferred.push(queue));
    }

    /// A queue's letters wait for space on the disk.
    pub(crate) fn wait_for_space(&self, queue: Arc<Queue>) {
        self.add(|state| state.without_space.push(queue));
    }

    /// The first `n` letters of a queue are where they should be once this is durable.
    pub(crate) fn settle_when_durable(
        self: &Arc<Self>,
        storage: &Storage,
        (queue, n): (Arc<Queue>, u64),
        awaited: DurabilityToken,
    ) {
        let nudge = |upto| WakeOnDurable { inbox: Arc::clone(self), upto };
        if let Some(upto) = awaited.log {
            storage.wal.watch(Arc::new(nudge(upto)));
        }
        for (journal, note) in &awaited.journals {
            journal.wait(*note, Box::new(nudge(Lsn(0))));
        }
        self.add(|state| state.settling.push((queue, n, awaited)));
    }

    /// Of letters that are in no queue these are left; `sent_bytes` are gone.
    pub(crate) fn put_back(&self, left: RejectedDeadLetters, sent_bytes: usize) {
        if !left.letters.is_empty() {
            self.add(|state| state.undelivered.push_front(left));
        }
        self.letter_bytes.fetch_sub(sent_bytes, Ordering::Relaxed);
        self.waiters.tell(self.has_capacity());
    }

    /// Publishes a message of the broker's own soon, or drops it if too much waits already.
    pub(crate) fn post(&self, message: InternalMessage) {
        let bytes = message.size_bytes();
        let before = self.notice_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > NOTICE_BYTES_MAX {
            self.notice_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if self.n_notices_dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("traces or events are dropped: there are too many");
            }
            return;
        }
        self.add(|state| state.notices.push_back(message));
    }

    /// A message of so many bytes has been published.
    pub(crate) fn note_published(&self, bytes: usize) {
        let left = self.notice_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if left == 0 {
            let n_dropped = self.n_notices_dropped.swap(0, Ordering::Relaxed);
            if n_dropped > 0 {
                tracing::warn!("{n_dropped} traces or events were dropped");
            }
        }
    }

    /// Whose messages are traced.
    pub(crate) const fn tracing(&self) -> &Tracing {
        &self.tracing
    }

    /// Set when the thread has panicked.
    pub(crate) fn failure(&self) -> Poison {
        self.failure.clone()
    }

    fn add(&self, act: impl FnOnce(&mut State)) {
        let mut state = stdx::lock(&self.state);
        if !state.has_ended {
            act(&mut state);
        }
        drop(state);
        self.wanted.notify_one();
    }

    /// Nothing is to be done any more, and nobody to wait.
    pub(crate) fn end(&self) {
        let ended = State { has_ended: true, ..State::default() };
        let state = std::mem::replace(&mut *stdx::lock(&self.state), ended);
        self.wanted.notify_all();
        self.waiters.end();
        drop(state);
    }
}

impl State {
    fn next(&mut self, storage: &Storage) -> Option<Task> {
        if let Some((queue, scale)) = self.agenda.next_due(&storage.time) {
            return Some(Task::OnTime(queue, scale));
        }
        let is_settled =
            |(_, _, awaited): &(_, _, DurabilityToken)| awaited.is_durable(&storage.wal);
        if let Some(at) = self.settling.iter().position(is_settled) {
            let (queue, n, _) = self.settling.swap_remove(at);
            return Some(Task::Settled(queue, n));
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

impl QueueHost for Inbox {
    fn set_alarm(
        &self,
        queue: &Weak<Queue>,
        id: QueueId,
        (scale, mut times): (TimeScale, AlarmTimes),
    ) {
        let mut state = stdx::lock(&self.state);
        times.at_ms = times.at_ms.filter(|_| !state.has_ended);
        let is_first = state.agenda.set(queue, id, (scale, times));
        drop(state);
        if is_first {
            self.wanted.notify_one();
        }
    }

    fn send_letters_of(&self, queue: Arc<Queue>) {
        self.add(|state| state.asked.push_back(queue));
    }

    fn send_rejected(&self, letters: RejectedDeadLetters) {
        self.letter_bytes.fetch_add(letters.bytes(), Ordering::Relaxed);
        self.add(|state| state.undelivered.push_back(letters));
    }

    fn note_loaded(&self) {
        self.add(|state| {
            let deferred = std::mem::take(&mut state.deferred);
            state.asked.extend(deferred);
        });
    }

    fn note_space(&self) {
        self.add(|_| ());
    }

    fn is_traced(&self) -> bool {
        self.tracing.is_any()
    }

    fn trace_delivery(
        &self,
        queue: &Arc<QueueDef>,
        to: Owner,
        redelivered: bool,
        message: &MessageRef<'_>,
    ) {
        if let Some(delivered) = self.tracing.delivered(queue, to, redelivered, message) {
            self.post(InternalMessage::Delivered(Box::new(delivered)));
        }
    }
}

impl Capacity for Inbox {
    fn has_capacity(&self) -> bool {
        self.letter_bytes.load(Ordering::Relaxed) < LETTER_BYTES_MAX
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.waiters.poll(waker, || self.has_capacity())
    }
}

/// Tells the thread of rules that something it waits for may be durable.
struct WakeOnDurable {
    inbox: Arc<Inbox>,
    upto: Lsn,
}

impl CommitListener for WakeOnDurable {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        self.inbox.add(|_| ());
        false
    }
}

impl confirm::JournalSynced for WakeOnDurable {
    fn synced(self: Box<Self>) -> Option<Waker> {
        self.inbox.add(|_| ());
        None
    }
}
