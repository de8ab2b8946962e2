//! A client's outbox, whatever its protocol: many threads put events in, one connection task takes bytes out.

use crate::{HeartbeatCheck, Outgoing, TimedOutbox, WriteBatch};
use session::{ChannelId, LinkId, ListedSession, Outbox, Position, Settle, Sink, UnsettledSince};
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The part of an outbox behind its lock, which knows the protocol.
pub trait OutboxState: Sink + Debug + Send {
    /// The bytes on their way out.
    fn outgoing(&mut self) -> &mut Outgoing;

    /// Takes everything that waits into `batch`. False when there is nothing to do: no bytes, no links to
    /// resume, nothing to be settled, no end.
    fn take(&mut self, batch: &mut WriteBatch) -> bool;

    /// Bytes that wait to be written, or will.
    fn n_pending(&self) -> usize;

    /// Whether there is anything for the connection's task.
    fn has_something(&self) -> bool;

    /// Puts a heartbeat in.
    fn put_heartbeat(&mut self);

    /// Gives back memory as [`TimedOutbox::trim`] does.
    fn trim(&mut self);

    /// The positions of [`Outbox::unsettled`].
    fn unsettled(&mut self, _links: &[LinkId]) -> Vec<(LinkId, Position)> {
        Vec::new()
    }

    /// The numbers of [`Outbox::unsettled_since`].
    fn unsettled_since(&mut self, _link: LinkId) -> Option<UnsettledSince> {
        None
    }

    /// The session of [`Outbox::session_from`].
    fn session_from(&self, _channel: ChannelId) -> Option<ListedSession> {
        None
    }
}

/// An outbox as its connection's task knows it.
pub trait TaskOutbox: Outbox + Debug {
    /// Takes everything that waits into `batch`, which must be written by now. False when there is nothing
    /// to do.
    fn try_take(&self, batch: &mut WriteBatch) -> bool;

    /// Takes bytes as [`TaskOutbox::try_take`] does; with nothing to do, the task is woken by the next thing
    /// put in. To be called before the task sleeps, each time: reading forgets the task's waker.
    fn poll_take(&self, cx: &mut Context<'_>, batch: &mut WriteBatch) -> Poll<()>;

    /// Notes a write as [`Outgoing::wrote`] does.
    fn wrote(&self, batch: &WriteBatch);

    /// Whether deliveries were settled, as [`Outgoing::has_settled`] says.
    fn has_settled(&self) -> bool;

    /// Takes settled deliveries as [`Outgoing::take_settled`] does.
    fn take_settled(&self, settles: &mut Vec<Settle>) -> bool;

    /// The number of bytes that wait to be written.
    fn n_pending(&self) -> usize;
}

/// The outbox of a connection's client.
#[derive(Debug)]
pub struct SharedOutbox<S>(Mutex<S>);

impl<S: OutboxState> SharedOutbox<S> {
    /// Creates an outbox with this state.
    pub const fn new(state: S) -> Self {
        Self(Mutex::new(state))
    }

    /// The part behind the lock, for the connection's own front.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, S> {
        // No code under this lock panics with the data half changed: a poisoned outbox is still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: OutboxState> TaskOutbox for SharedOutbox<S> {
    fn try_take(&self, batch: &mut WriteBatch) -> bool {
        self.lock().take(batch)
    }

    fn poll_take(&self, cx: &mut Context<'_>, batch: &mut WriteBatch) -> Poll<()> {
        let mut state = self.lock();
        if state.take(batch) {
            return Poll::Ready(());
        }
        state.outgoing().sleep(cx.waker());
        Poll::Pending
    }

    fn wrote(&self, batch: &WriteBatch) {
        self.lock().outgoing().wrote(batch);
    }

    fn has_settled(&self) -> bool {
        self.lock().outgoing().has_settled()
    }

    fn take_settled(&self, settles: &mut Vec<Settle>) -> bool {
        self.lock().outgoing().take_settled(settles)
    }

    fn n_pending(&self) -> usize {
        self.lock().n_pending()
    }
}

impl<S: OutboxState> TimedOutbox for SharedOutbox<S> {
    fn heartbeat(&self, n_put_before: u64) -> HeartbeatCheck {
        let mut locked = self.lock();
        let is_silent = locked.outgoing().is_silent_since(n_put_before);
        if is_silent {
            locked.put_heartbeat();
        }
        HeartbeatCheck { n_put: locked.outgoing().end_of_bytes(), is_silent }
    }

    fn trim(&self) {
        self.lock().trim();
    }
}

impl<S: OutboxState> Outbox for SharedOutbox<S> {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut state = self.lock();
        fill(&mut *state);
        if state.has_something() { state.outgoing().take_waker() } else { None }
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        self.lock().unsettled(links)
    }

    fn unsettled_since(&self, link: LinkId) -> Option<UnsettledSince> {
        self.lock().unsettled_since(link)
    }

    fn session_from(&self, channel: ChannelId) -> Option<ListedSession> {
        self.lock().session_from(channel)
    }
}
