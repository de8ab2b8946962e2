//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::prelude::*;
use std::path::Path;

#[path = "../../../../fuzz/checks/tls.rs"]
mod checks;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tls");
    let mut n_files = 0;
    for file in corpus.read_dir().unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for size in [0, 6, 255] {
            checks::session(&[&[size], &bytes[1..]].concat());
        }
        checks::certificate(&bytes);
        n_files += 1;
    }
    assert!(n_files >= 6);
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
