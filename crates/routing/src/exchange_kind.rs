//! The types of exchanges, and the settings of one that routing knows.

use std::sync::Arc;

use crate::name::Name;

stdx::named! {
    /// The exchange types: the ways to choose among bindings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ExchangeKind {
        /// The binding key equals the routing key.
        Direct = "direct",
        /// All bindings.
        Fanout = "fanout",
        /// The binding key is a pattern over the words of the routing key.
        Topic = "topic",
        /// The arguments of the binding match the headers of the message.
        Headers = "headers",
        /// One destination by a hash of the message: the binding key is its share, and few messages go
        /// elsewhere when destinations come or go.
        ConsistentHash = "x-consistent-hash",
        /// One destination by the remainder of a hash of the routing key.
        ModulusHash = "x-modulus-hash",
        /// One destination by chance.
        Random = "x-random",
        /// One queue of this node by chance.
        LocalRandom = "x-local-random",
        /// All bindings; whoever is bound newly gets the last messages.
        RecentHistory = "x-recent-history",
        /// A selector of the binding is true for the message, as JMS has it.
        JmsTopic = "x-jms-topic",
        /// All bindings, but messages that were seen lately are dropped.
        Deduplication = "x-message-deduplication",
        /// As another kind, but messages may be held back for a while.
        Delayed = "x-delayed-message",
        /// All bindings, but for messages that its downstream has had: what a federated exchange of another
        /// broker declares.
        FederationUpstream = "x-federation-upstream",
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
    /// Who takes its messages, if it is of the kind that federates.
    pub downstream: Option<Arc<Downstream>>,
    /// The host is asked about each message that comes by.
    pub watched: bool,
}

/// The broker that takes an exchange's messages, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downstream {
    /// Messages that have been sent on so often go no further.
    pub hops_max: i64,
    /// The name of its cluster; older releases do not say it.
    pub cluster: Option<Box<str>>,
    /// Its virtual host; older releases do not say it.
    pub vhost: Option<Box<str>>,
}
