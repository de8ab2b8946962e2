//! Messages between AMQP 0-9-1 and AMQP 1.0.

use crate::record::MESSAGE;
use crate::{N_OPERATIONS, Piece, Work};
use conversion::{Origin, decode_amqp10, encode_amqp10};
use std::hint::black_box;

pub(crate) const PIECES: &[Piece] = &[
    ("conversion/to-amqp091-12", to_amqp091),
    ("conversion/to-amqp091-stream-12", body_to_amqp091),
    ("conversion/to-amqp10-12", to_amqp10),
];

fn to_amqp10() -> Work {
    let mut out = Vec::new();
    Box::new(move || {
        out.clear();
        for _ in 0..N_OPERATIONS {
            encode_amqp10(black_box(&MESSAGE), &mut out);
        }
        black_box(&out);
    })
}

/// A message that was published over AMQP 0-9-1.
fn to_amqp091() -> Work {
    let mut stored = Vec::new();
    encode_amqp10(&MESSAGE, &mut stored);
    decode(stored)
}

/// A message of a stream client: a body alone.
fn body_to_amqp091() -> Work {
    decode(b"\x00\x53\x75\xa0\x0chello, world".to_vec())
}

fn decode(stored: Vec<u8>) -> Work {
    let mut scratch = Vec::new();
    Box::new(move || {
        for offset in 0..N_OPERATIONS {
            let origin = Origin { stream: b"stream", offset };
            black_box(decode_amqp10(black_box(&stored), origin, &mut scratch));
        }
    })
}
