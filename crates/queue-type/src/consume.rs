//! Consumers and takers of `basic.get`s: their attachment, and the outcome of their requests.

use crate::global_prefetch::ChannelLimit;
use crate::tally::Tally;
use meta::ConnectionId;
use queue::Checkout;
use session::{Attachment, ChannelId, LinkId, Outbox, ShortString};
use std::sync::Arc;

/// The channel a consumer belongs to.
pub type Owner = (ConnectionId, ChannelId);

/// A consumer that is to be attached.
pub struct Attach<'a> {
    /// Terms for the core.
    pub checkout: Checkout,
    /// Connection of the consumer.
    pub connection: ConnectionId,
    /// Channel of the consumer.
    pub channel: ChannelId,
    /// Name of the consumer in the outbox.
    pub link: LinkId,
    /// Outbox of the connection.
    pub outbox: &'a Arc<dyn Outbox>,
    /// Tag of the consumer.
    pub consumer_tag: &'a ShortString,
    /// The consumer as its client asks for it.
    pub asked: &'a Attachment,
    /// Whether the client waits for an answer.
    pub answer: bool,
    /// Limit that the consumer shares with the others of its channel.
    pub limit: Option<Arc<ChannelLimit>>,
    /// Tally of the channel for messages from this queue.
    pub tally: Arc<Tally>,
    /// Time for which the node lets the consumer hold a message, in milliseconds, where neither consumer nor
    /// queue sets one.
    pub node_timeout_ms: Option<u64>,
}

/// The taker of a `basic.get`.
#[derive(Clone, Copy)]
pub struct Taker<'a> {
    /// Link with which the taker settles.
    pub link: LinkId,
    /// The outbox that is given the message.
    pub outbox: &'a Arc<dyn Outbox>,
    /// Tally of the channel for messages from this queue.
    pub tally: &'a Tally,
}

/// The reason that a consumer could not be attached or a message not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachRefused {
    /// The queue is being deleted.
    Gone,
    /// Another consumer is exclusive, or this one would be and is not alone.
    ExclusiveUse,
    /// The consumer asks for something that its queue cannot do as it stands: the explanation.
    Unfit(String),
    /// Queues of this type cannot do that: the explanation.
    NotImplemented(String),
    /// The queue gives messages to nobody in this way: the explanation.
    Locked(String),
    /// The node that has the queue is down: the explanation.
    HomeDown(String),
}

/// The outcome of a `basic.get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The taker was given a message.
    Message,
    /// The queue has no message ready.
    Nothing,
    /// The next message is on disk: try again when it is in memory.
    NotInMemory,
    /// The next message cannot be sent to the client: the connection is about to end.
    Unfit,
}

/// The outcome of a consumer's settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a consumer may have asked for what its queue cannot do"]
pub enum Settled {
    /// The settlement was carried out.
    All,
    /// The queue keeps no record of the messages that consumers hold, so the consumer cannot give one back,
    /// and goes on holding it.
    NotByThisMode,
    /// A link cannot give one back for the same reason, and is to end.
    NotOnThisLink,
}

/// The fate of a queue after a consumer went, or after an alarm of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDetach {
    /// The queue goes on.
    Stays,
    /// The last consumer of an auto-delete queue went, or nobody has used the queue for too long: the caller
    /// deletes the queue, which takes no new consumers from now on.
    DeleteQueue,
}

impl AfterDetach {
    /// Joins two fates: a queue is deleted if either says so.
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::Stays => other,
            Self::DeleteQueue => self,
        }
    }
}

/// A channel that holds a message for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTimeout {
    /// Connection of the channel.
    pub connection: ConnectionId,
    /// The channel.
    pub channel: ChannelId,
    /// Time for which the channel may hold a message, in milliseconds.
    pub timeout_ms: u64,
}
