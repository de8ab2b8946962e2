//! A session's turn of work: what it does before others go on, and what it owes them by then.

use super::Handled;
use confirm::CommitBy;
use content::Services;
use control::slices::Slices;
use message::MessageRef;
use queue_type::{Wakes, wake_all};
use session::{ChannelId, Error, Event, Outbox, ReturnReason, Sink};
use std::sync::Arc;

/// The cost of a key that is looked up, or of a queue that is found or locked.
const WORK_PER_QUEUE: usize = 16;
/// Bytes of a body that cost a queue as much as a message: pages of few messages are often turned.
const BYTES_PER_WORK: usize = 1024;
/// Steps of selectors that cost as much as putting a message into a queue.
const STEPS_PER_WORK: usize = 64;

/// The work done at a stretch, the connections that it gave something, and the commit it asked for.
pub(crate) struct Turn {
    pub(super) outbox: Arc<dyn Outbox>,
    services: Arc<Services>,
    /// Connections that were given something and sleep.
    wakes: Wakes,
    /// Whether the log's thread or this session is to commit what publishes wait for.
    committer: CommitBy,
    slices: Slices,
    /// Queues that messages were gathered for, each counted for each message.
    n_places: usize,
}

impl Turn {
    pub(crate) fn new(outbox: Arc<dyn Outbox>, services: Arc<Services>) -> Self {
        Self {
            outbox,
            services,
            wakes: Wakes::new(),
            committer: CommitBy::Thread,
            slices: Slices::default(),
            n_places: 0,
        }
    }

    /// Puts events into the client's outbox. The caller is the connection's own task, which empties the
    /// outbox anyway before it sleeps: nobody needs to be woken.
    pub(super) fn tell(&self, mut fill: impl FnMut(&mut dyn Sink)) {
        let _own_task = self.outbox.batch(&mut fill);
    }

    /// Returns a message to its publisher.
    pub(super) fn return_message(
        &self,
        channel: ChannelId,
        reason: ReturnReason,
        message: MessageRef<'_>,
    ) {
        self.tell(|sink| sink.event(Event::Returned { channel, reason, message }));
    }

    pub(super) fn answer(&self, event: Event<'_>) -> Result<Handled, Error> {
        let mut event = Some(event);
        self.tell(|sink| {
            if let Some(event) = event.take() {
                sink.event(event);
            }
        });
        Ok(Handled::Answered)
    }

    /// The connections that are given something and sleep.
    pub(crate) const fn wakes(&mut self) -> &mut Wakes {
        &mut self.wakes
    }

    /// The number of connections that were given something and sleep, or are about to be given something.
    pub(super) fn n_to_wake(&self) -> usize {
        self.wakes.n_connections()
    }

    /// Wakes the connections that were given something.
    pub(super) fn wake(&mut self) {
        wake_all(&mut self.wakes);
    }

    /// Notes that `committer` is to commit what waits for the log; this session prevails over the log's
    /// thread.
    pub(crate) fn commit_by(&mut self, committer: CommitBy) {
        self.committer = self.committer.max(committer);
    }

    pub(super) fn commits_here(&self) -> bool {
        self.committer == CommitBy::Caller
    }

    /// Commits the log if the session is to do so: `here`, which blocks for a sync, or on the log's thread.
    pub(super) fn commit(&mut self, here: bool) {
        if std::mem::take(&mut self.committer) == CommitBy::Caller {
            match here {
                true => self.services.storage.wal.commit_here(),
                false => self.services.storage.wal.commit_soon(),
            }
        }
    }

    /// Wakes connections and commits the log before the session waits: others must not wait with it.
    pub(crate) fn before_waiting(&mut self) {
        self.wake();
        self.commit(false);
    }

    /// Counts the work for a message that was routed alone: its keys and queues, and steps of selectors.
    pub(super) const fn note_routed(&mut self, n_places: usize, n_steps: usize) {
        self.slices.note(n_places.saturating_mul(WORK_PER_QUEUE) + n_steps / STEPS_PER_WORK);
    }

    /// Counts the work for a message with a body of `body_bytes` that was gathered for `n_queues`.
    #[inline]
    pub(super) const fn note_gathered(&mut self, n_queues: usize, body_bytes: usize) {
        self.slices.note(n_queues.saturating_mul(1 + body_bytes / BYTES_PER_WORK));
        self.n_places = self.n_places.saturating_add(n_queues);
    }

    /// Takes the number of queues that messages were gathered for since the last call, each counted for each
    /// message.
    pub(super) const fn take_places(&mut self) -> usize {
        std::mem::replace(&mut self.n_places, 0)
    }

    /// Whether it is time for other tasks to go on.
    #[inline]
    pub(super) const fn is_over(&self) -> bool {
        self.slices.is_over()
    }

    /// Counts `work` as done; returns whether it is time for other tasks to go on.
    #[inline]
    pub(super) const fn is_over_after(&mut self, work: usize) -> bool {
        self.slices.note(work);
        self.slices.is_over()
    }

    /// Wakes the connections that were given something, and lets other tasks go on.
    pub(crate) async fn give_way(&mut self) {
        self.before_waiting();
        self.slices.give_way().await;
    }

    /// Counts `work` as done; other tasks have their turn if it is time.
    pub(crate) async fn did(&mut self, work: usize) {
        self.slices.note(work);
        if self.slices.is_over() {
            self.give_way().await;
        }
    }

    /// Counts steps of a large piece of work as done, as [`Slices::did`] does.
    pub(super) async fn did_steps(&mut self, n_steps: usize) {
        self.slices.did(n_steps).await;
    }

    /// Drops a list of any length in slices.
    pub(super) async fn drop_all<T>(&mut self, all: Vec<T>) {
        self.slices.drop_all(all).await;
    }
}
