//! The client's side of a reader, as the stream knows it: where it is told of more. Never what it reads.

use queue_type::Owner;
use session::{Event, LinkId, Outbox, Sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// The client's side of a consumer or subscription.
pub(crate) struct Follower {
    pub(crate) key: u64,
    pub(crate) owner: Owner,
    pub(crate) link: LinkId,
    pub(crate) outbox: Arc<dyn Outbox>,
    /// Whether the reader is told once more is committed.
    waits: AtomicBool,
    /// Whether the reader was given something since [`Follower::is_at_rest`] was asked.
    is_busy: AtomicBool,
}

impl Follower {
    pub(crate) fn new(key: u64, owner: Owner, link: LinkId, outbox: &Arc<dyn Outbox>) -> Self {
        let (waits, is_busy) = (AtomicBool::new(false), AtomicBool::new(true));
        Self { key, owner, link, outbox: Arc::clone(outbox), waits, is_busy }
    }

    /// Puts deliveries or events into the client's outbox.
    pub(crate) fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        self.is_busy.store(true, Ordering::Relaxed);
        self.outbox.batch(fill)
    }

    /// Tells the client an event.
    pub(crate) fn tell(&self, event: Event<'_>) {
        let mut event = Some(event);
        let waker = self.outbox.batch(&mut |sink| {
            if let Some(event) = event.take() {
                sink.event(event);
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Notes that the reader has read everything. True if it is to be added to the waiting readers; it looks
    /// again afterwards.
    pub(crate) fn begins_to_wait(&self) -> bool {
        !self.waits.swap(true, Ordering::AcqRel)
    }

    /// Notes that the reader waits no more: it is told, or given what it waits for.
    pub(crate) fn ends_to_wait(&self) {
        self.waits.store(false, Ordering::Release);
    }

    /// Tells the connection that more can be read, or that a thread has read in the reader's stead.
    pub(crate) fn tell_readable(&self) -> Option<Waker> {
        self.outbox.batch(&mut |sink| sink.readable(self.link))
    }

    /// Whether the reader was given nothing since this was asked before.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.is_busy.swap(false, Ordering::Relaxed)
    }
}
