//! Messages there and back: RabbitMQ's conversions one by one, any message, and any bytes.

mod fuzz;
mod known;
mod round_trip;
mod sections;
mod sequence;

use amqp091::{Properties, PropertiesRef, ShortString, Table, Value};
use conversion::{DecodeBuffer, DeliveryAttempt, Origin, decode_amqp10};
use message::{Annotations, Body, BodyForm, MessageRef};

const STREAM: &[u8] = b"stream";
const OFFSET: u64 = 42;

fn short(text: &'static str) -> ShortString {
    ShortString::from_static(text)
}

fn table<const N: usize>(entries: [(&'static str, Value); N]) -> Table {
    entries.into_iter().map(|(name, value)| (short(name), value)).collect()
}

/// A message as it was published.
fn published<'a>(properties: &'a [u8], body: &'a [u8]) -> MessageRef<'a> {
    MessageRef {
        exchange: b"orders",
        routing_key: b"eu.de",
        properties,
        body: Body::Borrowed(body),
        persistent: PropertiesRef::trusted(properties).is_persistent(),
        annotations: Annotations::NONE,
        form: BodyForm::Plain,
    }
}

fn stored(message: &MessageRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    conversion::to_amqp10(message, DeliveryAttempt::FIRST, &mut out);
    out
}

/// Exchange, routing key, properties and body of a stored message as it is delivered.
#[derive(Debug, PartialEq)]
struct Delivered {
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    properties: Properties,
    body: Vec<u8>,
}

fn delivered(stored: &[u8]) -> Delivered {
    delivered_after(&mut DecodeBuffer::default(), stored, OFFSET)
}

fn delivered_after(buffer: &mut DecodeBuffer, stored: &[u8], offset: u64) -> Delivered {
    let origin = Origin { stream: STREAM, offset };
    let message = decode_amqp10(stored, origin, buffer);
    let properties = PropertiesRef::parse(message.properties).expect("well formed properties");
    assert_eq!(message.persistent, properties.is_persistent());
    Delivered {
        exchange: message.exchange.to_vec(),
        routing_key: message.routing_key.to_vec(),
        properties: properties.to_owned().expect("well formed properties"),
        body: message.body.bytes().to_vec(),
    }
}

/// A message's properties after it was stored and delivered.
fn there_and_back(properties: &Properties) -> Properties {
    delivered(&stored(&published(&properties.to_bytes(), b"body"))).properties
}
