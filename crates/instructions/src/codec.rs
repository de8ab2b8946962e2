//! AMQP 0-9-1 bytes to values and back.

use crate::{N_OPERATIONS, Piece, Work};
use amqp091::content::encode_content;
use amqp091::method::{BasicDeliver, BasicPublish};
use amqp091::{
    ContentHeader, Frame, Method, Properties, PropertiesRef, ShortString, Table, TableRef, Value,
    decode_frame,
};
use std::hint::black_box;

pub(crate) const PIECES: &[Piece] = &[
    ("codec/decode-publish-12", || decode_publish(12)),
    ("codec/decode-publish-1500", || decode_publish(1500)),
    ("codec/encode-delivery-12", || encode_delivery(12)),
    ("codec/encode-delivery-1500", || encode_delivery(1500)),
    ("codec/find-header", find_header),
    ("codec/parse-properties", parse_properties),
    ("codec/parse-table", parse_table),
];

pub(crate) const FRAME_MAX: u32 = 131_072;

/// Property flags and values of a persistent message.
pub(crate) const PERSISTENT: &[u8] = b"\x10\0\x02";

/// Publishes with their content, as a client sends them.
pub(crate) fn publishes(body_bytes: usize) -> Vec<u8> {
    let body = vec![b'x'; body_bytes];
    let mut input = Vec::new();
    for _ in 0..N_OPERATIONS {
        let publish = BasicPublish { routing_key: b"queue", ..BasicPublish::default() };
        publish.encode_frame(1, &mut input);
        encode_content(1, PropertiesRef::trusted(PERSISTENT), &body, FRAME_MAX, &mut input);
    }
    input
}

fn next_frame<'a>(rest: &mut &'a [u8]) -> Option<Frame<'a>> {
    let (frame, used) = decode_frame(rest, FRAME_MAX).expect("good frames")?;
    *rest = rest.split_at(used).1;
    Some(frame)
}

fn decode_publish(body_bytes: usize) -> Work {
    let input = publishes(body_bytes);
    Box::new(move || {
        let mut rest = black_box(input.as_slice());
        while let Some(method) = next_frame(&mut rest) {
            let header = next_frame(&mut rest).expect("a header");
            let body = next_frame(&mut rest).expect("a body");
            black_box(Method::decode(method.payload)).expect("a method");
            black_box(ContentHeader::decode(header.payload)).expect("a header");
            black_box(body.payload);
        }
    })
}

fn encode_delivery(body_bytes: usize) -> Work {
    let body = vec![b'x'; body_bytes];
    let mut out = Vec::new();
    Box::new(move || {
        out.clear();
        for delivery_tag in 0..N_OPERATIONS {
            let deliver = BasicDeliver {
                consumer_tag: b"consumer",
                delivery_tag,
                redelivered: false,
                exchange: b"",
                routing_key: b"queue",
            };
            deliver.encode_frame(1, &mut out);
            let properties = PropertiesRef::trusted(PERSISTENT);
            encode_content(1, properties, black_box(&body), FRAME_MAX, &mut out);
        }
        black_box(&out);
    })
}

/// Headers of the usual kind.
pub(crate) fn headers() -> Table {
    let mut death = Table::new();
    death.insert(ShortString::from_static("count"), 1_i64);
    death.insert(ShortString::from_static("queue"), "orders");
    let mut headers = Table::new();
    headers.insert(ShortString::from_static("type"), "order.created");
    headers.insert(ShortString::from_static("version"), 3_i64);
    headers.insert(ShortString::from_static("traced"), true);
    headers.insert(ShortString::from_static("x-death"), vec![Value::Table(death)]);
    headers.insert(ShortString::from_static("tenant"), "acme");
    headers
}

fn parse_table() -> Work {
    let bytes = headers().to_bytes();
    Box::new(move || {
        for _ in 0..N_OPERATIONS {
            black_box(TableRef::parse(black_box(&bytes))).expect("a good table");
        }
    })
}

fn find_header() -> Work {
    let bytes = headers().to_bytes();
    Box::new(move || {
        for _ in 0..N_OPERATIONS {
            black_box(TableRef::trusted(black_box(&bytes)).get(b"tenant")).expect("it is there");
        }
    })
}

fn parse_properties() -> Work {
    let properties = Properties {
        content_type: Some(ShortString::from_static("application/json")),
        headers: Some(headers()),
        delivery_mode: Some(2),
        correlation_id: Some(ShortString::from_static("a-correlation-id")),
        ..Properties::default()
    };
    let bytes = properties.to_bytes();
    Box::new(move || {
        for _ in 0..N_OPERATIONS {
            black_box(PropertiesRef::parse(black_box(&bytes))).expect("good properties");
        }
    })
}
