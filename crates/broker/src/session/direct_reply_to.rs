//! A session's side of direct replies: the pseudo-queue `amq.rabbitmq.reply-to`.

use super::access::Access;
use super::channels::{Channel, ReplyConsumer};
use super::client::Client;
use crate::direct_reply_to::ReplyTarget;
use bytes::Bytes;
use control::other_homes;
use log::NodeNumber;
use message::MessageRef;
use queue::{CreditMode, DeliveryRoom};
use session::{ChannelId, Error, ErrorKind, LinkId, REPLY_QUEUES, ShortString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const QUEUE: &[u8] = b"amq.rabbitmq.reply-to";

/// Whether a queue name is the pseudo-queue.
pub(super) fn is_reply_queue(queue: &[u8]) -> bool {
    queue == QUEUE
}

/// Whether a message is a direct reply.
pub(super) fn is_reply(exchange: &[u8], routing_key: &[u8]) -> bool {
    exchange.is_empty() && routing_key.starts_with(REPLY_QUEUES.as_bytes())
}

/// The token of a reply's routing key.
pub(super) fn token_of(routing_key: &[u8]) -> Option<&str> {
    std::str::from_utf8(routing_key.strip_prefix(REPLY_QUEUES.as_bytes())?).ok()
}

/// The name of the queue of a token.
pub(super) fn queue_of(token: &str) -> ShortString {
    ShortString::truncated(&format!("{REPLY_QUEUES}{token}"))
}

pub(super) fn refuse(text: &'static str) -> Error {
    Error::new(ErrorKind::PreconditionFailed, text)
}

impl Access {
    /// The other node on which the consumer of a token is; none if it is on this one, or nowhere.
    fn node_of_token(&self, token: &str) -> Option<NodeNumber> {
        let node: u16 = token.split_once('-')?.0.parse().ok()?;
        let is_other = node != self.broker.start.identity.number.0;
        (is_other && self.view.meta.nodes().get(node).is_some()).then_some(NodeNumber(node))
    }

    /// Gives a direct reply to the consumer of a token, wherever it is; false if nobody waits for it. One for
    /// another node is sent there, and dropped there if nobody does.
    pub(super) fn deliver_reply(&self, token: &str, message: MessageRef<'_>) -> bool {
        match self.node_of_token(token) {
            Some(node) => other_homes(&self.broker.control_plane).reply(node, token, &message),
            None => self.broker.replies.deliver(token, message),
        }
    }
}

impl Client {
    pub(super) fn is_reply_tag(&self, channel: ChannelId, consumer_tag: &ShortString) -> bool {
        let replies = self.channels.get(channel).map(|channel| &*channel.replies);
        replies.unwrap_or_default().iter().any(|it| it.consumer_tag == *consumer_tag)
    }

    /// The token of a link on which direct replies are consumed.
    pub(super) fn reply_token(&self, link: LinkId) -> Option<&str> {
        let mut replies = self.channels.open_ones().flat_map(|channel| &channel.replies);
        replies.find(|it| it.link == link).map(|it| &*it.token)
    }

    /// Declaring the name of a reply queue tells whether its consumer is still there.
    pub(super) fn is_live_reply_queue(&self, queue: &[u8]) -> bool {
        is_reply_queue(queue)
            || token_of(queue).is_some_and(|token| match self.access.node_of_token(token) {
                Some(node) => other_homes(&self.access.broker.control_plane).is_up(node),
                None => self.access.broker.replies.knows(token),
            })
    }

    /// Adds a consumer of direct replies; returns the name of its queue.
    pub(super) fn add_replies(
        &mut self,
        id: ChannelId,
        link: LinkId,
        consumer_tag: ShortString,
        credit_mode: CreditMode,
    ) -> ShortString {
        let (names, identity) = (&self.access.broker.names, &self.access.broker.start.identity);
        // COMPAT: some clients take addresses apart: there is one dot.
        let token = format!("{}-{}.{}", identity.number.0, names.name(""), names.name(""));
        let (tally, outbox) = (self.tally(id, None), Arc::clone(&self.turn.outbox));
        let room = DeliveryRoom::new(credit_mode);
        let target = ReplyTarget { link, outbox, tally, room, full: false };
        self.access.broker.replies.add(token.clone(), target);
        let queue = queue_of(&token);
        if let Some(channel) = self.channels.get_mut(id) {
            channel.counters.n_consumers.fetch_add(1, Ordering::Relaxed);
            channel.replies.push(ReplyConsumer { token, consumer_tag, link });
        }
        queue
    }

    /// Ends those of the channel's consumers of direct replies that are meant; returns a link of theirs.
    pub(super) fn end_replies(
        &mut self,
        channel: ChannelId,
        are_meant: impl Fn(&ReplyConsumer) -> bool,
    ) -> Option<LinkId> {
        let Channel { replies, counters, .. } = self.channels.get_mut(channel)?;
        let mut ended = None;
        replies.retain(|it| {
            let stays = !are_meant(it);
            if !stays {
                counters.n_consumers.fetch_sub(1, Ordering::Relaxed);
                self.access.broker.replies.remove(&it.token);
                ended = Some(it.link);
            }
            stays
        });
        ended
    }

    /// A request that asks for direct replies names the pseudo-queue; what is stored names the
    /// channel's token. `changed` are properties the broker has changed already.
    pub(super) fn name_reply_queue(
        &self,
        channel: ChannelId,
        received: &[u8],
        changed: Option<Bytes>,
    ) -> Result<Option<Bytes>, Error> {
        let current = message::View::of(changed.as_deref().unwrap_or(received));
        if current.reply_to() != Some(QUEUE) {
            return Ok(changed);
        }
        let replies = self.channels.get(channel).and_then(|channel| channel.replies.first());
        let replies = replies.ok_or_else(|| refuse("fast reply consumer does not exist"))?;
        let mut properties =
            current.to_properties().ok_or_else(|| refuse("invalid message: bad properties"))?;
        let name = queue_of(&replies.token);
        properties.reply_to = Some(name);
        Ok(Some(Bytes::from(properties.to_bytes())))
    }
}
