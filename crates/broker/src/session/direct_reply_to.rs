//! A session's side of direct replies: the pseudo-queue `amq.rabbitmq.reply-to`.

use super::client::Client;
use bytes::Bytes;
use session::{ChannelId, Error, ErrorKind, LinkId, ShortString};
use std::sync::atomic::Ordering;

pub(super) const QUEUE: &[u8] = b"amq.rabbitmq.reply-to";
const PREFIX: &[u8] = b"amq.rabbitmq.reply-to.";

/// Whether a queue name is the pseudo-queue.
pub(super) fn is_reply_queue(queue: &[u8]) -> bool {
    queue == QUEUE
}

/// Whether a message is a direct reply.
pub(super) fn is_reply(exchange: &[u8], routing_key: &[u8]) -> bool {
    exchange.is_empty() && routing_key.starts_with(PREFIX)
}

/// The token of a reply's routing key.
pub(super) fn token_of(routing_key: &[u8]) -> Option<&str> {
    std::str::from_utf8(routing_key.strip_prefix(PREFIX)?).ok()
}

pub(super) fn refuse(text: &'static str) -> Error {
    Error::new(ErrorKind::PreconditionFailed, text)
}

impl Client {
    pub(super) fn is_reply_tag(&self, channel: ChannelId, consumer_tag: &ShortString) -> bool {
        let replies = self.channels.get(channel).and_then(|channel| channel.replies.as_ref());
        replies.is_some_and(|replies| replies.consumer_tag == *consumer_tag)
    }

    /// Declaring the name of a reply queue tells whether its consumer is still there.
    pub(super) fn is_live_reply_queue(&self, queue: &[u8]) -> bool {
        is_reply_queue(queue)
            || token_of(queue).is_some_and(|token| self.access.broker.replies.knows(token))
    }

    /// Ends the channel's consumer of direct replies, if it has one. What its deliveries were tied to.
    pub(super) fn end_replies(&mut self, channel: ChannelId) -> Option<LinkId> {
        let channel = self.channels.get_mut(channel)?;
        let replies = channel.replies.take()?;
        channel.counters.n_consumers.fetch_sub(1, Ordering::Relaxed);
        self.access.broker.replies.remove(&replies.token);
        Some(replies.link)
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
        let replies = self.channels.get(channel).and_then(|channel| channel.replies.as_ref());
        let replies = replies.ok_or_else(|| refuse("fast reply consumer does not exist"))?;
        let mut properties =
            current.to_properties().ok_or_else(|| refuse("invalid message: bad properties"))?;
        let name = format!("amq.rabbitmq.reply-to.{}", replies.token);
        properties.reply_to = Some(ShortString::truncated(&name));
        Ok(Some(Bytes::from(properties.to_bytes())))
    }
}
