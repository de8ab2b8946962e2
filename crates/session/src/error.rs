use std::borrow::Cow;

/// The error of a refused request. The front turns the kind into its protocol's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// The kind of error; decides the code and whether only the channel is lost.
    pub kind: ErrorKind,
    /// RabbitMQ's explanation without the leading code name, for example
    /// `no queue 'x' in vhost '/'`.
    pub text: Cow<'static, str>,
}

/// The sorts of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Content too large, closes the channel.
    ContentTooLarge,
    /// Access refused, closes the channel.
    AccessRefused,
    /// Another consumer has the queue for itself, closes the channel.
    ExclusiveUse,
    /// Not found, closes the channel.
    NotFound,
    /// Not implemented by the mode of a queue, closes the channel.
    NotImplementedByMode,
    /// Resource locked, closes the channel.
    ResourceLocked,
    /// Precondition failed, closes the channel.
    PreconditionFailed,
    /// A type of exchange that nobody knows, closes the channel.
    UnknownType,
    /// A publish to an internal exchange, closes the channel.
    InternalExchange,
    /// A message that claims to be of another user, closes the channel.
    ForeignUserId,
    /// The virtual host has as many queues as it may have, closes the channel.
    QueueLimit,
    /// The operator closes the connection.
    ConnectionForced,
    /// Invalid path: unknown vhost, closes the connection.
    InvalidPath,
    /// Frame error, closes the connection.
    FrameError,
    /// Syntax error, closes the connection.
    SyntaxError,
    /// Command invalid, closes the connection.
    CommandInvalid,
    /// Channel error, closes the connection.
    ChannelError,
    /// Unexpected frame, closes the connection.
    UnexpectedFrame,
    /// Resource error, closes the connection.
    ResourceError,
    /// Not allowed, closes the connection.
    NotAllowed,
    /// The virtual host to be opened is not there, closes the connection.
    VhostNotFound,
    /// The virtual host is not open to the user, closes the connection.
    VhostRefused,
    /// A limit of connections, channels or consumers that is reached, closes the connection.
    LimitReached,
    /// Not implemented, closes the connection.
    NotImplemented,
    /// Internal error, closes the connection.
    InternalError,
}

impl ErrorKind {
    /// Whether the whole connection is lost, not only the channel.
    pub const fn closes_connection(self) -> bool {
        !matches!(
            self,
            Self::ContentTooLarge
                | Self::AccessRefused
                | Self::ExclusiveUse
                | Self::NotFound
                | Self::NotImplementedByMode
                | Self::ResourceLocked
                | Self::PreconditionFailed
                | Self::UnknownType
                | Self::InternalExchange
                | Self::ForeignUserId
                | Self::QueueLimit
        )
    }
}

impl Error {
    /// A refusal with its explanation.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into() }
    }
}
