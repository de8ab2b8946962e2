//! Limits of a node's definitions. They are the node's own configuration: definitions that another node
//! has accepted, or this one before, stay.

use crate::command::{Command, QueueDeclare};
use crate::error::MetaError;
use crate::limit::limit_reached;
use crate::queue::QueueDef;
use crate::queue_arguments::{kind_of, named_type, normalize_type};
use crate::queue_name::is_internal_name;
use crate::queue_type::QueueKind;
use crate::resource::Resource;
use crate::setting::QUEUE_TYPE_ARGUMENT;
use crate::state::State;
use amqp091::ShortString;
use routing::ExchangeKind;
use std::borrow::Cow;

/// The limits; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// `vhost_max`.
    pub vhosts: Option<u64>,
    /// `cluster_queue_limit`, of all virtual hosts together.
    pub queues: Option<u64>,
    /// `cluster_exchange_limit`, of all virtual hosts together, predeclared ones included.
    pub exchanges: Option<u64>,
    /// Whether queues that are neither durable nor exclusive are refused
    /// (`deprecated_features.permit.transient_nonexcl_queues = false`).
    pub no_transient_queues: bool,
    /// Whether exchanges of the type `x-local-random` are refused
    /// (`exchange_types.local_random.enabled = false`).
    pub no_local_random: bool,
    /// The settings of queue types.
    pub types: NodeQueueTypes,
}

/// The node's settings of queue types. Queues that exist stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeQueueTypes {
    /// The type of queues that name none, in virtual hosts that name none (`default_queue_type`).
    pub default: Option<QueueKind>,
    /// The types that are not to be declared, a bit each (`queue_types.$type.enabled = false`).
    disabled: u8,
    /// Whether a client that takes a quorum queue for a classic one is shown the queue all the same
    /// (`quorum_queue.property_equivalence.relaxed_checks_on_redeclaration`).
    pub relaxed_redeclaration: bool,
    /// Whether queues are placed on the nodes with the fewest, where nothing else says
    /// (`queue_leader_locator`).
    pub is_balanced: bool,
}

impl NodeQueueTypes {
    /// Sets whether queues of a type may be declared.
    pub const fn enable(&mut self, kind: QueueKind, is_enabled: bool) {
        let bit = 1 << kind as u8;
        self.disabled = if is_enabled { self.disabled & !bit } else { self.disabled | bit };
    }

    const fn refuses(self, kind: QueueKind) -> bool {
        self.disabled & (1 << kind as u8) != 0
    }

    /// The command with what these settings make of it.
    #[must_use]
    pub fn complete<'c>(&self, state: &State, command: &'c Command) -> Cow<'c, Command> {
        let Command::DeclareQueue(declare) = command else { return Cow::Borrowed(command) };
        let existing = state.queue(&declare.vhost, &declare.name);
        let wanted = named_type(&declare.arguments);
        let changed = match (existing, wanted, self.default) {
            (Some(existing), Some(wanted), _) => {
                let is_taken_for_another = existing.kind == QueueKind::Quorum
                    && wanted.as_str() == Some(QueueKind::Classic.as_str());
                (self.relaxed_redeclaration && is_taken_for_another)
                    .then(|| relaxed(declare, existing))
            }
            (_, None, Some(kind)) if !is_internal_name(&declare.name) => {
                let vhost = state.vhost(&declare.vhost);
                let is_said = vhost.is_none_or(|it| it.metadata.default_queue_type.is_some());
                let lasts =
                    declare.durable && declare.exclusive_owner.is_none() && !declare.auto_delete;
                let is_fit = !is_said && (kind.is_for_temporary() || lasts);
                is_fit.then(|| {
                    let mut typed = declare.clone();
                    normalize_type(&mut typed.arguments);
                    let key = ShortString::from_static(QUEUE_TYPE_ARGUMENT);
                    typed.arguments.push(key, kind.as_str());
                    typed
                })
            }
            _ => None,
        };
        changed.map_or(Cow::Borrowed(command), |it| Cow::Owned(Command::DeclareQueue(it)))
    }
}

/// The arguments that count in a relaxed redeclaration.
const COMPARED: [&str; 7] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-single-active-consumer",
    "x-message-ttl",
];

impl State {
    /// Refuses a command that would make one object too many. Existing objects may be declared again.
    ///
    /// # Errors
    /// RabbitMQ's texts, with the limit.
    pub fn check_room(&self, limits: &NodeLimits, command: &Command) -> Result<(), MetaError> {
        if let Command::CreateVhost { vhost, .. } = command
            && let Some(limit) = limit_reached(limits.vhosts, || self.vhosts().count())
            && self.vhost(vhost).is_none()
        {
            return Err(MetaError::VhostLimit { vhost: vhost.clone(), limit });
        }
        if let Command::DeclareQueue(declare) = command
            && !is_internal_name(&declare.name)
            && self.queue(&declare.vhost, &declare.name).is_none()
        {
            if let Some(limit) = limit_reached(limits.queues, || self.queues().len()) {
                return Err(MetaError::ClusterQueueLimit { name: declare.name.clone(), limit });
            }
            if limits.no_transient_queues && !declare.durable && declare.exclusive_owner.is_none() {
                return Err(MetaError::Deprecated("transient_nonexcl_queues".into()));
            }
            if let Some(kind) = kind_of(&declare.arguments).filter(|it| limits.types.refuses(*it)) {
                let (resource, kind) =
                    (Resource::queue(&declare.vhost, &declare.name), kind.as_str());
                return Err(MetaError::QueueTypeDisabled { resource, kind: kind.to_owned() });
            }
        }
        if let Command::DeclareExchange(declare) = command
            && self.exchange(&declare.vhost, &declare.name).is_none()
        {
            if limits.no_local_random && declare.kind == ExchangeKind::LocalRandom {
                return Err(MetaError::LocalRandomDisabled);
            }
            let count = || self.vhosts().map(|vhost| vhost.exchanges().len()).sum();
            if let Some(limit) = limit_reached(limits.exchanges, count) {
                let exchange = Resource::exchange(&declare.vhost, &declare.name);
                return Err(MetaError::ExchangeLimit { exchange, limit });
            }
        }
        Ok(())
    }
}

/// The redeclaration as one of a quorum queue, but for the arguments that are compared.
fn relaxed(declare: &QueueDeclare, existing: &QueueDef) -> QueueDeclare {
    let is_compared = |key: &ShortString| key.as_str().is_some_and(|key| COMPARED.contains(&key));
    let kept = existing.arguments.iter().filter(|(key, _)| !is_compared(key));
    let given = declare.arguments.iter().filter(|(key, _)| is_compared(key));
    let arguments = kept.chain(given).map(|(key, value)| (key.clone(), value.clone())).collect();
    let QueueDef { durable, auto_delete, exclusive_owner, .. } = *existing;
    QueueDeclare { durable, auto_delete, exclusive_owner, arguments, ..declare.clone() }
}
