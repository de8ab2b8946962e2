//! Messages as the broker takes and gives them: the heads of those that a read published, and the sections of
//! the one that is being delivered.

use crate::fault::ProtocolFault;
use crate::incoming::Payload;
use amqp10::Condition;
use bytes::Bytes;
use conversion::{
    DeliveryAttempt, ReceiveError, ReceivedBody, ReceivedSections, receive, to_amqp10,
};
use message::BodyForm;
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

    /// The publish of a message that a client has sent to this node, whose last payload this is.
    pub(crate) fn publish(
        &mut self,
        channel: ChannelId,
        content: Content,
        payload: Payload<'_>,
        target: &PublishTarget,
    ) -> Result<Publish, ProtocolFault> {
        let exchange = self.put(target.exchange.as_bytes());
        let routing_key = self.put(target.routing_key.as_bytes());
        let begin = self.0.len();
        let received = receive(payload.whole(&content), &mut self.0).map_err(refused)?;
        let ReceivedSections { body, persistent, inspect, to: _ } = received;
        Ok(Publish {
            channel,
            head: HeadPlace::Scratch,
            form: BodyForm::Amqp10,
            exchange,
            routing_key,
            properties: span(begin, self.0.len()),
            content: content_of(content, body),
            mandatory: false,
            immediate: false,
            persistent,
            inspect,
        })
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let begin = self.0.len();
        self.0.extend_from_slice(bytes);
        span(begin, self.0.len())
    }
}

/// The fault of a link on which such a message comes.
fn refused(error: ReceiveError) -> ProtocolFault {
    let condition = match error {
        ReceiveError::Malformed(_) | ReceiveError::NoBody | ReceiveError::ReservedAnnotation => {
            Condition::DecodeError
        }
        ReceiveError::Copies => Condition::InvalidField,
    };
    ProtocolFault::link(condition, error.to_string())
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
