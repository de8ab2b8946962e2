//! The commands that change the state.

mod codec;

use amqp091::Table;
use routing::{ExchangeKind, Name, QueueId, RoutingKey};

use crate::nodes::ClusterAddress;
use crate::parameter::Json;
use crate::password::PasswordHash;
use crate::policy::{PolicyScope, PolicySpec};
use crate::queue_home::QueueHome;
use crate::queue_type::ConnectionId;
use crate::user::UserLimits;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

/// A change. The caller checks who may ask for it, see [`Users::may`](crate::Users::may).
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Creates a virtual host with the predeclared exchanges.
    CreateVhost {
        /// Its name.
        vhost: Name,
        /// Its description and the like.
        metadata: VhostMetadata,
    },
    /// Replaces the metadata of a virtual host.
    UpdateVhost {
        /// Its name.
        vhost: Name,
        /// The new metadata.
        metadata: VhostMetadata,
    },
    /// Deletes a virtual host with everything in it.
    DeleteVhost {
        /// Its name.
        vhost: Name,
    },
    /// Replaces the limits of a virtual host.
    SetVhostLimits {
        /// Its name.
        vhost: Name,
        /// The new limits.
        limits: VhostLimits,
    },
    /// Creates a user.
    CreateUser {
        /// The name.
        user: Name,
        /// The password's hash.
        password: PasswordHash,
        /// Tags, for example `administrator`.
        tags: Vec<Name>,
    },
    /// Replaces a user's password.
    SetPassword {
        /// The user.
        user: Name,
        /// The new password's hash; an empty one lets nobody log in with a password.
        password: PasswordHash,
    },
    /// Replaces a user's tags.
    SetUserTags {
        /// The user.
        user: Name,
        /// The new tags.
        tags: Vec<Name>,
    },
    /// Replaces a user's limits.
    SetUserLimits {
        /// The user.
        user: Name,
        /// The new limits.
        limits: UserLimits,
    },
    /// Deletes a user with all permissions.
    DeleteUser {
        /// The user.
        user: Name,
    },
    /// Sets what a user may do in a virtual host.
    SetPermissions {
        /// The user.
        user: Name,
        /// The virtual host.
        vhost: Name,
        /// Regular expression for names to configure.
        configure: String,
        /// Regular expression for names to write to.
        write: String,
        /// Regular expression for names to read from.
        read: String,
    },
    /// Takes away a user's access to a virtual host.
    ClearPermissions {
        /// The user.
        user: Name,
        /// The virtual host.
        vhost: Name,
    },
    /// Limits the routing keys of a user at one exchange.
    SetTopicPermissions {
        /// The user.
        user: Name,
        /// The virtual host.
        vhost: Name,
        /// The exchange; it need not exist.
        exchange: Name,
        /// Regular expression for keys to publish with.
        write: String,
        /// Regular expression for keys to bind with.
        read: String,
    },
    /// Lifts a user's limits of routing keys.
    ClearTopicPermissions {
        /// The user.
        user: Name,
        /// The virtual host.
        vhost: Name,
        /// The exchange whose limits are lifted; none for all exchanges.
        exchange: Option<Name>,
    },
    /// Creates or replaces a policy.
    SetPolicy {
        /// User or operator policy.
        scope: PolicyScope,
        /// The virtual host.
        vhost: Name,
        /// The policy.
        policy: PolicySpec,
    },
    /// Deletes a policy.
    ClearPolicy {
        /// User or operator policy.
        scope: PolicyScope,
        /// The virtual host.
        vhost: Name,
        /// The policy's name.
        name: Name,
    },
    /// Creates or replaces a runtime parameter.
    SetParameter {
        /// The virtual host.
        vhost: Name,
        /// The parameter's component, for example `shovel`.
        component: Name,
        /// The parameter's name.
        name: Name,
        /// Its value.
        value: Json,
    },
    /// Deletes a runtime parameter.
    ClearParameter {
        /// The virtual host.
        vhost: Name,
        /// The parameter's component, for example `shovel`.
        component: Name,
        /// The parameter's name.
        name: Name,
    },
    /// Creates or replaces a parameter of the whole cluster.
    SetGlobalParameter {
        /// Its name.
        name: Name,
        /// Its value.
        value: Json,
    },
    /// Deletes a parameter of the whole cluster.
    ClearGlobalParameter {
        /// Its name.
        name: Name,
    },
    /// Creates an exchange, or finds an equivalent one.
    DeclareExchange(ExchangeDeclare),
    /// Deletes an exchange; a missing one is no error.
    DeleteExchange {
        /// The virtual host.
        vhost: Name,
        /// Its name.
        name: Name,
        /// Whether to delete it only when nothing is bound to it.
        if_unused: bool,
    },
    /// Creates a queue, or finds an equivalent one.
    DeclareQueue(QueueDeclare),
    /// Deletes a queue; a missing one is no error.
    DeleteQueue {
        /// The virtual host.
        vhost: Name,
        /// Its name.
        name: Name,
        /// The connection that asks; none for the operator.
        by: Option<ConnectionId>,
    },
    /// Deletes one queue and no later one of its name; a missing one is no error.
    DeleteQueueById {
        /// The queue.
        id: QueueId,
    },
    /// Deletes some of the exclusive queues of a connection. With very many queues the command is to be
    /// repeated until it changes nothing.
    DeleteExclusiveQueues {
        /// The connection.
        owner: ConnectionId,
    },
    /// Creates a binding; an equal one is no error.
    Bind(BindingSpec),
    /// Deletes a binding; a missing one is no error.
    Unbind(BindingSpec),
    /// Adds a node to the cluster, or finds the one of that name and token.
    NodeJoined {
        /// The node's number; only in replayed commands, others have none: the node gets the next one.
        no: Option<u16>,
        /// The node's name.
        name: Name,
        /// The address for other nodes.
        address: ClusterAddress,
        /// The token that the node has made for its join.
        token: u64,
    },
    /// Notes that a node has started, and deletes transient and exclusive queues of its earlier starts.
    NodeBooted {
        /// The node.
        no: u16,
        /// The number of its start.
        boot: u32,
    },
    /// Removes a node from the cluster, with all queues that only it had.
    NodeForgotten {
        /// The node.
        no: u16,
    },
    /// Puts a node into maintenance mode, or ends that.
    NodeDrained {
        /// The node.
        no: u16,
        /// Whether the mode is on from now on.
        on: bool,
    },
    /// Switches on a level of commands and formats, which all nodes know.
    Level {
        /// The level, never lower than before.
        n: u16,
    },
}

impl Command {
    /// Whether repeating the command could make definitions longer without end: commands that delete, limit
    /// or replace cannot.
    pub const fn adds(&self) -> bool {
        matches!(
            self,
            Self::CreateVhost { .. }
                | Self::CreateUser { .. }
                | Self::SetParameter { .. }
                | Self::SetGlobalParameter { .. }
                | Self::DeclareExchange(_)
                | Self::DeclareQueue(_)
                | Self::Bind(_)
        )
    }

    /// Sets the home of the queue that the command declares, if it does.
    pub const fn set_home(&mut self, home: QueueHome) {
        if let Self::DeclareQueue(declare) = self {
            declare.home = home;
        }
    }
}

/// The declaration of an exchange. The caller has stripped CR and LF from the name.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeDeclare {
    /// The virtual host.
    pub vhost: Name,
    /// Its name.
    pub name: Name,
    /// The exchange's type: the way it chooses bindings.
    pub kind: ExchangeKind,
    /// Whether the exchange survives a restart.
    pub durable: bool,
    /// Whether the exchange is deleted when its last binding (as the source) goes.
    pub auto_delete: bool,
    /// Whether clients may not publish to the exchange.
    pub internal: bool,
    /// The arguments, for example `alternate-exchange`.
    pub arguments: Table,
}

/// The origin of a queue's name: `amq.` names are reserved for the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The client.
    Client,
    /// The broker.
    Server,
}

/// The declaration of a queue. The caller has stripped CR and LF from the name, or made one up.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueDeclare {
    /// The virtual host.
    pub vhost: Name,
    /// Its name.
    pub name: Name,
    /// The origin of the name.
    pub named_by: NamedBy,
    /// Whether the queue survives a restart; not honoured with an exclusive owner.
    pub durable: bool,
    /// Whether the queue is deleted when its last consumer goes.
    pub auto_delete: bool,
    /// The connection that is to own the queue exclusively.
    pub exclusive_owner: Option<ConnectionId>,
    /// The arguments, for example `x-message-ttl`.
    pub arguments: Table,
    /// The queue's id; only in replayed commands, and for a queue that comes back with the files it had.
    pub id: Option<QueueId>,
    /// The node that a new queue is to be on; its start counts for a transient or exclusive queue only.
    pub home: QueueHome,
}

/// The destination of a binding, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestinationName {
    /// A queue.
    Queue(Name),
    /// An exchange.
    Exchange(Name),
}

/// A binding, by names.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingSpec {
    /// The virtual host.
    pub vhost: Name,
    /// The exchange that routes.
    pub source: Name,
    /// The destination.
    pub destination: DestinationName,
    /// The binding key.
    pub key: RoutingKey,
    /// The arguments: a part of the binding's identity; headers exchanges match by them.
    pub arguments: Table,
    /// The connection that asks; none for the operator.
    pub by: Option<ConnectionId>,
}
