use crate::{ChannelId, Error, LinkId, ShortString};
use message::MessageRef;

/// A front's own name for the method that a request came from; opaque to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MethodTag(pub u32);

/// An event for a client, other than deliveries and confirms. Events of one channel reach the client in
/// the order they are put into the outbox.
#[derive(Debug)]
pub enum Event<'a> {
    /// `channel.open-ok`.
    ChannelOpened(ChannelId),
    /// `channel.close-ok`.
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
    /// `connection.close-ok`.
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
    /// `connection.blocked`: publishing waits until the alarm clears.
    Blocked {
        /// For example `low on memory`.
        reason: &'a str,
    },
    /// `connection.unblocked`.
    Unblocked,
    /// The request that `origin` names succeeded and its answer carries nothing: `exchange.*-ok`,
    /// `queue.bind-ok`, `queue.unbind-ok`, `basic.qos-ok`, `basic.recover-ok`,
    /// `confirm.select-ok` (from here on the channel counts publishes), `tx.*-ok`,
    /// `connection.update-secret-ok`.
    Done {
        /// The channel.
        channel: ChannelId,
        /// The request.
        origin: MethodTag,
    },
    /// `queue.declare-ok`.
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
    /// `queue.purge-ok`.
    QueuePurged {
        /// The channel.
        channel: ChannelId,
        /// The number of purged messages.
        n_messages: u64,
    },
    /// `queue.delete-ok`.
    QueueDeleted {
        /// The channel.
        channel: ChannelId,
        /// The number of ready messages deleted with the queue.
        n_messages: u64,
    },
    /// A consumer is attached; its deliveries follow on `link`. With `answer` a `basic.consume-ok`
    /// is sent.
    Consuming {
        /// The channel.
        channel: ChannelId,
        /// The link of the consumer's deliveries.
        link: LinkId,
        /// The consumer's tag.
        consumer_tag: &'a ShortString,
        /// Deliveries are settled when sent: no delivery tag is remembered.
        no_ack: bool,
        /// Whether the client waits for the answer.
        answer: bool,
    },
    /// `basic.cancel-ok`; deliveries already made stay to be settled.
    Cancelled {
        /// The channel.
        channel: ChannelId,
        /// The link of the consumer's deliveries; `None` if there was no such consumer.
        link: Option<LinkId>,
        /// The consumer's tag.
        consumer_tag: &'a ShortString,
        /// Whether the client waits for the answer.
        answer: bool,
    },
    /// The broker ended the consumer (`basic.cancel` to clients that can read it).
    ConsumerCancelled {
        /// The channel.
        channel: ChannelId,
        /// The link of the consumer's deliveries.
        link: LinkId,
        /// The consumer's tag.
        consumer_tag: &'a ShortString,
    },
    /// `basic.get-empty`.
    GetEmpty(ChannelId),
    /// `basic.get-ok` with its message.
    Got {
        /// The channel.
        channel: ChannelId,
        /// The link that a settlement is to name.
        link: LinkId,
        /// The delivery.
        delivery: crate::Delivery<'a>,
        /// Whether it is settled by being sent.
        no_ack: bool,
        /// Ready messages left.
        n_ready: u64,
    },
    /// `basic.return`: no queue took it.
    Returned {
        /// The channel.
        channel: ChannelId,
        /// The reason.
        reason: ReturnReason,
        /// The message as it was published.
        message: MessageRef<'a>,
    },
}

/// The reason why a message comes back to its publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReason {
    /// The message is mandatory and no queue got it.
    Unroutable,
    /// The message is immediate and no consumer could take it at once.
    NoConsumers,
}
