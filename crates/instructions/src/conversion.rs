//! Messages between AMQP 0-9-1 and AMQP 1.0.

use crate::record::MESSAGE;
use crate::{N_OPERATIONS, Piece, Work};
use amqp091::{Properties, ShortString};
use conversion::{DecodeBuffer, DeliveryAttempt, Origin, decode_amqp10};
use message::MessageRef;
use std::hint::black_box;

pub(crate) const PIECES: &[Piece] = &[
    ("conversion/to-amqp091-12", to_amqp091),
    ("conversion/to-amqp091-stream-12", body_to_amqp091),
    ("conversion/to-amqp091-unlike-12", unlike_to_amqp091),
    ("conversion/to-amqp10-12", to_amqp10),
];

fn to_amqp10() -> Work {
    let mut out = Vec::new();
    Box::new(move || {
        out.clear();
        for _ in 0..N_OPERATIONS {
            conversion::to_amqp10(black_box(&MESSAGE), DeliveryAttempt::FIRST, &mut out);
        }
        black_box(&out);
    })
}

fn encode(message: &MessageRef<'_>) -> Vec<u8> {
    let mut stored = Vec::new();
    conversion::to_amqp10(message, DeliveryAttempt::FIRST, &mut stored);
    stored
}

/// Messages that were published over AMQP 0-9-1.
fn to_amqp091() -> Work {
    decode(vec![encode(&MESSAGE)])
}

/// Messages with ids and times of their own.
fn unlike_to_amqp091() -> Work {
    let stored = ["first", "other"].map(|id| {
        let properties = Properties {
            content_type: Some(ShortString::from_static("text/plain")),
            delivery_mode: Some(2),
            message_id: Some(ShortString::from_static(id)),
            timestamp: Some(1_700_000_000),
            ..Properties::default()
        };
        encode(&MessageRef { properties: &properties.to_bytes(), ..MESSAGE })
    });
    decode(stored.to_vec())
}

/// Messages of a stream client: a body alone.
fn body_to_amqp091() -> Work {
    decode(vec![b"\x00\x53\x75\xa0\x0chello, world".to_vec()])
}

fn decode(stored: Vec<Vec<u8>>) -> Work {
    let mut buffer = DecodeBuffer::default();
    Box::new(move || {
        for (offset, stored) in (0..N_OPERATIONS).zip(stored.iter().cycle()) {
            let origin = Origin { stream: b"stream", offset };
            black_box(decode_amqp10(black_box(stored), origin, &mut buffer));
        }
    })
}
