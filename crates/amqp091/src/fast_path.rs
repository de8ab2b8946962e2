//! The two requests that come by the million, a publish and an acknowledgement, told in one look
//! when they lie whole in the input.
//!
//! ```text
//! publish: 1 ch size | 0 60 0 40  ticket:u16  n exchange  n key  bits:u8 | 0xCE
//!          2 ch size | 0 60 0 0   body-size:u64  properties              | 0xCE
//!          3 ch size | body                                              | 0xCE   unless empty
//! ack:     1 ch 0 0 0 13 | 0 60 0 80  tag:u64  multiple:u8 | 0xCE
//! ```
//!
//! Anything out of the ordinary is `None` here: cut short, in several body frames, with headers
//! that go out in another form, refused or malformed. [`decode_frame`](crate::decode_frame) and
//! what follows it say what it is.

use crate::content::PropertiesRef;
use crate::frame::{FrameKind, payload_bytes_tolerated};
use crate::spec::{FRAME_END, FRAME_HEADER_BYTES};

const METHOD: u8 = FrameKind::Method.octet();
const HEADER: u8 = FrameKind::Header.octet();
const BODY: u8 = FrameKind::Body.octet();

/// The start of the exchange's name in a publish: behind frame header, method, ticket and length.
const EXCHANGE_AT: usize = FRAME_HEADER_BYTES + 4 + 2 + 1;
/// Bytes between routing key and properties: the method's bits, its frame's end, the content header
/// frame's header, class, weight and body size.
const KEY_TO_PROPERTIES_BYTES: usize = 2 + FRAME_HEADER_BYTES + crate::content::HEADER_FIXED_BYTES;

/// A `basic.publish` without `immediate`, its content header and its body in at most one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholePublish<'a> {
    /// The channel of all its frames.
    pub channel: u16,
    /// Exchange name.
    pub exchange: &'a [u8],
    /// Routing key.
    pub routing_key: &'a [u8],
    /// The bit `mandatory`.
    pub mandatory: bool,
    /// The properties, checked.
    pub properties: PropertiesRef<'a>,
    /// The body.
    pub body: &'a [u8],
    /// Octets of all its frames.
    pub len: usize,
}

impl WholePublish<'_> {
    /// Index of the exchange name's first octet in the input.
    pub const EXCHANGE_AT: usize = EXCHANGE_AT;

    /// Index of the routing key's first octet.
    #[inline]
    pub const fn key_at(&self) -> usize {
        EXCHANGE_AT + self.exchange.len() + 1
    }

    /// Index of the properties' first octet.
    #[inline]
    pub const fn properties_at(&self) -> usize {
        self.key_at() + self.routing_key.len() + KEY_TO_PROPERTIES_BYTES
    }

    /// Index of the body's first octet, unless it is empty.
    #[inline]
    pub const fn body_at(&self) -> usize {
        self.properties_at() + self.properties.as_bytes().len() + 1 + FRAME_HEADER_BYTES
    }
}

/// Takes a publish with a body of at most `body_bytes_max` bytes from the front of `input`.
/// `frame_max` 0 means that no limit was negotiated.
#[must_use]
#[inline]
pub fn whole_publish(
    input: &[u8],
    frame_max: u32,
    body_bytes_max: usize,
) -> Option<WholePublish<'_>> {
    let payload_max = payload_bytes_tolerated(frame_max) as usize;
    let &[METHOD, c0, c1, s0, s1, s2, s3, 0, 60, 0, 40, _, _, exchange_len] =
        input.first_chunk()?
    else {
        return None;
    };
    let method_size = size_of([s0, s1, s2, s3]);
    let exchange_end = EXCHANGE_AT + usize::from(exchange_len);
    let key_end = exchange_end + 1 + usize::from(*input.get(exchange_end)?);
    if FRAME_HEADER_BYTES + method_size != key_end + 1 || method_size > payload_max {
        return None;
    }
    let header = input.get(key_end..)?.first_chunk::<KEY_TO_PROPERTIES_BYTES>()?;
    let &[
        bits @ 0..=1,
        FRAME_END,
        HEADER,
        h0,
        h1,
        hs0,
        hs1,
        hs2,
        hs3,
        0,
        60,
        0,
        0,
        0,
        0,
        0,
        0,
        b0,
        b1,
        b2,
        b3,
    ] = header
    else {
        return None;
    };
    let header_size = size_of([hs0, hs1, hs2, hs3]);
    let body_len = size_of([b0, b1, b2, b3]);
    let properties_len = header_size.checked_sub(crate::content::HEADER_FIXED_BYTES)?;
    if [h0, h1] != [c0, c1] || header_size > payload_max || body_len > body_bytes_max {
        return None;
    }
    let (properties, rest) =
        input.get(key_end + KEY_TO_PROPERTIES_BYTES..)?.split_at_checked(properties_len)?;
    let properties = PropertiesRef::parse(properties).ok().filter(PropertiesRef::is_canonical)?;
    let (&FRAME_END, rest) = rest.split_first()? else { return None };
    let body = match body_len {
        0 => &[],
        _ => whole_body(rest, [c0, c1], body_len).filter(|_| body_len <= payload_max)?,
    };
    let content_end = key_end + KEY_TO_PROPERTIES_BYTES + properties_len + 1;
    let body_frame_len = if body_len == 0 { 0 } else { FRAME_HEADER_BYTES + body_len + 1 };
    Some(WholePublish {
        channel: u16::from_be_bytes([c0, c1]),
        exchange: input.get(EXCHANGE_AT..exchange_end)?,
        routing_key: input.get(exchange_end + 1..key_end)?,
        mandatory: bits == 1,
        properties,
        body,
        len: content_end + body_frame_len,
    })
}

#[inline]
fn whole_body(input: &[u8], channel: [u8; 2], len: usize) -> Option<&[u8]> {
    let (&[BODY, c0, c1, s0, s1, s2, s3], rest) = input.split_first_chunk()? else { return None };
    if [c0, c1] != channel || size_of([s0, s1, s2, s3]) != len {
        return None;
    }
    let (body, rest) = rest.split_at_checked(len)?;
    (*rest.first()? == FRAME_END).then_some(body)
}

#[inline]
const fn size_of(octets: [u8; 4]) -> usize {
    u32::from_be_bytes(octets) as usize
}

/// A `basic.ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeAck {
    /// The channel.
    pub channel: u16,
    /// The delivery tag.
    pub delivery_tag: u64,
    /// Whether all deliveries before this one are meant too.
    pub multiple: bool,
}

impl WholeAck {
    /// The octets of the frame.
    pub const BYTES: usize = 21;
}

/// Takes an acknowledgement from the front of `input`.
#[must_use]
#[inline]
pub fn whole_ack(input: &[u8]) -> Option<WholeAck> {
    let &[
        METHOD,
        c0,
        c1,
        0,
        0,
        0,
        13,
        0,
        60,
        0,
        80,
        t0,
        t1,
        t2,
        t3,
        t4,
        t5,
        t6,
        t7,
        multiple @ 0..=1,
        FRAME_END,
    ] = input.first_chunk::<{ WholeAck::BYTES }>()?
    else {
        return None;
    };
    Some(WholeAck {
        channel: u16::from_be_bytes([c0, c1]),
        delivery_tag: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
        multiple: multiple == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::encode_content;
    use crate::decode_frame;
    use crate::method::{BasicAck, BasicPublish};
    use crate::{ContentHeader, FrameKind};
    use proptest::prelude::*;

    fn publish_bytes(publish: &BasicPublish<'_>, channel: u16, flags: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        publish.encode_frame(channel, &mut out);
        let properties: &[u8] = match flags {
            0 => &[0, 0],
            1 => &[0x10, 0, 2],
            _ => b"\x80\0\x04text",
        };
        let properties = PropertiesRef::parse(properties).unwrap();
        encode_content(channel, properties, body, 4096, &mut out);
        out
    }

    /// Decodes a whole publish in three steps, frame by frame.
    fn slowly(input: &[u8], frame_max: u32) -> Option<WholePublish<'_>> {
        let (method, a) = decode_frame(input, frame_max).ok()??;
        let publish = BasicPublish::decode_payload(method.payload).ok()?;
        let (content, b) = decode_frame(&input[a..], frame_max).ok()??;
        let header = ContentHeader::decode(content.payload).ok()?;
        let (body, c) = match header.body_size {
            0 => (&[][..], 0),
            _ => {
                let (body, c) = decode_frame(&input[a + b..], frame_max).ok()??;
                let fits = body.kind == FrameKind::Body && body.channel == method.channel;
                (Some(body.payload).filter(|_| fits)?, c)
            }
        };
        let kinds = (method.kind, content.kind) == (FrameKind::Method, FrameKind::Header);
        let is_whole = body.len() as u64 == header.body_size && kinds;
        (is_whole && content.channel == method.channel && !publish.immediate).then_some(
            WholePublish {
                channel: method.channel,
                exchange: publish.exchange,
                routing_key: publish.routing_key,
                mandatory: publish.mandatory,
                properties: header.properties,
                body,
                len: a + b + c,
            },
        )
    }

    proptest! {
        #[test]
        fn one_look_sees_what_three_steps_see(
            exchange in prop::collection::vec(any::<u8>(), 0..5),
            routing_key in prop::collection::vec(any::<u8>(), 0..40),
            (channel, flags, mandatory) in (1..3_u16, 0..3_u8, any::<bool>()),
            body in prop::collection::vec(any::<u8>(), 0..60),
            damage in prop::option::of((any::<usize>(), any::<u8>())),
            cut in any::<usize>(),
        ) {
            let (exchange, routing_key) = (&exchange[..], &routing_key[..]);
            let publish =
                BasicPublish { ticket: 0, exchange, routing_key, mandatory, immediate: false };
            let mut bytes = publish_bytes(&publish, channel, flags, &body);
            let whole = whole_publish(&bytes, 4096, 1000).unwrap();
            prop_assert_eq!(Some(whole), slowly(&bytes, 4096));
            prop_assert_eq!(&bytes[WholePublish::EXCHANGE_AT..][..exchange.len()], exchange);
            prop_assert_eq!(&bytes[whole.key_at()..][..routing_key.len()], routing_key);
            let properties = whole.properties.as_bytes();
            prop_assert_eq!(&bytes[whole.properties_at()..][..properties.len()], properties);
            if !body.is_empty() {
                prop_assert_eq!(&bytes[whole.body_at()..][..body.len()], &body);
            }
            prop_assert!(whole_publish(&bytes[..cut % bytes.len()], 4096, 1000).is_none());
            prop_assert!(body.is_empty() || whole_publish(&bytes, 4096, body.len() - 1).is_none());
            if let Some((at, octet)) = damage {
                let at = at % bytes.len();
                bytes[at] = octet;
                if let Some(found) = whole_publish(&bytes, 4096, 1000) {
                    prop_assert_eq!(Some(found), slowly(&bytes, 4096));
                }
            }
        }
    }

    #[test]
    fn frames_over_the_limit_are_left_to_those_who_refuse_them() {
        let publish = BasicPublish {
            ticket: 0,
            exchange: b"",
            routing_key: b"q",
            mandatory: false,
            immediate: false,
        };
        let bytes = publish_bytes(&publish, 1, 0, &[7; 100]);
        assert!(whole_publish(&bytes, 100, 1000).is_some());
        assert!(whole_publish(&bytes, 99, 1000).is_none());
        assert!(whole_publish(&bytes, 0, 1000).is_some());
    }

    #[test]
    fn acknowledgements() {
        let mut bytes = Vec::new();
        BasicAck { delivery_tag: 1 << 40, multiple: true }.encode_frame(9, &mut bytes);
        let ack = WholeAck { channel: 9, delivery_tag: 1 << 40, multiple: true };
        assert_eq!(whole_ack(&bytes), Some(ack));
        assert_eq!(bytes.len(), WholeAck::BYTES);
        assert_eq!(whole_ack(&bytes[..20]), None);
        bytes[20] = 0;
        assert_eq!(whole_ack(&bytes), None);
    }
}
