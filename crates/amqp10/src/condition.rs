//! Error conditions (part 2, 2.8.15 to 2.8.18; part 4, 4.5.8), and the error that carries one.

use crate::composite::composites;
use crate::field::Symbol;
use crate::value::MapRef;

stdx::named! {
    /// The conditions that the specification names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Condition {
        /// An error within the peer.
        InternalError = "amqp:internal-error",
        /// The node does not exist.
        NotFound = "amqp:not-found",
        /// The user lacks a permission.
        UnauthorizedAccess = "amqp:unauthorized-access",
        /// Bytes that cannot be decoded.
        DecodeError = "amqp:decode-error",
        /// A limit of the peer's is exceeded.
        ResourceLimitExceeded = "amqp:resource-limit-exceeded",
        /// The peer does not permit this.
        NotAllowed = "amqp:not-allowed",
        /// A field has a value that it must not have.
        InvalidField = "amqp:invalid-field",
        /// The peer cannot do this.
        NotImplemented = "amqp:not-implemented",
        /// Somebody else has the node for himself.
        ResourceLocked = "amqp:resource-locked",
        /// A precondition does not hold.
        PreconditionFailed = "amqp:precondition-failed",
        /// The node was deleted.
        ResourceDeleted = "amqp:resource-deleted",
        /// The peer is in no state for this.
        IllegalState = "amqp:illegal-state",
        /// A frame does not fit the peer's largest size.
        FrameSizeTooSmall = "amqp:frame-size-too-small",
        /// An operator closed the connection.
        ConnectionForced = "amqp:connection:forced",
        /// A frame cannot be formed from the bytes.
        FramingError = "amqp:connection:framing-error",
        /// The container is elsewhere.
        ConnectionRedirect = "amqp:connection:redirect",
        /// More transfers came than the window permits.
        WindowViolation = "amqp:session:window-violation",
        /// Input for a link that was detached with an error.
        ErrantLink = "amqp:session:errant-link",
        /// The handle belongs to another link.
        HandleInUse = "amqp:session:handle-in-use",
        /// The handle belongs to no link.
        UnattachedHandle = "amqp:session:unattached-handle",
        /// An operator detached the link.
        DetachForced = "amqp:link:detach-forced",
        /// More deliveries came than the credit permits.
        TransferLimitExceeded = "amqp:link:transfer-limit-exceeded",
        /// A message is larger than the receiver takes.
        MessageSizeExceeded = "amqp:link:message-size-exceeded",
        /// The node is elsewhere.
        LinkRedirect = "amqp:link:redirect",
        /// The link was attached elsewhere.
        Stolen = "amqp:link:stolen",
        /// No transaction has this id.
        TransactionUnknownId = "amqp:transaction:unknown-id",
        /// The transaction was rolled back.
        TransactionRollback = "amqp:transaction:rollback",
        /// The transaction took too long.
        TransactionTimeout = "amqp:transaction:timeout",
    }
}

composites! { 'a;
    /// An error, as it ends a link, a session or a connection, or rejects a message.
    AmqpError<'a> 0x1d "amqp:error:list" {
        /// One of [`Condition`], or a word that peers have agreed on.
        condition: Symbol<'a>,
        /// In words, for people.
        description: Option<&'a str>,
        info: MapRef<'a> = MapRef::EMPTY,
    }
}

impl<'a> AmqpError<'a> {
    /// An error with an explanation.
    #[must_use]
    pub const fn new(condition: Condition, description: &'a str) -> Self {
        Self {
            condition: Symbol(condition.as_str()),
            description: Some(description),
            info: MapRef::EMPTY,
        }
    }
}
