//! What happens to queues by rules and not by clients: messages whose time comes, queues that nobody
//! uses, dead letters on their way, policies that change.
//!
//! ```text
//! queue, under its lock --(alarm)--> [by time] ------> Queue::on_time
//!                       --(ask)----> [asked]   ------> letters copied, routed, put into their queues,
//!                                                      then noted as gone from where they were
//! ```
//! One thread and one timer for all queues. It holds one queue's lock at a time: a letter is in its
//! new queue, and in the log, before it leaves the old one, so a crash in between doubles it at worst.
//! What a letter sets off where it arrives is work of its own, in turn with all other queues'.

mod agenda;
mod dead_letter;
mod letter_confirms;
mod notices;
mod transfer;
mod work;

pub(crate) use agenda::AlarmTimes;
pub(crate) use dead_letter::DeadLetterTo;
pub(crate) use notices::{InternalMessage, publish};
pub(crate) use transfer::{DeadLetter, RejectedDeadLetters, dead_letters_of};
pub use work::QueueTimersStepper;
pub(crate) use work::start;

use crate::background::{self, Poison};
use crate::broker::Broker;
use crate::capacity::{Capacity, CapacityWaiters};
use crate::clock::TimeScale;
use crate::confirm::DurabilityToken;
use crate::firehose::Tracing;
use crate::queue::Queue;
use agenda::Agenda;
use log::{CommitListener, Lsn};
use meta::QueueId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::thread::JoinHandle;

/// Publishers wait while letters that are in no queue take more than this.
const LETTER_BYTES_MAX: usize = 8 << 20;

/// Acts on queues when their rules ask for it. Dropping it ends its thread.
#[derive(Debug, Default)]
pub(crate) struct QueueTimers {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wanted: Condvar,
    waiters: CapacityWaiters,
    broker: OnceLock<Weak<Broker>>,
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
    /// What the broker tells; everything else comes first.
    notices: VecDeque<InternalMessage>,
    is_time_to_look: bool,
    has_ended: bool,
}

impl QueueTimers {
    /// Whose queues these are. Told once.
    pub(crate) fn belong_to(&self, broker: Weak<Broker>) {
        if self.shared.broker.set(broker).is_err() {
            tracing::error!("the keeper of rules is told twice whose queues it keeps");
        }
    }

    /// Has [`Queue::on_time`] called at `times.at_ms` instead of at `times.before_ms`, both on that scale.
    pub(crate) fn set_alarm(
        &self,
        queue: &Weak<Queue>,
        id: QueueId,
        (scale, mut times): (TimeScale, AlarmTimes),
    ) {
        let mut state = stdx::lock(&self.shared.state);
        times.at_ms = times.at_ms.filter(|_| !state.has_ended);
        let is_first = state.agenda.set(queue, id, (scale, times));
        drop(state);
        if is_first {
            self.shared.wanted.notify_one();
        }
    }

    /// Sends a queue's dead letters soon. The queue sees to it that it asks once.
    pub(crate) fn ask(&self, queue: Arc<Queue>) {
        self.shared.add(|state| state.asked.push_back(queue));
    }

    /// Sends letters that are in no queue.
    pub(crate) fn send(&self, letters: RejectedDeadLetters) {
        self.shared.letter_bytes.fetch_add(letters.bytes(), Ordering::Relaxed);
        self.shared.add(|state| state.undelivered.push_back(letters));
    }

    /// Has these queues look again at what policies ask for.
    pub(crate) fn review(&self, queues: impl Iterator<Item = Arc<Queue>>) {
        self.shared.add(|state| state.to_review.extend(queues));
    }

    /// A queue has been read after a start: letters may go there.
    pub(crate) fn note_loaded(&self) {
        self.shared.add(|state| {
            let deferred = std::mem::take(&mut state.deferred);
            state.asked.extend(deferred);
        });
    }

    /// Time has gone on.
    pub(crate) fn look_at_time(&self) {
        self.shared.add(|state| state.is_time_to_look = true);
    }

    /// Set when its thread has panicked: rules that nobody keeps would fill queues without a word.
    pub(crate) fn failure(&self) -> Poison {
        self.shared.failure.clone()
    }

    /// Does nothing any more, and lets nobody wait.
    pub(crate) fn end(&self) {
        self.shared.end();
        let thread = stdx::lock(&self.thread).take();
        thread.into_iter().for_each(background::join);
    }
}

impl Capacity for QueueTimers {
    fn has_capacity(&self) -> bool {
        self.shared.has_capacity()
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.shared.waiters.poll(waker, || self.has_capacity())
    }
}

impl Drop for QueueTimers {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn add(&self, act: impl FnOnce(&mut State)) {
        let mut state = stdx::lock(&self.state);
        if !state.has_ended {
            act(&mut state);
        }
        drop(state);
        self.wanted.notify_one();
    }

    fn has_capacity(&self) -> bool {
        self.letter_bytes.load(Ordering::Relaxed) < LETTER_BYTES_MAX
    }

    fn tell_of_capacity(&self) {
        self.waiters.tell(self.has_capacity());
    }

    fn end(&self) {
        let ended = State { has_ended: true, ..State::default() };
        let state = std::mem::replace(&mut *stdx::lock(&self.state), ended);
        self.wanted.notify_all();
        self.waiters.end();
        drop(state);
    }
}

/// Tells the keeper that something it waits for may be durable.
struct WakeOnDurable {
    shared: Arc<Shared>,
    upto: Lsn,
}

impl CommitListener for WakeOnDurable {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        self.shared.add(|_| ());
        false
    }
}

impl crate::journal::JournalSynced for WakeOnDurable {
    fn synced(self: Box<Self>) -> Option<Waker> {
        self.shared.add(|_| ());
        None
    }
}
