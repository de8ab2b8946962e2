//! Frames and protocol headers.

use amqp10::{
    FrameError, FrameRef, FrameType, ProtocolLayer, SerialNumber, decode_frame, frame_size,
    put_empty_frame, put_frame,
};

const MAX: u32 = 512;

#[test]
fn protocol_headers_name_their_layers() {
    for (layer, header) in [
        (ProtocolLayer::Amqp, *b"AMQP\x00\x01\x00\x00"),
        (ProtocolLayer::Tls, *b"AMQP\x02\x01\x00\x00"),
        (ProtocolLayer::Sasl, *b"AMQP\x03\x01\x00\x00"),
    ] {
        assert_eq!(ProtocolLayer::of_header(header), Some(layer));
        assert_eq!(layer.header(), header);
    }
    assert_eq!(ProtocolLayer::of_header(*b"AMQP\x00\x00\x09\x01"), None);
    assert_eq!(ProtocolLayer::of_header(*b"GET / HT"), None);
}

#[test]
fn a_frame_is_decoded_once_all_of_it_is_there() {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, FrameType::Amqp, 258, |out| out.extend_from_slice(b"body"));
    assert_eq!(bytes, b"\x00\x00\x00\x0c\x02\x00\x01\x02body");
    assert_eq!(frame_size(&bytes), Some(12));
    for n in 0..bytes.len() {
        assert_eq!(decode_frame(&bytes[..n], FrameType::Amqp, MAX), Ok(None));
    }
    put_empty_frame(&mut bytes);
    let first = FrameRef { channel: 258, body: b"body" };
    assert_eq!(decode_frame(&bytes, FrameType::Amqp, MAX), Ok(Some((first, 12))));
    let empty = FrameRef { channel: 0, body: b"" };
    assert_eq!(decode_frame(&bytes[12..], FrameType::Amqp, MAX), Ok(Some((empty, 8))));
}

#[test]
fn an_extended_header_is_passed_over() {
    let bytes = b"\x00\x00\x00\x0e\x03\x01\x00\x00extebo";
    let frame = FrameRef { channel: 0, body: b"bo" };
    assert_eq!(decode_frame(bytes, FrameType::Sasl, MAX), Ok(Some((frame, 14))));
}

#[test]
fn a_bad_header_is_refused_before_the_frame_is_there() {
    let cases: &[(&[u8; 8], FrameError, &str)] = &[
        (
            b"\x00\x00\x00\x07\x02\x00\x00\x00",
            FrameError::TooSmall { size: 7 },
            "frame size (7 bytes) < minimum frame size (8 bytes)",
        ),
        (
            b"\x00\x03\x0d\x40\x02\x00\x00\x00",
            FrameError::TooLarge { size: 200_000, max: MAX },
            "frame size (200000 bytes) > maximum frame size (512 bytes)",
        ),
        (
            b"\x00\x00\x00\x10\x01\x00\x00\x00",
            FrameError::OffsetTooSmall(1),
            "data offset (1) < minimum data offset (2)",
        ),
        (
            b"\x00\x00\x00\x10\x05\x00\x00\x00",
            FrameError::OffsetTooLarge { offset: 20, size: 16 },
            "data offset (20 bytes) > frame size (16 bytes)",
        ),
        (
            b"\x00\x00\x00\x10\x02\x01\x00\x00",
            FrameError::Type { found: 1, expected: FrameType::Amqp },
            "unexpected frame type 1 in amqp mode (expected 0)",
        ),
    ];
    for (bytes, error, text) in cases {
        assert_eq!(decode_frame(*bytes, FrameType::Amqp, MAX), Err(*error));
        assert_eq!(error.to_string(), *text);
    }
}

#[test]
fn serial_numbers_wrap_around() {
    let last = SerialNumber::new(u32::MAX);
    let zero = last.plus(1);
    assert_eq!((zero.bits(), zero.since(last)), (0, 1));
    assert!(last.is_before(zero) && !zero.is_before(last) && !zero.is_before(zero));
    assert!(zero.is_before(zero.plus(0x7fff_ffff)) && !zero.is_before(zero.plus(0x8000_0000)));
}
