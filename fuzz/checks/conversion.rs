//! What must hold for any bytes that a stream's publisher may have stored, as they are delivered over
//! AMQP 0-9-1. Shared by the fuzz target and by an ordinary test of the crate, which needs no fuzzer.

use amqp091::{PropertiesRef, ValueRef};
use conversion::{DecodeBuffer, Origin, decode_amqp10, encode_amqp10};
use message::MessageRef;

/// Names fit AMQP 0-9-1, properties are well formed and have the offset once, nothing is larger than what is
/// stored; and what is delivered can be stored again, and has the same body then.
pub(crate) fn stored(input: &[u8]) {
    let mut buffer = DecodeBuffer::default();
    let delivered = decode(input, &mut buffer);
    assert!(delivered.exchange.len() <= 255 && delivered.routing_key.len() <= 255);
    assert!(delivered.body.len() <= input.len());
    let properties = PropertiesRef::parse(delivered.properties).expect("well formed properties");
    let headers = properties.headers().expect("the offset at least");
    let offsets: Vec<_> = headers.iter().filter(|(name, _)| *name == b"x-stream-offset").collect();
    assert_eq!(offsets, [(&b"x-stream-offset"[..], ValueRef::I64(7))]);
    if properties.kind() == Some(b"amqp-1.0") {
        return;
    }
    let (mut out, mut buffer) = (Vec::new(), DecodeBuffer::default());
    encode_amqp10(&delivered, &mut out);
    assert!(amqp10::MessageRef::parse(&out).is_ok());
    let again = decode(&out, &mut buffer);
    assert_eq!(again.body.bytes(), delivered.body.bytes());
    assert_eq!((again.exchange, again.routing_key), (delivered.exchange, delivered.routing_key));
}

fn decode<'a>(input: &'a [u8], buffer: &'a mut DecodeBuffer) -> MessageRef<'a> {
    decode_amqp10(input, Origin { stream: b"stream", offset: 7 }, buffer)
}
