//! Streams as definitions: created, deleted, asked for.

use super::super::Handled;
use super::StreamRequests;
use control::slices::SLICE;
use meta::{Command, Done, Name, NamedBy, Permission, QueueDeclare, QueueHome};
use session::{
    Event, LinkId, MethodTag, ONLY_CHANNEL, Properties, StreamEvent, StreamRefusal, Table, Texts,
};
use std::sync::atomic::Ordering;
use stream::Stream;

/// A stream that is deleted by a client that had publishers or subscriptions there.
pub(super) struct Left {
    stream: Name,
    links: Vec<LinkId>,
}

impl StreamRequests<'_> {
    pub(super) async fn create(
        &mut self,
        stream: &str,
        arguments: &Properties,
    ) -> Result<Handled, StreamRefusal> {
        let name = correct_name(stream)?;
        self.require(Permission::Configure, &name)?;
        self.declare(&name, queue_arguments(arguments)?).await.map(|()| Handled::Done)
    }

    /// Declares a stream that must not be there.
    pub(super) async fn declare(
        &mut self,
        name: &Name,
        arguments: Table,
    ) -> Result<(), StreamRefusal> {
        let command = Command::DeclareQueue(QueueDeclare {
            vhost: self.client.access.vhost(),
            name: name.clone(),
            named_by: NamedBy::Client,
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments,
            id: None,
            home: QueueHome::default(),
        });
        let done = self.client.access.change(&command).await;
        self.client.access.refresh();
        let done = done.map_err(|error| self.refused("create a stream", &error))?;
        let is_new = matches!(done, Done::QueueCreated(_));
        if is_new { Ok(()) } else { Err(StreamRefusal::StreamAlreadyExists) }
    }

    pub(super) async fn delete(
        &mut self,
        origin: MethodTag,
        stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        self.require(Permission::Configure, stream)?;
        let found = self.find_stream_queue(stream)?;
        let left = found.as_stream().and_then(|stream| self.leave(stream));
        let deleted = self.client.access.change(&Command::DeleteQueueById { id: found.id() }).await;
        self.client.access.refresh();
        let why = match deleted {
            Ok(Done::Changed) => return Ok(self.tell_deleted(origin, left.as_slice())),
            // Somebody else was faster.
            Ok(_) => StreamRefusal::StreamDoesNotExist,
            Err(error) => self.refused("delete a stream", &error),
        };
        self.tell_left(left.as_slice());
        Err(why)
    }

    /// COMPAT: who deletes streams has the answer before it hears that they are gone.
    pub(super) fn tell_deleted(&self, origin: MethodTag, left: &[Left]) -> Handled {
        self.client.turn.tell(|sink| {
            sink.event(Event::Done { channel: ONLY_CHANNEL, origin });
        });
        self.tell_left(left);
        Handled::Answered
    }

    /// Tells the client that streams are gone.
    pub(super) fn tell_left(&self, left: &[Left]) {
        self.client.turn.tell(|sink| {
            for Left { stream, links } in left {
                sink.event(Event::Stream(StreamEvent::StreamGone { stream, links }));
            }
        });
    }

    /// Takes away what the client has at a stream, and does not know of yet.
    pub(super) fn leave(&self, stream: &Stream) -> Option<Left> {
        let links = stream.leave(self.client.access.connection.id)?;
        Some(Left { stream: stream.def().name.clone(), links })
    }

    /// COMPAT: reading and writing are both reason enough to be told of a stream.
    pub(super) async fn metadata(
        &mut self,
        origin: MethodTag,
        streams: &Texts,
    ) -> Result<Handled, StreamRefusal> {
        let connections = &self.client.access.broker.connections;
        let is_served = !connections.in_maintenance.load(Ordering::Relaxed);
        let mut states = Vec::new();
        for stream in streams.iter() {
            states.push((stream, self.check_metadata(stream)));
            if states.len() == SLICE {
                self.tell(StreamEvent::MetadataPart { streams: &states, is_served });
                states.clear();
                self.client.turn.give_way().await;
            }
        }
        Ok(self.tell(StreamEvent::Metadata { origin, streams: &states, is_served }))
    }

    /// Whether a client may know of a stream that is there. The streams of a deleted virtual host are gone,
    /// not refused: clients that hear so of a stream ask, and take a refusal for a stream that is there.
    fn check_metadata(&self, stream: &str) -> Result<(), StreamRefusal> {
        if self.client.access.own_vhost().is_none() {
            return Err(StreamRefusal::StreamDoesNotExist);
        }
        self.require_read_or_write(stream)?;
        self.find_stream(stream).map(drop)
    }

    pub(super) fn require_read_or_write(&self, stream: &str) -> Result<(), StreamRefusal> {
        self.require(Permission::Read, stream).or_else(|_| self.require(Permission::Write, stream))
    }

    pub(super) fn tell(&self, event: StreamEvent<'_>) -> Handled {
        let mut event = Some(Event::Stream(event));
        self.client.turn.tell(|sink| {
            if let Some(event) = event.take() {
                sink.event(event);
            }
        });
        Handled::Answered
    }
}

/// The name without line breaks. COMPAT: RabbitMQ refuses those that are its own before it asks for
/// permissions.
pub(super) fn correct_name(name: &str) -> Result<Name, StreamRefusal> {
    let name = name.replace(['\r', '\n'], "");
    if name.is_empty() || name.starts_with("amq.") {
        return Err(StreamRefusal::PreconditionFailed);
    }
    Ok(Name::from(name))
}

/// The arguments of the queue.
pub(super) fn queue_arguments(arguments: &Properties) -> Result<Table, StreamRefusal> {
    let given = arguments.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    meta::stream_arguments(given).map_err(|_| StreamRefusal::PreconditionFailed)
}
