//! Messages on their way in.
//!
//! A small publish that lies whole in the input becomes a request of spans, without a copy. One
//! that is large, split over frames or mixed with other channels' frames is gathered:
//!
//! ```text
//! Idle --basic.publish--> Header --content header--> Body --last body frame--> Idle + request
//! ```

use super::unexpected;
use crate::reply;
use amqp091::content::HEADER_FIXED_BYTES;
use amqp091::method::BasicPublish;
use amqp091::spec::{CLASS_BASIC, FRAME_HEADER_BYTES, UNLIMITED_PAYLOAD_BYTES_MAX};
use amqp091::{ContentHeader, Frame, FrameKind, PropertiesRef, WholePublish, decode_frame};
use bytes::Bytes;
use message::BodyForm;
use session::{
    ChannelId, Content as Body, Error, ErrorKind, HeadPlace, OwnedContent, Publish, Span,
};

/// Bodies up to this many bytes are taken where they lie; larger ones are gathered, so that they
/// are copied no more.
const INLINE_BODY_BYTES_MAX: usize = 16 * 1024;

/// The most bytes of a body that is taken where it lies, where messages may have `message_bytes_max`. Larger
/// messages are read to their end and refused.
pub(super) fn inline_body_bytes_max(message_bytes_max: u64) -> usize {
    usize::try_from(message_bytes_max).unwrap_or(usize::MAX).min(INLINE_BODY_BYTES_MAX)
}
/// A content header up to this size is waited for instead of gathered.
const INLINE_HEADER_BYTES_MAX: usize = 16 * 1024;
/// Memory reserved for an announced body at first; more only as the body arrives.
const BODY_RESERVE_BYTES_MAX: usize = 128 * 1024;
/// COMPAT: RabbitMQ's limit that no configuration lifts.
const BODY_BYTES_HARD_MAX: u64 = UNLIMITED_PAYLOAD_BYTES_MAX as u64;

/// Properties that routing or queues look at: headers, priority, reply-to, expiration, user-id,
/// as property flags.
const INSPECTED_PROPERTIES: u16 = 1 << 13 | 1 << 11 | 1 << 9 | 1 << 8 | 1 << 4;

/// The message a channel is in the middle of.
#[derive(Debug)]
pub(super) enum Content {
    Idle,
    /// The method was there, the content header is not.
    Header(Box<PublishMethod>),
    /// The body is on its way.
    Body(Box<ContentAssembly>),
}

impl Content {
    pub(super) fn assembled_bytes(&self) -> u64 {
        match self {
            Self::Idle | Self::Header(_) => 0,
            Self::Body(assembly) => assembly.body.as_ref().map_or(0, |body| body.capacity() as u64),
        }
    }
}

/// The rest of a body frame that is larger than the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialBody {
    pub(super) channel: u16,
    /// Payload bytes to come; the end octet follows.
    pub(super) n_left: usize,
}

/// A `basic.publish` whose content is to come.
#[derive(Debug)]
pub(super) struct PublishMethod {
    /// Exchange name, then routing key.
    head: Vec<u8>,
    exchange_len: u32,
    mandatory: bool,
    immediate: bool,
}

impl PublishMethod {
    pub(super) fn new(publish: &BasicPublish<'_>) -> Self {
        Self {
            head: [publish.exchange, publish.routing_key].concat(),
            exchange_len: len_u32(publish.exchange),
            mandatory: publish.mandatory,
            immediate: publish.immediate,
        }
    }
}

/// A message whose body is being assembled.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own of the message")]
pub(super) struct ContentAssembly {
    /// Exchange name, routing key, properties.
    head: Vec<u8>,
    exchange_len: u32,
    key_len: u32,
    mandatory: bool,
    immediate: bool,
    persistent: bool,
    inspect: bool,
    /// `None` when the body is larger than allowed: it is swallowed, then refused.
    body: Option<Vec<u8>>,
    size: u64,
    n_left: u64,
}

impl ContentAssembly {
    pub(super) fn new(
        envelope: PublishMethod,
        header: &ContentHeader<'_>,
        message_bytes_max: u64,
    ) -> Result<Self, Error> {
        let size = header.body_size;
        if size > BODY_BYTES_HARD_MAX {
            let text = format!(
                "content body size {size} exceeds maximum allowed size {BODY_BYTES_HARD_MAX}"
            );
            return Err(Error::new(ErrorKind::FrameError, text));
        }
        let reserve = usize::try_from(size).unwrap_or(usize::MAX).min(BODY_RESERVE_BYTES_MAX);
        let PublishMethod { mut head, exchange_len, mandatory, immediate } = envelope;
        let key_len = len_u32(&head) - exchange_len;
        head.extend_from_slice(&header.properties.to_canonical());
        Ok(Self {
            head,
            exchange_len,
            key_len,
            mandatory,
            immediate,
            persistent: header.properties.is_persistent(),
            inspect: immediate || is_inspected(header.properties),
            body: (size <= message_bytes_max).then(|| Vec::with_capacity(reserve)),
            size,
            n_left: size,
        })
    }

    /// Takes a piece of the body.
    pub(super) fn add(&mut self, piece: &[u8]) -> Result<(), Error> {
        let Some(n_left) = self.n_left.checked_sub(piece.len() as u64) else {
            return Err(Error::new(
                ErrorKind::FrameError,
                format!("the body is larger than the {} bytes its header announced", self.size),
            ));
        };
        self.n_left = n_left;
        if let Some(body) = &mut self.body {
            reserve(body, piece.len(), self.size);
            body.extend_from_slice(piece);
        }
        Ok(())
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.n_left == 0
    }

    /// The message, or why it is refused.
    pub(super) fn finish(self, channel: u16, message_bytes_max: u64) -> Result<Publish, Error> {
        let Some(body) = self.body else {
            let text = format!(
                "message size {} is larger than configured max size {message_bytes_max}",
                self.size
            );
            return Err(Error::new(ErrorKind::PreconditionFailed, text));
        };
        let properties_at = self.exchange_len + self.key_len;
        let properties_len = len_u32(&self.head) - properties_at;
        Ok(Publish {
            channel: ChannelId(channel),
            head: HeadPlace::Content,
            exchange: Span { start: 0, len: self.exchange_len },
            routing_key: Span { start: self.exchange_len, len: self.key_len },
            properties: Span { start: properties_at, len: properties_len },
            content: Body::Owned(Box::new(OwnedContent {
                head: Bytes::from(self.head),
                body: Bytes::from(body),
            })),
            form: BodyForm::Plain,
            mandatory: self.mandatory,
            immediate: self.immediate,
            persistent: self.persistent,
            inspect: self.inspect,
        })
    }
}

/// Grows with what has arrived, and never beyond what was announced.
fn reserve(body: &mut Vec<u8>, n: usize, announced: u64) {
    let needed = body.len() + n;
    if needed > body.capacity() {
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        let target = (body.capacity() * 2).max(needed).min(announced.max(needed));
        body.reserve_exact(target - body.len());
    }
}

/// The request of a publish that begins at `at` in the input.
#[inline]
pub(super) fn inline_publish(publish: &WholePublish<'_>, at: usize) -> Publish {
    Publish {
        channel: ChannelId(publish.channel),
        head: HeadPlace::Content,
        exchange: span(at + WholePublish::EXCHANGE_AT, publish.exchange),
        routing_key: span(at + publish.key_at(), publish.routing_key),
        properties: span(at + publish.properties_at(), publish.properties.as_bytes()),
        content: Body::Inline(match publish.body {
            [] => Span::default(),
            body => span(at + publish.body_at(), body),
        }),
        form: BodyForm::Plain,
        mandatory: publish.mandatory,
        immediate: false,
        persistent: publish.properties.is_persistent(),
        inspect: is_inspected(publish.properties),
    }
}

/// The input behind a `basic.publish`.
pub(super) enum Lookahead {
    /// The whole message: the request, and the bytes it takes behind the method's frame.
    Whole(Publish, usize),
    /// The message is incomplete: this many more bytes are needed behind the method's frame.
    Wait(usize),
    /// A message that has to be assembled frame by frame, or is wrong.
    Assemble,
}

/// The sizes up to which the decoder looks ahead.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) frame_max: u32,
    pub(super) body_bytes_max: usize,
}

/// The place of a method's frame in the input, and the bytes it takes.
#[derive(Clone, Copy)]
pub(super) struct MethodPlace {
    pub(super) at: usize,
    pub(super) used: usize,
}

/// Looks for the content of a publish behind its method's frame.
pub(super) fn look_ahead(
    input: &[u8],
    MethodPlace { at, used }: MethodPlace,
    channel: u16,
    publish: &BasicPublish<'_>,
    Limits { frame_max, body_bytes_max }: Limits,
) -> Lookahead {
    let header_at = at + used;
    let behind = input.get(header_at..).unwrap_or_default();
    let (header_frame, header_len) = match decode_frame(behind, frame_max) {
        Ok(Some(found)) => found,
        Ok(None) => {
            return wait_for(behind, FrameKind::Header, channel, INLINE_HEADER_BYTES_MAX, 0);
        }
        Err(_) => return Lookahead::Assemble,
    };
    if header_frame.kind != FrameKind::Header || header_frame.channel != channel {
        return Lookahead::Assemble;
    }
    let Ok(header) = ContentHeader::decode(header_frame.payload) else {
        return Lookahead::Assemble;
    };
    if header.body_size > body_bytes_max as u64 || !header.properties.is_canonical() {
        return Lookahead::Assemble;
    }
    let body_at = header_at + header_len;
    let (body, total) = match body_ahead(input, body_at, channel, header.body_size, frame_max) {
        BodyAhead::Whole(body, body_len) => (body, header_len + body_len),
        BodyAhead::Not(Lookahead::Wait(wanted)) => return Lookahead::Wait(header_len + wanted),
        BodyAhead::Not(other) => return other,
    };
    // Fields lie at fixed distances: class, method and ticket, then the exchange's length.
    let exchange_at = at + FRAME_HEADER_BYTES + 4 + 2 + 1;
    let publish = Publish {
        channel: ChannelId(channel),
        head: HeadPlace::Content,
        exchange: span(exchange_at, publish.exchange),
        routing_key: span(exchange_at + publish.exchange.len() + 1, publish.routing_key),
        properties: span(
            header_at + FRAME_HEADER_BYTES + HEADER_FIXED_BYTES,
            header.properties.as_bytes(),
        ),
        content: Body::Inline(body),
        form: BodyForm::Plain,
        mandatory: publish.mandatory,
        immediate: publish.immediate,
        persistent: header.properties.is_persistent(),
        inspect: publish.immediate || is_inspected(header.properties),
    };
    Lookahead::Whole(publish, total)
}

enum BodyAhead {
    /// The body's place in the input, and the length of its frame; 0 for an empty body.
    Whole(Span, usize),
    Not(Lookahead),
}

fn body_ahead(input: &[u8], body_at: usize, channel: u16, size: u64, frame_max: u32) -> BodyAhead {
    if size == 0 {
        return BodyAhead::Whole(Span::default(), 0);
    }
    let behind = input.get(body_at..).unwrap_or_default();
    match decode_frame(behind, frame_max) {
        Ok(Some((frame, len)))
            if frame.kind == FrameKind::Body
                && frame.channel == channel
                && frame.payload.len() as u64 == size =>
        {
            BodyAhead::Whole(span(body_at + FRAME_HEADER_BYTES, frame.payload), len)
        }
        Ok(None) => {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            BodyAhead::Not(wait_for(behind, FrameKind::Body, channel, size, size))
        }
        Ok(Some(_)) | Err(_) => BodyAhead::Not(Lookahead::Assemble),
    }
}

/// Whether the frame that begins here and is not whole is worth waiting for: of this kind and
/// channel, with a payload of `size_min..=size_max` bytes.
fn wait_for(
    behind: &[u8],
    kind: FrameKind,
    channel: u16,
    size_max: usize,
    size_min: usize,
) -> Lookahead {
    let Some(&[found_kind, c0, c1, s0, s1, s2, s3]) = behind.first_chunk() else {
        return Lookahead::Wait(FRAME_HEADER_BYTES);
    };
    let size = usize::try_from(u32::from_be_bytes([s0, s1, s2, s3])).unwrap_or(usize::MAX);
    let is_it = found_kind == kind.octet()
        && u16::from_be_bytes([c0, c1]) == channel
        && (size_min..=size_max).contains(&size);
    if is_it { Lookahead::Wait(FRAME_HEADER_BYTES + size + 1) } else { Lookahead::Assemble }
}

/// A content frame where none is expected, or the wrong one.
pub(super) fn unexpected_content(content: &Content, frame: Frame<'_>) -> Error {
    match content {
        Content::Idle => unexpected("expected method frame, got non method frame instead"),
        Content::Header(_) => {
            debug_assert_ne!(frame.kind, FrameKind::Header, "this is what was expected");
            Error::new(
                ErrorKind::UnexpectedFrame,
                format!(
                    "expected content header for class {CLASS_BASIC}, \
                     got non content header frame instead"
                ),
            )
        }
        Content::Body(_) => unexpected("expected content body, got non content body frame instead"),
    }
}

/// The content header of a publish.
pub(super) fn decode_header<'a>(frame: Frame<'a>) -> Result<ContentHeader<'a>, Error> {
    ContentHeader::decode(frame.payload).map_err(reply::wire_refusal)
}

fn is_inspected(properties: PropertiesRef<'_>) -> bool {
    let flags = properties.as_bytes().first_chunk().copied().map_or(0, u16::from_be_bytes);
    flags & INSPECTED_PROPERTIES != 0
}

fn span(start: usize, bytes: &[u8]) -> Span {
    Span { start: u32::try_from(start).expect("a read is below 4 GiB"), len: len_u32(bytes) }
}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("frames are below 4 GiB")
}
