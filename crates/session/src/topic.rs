//! The words of clients that have topics, and subscriptions to them that may be resumed.

use crate::{Attachment, LinkId, MethodTag, ShortString};

/// The exchange of the messages of topics, by the topic's name as routing key.
pub const TOPIC_EXCHANGE: &str = "jms.topic";

/// The operation on topics that a client asks for.
#[derive(Debug)]
pub enum TopicOp {
    /// Make the exchange of topics, unless it is there or the client may not; not answered.
    MakeExchange,
    /// Attach a publisher to a topic; answered by
    /// [`LinkEvent::PublisherAttached`](crate::LinkEvent::PublisherAttached).
    Publish(Topic),
    /// Attach a publisher to a topic that is made for it, and goes with it, and with it the client's
    /// subscriptions; answered by [`TopicEvent::Made`], then as the former.
    Make,
    /// Attach a consumer to a topic, by a queue of the subscription; answered by [`TopicEvent::Subscribed`],
    /// then by [`Event::Attached`](crate::Event::Attached).
    Subscribe(Box<Subscribe>),
    /// Attach a consumer to a topic that is made for it, and goes with it; answered by [`TopicEvent::Made`],
    /// then as the former.
    SubscribeToOwn(Attachment),
    /// Attach a consumer that nobody else is beside to the queue of a subscription; answered as a
    /// subscription is.
    LookUp {
        /// The queue.
        queue: ShortString,
        /// The consumer.
        consumer: Attachment,
    },
    /// End a consumer, give back what it holds, and delete its subscription unless others consume; not
    /// answered.
    Unsubscribe {
        /// The consumer.
        link: LinkId,
        /// The queue of the subscription.
        queue: ShortString,
    },
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name.
    pub name: ShortString,
    /// Whether it must be one that was made for a link, which only the same client subscribes to.
    pub is_temporary: bool,
}

/// The life of a subscription, and whether it has several consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// Gone with its only consumer.
    Own,
    /// Gone with the last of its consumers.
    Shared,
    /// Kept without its only consumer.
    Durable,
    /// Kept without its consumers.
    SharedDurable,
}

impl SubscriptionKind {
    /// Whether it stays without consumers.
    #[must_use]
    pub const fn is_durable(self) -> bool {
        matches!(self, Self::Durable | Self::SharedDurable)
    }

    /// Whether it has several consumers.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::SharedDurable)
    }
}

/// The messages that a subscription is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topic's name.
    pub topic: ShortString,
    /// The subscription's life.
    pub kind: SubscriptionKind,
    /// The condition that messages fulfil, in JMS's SQL.
    pub selector: Option<String>,
    /// Whether messages of the subscriber's own container stay away.
    pub no_local: bool,
}

/// A subscription that a client asks for.
#[derive(Debug)]
pub struct Subscribe {
    /// The messages.
    pub subscription: Subscription,
    /// Whether the topic must be one that was made for a link of this client.
    pub is_temporary: bool,
    /// The name of the subscription's queue; none for one that goes with its only consumer.
    pub queue: Option<ShortString>,
    /// The consumer.
    pub consumer: Attachment,
}

/// An event of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicEvent {
    /// A topic is made for a link, which is attached next.
    Made {
        /// The client's request.
        origin: MethodTag,
        /// The topic's name.
        topic: ShortString,
    },
    /// A subscription is there, to which a consumer is attached next.
    Subscribed {
        /// The client's request.
        origin: MethodTag,
        /// The subscription as it is.
        subscription: Box<Subscription>,
        /// The name of its queue.
        queue: ShortString,
    },
}
