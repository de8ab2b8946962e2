//! Messages as the broker takes and gives them: the heads of those that a read published, and the sections of
//! the one that is being delivered.

use crate::requests::ReceivedMessage;
use bytes::Bytes;
use conversion::{DeliveryAttempt, ReceivedBody, receive, to_amqp10};
use message::BodyForm;
use session::{ChannelId, Content, Delivery, HeadPlace, OwnedContent, Publish, ShortString, Span};

/// An idle connection keeps no more memory than this for the message that was delivered last.
const IDLE_BYTES_MAX: usize = 512;
/// Memory for heads that a connection keeps from read to read.
const HEADS_BYTES_MAX: usize = 4 * 1024;

/// The exchange and key of everything that is published on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetNode {
    /// Exchange; empty for the default exchange.
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
}

/// The memory of a message that is being delivered.
#[derive(Debug, Default)]
pub(crate) struct MessageScratch(Vec<u8>);

impl MessageScratch {
    /// The sections of a message to be delivered.
    pub(crate) fn encode(&mut self, delivery: &Delivery<'_>) -> &[u8] {
        self.0.clear();
        let first_acquirer = !delivery.redelivered;
        to_amqp10(
            delivery.message,
            DeliveryAttempt { first_acquirer, ..DeliveryAttempt::FIRST },
            &mut self.0,
        );
        &self.0
    }

    /// Gives back memory that is not in use.
    pub(crate) fn trim(&mut self) {
        if self.0.capacity() > IDLE_BYTES_MAX {
            *self = Self::default();
        }
    }
}

/// Exchanges, keys and indexes of the messages that a read published, one after the other.
#[derive(Debug, Default)]
pub(crate) struct PublishedHeads(Vec<u8>);

impl PublishedHeads {
    /// The bytes that the spans of publishes are of.
    pub(crate) const fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Forgets the heads of the read before.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(HEADS_BYTES_MAX);
    }

    /// The publish of a message that a client has sent to this node. Sections that cannot be read, which the
    /// connection refuses before, are a body without properties.
    pub(crate) fn publish(
        &mut self,
        channel: ChannelId,
        received: ReceivedMessage,
        input: &[u8],
        target: &TargetNode,
    ) -> Publish {
        let exchange = self.put(target.exchange.as_bytes());
        let routing_key = self.put(target.routing_key.as_bytes());
        let begin = self.0.len();
        let taken = receive(body_of(&received.content, input), &mut self.0);
        let (body, persistent, inspect) = match taken {
            Ok(taken) => (taken.body, taken.persistent, taken.inspect),
            Err(_) => {
                self.0.truncate(begin);
                (ReceivedBody::From(0), false, false)
            }
        };
        Publish {
            channel,
            head: HeadPlace::Scratch,
            form: BodyForm::Amqp10,
            exchange,
            routing_key,
            properties: span(begin, self.0.len()),
            content: content_of(received.content, body),
            mandatory: false,
            immediate: false,
            persistent,
            inspect,
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let begin = self.0.len();
        self.0.extend_from_slice(bytes);
        span(begin, self.0.len())
    }
}

fn body_of<'a>(content: &'a Content, input: &'a [u8]) -> &'a [u8] {
    match content {
        Content::Inline(span) => span.of(input),
        Content::Owned(owned) => &owned.body,
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
