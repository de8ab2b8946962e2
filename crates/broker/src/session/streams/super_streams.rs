//! Super streams: a direct exchange, and streams bound to it in an order that the bindings tell.

use super::super::client::Client;
use super::super::{Handled, access};
use super::StreamRequests;
use super::definitions::{Left, correct_name, queue_arguments};
use meta::{
    BoundPartition, Command, Name, Permission, QueueDef, QueueId, RoutingKey, State,
    SuperStreamError, Vhost,
};
use session::{Error, ErrorKind, MethodTag, StreamEvent, StreamRefusal, SuperStream};
use std::collections::HashSet;
use std::sync::Arc;

/// Requests for super streams, of a client.
pub(super) struct SuperStreams<'r, 'c>(pub(super) &'r mut StreamRequests<'c>);

impl SuperStreams<'_, '_> {
    /// Finds the streams of a routing key. COMPAT: permission to write is needed for the exchange and each
    /// stream.
    pub(super) fn route(
        &self,
        origin: MethodTag,
        routing_key: &str,
        super_stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        self.require_on_exchange(Permission::Write, super_stream)?;
        let access = &self.0.client.access;
        let routed = access.own_vhost().and_then(|vhost| {
            let (queues, key) = (access.view.meta.queues(), routing_key.as_bytes());
            meta::super_stream_route(vhost, queues, super_stream, key)
        });
        let names = routed.ok_or(StreamRefusal::StreamDoesNotExist)?;
        let streams: Vec<&str> = names.iter().map(Name::as_str).collect();
        streams.iter().try_for_each(|stream| self.0.require(Permission::Write, stream))?;
        Ok(self.0.tell(StreamEvent::Streams { origin, streams: &streams }))
    }

    pub(super) async fn partitions(
        &mut self,
        origin: MethodTag,
        super_stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        let may = |permission| self.require_on_exchange(permission, super_stream);
        may(Permission::Read).or_else(|_| may(Permission::Write))?;
        let partitions = self.partitions_of(super_stream).await?;
        let streams: Vec<&str> = partitions.iter().map(|it| it.name.as_str()).collect();
        for stream in &streams {
            self.0.require_read_or_write(stream)?;
            self.0.client.turn.did_steps(1).await;
        }
        Ok(self.0.tell(StreamEvent::Streams { origin, streams: &streams }))
    }

    /// The streams bound to an exchange, in their order.
    async fn partitions_of(
        &mut self,
        super_stream: &str,
    ) -> Result<Vec<Arc<QueueDef>>, StreamRefusal> {
        let Client { access, turn, .. } = &mut *self.0.client;
        let vhost = access.own_vhost().ok_or(StreamRefusal::StreamDoesNotExist)?;
        let queues = access.view.meta.queues();
        let bindings = meta::super_stream_bindings(vhost, queues, super_stream);
        let mut bound: Vec<BoundPartition<'_>> = Vec::new();
        for binding in bindings.ok_or(StreamRefusal::StreamDoesNotExist)? {
            bound.extend(binding);
            turn.did_steps(1).await;
        }
        Ok(meta::partitions(bound).cloned().collect())
    }

    /// Creates the exchange and its streams, or nothing.
    pub(super) async fn create(&mut self, wanted: &SuperStream) -> Result<Handled, StreamRefusal> {
        let SuperStream { name, partitions, binding_keys, arguments } = wanted;
        let most = self.0.client.access.broker.limits().super_stream_partitions;
        let n = partitions.len().max(binding_keys.len());
        if let Some(most) = most.filter(|most| n as u64 > *most) {
            let text = format!("The partition number must not exceed {most}");
            let error = Error::new(ErrorKind::PreconditionFailed, text);
            return Err(self.0.refused("create a super stream", &error));
        }
        let wanted = meta::SuperStream {
            name: correct_name(name)?,
            partitions: partitions.iter().map(|it| correct_name(it)).collect::<Result<_, _>>()?,
            keys: binding_keys.iter().map(|key| RoutingKey::from(key.as_bytes())).collect(),
            arguments: queue_arguments(arguments)?,
        };
        self.require_management(&wanted.name, &wanted.partitions).await?;
        self.change("create", |_, vhost| wanted.create(vhost, most)).await.map(|()| Handled::Done)
    }

    /// Deletes the exchange and the streams that are bound to it, or nothing.
    pub(super) async fn delete(
        &mut self,
        origin: MethodTag,
        super_stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        self.require_on_exchange(Permission::Configure, super_stream)?;
        let partitions = self.partitions_of(super_stream).await?;
        let names: Vec<&str> = partitions.iter().map(|it| it.name.as_str()).collect();
        self.require_management(super_stream, &names).await?;
        let found = names.iter().filter_map(|it| self.0.find_stream(it).ok());
        let left: Vec<Left> = found.filter_map(|it| self.0.leave(&it)).collect();
        // A stream that was bound since then may be another user's.
        let allowed: HashSet<QueueId> = partitions.iter().map(|it| it.id).collect();
        let plan = |state: &State, vhost: &Vhost| {
            let mut commands = meta::delete_super_stream(vhost, state.queues(), super_stream)?;
            commands.retain(|command| {
                let Command::DeleteQueueById { id } = command else { return true };
                allowed.contains(id)
            });
            Ok(commands)
        };
        let deleted = self.change("delete", plan).await;
        if deleted.is_err() {
            self.0.tell_left(&left);
        }
        deleted.map(|()| self.0.tell_deleted(origin, &left))
    }

    /// Makes the changes of `plan` together, which is asked for the definitions as they are then.
    async fn change(
        &mut self,
        what: &str,
        plan: impl Fn(&State, &Vhost) -> Result<Vec<Command>, SuperStreamError>,
    ) -> Result<(), StreamRefusal> {
        let access = &mut self.0.client.access;
        let name = access.vhost();
        let plan =
            |state: &State| plan(state, state.vhost(&name).ok_or(SuperStreamError::NotFound)?);
        let changed = access.change_together(plan).await;
        access.refresh();
        let refused = |error: &Error| self.0.refused(&format!("{what} a super stream"), error);
        match changed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SuperStreamError::NotFound)) => Err(StreamRefusal::StreamDoesNotExist),
            Ok(Err(SuperStreamError::Exists(_))) => Err(StreamRefusal::StreamAlreadyExists),
            Ok(Err(SuperStreamError::Invalid(text))) => {
                Err(refused(&Error::new(ErrorKind::PreconditionFailed, text)))
            }
            Ok(Err(SuperStreamError::Refused(error))) => Err(refused(&access::refused(&error))),
            Err(error) => Err(refused(&error.into())),
        }
    }

    /// COMPAT: the permissions that RabbitMQ asks for; all are checked before anything is made or deleted.
    async fn require_management(
        &mut self,
        name: &str,
        partitions: &[impl AsRef<str> + Sync],
    ) -> Result<(), StreamRefusal> {
        self.require_on_exchange(Permission::Configure, name)?;
        self.require_on_exchange(Permission::Read, name)?;
        for partition in partitions.iter().map(AsRef::as_ref) {
            self.0.require(Permission::Configure, partition)?;
            self.0.require(Permission::Write, partition)?;
            self.0.client.turn.did_steps(1).await;
        }
        Ok(())
    }

    fn require_on_exchange(&self, permission: Permission, name: &str) -> Result<(), StreamRefusal> {
        let allowed = self.0.client.access.require_on_exchange(permission, &Name::from(name));
        allowed.map_err(|_| StreamRefusal::AccessRefused)
    }
}
