//! Events of the broker, as the connection's state takes them.

use super::LockedServer;
use super::consumers::{ConsumerLink, LinkNode, MadeNode};
use super::responses::is_of_management;
use crate::address::{TEMPORARY_QUEUE, VOLATILE_QUEUE, queue_address};
use crate::connection::{ServerConnection, transaction_ended};
use crate::fault::{FaultScope, ProtocolFault};
use crate::life::ConnectionPhase;
use crate::management::ManagementAnswer;
use crate::requests::{AttachedLink, LinkHandle, LinkRequest};
use crate::session_endpoint::note_subscription;
use crate::subscriptions::source_of;
use crate::topics::TEMPORARY_TOPIC;
use crate::transactions::{discharged_by, session_of};
use amqp10::{
    Condition, LinkTarget, MapRef, SourceTerminus, Symbol, Symbols, TargetTerminus, ValueRef,
};
use session::{
    ChannelId, Error, ErrorKind, Event, LinkEvent, LinkId, MethodTag, ShortString, Subscription,
    TopicEvent,
};

/// The broker's number of a session: 0 is none there.
pub(crate) const fn broker_channel(session: ChannelId) -> ChannelId {
    ChannelId(session.0.saturating_add(1))
}

/// The session of a broker's number.
pub(super) const fn session_channel(channel: ChannelId) -> ChannelId {
    ChannelId(channel.0.saturating_sub(1))
}

/// The name of an attach.
pub(crate) const fn attach_origin(key: LinkHandle) -> MethodTag {
    MethodTag((key.channel.0 as u64) << 32 | key.handle as u64)
}

/// The link that an attach was for.
#[expect(clippy::cast_possible_truncation, reason = "the parts of a tag of this front's own")]
const fn attached_key(origin: MethodTag) -> LinkHandle {
    LinkHandle { channel: ChannelId((origin.0 >> 32) as u16), handle: origin.0 as u32 }
}

impl LockedServer {
    #[expect(clippy::wildcard_enum_match_arm, reason = "clients cannot ask for the others")]
    pub(super) fn take_event(&mut self, event: Event<'_>) {
        match event {
            Event::ChannelClosed(channel) => self.forget_channel(channel),
            Event::ChannelFailed { channel, error, .. } => {
                self.forget_channel(channel);
                self.channel_failed(session_channel(channel), error);
            }
            Event::ConnectionClosed => self.server.closed(),
            Event::ConnectionFailed { error, .. } => {
                self.consumers.clear();
                let key = LinkHandle { channel: ChannelId(0), handle: 0 };
                self.server.broker_ends(key, &end_of_connection(error));
            }
            Event::Blocked { .. } => self.server.hold(true),
            Event::Unblocked => self.server.hold(false),
            Event::Attached { channel, link, consumer_tag, filters, .. } => {
                self.consumer_attached(channel, link, consumer_tag, filters);
            }
            Event::ConsumerCancelled { channel, link, .. } => {
                let fault = ProtocolFault::link(Condition::ResourceDeleted, "");
                self.consumer_gone(channel, link, &fault);
            }
            Event::Link(LinkEvent::OutcomeRefused { channel, link, error }) => {
                self.consumer_gone(channel, link, &ProtocolFault::of_refusal(error));
            }
            Event::Link(LinkEvent::PublisherAttached { origin, link }) => {
                self.publisher_attached(attached_key(origin), link);
            }
            Event::Link(LinkEvent::RepliesAttached { origin, link, queue }) => {
                self.replies_attached(attached_key(origin), link, &queue);
            }
            Event::Link(LinkEvent::NodeMade { origin, queue }) => {
                let (key, node) = (attached_key(origin), LinkNode::Queue(queue));
                self.consumers.node_made(MadeNode { key, node });
            }
            Event::Link(LinkEvent::Topic(event)) => self.consumers.node_made(made_node(event)),
            Event::Link(LinkEvent::PublishRefused { channel, number, error }) => {
                let Self { server, follow_up, .. } = self;
                server.refuse_publish(session_channel(channel), number, error, follow_up);
            }
            Event::Refused { origin, error }
                if let Some((session, number)) = discharged_by(origin) =>
            {
                let Self { server, follow_up, .. } = self;
                transaction_ended(server, session, number, Err(error), follow_up);
            }
            Event::Done { origin, .. } if let Some((session, number)) = discharged_by(origin) => {
                let Self { server, follow_up, .. } = self;
                transaction_ended(server, session, number, Ok(()), follow_up);
            }
            Event::Refused { origin, error } if is_of_management(origin) => {
                self.respond_to_refusal(origin, error);
            }
            Event::Refused { origin, error } => self.attach_refused(attached_key(origin), error),
            Event::Done { origin, .. } => self.respond_to(origin, &ManagementAnswer::Done),
            Event::QueuePurged { origin, n_messages, .. }
            | Event::QueueDeleted { origin, n_messages, .. } => {
                self.respond_to(origin, &ManagementAnswer::Removed { n_messages });
            }
            Event::Management(event) => self.take_management_event(&event),
            // Publishes are never mandatory; the rest answers what this front asks for on its own, or what
            // clients of this protocol cannot ask for.
            _ => {}
        }
    }

    /// An attach is refused. COMPAT: a permission that is missing ends the session.
    fn attach_refused(&mut self, key: LinkHandle, error: Error) {
        drop(self.consumers.take_node(key));
        let is_forbidden = error.kind == ErrorKind::AccessRefused;
        let scope = if is_forbidden { FaultScope::Session } else { FaultScope::Link };
        let refused = Err(ProtocolFault { scope, ..ProtocolFault::of_refusal(error) });
        self.server.attached(key, refused, &mut self.follow_up);
    }

    /// A channel is closed for a fault, and its session with it; that of a session's transactions is not the
    /// only one that the session has.
    fn channel_failed(&mut self, channel: ChannelId, error: Error) {
        let fault = ProtocolFault::of_refusal(error);
        let fault = ProtocolFault { scope: FaultScope::Session, ..fault };
        let Self { server, follow_up, .. } = self;
        match session_of(channel, server.life.channel_max()) {
            Some(session) => {
                let ServerConnection { life, sessions, .. } = server;
                if life.phase == ConnectionPhase::Running {
                    sessions.fail(life, session.0, &fault, follow_up);
                }
            }
            None => server.broker_ends(LinkHandle { channel, handle: 0 }, &fault),
        }
    }

    fn replies_attached(&mut self, key: LinkHandle, link: LinkId, queue: &ShortString) {
        self.consumers.add(link, ConsumerLink::new(key));
        self.node_attached(key, link, &queue_address(queue.as_bytes()), VOLATILE_QUEUE);
    }

    fn publisher_attached(&mut self, key: LinkHandle, link: LinkId) {
        let (address, capability) = match self.consumers.take_node(key) {
            Some(LinkNode::Queue(queue)) => (queue_address(queue.as_bytes()), TEMPORARY_QUEUE),
            Some(LinkNode::Topic(topic)) => (topic.to_text().into_owned(), TEMPORARY_TOPIC),
            Some(LinkNode::Subscription(..)) | None => return self.attached(key, link, None),
        };
        let target = LinkTarget::Terminus(TargetTerminus {
            address: Some(ValueRef::Str(&address)),
            expiry_policy: Symbol("link-detach"),
            dynamic: true,
            capabilities: Symbols::One(capability),
            ..TargetTerminus::default()
        });
        let attached = AttachedLink { link, source: None, target: Some(target), filters: None };
        self.server.attached(key, Ok(attached), &mut self.follow_up);
    }

    /// A link is attached to a node of its own.
    fn node_attached(&mut self, key: LinkHandle, link: LinkId, address: &str, of: &str) {
        let source = SourceTerminus {
            address: Some(ValueRef::Str(address)),
            expiry_policy: Symbol("link-detach"),
            dynamic: true,
            capabilities: Symbols::One(of),
            ..SourceTerminus::default()
        };
        let attached = AttachedLink { link, source: Some(source), target: None, filters: None };
        self.server.attached(key, Ok(attached), &mut self.follow_up);
    }

    fn attached(&mut self, key: LinkHandle, link: LinkId, filters: Option<&[u8]>) {
        let filters = filters.map(MapRef::decode);
        let attached = AttachedLink { link, source: None, target: None, filters };
        self.server.attached(key, Ok(attached), &mut self.follow_up);
    }

    /// A consumer is attached, whose tag is its handle.
    fn consumer_attached(
        &mut self,
        channel: ChannelId,
        link: LinkId,
        tag: &ShortString,
        filters: Option<&[u8]>,
    ) {
        let handle = tag.as_str().and_then(|tag| tag.parse().ok());
        let Some(handle) = handle else { return };
        let key = LinkHandle { channel: session_channel(channel), handle };
        let mut consumer = ConsumerLink::new(key);
        let node = self.consumers.take_node(key);
        if let Some(LinkNode::Subscription(subscription, queue)) = &node {
            consumer.subscription = Some(queue.clone()).filter(|_| subscription.kind.is_durable());
        }
        self.consumers.add(link, consumer);
        match node {
            Some(LinkNode::Queue(queue)) => {
                self.node_attached(key, link, &queue_address(queue.as_bytes()), TEMPORARY_QUEUE);
            }
            Some(LinkNode::Topic(topic)) => {
                self.node_attached(key, link, &topic.to_text(), TEMPORARY_TOPIC);
            }
            Some(LinkNode::Subscription(subscription, queue)) => {
                self.subscribed(key, link, &subscription);
                let ServerConnection { life, sessions, .. } = &mut self.server;
                sessions.with(life, key.channel.0, &mut Vec::new(), |session, _| {
                    note_subscription(session, key.handle, &queue);
                });
            }
            None => self.attached(key, link, filters),
        }
    }

    /// A consumer of a subscription is attached.
    fn subscribed(&mut self, key: LinkHandle, link: LinkId, subscription: &Subscription) {
        let mut filters = Vec::new();
        let source = Some(source_of(subscription, &mut filters));
        let attached = AttachedLink { link, source, target: None, filters: None };
        self.server.attached(key, Ok(attached), &mut self.follow_up);
    }

    /// The broker has ended a consumer; what it holds is given back by the next read.
    fn consumer_gone(&mut self, channel: ChannelId, link: LinkId, fault: &ProtocolFault) {
        let Some(consumer) = self.consumers.remove(link) else { return };
        self.server.broker_ends(consumer.key, fault);
        let channel = session_channel(channel);
        self.follow_up.push(LinkRequest::Detach { channel, link, is_closed: false });
    }
}

/// The topic or the subscription of a link that is attached next.
fn made_node(event: TopicEvent) -> MadeNode {
    let (origin, node) = match event {
        TopicEvent::Made { origin, topic } => (origin, LinkNode::Topic(topic)),
        TopicEvent::Subscribed { origin, subscription, queue } => {
            (origin, LinkNode::Subscription(subscription, queue))
        }
    };
    MadeNode { key: attached_key(origin), node }
}

/// The end of a connection that the broker wants. COMPAT: RabbitMQ's words for what operators do.
fn end_of_connection(error: Error) -> ProtocolFault {
    let is_forced = error.kind == ErrorKind::ConnectionForced;
    let fault = ProtocolFault::of_refusal(error);
    let text = match is_forced {
        true => format!("Connection forced: {}", fault.text).into(),
        false => fault.text,
    };
    ProtocolFault { scope: FaultScope::Connection, text, ..fault }
}
