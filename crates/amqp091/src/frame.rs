//! Frames and the protocol header in front of them.
//!
//! ```text
//! 0        1        3            7              7+size  8+size
//! +--------+--------+------------+--------------+--------+    integers are big-endian
//! |  kind  |channel |    size    |   payload    |  0xCE  |    size <= frame_max - 8
//! |   u8   |  u16   |    u32     |  size octets |        |
//! +--------+--------+------------+--------------+--------+
//! kind: 1 method, 2 content header, 3 content body, 8 heartbeat
//!
//! protocol header, once, from the client:   'A' 'M' 'Q' 'P'  0  0  9  1
//! ```

use crate::error::WireError;
use crate::spec::{
    FRAME_END, FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, UNLIMITED_PAYLOAD_BYTES_MAX,
};

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// A method: see [`crate::method::Method::decode`].
    Method = 1,
    /// A content header: see [`crate::content::ContentHeader::decode`].
    Header = 2,
    /// A piece of a message body.
    Body = 3,
    /// A sign of life, without payload.
    Heartbeat = 8,
}

impl FrameKind {
    const fn from_octet(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Method),
            2 => Some(Self::Header),
            3 => Some(Self::Body),
            8 => Some(Self::Heartbeat),
            _ => None,
        }
    }

    /// The type octet.
    pub const fn octet(self) -> u8 {
        match self {
            Self::Method => 1,
            Self::Header => 2,
            Self::Body => 3,
            Self::Heartbeat => 8,
        }
    }
}

/// A frame, looking into the bytes it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of the payload.
    pub kind: FrameKind,
    /// The channel it belongs to; 0 is the connection itself.
    pub channel: u16,
    /// Everything between the frame's header and its end octet.
    pub payload: &'a [u8],
}

/// Takes the first frame from `input`: the frame and the number of bytes it occupies, or `None`
/// if it is not complete yet. `frame_max` 0 means that no limit was negotiated.
///
/// COMPAT: RabbitMQ tolerates payloads up to 8 octets larger than `frame_max` allows, since clients
/// forget the octets around the payload. Test:
/// `a_frame_that_is_too_large_is_refused_by_its_header`.
///
/// # Errors
/// As soon as the frame's header shows that the frame cannot be accepted, or when its end octet is
/// wrong.
#[inline]
pub fn decode_frame(input: &[u8], frame_max: u32) -> Result<Option<(Frame<'_>, usize)>, WireError> {
    let Some((&[kind, c0, c1, s0, s1, s2, s3], rest)) =
        input.split_first_chunk::<FRAME_HEADER_BYTES>()
    else {
        return Ok(None);
    };
    let channel = u16::from_be_bytes([c0, c1]);
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    let tolerated = payload_bytes_tolerated(frame_max);
    if size > tolerated {
        let size_max = tolerated.saturating_sub(FRAME_OVERHEAD_BYTES);
        return Err(WireError::FrameTooLarge { kind, channel, size, size_max });
    }
    let unknown = WireError::UnknownFrame { kind, channel };
    let frame_kind = FrameKind::from_octet(kind).ok_or(unknown)?;
    if frame_kind == FrameKind::Heartbeat && size != 0 {
        return Err(unknown);
    }
    let Some((payload, [end, ..])) =
        usize::try_from(size).ok().and_then(|size| rest.split_at_checked(size))
    else {
        return Ok(None);
    };
    if *end != FRAME_END {
        return Err(WireError::FrameEnd { kind, channel, found: *end });
    }
    let len = FRAME_HEADER_BYTES + payload.len() + 1;
    Ok(Some((Frame { kind: frame_kind, channel, payload }, len)))
}

/// The largest payload that is accepted.
#[inline]
pub(crate) const fn payload_bytes_tolerated(frame_max: u32) -> u32 {
    if frame_max == 0 { UNLIMITED_PAYLOAD_BYTES_MAX } else { frame_max }
}

/// Bytes of a message body that fit one frame; at least one.
#[must_use]
pub const fn body_payload_bytes_max(frame_max: u32) -> u32 {
    match frame_max {
        0 => UNLIMITED_PAYLOAD_BYTES_MAX,
        1..=FRAME_OVERHEAD_BYTES => 1,
        _ => frame_max - FRAME_OVERHEAD_BYTES,
    }
}

/// The octets in front of a payload of `size` bytes, for writers that hand the payload to the
/// socket themselves; [`FRAME_END`] goes behind it.
#[must_use]
#[inline]
pub const fn frame_header(kind: FrameKind, channel: u16, size: u32) -> [u8; FRAME_HEADER_BYTES] {
    let [c0, c1] = channel.to_be_bytes();
    let [s0, s1, s2, s3] = size.to_be_bytes();
    [kind.octet(), c0, c1, s0, s1, s2, s3]
}

/// A heartbeat, complete.
pub const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, FRAME_END];

/// Appends a frame whose payload is what `payload` appends; the size is patched in afterwards.
#[inline]
pub(crate) fn put_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    channel: u16,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let [c0, c1] = channel.to_be_bytes();
    out.extend_from_slice(&[kind.octet(), c0, c1]);
    crate::wire::put_with_len(out, payload);
    out.push(FRAME_END);
}

/// The protocol header, a client's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolHeader {
    /// `AMQP` and four octets: protocol id, then major, minor and revision, or for old versions
    /// class and instance 1 1, then major and minor.
    Amqp([u8; 4]),
    /// An HTTP request on the wrong port.
    HttpGet,
    /// A TLS handshake on the port without TLS.
    TlsClientHello,
    /// Anything else.
    Unknown([u8; 8]),
}

impl ProtocolHeader {
    /// AMQP 0-9-1.
    pub const AMQP_0_9_1: Self = Self::Amqp([0, 0, 9, 1]);
    /// AMQP 0-9. COMPAT: RabbitMQ treats it as 0-9-1. Test: `protocol_headers`.
    pub const AMQP_0_9: Self = Self::Amqp([1, 1, 0, 9]);
    /// The number of octets.
    pub const BYTES: usize = 8;

    /// Takes the protocol header from the front of `input`, or `None` if fewer than eight octets
    /// are there. A TLS or HTTP greeting is recognised by the same eight octets.
    #[must_use]
    pub fn decode(input: &[u8]) -> Option<Self> {
        let header: &[u8; Self::BYTES] = input.first_chunk()?;
        Some(match *header {
            [b'A', b'M', b'Q', b'P', a, b, c, d] => Self::Amqp([a, b, c, d]),
            [b'G', b'E', b'T', b' ', ..] => Self::HttpGet,
            [0x16, 0x03, _, _, _, 0x01, ..] => Self::TlsClientHello,
            other => Self::Unknown(other),
        })
    }

    /// Whether this connection speaks what this crate encodes.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self == Self::AMQP_0_9_1 || self == Self::AMQP_0_9
    }

    /// The octets on the wire, for AMQP headers.
    #[must_use]
    pub const fn encode_amqp(version: [u8; 4]) -> [u8; Self::BYTES] {
        let [a, b, c, d] = version;
        [b'A', b'M', b'Q', b'P', a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_and_what_follows_it() {
        let input = [3, 0, 7, 0, 0, 0, 2, b'h', b'i', 0xCE, 1];
        let frame = Frame { kind: FrameKind::Body, channel: 7, payload: b"hi" };
        assert_eq!(decode_frame(&input, 8192), Ok(Some((frame, 10))));
        for cut in 0..10 {
            assert_eq!(decode_frame(&input[..cut], 8192), Ok(None), "cut at {cut}");
        }
        assert_eq!(decode_frame(&HEARTBEAT, 8192).unwrap().unwrap().0.kind, FrameKind::Heartbeat);
    }

    #[test]
    fn a_frame_that_is_too_large_is_refused_by_its_header() {
        let header = frame_header(FrameKind::Method, 1, 8193);
        let error = WireError::FrameTooLarge { kind: 1, channel: 1, size: 8193, size_max: 8184 };
        assert_eq!(decode_frame(&header, 8192), Err(error));
        assert_eq!(error.to_string(), "type 1, all octets = <<>>: {frame_too_large,8193,8184}");
        // Up to eight octets too many are tolerated.
        assert_eq!(decode_frame(&frame_header(FrameKind::Method, 1, 8192), 8192), Ok(None));
        assert!(decode_frame(&frame_header(FrameKind::Body, 1, u32::MAX), 0).is_err());
        assert_eq!(decode_frame(&frame_header(FrameKind::Body, 1, 1 << 24), 0), Ok(None));
    }

    #[test]
    fn wrong_end_kind_and_heartbeat() {
        let wrong_end = [3, 0, 7, 0, 0, 0, 1, b'h', 0xCD];
        let error = WireError::FrameEnd { kind: 3, channel: 7, found: 0xCD };
        assert_eq!(decode_frame(&wrong_end, 8192), Err(error));
        let unknown = [4, 0, 7, 0, 0, 0, 1];
        assert_eq!(
            decode_frame(&unknown, 8192),
            Err(WireError::UnknownFrame { kind: 4, channel: 7 })
        );
        let heartbeat = [8, 0, 0, 0, 0, 0, 1];
        assert_eq!(
            decode_frame(&heartbeat, 8192),
            Err(WireError::UnknownFrame { kind: 8, channel: 0 })
        );
    }

    #[test]
    fn protocol_headers() {
        assert_eq!(ProtocolHeader::decode(b"AMQP\0\0\x09\x01"), Some(ProtocolHeader::AMQP_0_9_1));
        assert!(ProtocolHeader::decode(b"AMQP\x01\x01\0\x09").unwrap().is_supported());
        assert!(!ProtocolHeader::Amqp([3, 1, 0, 0]).is_supported());
        assert_eq!(ProtocolHeader::decode(b"GET / HTTP/1.1"), Some(ProtocolHeader::HttpGet));
        assert_eq!(
            ProtocolHeader::decode(&[0x16, 3, 1, 2, 0, 1, 0, 0]),
            Some(ProtocolHeader::TlsClientHello)
        );
        assert_eq!(
            ProtocolHeader::decode(b"nonsense"),
            Some(ProtocolHeader::Unknown(*b"nonsense"))
        );
        assert_eq!(ProtocolHeader::decode(b"AMQP\0\0\x09"), None);
        assert_eq!(&ProtocolHeader::encode_amqp([0, 0, 9, 1]), b"AMQP\0\0\x09\x01");
    }
}
