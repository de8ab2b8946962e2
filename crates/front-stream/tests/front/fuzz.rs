//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../../fuzz/checks/front_stream.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

#[test]
fn the_corpus_holds() {
    let inputs = inputs::corpus("front_stream");
    assert!(inputs.len() >= 9);
    inputs::run_in_pieces(&inputs, checks::conversation);
}

proptest! {
    #[test]
    fn random_conversations_hold(
        size in any::<u8>(),
        frames in prop::collection::vec(
            (0..31_u8, 1..3_u8, prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..60)),
            0..12,
        ),
    ) {
        let mut input = vec![size];
        for (key, version, fields) in &frames {
            input.extend(u32::try_from(fields.len() + 4).unwrap().to_be_bytes());
            input.extend_from_slice(&[0, *key, 0, *version]);
            input.extend_from_slice(fields);
        }
        checks::conversation(&input);
    }
}
