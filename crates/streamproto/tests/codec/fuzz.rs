//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use proptest::prelude::*;

use crate::grammar::{TO_CLIENT, TO_SERVER, any_frame};

#[path = "../../../../fuzz/checks/streamproto.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::run;

fn sized(frame: &[u8]) -> Vec<u8> {
    [&u32::try_from(frame.len()).expect("small").to_be_bytes()[..], frame].concat()
}

#[test]
fn frame() {
    let any = prop_oneof![any_frame(TO_SERVER), any_frame(TO_CLIENT)];
    run("streamproto_frame", checks::frame, any.prop_map(|frame| sized(&frame)));
}

#[test]
fn chunk() {
    run("streamproto_chunk", checks::chunk, Just(vec![0x50; 60]));
}
