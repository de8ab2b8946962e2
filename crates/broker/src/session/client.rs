//! The client of a session: its rights, its channels, and the way to its outbox.

use super::access::{Access, text};
use super::channels::Channels;
use super::limits;
use super::publisher_links::PublisherLinks;
use super::turn::Turn;
use super::{Handled, Stop};
use crate::connections::RouteTally;
use confirm::ConfirmQueue;
use message::MessageRef;
use meta::Name;
use queue_type::Tally;
use queues::QueueRef;
use session::{
    ChannelId, Control, Error, ErrorKind, Event, MethodTag, Publish, Request, ReturnReason,
    ShortString,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The parts of a session that all of its requests need.
pub(super) struct Client {
    pub(super) access: Access,
    pub(super) channels: Channels,
    pub(super) turn: Turn,
    pub(super) confirms: Arc<ConfirmQueue>,
}

impl Client {
    /// The queue a name stands for on a channel: an empty one is the last declared.
    pub(super) fn queue_name(&self, channel: ChannelId, name: &ShortString) -> Result<Name, Error> {
        if !name.as_bytes().is_empty() {
            return text(name);
        }
        match self.channels.get(channel).and_then(|channel| channel.last_queue.as_ref()) {
            Some(last) => text(last),
            None => Err(Error::new(ErrorKind::NotFound, "no previously declared queue")),
        }
    }

    /// Where a channel counts what it is given from a queue, or, without one, as direct replies.
    pub(super) fn tally(&self, channel: ChannelId, queue: Option<&QueueRef>) -> Arc<Tally> {
        let channel = self.channels.get(channel);
        let queue = queue.map(|queue| (queue.id(), queue.def().kind));
        channel.map(|it| it.counters.deliveries.tally(queue)).unwrap_or_default()
    }

    /// Where a channel counts messages to an exchange that go to these queues.
    #[cold]
    pub(super) fn route_tally(
        &self,
        channel: ChannelId,
        exchange: &[u8],
        queues: &[QueueRef],
    ) -> Arc<RouteTally> {
        let (channel, queues) = (self.channels.get(channel), queues.iter().map(QueueRef::id));
        channel.map(|it| it.counters.by_route.tally(exchange, queues.collect())).unwrap_or_default()
    }

    /// No queue takes a message: it goes back if it is mandatory, and is counted.
    pub(super) fn note_unroutable(&mut self, publish: &Publish, message: MessageRef<'_>) {
        if let Some(channel) = self.channels.get(publish.channel) {
            channel.counters.note_unroutable(publish.mandatory);
        }
        if publish.mandatory {
            self.turn.return_message(publish.channel, ReturnReason::Unroutable, message);
        }
    }

    pub(super) fn open_channel(&mut self, channel: ChannelId) -> Result<Handled, Error> {
        limits::check_channel(
            &self.access.broker,
            &self.access.view,
            &self.access.connection.identity.user,
        )?;
        let opened = self.channels.open(channel);
        let counters = Arc::clone(&opened.counters);
        let limits = self.access.broker.limits();
        if limits.channel_prefetch && limits.channel_has_default_prefetch {
            let limit = opened.limit.get_or_insert_default();
            // Nobody consumes yet who would go on now.
            drop(limit.set(limits.default_prefetch));
        }
        let prefetch_count = limits.default_prefetch;
        self.channels.set_prefetch(channel, prefetch_count);
        stdx::lock(&self.access.connection.channels).insert(channel, counters);
        self.access.broker.connections.note_channel_opened();
        self.access.broker.events().channel("channel.created", &self.access.connection, channel);
        self.turn.answer(Event::ChannelOpened(channel))
    }

    pub(super) fn select_confirms(&mut self, id: ChannelId) -> Result<Handled, Error> {
        let Some(channel) = self.channels.get_mut(id) else { return Ok(Handled::Done) };
        if channel.tx.is_some() {
            let text = "cannot switch from tx to confirm mode";
            return Err(Error::new(ErrorKind::PreconditionFailed, text));
        }
        channel.last_sequence.get_or_insert(0);
        channel.publisher.get_or_insert_with(|| self.confirms.open(id));
        channel.counters.confirm.store(true, Ordering::Relaxed);
        Ok(Handled::Done)
    }

    pub(super) fn select_tx(&mut self, channel: ChannelId) -> Result<Handled, Error> {
        let Some(channel) = self.channels.get_mut(channel) else { return Ok(Handled::Done) };
        if channel.last_sequence.is_some() {
            let text = "cannot switch from confirm to tx mode";
            return Err(Error::new(ErrorKind::PreconditionFailed, text));
        }
        channel.tx.get_or_insert_default();
        channel.counters.transactional.store(true, Ordering::Relaxed);
        Ok(Handled::Done)
    }

    /// Whether an alarm keeps the client from publishing this.
    #[inline]
    pub(super) fn is_stopped(
        &self,
        publishers: Option<&mut PublisherLinks>,
        request: &Request,
    ) -> bool {
        let alarms = &self.access.broker.alarms;
        match request {
            Request::Publish(publish) => {
                alarms.any() && !publishers.is_some_and(|it| it.forgives(publish))
            }
            Request::Append(_) => alarms.stops_streams(),
            Request::Settle(_) | Request::Credit(_) | Request::Flow(_) | Request::Control(_) => {
                false
            }
        }
    }

    /// Tells the client that a request is refused, which ends nothing here.
    pub(super) fn refuse(&self, control: &Control, error: &Error) {
        let (connection, channel) = (&self.access.connection.identity.name, control.channel.0);
        if error.kind == ErrorKind::AccessRefused {
            tracing::warn!(%connection, channel, "refusing a request: {error}");
        } else {
            tracing::debug!(%connection, channel, "refusing a request: {error}");
        }
        self.turn.tell(|sink| {
            sink.event(Event::Refused { origin: control.origin, error: error.clone() });
        });
    }

    /// Ends the connection for an error that leaves no other way. What it holds is given back by
    /// [`Session::close`](super::Session::close).
    pub(super) fn end(&self, channel: ChannelId, error: Error) -> Stop {
        tracing::warn!(
            connection = %self.access.connection.identity.name,
            "closing the connection: {error}"
        );
        self.turn.tell(|sink| {
            let (error, origin) = (error.clone(), Some(MethodTag::default()));
            sink.event(Event::ConnectionFailed { channel: Some(channel), error, origin });
        });
        Stop
    }
}
