//! Connections that are not listened to: they published during an alarm, or the node has more to write than it
//! may. What an alarm meets first is kept with all that was read after it; nothing of it has happened.

use super::transactions::owned;
use super::{Session, Stop};
use crate::capacity;
use session::{Event, Request};
use std::sync::atomic::Ordering;

/// What is to be done once the alarms have cleared. Not more than one read brings, since nothing is read
/// meanwhile.
#[derive(Debug, Default)]
pub(super) struct BlockedRequests(Vec<Request>);

impl BlockedRequests {
    fn keep(&mut self, input: &[u8], requests: impl Iterator<Item = Request>) {
        self.0.extend(requests.map(|request| match request {
            Request::Publish(publish) => Request::Publish(owned(&publish, input)),
            other @ (Request::Settle(_) | Request::Control(_)) => other,
        }));
    }
}

impl Session {
    /// Keeps requests if the connection is held; true if so.
    pub(super) fn keeps(&mut self, input: &[u8], requests: &mut Vec<Request>) -> bool {
        let Some(hold) = &mut self.hold else { return false };
        hold.keep(input, requests.drain(..));
        true
    }

    /// A publish has met an alarm: it is kept with what comes after it, and the client is told
    /// (RabbitMQ: `connection.blocked` comes with the first publish, not before).
    pub(super) fn hold(&mut self, input: &[u8], requests: impl Iterator<Item = Request>) {
        self.hold.get_or_insert_default().keep(input, requests);
        self.connection.blocked.store(true, Ordering::Relaxed);
        // The alarm may have cleared since it was met: then the hold ends as soon as it is looked at.
        let reason = self.broker.alarms.reason().unwrap_or_default();
        self.tell(|sink| sink.event(Event::Blocked { reason }));
    }

    /// Whether the connection must not be read now: it published during an alarm, or the log, the
    /// pager or the queues in the older form have more to write than they may.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let parts = self.broker.storage.publishers_wait_for();
        self.hold.is_some() || !parts.iter().all(|part| part.has_capacity())
    }

    /// Resolves when [`Session::is_held`] may have become false; then call
    /// [`Session::release_hold`].
    pub async fn released(&self) {
        if self.hold.is_some() {
            self.broker.alarms.cleared().await;
        }
        capacity::of_all(&self.broker.storage.publishers_wait_for()).await;
    }

    /// Ends the hold of an alarm that has cleared: tells the client, and does what was kept.
    ///
    /// # Errors
    /// As [`Session::submit`].
    pub async fn release_hold(&mut self) -> Result<(), Stop> {
        if self.broker.alarms.any() {
            return Ok(());
        }
        let Some(BlockedRequests(mut kept)) = self.hold.take() else { return Ok(()) };
        self.connection.blocked.store(false, Ordering::Relaxed);
        self.tell(|sink| sink.event(Event::Unblocked));
        self.submit(&[], &mut kept).await
    }
}
