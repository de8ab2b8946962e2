use crate::{
    Append, ChannelId, Error, LinkId, MethodTag, Position, ShortString, StreamCredit, StreamOp,
    Table,
};
use bytes::Bytes;

/// One thing a client asks for. A front turns one socket read into a list of these, in the order
/// they arrived, and the broker works them off in that order.
#[derive(Debug)]
pub enum Request {
    /// Put a message in.
    Publish(Publish),
    /// Say what became of one delivered message.
    Settle(Settle),
    /// Put messages of one publisher into its stream.
    Append(Append),
    /// Let a subscription to a stream have more chunks.
    Credit(StreamCredit),
    /// Everything rarer.
    Control(Box<Control>),
}

/// A part of the input that the requests of one read came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Index of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// The bytes this span stands for in `input`; empty when it does not lie inside.
    #[must_use]
    pub fn of(self, input: &[u8]) -> &[u8] {
        let start = self.start as usize;
        input.get(start..start.saturating_add(self.len as usize)).unwrap_or_default()
    }
}

/// A message to be routed. The spans lie in the input of the read, or in
/// [`OwnedContent::head`] when the content is owned.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own of the message")]
pub struct Publish {
    /// The channel it came on.
    pub channel: ChannelId,
    /// Exchange name; empty for the default exchange.
    pub exchange: Span,
    /// Routing key.
    pub routing_key: Span,
    /// Properties, checked and encoded by the front as [`MessageRef`](message::MessageRef) has them.
    pub properties: Span,
    /// Body.
    pub content: Content,
    /// Return it when no queue takes it.
    pub mandatory: bool,
    /// Return it when no queue has a consumer that gets it at once; `inspect` is set then.
    pub immediate: bool,
    /// It is to survive a restart in a durable queue.
    pub persistent: bool,
    /// Whether properties hold anything that routing or the queue must look at (headers,
    /// expiration, priority, user-id, reply-to); false lets the broker not parse them at all.
    pub inspect: bool,
}

/// The place of a publish's content.
#[derive(Debug)]
pub enum Content {
    /// The body is in the input.
    Inline(Span),
    /// Gathered from several reads, or large: kept apart, and not copied again.
    Owned(Box<OwnedContent>),
}

impl Content {
    /// Bytes of the body.
    pub fn n_bytes(&self) -> u64 {
        match self {
            Self::Inline(span) => u64::from(span.len),
            Self::Owned(owned) => owned.body.len() as u64,
        }
    }
}

/// Content that was gathered from several reads.
#[derive(Debug)]
pub struct OwnedContent {
    /// Exchange name, routing key and properties, one after the other.
    pub head: Bytes,
    /// The body.
    pub body: Bytes,
}

/// The settlement of one delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The channel the answer came on (transactions are per channel).
    pub channel: ChannelId,
    /// The link it was delivered on.
    pub link: LinkId,
    /// The message's position in its queue.
    pub position: Position,
    /// The answer.
    pub outcome: Outcome,
}

/// The answers a consumer can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done with it.
    Accepted,
    /// Give it to somebody again; it counts as a failed delivery.
    Modified,
    /// Give it to somebody again; not a failure.
    Released,
    /// Drop or dead-letter it.
    Rejected,
}

/// A yes or no of a request, named at the place of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Set.
    Yes,
    /// Not set.
    No,
}

impl Flag {
    /// `Yes` for true.
    #[must_use]
    pub const fn from_bool(value: bool) -> Self {
        if value { Self::Yes } else { Self::No }
    }

    /// True for `Yes`.
    pub const fn is_set(self) -> bool {
        matches!(self, Self::Yes)
    }
}

/// A request other than publishing and settling, on a channel.
#[derive(Debug)]
pub struct Control {
    /// The channel it came on.
    pub channel: ChannelId,
    /// The front's name for the request, handed back with its answer.
    pub origin: MethodTag,
    /// Whether the client wants no answer when it succeeds.
    pub nowait: bool,
    /// The operation asked for.
    pub op: Op,
}

/// The operation of a control request.
#[derive(Debug)]
pub enum Op {
    /// Open the channel.
    OpenChannel,
    /// Close the channel; answered when everything it held is given back.
    CloseChannel,
    /// The front found the channel at fault: give back what it holds, then tell the client.
    FailChannel(Error),
    /// The client closes the connection; answered when its exclusive queues are gone.
    CloseConnection,
    /// The front found the connection at fault.
    FailConnection(Error),
    /// Other credentials for the connection, from here on.
    UpdateSecret {
        /// The new secret.
        secret: Vec<u8>,
    },
    /// Create an exchange, or check that it exists as described.
    DeclareExchange(ExchangeDeclaration),
    /// Delete an exchange.
    DeleteExchange {
        /// Its name.
        exchange: ShortString,
        /// Only when nothing is bound to it.
        if_unused: bool,
    },
    /// Bind an exchange to another.
    BindExchange(ExchangeBinding),
    /// Remove a binding between exchanges.
    UnbindExchange(ExchangeBinding),
    /// Create a queue, or check that it exists as described.
    DeclareQueue(QueueDeclaration),
    /// Bind a queue to an exchange.
    BindQueue(QueueBinding),
    /// Remove the binding of a queue.
    UnbindQueue(QueueBinding),
    /// Drop the ready messages of a queue.
    PurgeQueue {
        /// Its name; empty for the channel's last declared one.
        queue: ShortString,
    },
    /// Delete a queue.
    DeleteQueue {
        /// Its name; empty for the channel's last declared one.
        queue: ShortString,
        /// Only without consumers.
        if_unused: Flag,
        /// Only without ready messages.
        if_empty: Flag,
    },
    /// Limit how much consumers hold at a time.
    SetPrefetch {
        /// Unacknowledged deliveries allowed at a time; 0 for no limit.
        prefetch_count: u16,
        /// Per channel instead of per new consumer.
        global: bool,
    },
    /// Attach a consumer to a queue.
    Attach(Attachment),
    /// Detach a consumer; what it holds stays to be settled.
    Detach {
        /// The consumer's tag.
        consumer_tag: ShortString,
    },
    /// Hand out one message, if there is one.
    Get {
        /// Its name; empty for the channel's last declared one.
        queue: ShortString,
        /// Settled on delivery.
        no_ack: bool,
    },
    /// Give back everything unsettled on the channel.
    ReleaseUnsettled,
    /// Confirm the publishes of the channel from here on.
    EnableConfirms,
    /// Hold back the publishes and settlements of the channel from here on, until it commits.
    EnableTransactions,
    /// Carry out what is held back.
    Commit,
    /// Forget what is held back.
    RollBack,
    /// An operation on streams as such.
    Stream(StreamOp),
}

/// The exchange that a client declares.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own of the client")]
pub struct ExchangeDeclaration {
    /// Name, as received.
    pub exchange: ShortString,
    /// Type name, for example `direct`.
    pub kind: ShortString,
    /// Only look whether it exists.
    pub passive: bool,
    /// Survives a restart.
    pub durable: bool,
    /// Deleted with its last binding.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// Arguments.
    pub arguments: Table,
}

/// A binding of an exchange to another.
#[derive(Clone, Debug)]
pub struct ExchangeBinding {
    /// The exchange that receives.
    pub destination: ShortString,
    /// The exchange that routes.
    pub source: ShortString,
    /// Binding key.
    pub routing_key: ShortString,
    /// Arguments.
    pub arguments: Table,
}

/// The queue that a client declares.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own of the client")]
pub struct QueueDeclaration {
    /// Name, as received; empty asks for a generated one.
    pub queue: ShortString,
    /// Only look whether it exists.
    pub passive: bool,
    /// Survives a restart.
    pub durable: bool,
    /// Of this connection only.
    pub exclusive: bool,
    /// Deleted with its last consumer.
    pub auto_delete: bool,
    /// Arguments.
    pub arguments: Table,
}

/// A binding of a queue to an exchange.
#[derive(Clone, Debug)]
pub struct QueueBinding {
    /// Its name; empty for the channel's last declared one.
    pub queue: ShortString,
    /// The exchange that routes.
    pub exchange: ShortString,
    /// Binding key.
    pub routing_key: ShortString,
    /// Arguments.
    pub arguments: Table,
}

/// The consumer that a client attaches.
#[derive(Debug)]
pub struct Attachment {
    /// Its name; empty for the channel's last declared one.
    pub queue: ShortString,
    /// Empty asks for a generated one.
    pub consumer_tag: ShortString,
    /// Deliveries are settled when they are sent.
    pub no_ack: bool,
    /// Refuse others.
    pub exclusive: bool,
    /// Arguments.
    pub arguments: Table,
}
