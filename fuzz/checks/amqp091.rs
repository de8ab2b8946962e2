//! What must hold for any input of the AMQP 0-9-1 codec. Shared by the fuzz targets and by an
//! ordinary test of the crate, which needs no fuzzer.

use amqp091::{ContentHeader, FrameKind, Method, PropertiesRef, ProtocolHeader, TableRef};
use amqp091::{decode_frame, frame};

const FRAME_MAX: u32 = 8192;

/// A stream of frames: each one lies within the input and encodes to the bytes it came from.
pub(crate) fn frame(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some((frame, used))) = decode_frame(rest, FRAME_MAX) {
        let (head, tail) = rest.split_at(used);
        let size = u32::try_from(frame.payload.len()).expect("frames are limited");
        assert!(size <= FRAME_MAX);
        let again = [
            &frame::frame_header(frame.kind, frame.channel, size)[..],
            frame.payload,
            &[amqp091::spec::FRAME_END],
        ];
        assert_eq!(again.concat(), head);
        match frame.kind {
            FrameKind::Method => method(frame.payload),
            FrameKind::Header => content_header(frame.payload),
            FrameKind::Body => {}
            FrameKind::Heartbeat => assert!(frame.payload.is_empty()),
        }
        rest = tail;
    }
}

/// A method's payload: what is decoded encodes to something that decodes to the same.
pub(crate) fn method(payload: &[u8]) {
    let method = match Method::decode(payload) {
        Ok(method) => method,
        Err(error) => {
            assert!(error.reply_code().is_hard());
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(!method.name().is_empty());
    let mut out = Vec::new();
    method.encode_frame(1, &mut out);
    let (frame, used) = decode_frame(&out, 0).expect("own frame").expect("whole frame");
    assert_eq!((used, frame.kind), (out.len(), FrameKind::Method));
    assert_eq!(frame.payload.len(), payload.len());
    assert_eq!(Method::decode(frame.payload), Ok(method));
}

/// A content header's payload: all properties can be read, copied and written again.
pub(crate) fn content_header(payload: &[u8]) {
    let Ok(header) = ContentHeader::decode(payload) else {
        // Unchecked, the same bytes may be misread, but only within their bounds.
        let view = PropertiesRef::trusted(payload);
        let n_read = view.to_owned().map_or(0, |owned| owned.to_bytes().len());
        assert!(n_read <= payload.len().max(2));
        return;
    };
    let mut out = Vec::new();
    header.encode_frame(1, &mut out);
    let (frame, _) = decode_frame(&out, 0).expect("own frame").expect("whole frame");
    assert_eq!(frame.payload, payload);
    let owned = header.properties.to_owned().expect("checked properties");
    let raw = owned.to_bytes();
    let again = PropertiesRef::parse(&raw).expect("own properties");
    assert_eq!(again.to_owned().as_ref(), Ok(&owned));
    let mut without = Vec::new();
    header.properties.encode_with_headers(None, &mut without);
    let without = PropertiesRef::parse(&without).expect("properties without headers").to_owned();
    assert_eq!(without, Ok(amqp091::Properties { headers: None, ..owned }));
}

/// A table's entries: what is valid can be copied and written again at the same length.
pub(crate) fn table(entries: &[u8]) {
    let Ok(view) = TableRef::parse(entries) else {
        let view = TableRef::trusted(entries);
        assert!(view.iter().count() <= entries.len());
        assert!(view.to_owned().is_err());
        return;
    };
    let owned = view.to_owned().expect("a checked table");
    assert_eq!(view.iter().count(), owned.len());
    let bytes = owned.to_bytes();
    assert_eq!(bytes.len(), entries.len());
    assert_eq!(TableRef::parse(&bytes).and_then(|view| view.to_owned()), Ok(owned));
}

/// The first octets of a connection.
pub(crate) fn protocol_header(input: &[u8]) {
    match ProtocolHeader::decode(input) {
        None => assert!(input.len() < ProtocolHeader::BYTES),
        Some(ProtocolHeader::Amqp(version)) => {
            assert!(input.starts_with(&ProtocolHeader::encode_amqp(version)));
        }
        Some(ProtocolHeader::Unknown(bytes)) => assert!(input.starts_with(&bytes)),
        Some(ProtocolHeader::HttpGet | ProtocolHeader::TlsClientHello) => {}
    }
}
