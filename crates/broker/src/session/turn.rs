//! A session's turn of work: what it does before others go on, and what it owes them by then.

use super::Handled;
use crate::slices::Slices;
use classic::Services;
use confirm::CommitBy;
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
pub(super) struct Turn {
    pub(super) outbox: Arc<dyn Outbox>,
    services: Arc<Services>,
    /// Connections that were given something and sleep.
    wakes: Wakes,
    /// Who is to commit what a publish waits for.
    committer: CommitBy,
    slices: Slices,
    /// Queues that messages were gathered for.
    n_places: usize,
}

impl Turn {
    pub(super) fn new(outbox: Arc<dyn Outbox>, services: Arc<Services>) -> Self {
        Self {
            outbox,
            services,
            wakes: Wakes::new(),
            committer: CommitBy::Thread,
            slices: Slices::default(),
            n_places: 0,
        }
    }

    /// Puts something into the client's outbox. The caller is the connection's own task, which
    /// empties the outbox anyway before it sleeps: nobody needs to be woken.
    pub(super) fn tell(&self, mut fill: impl FnMut(&mut dyn Sink)) {
        let _own_task = self.outbox.batch(&mut fill);
    }

    /// Gives a message back to who published it.
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

    /// The list of those who are given something.
    pub(super) const fn wakes(&mut self) -> &mut Wakes {
        &mut self.wakes
    }

    /// Connections that were given something and sleep, or are about to be given something.
    pub(super) fn n_to_wake(&self) -> usize {
        self.wakes.n_connections()
    }

    /// Wakes the connections that were given something.
    pub(super) fn wake(&mut self) {
        wake_all(&mut self.wakes);
    }

    /// This one is to commit what waits for the log.
    pub(super) fn commit_by(&mut self, committer: CommitBy) {
        self.committer = self.committer.max(committer);
    }

    pub(super) fn commits_here(&self) -> bool {
        self.committer == CommitBy::Caller
    }

    /// Commits the log, if that is this session's: `here`, which blocks for a sync, or on the log's thread.
    pub(super) fn commit(&mut self, here: bool) {
        if std::mem::take(&mut self.committer) == CommitBy::Caller {
            match here {
                true => self.services.storage.wal.commit_here(),
                false => self.services.storage.wal.commit_soon(),
            }
        }
    }

    /// Done before something is waited for: nobody else is to wait for that too.
    pub(super) fn before_waiting(&mut self) {
        self.wake();
        self.commit(false);
    }

    /// A message was routed alone: so many keys and queues, and steps of selectors.
    pub(super) const fn note_routed(&mut self, n_places: usize, n_steps: usize) {
        self.slices.note(n_places.saturating_mul(WORK_PER_QUEUE) + n_steps / STEPS_PER_WORK);
    }

    /// A message with a body of so many bytes was gathered for so many queues.
    #[inline]
    pub(super) const fn note_gathered(&mut self, n_queues: usize, body_bytes: usize) {
        self.slices.note(n_queues.saturating_mul(1 + body_bytes / BYTES_PER_WORK));
        self.n_places = self.n_places.saturating_add(n_queues);
    }

    /// The queues that messages were gathered for, each counted for each message, since this was asked last.
    pub(super) const fn take_places(&mut self) -> usize {
        std::mem::replace(&mut self.n_places, 0)
    }

    /// Whether it is time to let others go on.
    #[inline]
    pub(super) const fn is_over(&self) -> bool {
        self.slices.is_over()
    }

    /// The same once so much more was done.
    #[inline]
    pub(super) const fn is_over_after(&mut self, work: usize) -> bool {
        self.slices.note(work);
        self.slices.is_over()
    }

    /// Lets others go on. Who was given something is woken before.
    pub(super) async fn give_way(&mut self) {
        self.before_waiting();
        self.slices.give_way().await;
    }

    /// So much was done: others have their turn if it is time.
    pub(super) async fn did(&mut self, work: usize) {
        self.slices.note(work);
        if self.slices.is_over() {
            self.give_way().await;
        }
    }

    /// So many steps of a large piece of work were done, as [`Slices::did`].
    pub(super) async fn did_steps(&mut self, n_steps: usize) {
        self.slices.did(n_steps).await;
    }

    /// Drops what may be very many.
    pub(super) async fn drop_all<T>(&mut self, all: Vec<T>) {
        self.slices.drop_all(all).await;
    }
}
