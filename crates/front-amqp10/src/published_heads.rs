//! Messages as the broker takes them: the heads of those that a read published.

use crate::address::put_target_of_message;
use crate::fault::ProtocolFault;
use crate::incoming::{IncomingLink, Payload};
use crate::topics::topic_of_message;
use amqp10::{Condition, ValueRef, head_bytes, sole_data};
use bytes::Bytes;
use conversion::{ReceiveError, ReceivedBody, ReceivedSections, receive};
use message::BodyForm;
use session::{
    ChannelId, Content, HeadPlace, LinkId, OwnedContent, Publish, PublishTarget, ShortString, Span,
    TOPIC_EXCHANGE,
};

/// Memory for heads that a connection keeps from read to read.
const HEADS_BYTES_MAX: usize = 4 * 1024;

/// The heads that are remembered of a read, one after the other: those behind them are read each by itself.
const KNOWN_HEADS_MAX: u32 = 8;
/// The bytes of a head that is remembered.
const KNOWN_HEAD_BYTES_MAX: usize = 256;

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
    known: Option<KnownHead>,
    /// The heads that were remembered.
    n_known: u32,
}

/// The publish of a message.
#[derive(Debug)]
pub(crate) struct MessagePublish {
    pub(crate) publish: Publish,
    /// Whether the message itself names a topic, which may have no subscribers.
    pub(crate) names_topic: bool,
}

/// The head of a message, which others of its link share as a rule.
#[derive(Clone, Copy, Debug)]
struct KnownHead {
    link: LinkId,
    /// The sections in front of the body.
    sections: Span,
    /// The bytes of the sections that are not kept.
    skipped: usize,
    read: ReadHead,
}

/// A message but for its body, as its head says.
#[derive(Clone, Copy, Debug)]
struct ReadHead {
    target: TargetSpans,
    properties: Span,
    persistent: bool,
    inspect: bool,
}

impl ReadHead {
    #[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
    #[inline(always)]
    fn publish(self, channel: ChannelId, content: Content) -> MessagePublish {
        let Self { target: TargetSpans { exchange, routing_key, names_topic }, properties, .. } =
            self;
        let publish = Publish {
            channel,
            head: HeadPlace::Scratch,
            form: BodyForm::Amqp10,
            exchange,
            routing_key,
            properties,
            content,
            mandatory: false,
            immediate: false,
            persistent: self.persistent,
            inspect: self.inspect,
        };
        MessagePublish { publish, names_topic }
    }
}

/// An exchange and a key in heads.
#[derive(Clone, Copy, Debug)]
struct TargetSpans {
    exchange: Span,
    routing_key: Span,
    /// Whether the message itself names them as a topic.
    names_topic: bool,
}

impl PublishedHeads {
    /// No heads.
    pub(crate) const NONE: Self = Self { bytes: Vec::new(), last: None, known: None, n_known: 0 };

    /// The bytes that the spans of publishes are of.
    pub(crate) const fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Forgets the heads of the read before.
    pub(crate) fn clear(&mut self) {
        (self.last, self.known, self.n_known) = (None, None, 0);
        self.bytes.clear();
        self.bytes.shrink_to(HEADS_BYTES_MAX);
    }

    /// The publish of a message that a client has sent on a link, whose last payload this is: to the link's
    /// node, or to the one that the message names.
    #[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
    #[inline(always)]
    pub(crate) fn publish(
        &mut self,
        channel: ChannelId,
        payload: Payload<'_>,
        gathered: Option<Bytes>,
        incoming: &IncomingLink,
    ) -> Result<MessagePublish, PublishFault> {
        let message = payload.whole(gathered.as_ref());
        if let Some(KnownHead { skipped, read, .. }) = self.known_of(incoming.link, message) {
            let body = ReceivedBody::From(skipped);
            return Ok(read.publish(channel, content_of(payload, gathered, body)));
        }
        let begin = self.bytes.len();
        let received = receive(message, &mut self.bytes).map_err(refused)?;
        let ReceivedSections { body, persistent, inspect, to, subject } = received;
        let properties = span(begin, self.bytes.len());
        let target = match (&incoming.target, self.last) {
            (Some(_), Some((link, spans))) if link == incoming.link => spans,
            (Some(PublishTarget { exchange, routing_key: Some(key) }), _) => {
                let spans = self.put_target(exchange, key.as_bytes());
                self.last = Some((incoming.link, spans));
                spans
            }
            (Some(PublishTarget { exchange, routing_key: None }), _) => {
                self.put_target(exchange, key_of(subject).map_err(PublishFault::Misrouted)?)
            }
            (None, _) => {
                let sections = match &body {
                    ReceivedBody::From(skipped) => message.get(*skipped..),
                    ReceivedBody::Rewritten(sections) => Some(&**sections),
                };
                let sections = sections.unwrap_or_default();
                self.put_named(to, sections).map_err(PublishFault::Misrouted)?
            }
        };
        let read = ReadHead { target, properties, persistent, inspect };
        if let ReceivedBody::From(skipped) = body {
            self.remember(incoming.link, message, skipped, read);
        }
        Ok(read.publish(channel, content_of(payload, gathered, body)))
    }

    /// The head of this message, if it is the one that is remembered and all behind it is opaque.
    #[inline]
    fn known_of(&self, link: LinkId, message: &[u8]) -> Option<KnownHead> {
        let known = self.known.filter(|known| known.link == link)?;
        let body = message.strip_prefix(known.sections.of(&self.bytes))?;
        sole_data(body).map(|_| known)
    }

    fn remember(&mut self, link: LinkId, message: &[u8], skipped: usize, read: ReadHead) {
        let (sections, body) = message.split_at(head_bytes(message));
        if self.n_known < KNOWN_HEADS_MAX
            && sections.len() <= KNOWN_HEAD_BYTES_MAX
            && sole_data(body).is_some()
        {
            self.n_known += 1;
            let sections = self.put(sections);
            self.known = Some(KnownHead { link, sections, skipped, read });
        }
    }

    /// Puts in the exchange and the key that a message names.
    fn put_named(
        &mut self,
        to: Option<ValueRef<'_>>,
        sections: &[u8],
    ) -> Result<TargetSpans, ProtocolFault> {
        if let Some((topic, is_temporary)) = topic_of_message(to, sections) {
            let exchange = self.put(TOPIC_EXCHANGE.as_bytes());
            let routing_key = self.put(topic.as_bytes());
            // A topic that was made for a link is gone where no queue stands for it.
            return Ok(TargetSpans { exchange, routing_key, names_topic: !is_temporary });
        }
        let begin = self.bytes.len();
        let exchange_end = begin + put_target_of_message(to, &mut self.bytes)?;
        let routing_key = span(exchange_end, self.bytes.len());
        let exchange = span(begin, exchange_end);
        Ok(TargetSpans { exchange, routing_key, names_topic: false })
    }

    fn put_target(&mut self, exchange: &ShortString, routing_key: &[u8]) -> TargetSpans {
        let exchange = self.put(exchange.as_bytes());
        TargetSpans { exchange, routing_key: self.put(routing_key), names_topic: false }
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
#[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
#[inline(always)]
fn content_of(payload: Payload<'_>, gathered: Option<Bytes>, body: ReceivedBody) -> Content {
    let owned = |body| Content::Owned(Box::new(OwnedContent { head: Bytes::new(), body }));
    match (gathered, body) {
        (_, ReceivedBody::Rewritten(body)) => owned(body.into()),
        (None, ReceivedBody::From(skipped)) => Content::Inline(payload.span_from(skipped)),
        (Some(gathered), ReceivedBody::From(skipped)) => owned(gathered.slice(skipped..)),
    }
}

/// A part of heads, which are less than their read.
fn span(begin: usize, end: usize) -> Span {
    Span { start: narrow(begin), len: narrow(end - begin) }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
