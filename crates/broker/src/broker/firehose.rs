//! The firehose: copies of what is published and delivered go to an exchange, for whoever looks for a
//! fault (<https://www.rabbitmq.com/docs/firehose>).
//!
//! While nobody has asked for it, it costs one look at a flag for each batch. Copies are made where the
//! messages are at hand, and published by the thread of rules; those that are too many are dropped.

use super::Broker;
use crate::connections::Connection;
use crate::timers::QueueTimers;
use message::{MessageRef, OwnedMessage};
use meta::Name;
use session::ChannelId;
use std::sync::Arc;
use trace::{ClockNs, Delivered, Flow, InternalMessage, Spans, Tapped, TracedClient};

/// The copy of a message that was given to somebody; none if it is not to be told, or nobody knows any more
/// who got it.
pub(crate) fn notice_of(broker: &Broker, delivered: &Delivered) -> Option<InternalMessage> {
    let connection = broker.connections.get(delivered.connection)?;
    let is_told = delivered.covers(&connection.identity.user);
    is_told.then(|| client(broker, &connection, delivered.channel).delivered(delivered))
}

fn client<'c>(
    broker: &'c Broker,
    connection: &'c Connection,
    channel: ChannelId,
) -> TracedClient<'c> {
    let (identity, node) = (&connection.identity, &broker.limits().node);
    let (vhost, connection, user) = (&identity.vhost, &identity.name, &identity.user);
    TracedClient { node, vhost, connection, user, channel }
}

/// The firehose, for those who turn it on and those whose messages go by.
#[derive(Clone, Copy, Debug)]
pub struct Firehose<'b>(&'b Broker);

impl Broker {
    /// The firehose.
    pub const fn firehose(&self) -> Firehose<'_> {
        Firehose(self)
    }
}

impl<'b> Firehose<'b> {
    /// Makes spans of messages that belong to a sampled trace from now on.
    #[must_use]
    pub fn start_spans(&self, now_ns: ClockNs) -> Arc<Spans> {
        self.0.timers.tracing.start_spans(Spans::new(now_ns, self.0.names.random_u64()))
    }

    /// The spans that wait, if there are to be any.
    pub fn spans(&self) -> Option<&'b Arc<Spans>> {
        self.0.timers.tracing.spans()
    }

    /// Traces a virtual host: all of it, or what one user publishes and gets. False if there is no such
    /// virtual host.
    #[must_use]
    pub fn start(&self, vhost: &str, user: Option<&str>) -> bool {
        let is_there = self.0.view().meta.vhost(vhost).is_some();
        if is_there {
            self.0.timers.tracing.start(Name::from(vhost), user.map(Name::from));
        }
        is_there
    }

    /// Ends what [`Firehose::start`] began. False if there is no such virtual host.
    #[must_use]
    pub fn stop(&self, vhost: &str, user: Option<&str>) -> bool {
        self.0.timers.tracing.stop(vhost, user);
        self.0.view().meta.vhost(vhost).is_some()
    }

    /// Watches what comes there from now on.
    #[must_use]
    pub fn tap(&self, of: Tapped) -> Tap {
        let (flow, timers) = (Arc::new(Flow::new(of)), Arc::clone(&self.0.timers));
        timers.tracing.change_taps(|taps| taps.push(Arc::clone(&flow)));
        Tap { flow, timers }
    }

    /// Whether anything of a virtual host is traced.
    pub fn is_on(&self, vhost: &str) -> bool {
        self.0.timers.tracing.of(vhost).is_some()
    }

    /// Whether what this connection publishes is traced.
    pub(crate) fn covers(&self, connection: &Connection) -> bool {
        let identity = &connection.identity;
        self.0.timers.tracing.covers(&identity.vhost, &identity.user)
    }

    /// Takes a copy of a message that was published and put into these queues.
    pub(crate) fn published(
        &self,
        connection: &Connection,
        channel: ChannelId,
        message: &MessageRef<'_>,
        queues: &[Name],
    ) {
        let client = client(self.0, connection, channel);
        client.published(message, queues).into_iter().for_each(|copy| self.0.timers.post(copy));
    }
}

/// A tap, until it is dropped.
#[derive(Debug)]
pub struct Tap {
    flow: Arc<Flow>,
    timers: Arc<QueueTimers>,
}

impl Tap {
    /// Takes the messages that have come since, and how many beside them were left out.
    #[must_use]
    pub fn take(&self) -> (Vec<OwnedMessage>, u64) {
        self.flow.take()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let is_other = |flow: &Arc<Flow>| !Arc::ptr_eq(flow, &self.flow);
        self.timers.tracing.change_taps(|taps| taps.retain(is_other));
    }
}
