//! What must hold for any frames of AMQP 1.0's codec. Shared by the fuzz targets and by an ordinary test of
//! the crate, which needs no fuzzer.

use amqp10::{
    DecodeError, FrameType, MessageOutline, MessageRef, Performative, SaslPerformative, Sections,
    ValueRef, decode_frame, frame_size, split_message_annotations,
};

const FRAME_BYTES_MAX: u32 = 8192;

/// Frames: each lies within the input and has the size that its header says.
pub(crate) fn frame(input: &[u8]) {
    for (frame_type, body) in
        [(FrameType::Amqp, performative as fn(&[u8])), (FrameType::Sasl, sasl_performative)]
    {
        let mut rest = input;
        while let Ok(Some((frame, used))) = decode_frame(rest, frame_type, FRAME_BYTES_MAX) {
            assert_eq!(frame_size(rest), Some(used));
            assert!(used >= 8 && frame.body.len() <= used - 8);
            body(frame.body);
            rest = rest.get(used..).expect("no more than the input");
        }
    }
}

/// A frame's body: what is decoded encodes to something that decodes to the same. It may be longer only by
/// what an array has in front of a symbol that stood alone, for which the performative has at most seven
/// places.
pub(crate) fn performative(input: &[u8]) {
    match Performative::decode(input) {
        Ok((performative, payload)) => {
            assert!(input.ends_with(payload));
            let mut out = Vec::new();
            performative.encode(&mut out);
            assert!(out.len() <= input.len() - payload.len() + 64);
            assert_eq!(Performative::decode(&out), Ok((performative, &b""[..])));
        }
        Err(error) => refused(error),
    }
}

fn sasl_performative(input: &[u8]) {
    match SaslPerformative::decode(input) {
        Ok(performative) => {
            let mut out = Vec::new();
            performative.encode(&mut out);
            assert_eq!(SaslPerformative::decode(&out), Ok(performative));
        }
        Err(error) => refused(error),
    }
}

/// A value: what is decoded encodes to something that decodes, and encodes to the same again.
pub(crate) fn value(input: &[u8]) {
    match ValueRef::decode(input) {
        Ok((value, used)) => {
            assert!(used <= input.len());
            let mut out = Vec::new();
            value.encode(&mut out);
            let (again, n_bytes) = ValueRef::decode(&out).expect("what was written is valid");
            assert_eq!(n_bytes, out.len());
            let mut second = Vec::new();
            again.encode(&mut second);
            assert_eq!(second, out);
        }
        Err(error) => refused(error),
    }
}

/// A message: what is parsed is what its sections are, one by one, and what they are again once encoded.
pub(crate) fn sections(input: &[u8]) {
    let (annotations, rest) = split_message_annotations(input);
    assert!(input.ends_with(rest));
    let outline = MessageOutline::parse(input);
    let message = match MessageRef::parse(input) {
        Ok(message) => message,
        Err(error) => {
            assert!(outline.is_err());
            return refused(error);
        }
    };
    if let Ok(outline) = outline {
        assert_eq!(outline.message_annotations, message.message_annotations);
        assert_eq!(outline.header, message.header.unwrap_or_default());
    }
    if message.header.is_none() && rest.len() < input.len() {
        assert_eq!(annotations, message.message_annotations);
    }
    let mut out = Vec::new();
    for section in Sections::new(input) {
        section.expect("the message is valid").encode(&mut out);
    }
    let again: Vec<_> = Sections::new(&out).collect();
    assert!(again.iter().all(Result::is_ok) && again.len() == Sections::new(input).count());
    assert!(MessageRef::parse(&out).is_ok());
}

fn refused(error: DecodeError) {
    assert!(!error.to_string().is_empty());
}
