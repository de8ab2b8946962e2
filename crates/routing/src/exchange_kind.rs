//! The types of exchanges, and the settings of one that routing knows.

use std::sync::Arc;

use crate::name::Name;

stdx::named! {
    /// The exchange types: the ways to choose among bindings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ExchangeKind {
        /// Routes to the bindings whose key equals the routing key.
        Direct = "direct",
        /// Routes to all bindings.
        Fanout = "fanout",
        /// Routes to the bindings whose key is a pattern that the words of the routing key match.
        Topic = "topic",
        /// Routes to the bindings whose arguments match the headers of the message.
        Headers = "headers",
        /// Routes to one destination by a hash of the message: the binding key is the destination's share,
        /// and few messages go elsewhere when destinations come or go.
        ConsistentHash = "x-consistent-hash",
        /// Routes to one destination by the remainder of a hash of the routing key.
        ModulusHash = "x-modulus-hash",
        /// Routes to one destination by chance.
        Random = "x-random",
        /// Routes to one queue of this node by chance.
        LocalRandom = "x-local-random",
        /// Routes to all bindings; a new binding's destination gets the last messages.
        RecentHistory = "x-recent-history",
        /// Routes to the bindings whose JMS selector is true for the message, and whose key is the routing
        /// key where it counts.
        JmsTopic = "x-jms-topic",
        /// Routes to all bindings, but drops messages that were seen lately.
        Deduplication = "x-message-deduplication",
        /// Routes as another kind, but may delay messages.
        Delayed = "x-delayed-message",
        /// Routes to all bindings, except messages that the downstream has had: declared by a federated
        /// exchange of another broker.
        FederationUpstream = "x-federation-upstream",
    }
}

/// The part of a message that an exchange hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HashOn {
    /// The routing key.
    #[default]
    RoutingKey,
    /// The header of this name.
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
    /// The part of a message that the exchange hashes, if it is of a kind that does.
    pub hash_on: HashOn,
    /// The broker that takes the exchange's messages, if the exchange is of the kind that federates.
    pub downstream: Option<Arc<Downstream>>,
    /// Whether the host is asked about each message that comes by.
    pub watched: bool,
}

/// The broker that takes an exchange's messages, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downstream {
    /// Limit of hops: messages that brokers have sent on so often go no further.
    pub hops_max: i64,
    /// The name of the downstream's cluster; older releases do not say it.
    pub cluster: Option<Box<str>>,
    /// The downstream's virtual host; older releases do not say it.
    pub vhost: Option<Box<str>>,
}
