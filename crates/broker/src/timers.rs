//! The times at which queues are to be called, and what queues and the broker ask of the thread of rules:
//! dead letters to send, settings to review, messages of the broker's own. The work itself is in `rules`.

mod agenda;
mod requests;

pub(crate) use requests::Task;

use background::{Inbox, NextTask};
use confirm::DurabilityToken;
use content::{Services, Storage};
use log::{CommitListener, Lsn};
use message::MessageRef;
use meta::{QueueDef, QueueId};
use queue_type::{AlarmChange, Given, QueueHost, RuledQueue};
use queue_type::{Owner, RejectedDeadLetters, SentLetters};
use queues::QueueRef;
use requests::Requests;
use segments::Poison;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use trace::{InternalMessage, Tracing};

/// Bytes of dead letters that are in no queue, beyond which publishers wait.
const LETTER_BYTES_MAX: u64 = 8 << 20;

/// Bytes that the broker's own messages may take while they wait to be published.
const NOTICE_BYTES_MAX: usize = 8 << 20;

/// The work of queues' rules, by time and as it is asked for. The inbox's excess is letters that are in no
/// queue.
#[derive(Debug)]
pub(crate) struct QueueTimers {
    inbox: Inbox<Requests>,
    /// Bytes of the broker's own messages that wait to be published.
    notice_bytes: AtomicUsize,
    n_notices_dropped: AtomicUsize,
    pub(crate) tracing: Tracing,
}

impl QueueTimers {
    /// Starts without work. A panic of the thread is a `failure`: without rules, queues would fill silently.
    pub(crate) fn new(failure: &Poison) -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(LETTER_BYTES_MAX, failure),
            notice_bytes: AtomicUsize::new(0),
            n_notices_dropped: AtomicUsize::new(0),
            tracing: Tracing::default(),
        })
    }

    /// Starts the thread of rules.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start_thread(
        self: &Arc<Self>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let to_end = Arc::clone(self);
        self.inbox.spawn("rules", move || drop(to_end.inbox.end()), run)
    }

    /// Waits for the next task; `None` when there will be no more.
    pub(crate) fn wait(&self, services: &Weak<Services>) -> Option<Task> {
        self.inbox.wait(|requests, _| match services.upgrade() {
            Some(services) => requests.next(&services.storage),
            None => NextTask::End,
        })
    }

    /// Takes the next task; `None` if there is none for now.
    pub(crate) fn step(&self, storage: &Storage) -> Option<Task> {
        self.inbox.step(|requests| requests.next(storage))
    }

    /// Wakes the thread, since the time or something else that its work waits for has changed.
    pub(crate) fn look_again(&self) {
        self.inbox.add(|_| ());
    }

    /// Has these queues take the settings that policies ask for.
    pub(crate) fn review(&self, queues: impl Iterator<Item = QueueRef>) {
        self.inbox.add(|requests| requests.to_review.extend(queues));
    }

    /// Has a queue's letters wait for a target queue that is still being read after a start.
    pub(crate) fn defer(&self, queue: Arc<dyn RuledQueue>) {
        self.inbox.add(|requests| requests.deferred.push(queue));
    }

    /// Has a queue's letters wait for space on the disk.
    pub(crate) fn wait_for_space(&self, queue: Arc<dyn RuledQueue>) {
        self.inbox.add(|requests| requests.without_space.push(queue));
    }

    /// Settles letters that a queue has sent, once `awaited` says that they are durable where they went.
    pub(crate) fn settle_when_durable(
        self: &Arc<Self>,
        storage: &Storage,
        queue: Arc<dyn RuledQueue>,
        sent: SentLetters,
        awaited: DurabilityToken,
    ) {
        let nudge = |upto| WakeOnDurable { timers: Arc::clone(self), upto };
        if let Some(upto) = awaited.log {
            storage.wal.watch(Arc::new(nudge(upto)));
        }
        for (journal, note) in &awaited.journals {
            journal.wait(*note, Box::new(nudge(Lsn(0))));
        }
        self.inbox.add(|requests| requests.settling.push((queue, sent, awaited)));
    }

    /// Puts back the letters in no queue that are left; `sent_bytes` of letters are gone.
    pub(crate) fn put_back(&self, left: RejectedDeadLetters, sent_bytes: usize) {
        if !left.letters.is_empty() {
            self.inbox.add(|requests| requests.undelivered.push_front(left));
        }
        self.inbox.remove_excess(sent_bytes as u64);
        self.inbox.tell_of_capacity();
    }

    /// Publishes a message of the broker's own soon, or drops it if too much waits already.
    pub(crate) fn post(&self, message: InternalMessage) {
        let bytes = message.size_bytes();
        let before = self.notice_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > NOTICE_BYTES_MAX {
            self.notice_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if self.n_notices_dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("trace messages or events are dropped: too many");
            }
            return;
        }
        self.inbox.add(|requests| requests.notices.push_back(message));
    }

    /// Notes that a message of the broker's own with so many bytes has been published.
    pub(crate) fn note_published(&self, bytes: usize) {
        let left = self.notice_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if left == 0 {
            let n_dropped = self.n_notices_dropped.swap(0, Ordering::Relaxed);
            if n_dropped > 0 {
                tracing::warn!("{n_dropped} trace messages or events were dropped");
            }
        }
    }

    /// Ends all work; publishers do not wait for it any more.
    pub(crate) fn stop(&self) {
        self.inbox.stop();
    }
}

impl QueueHost for QueueTimers {
    fn has_capacity(&self) -> bool {
        self.inbox.has_capacity()
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.inbox.poll_capacity(waker)
    }

    fn set_alarm(&self, queue: Weak<dyn RuledQueue>, id: QueueId, change: AlarmChange) {
        self.inbox.add_quietly(|requests| requests.agenda.set(queue, id, change));
    }

    fn send_letters_of(&self, queue: Arc<dyn RuledQueue>) {
        self.inbox.add(|requests| requests.asked.push_back(queue));
    }

    fn send_rejected(&self, letters: RejectedDeadLetters) {
        self.inbox.add_excess(letters.bytes() as u64);
        self.inbox.add(|requests| requests.undelivered.push_back(letters));
    }

    fn queue_loaded(&self) {
        self.inbox.add(|requests| requests.asked.extend(requests.deferred.drain(..)));
    }

    fn space_is_back(&self) {
        self.look_again();
    }

    fn is_traced(&self) -> bool {
        self.tracing.is_any()
    }

    fn trace_delivery(
        &self,
        queue: &Arc<QueueDef>,
        to: Owner,
        given: Given,
        message: &MessageRef<'_>,
    ) {
        if let Some(spans) = self.tracing.spans() {
            spans.delivered(queue, to, given, message);
        }
        if let Some(delivered) = self.tracing.delivered(queue, to, given.redelivered, message) {
            self.post(InternalMessage::Delivered(Box::new(delivered)));
        }
    }
}

/// A listener that wakes the thread of rules when something that the thread waits for may be durable.
struct WakeOnDurable {
    timers: Arc<QueueTimers>,
    upto: Lsn,
}

impl CommitListener for WakeOnDurable {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        self.timers.look_again();
        false
    }
}

impl confirm::JournalSynced for WakeOnDurable {
    fn synced(self: Box<Self>) -> Option<Waker> {
        self.timers.look_again();
        None
    }

    fn lost(self: Box<Self>) -> Option<Waker> {
        self.synced()
    }
}
