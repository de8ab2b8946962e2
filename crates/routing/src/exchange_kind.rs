//! The types of exchanges, and the settings of one that routing knows.

use crate::name::Name;

/// The exchange types: the ways to choose among bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExchangeKind {
    /// The binding key equals the routing key.
    Direct,
    /// All bindings.
    Fanout,
    /// The binding key is a pattern over the words of the routing key.
    Topic,
    /// The arguments of the binding match the headers of the message.
    Headers,
    /// One destination by a hash of the message: the binding key is its share, and few messages go
    /// elsewhere when destinations come or go.
    ConsistentHash,
    /// One destination by the remainder of a hash of the routing key.
    ModulusHash,
    /// One destination by chance.
    Random,
    /// One queue of this node by chance.
    LocalRandom,
    /// All bindings; whoever is bound newly gets the last messages.
    RecentHistory,
    /// A selector of the binding is true for the message, as JMS has it.
    JmsTopic,
    /// All bindings, but messages that were seen lately are dropped.
    Deduplication,
    /// As another kind, but messages may be held back for a while.
    Delayed,
}

impl ExchangeKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::ConsistentHash,
        Self::ModulusHash,
        Self::Random,
        Self::LocalRandom,
        Self::RecentHistory,
        Self::JmsTopic,
        Self::Deduplication,
        Self::Delayed,
    ];

    /// The name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::ConsistentHash => "x-consistent-hash",
            Self::ModulusHash => "x-modulus-hash",
            Self::Random => "x-random",
            Self::LocalRandom => "x-local-random",
            Self::RecentHistory => "x-recent-history",
            Self::JmsTopic => "x-jms-topic",
            Self::Deduplication => "x-message-deduplication",
            Self::Delayed => "x-delayed-message",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The part of a message that an exchange hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HashOn {
    /// The routing key.
    #[default]
    RoutingKey,
    /// The header of that name.
    Header(Box<[u8]>),
    /// The property `message-id`.
    MessageId,
    /// The property `correlation-id`.
    CorrelationId,
    /// The property `timestamp`.
    Timestamp,
}

/// An exchange's rules, apart from choosing bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeRules {
    /// Clients may not publish to it; bindings and dead-lettering may.
    pub internal: bool,
    /// The exchange that gets what finds no binding here.
    pub alternate: Option<Name>,
    /// The part of a message it hashes, if it is of a kind that does.
    pub hash_on: HashOn,
    /// The host is asked about each message that comes by.
    pub watched: bool,
}
