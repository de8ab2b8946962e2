//! Consumers and takers of `basic.get`s: how they are attached, and what becomes of what they say.

use crate::global_prefetch::ChannelLimit;
use crate::tally::Tally;
use meta::ConnectionId;
use queue::Checkout;
use session::{ChannelId, LinkId, Outbox, ShortString, Table};
use std::sync::Arc;

/// The channel a consumer belongs to.
pub type Owner = (ConnectionId, ChannelId);

/// A consumer on its way in.
pub struct Attach<'a> {
    /// How the core is to treat it.
    pub checkout: Checkout,
    /// Its connection.
    pub connection: ConnectionId,
    /// Its channel.
    pub channel: ChannelId,
    /// Its name in the outbox.
    pub link: LinkId,
    /// The outbox of its connection.
    pub outbox: &'a Arc<dyn Outbox>,
    /// Its tag.
    pub consumer_tag: &'a ShortString,
    /// It is to be the only one.
    pub exclusive: bool,
    /// Its arguments.
    pub arguments: Table,
    /// Whether the client waits for an answer.
    pub answer: bool,
    /// The limit it shares with the other consumers of its channel.
    pub limit: Option<Arc<ChannelLimit>>,
    /// Where its channel counts what it is given from the queue.
    pub tally: Arc<Tally>,
    /// How long the node lets it hold a message, in milliseconds, where nobody else says.
    pub node_timeout_ms: Option<u64>,
}

/// The taker of a `basic.get`.
#[derive(Clone, Copy)]
pub struct Taker<'a> {
    /// The link that it settles with.
    pub link: LinkId,
    /// The outbox that is given the message.
    pub outbox: &'a Arc<dyn Outbox>,
    /// Where its channel counts what it is given from the queue.
    pub tally: &'a Tally,
}

/// Why a consumer could not be attached or a message not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachRefused {
    /// The queue is being deleted.
    Gone,
    /// Another consumer is exclusive, or this one would be and is not alone.
    ExclusiveUse,
    /// The consumer asks for what its queue cannot do as it stands: the explanation.
    Unfit(String),
    /// Queues of the type do not do that: the explanation.
    NotImplemented(String),
    /// Nobody may take messages from it in this way: the explanation.
    Locked(String),
}

/// The outcome of a `basic.get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// It was given a message.
    Message,
    /// There is none.
    Nothing,
    /// There is one, on disk: try again when it is in memory.
    NotInMemory,
    /// There is one that its client cannot be sent: the connection is about to end.
    Unfit,
}

/// How a consumer's word was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a consumer may have asked for what its queue cannot do"]
pub enum Settled {
    /// As it was meant.
    All,
    /// The queue keeps no record of what its consumers hold: they cannot give a message back. It stays
    /// theirs.
    NotByThisMode,
}

/// The fate of a queue after a consumer went, or an alarm of its went off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDetach {
    /// The queue goes on.
    Stays,
    /// The last consumer of an auto-delete queue went, or nobody has used the queue for too long: the caller
    /// deletes it. It takes no new consumers from now on.
    DeleteQueue,
}

impl AfterDetach {
    /// Of both: a queue is deleted once.
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
    /// Its connection.
    pub connection: ConnectionId,
    /// The channel.
    pub channel: ChannelId,
    /// For how long it may.
    pub timeout_ms: u64,
}
