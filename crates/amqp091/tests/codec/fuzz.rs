//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use proptest::prelude::*;

use crate::strategy::{frame_of, method_payload, properties, table};

#[path = "../../../../fuzz/checks/amqp091.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::run;

fn any_method() -> impl Strategy<Value = Vec<u8>> {
    proptest::sample::select(amqp091::MethodId::ALL)
        .prop_flat_map(|id| method_payload(id, |_| false))
}

fn any_content_header() -> impl Strategy<Value = Vec<u8>> {
    properties().prop_map(|properties| {
        [b"\0\x3c\0\0\0\0\0\0\0\0\0\x07", &properties.to_bytes()[..]].concat()
    })
}

#[test]
fn frame() {
    run("amqp091_frame", checks::frame, any_method().prop_map(|payload| frame_of(1, 1, &payload)));
}

#[test]
fn method() {
    run("amqp091_method", checks::method, any_method());
}

#[test]
fn content_header() {
    run("amqp091_content_header", checks::content_header, any_content_header());
}

#[test]
fn table_entries() {
    run("amqp091_table", checks::table, table().prop_map(|table| table.to_bytes()));
}

#[test]
fn protocol_header() {
    run("amqp091_protocol_header", checks::protocol_header, Just(b"AMQP\0\0\x09\x01".to_vec()));
}
