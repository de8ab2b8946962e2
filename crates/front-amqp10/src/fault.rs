//! Faults of clients and refusals of the broker, as AMQP 1.0 tells them: a condition, a text, and what ends.

use amqp10::Condition;
use session::{Error, ErrorKind};
use std::borrow::Cow;

/// The part of a connection that a fault ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultScope {
    /// The link is detached.
    Link,
    /// The session is ended.
    Session,
    /// The connection is closed.
    Connection,
}

/// The end of a link, a session or a connection that its client did not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolFault {
    /// The part that ends.
    pub scope: FaultScope,
    /// The specification's word for it.
    pub condition: Condition,
    /// The explanation; empty for none.
    pub text: Cow<'static, str>,
    /// Further facts, as an encoded map; empty for none.
    pub info: Vec<u8>,
}

impl ProtocolFault {
    /// A fault that detaches its link.
    pub fn link(condition: Condition, text: impl Into<Cow<'static, str>>) -> Self {
        Self { scope: FaultScope::Link, condition, text: text.into(), info: Vec::new() }
    }

    /// A fault that ends its session.
    pub fn session(condition: Condition, text: impl Into<Cow<'static, str>>) -> Self {
        Self { scope: FaultScope::Session, ..Self::link(condition, text) }
    }

    /// A fault that closes its connection.
    pub fn connection(condition: Condition, text: impl Into<Cow<'static, str>>) -> Self {
        Self { scope: FaultScope::Connection, ..Self::link(condition, text) }
    }

    /// The broker's refusal of a request on a link or of an open. COMPAT: RabbitMQ ends the session where a
    /// permission is missing, and detaches the link otherwise.
    pub fn of_refusal(error: Error) -> Self {
        let (condition, scope) = match error.kind {
            ErrorKind::ContentTooLarge => (Condition::MessageSizeExceeded, FaultScope::Session),
            ErrorKind::AccessRefused => (Condition::UnauthorizedAccess, FaultScope::Session),
            ErrorKind::NotFound => (Condition::NotFound, FaultScope::Link),
            ErrorKind::NotImplementedByMode => (Condition::NotImplemented, FaultScope::Link),
            ErrorKind::ResourceLocked => (Condition::ResourceLocked, FaultScope::Link),
            ErrorKind::PreconditionFailed | ErrorKind::UnknownType => {
                (Condition::PreconditionFailed, FaultScope::Link)
            }
            ErrorKind::ExclusiveUse | ErrorKind::InternalExchange | ErrorKind::ForeignUserId => {
                (Condition::UnauthorizedAccess, FaultScope::Link)
            }
            ErrorKind::QueueLimit => (Condition::ResourceLimitExceeded, FaultScope::Link),
            ErrorKind::ConnectionForced => (Condition::InternalError, FaultScope::Connection),
            ErrorKind::InvalidPath => (Condition::NotFound, FaultScope::Connection),
            ErrorKind::FrameError | ErrorKind::SyntaxError | ErrorKind::UnexpectedFrame => {
                (Condition::FramingError, FaultScope::Connection)
            }
            ErrorKind::CommandInvalid | ErrorKind::ChannelError => {
                (Condition::IllegalState, FaultScope::Connection)
            }
            ErrorKind::VhostNotFound => (Condition::UnauthorizedAccess, FaultScope::Connection),
            // COMPAT: RabbitMQ's condition; clients take the other for a login that failed.
            ErrorKind::VhostRefused => (Condition::InternalError, FaultScope::Connection),
            ErrorKind::ResourceError | ErrorKind::LimitReached => {
                (Condition::ResourceLimitExceeded, FaultScope::Connection)
            }
            ErrorKind::NotAllowed => (Condition::NotAllowed, FaultScope::Connection),
            ErrorKind::NotImplemented => (Condition::NotImplemented, FaultScope::Connection),
            ErrorKind::InternalError => (Condition::InternalError, FaultScope::Connection),
        };
        Self { scope, ..Self::link(condition, error.text) }
    }
}
