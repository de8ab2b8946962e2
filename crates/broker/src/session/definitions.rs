//! Declaring, deleting and binding: permission checks, then a command to the definitions.

use super::Handled;
use super::access::{refused, text};
use super::client::Client;
use meta::{
    BindingSpec, Command, DestinationName, Done, MetaError, NODE_EXCHANGES, Name, NamedBy,
    Permission, QueueDef, Resource, ResourceKind, RoutingKey, parse_exchange_kind,
};
use queue_type::{DeleteConditions, QueueRefused, QueueStat};
use queues::QueueRef;
use session::{
    ChannelId, Control, Error, ErrorKind, Event, ExchangeBinding, ExchangeDeclaration, Flag,
    QueueBinding, QueueDeclaration, ShortString, Table,
};

/// How often a queue is declared anew that is deleted while it is declared.
const DECLARE_TRIES_MAX: usize = 8;

/// A queue that was declared.
pub(super) struct DeclaredQueue {
    pub(super) name: Name,
    /// The queue; `None` if it has been deleted since. COMPAT: clients of AMQP 0-9-1 are not told of that.
    pub(super) queue: Option<QueueRef>,
    pub(super) is_new: bool,
}

/// Requests that concern definitions and queues, of a client.
pub(super) struct DefinitionRequests<'c>(pub(super) &'c mut Client);

impl DefinitionRequests<'_> {
    async fn change(&self, command: Command) -> Result<Handled, Error> {
        self.0.access.change(&command).await?;
        Ok(Handled::Done)
    }

    pub(super) async fn declare_exchange(
        &mut self,
        declare: &ExchangeDeclaration,
    ) -> Result<Handled, Error> {
        let name = text(&declare.exchange)?;
        let vhost = self.0.access.vhost();
        if declare.passive {
            return self.look_up_exchange(&name);
        }
        let kind_name = declare.kind.to_text();
        let kind = parse_exchange_kind(&kind_name).map_err(|error| refused(&error))?;
        if name.is_empty() {
            return Err(refused(&MetaError::DefaultExchange));
        }
        self.0.access.require_on_exchange(Permission::Configure, &name)?;
        let is_the_nodes = NODE_EXCHANGES.contains(&name.as_str());
        if is_the_nodes && self.0.access.view.meta.exchange(&vhost, &name).is_none() {
            let kind = ResourceKind::Exchange;
            return Err(refused(&MetaError::ReservedName { kind, name }));
        }
        if let Some(alternate) = declare.arguments.get(b"alternate-exchange") {
            self.0.access.require_on_exchange(Permission::Read, &name)?;
            if let Some(alternate) = alternate.as_str() {
                self.0.access.require_on_exchange(Permission::Write, &Name::from(alternate))?;
            }
        }
        let command = Command::DeclareExchange(meta::ExchangeDeclare {
            vhost,
            name,
            kind,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: declare.arguments.clone(),
        });
        self.change(command).await
    }

    fn look_up_exchange(&self, name: &Name) -> Result<Handled, Error> {
        if name.is_empty() {
            return Err(refused(&MetaError::DefaultExchange));
        }
        let vhost = self.0.access.vhost();
        let resource = Resource::exchange(&vhost, name);
        self.0.access.require_any(&resource)?;
        if self.0.access.view.meta.exchange(&vhost, name).is_some() {
            return Ok(Handled::Done);
        }
        Err(Error::new(ErrorKind::NotFound, format!("no {resource}")))
    }

    pub(super) async fn delete_exchange(
        &mut self,
        exchange: &ShortString,
        if_unused: bool,
    ) -> Result<Handled, Error> {
        let name = text(exchange)?;
        if name.is_empty() {
            return Err(refused(&MetaError::DefaultExchange));
        }
        self.0.access.require_on_exchange(Permission::Configure, &name)?;
        let vhost = self.0.access.vhost();
        self.change(Command::DeleteExchange { vhost, name, if_unused }).await
    }

    /// Binds or unbinds an exchange, as `command` says.
    pub(super) async fn bind_exchange(
        &mut self,
        binding: &ExchangeBinding,
        command: fn(BindingSpec) -> Command,
    ) -> Result<Handled, Error> {
        self.change(command(self.binding_of_exchange(binding)?)).await
    }

    /// The binding of an exchange, which the client may make and remove.
    pub(super) fn binding_of_exchange(
        &self,
        binding: &ExchangeBinding,
    ) -> Result<BindingSpec, Error> {
        let source = text(&binding.source)?;
        let destination = text(&binding.destination)?;
        if source.is_empty() || destination.is_empty() {
            return Err(refused(&MetaError::DefaultExchange));
        }
        self.0.access.require_on_exchange(Permission::Write, &destination)?;
        self.0.access.require_on_exchange(Permission::Read, &source)?;
        let destination = DestinationName::Exchange(destination);
        self.binding(source, destination, &binding.routing_key, &binding.arguments)
    }

    fn binding(
        &self,
        source: Name,
        destination: DestinationName,
        key: &ShortString,
        arguments: &Table,
    ) -> Result<BindingSpec, Error> {
        let vhost = self.0.access.vhost();
        let found = self.0.access.view.meta.exchange(&vhost, &source);
        if found.is_some_and(|found| found.kind == meta::ExchangeKind::Topic) {
            self.0.access.require_topic(Permission::Read, &source, key.as_bytes())?;
        }
        Ok(BindingSpec {
            vhost,
            source,
            destination,
            key: RoutingKey::from(key.as_bytes()),
            arguments: arguments.clone(),
            by: Some(self.0.access.connection.id),
        })
    }

    /// Binds or unbinds a queue, as `command` says; `what` is the request's word in refusals.
    pub(super) async fn bind_queue(
        &mut self,
        channel: ChannelId,
        binding: &QueueBinding,
        what: &str,
        command: fn(BindingSpec) -> Command,
    ) -> Result<Handled, Error> {
        self.change(command(self.binding_of_queue(channel, binding, what)?)).await
    }

    /// The binding of a queue, which the client may make and remove.
    pub(super) fn binding_of_queue(
        &self,
        channel: ChannelId,
        binding: &QueueBinding,
        what: &str,
    ) -> Result<BindingSpec, Error> {
        let queue = self.0.unsharded_queue(channel, &binding.queue, what)?;
        let source = text(&binding.exchange)?;
        if source.is_empty() {
            return Err(refused(&MetaError::DefaultExchange));
        }
        self.0.access.require_on_queue(Permission::Write, &queue)?;
        self.0.access.require_on_exchange(Permission::Read, &source)?;
        // COMPAT: with neither queue nor key named, the key is the queue's name.
        let unnamed =
            binding.queue.as_bytes().is_empty() && binding.routing_key.as_bytes().is_empty();
        let key =
            if unnamed { ShortString::truncated(&queue) } else { binding.routing_key.clone() };
        self.binding(source, DestinationName::Queue(queue), &key, &binding.arguments)
    }

    pub(super) async fn declare_queue(
        &mut self,
        control: &Control,
        declare: &QueueDeclaration,
    ) -> Result<Handled, Error> {
        stdx::walk::step("declare");
        if self.0.is_live_reply_queue(declare.queue.as_bytes()) {
            let (channel, queue) = (control.channel, declare.queue.as_bytes());
            let declared = Event::QueueDeclared { channel, queue, n_ready: 0, n_consumers: 1 };
            return self.0.turn.answer(declared);
        }
        let (name, queue) = if declare.passive {
            self.0.access.broker.control_plane.churn.note_declared();
            // COMPAT: an empty name is none here, while elsewhere it is the queue declared last.
            let name = self.0.queue_to_declare(text(&declare.queue)?);
            self.0.access.require_any(&Resource::queue(&self.0.access.vhost(), &name))?;
            let queue = self.0.access.find_loaded_queue(&name).await?;
            self.0.access.check_exclusive_access(&queue)?;
            queue.touch();
            (name, Some(queue))
        } else {
            let declared = self.declare_or_find(control.channel, declare).await?;
            (declared.name, declared.queue)
        };
        let name = ShortString::truncated(&name);
        if let Some(channel) = self.0.channels.get_mut(control.channel) {
            channel.last_queue = Some(name.clone());
        }
        if control.nowait {
            return Ok(Handled::Answered);
        }
        let stat = match queue {
            Some(queue) => {
                queue.stat().await.map_err(|refused| queue_refused(refused, queue.def()))?
            }
            None => QueueStat::default(),
        };
        let QueueStat { n_ready, n_consumers, .. } = stat;
        let channel = control.channel;
        self.0.turn.answer(Event::QueueDeclared {
            channel,
            queue: name.as_bytes(),
            n_ready,
            n_consumers,
        })
    }

    /// Declares a queue.
    pub(super) async fn declare_or_find(
        &mut self,
        channel: ChannelId,
        declare: &QueueDeclaration,
    ) -> Result<DeclaredQueue, Error> {
        self.declare_named(channel, declare, "amq.gen-").await
    }

    /// Creates a queue, or finds it; a name that the node is asked for begins with `prefix`.
    pub(super) async fn declare_named(
        &mut self,
        channel: ChannelId,
        declare: &QueueDeclaration,
        prefix: &str,
    ) -> Result<DeclaredQueue, Error> {
        self.0.access.broker.control_plane.churn.note_declared();
        let named_by = if declare.queue.as_bytes().is_empty() && !declare.passive {
            NamedBy::Server
        } else {
            NamedBy::Client
        };
        let name = match named_by {
            NamedBy::Server => Name::from(self.0.access.broker.names.name(prefix).as_str()),
            NamedBy::Client => self.0.queue_to_declare(self.0.queue_name(channel, &declare.queue)?),
        };
        self.0.access.require_on_queue(Permission::Configure, &name)?;
        self.require_dead_letter_access(&name, &declare.arguments)?;
        let command = Command::DeclareQueue(meta::QueueDeclare {
            vhost: self.0.access.vhost(),
            name: name.clone(),
            named_by,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            exclusive_owner: declare.exclusive.then_some(self.0.access.connection.id),
            arguments: declare.arguments.clone(),
            id: None,
            home: meta::QueueHome::default(),
        });
        for _ in 0..DECLARE_TRIES_MAX {
            let done = self.0.access.change(&command).await?;
            self.0.access.refresh();
            let (Done::QueueCreated(def) | Done::QueueExists(def)) = &done else { break };
            let Some(queue) = self.0.access.view.queue_by_id(def.id) else { break };
            queue.loaded().await;
            queue.touch();
            let is_new = matches!(done, Done::QueueCreated(_));
            if is_new || !queue.is_deleted() {
                return Ok(DeclaredQueue { name, queue: Some(queue), is_new });
            }
            // The queue existed already, but it goes with its last consumer, which has just gone: the client
            // gets a new one.
            self.0.access.broker.changes().drop_queue(queue.id()).await;
        }
        Ok(DeclaredQueue { name, queue: None, is_new: false })
    }

    /// Checks the permissions for dead-lettering: to read from the queue, and to write to the exchange.
    fn require_dead_letter_access(&self, name: &Name, arguments: &Table) -> Result<(), Error> {
        let exchange = arguments.get(b"x-dead-letter-exchange").and_then(|value| value.as_str());
        let Some(exchange) = exchange else { return Ok(()) };
        self.0.access.require_on_queue(Permission::Read, name)?;
        self.0.access.require_on_exchange(Permission::Write, &Name::from(exchange))
    }

    pub(super) async fn purge_queue(
        &mut self,
        control: &Control,
        queue: &ShortString,
    ) -> Result<Handled, Error> {
        let name = self.0.unsharded_queue(control.channel, queue, "purge")?;
        self.0.access.require_on_queue(Permission::Read, &name)?;
        let queue = self.0.access.find_loaded_queue(&name).await?;
        self.0.access.check_exclusive_access(&queue)?;
        let n_messages =
            queue.purge().await.map_err(|refused| queue_refused(refused, queue.def()))?;
        let Control { channel, origin, nowait, .. } = *control;
        if nowait {
            return Ok(Handled::Answered);
        }
        self.0.turn.answer(Event::QueuePurged { channel, origin, n_messages })
    }

    pub(super) async fn delete_queue(
        &mut self,
        control: &Control,
        queue: &ShortString,
        if_unused: Flag,
        if_empty: Flag,
    ) -> Result<Handled, Error> {
        let name = self.0.unsharded_queue(control.channel, queue, "delete")?;
        self.0.access.require_on_queue(Permission::Configure, &name)?;
        let mut n_messages = 0;
        // COMPAT: deleting a queue that does not exist succeeds.
        if let Ok(queue) = self.0.access.find_loaded_queue(&name).await {
            self.0.access.check_exclusive_access(&queue)?;
            let conditions =
                DeleteConditions { if_unused: if_unused.is_set(), if_empty: if_empty.is_set() };
            let begun = queue.begin_delete(conditions).await;
            n_messages = begun.map_err(|refused| queue_refused(refused, queue.def()))?;
            let command = Command::DeleteQueueById { id: queue.id() };
            self.0.access.change(&command).await?;
        }
        let Control { channel, origin, nowait, .. } = *control;
        if nowait {
            return Ok(Handled::Answered);
        }
        self.0.turn.answer(Event::QueueDeleted { channel, origin, n_messages })
    }
}

pub(super) fn queue_refused(refused: QueueRefused, queue: &QueueDef) -> Error {
    let why = match refused {
        QueueRefused::InUse => "in use",
        QueueRefused::NotEmpty => "not empty",
        QueueRefused::NotFound => "not found",
        QueueRefused::NotImplemented(text) => return Error::new(ErrorKind::NotImplemented, text),
        QueueRefused::HomeDown(text) => return Error::new(ErrorKind::NotFound, text),
    };
    Error::new(ErrorKind::PreconditionFailed, format!("{} {why}", queue.resource()))
}
