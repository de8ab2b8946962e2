use crate::{ChannelId, Error, LinkEvent, LinkId, ManagementEvent, ShortString, StreamEvent};
use message::MessageRef;

/// A front's own name for a request, or for its kind; opaque to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MethodTag(pub u64);

/// An event for a client, other than deliveries and confirms. Events of one channel reach the client in
/// the order they are put into the outbox.
#[derive(Debug)]
pub enum Event<'a> {
    /// The channel is open.
    ChannelOpened(ChannelId),
    /// The channel is closed, as its client asked.
    ChannelClosed(ChannelId),
    /// The channel is closed by the broker. Its deliveries and consumers are gone already.
    ChannelFailed {
        /// The channel.
        channel: ChannelId,
        /// The error.
        error: Error,
        /// The client's request; `None` for a publish.
        origin: Option<MethodTag>,
    },
    /// The connection may be closed, as its client asked.
    ConnectionClosed,
    /// The connection is closed by the broker.
    ConnectionFailed {
        /// The channel at fault; `None` when no channel is.
        channel: Option<ChannelId>,
        /// The error.
        error: Error,
        /// The client's request; `None` for a publish, or where the client asked for nothing.
        origin: Option<MethodTag>,
    },
    /// Publishing waits until the alarm clears.
    Blocked {
        /// For example `low on memory`.
        reason: &'a str,
    },
    /// Publishing goes on.
    Unblocked,
    /// The request that `origin` names succeeded and its answer carries nothing. Confirms enabled: from
    /// here on the channel counts publishes.
    Done {
        /// The channel.
        channel: ChannelId,
        /// The request.
        origin: MethodTag,
    },
    /// A request whose [refusal ends nothing](crate::RefusalScope::Request) is refused.
    Refused {
        /// The request.
        origin: MethodTag,
        /// The reason.
        error: Error,
    },
    /// A queue is declared.
    QueueDeclared {
        /// The channel.
        channel: ChannelId,
        /// The queue's name.
        queue: &'a [u8],
        /// Ready messages.
        n_ready: u64,
        /// Consumers.
        n_consumers: u64,
    },
    /// A queue is purged.
    QueuePurged {
        /// The channel.
        channel: ChannelId,
        /// The request.
        origin: MethodTag,
        /// The number of purged messages.
        n_messages: u64,
    },
    /// A queue is deleted.
    QueueDeleted {
        /// The channel.
        channel: ChannelId,
        /// The request.
        origin: MethodTag,
        /// The number of ready messages deleted with the queue.
        n_messages: u64,
    },
    /// A consumer is attached; its deliveries follow on `link`.
    Attached {
        /// The channel.
        channel: ChannelId,
        /// The link of the consumer's deliveries.
        link: LinkId,
        /// The consumer's tag.
        consumer_tag: &'a ShortString,
        /// Deliveries are settled when sent: no delivery tag is remembered.
        no_ack: bool,
        /// The filters in place, a map in AMQP 1.0's encoding; none of a queue that has no filters.
        filters: Option<&'a [u8]>,
        /// Whether the client waits for the answer.
        answer: bool,
    },
    /// A consumer is detached as its client asked; deliveries already made stay to be settled.
    Detached {
        /// The channel.
        channel: ChannelId,
        /// The link of the consumer's deliveries; `None` if there was no such consumer.
        link: Option<LinkId>,
        /// The consumer's tag.
        consumer_tag: &'a ShortString,
        /// Whether the client waits for the answer.
        answer: bool,
    },
    /// The broker ended the consumer.
    ConsumerCancelled {
        /// The channel.
        channel: ChannelId,
        /// The link of the consumer's deliveries.
        link: LinkId,
        /// The consumer's tag.
        consumer_tag: &'a ShortString,
    },
    /// The queue has no message to deliver to [`Op::Get`](crate::Op::Get).
    GetEmpty(ChannelId),
    /// The message that [`Op::Get`](crate::Op::Get) asked for.
    Got {
        /// The channel.
        channel: ChannelId,
        /// The link that a settlement is to name.
        link: LinkId,
        /// The delivery.
        delivery: crate::Delivery<'a>,
        /// Whether the delivery is settled by being sent.
        no_ack: bool,
        /// The number of ready messages left in the queue.
        n_ready: u64,
    },
    /// A message comes back: no queue took it.
    Returned {
        /// The channel.
        channel: ChannelId,
        /// The reason.
        reason: ReturnReason,
        /// The message as it was published.
        message: MessageRef<'a>,
    },
    /// An event for a client whose links are requests of their own.
    Link(LinkEvent),
    /// The answer to a client that manages.
    Management(ManagementEvent<'a>),
    /// An event for a client that uses streams as such.
    Stream(StreamEvent<'a>),
}

/// The reason why a message comes back to its publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReason {
    /// The message is mandatory and no queue got it.
    Unroutable,
    /// The message is immediate and no consumer could take it at once.
    NoConsumers,
}
