//! Requests of clients of the stream protocol. A refused request closes neither channel nor connection.

mod definitions;
mod super_streams;

use super::Handled;
use super::client::Client;
use super::links::Links;
use super::turn::Turn;
use crate::alarms::Alarm;
use conversion::{DecodeBuffer, Origin, decode_amqp10};
use message::MessageRef;
use meta::{Name, Permission, QueueKind};
use queues::QueueRef;
use session::{
    Append, Control, Error, ErrorKind, Event, LinkId, MethodTag, ONLY_CHANNEL, PublisherId,
    StreamCredit, StreamEvent, StreamOffset, StreamOp, StreamRefusal, StreamSubscription,
    SubscriptionId,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use stream::{GroupSeat, Inspection, Stream, StreamPublisher, Subscribe, Subscription};
use streamproto::Entry;
use streamproto::command::{FilteredMessage, PublishedMessage};
use streamproto::field::Field;
use super_streams::SuperStreams;
use tokio::task::block_in_place;

/// The longest name of a publisher or consumer, in bytes.
const REFERENCE_BYTES_MAX: usize = 255;

/// Requests for streams, of a client.
pub(super) struct StreamRequests<'c> {
    client: &'c mut Client,
}

/// The cost of a subscription's end, in steps: its group chooses another member.
const DETACH_STEPS: usize = 16;
/// Publishers, and subscriptions, of one connection. COMPAT: RabbitMQ's limit.
const PER_CONNECTION_MAX: usize = 256;

/// The publishers and subscriptions of a client.
#[derive(Debug, Default)]
pub(super) struct Streams {
    publishers: BTreeMap<PublisherId, StreamPublisher>,
    subscriptions: BTreeMap<SubscriptionId, Arc<Subscription>>,
    /// Publishers with appended messages that are yet to be written.
    appended: Vec<PublisherId>,
    /// Subscriptions that were given credit, and have not read on since.
    credited: Vec<SubscriptionId>,
}

impl Streams {
    /// Does what a request for streams asks for.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others need no publisher or subscription"
    )]
    pub(super) async fn act(
        &mut self,
        client: &mut Client,
        links: &mut Links,
        control: &Control,
        op: &StreamOp,
    ) -> Result<Handled, Error> {
        let origin = control.origin;
        let is_answered =
            !matches!(op, StreamOp::StoreOffset { .. } | StreamOp::ConsumerUpdated { .. });
        self.forget_gone();
        let broker = Arc::clone(&client.access.broker);
        let _turn = if looks_up(op) { broker.connections.disk_turn().await } else { None };
        let mut requests = StreamRequests { client };
        let handled = match op {
            StreamOp::DeclarePublisher { publisher, reference, stream } => {
                self.declare_publisher(&requests, *publisher, reference, stream)
            }
            StreamOp::DeletePublisher(publisher) => {
                let deleted = self.publishers.remove(publisher);
                deleted.map(|_| Handled::Done).ok_or(StreamRefusal::PublisherDoesNotExist)
            }
            StreamOp::Subscribe(wanted) => {
                self.subscribe(&requests, origin, wanted, links.next_id())
            }
            StreamOp::Unsubscribe(subscription) => {
                self.unsubscribe(&requests, origin, *subscription)
            }
            StreamOp::ConsumerUpdated { update, offset } => {
                self.consumer_updated(&requests, *update, *offset);
                Ok(Handled::Answered)
            }
            op => requests.act(control, op).await,
        };
        match handled {
            Ok(handled) => Ok(handled),
            Err(why) if is_answered => {
                client.turn.answer(Event::Stream(StreamEvent::Refused { origin, why }))
            }
            Err(why) => {
                let connection = &client.access.connection.identity.name;
                tracing::warn!(%connection, "a stream request without a response failed: {why:?}");
                Ok(Handled::Answered)
            }
        }
    }

    /// Appends the messages that a publisher has published.
    pub(super) fn append(&mut self, client: &mut Client, append: &Append, input: &[u8]) {
        let publisher = self.publishers.get_mut(&append.publisher);
        if let Some(publisher) = publisher.filter(|it| !it.is_gone()) {
            let began_ns = began_ns(client);
            publisher.append(append, input, client.turn.wakes());
            if began_ns > 0 {
                trace_append(client, &publisher.stream, append, input, began_ns);
            }
            if self.appended.last() != Some(&append.publisher) {
                self.appended.push(append.publisher);
            }
            return;
        }
        client.turn.tell(|sink| {
            for (id, _) in published(append, input) {
                let why = Err(StreamRefusal::PublisherDoesNotExist);
                sink.answer_append(append.publisher, id, id, why);
            }
        });
    }

    /// Gives a subscription credit.
    pub(super) fn credit(&mut self, client: &Client, credit: StreamCredit) {
        let known = self.subscriptions.get(&credit.subscription);
        if let Some(subscription) = known.filter(|it| !it.is_gone()) {
            if !subscription.add_credit(credit.n_chunks) {
                // COMPAT: a subscription that is not active keeps the credit all the same.
                refuse_credit(client, credit, StreamRefusal::PreconditionFailed);
            } else if self.credited.last() != Some(&credit.subscription) {
                self.credited.push(credit.subscription);
            }
            return;
        }
        refuse_credit(client, credit, StreamRefusal::SubscriptionIdDoesNotExist);
    }

    /// Resumes deliveries on these links, as far as they are subscriptions'.
    pub(super) fn resume(&self, links: &[LinkId]) {
        let of_links = self.subscriptions.values().filter(|it| links.contains(&it.link()));
        of_links.for_each(Subscription::resume);
    }

    /// Has the appended messages written.
    #[inline]
    pub(super) fn write_appended(&mut self, client: &mut Client) {
        for id in self.appended.drain(..) {
            if let Some(publisher) = self.publishers.get(&id) {
                publisher.write(client.turn.wakes());
            }
        }
    }

    /// Has the subscriptions read on that were given credit.
    #[inline]
    pub(super) fn resume_credited(&mut self) {
        for id in self.credited.drain(..) {
            if let Some(subscription) = self.subscriptions.get(&id) {
                subscription.resume();
            }
        }
    }

    /// Takes away what the client's user may not have any more. COMPAT: publishers and subscriptions of a
    /// stream go together, also if the user has lost one permission only. RabbitMQ checks when new
    /// credentials come, not when permissions change.
    pub(super) fn review_rights(&mut self, client: &Client) {
        let written = self.publishers.values().map(|it| (Permission::Write, &it.stream));
        let read = self.subscriptions.values().map(|it| (Permission::Read, &it.stream));
        let refused = written.chain(read).filter(|(permission, stream)| {
            client.access.require_on_queue(*permission, &stream.def().name).is_err()
        });
        let lost: BTreeMap<_, _> =
            refused.map(|(_, stream)| (stream.id(), Arc::clone(stream))).collect();
        let connection = client.access.connection.id;
        for (id, stream) in lost {
            let links = stream.leave(connection).unwrap_or_default();
            self.publishers.retain(|_, it| it.stream.id() != id);
            let subscriptions = self.subscriptions.extract_if(.., |_, it| it.stream.id() == id);
            subscriptions.for_each(|(_, it)| it.detach());
            let (stream, links) = (&*stream.def().name, &*links);
            client.turn.tell(|sink| {
                sink.event(Event::Stream(StreamEvent::StreamGone { stream, links }));
            });
        }
    }

    /// Gives back everything that the client holds.
    pub(super) async fn release(&mut self, turn: &mut Turn) {
        self.publishers.clear();
        for subscription in std::mem::take(&mut self.subscriptions).values() {
            subscription.detach();
            turn.did_steps(DETACH_STEPS).await;
        }
    }

    /// Forgets publishers and subscriptions whose stream is gone, of which the client was told.
    fn forget_gone(&mut self) {
        self.publishers.retain(|_, publisher| !publisher.is_gone());
        for (_, gone) in self.subscriptions.extract_if(.., |_, it| it.is_gone()) {
            gone.detach();
        }
    }

    /// COMPAT: in RabbitMQ's order; while the disk is short of space nobody begins to publish. Test:
    /// `requests_without_a_stream_are_refused_in_rabbitmqs_order`.
    fn declare_publisher(
        &mut self,
        requests: &StreamRequests<'_>,
        id: PublisherId,
        reference: &str,
        stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        let client = &requests.client;
        let is_short = client.access.broker.alarms.is_on(Alarm::Disk);
        if is_short || self.publishers.len() >= PER_CONNECTION_MAX {
            return Err(StreamRefusal::PreconditionFailed);
        }
        requests.require(Permission::Write, stream)?;
        check_reference(reference)?;
        let has_name = |it: &StreamPublisher| {
            it.reference() == Some(reference.as_bytes()) && &*it.stream.def().name == stream
        };
        if self.publishers.contains_key(&id) || self.publishers.values().any(has_name) {
            return Err(StreamRefusal::PreconditionFailed);
        }
        let stream = requests.find_stream(stream)?;
        let reference = Some(reference.as_bytes()).filter(|reference| !reference.is_empty());
        let (connection, outbox) = (client.access.connection.id, &client.turn.outbox);
        let publisher = stream.publisher(connection, id, reference, outbox)?;
        self.publishers.insert(id, publisher);
        Ok(Handled::Done)
    }

    /// COMPAT: in RabbitMQ's order; the name of a single active consumer may be empty, not missing.
    fn subscribe(
        &mut self,
        requests: &StreamRequests<'_>,
        origin: MethodTag,
        wanted: &StreamSubscription,
        link: LinkId,
    ) -> Result<Handled, StreamRefusal> {
        if self.subscriptions.len() >= PER_CONNECTION_MAX {
            return Err(StreamRefusal::PreconditionFailed);
        }
        requests.require(Permission::Read, &wanted.stream)?;
        check_reference(wanted.name.as_deref().unwrap_or_default())?;
        let stream = requests.find_stream(&wanted.stream)?;
        if self.subscriptions.contains_key(&wanted.subscription) {
            return Err(StreamRefusal::SubscriptionIdAlreadyExists);
        }
        let group = if wanted.single_active { Some(requests.group_seat(wanted)?) } else { None };
        let client = &requests.client;
        let subscribe = Subscribe {
            owner: (client.access.connection.id, ONLY_CHANNEL),
            id: wanted.subscription,
            properties: &wanted.properties,
            link,
            outbox: &client.turn.outbox,
            offset: wanted.offset,
            selection: &wanted.selection,
            credit: wanted.credit,
            group,
        };
        // Where it begins is looked up on the disk: others go on meanwhile.
        let subscription = block_in_place(|| stream.subscribe(subscribe))?;
        subscription.begin(|| {
            let subscription = wanted.subscription;
            requests.tell(StreamEvent::Subscribed { origin, link, subscription });
        })?;
        self.subscriptions.insert(wanted.subscription, subscription);
        Ok(Handled::Answered)
    }

    /// COMPAT: whatever response code the answer has; one that nobody waits for is passed over.
    fn consumer_updated(
        &self,
        requests: &StreamRequests<'_>,
        update: u32,
        offset: Option<StreamOffset>,
    ) {
        let subscription = self.subscriptions.get(&stream::updated_subscription(update));
        if !subscription.is_some_and(|it| block_in_place(|| it.updated(update, offset))) {
            let connection = &requests.client.access.connection.identity.name;
            tracing::debug!(%connection, "unexpected response to consumer update {update}");
        }
    }

    fn unsubscribe(
        &mut self,
        requests: &StreamRequests<'_>,
        origin: MethodTag,
        id: SubscriptionId,
    ) -> Result<Handled, StreamRefusal> {
        let gone = self.subscriptions.remove(&id);
        let gone = gone.ok_or(StreamRefusal::SubscriptionIdDoesNotExist)?;
        gone.detach();
        Ok(requests.tell(StreamEvent::Unsubscribed { origin, link: gone.link() }))
    }
}

impl StreamRequests<'_> {
    async fn act(&mut self, control: &Control, op: &StreamOp) -> Result<Handled, StreamRefusal> {
        let origin = control.origin;
        match op {
            StreamOp::StoreOffset { reference, stream, offset } => {
                self.store_offset(reference, stream, *offset)
            }
            StreamOp::QueryPublisherSequence { reference, stream } => {
                let stream = self.stream_to_read(stream)?;
                let known = stream.tracked().publisher_sequence(reference.as_bytes());
                let sequence = known.unwrap_or(0);
                Ok(self.tell(StreamEvent::PublisherSequence { origin, sequence }))
            }
            StreamOp::QueryOffset { reference, stream } => {
                let stream = self.stream_to_read(stream)?;
                let known = stream.tracked().stored_offset(reference.as_bytes());
                let offset = known.ok_or(StreamRefusal::NoOffset)?;
                Ok(self.tell(StreamEvent::Offset { origin, offset }))
            }
            StreamOp::ResolveOffset { stream, offset, selection } => {
                let stream = self.stream_to_read(stream)?;
                let offset = block_in_place(|| stream.resolve(*offset, selection))?;
                Ok(self.tell(StreamEvent::Offset { origin, offset }))
            }
            StreamOp::Stats { stream } => self.stats(origin, stream),
            StreamOp::Create { stream, arguments } => self.create(stream, arguments).await,
            StreamOp::Delete { stream } => self.delete(origin, stream).await,
            StreamOp::Metadata { streams } => self.metadata(origin, streams).await,
            StreamOp::Route { routing_key, super_stream } => {
                SuperStreams(self).route(origin, routing_key, super_stream)
            }
            StreamOp::Partitions { super_stream } => {
                SuperStreams(self).partitions(origin, super_stream).await
            }
            StreamOp::CreateSuperStream(wanted) => SuperStreams(self).create(wanted).await,
            StreamOp::DeleteSuperStream { super_stream } => {
                SuperStreams(self).delete(origin, super_stream).await
            }
            StreamOp::ConsumerUpdated { .. }
            | StreamOp::DeclarePublisher { .. }
            | StreamOp::DeletePublisher(_)
            | StreamOp::Subscribe(_)
            | StreamOp::Unsubscribe(_) => Ok(Handled::Answered),
        }
    }

    /// The group of a single active consumer.
    fn group_seat(&self, wanted: &StreamSubscription) -> Result<GroupSeat, StreamRefusal> {
        let name = wanted.name.clone().ok_or(StreamRefusal::PreconditionFailed)?;
        let access = &self.client.access;
        let partition = wanted.super_stream.as_deref().and_then(|super_stream| {
            meta::super_stream_partition_index(access.own_vhost()?, super_stream, &wanted.stream)
        });
        Ok(GroupSeat { name, partition, subscription: wanted.subscription })
    }

    fn store_offset(
        &mut self,
        reference: &str,
        stream: &str,
        offset: u64,
    ) -> Result<Handled, StreamRefusal> {
        let stream = self.stream_to_read(stream)?;
        check_reference(reference)?;
        let wakes = self.client.turn.wakes();
        stream.tracked().store_offset(reference.as_bytes(), offset, wakes);
        Ok(Handled::Answered)
    }

    /// COMPAT: a stream without messages has -1 everywhere.
    fn stats(&self, origin: MethodTag, stream: &str) -> Result<Handled, StreamRefusal> {
        let stream = self.stream_to_read(stream)?;
        let inspection = Inspection::of(&stream);
        // The last one is looked up on the disk once after a start.
        let last = block_in_place(|| inspection.committed_chunk_id());
        let figures = [
            ("first_chunk_id", inspection.first_chunk_id()),
            ("committed_chunk_id", last),
            ("last_chunk_id", last),
            ("committed_offset", inspection.figures().committed_offset),
        ];
        Ok(self.tell(StreamEvent::Stats { origin, figures: &figures }))
    }

    fn stream_to_read(&self, stream: &str) -> Result<Arc<Stream>, StreamRefusal> {
        self.require(Permission::Read, stream)?;
        self.find_stream(stream)
    }

    /// A stream that can be used: of this node, and with nothing missing.
    fn find_stream(&self, name: &str) -> Result<Arc<Stream>, StreamRefusal> {
        let queue = self.find_stream_queue(name)?;
        let stream = queue.as_stream().filter(|stream| stream.lack().is_none());
        stream.cloned().ok_or(StreamRefusal::StreamNotAvailable)
    }

    fn find_stream_queue(&self, name: &str) -> Result<QueueRef, StreamRefusal> {
        let found = self.client.access.find_queue(&Name::from(name)).ok();
        let is_stream = |it: &QueueRef| it.def().kind == QueueKind::Stream && !it.is_deleted();
        found.filter(is_stream).ok_or(StreamRefusal::StreamDoesNotExist)
    }

    fn may(&self, permission: Permission, stream: &str) -> bool {
        self.client.access.require_on_queue(permission, &Name::from(stream)).is_ok()
    }

    fn require(&self, permission: Permission, stream: &str) -> Result<(), StreamRefusal> {
        if self.may(permission, stream) { Ok(()) } else { Err(StreamRefusal::AccessRefused) }
    }

    /// The refusal of a change of definitions; the log is told more than the client.
    fn refused(&self, what: &str, error: &Error) -> StreamRefusal {
        let connection = &self.client.access.connection.identity.name;
        tracing::warn!(%connection, "cannot {what}: {error}");
        if error.kind == ErrorKind::InternalError {
            StreamRefusal::InternalError
        } else {
            StreamRefusal::PreconditionFailed
        }
    }
}

/// Whether a request may have to look up places on the disk.
const fn looks_up(op: &StreamOp) -> bool {
    matches!(
        op,
        StreamOp::Subscribe(_)
            | StreamOp::ConsumerUpdated { .. }
            | StreamOp::ResolveOffset { .. }
            | StreamOp::Stats { .. }
    )
}

fn refuse_credit(client: &Client, credit: StreamCredit, why: StreamRefusal) {
    let subscription = credit.subscription;
    client.turn.tell(|sink| {
        sink.event(Event::Stream(StreamEvent::CreditRefused { subscription, why }));
    });
}

fn check_reference(reference: &str) -> Result<(), StreamRefusal> {
    match reference.len() {
        0..=REFERENCE_BYTES_MAX => Ok(()),
        _ => Err(StreamRefusal::PreconditionFailed),
    }
}

/// All messages and sub-batches that are to be appended, with their ids.
fn published<'a>(
    append: &'a Append,
    input: &'a [u8],
) -> impl Iterator<Item = (u64, Entry<'a>)> + 'a {
    let mut rest = append.entries(input);
    (0..append.n_entries).map_while(move |_| {
        Some(if append.has_filter_values {
            let FilteredMessage { publishing_id, entry, .. } =
                FilteredMessage::read(&mut rest).ok()?;
            (publishing_id, entry)
        } else {
            let PublishedMessage { publishing_id, entry } =
                PublishedMessage::read(&mut rest).ok()?;
            (publishing_id, entry)
        })
    })
}

/// The time in nanoseconds since 1970; 0 without spans.
#[inline]
fn began_ns(client: &Client) -> u64 {
    let tracing = &client.access.broker.timers.tracing;
    let spans = if tracing.is_any() { tracing.spans() } else { None };
    spans.map_or(0, |spans| spans.now_ns())
}

/// Makes spans of messages that were appended. Sub-batches are not looked into.
#[cold]
fn trace_append(client: &Client, stream: &Stream, append: &Append, input: &[u8], began_ns: u64) {
    let Some(spans) = client.access.broker.timers.tracing.spans() else { return };
    let (name, stored_ns) = (stream.def().name.as_bytes(), spans.now_ns());
    let mut converted = DecodeBuffer::default();
    for (_, entry) in published(append, input) {
        let Entry::Message(stored) = entry else { continue };
        let origin = Origin { stream: name, offset: 0 };
        let message = decode_amqp10(stored, origin, &mut converted);
        spans.appended(&MessageRef { exchange: name, ..message }, began_ns, stored_ns);
    }
}
