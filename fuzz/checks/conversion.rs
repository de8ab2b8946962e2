//! What must hold for any bytes that a stream's publisher may have stored, as they are delivered over
//! AMQP 0-9-1. Shared by the fuzz target and by an ordinary test of the crate, which needs no fuzzer.

use amqp091::{PropertiesRef, ValueRef};
use conversion::{
    DecodeBuffer, DeliveryAttempt, Origin, ReceivedBody, decode_amqp10, properties_bytes_max,
    receive, to_amqp10, to_amqp091,
};
use message::{Annotations, Body, BodyForm, MessageRef};

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
    to_amqp10(&delivered, DeliveryAttempt::FIRST, &mut out);
    assert!(amqp10::MessageRef::parse(&out).is_ok());
    let again = decode(&out, &mut buffer);
    assert_eq!(again.body.bytes(), delivered.body.bytes());
    assert_eq!((again.exchange, again.routing_key), (delivered.exchange, delivered.routing_key));
}

/// A message that is received has a well formed index, goes to clients of AMQP 0-9-1 with well formed properties
/// that are no larger than was foretold, and to those of AMQP 1.0 as what it was, with exchange and routing key.
pub(crate) fn received(input: &[u8]) {
    let mut index = Vec::new();
    let Ok(received) = receive(input, &mut index) else { return };
    assert!(PropertiesRef::parse(&index).is_ok());
    let sections = match &received.body {
        ReceivedBody::From(at) => input.get(*at..).expect("a place in the input"),
        ReceivedBody::Rewritten(sections) => sections,
    };
    let message = MessageRef {
        exchange: b"exchange",
        routing_key: b"key",
        properties: &index,
        body: Body::Borrowed(sections),
        persistent: received.persistent,
        annotations: Annotations::NONE,
        form: BodyForm::Amqp10,
    };
    let (mut out, mut buffer) = (Vec::new(), Vec::new());
    let converted = to_amqp091(&message, &mut buffer);
    assert!(PropertiesRef::parse(converted.properties).is_ok() && converted.form.is_plain());
    assert!(converted.properties.len() <= properties_bytes_max(&message));
    to_amqp10(&message, DeliveryAttempt::FIRST, &mut out);
    let parsed = amqp10::MessageRef::parse(&out).expect("well formed sections");
    let before = amqp10::MessageRef::parse(sections).expect("well formed sections");
    assert_eq!(parsed.message_annotations.len(), before.message_annotations.len() + 2);
    assert_eq!(parsed.body, before.body);
    assert_eq!(parsed.application_properties, before.application_properties);
}

fn decode<'a>(input: &'a [u8], buffer: &'a mut DecodeBuffer) -> MessageRef<'a> {
    decode_amqp10(input, Origin { stream: b"stream", offset: 7 }, buffer)
}
