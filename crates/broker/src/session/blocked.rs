//! Connections that are not read: they published during an alarm, or the node has more to write than it may.
//! The request that meets an alarm is kept with all that were read after it; none of them has had an effect.

use super::client::Client;
use super::transactions::owned;
use super::{Session, Stop};
use crate::alarms::Alarms;
use session::{Event, ReadInput, Request};
use std::sync::atomic::Ordering;

/// Requests to be carried out once the alarms have cleared. They are no more than one read brings, since
/// nothing is read meanwhile.
#[derive(Debug)]
pub(super) struct BlockedRequests {
    kept: Vec<Request>,
    /// Whether the first request appends to a stream over the stream protocol, which fewer alarms block.
    is_of_streams: bool,
}

impl BlockedRequests {
    /// Begins to keep requests, since the first has met an alarm, and tells the client (RabbitMQ:
    /// `connection.blocked` comes with the first publish, not before).
    pub(super) fn begin(client: &Client, first: Option<&Request>) -> Self {
        client.access.connection.blocked.store(true, Ordering::Relaxed);
        // The alarm may have cleared since it was met: then the hold ends as soon as it is looked at.
        let reason = client.access.broker.alarms.reason().unwrap_or_default();
        client.turn.tell(|sink| sink.event(Event::Blocked { reason }));
        let is_of_streams = matches!(first, Some(Request::Append(_)));
        Self { kept: Vec::new(), is_of_streams }
    }

    /// Whether the alarms that the requests wait for have cleared.
    fn may_go_on(&self, alarms: &Alarms) -> bool {
        if self.is_of_streams { !alarms.stops_streams() } else { !alarms.any() }
    }

    pub(super) fn keep(&mut self, input: ReadInput<'_>, requests: impl Iterator<Item = Request>) {
        self.kept.extend(requests.map(|request| match request {
            Request::Publish(publish) => Request::Publish(owned(&publish, input)),
            Request::Append(append) => Request::Append(append.owned(input.bytes)),
            other @ (Request::Settle(_)
            | Request::Credit(_)
            | Request::Flow(_)
            | Request::Control(_)) => other,
        }));
    }
}

/// Tells a client that is held back by windows whether an alarm is on. COMPAT: as with RabbitMQ it is read
/// on, also when it publishes.
pub(super) fn tell_alarms(client: &Client) {
    let reason = client.access.broker.alarms.reason();
    client.turn.tell(|sink| {
        sink.event(reason.map_or(Event::Unblocked, |reason| Event::Blocked { reason }));
    });
}

/// A reason not to read a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// No reason: the connection may be read.
    None,
    /// The log, the pager, the queues of version 1 or streams have more to write than they may: connections
    /// that bring much wait.
    NoRoom,
    /// The connection published during an alarm.
    Blocked,
}

impl Session {
    /// The reason for which the connection must not be read now, if there is one.
    pub fn hold(&self) -> Hold {
        let broker = &self.client.access.broker;
        if self.hold.is_some() {
            Hold::Blocked
        } else if broker.classic.services.has_capacity()
            && broker.control_plane.streams().has_capacity()
        {
            Hold::None
        } else {
            Hold::NoRoom
        }
    }

    /// Resolves when [`Session::hold`] may have ended; then call [`Session::release_hold`].
    pub async fn released(&self) {
        let alarms = &self.client.access.broker.alarms;
        match &self.hold {
            Some(hold) if hold.is_of_streams => alarms.cleared_for_streams().await,
            Some(_) => alarms.cleared().await,
            None => {}
        }
        let broker = &self.client.access.broker;
        broker.classic.services.capacity().await;
        broker.control_plane.streams().capacity().await;
    }

    /// Ends the hold of an alarm that has cleared: tells the client, and carries out the requests that were
    /// kept.
    ///
    /// # Errors
    /// As [`Session::submit`].
    pub async fn release_hold(&mut self) -> Result<(), Stop> {
        let alarms = &self.client.access.broker.alarms;
        let hold = self.hold.take_if(|hold| hold.may_go_on(alarms));
        let Some(BlockedRequests { mut kept, .. }) = hold else { return Ok(()) };
        self.connection().blocked.store(false, Ordering::Relaxed);
        self.client.turn.tell(|sink| sink.event(Event::Unblocked));
        self.submit(&ReadInput::NONE, &mut kept).await
    }
}
