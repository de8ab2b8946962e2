//! Errors of commands. The texts are RabbitMQ's explanations without the leading code name.

mod codec;

use std::borrow::Cow;

use routing::{BindingError, Name};
use thiserror::Error;

use crate::resource::{Permission, Resource, ResourceKind};

/// The sorts of refusal: a protocol front picks its reply code by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The named object does not exist.
    NotFound,
    /// The object to be created exists.
    AlreadyExists,
    /// An operation that is not permitted on this name.
    AccessRefused,
    /// An exclusive queue of another connection.
    ResourceLocked,
    /// Inequivalent redeclaration, invalid arguments.
    PreconditionFailed,
    /// `if-unused` was asked for, and the object is used.
    InUse,
    /// A limit or a protection forbids the operation.
    NotAllowed,
    /// A deprecated feature that is not permitted.
    NotPermitted,
    /// The node cannot do what it should.
    InternalError,
    /// Malformed input to a management command.
    Invalid,
}

/// The error of a refused command. The state is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetaError {
    /// The virtual host does not exist.
    #[error("vhost {0} not found")]
    VhostNotFound(Name),
    /// The virtual host exists.
    #[error("Virtual host '{0}' already exists")]
    VhostExists(Name),
    /// The virtual host is protected from deletion.
    #[error("Cannot delete virtual host '{0}': it is protected from deletion")]
    VhostProtected(Name),
    /// The user does not exist.
    #[error("User '{0}' does not exist")]
    UserNotFound(Name),
    /// The user exists.
    #[error("User \"{0}\" already exists")]
    UserExists(Name),
    /// The exchange or queue does not exist.
    #[error("no {0}")]
    NotFound(Resource),
    /// No queue has this id.
    #[error("no queue with id {0}")]
    QueueIdNotFound(u64),
    /// The policy, parameter or other item does not exist.
    #[error("{0} does not exist")]
    ItemNotFound(String),
    /// A redeclaration differs.
    #[error(
        "inequivalent arg '{key}' for {resource}: received {received} but current is {current}"
    )]
    Inequivalent {
        /// The field or argument.
        key: String,
        /// The redeclared object.
        resource: Resource,
        /// The new value, in quotes or described.
        received: String,
        /// The present one.
        current: String,
    },
    /// Names starting with `amq.` are the broker's.
    #[error("{kind} name '{name}' contains reserved prefix 'amq.*'")]
    ReservedName {
        /// Exchange or queue.
        kind: ResourceKind,
        /// The name.
        name: Name,
    },
    /// The default exchange cannot be declared, deleted or bound.
    #[error("operation not permitted on the default exchange")]
    DefaultExchange,
    /// Predeclared exchanges cannot be deleted.
    #[error("deletion of system {0} not allowed")]
    SystemExchange(Resource),
    /// The user's permissions do not cover the operation.
    #[error("{} access to {resource} refused for user '{user}'", permission.as_str())]
    Refused {
        /// The permission needed.
        permission: Permission,
        /// The object.
        resource: Resource,
        /// The user.
        user: Name,
    },
    /// The user's topic permissions do not cover the routing key.
    #[error(
        "{} access to topic '{key}' in {exchange} refused for user '{user}'", permission.as_str()
    )]
    TopicRefused {
        /// The permission needed.
        permission: Permission,
        /// The routing key.
        key: String,
        /// The exchange.
        exchange: Resource,
        /// The user.
        user: Name,
    },
    /// The queue is another connection's, or the exclusive property differs.
    #[error(
        "cannot obtain exclusive access to locked {0}. It could be originally declared on another \
         connection or the exclusive property value does not match that of the original declaration."
    )]
    Locked(Resource),
    /// The exchange has bindings.
    #[error("{0} in use")]
    InUse(Resource),
    /// No exchange type of that name.
    #[error("unknown exchange type '{0}'")]
    UnknownExchangeType(String),
    /// An argument's value is out of its domain.
    #[error("invalid arg '{key}' for {resource}: {reason}")]
    InvalidArgument {
        /// The argument.
        key: String,
        /// The declared object.
        resource: Resource,
        /// The reason, as an Erlang term.
        reason: String,
    },
    /// An argument naming an exchange is not text.
    #[error("invalid type '{found}' for arg '{key}' in {resource}")]
    InvalidArgumentType {
        /// The argument.
        key: Cow<'static, str>,
        /// The type's name.
        found: Cow<'static, str>,
        /// The declared object.
        resource: Resource,
    },
    /// Arguments this type of exchange cannot have.
    #[error("{0}")]
    ExchangeArguments(String),
    /// An argument of another queue type.
    #[error("invalid arg '{key}' for {resource} of queue type {module}")]
    UnsupportedArgument {
        /// The argument.
        key: String,
        /// The declared object.
        resource: Resource,
        /// The type's module in RabbitMQ.
        module: Cow<'static, str>,
    },
    /// A property that queues of this type cannot have.
    #[error("invalid property '{property}' for {resource}")]
    InvalidProperty {
        /// Its name in RabbitMQ's texts.
        property: Cow<'static, str>,
        /// The declared object.
        resource: Resource,
    },
    /// An argument's number is too large or too small.
    #[error("{0}")]
    BeyondBounds(Cow<'static, str>),
    /// A queue without a name, of a type whose queues the broker makes no names for.
    #[error("Cannot declare a server-named queue for type {0}")]
    ServerNamed(Cow<'static, str>),
    /// A queue type this node does not offer.
    #[error(
        "cannot declare {resource} of type '{kind}': the queue type is not enabled \
         (queue_types.{kind}.enabled)"
    )]
    QueueTypeDisabled {
        /// The declared object.
        resource: Resource,
        /// The type.
        kind: String,
    },
    /// The type of exchange is switched off. COMPAT: RabbitMQ's words.
    #[error("x-local-random exchange is disabled by configuration")]
    LocalRandomDisabled,
    /// The virtual host has all the queues it may have.
    #[error("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached")]
    QueueLimit {
        /// The queue.
        name: Name,
        /// Its virtual host.
        vhost: Name,
        /// The limit.
        limit: i64,
    },
    /// The cluster has all the queues it may have.
    #[error("cannot declare queue '{name}': queue limit in cluster ({limit}) is reached")]
    ClusterQueueLimit {
        /// The queue.
        name: Name,
        /// The limit.
        limit: u64,
    },
    /// The cluster has all the exchanges it may have.
    #[error("cannot declare {exchange}: exchange limit of {limit} is reached")]
    ExchangeLimit {
        /// The exchange.
        exchange: Resource,
        /// The limit.
        limit: u64,
    },
    /// The cluster has all the virtual hosts it may have.
    #[error("cannot create vhost '{vhost}': vhost limit of {limit} is reached")]
    VhostLimit {
        /// The virtual host.
        vhost: Name,
        /// The limit.
        limit: u64,
    },
    /// The cluster has no node of this number.
    #[error("node {0} is not in the cluster")]
    NodeNotFound(u16),
    /// The cluster has a node of this name, which has joined by another token.
    #[error(
        "node '{0}' is in the cluster already; forget it before another node joins by its name"
    )]
    NodeExists(Name),
    /// A change is of a start of the node after which it has started again.
    #[error("node {no} has started again since its start {boot}")]
    NodeRestarted {
        /// The node.
        no: u16,
        /// The start that is over.
        boot: u32,
    },
    /// The cluster's last node cannot be forgotten.
    #[error("node {0} is the last one in the cluster and cannot be forgotten")]
    LastNode(u16),
    /// A feature that will go, and that the operator does not permit.
    #[error("Feature `{0}` is deprecated.\nBy default, this feature is not permitted anymore.")]
    Deprecated(Cow<'static, str>),
    /// A binding key or arguments the exchange does not allow.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// A name is empty or too long.
    #[error("invalid {what} name: the length must be 1 to {max} bytes")]
    InvalidName {
        /// The kind of name.
        what: Cow<'static, str>,
        /// The longest allowed, in bytes.
        max: usize,
    },
    /// A regular expression cannot be used.
    #[error("invalid regexp '{pattern}': {reason}")]
    InvalidPattern {
        /// The expression.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// Only the space that is kept back is left on the disk.
    #[error("no disk space for new definitions; deleting and consuming still work")]
    NoSpace,
    /// The files of a new queue or virtual host cannot be made.
    #[error("Cannot declare {object}: {reason}")]
    NoFiles {
        /// The queue or virtual host.
        object: String,
        /// The system's reason.
        reason: String,
    },
    /// The cluster has not decided the change in time: it is not made, or may be made yet.
    #[error("{0}")]
    TimedOut(String),
    /// A policy, parameter or limit is malformed.
    #[error("{0}")]
    Invalid(String),
}

impl MetaError {
    /// The sort of refusal.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::VhostNotFound(_)
            | Self::UserNotFound(_)
            | Self::NotFound(_)
            | Self::QueueIdNotFound(_)
            | Self::ItemNotFound(_)
            | Self::NodeNotFound(_) => ErrorKind::NotFound,
            Self::VhostExists(_) | Self::UserExists(_) | Self::NodeExists(_) => {
                ErrorKind::AlreadyExists
            }
            Self::ReservedName { .. }
            | Self::DefaultExchange
            | Self::SystemExchange(_)
            | Self::Refused { .. }
            | Self::TopicRefused { .. } => ErrorKind::AccessRefused,
            Self::Locked(_) => ErrorKind::ResourceLocked,
            Self::Inequivalent { .. }
            | Self::UnknownExchangeType(_)
            | Self::InvalidArgument { .. }
            | Self::InvalidArgumentType { .. }
            | Self::ExchangeArguments(_)
            | Self::UnsupportedArgument { .. }
            | Self::InvalidProperty { .. }
            | Self::BeyondBounds(_)
            | Self::ServerNamed(_)
            | Self::QueueTypeDisabled { .. }
            | Self::LocalRandomDisabled
            | Self::QueueLimit { .. }
            | Self::ClusterQueueLimit { .. }
            | Self::ExchangeLimit { .. }
            | Self::InvalidName { .. }
            | Self::NoSpace
            | Self::NodeRestarted { .. }
            | Self::Binding(_) => ErrorKind::PreconditionFailed,
            Self::NoFiles { .. } | Self::TimedOut(_) => ErrorKind::InternalError,
            Self::InUse(_) => ErrorKind::InUse,
            Self::VhostProtected(_) | Self::VhostLimit { .. } | Self::LastNode(_) => {
                ErrorKind::NotAllowed
            }
            Self::Deprecated(_) => ErrorKind::NotPermitted,
            Self::InvalidPattern { .. } | Self::Invalid(_) => ErrorKind::Invalid,
        }
    }
}
