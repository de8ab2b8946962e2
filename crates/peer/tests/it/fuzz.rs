//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../../fuzz/checks/peer.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::{corpus, run, run_in_pieces};

#[test]
fn handshake() {
    run_in_pieces(&corpus("peer_handshake"), checks::handshake);
    run("peer_handshake", checks::handshake, Just(vec![7; 60]));
}

#[test]
fn frames() {
    run_in_pieces(&corpus("peer_frames"), checks::frames);
    run("peer_frames", checks::frames, Just(vec![40; 60]));
}
