//! Super streams: a direct exchange, and streams bound to it in an order that the bindings tell.

use super::super::Handled;
use super::StreamRequests;
use super::definitions::{Left, correct_name, queue_arguments};
use meta::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, ExchangeKind, Name, Permission,
    RoutingKey, limit_reached,
};
use session::{MethodTag, ShortString, StreamEvent, StreamRefusal, SuperStream, Table, Value};
use std::collections::HashSet;

/// The argument of a super stream's exchange.
const SUPER_STREAM: &str = "x-super-stream";
/// The argument of a partition's binding that says which one it is.
const PARTITION_ORDER: &str = "x-stream-partition-order";
/// The longest binding key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Requests for super streams, of a client.
pub(super) struct SuperStreams<'r, 'c>(pub(super) &'r mut StreamRequests<'c>);

impl SuperStreams<'_, '_> {
    /// COMPAT: writing to the exchange is asked for, and to each stream that is found.
    pub(super) fn route(
        &self,
        origin: MethodTag,
        routing_key: &str,
        super_stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        self.require_on_exchange(Permission::Write, super_stream)?;
        let access = &self.0.client.access;
        let routed = access.own_vhost().and_then(|vhost| {
            let (queues, key) = (access.view().meta.queues(), routing_key.as_bytes());
            meta::super_stream_route(vhost, queues, super_stream, key)
        });
        let names = routed.ok_or(StreamRefusal::StreamDoesNotExist)?;
        let streams: Vec<&str> = names.iter().map(Name::as_str).collect();
        streams.iter().try_for_each(|stream| self.0.require(Permission::Write, stream))?;
        Ok(self.0.tell(StreamEvent::Streams { origin, streams: &streams }))
    }

    pub(super) fn partitions(
        &self,
        origin: MethodTag,
        super_stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        let may = |permission| self.require_on_exchange(permission, super_stream);
        may(Permission::Read).or_else(|_| may(Permission::Write))?;
        let partitions = self.partitions_of(super_stream)?;
        let streams: Vec<&str> = partitions.iter().map(Name::as_str).collect();
        streams.iter().try_for_each(|stream| self.0.require_read_or_write(stream))?;
        Ok(self.0.tell(StreamEvent::Streams { origin, streams: &streams }))
    }

    /// The streams bound to an exchange, in their order.
    fn partitions_of(&self, super_stream: &str) -> Result<Vec<Name>, StreamRefusal> {
        let access = &self.0.client.access;
        let found = access.own_vhost().and_then(|vhost| {
            meta::super_stream_partitions(vhost, access.view().meta.queues(), super_stream)
        });
        found.ok_or(StreamRefusal::StreamDoesNotExist)
    }

    pub(super) async fn create(&mut self, wanted: &SuperStream) -> Result<Handled, StreamRefusal> {
        let name = correct_name(&wanted.name)?;
        self.require_management(&name, &wanted.partitions)?;
        let partitions = self.check_partitions(wanted)?;
        let access = &self.0.client.access;
        let exists = access.view().meta.exchange(&access.vhost(), &name).is_some();
        if exists || partitions.iter().any(|name| access.find_queue(name).is_ok()) {
            return Err(StreamRefusal::StreamAlreadyExists);
        }
        let mut arguments = queue_arguments(&wanted.arguments)?;
        if arguments.get(b"x-queue-leader-locator").is_none() {
            arguments.push(ShortString::from_static("x-queue-leader-locator"), "balanced");
        }
        self.declare_exchange(&name).await?;
        let mut n_declared = 0;
        let mut made = Ok(());
        for (index, (partition, key)) in partitions.iter().zip(&wanted.binding_keys).enumerate() {
            made = self.0.declare(partition, arguments.clone()).await;
            if made.is_err() {
                break;
            }
            n_declared += 1;
            made = self.bind(&name, partition, (index, key)).await;
            if made.is_err() {
                break;
            }
            self.0.client.turn.did_steps(1).await;
        }
        if made.is_err() {
            self.undo(&name, partitions.get(..n_declared).unwrap_or_default()).await;
        }
        made.map(|()| Handled::Done)
    }

    /// Deletes the exchange and the streams that are bound to it. COMPAT: what fails then is not told.
    pub(super) async fn delete(
        &mut self,
        origin: MethodTag,
        super_stream: &str,
    ) -> Result<Handled, StreamRefusal> {
        self.require_on_exchange(Permission::Configure, super_stream)?;
        let partitions = self.partitions_of(super_stream)?;
        self.require_management(super_stream, &partitions)?;
        let left = self.undo(&Name::from(super_stream), &partitions).await;
        Ok(self.0.tell_deleted(origin, &left))
    }

    async fn declare_exchange(&mut self, name: &Name) -> Result<(), StreamRefusal> {
        let mut arguments = Table::new();
        arguments.push(ShortString::from_static(SUPER_STREAM), Value::Bool(true));
        let command = Command::DeclareExchange(ExchangeDeclare {
            vhost: self.0.client.access.vhost(),
            name: name.clone(),
            kind: ExchangeKind::Direct,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments,
        });
        self.change("create a super stream", &command).await
    }

    async fn bind(
        &mut self,
        source: &Name,
        partition: &Name,
        (index, key): (usize, &str),
    ) -> Result<(), StreamRefusal> {
        let mut arguments = Table::new();
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        arguments.push(ShortString::from_static(PARTITION_ORDER), Value::I64(index));
        let command = Command::Bind(BindingSpec {
            vhost: self.0.client.access.vhost(),
            source: source.clone(),
            destination: DestinationName::Queue(partition.clone()),
            key: RoutingKey::from(key.as_bytes()),
            arguments,
            by: Some(self.0.client.access.connection().id),
        });
        self.change("bind a partition", &command).await
    }

    /// Deletes a super stream as far as it is there.
    async fn undo(&mut self, name: &Name, partitions: &[Name]) -> Vec<Left> {
        let vhost = self.0.client.access.vhost();
        let exchange = Command::DeleteExchange { vhost, name: name.clone(), if_unused: false };
        // What fails has been said to the log.
        let _refused = self.change("delete a super stream", &exchange).await.is_err();
        let mut left = Vec::new();
        for partition in partitions {
            left.extend(self.0.delete_stream(partition).await.ok().flatten());
            self.0.client.turn.did_steps(1).await;
        }
        left
    }

    async fn change(&mut self, what: &str, command: &Command) -> Result<(), StreamRefusal> {
        let changed = self.0.client.access.change(command).await;
        self.0.client.access.refresh();
        changed.map_err(|error| self.0.refused(what, &error)).map(drop)
    }

    /// COMPAT: the permissions that RabbitMQ asks for, all before anything is made or deleted.
    fn require_management(
        &self,
        name: &str,
        partitions: &[impl AsRef<str>],
    ) -> Result<(), StreamRefusal> {
        self.require_on_exchange(Permission::Configure, name)?;
        self.require_on_exchange(Permission::Read, name)?;
        partitions.iter().map(AsRef::as_ref).try_for_each(|partition| {
            self.0.require(Permission::Configure, partition)?;
            self.0.require(Permission::Write, partition)
        })
    }

    fn check_partitions(&self, wanted: &SuperStream) -> Result<Vec<Name>, StreamRefusal> {
        let SuperStream { partitions, binding_keys, .. } = wanted;
        let limit = self.0.client.access.broker().limits().super_stream_partitions;
        let is_too_many = limit.is_some_and(|limit| partitions.len() as u64 > limit);
        let is_key_long = binding_keys.iter().any(|key| key.len() > KEY_BYTES_MAX);
        if is_too_many || is_key_long || partitions.len() != binding_keys.len() {
            return Err(StreamRefusal::PreconditionFailed);
        }
        let names: Vec<Name> =
            partitions.iter().map(|partition| correct_name(partition)).collect::<Result<_, _>>()?;
        let distinct: HashSet<&str> = names.iter().map(Name::as_str).collect();
        let vhost = self.0.client.access.own_vhost().ok_or(StreamRefusal::PreconditionFailed)?;
        let max = vhost.limits().max_queues;
        let n_queues = || vhost.queues().count() + names.len().saturating_sub(1);
        if distinct.len() != names.len() || limit_reached(max, n_queues).is_some() {
            return Err(StreamRefusal::PreconditionFailed);
        }
        Ok(names)
    }

    fn require_on_exchange(&self, permission: Permission, name: &str) -> Result<(), StreamRefusal> {
        let allowed = self.0.client.access.require_on_exchange(permission, &Name::from(name));
        allowed.map_err(|_| StreamRefusal::AccessRefused)
    }
}
