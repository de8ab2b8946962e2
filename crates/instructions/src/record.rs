//! Messages as the broker keeps them.

use crate::codec::PERSISTENT;
use crate::{N_OPERATIONS, Piece, Work};
use message::{Body, MessageRef, parse_record, put_head};
use std::hint::black_box;

pub(crate) const PIECES: &[Piece] = &[("record/read-12", read), ("record/write-12", write)];

pub(crate) const MESSAGE: MessageRef<'_> = MessageRef {
    exchange: b"",
    routing_key: b"queue",
    properties: PERSISTENT,
    body: Body::Borrowed(b"hello, world"),
    persistent: true,
    annotations: message::Annotations::NONE,
    form: message::BodyForm::Plain,
};

fn put(out: &mut Vec<u8>, message: &MessageRef<'_>) {
    put_head(out, message);
    out.extend_from_slice(message.body.bytes());
}

fn write() -> Work {
    let mut page = Vec::new();
    Box::new(move || {
        page.clear();
        for _ in 0..N_OPERATIONS {
            put(&mut page, black_box(&MESSAGE));
        }
        black_box(&page);
    })
}

fn read() -> Work {
    let mut record = Vec::new();
    put(&mut record, &MESSAGE);
    Box::new(move || {
        for _ in 0..N_OPERATIONS {
            black_box(parse_record(black_box(&record), None)).expect("a good record");
        }
    })
}
