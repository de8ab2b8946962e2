//! One message as it goes over the wire, encoded once; what changes from message to message is
//! written over in place.
//!
//! ```text
//! body:  0        4                12          16            24      28       32
//!        +--------+----------------+-----------+-------------+-------+--------+---------+
//!        | number | time stamp     | publisher | number      | CRC32C| 0      | filler  |
//!        |  u32   | u64            | u32       | u64         | u32   |        |         |
//!        +--------+----------------+-----------+-------------+-------+--------+---------+
//!        '---- PerfTest's ---------'----------- with --verify: CRC over all but itself --'
//! ```
//! Integers are big-endian, as PerfTest writes them. The time stamp is nanoseconds of the clock that
//! never goes back, which all processes of a machine share, or wall clock milliseconds.

use std::ops::Range;

use amqp091::content::{encode_body, encode_content_header};
use amqp091::frame::body_payload_bytes_max;
use amqp091::method::BasicPublish;
use amqp091::spec::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES};
use amqp091::{Properties, PropertiesRef, ShortString};
use crc_fast::{CrcAlgorithm, Digest};

use crate::config::{STAMPED_BYTES, VERIFIED_BYTES};

/// The header that carries the time stamp where the body cannot.
pub(crate) const STAMP_HEADER: &str = "timestamp";
/// Length of a random routing key.
pub(crate) const RANDOM_KEY_BYTES: usize = 32;
/// The place of the CRC.
const CRC_AT: usize = 24;
/// The placeholder of a header's time stamp, found by its bytes and written over.
const STAMP_MARK: i64 = 0x5AA5_1E0E_7E57_A3B7;

/// A message's exchange, routing key and flags.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) channel: u16,
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) mandatory: bool,
    pub(crate) immediate: bool,
    pub(crate) frame_max: u32,
}

/// The fields that make each message different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) number: u64,
    pub(crate) stamp: u64,
    pub(crate) publisher: u32,
}

/// The place of number and time stamp in a message, which each publish writes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marking {
    /// Number and time stamp at its start.
    Body,
    /// The same, then publisher, number and CRC.
    Verified,
    /// The header [`STAMP_HEADER`].
    Header,
}

/// An encoded message.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    marking: Marking,
    /// The place of the marks: the start of the body, or the header's value.
    mark_at: usize,
    /// The body's parts, one in each frame.
    pieces: Vec<Range<usize>>,
    /// The place of a random routing key.
    key_at: usize,
    /// The places of a delivery's number, in protocols that have one.
    number_at: Vec<usize>,
}

impl Template {
    /// Encodes a message. A body for marks is large enough for them; with [`Marking::Header`] the
    /// properties get the header.
    pub(crate) fn new(
        address: &Address,
        properties: &Properties,
        body: &[u8],
        marking: Marking,
    ) -> Self {
        let mut bytes = Vec::new();
        let publish = BasicPublish {
            exchange: address.exchange.as_bytes(),
            routing_key: address.routing_key.as_bytes(),
            mandatory: address.mandatory,
            immediate: address.immediate,
            ..BasicPublish::default()
        };
        publish.encode_frame(address.channel, &mut bytes);
        let key_at = bytes.len().saturating_sub(2 + address.routing_key.len());
        let mut properties = properties.clone();
        if marking == Marking::Header {
            let headers = properties.headers.get_or_insert_default();
            headers.insert(ShortString::from_static(STAMP_HEADER), STAMP_MARK);
        }
        let properties = properties.to_bytes();
        let properties = PropertiesRef::trusted(&properties);
        encode_content_header(address.channel, properties, body.len(), &mut bytes);
        let mark_at = match marking {
            Marking::Header => find(&bytes, &STAMP_MARK.to_be_bytes()),
            Marking::Body | Marking::Verified => bytes.len() + FRAME_HEADER_BYTES,
        };
        let body_at = bytes.len() + FRAME_HEADER_BYTES;
        encode_body(address.channel, body, address.frame_max, &mut bytes);
        let piece_len = usize::try_from(body_payload_bytes_max(address.frame_max));
        let piece_len = piece_len.unwrap_or(usize::MAX).max(1);
        // Between two pieces are the end of a frame and the header of the next one.
        let overhead = usize::try_from(FRAME_OVERHEAD_BYTES).unwrap_or_default();
        let piece = |from: usize| {
            let at = body_at + from + from / piece_len * overhead;
            at..at + piece_len.min(body.len() - from)
        };
        let pieces = (0..body.len()).step_by(piece_len).map(piece).collect();
        Self { bytes, marking, mark_at, pieces, key_at, number_at: Vec::new() }
    }

    /// A message of another protocol: the places of its body's parts, and of the delivery's number, 4 bytes.
    pub(crate) fn of_parts(
        bytes: Vec<u8>,
        marking: Marking,
        pieces: Vec<Range<usize>>,
        number_at: Vec<usize>,
    ) -> Self {
        let mark_at = pieces.first().map_or(usize::MAX, |piece| piece.start);
        Self { bytes, marking, mark_at, pieces, key_at: usize::MAX, number_at }
    }

    /// The message as it goes over the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The size of the body.
    pub(crate) fn body_len(&self) -> usize {
        self.pieces.iter().map(Range::len).sum()
    }

    /// The frames that the body comes in.
    pub(crate) fn n_frames(&self) -> usize {
        self.pieces.len().max(1)
    }

    /// Writes the marks into a copy of the message.
    #[inline]
    pub(crate) fn mark(&self, message: &mut [u8], mark: Mark) {
        for at in &self.number_at {
            let [_, _, _, _, number @ ..] = mark.number.to_be_bytes();
            put(message, *at, number);
        }
        let Some(at) = message.get_mut(self.mark_at..) else { return };
        match self.marking {
            Marking::Header => put(at, 0, mark.stamp.to_be_bytes()),
            Marking::Body => put_stamp(at, mark),
            Marking::Verified => {
                put_stamp(at, mark);
                put(at, 12, mark.publisher.to_be_bytes());
                put(at, 16, mark.number.to_be_bytes());
                let crc = self.crc(message);
                if let Some(at) = message.get_mut(self.mark_at..) {
                    put(at, CRC_AT, crc.to_be_bytes());
                }
            }
        }
    }

    /// Writes a random routing key over the one of the template, which has its length.
    pub(crate) fn set_key(&self, message: &mut [u8], key: [u8; RANDOM_KEY_BYTES]) {
        if let Some(at) = message.get_mut(self.key_at..) {
            put(at, 0, key);
        }
    }

    fn crc(&self, message: &[u8]) -> u32 {
        let mut pieces =
            self.pieces.iter().map(|piece| message.get(piece.clone()).unwrap_or_default());
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        update(&mut digest, pieces.next().unwrap_or_default());
        pieces.for_each(|piece| digest.update(piece));
        u32::try_from(digest.finalize()).unwrap_or_default()
    }
}

fn update(digest: &mut Digest, body: &[u8]) {
    digest.update(body.get(..CRC_AT).unwrap_or_default());
    digest.update(body.get(CRC_AT + 4..).unwrap_or_default());
}

/// Number and time stamp of a body, if it is long enough to have them.
#[inline]
pub(crate) fn stamp_of(body: &[u8]) -> Option<u64> {
    let (_, rest) = body.split_at_checked(4)?;
    rest.first_chunk().copied().map(u64::from_be_bytes)
}

/// The marks of a whole body sent with `--verify`; `None` if it is not what was sent.
pub(crate) fn verified(body: &[u8]) -> Option<Mark> {
    let (head, _) = body.split_at_checked(VERIFIED_BYTES)?;
    let word = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
    let long = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk::<8>).copied();
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    update(&mut digest, body);
    if digest.finalize() != u64::from(u32::from_be_bytes(word(CRC_AT)?)) {
        return None;
    }
    Some(Mark {
        number: u64::from_be_bytes(long(16)?),
        stamp: u64::from_be_bytes(long(4)?),
        publisher: u32::from_be_bytes(word(12)?),
    })
}

/// A body of that size for messages with marks.
pub(crate) fn stamped_body(size: usize, is_verified: bool) -> Vec<u8> {
    let mut body = vec![0; size.max(STAMPED_BYTES)];
    if is_verified {
        for (byte, filler) in body.iter_mut().skip(VERIFIED_BYTES).zip((0..=u8::MAX).cycle()) {
            *byte = filler;
        }
    }
    body
}

#[inline]
fn put_stamp(at: &mut [u8], mark: Mark) {
    let [_, _, _, _, number @ ..] = mark.number.to_be_bytes();
    put(at, 0, number);
    put(at, 4, mark.stamp.to_be_bytes());
}

#[inline]
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>) {
        *place = value;
    }
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ContentHeader, FrameKind, Method, decode_frame};

    fn address(frame_max: u32) -> Address {
        Address {
            channel: 3,
            exchange: "ex".to_owned(),
            routing_key: "k".repeat(RANDOM_KEY_BYTES),
            mandatory: true,
            immediate: false,
            frame_max,
        }
    }

    const MARK: Mark = Mark { number: 0x1_0000_0007, stamp: 99, publisher: 5 };

    fn body_of(mut rest: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some((frame, used)) = decode_frame(rest, 0).unwrap() {
            assert_eq!(frame.channel, 3);
            if frame.kind == FrameKind::Body {
                body.extend_from_slice(frame.payload);
            }
            rest = &rest[used..];
        }
        body
    }

    #[test]
    fn marks_are_where_perftest_has_them() {
        let template = Template::new(
            &address(0),
            &Properties::default(),
            &stamped_body(20, false),
            Marking::Body,
        );
        let mut message = template.bytes().to_vec();
        template.mark(&mut message, MARK);
        template.set_key(&mut message, [b'z'; RANDOM_KEY_BYTES]);
        let body = body_of(&message);
        assert_eq!(body[..12], [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 99]);
        assert_eq!((stamp_of(&body), body.len()), (Some(99), template.body_len()));
        let (frame, _) = decode_frame(&message, 0).unwrap().unwrap();
        let Method::BasicPublish(publish) = Method::decode(frame.payload).unwrap() else {
            panic!()
        };
        assert_eq!(publish.routing_key, [b'z'; RANDOM_KEY_BYTES]);
        assert!(publish.mandatory && publish.exchange == b"ex");
    }

    #[test]
    fn verified_bodies_of_one_and_of_many_frames() {
        for (size, frame_max) in [(32, 0), (33, 8192), (8184, 8192), (8185, 8192), (50_000, 8192)] {
            let body = stamped_body(size, true);
            let template = Template::new(
                &address(frame_max),
                &Properties::default(),
                &body,
                Marking::Verified,
            );
            let mut message = template.bytes().to_vec();
            template.mark(&mut message, MARK);
            let mut body = body_of(&message);
            assert_eq!((body.len(), verified(&body)), (size, Some(MARK)));
            for at in [0, 13, 25, size - 1] {
                body[at] ^= 1;
                assert_eq!(verified(&body), None, "{size} bytes, changed at {at}");
                body[at] ^= 1;
            }
        }
        assert_eq!(verified(&[0; 31]), None);
    }

    #[test]
    fn a_header_carries_the_stamp_of_foreign_bodies() {
        let template = Template::new(&address(0), &Properties::default(), b"file", Marking::Header);
        let mut message = template.bytes().to_vec();
        template.mark(&mut message, MARK);
        let (_, used) = decode_frame(&message, 0).unwrap().unwrap();
        let (frame, _) = decode_frame(&message[used..], 0).unwrap().unwrap();
        let header = ContentHeader::decode(frame.payload).unwrap();
        let stamp = header.properties.headers().unwrap().get(STAMP_HEADER.as_bytes()).unwrap();
        assert_eq!(stamp.as_i64(), Some(99));
        assert_eq!(body_of(&message), b"file");
    }
}
