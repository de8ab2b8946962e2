//! Messages as the broker takes them: the heads of those that a read published.

use crate::address::put_target_of_message;
use crate::fault::ProtocolFault;
use crate::incoming::{IncomingLink, Payload};
use amqp10::{Condition, ValueRef};
use bytes::Bytes;
use conversion::{ReceiveError, ReceivedBody, ReceivedSections, receive};
use message::BodyForm;
use session::{
    ChannelId, Content, HeadPlace, LinkId, OwnedContent, Publish, PublishTarget, ShortString, Span,
};

/// Memory for heads that a connection keeps from read to read.
const HEADS_BYTES_MAX: usize = 4 * 1024;

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
pub(crate) struct PublishedHeads {
    bytes: Vec<u8>,
    /// The link that published last to its own node, and where exchange and key of that are.
    last: Option<(LinkId, TargetSpans)>,
}

/// An exchange and a key in heads.
#[derive(Clone, Copy, Debug)]
struct TargetSpans {
    exchange: Span,
    routing_key: Span,
}

impl PublishedHeads {
    /// No heads.
    pub(crate) const NONE: Self = Self { bytes: Vec::new(), last: None };

    /// The bytes that the spans of publishes are of.
    pub(crate) const fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Forgets the heads of the read before.
    pub(crate) fn clear(&mut self) {
        self.last = None;
        self.bytes.clear();
        self.bytes.shrink_to(HEADS_BYTES_MAX);
    }

    /// The publish of a message that a client has sent on a link, whose last payload this is: to the link's
    /// node, or to the one that the message names.
    pub(crate) fn publish(
        &mut self,
        channel: ChannelId,
        content: Content,
        payload: Payload<'_>,
        incoming: &IncomingLink,
    ) -> Result<Publish, PublishFault> {
        let begin = self.bytes.len();
        let received = receive(payload.whole(&content), &mut self.bytes).map_err(refused)?;
        let ReceivedSections { body, persistent, inspect, to, subject } = received;
        let properties = span(begin, self.bytes.len());
        let TargetSpans { exchange, routing_key } = match (&incoming.target, self.last) {
            (Some(_), Some((link, spans))) if link == incoming.link => spans,
            (Some(PublishTarget { exchange, routing_key: Some(key) }), _) => {
                let spans = self.put_target(exchange, key.as_bytes());
                self.last = Some((incoming.link, spans));
                spans
            }
            (Some(PublishTarget { exchange, routing_key: None }), _) => {
                self.put_target(exchange, key_of(subject).map_err(PublishFault::Misrouted)?)
            }
            (None, _) => self.put_named(to).map_err(PublishFault::Misrouted)?,
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
    fn put_named(&mut self, to: Option<ValueRef<'_>>) -> Result<TargetSpans, ProtocolFault> {
        let begin = self.bytes.len();
        let exchange_end = begin + put_target_of_message(to, &mut self.bytes)?;
        let routing_key = span(exchange_end, self.bytes.len());
        Ok(TargetSpans { exchange: span(begin, exchange_end), routing_key })
    }

    fn put_target(&mut self, exchange: &ShortString, routing_key: &[u8]) -> TargetSpans {
        let exchange = self.put(exchange.as_bytes());
        TargetSpans { exchange, routing_key: self.put(routing_key) }
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        span(begin, self.bytes.len())
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

/// The routing key that a message's subject is.
fn key_of(subject: Option<&str>) -> Result<&[u8], ProtocolFault> {
    let key = subject.unwrap_or_default().as_bytes();
    let text = "the message's subject is too long for a routing key";
    let fits = key.len() <= ShortString::LEN_MAX;
    fits.then_some(key).ok_or_else(|| ProtocolFault::link(Condition::InvalidField, text))
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
