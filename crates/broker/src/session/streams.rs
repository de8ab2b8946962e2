//! Requests of clients that use streams as such. A refusal is the request's alone: nothing is closed for it.

mod definitions;
mod super_streams;

use super::Handled;
use super::client::Client;
use crate::alarms::Alarm;
use crate::queue_ref::QueueRef;
use meta::{Name, Permission};
use session::{
    Append, Control, Error, ErrorKind, Event, StreamCredit, StreamEvent, StreamOp, StreamRefusal,
};
use streamproto::command::{FilteredMessage, PublishedMessage};
use streamproto::field::Field;
use super_streams::SuperStreams;

/// The longest name of a publisher or consumer, in bytes.
const REFERENCE_BYTES_MAX: usize = 255;
/// The type of queue that is a stream.
const STREAM_TYPE: &str = "stream";

/// Requests for streams, of a client.
pub(super) struct StreamRequests<'c> {
    client: &'c mut Client,
}

/// The publishers and subscriptions of a client. There are none before there are streams.
#[derive(Debug, Default)]
pub(super) struct Streams;

impl Streams {
    /// Does what a request for streams asks for.
    pub(super) async fn act(
        &self,
        client: &mut Client,
        control: &Control,
        op: &StreamOp,
    ) -> Result<Handled, Error> {
        let origin = control.origin;
        let is_answered =
            !matches!(op, StreamOp::StoreOffset { .. } | StreamOp::ConsumerUpdated { .. });
        match (StreamRequests { client }).act(control, op).await {
            Ok(handled) => Ok(handled),
            Err(why) if is_answered => {
                client.turn.answer(Event::Stream(StreamEvent::Refused { origin, why }))
            }
            Err(why) => {
                let connection = &client.access.connection().identity.name;
                tracing::warn!(%connection, "a request for a stream that has no answer: {why:?}");
                Ok(Handled::Answered)
            }
        }
    }

    /// Appends the messages that a publisher has published.
    pub(super) fn append(&self, client: &Client, append: &Append, input: &[u8]) {
        client.turn.tell(|sink| {
            for id in publishing_ids(append, input) {
                let why = Err(StreamRefusal::PublisherDoesNotExist);
                sink.answer_append(append.publisher, id, id, why);
            }
        });
    }

    /// Gives a subscription credit.
    pub(super) fn credit(&self, client: &Client, credit: StreamCredit) {
        let (subscription, why) = (credit.subscription, StreamRefusal::SubscriptionIdDoesNotExist);
        client.turn.tell(|sink| {
            sink.event(Event::Stream(StreamEvent::CreditRefused { subscription, why }));
        });
    }
}

impl StreamRequests<'_> {
    async fn act(&mut self, control: &Control, op: &StreamOp) -> Result<Handled, StreamRefusal> {
        match op {
            StreamOp::DeclarePublisher { reference, stream, .. } => {
                self.declare_publisher(reference, stream)
            }
            StreamOp::DeletePublisher(_) => Err(StreamRefusal::PublisherDoesNotExist),
            StreamOp::Unsubscribe(_) => Err(StreamRefusal::SubscriptionIdDoesNotExist),
            StreamOp::Subscribe(subscription) => {
                self.require(Permission::Read, &subscription.stream)?;
                check_reference(subscription.name.as_deref().unwrap_or_default())?;
                self.use_stream(&subscription.stream)
            }
            StreamOp::StoreOffset { stream, .. }
            | StreamOp::QueryPublisherSequence { stream, .. }
            | StreamOp::QueryOffset { stream, .. }
            | StreamOp::ResolveOffset { stream, .. }
            | StreamOp::Stats { stream } => {
                self.require(Permission::Read, stream)?;
                self.use_stream(stream)
            }
            StreamOp::ConsumerUpdated { .. } => Ok(Handled::Answered),
            StreamOp::Create { stream, arguments } => self.create(stream, arguments).await,
            StreamOp::Delete { stream } => self.delete(stream).await,
            StreamOp::Metadata { streams } => self.metadata(control.origin, streams),
            StreamOp::Route { routing_key, super_stream } => {
                SuperStreams(self).route(control.origin, routing_key, super_stream)
            }
            StreamOp::Partitions { super_stream } => {
                SuperStreams(self).partitions(control.origin, super_stream)
            }
            StreamOp::CreateSuperStream(wanted) => SuperStreams(self).create(wanted).await,
            StreamOp::DeleteSuperStream { super_stream } => {
                SuperStreams(self).delete(super_stream).await
            }
        }
    }

    /// COMPAT: while the disk is short of space nobody begins to publish. Test:
    /// `requests_without_a_stream_are_refused_in_rabbitmqs_order`.
    fn declare_publisher(&self, reference: &str, stream: &str) -> Result<Handled, StreamRefusal> {
        if self.client.access.broker().alarms.is_on(Alarm::Disk) {
            return Err(StreamRefusal::PreconditionFailed);
        }
        self.require(Permission::Write, stream)?;
        check_reference(reference)?;
        self.use_stream(stream)
    }

    /// No stream can be used before there are any.
    fn use_stream(&self, stream: &str) -> Result<Handled, StreamRefusal> {
        self.find_stream(stream).and(Err(StreamRefusal::StreamNotAvailable))
    }

    fn find_stream(&self, name: &str) -> Result<QueueRef, StreamRefusal> {
        let found = self.client.access.find_queue(&Name::from(name)).ok();
        let stream = found.filter(|queue| queue.def().kind.as_str() == STREAM_TYPE);
        stream.ok_or(StreamRefusal::StreamDoesNotExist)
    }

    fn may(&self, permission: Permission, stream: &str) -> bool {
        self.client.access.require_on_queue(permission, &Name::from(stream)).is_ok()
    }

    fn require(&self, permission: Permission, stream: &str) -> Result<(), StreamRefusal> {
        if self.may(permission, stream) { Ok(()) } else { Err(StreamRefusal::AccessRefused) }
    }

    /// The refusal of a change of definitions; the log is told more than the client.
    fn refused(&self, what: &str, error: &Error) -> StreamRefusal {
        let connection = &self.client.access.connection().identity.name;
        tracing::warn!(%connection, "cannot {what}: {error}");
        if error.kind == ErrorKind::InternalError {
            StreamRefusal::InternalError
        } else {
            StreamRefusal::PreconditionFailed
        }
    }
}

fn check_reference(reference: &str) -> Result<(), StreamRefusal> {
    match reference.len() {
        0..=REFERENCE_BYTES_MAX => Ok(()),
        _ => Err(StreamRefusal::PreconditionFailed),
    }
}

/// The ids of all messages and sub-batches that are to be appended.
fn publishing_ids<'a>(append: &'a Append, input: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
    let mut rest = append.entries(input);
    (0..append.n_entries).map_while(move |_| {
        let id = match append.has_filter_values {
            true => FilteredMessage::read(&mut rest).ok()?.publishing_id,
            false => PublishedMessage::read(&mut rest).ok()?.publishing_id,
        };
        Some(id)
    })
}
