//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../../fuzz/checks/tls.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

#[test]
fn the_corpus_holds() {
    let inputs = inputs::corpus("tls");
    assert!(inputs.len() >= 6);
    inputs.iter().for_each(|input| checks::certificate(input));
    inputs::run_in_pieces(&inputs, checks::session);
}

proptest! {
    /// Records of every kind, whose lengths are right.
    #[test]
    fn random_records_hold(
        size in any::<u8>(),
        records in prop::collection::vec(
            (20..25_u8, prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..80)),
            0..8,
        ),
    ) {
        let mut input = vec![size];
        for (kind, fields) in &records {
            input.extend([*kind, 3, 3]);
            input.extend(u16::try_from(fields.len()).unwrap().to_be_bytes());
            input.extend_from_slice(fields);
        }
        checks::session(&input);
        checks::certificate(&input);
    }
}
