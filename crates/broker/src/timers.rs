//! The times at which queues are to be called, and what queues and the broker ask of the thread of rules:
//! dead letters to send, settings to review, messages of the broker's own. Never how any of it is done: see
//! `rules`.

mod agenda;
mod inbox;
mod internal_message;
mod tracing;

pub(crate) use inbox::{Inbox, Task};
pub(crate) use internal_message::InternalMessage;
pub(crate) use tracing::{Delivered, EXCHANGE as TRACE_EXCHANGE, Tracing};

use background::Poison;
use classic::{Queue, QueueHost, RejectedDeadLetters};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Acts on queues when their rules ask for it. Dropping it ends its thread.
#[derive(Debug, Default)]
pub(crate) struct QueueTimers {
    inbox: Arc<Inbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl QueueTimers {
    /// The host of the queues.
    pub(crate) fn host(&self) -> Arc<dyn QueueHost> {
        Arc::<Inbox>::clone(&self.inbox)
    }

    /// Sends letters that are in no queue.
    pub(crate) fn send(&self, letters: RejectedDeadLetters) {
        self.inbox.send_rejected(letters);
    }

    /// Has these queues look again at what policies ask for.
    pub(crate) fn review(&self, queues: impl Iterator<Item = Arc<Queue>>) {
        self.inbox.review(queues);
    }

    /// Time has gone on.
    pub(crate) fn look_at_time(&self) {
        self.inbox.note_space();
    }

    /// Set when its thread has panicked: rules that nobody keeps would fill queues without a word.
    pub(crate) fn failure(&self) -> Poison {
        self.inbox.failure()
    }

    /// Everything that is to be done.
    pub(crate) const fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// The thread that does it.
    pub(crate) fn set_thread(&self, thread: JoinHandle<()>) {
        *stdx::lock(&self.thread) = Some(thread);
    }

    /// Whose messages are traced.
    pub(crate) fn tracing(&self) -> &Tracing {
        self.inbox.tracing()
    }

    /// Publishes a message of the broker's own soon, or drops it if too much waits already.
    pub(crate) fn post(&self, message: InternalMessage) {
        self.inbox.post(message);
    }

    /// Does nothing any more, and lets nobody wait.
    pub(crate) fn end(&self) {
        self.inbox.end();
        let thread = stdx::lock(&self.thread).take();
        thread.into_iter().for_each(background::join);
    }
}

impl Drop for QueueTimers {
    fn drop(&mut self) {
        self.end();
    }
}
