//! A session's side of direct replies: the pseudo-queue `amq.rabbitmq.reply-to`.

use super::channels::ReplyConsumer;
use super::publish::prepared;
use super::route_cache::Uncacheable;
use super::{Handled, Session};
use amqp091::PropertiesRef;
use bytes::Bytes;
use message::MessageRef;
use session::{ChannelId, Consume, Control, Error, ErrorKind, Event, LinkId, Publish, ShortString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const QUEUE: &[u8] = b"amq.rabbitmq.reply-to";
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

fn refuse(text: &'static str) -> Error {
    Error::new(ErrorKind::PreconditionFailed, text)
}

impl Session {
    pub(super) fn consume_replies(
        &mut self,
        control: &Control,
        consume: &Consume,
    ) -> Result<Handled, Error> {
        let id = control.channel;
        if !consume.no_ack {
            return Err(refuse("reply consumer cannot acknowledge"));
        }
        if self.channels.get(id).is_some_and(|channel| channel.replies.is_some()) {
            return Err(refuse("reply consumer already set"));
        }
        let consumer_tag = self.consumer_tag(id, &consume.consumer_tag)?;
        let link = self.next_link();
        let token = self.broker.names.name("");
        self.tell(|sink| {
            sink.event(Event::Consuming {
                channel: id,
                link,
                consumer_tag: &consumer_tag,
                no_ack: true,
                answer: !control.nowait,
            });
        });
        let outbox = Arc::clone(&self.outbox);
        self.broker.replies.add(token.clone(), self.connection.id, link, outbox);
        if let Some(channel) = self.channels.get_mut(id) {
            channel.counters.n_consumers.fetch_add(1, Ordering::Relaxed);
            channel.replies = Some(ReplyConsumer { token, consumer_tag, link });
        }
        Ok(Handled::Answered)
    }

    pub(super) fn is_reply_tag(&self, channel: ChannelId, consumer_tag: &ShortString) -> bool {
        let replies = self.channels.get(channel).and_then(|channel| channel.replies.as_ref());
        replies.is_some_and(|replies| replies.consumer_tag == *consumer_tag)
    }

    /// Declaring the name of a reply queue tells whether its consumer is still there.
    pub(super) fn is_live_reply_queue(&self, queue: &[u8]) -> bool {
        is_reply_queue(queue)
            || token_of(queue).is_some_and(|token| self.broker.replies.knows(token))
    }

    /// Ends the channel's consumer of direct replies, if it has one. What its deliveries were tied to.
    pub(super) fn end_replies(&mut self, channel: ChannelId) -> Option<LinkId> {
        let channel = self.channels.get_mut(channel)?;
        let replies = channel.replies.take()?;
        channel.counters.n_consumers.fetch_sub(1, Ordering::Relaxed);
        self.broker.replies.remove(&replies.token);
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
        let current = PropertiesRef::trusted(changed.as_deref().unwrap_or(received));
        if current.reply_to() != Some(QUEUE) {
            return Ok(changed);
        }
        let replies = self.channels.get(channel).and_then(|channel| channel.replies.as_ref());
        let replies = replies.ok_or_else(|| refuse("fast reply consumer does not exist"))?;
        let mut properties =
            current.to_owned().map_err(|_| refuse("invalid message: bad properties"))?;
        let name = format!("amq.rabbitmq.reply-to.{}", replies.token);
        properties.reply_to = Some(ShortString::truncated(&name));
        Ok(Some(Bytes::from(properties.to_bytes())))
    }

    /// Delivers a direct reply. One that nobody waits for is dropped, or returned if it is
    /// mandatory.
    pub(super) fn reply(
        &mut self,
        index: usize,
        publish: &Publish,
        message: MessageRef<'_>,
        sequence: u64,
    ) -> Result<(), Error> {
        // Publishing to the default exchange must be allowed; the pseudo-queue stands for all.
        if let Err(Uncacheable::Refused(error)) = self.find_route(b"", QUEUE) {
            return Err(error);
        }
        let delivered = token_of(message.routing_key)
            .is_some_and(|token| self.broker.replies.deliver(token, message));
        if !delivered && publish.mandatory {
            self.return_unroutable(publish.channel, message);
        }
        self.batch.add_to(prepared(index, publish, sequence, false, None), &[]);
        Ok(())
    }
}
