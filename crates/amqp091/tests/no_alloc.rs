//! Decoding and encoding what flows per message allocates nothing.

use amqp091::content::encode_content;
use amqp091::method::{BasicAck, BasicDeliver, BasicPublish};
use amqp091::{
    ContentHeader, Frame, Method, Properties, PropertiesRef, ShortString, Table, Value,
    decode_frame,
};

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

fn n_allocations(work: impl FnOnce()) -> u64 {
    let before = counting::in_thread();
    work();
    counting::in_thread().since(before).n_allocations
}

fn next<'a>(input: &mut &'a [u8]) -> Frame<'a> {
    let (frame, used) = decode_frame(input, 131_072).expect("a good frame").expect("a whole frame");
    *input = input.get(used..).unwrap_or_default();
    frame
}

fn properties() -> Vec<u8> {
    let mut inner = Table::new();
    inner.insert(ShortString::from_static("count"), 1_i64);
    let mut headers = Table::new();
    headers.insert(ShortString::from_static("x-death"), vec![Value::Table(inner)]);
    headers.insert(ShortString::from_static("key"), "value");
    Properties {
        headers: Some(headers),
        delivery_mode: Some(2),
        expiration: Some(ShortString::from_static("60000")),
        ..Properties::default()
    }
    .to_bytes()
}

/// Decodes a published message, hands it to a consumer, and decodes the acknowledgement.
fn one_message(published: &[u8], out: &mut Vec<u8>, acks: &mut Vec<u8>) {
    let mut input = published;
    let Ok(Method::BasicPublish(publish)) = Method::decode(next(&mut input).payload) else {
        panic!("not a publish");
    };
    let header = ContentHeader::decode(next(&mut input).payload).expect("a good header");
    assert!(header.properties.is_persistent());
    assert_eq!(header.properties.expiration(), Some(&b"60000"[..]));
    let key = header.properties.headers().and_then(|headers| headers.get(b"key"));
    assert_eq!(key.and_then(|value| value.as_bytes()), Some(&b"value"[..]));
    let body = next(&mut input).payload;
    let deliver = BasicDeliver {
        consumer_tag: b"ctag",
        delivery_tag: 1,
        redelivered: false,
        exchange: publish.exchange,
        routing_key: publish.routing_key,
    };
    deliver.encode_frame(1, out);
    encode_content(1, header.properties, body, 131_072, out);
    BasicAck { delivery_tag: 1, multiple: false }.encode_frame(1, acks);
    let ack = Method::decode(next(&mut &acks[..]).payload);
    assert_eq!(ack, Ok(Method::BasicAck(BasicAck { delivery_tag: 1, multiple: false })));
}

#[test]
fn publish_deliver_and_ack_allocate_nothing() {
    let raw = properties();
    let mut published = Vec::new();
    let publish = BasicPublish { exchange: b"ex", routing_key: b"key", ..BasicPublish::default() };
    publish.encode_frame(1, &mut published);
    encode_content(1, PropertiesRef::trusted(&raw), &[7; 1024], 131_072, &mut published);
    let (mut out, mut acks) = (Vec::with_capacity(4096), Vec::with_capacity(64));
    assert_eq!(n_allocations(|| drop(vec![1_u8])), 1, "the allocator counts");
    assert_eq!(n_allocations(|| one_message(&published, &mut out, &mut acks)), 0);
    assert!(out.len() > 1024);
}
