//! Messages as the broker takes and gives them: the heads of those that a read published, and the sections of
//! the one that is being delivered.

use crate::address::put_target_of_message;
use crate::fault::ProtocolFault;
use crate::incoming::Payload;
use amqp10::{Condition, ValueRef};
use bytes::Bytes;
use conversion::{
    DeliveryAttempt, ReceiveError, ReceivedBody, ReceivedSections, receive, to_amqp10,
};
use message::{BodyForm, MessageRef};
use session::{
    ChannelId, Content, Delivery, HeadPlace, OwnedContent, Publish, PublishTarget, Span,
};

/// An idle connection keeps no more memory than this for the message that was delivered last.
const IDLE_BYTES_MAX: usize = 512;
/// Memory for heads that a connection keeps from read to read.
const HEADS_BYTES_MAX: usize = 4 * 1024;

/// The memory of a message that is being delivered.
#[derive(Debug, Default)]
pub(crate) struct MessageScratch(Vec<u8>);

impl MessageScratch {
    /// The sections of a message to be delivered.
    pub(crate) fn encode(&mut self, delivery: &Delivery<'_>) -> &[u8] {
        self.0.clear();
        let attempt = match delivery.redelivered {
            true => attempt_of(delivery.message),
            false => DeliveryAttempt::FIRST,
        };
        to_amqp10(delivery.message, attempt, &mut self.0);
        &self.0
    }

    /// Gives back memory that is not in use.
    pub(crate) fn trim(&mut self) {
        if self.0.capacity() > IDLE_BYTES_MAX {
            *self = Self::default();
        }
    }
}

/// The fault of a message that is not published.
#[derive(Debug)]
pub(crate) enum PublishFault {
    /// The bytes are no message.
    Malformed(ProtocolFault),
    /// The message does not say where it goes to.
    Misrouted(ProtocolFault),
}

/// Indexes, exchanges and keys of the messages that a read published, one after the other.
#[derive(Debug, Default)]
pub(crate) struct PublishedHeads(Vec<u8>);

impl PublishedHeads {
    /// No heads.
    pub(crate) const NONE: Self = Self(Vec::new());

    /// The bytes that the spans of publishes are of.
    pub(crate) const fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Forgets the heads of the read before.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(HEADS_BYTES_MAX);
    }

    /// The publish of a message that a client has sent to this node, whose last payload this is; without a
    /// node, to the one that the message names.
    pub(crate) fn publish(
        &mut self,
        channel: ChannelId,
        content: Content,
        payload: Payload<'_>,
        target: Option<&PublishTarget>,
    ) -> Result<Publish, PublishFault> {
        let begin = self.0.len();
        let received = receive(payload.whole(&content), &mut self.0).map_err(refused)?;
        let ReceivedSections { body, persistent, inspect, to } = received;
        let properties = span(begin, self.0.len());
        let (exchange, routing_key) = match target {
            Some(target) => {
                (self.put(target.exchange.as_bytes()), self.put(target.routing_key.as_bytes()))
            }
            None => self.put_named(to).map_err(PublishFault::Misrouted)?,
        };
        Ok(Publish {
            channel,
            head: HeadPlace::Scratch,
            form: BodyForm::Amqp10,
            exchange,
            routing_key,
            properties,
            content: content_of(content, body),
            mandatory: false,
            immediate: false,
            persistent,
            inspect,
        })
    }

    /// Puts in the exchange and the key that a message names.
    fn put_named(&mut self, to: Option<ValueRef<'_>>) -> Result<(Span, Span), ProtocolFault> {
        let begin = self.0.len();
        let exchange_end = begin + put_target_of_message(to, &mut self.0)?;
        Ok((span(begin, exchange_end), span(exchange_end, self.0.len())))
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let begin = self.0.len();
        self.0.extend_from_slice(bytes);
        span(begin, self.0.len())
    }
}

fn refused(error: ReceiveError) -> PublishFault {
    let text = error.to_string();
    match error {
        ReceiveError::Malformed(_) | ReceiveError::NoBody | ReceiveError::ReservedAnnotation => {
            PublishFault::Malformed(ProtocolFault::link(Condition::DecodeError, text))
        }
        ReceiveError::Copies => {
            PublishFault::Misrouted(ProtocolFault::link(Condition::InvalidField, text))
        }
    }
}

/// The content of a publish: what was received, without what lies before the body that is kept.
fn content_of(received: Content, body: ReceivedBody) -> Content {
    let owned = |body| Content::Owned(Box::new(OwnedContent { head: Bytes::new(), body }));
    match (received, body) {
        (_, ReceivedBody::Rewritten(body)) => owned(body.into()),
        (Content::Inline(Span { start, len }), ReceivedBody::From(skipped)) => {
            let skipped = narrow(skipped);
            Content::Inline(Span { start: start + skipped, len: len - skipped })
        }
        (Content::Owned(received), ReceivedBody::From(skipped)) => {
            owned(received.body.slice(skipped..))
        }
    }
}

/// A part of heads, which are less than their read.
fn span(begin: usize, end: usize) -> Span {
    Span { start: narrow(begin), len: narrow(end - begin) }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The deliveries before this one of a message that comes again. COMPAT: as many have failed as its queue
/// says by the header `x-delivery-count`.
fn attempt_of(message: &MessageRef<'_>) -> DeliveryAttempt {
    let headers = message.index().headers();
    let n_failed = headers.and_then(|headers| headers.get(b"x-delivery-count")?.as_i64());
    let delivery_count = n_failed.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    DeliveryAttempt { first_acquirer: false, delivery_count }
}
