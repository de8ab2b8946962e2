//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../../fuzz/checks/front.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

#[test]
fn the_corpus_holds() {
    let inputs = inputs::corpus("front");
    assert!(inputs.len() >= 4);
    inputs::run_in_pieces(&inputs, checks::conversation);
}

proptest! {
    #[test]
    fn random_conversations_hold(
        size in any::<u8>(),
        frames in prop::collection::vec(
            (1..4_u8, 0..3_u8, prop::collection::vec(any::<u8>(), 0..60)),
            0..12,
        ),
    ) {
        let mut input = vec![size];
        for (kind, channel, payload) in &frames {
            let len = u8::try_from(payload.len()).unwrap();
            input.extend_from_slice(&[*kind, 0, *channel, 0, 0, 0, len]);
            input.extend_from_slice(payload);
            input.push(0xCE);
        }
        checks::conversation(&input);
    }
}
