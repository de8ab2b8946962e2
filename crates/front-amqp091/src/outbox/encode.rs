//! Deliveries and other messages on their way out: method, header and body frames in one go.
//!
//! ```text
//! link prefix: 1 ch ch [size u32] 0 60 0 60 n consumer-tag | tag u64, redelivered, n exchange, n key, 0xCE
//! then:        2 ch ch  size u32  0 60 0 0  body-size u64  | properties 0xCE
//! then:        3 ch ch  size u32                           | body piece 0xCE     as often as needed
//! ```

use super::channels::ChannelOut;
use super::links::Link;
use super::{Locked, SPLICE_BYTES_MIN, Terms};
use amqp091::content::{HEADER_FIXED_BYTES, PropertiesRef, encode_body, encode_content_header};
use amqp091::frame::{FrameKind, body_payload_bytes_max, frame_header};
use amqp091::spec::{self, CLASS_BASIC, FRAME_END, FRAME_HEADER_BYTES};
use conversion::to_amqp091;
use edge::{Outgoing, Put, WriteRope, note_converted};
use message::{Body, MessageRef};
use session::{
    ChannelId, Confirmation, ConvertedTo, Delivery, Error, ErrorKind, Event, LinkId,
    PROPERTIES_BYTES_ALWAYS_TAKEN, Room, Sink,
};

impl Sink for Locked {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        if !delivery.message.form.is_plain() {
            return self.deliver_converted(link, delivery);
        }
        stdx::walk::step("encode");
        let Self { links, channels, out, terms: Terms { frame_max, .. }, .. } = self;
        // Its consumer is lost, or its channel is.
        let Some(link) = links.get_mut(link) else { return Room::Full };
        let Some(channel) = channels.get_mut(link.channel) else { return Room::Full };
        if channel.is_closing || !fits_frame(delivery.message.properties, *frame_max) {
            if !channel.is_closing {
                refuse_header(out, HeaderSize::of(delivery.message.properties, *frame_max), "");
            }
            // The broker is about to hear of it.
            keep_undelivered(channel, link, &delivery);
            return Room::Full;
        }
        let tag = if link.no_ack {
            channel.tags.next_settled()
        } else {
            channel.tags.next(link.id, delivery.position)
        };
        let starts_at = if delivery.settled_by_write { out.end_of_bytes() } else { 0 };
        put_delivery(link, tag, &delivery, *frame_max, out.rope());
        if delivery.settled_by_write {
            debug_assert!(link.no_ack, "what is acknowledged is not settled by its write");
            let (channel, position, ends_at) =
                (link.channel, delivery.position, out.end_of_bytes());
            out.settle_by_write(Put { channel, link: link.id, tag, position, starts_at, ends_at });
        }
        out.room_after(link.id, &mut link.paused)
    }

    fn fits(&mut self, message: &MessageRef<'_>, added_bytes: usize, queue: &str) -> bool {
        let message = to_amqp091(message, &mut self.converted);
        let properties_bytes = message.properties.len() + added_bytes;
        let frame_max = self.terms.frame_max;
        let fits = properties_bytes <= properties_bytes_max(frame_max);
        if !fits {
            let stays = format!("; the message stays in queue '{queue}'");
            refuse_header(&mut self.out, HeaderSize { properties_bytes, frame_max }, &stays);
        }
        fits
    }

    fn room_bytes(&self) -> usize {
        self.out.room_bytes()
    }

    fn event(&mut self, event: Event<'_>) {
        self.put_event(event);
    }

    fn released(&mut self, channel: ChannelId) {
        if let Some(channel) = self.channels.get_mut(channel.0) {
            channel.tags.released();
        }
    }

    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        self.channels.confirm(channel.0, first, last, answer.into());
    }

    fn understands_cancels(&self) -> bool {
        self.terms.capabilities.cancel_notify
    }

    fn readable(&mut self, link: LinkId) {
        let Self { links, out, .. } = self;
        if let Some(link) = links.get_mut(link) {
            out.readable(link.id, &mut link.paused);
        }
    }
}

impl Locked {
    /// Counts a message that is converted for the client, if it is one that must be.
    pub(super) fn count_conversion(&self, message: &MessageRef<'_>) {
        if !message.form.is_plain() {
            note_converted(&self.out, ConvertedTo::Properties);
        }
    }

    /// Delivers a message that came by another protocol.
    #[cold]
    fn deliver_converted(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        self.count_conversion(delivery.message);
        let mut converted = std::mem::take(&mut self.converted);
        let message = &to_amqp091(delivery.message, &mut converted);
        let room = self.deliver(link, Delivery { message, ..delivery });
        self.converted = converted;
        room
    }
}

/// The most bytes of properties that a content header's frame has room for.
const fn properties_bytes_max(frame_max: u32) -> usize {
    match frame_max {
        0 => usize::MAX,
        max => (max as usize).saturating_sub(HEADER_FRAME_BYTES),
    }
}

#[inline]
pub(super) fn fits_frame(properties: &[u8], frame_max: u32) -> bool {
    properties.len() <= PROPERTIES_BYTES_ALWAYS_TAKEN || large_fits_frame(properties, frame_max)
}

/// Apart, so that other messages take one comparison.
#[cold]
fn large_fits_frame(properties: &[u8], frame_max: u32) -> bool {
    properties.len() <= properties_bytes_max(frame_max)
}

const _: () = assert!(PROPERTIES_BYTES_ALWAYS_TAKEN <= properties_bytes_max(spec::FRAME_MIN_BYTES));

/// The size of properties, and the limit that their frame exceeds.
#[derive(Clone, Copy)]
pub(super) struct HeaderSize {
    properties_bytes: usize,
    frame_max: u32,
}

impl HeaderSize {
    pub(super) const fn of(properties: &[u8], frame_max: u32) -> Self {
        Self { properties_bytes: properties.len(), frame_max }
    }
}

/// The client is to lose its connection for a content header that cannot be split over frames.
#[cold]
pub(super) fn refuse_header(
    out: &mut Outgoing,
    HeaderSize { properties_bytes, frame_max }: HeaderSize,
    more: &str,
) {
    out.refuse(|| {
        let n_bytes = properties_bytes.saturating_add(HEADER_FRAME_BYTES);
        let text = format!(
            "a content header of {n_bytes} bytes exceeds the negotiated frame_max of {frame_max}{more}"
        );
        Error::new(ErrorKind::FrameError, text)
    });
}

/// A delivery that is never written stays unsettled, unless it was settled by being made.
#[cold]
fn keep_undelivered(channel: &mut ChannelOut, link: &Link, delivery: &Delivery<'_>) {
    if !link.no_ack || delivery.settled_by_write {
        channel.tags.next(link.id, delivery.position);
    }
}

/// Appends a delivery: everything in one piece when the body fits one frame and is copied.
fn put_delivery(
    link: &Link,
    tag: u64,
    delivery: &Delivery<'_>,
    frame_max: u32,
    rope: &mut WriteRope,
) {
    let message = delivery.message;
    let out = rope.bytes();
    out.reserve(link.prefix.len() + message.size_bytes() + FIXED_BYTES);
    put_deliver(&link.prefix, tag, delivery, out);
    let body = match message.body {
        Body::Shared(shared) if shared.len() >= SPLICE_BYTES_MIN => None,
        Body::Shared(shared) => Some(shared.as_ref()),
        Body::Borrowed(bytes) => Some(bytes),
    };
    match body {
        Some(body) if body.len() <= body_payload_bytes_max(frame_max) as usize => {
            put_small_content(link.channel, message.properties, body, out);
        }
        Some(_) | None => put_content(link.channel, message, frame_max, rope),
    }
}

#[inline(always)]
fn put_deliver(prefix: &[u8], tag: u64, delivery: &Delivery<'_>, out: &mut Vec<u8>) {
    let message = delivery.message;
    let start = out.len();
    out.extend_from_slice(prefix);
    let [t0, t1, t2, t3, t4, t5, t6, t7] = tag.to_be_bytes();
    let redelivered = u8::from(delivery.redelivered);
    let exchange_len = short_len(message.exchange);
    out.extend_from_slice(&[t0, t1, t2, t3, t4, t5, t6, t7, redelivered, exchange_len]);
    if !message.exchange.is_empty() {
        out.extend_from_slice(message.exchange);
    }
    out.push(short_len(message.routing_key));
    out.extend_from_slice(message.routing_key);
    let size = u32::try_from(out.len() - start - FRAME_HEADER_BYTES)
        .expect("a deliver method is four short fields");
    out.push(FRAME_END);
    if let Some(slot) = out.get_mut(start + 3..start + FRAME_HEADER_BYTES) {
        slot.copy_from_slice(&size.to_be_bytes());
    }
}

/// Appends the content header's frame and the body in one frame; none for an empty body.
fn put_small_content(channel: u16, properties: &[u8], body: &[u8], out: &mut Vec<u8>) {
    let header_size = u32::try_from(HEADER_FIXED_BYTES + properties.len()).unwrap_or(u32::MAX);
    let body_size = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let [k, c0, c1, h0, h1, h2, h3] = frame_header(FrameKind::Header, channel, header_size);
    let [b0, b1, b2, b3] = body_size.to_be_bytes();
    let [class0, class1] = CLASS_BASIC.to_be_bytes();
    out.extend_from_slice(&[
        k, c0, c1, h0, h1, h2, h3, class0, class1, 0, 0, 0, 0, 0, 0, b0, b1, b2, b3,
    ]);
    match *properties {
        [f0, f1] => out.extend_from_slice(&[f0, f1]),
        [f0, f1, value] => out.extend_from_slice(&[f0, f1, value]),
        _ => out.extend_from_slice(properties),
    }
    if body.is_empty() {
        out.push(FRAME_END);
        return;
    }
    let [k, ..] = frame_header(FrameKind::Body, channel, body_size);
    out.extend_from_slice(&[FRAME_END, k, c0, c1, b0, b1, b2, b3]);
    out.extend_from_slice(body);
    out.push(FRAME_END);
}

/// Octets of a content header's frame besides the properties.
const HEADER_FRAME_BYTES: usize = FRAME_HEADER_BYTES + HEADER_FIXED_BYTES + 1;

/// Octets of a delivery that depend on neither link nor message, at most, for a body in one frame.
const FIXED_BYTES: usize = 64;

fn short_len(bytes: &[u8]) -> u8 {
    u8::try_from(bytes.len()).expect("names and keys of messages are at most 255 bytes long")
}

/// Appends header and body frames. A large shared body is not copied.
pub(super) fn put_content(
    channel: u16,
    message: &MessageRef<'_>,
    frame_max: u32,
    rope: &mut WriteRope,
) {
    let properties = PropertiesRef::trusted(message.properties);
    encode_content_header(channel, properties, message.body.len(), rope.bytes());
    let shared = match message.body {
        Body::Shared(shared) if shared.len() >= SPLICE_BYTES_MIN => shared,
        Body::Shared(_) | Body::Borrowed(_) => {
            encode_body(channel, message.body.bytes(), frame_max, rope.bytes());
            return;
        }
    };
    let piece_bytes_max = usize::try_from(body_payload_bytes_max(frame_max)).unwrap_or(usize::MAX);
    let mut at = 0;
    while at < shared.len() {
        let end = at.saturating_add(piece_bytes_max).min(shared.len());
        let size = u32::try_from(end - at).expect("pieces are at most frame_max long");
        rope.bytes().extend_from_slice(&frame_header(FrameKind::Body, channel, size));
        rope.splice(shared.slice(at..end));
        rope.bytes().push(FRAME_END);
        at = end;
    }
}
