//! Content: what follows a publish, deliver, get-ok or return. One header frame, then body frames.
//!
//! ```text
//! header payload:  class:u16 = 60   weight:u16 = 0   body_size:u64   properties
//! properties:      flags:u16 values...      bit 15 is the first property, bit 2 the last,
//!                                           bit 1 unused, bit 0 announces more flags (never set)
//! body payload:    body bytes; a body of size 0 has no body frame
//! ```

mod properties;
mod view;
mod writer;

pub use properties::Properties;
pub use view::PropertiesRef;
pub use writer::PropertiesWriter;

use crate::error::WireError;
use crate::frame::{FrameKind, body_payload_bytes_max, frame_header, put_frame};
use crate::spec::{CLASS_BASIC, FRAME_END};
use crate::wire::WireCursor;

/// Octets of a content header's payload in front of the properties.
pub const HEADER_FIXED_BYTES: usize = 12;

/// The payload of a content header frame, looking into the bytes it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// The class of the method before; always [`CLASS_BASIC`].
    pub class_id: u16,
    /// The size of the body to come, in bytes. Nothing limits it here.
    pub body_size: u64,
    /// The properties, in the bytes they came in.
    pub properties: PropertiesRef<'a>,
}

impl<'a> ContentHeader<'a> {
    /// Decodes the payload of a header frame and checks the properties once, headers included.
    ///
    /// # Errors
    /// Another class than basic, a weight, malformed properties.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = WireCursor::new(payload);
        let (Ok(class_id), Ok(weight), Ok(body_size)) = (reader.u16(), reader.u16(), reader.u64())
        else {
            return Err(WireError::ShortPayload);
        };
        if weight != 0 {
            return Err(WireError::ContentWeight);
        }
        if class_id != CLASS_BASIC {
            return Err(WireError::ContentClass(class_id));
        }
        let properties = PropertiesRef::parse(reader.rest()).map_err(WireError::Properties)?;
        Ok(Self { class_id, body_size, properties })
    }

    /// Appends the whole frame.
    #[inline]
    pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
        put_frame(out, FrameKind::Header, channel, |out| {
            out.extend_from_slice(&self.class_id.to_be_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&self.body_size.to_be_bytes());
            out.extend_from_slice(self.properties.as_bytes());
        });
    }
}

/// Appends header and body frames of one message; the body is split so that every frame fits
/// `frame_max` (0: no limit). The header frame is not split: keeping properties below
/// `frame_max` is up to the caller.
#[inline]
pub fn encode_content(
    channel: u16,
    properties: PropertiesRef<'_>,
    body: &[u8],
    frame_max: u32,
    out: &mut Vec<u8>,
) {
    encode_content_header(channel, properties, body.len(), out);
    encode_body(channel, body, frame_max, out);
}

/// Appends the header frame for a body of `body_len` bytes.
#[inline]
pub fn encode_content_header(
    channel: u16,
    properties: PropertiesRef<'_>,
    body_len: usize,
    out: &mut Vec<u8>,
) {
    let body_size = u64::try_from(body_len).unwrap_or(u64::MAX);
    let header = ContentHeader { class_id: CLASS_BASIC, body_size, properties };
    header.encode_frame(channel, out);
}

/// Appends the body frames; none for an empty body.
#[inline]
pub fn encode_body(channel: u16, body: &[u8], frame_max: u32, out: &mut Vec<u8>) {
    let piece_bytes_max = usize::try_from(body_payload_bytes_max(frame_max)).unwrap_or(usize::MAX);
    for piece in body.chunks(piece_bytes_max) {
        let size = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&frame_header(FrameKind::Body, channel, size));
        out.extend_from_slice(piece);
        out.push(FRAME_END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FieldError;
    use crate::frame::decode_frame;

    #[test]
    fn header_and_body_frames_fit_frame_max() {
        let body: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        let properties = PropertiesRef::parse(b"\x10\x00\x02").unwrap();
        let mut out = Vec::new();
        encode_content(3, properties, &body, 8192, &mut out);
        let (frame, used) = decode_frame(&out, 8192).unwrap().unwrap();
        assert_eq!((frame.kind, frame.channel), (FrameKind::Header, 3));
        let header = ContentHeader::decode(frame.payload).unwrap();
        assert_eq!(header.body_size, 20_000);
        assert_eq!(header.properties.delivery_mode(), Some(2));
        let (mut rest, mut sizes, mut received) = (&out[used..], Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (frame, used) = decode_frame(rest, 8192).unwrap().unwrap();
            assert_eq!((frame.kind, frame.channel), (FrameKind::Body, 3));
            sizes.push(frame.payload.len());
            received.extend_from_slice(frame.payload);
            rest = &rest[used..];
        }
        assert_eq!(sizes, [8184, 8184, 3632]);
        assert_eq!(received, body);
    }

    #[test]
    fn an_empty_body_has_no_frame_and_no_limit_means_one_frame() {
        let mut out = Vec::new();
        encode_body(1, b"", 8192, &mut out);
        assert!(out.is_empty());
        encode_body(1, &[0; 300_000], 0, &mut out);
        assert_eq!(out.len(), 300_008);
    }

    #[test]
    fn bad_headers_are_told_apart() {
        let header = |class: u8, weight: u8, properties: &[u8]| {
            let mut payload = vec![0, class, 0, weight, 0, 0, 0, 0, 0, 0, 0, 9];
            payload.extend_from_slice(properties);
            payload
        };
        assert!(ContentHeader::decode(&header(60, 0, b"\0\0")).is_ok());
        let cases = [
            (header(50, 0, b"\0\0"), WireError::ContentClass(50)),
            (header(60, 1, b"\0\0"), WireError::ContentWeight),
            (header(60, 0, b"\0"), WireError::Properties(FieldError::Truncated)),
            (header(60, 0, b"\x10\0"), WireError::Properties(FieldError::Truncated)),
            (header(60, 0, b"\0\0x"), WireError::Properties(FieldError::TrailingBytes)),
            (header(60, 0, b"\0\x01\0\0"), WireError::Properties(FieldError::FlagsContinued)),
            (vec![0, 60, 0, 0], WireError::ShortPayload),
        ];
        for (payload, error) in cases {
            assert_eq!(ContentHeader::decode(&payload), Err(error));
        }
    }
}
