//! Connections that are not listened to: they published during an alarm, or the node has more to write than
//! it may. What an alarm meets first is kept with all that was read after it; nothing of it has happened.

use super::client::Client;
use super::transactions::owned;
use super::{Session, Stop};
use session::{Event, Request};
use std::sync::atomic::Ordering;

/// Requests to be carried out once the alarms have cleared. Not more than one read brings, since nothing is
/// read meanwhile.
#[derive(Debug, Default)]
pub(super) struct BlockedRequests(Vec<Request>);

impl BlockedRequests {
    /// A publish has met an alarm: it is to be kept with what comes after it, and the client is told
    /// (RabbitMQ: `connection.blocked` comes with the first publish, not before).
    pub(super) fn begin(client: &Client) -> Self {
        client.access.connection().blocked.store(true, Ordering::Relaxed);
        // The alarm may have cleared since it was met: then the hold ends as soon as it is looked at.
        let reason = client.access.broker().alarms.reason().unwrap_or_default();
        client.turn.tell(|sink| sink.event(Event::Blocked { reason }));
        Self::default()
    }

    pub(super) fn keep(&mut self, input: &[u8], requests: impl Iterator<Item = Request>) {
        self.0.extend(requests.map(|request| match request {
            Request::Publish(publish) => Request::Publish(owned(&publish, input)),
            Request::Append(append) => Request::Append(append.owned(input)),
            other @ (Request::Settle(_) | Request::Credit(_) | Request::Control(_)) => other,
        }));
    }
}

impl Session {
    /// Whether the connection must not be read now: it published during an alarm, or the log, the
    /// pager or the queues of version 1 have more to write than they may.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_some() || !self.client.access.broker().classic.services().has_capacity()
    }

    /// Resolves when [`Session::is_held`] may have become false; then call
    /// [`Session::release_hold`].
    pub async fn released(&self) {
        if self.hold.is_some() {
            self.client.access.broker().alarms.cleared().await;
        }
        self.client.access.broker().classic.services().capacity().await;
    }

    /// Ends the hold of an alarm that has cleared: tells the client, and does what was kept.
    ///
    /// # Errors
    /// As [`Session::submit`].
    pub async fn release_hold(&mut self) -> Result<(), Stop> {
        if self.client.access.broker().alarms.any() {
            return Ok(());
        }
        let Some(BlockedRequests(mut kept)) = self.hold.take() else { return Ok(()) };
        self.connection().blocked.store(false, Ordering::Relaxed);
        self.client.turn.tell(|sink| sink.event(Event::Unblocked));
        self.submit(&[], &mut kept).await
    }
}
