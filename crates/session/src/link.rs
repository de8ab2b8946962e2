//! The words of clients whose links are requests of their own.

use crate::{Attachment, ChannelId, Error, LinkId, MethodTag, ShortString, TopicEvent};

/// The beginning of the names of queues of direct replies.
pub const REPLY_QUEUES: &str = "amq.rabbitmq.reply-to.";

/// The operation on a link that a client asks for.
#[derive(Debug)]
pub enum LinkOp {
    /// Attach a consumer to a queue; answered by [`Event::Attached`](crate::Event::Attached).
    AttachConsumer(Attachment),
    /// Attach a publisher to an exchange, or, without one, to those that its messages name; answered by
    /// [`LinkEvent::PublisherAttached`].
    AttachPublisher(Option<PublishTarget>),
    /// Attach a consumer to a queue that is made for it, and goes with it; answered by
    /// [`LinkEvent::NodeMade`], then as the former.
    AttachTemporary(Attachment),
    /// Attach a publisher to a queue that is made for it, and goes with it; answered by
    /// [`LinkEvent::NodeMade`], then by [`LinkEvent::PublisherAttached`].
    MakeTarget,
    /// Attach a consumer of direct replies, to a queue of its own that is never stored; answered by
    /// [`LinkEvent::RepliesAttached`].
    AttachReplies {
        /// The consumer's tag.
        consumer_tag: ShortString,
    },
    /// Refuse the channel what its client may not do any more: to publish to these targets, and to consume as
    /// it does; not answered.
    ReviewRights(Vec<PublishTarget>),
    /// Attach to a queue that is declared for it, unless it is there; answered as an attach of a consumer or
    /// a publisher to it.
    AttachDeclared(Box<DeclaredNode>),
    /// End a consumer and give back what it holds, or a publisher and what was made for it; not answered.
    Detach(LinkId),
}

/// The exchange and key of everything that is published on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishTarget {
    /// The exchange; empty for the default exchange, which has the queue of the routing key.
    pub exchange: ShortString,
    /// The routing key; none if it is that which each publish says.
    pub routing_key: Option<ShortString>,
}

/// A queue that is declared for a link: not exclusive, and it stays when the link goes.
#[derive(Clone, Debug)]
pub struct DeclaredNode {
    /// The queue's name; the broker gives it one if this is empty.
    pub queue: ShortString,
    /// Whether the queue outlives a restart.
    pub durable: bool,
    /// The exchange and key that the queue is bound to.
    pub binding: Option<PublishTarget>,
    /// The consumer to attach, whose queue it is; none for a publisher.
    pub consumer: Option<Attachment>,
}

impl PublishTarget {
    /// A queue, by the default exchange.
    #[must_use]
    pub fn queue(queue: ShortString) -> Self {
        Self { exchange: ShortString::default(), routing_key: Some(queue) }
    }
}

/// An event of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A publisher is attached.
    PublisherAttached {
        /// The client's request.
        origin: MethodTag,
        /// The broker's name for the link.
        link: LinkId,
    },
    /// A queue is made for a link, which is attached next.
    NodeMade {
        /// The client's request.
        origin: MethodTag,
        /// The name of the queue.
        queue: ShortString,
    },
    /// A consumer of direct replies is attached.
    RepliesAttached {
        /// The client's request.
        origin: MethodTag,
        /// The broker's name for the link.
        link: LinkId,
        /// The name of the queue that replies are to be published to.
        queue: ShortString,
    },
    /// A topic or a subscription is there, to which a link is attached next.
    Topic(TopicEvent),
    /// A consumer has settled what its queue does not take so: nothing but its link is to end.
    OutcomeRefused {
        /// The channel.
        channel: ChannelId,
        /// The consumer.
        link: LinkId,
        /// The reason.
        error: Error,
    },
    /// A publish is refused, and nothing but its link is to end: it has no other answer.
    PublishRefused {
        /// The channel.
        channel: ChannelId,
        /// The number of the publish on its channel.
        number: u64,
        /// The reason.
        error: Error,
    },
}
