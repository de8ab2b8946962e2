use crate::{
    Append, ChannelId, Error, LinkId, LinkOp, ManagementOp, MethodTag, Position, ShortString,
    StreamCredit, StreamOp, Table, TopicOp,
};
use bytes::Bytes;
use message::BodyForm;
use stdx::UnixMs;

/// A request of a client. A front turns one socket read into a list of these, in the order they arrived, and
/// the broker works them off in that order.
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
    /// Let a consumer have more messages, by its link's credit.
    Flow(CreditRequest),
    /// A rarer operation.
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

/// The bytes that the requests of one read came from.
#[derive(Clone, Copy, Debug)]
pub struct ReadInput<'a> {
    /// The input as it was read.
    pub bytes: &'a [u8],
    /// The front's own buffer, for what does not stand in the input as the broker needs it.
    pub scratch: &'a [u8],
}

impl<'a> ReadInput<'a> {
    /// No bytes: for requests whose content is owned.
    pub const NONE: Self = Self::of(&[]);

    /// An input without scratch.
    #[must_use]
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, scratch: &[] }
    }
}

/// The place of a publish's exchange, routing key and properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadPlace {
    /// With the body: in the input of the read, or in [`OwnedContent::head`].
    Content,
    /// In the scratch of the read, wherever the body is.
    Scratch,
}

/// A message to be routed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own of the message")]
pub struct Publish {
    /// The channel it came on.
    pub channel: ChannelId,
    /// The place in which exchange, routing key and properties lie.
    pub head: HeadPlace,
    /// Exchange name; empty for the default exchange.
    pub exchange: Span,
    /// Routing key.
    pub routing_key: Span,
    /// Properties, checked and encoded by the front as [`MessageRef`](message::MessageRef) has them.
    pub properties: Span,
    /// Body.
    pub content: Content,
    /// The form of the body.
    pub form: BodyForm,
    /// Whether the message is returned when no queue takes it.
    pub mandatory: bool,
    /// Whether the message is returned when no queue has a consumer that gets it at once; `inspect` is set
    /// then.
    pub immediate: bool,
    /// Whether the message is to survive a restart in a durable queue.
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
    /// Exchange name, routing key and properties, one after the other, unless they are in the scratch.
    pub head: Bytes,
    /// The body.
    pub body: Bytes,
}

/// The settlement of one delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The channel the answer came on (transactions are per channel).
    pub channel: ChannelId,
    /// The link on which the message was delivered.
    pub link: LinkId,
    /// The message's position in its queue.
    pub position: Position,
    /// The answer.
    pub outcome: Outcome,
}

/// The answers a consumer can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Settle the message: it is done with.
    Accepted,
    /// Deliver the message again; the delivery counts as failed.
    Modified,
    /// Deliver the message again; the delivery does not count as failed.
    Released,
    /// Drop or dead-letter the message.
    Rejected,
}

/// The settlement of messages delivered on one link, with changes that their queue may keep.
#[derive(Debug)]
pub struct Modification {
    /// The link on which the messages were delivered.
    pub link: LinkId,
    /// The messages' positions in their queue, in the order in which the messages are settled.
    pub positions: Vec<Position>,
    /// The answer.
    pub outcome: Outcome,
    /// The changes.
    pub changes: MessageChanges,
}

/// The changes to messages that a consumer settles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageChanges {
    /// Annotations to be merged into those of the messages: an encoded map of AMQP 1.0; empty for none.
    pub annotations: Bytes,
    /// The time until which messages that come back wait, whatever the queue's settings.
    pub until_ms: Option<UnixMs>,
}

/// The credit of a consumer's link (AMQP 1.0, part 2.6.7), as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditRequest {
    /// The channel on which the request came.
    pub channel: ChannelId,
    /// The link.
    pub link: LinkId,
    /// Deliveries that the client has seen on the link, and those that were drained: a serial number, which
    /// begins at 0.
    pub delivery_count: u32,
    /// Deliveries that may follow those.
    pub credit: u32,
    /// Whether the credit is to be used up: by what is there, and what is left by being counted as used. It
    /// is answered by [`Sink::flowed`](crate::Sink::flowed).
    pub drain: bool,
    /// Whether the client wants to be told the credit in any case.
    pub echo: bool,
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
    /// The channel on which the request came.
    pub channel: ChannelId,
    /// The front's name for the request, handed back with its answer.
    pub origin: MethodTag,
    /// Whether the client wants no answer when it succeeds.
    pub nowait: bool,
    /// The part of the connection that a refusal ends.
    pub refusal: RefusalScope,
    /// The operation asked for.
    pub op: Op,
}

/// The part of a connection that the refusal of a control request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalScope {
    /// The channel, or the connection, as the error's kind says.
    Channel,
    /// Nothing: the front is told by [`Event::Refused`](crate::Event::Refused), and knows what follows.
    Request,
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
    /// Renew the credentials of the connection.
    UpdateSecret {
        /// The new secret.
        secret: Vec<u8>,
    },
    /// Create an exchange, or check that it exists as described.
    DeclareExchange(ExchangeDeclaration),
    /// Delete an exchange.
    DeleteExchange {
        /// The exchange's name.
        exchange: ShortString,
        /// Whether to delete the exchange only if nothing is bound to it.
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
        /// The queue's name; empty for the channel's last declared one.
        queue: ShortString,
    },
    /// Delete a queue.
    DeleteQueue {
        /// The queue's name; empty for the channel's last declared one.
        queue: ShortString,
        /// Whether to delete the queue only without consumers.
        if_unused: Flag,
        /// Whether to delete the queue only without ready messages.
        if_empty: Flag,
    },
    /// Limit how much consumers hold at a time.
    SetPrefetch {
        /// The most unacknowledged deliveries at a time; 0 for no limit.
        prefetch_count: u16,
        /// Whether the limit is per channel instead of per new consumer.
        global: bool,
    },
    /// Attach a consumer to a queue.
    Attach(Attachment),
    /// Detach a consumer; its unacked messages stay to be settled.
    Detach {
        /// The consumer's tag.
        consumer_tag: ShortString,
    },
    /// Deliver one message of a queue, if there is one.
    Get {
        /// The queue's name; empty for the channel's last declared one.
        queue: ShortString,
        /// Whether the message is settled on delivery.
        no_ack: bool,
    },
    /// Settle messages with changes; not held back by a transaction, and not answered.
    Modify(Modification),
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
    /// An operation on a link as such.
    Link(LinkOp),
    /// An operation on topics.
    Topic(TopicOp),
    /// An operation of a client that manages.
    Manage(ManagementOp),
    /// An operation on streams as such.
    Stream(StreamOp),
}

/// The exchange that a client declares.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own of the client")]
pub struct ExchangeDeclaration {
    /// The exchange's name, as received.
    pub exchange: ShortString,
    /// The name of the exchange's type, for example `direct`.
    pub kind: ShortString,
    /// Whether to look only whether the exchange exists.
    pub passive: bool,
    /// Whether the exchange survives a restart.
    pub durable: bool,
    /// Whether the exchange is deleted with its last binding.
    pub auto_delete: bool,
    /// Whether clients may not publish to the exchange.
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
    /// The queue's name, as received; empty asks for a generated one.
    pub queue: ShortString,
    /// Whether to look only whether the queue exists.
    pub passive: bool,
    /// Whether the queue survives a restart.
    pub durable: bool,
    /// Whether the queue is for this connection only.
    pub exclusive: bool,
    /// Whether the queue is deleted with its last consumer.
    pub auto_delete: bool,
    /// Arguments.
    pub arguments: Table,
}

/// A binding of a queue to an exchange.
#[derive(Clone, Debug)]
pub struct QueueBinding {
    /// The queue's name; empty for the channel's last declared one.
    pub queue: ShortString,
    /// The exchange that routes.
    pub exchange: ShortString,
    /// Binding key.
    pub routing_key: ShortString,
    /// Arguments.
    pub arguments: Table,
}

/// The source of a link on which a client consumes: deliveries are limited by [`Request::Flow`], and messages
/// are taken in sections of AMQP 1.0, as a queue may store them.
#[derive(Clone, Debug, Default)]
pub struct LinkSource {
    /// The filters that the client asks for, a map in AMQP 1.0's encoding; empty for none.
    pub filters: Vec<u8>,
    /// Whether the client wants to look at messages of a queue which stay there.
    pub browses: bool,
}

/// The consumer that a client attaches.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The queue's name; empty for the channel's last declared one.
    pub queue: ShortString,
    /// The consumer's tag; empty asks for a generated one.
    pub consumer_tag: ShortString,
    /// Whether deliveries are settled when they are sent.
    pub no_ack: bool,
    /// The source of the client's link; none of consumers that the channel's prefetch limit limits.
    pub source: Option<LinkSource>,
    /// Whether the consumer is the only one of the queue.
    pub exclusive: bool,
    /// Arguments.
    pub arguments: Table,
}
