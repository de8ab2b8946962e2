//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::prelude::*;
use std::path::Path;

#[path = "../../../../fuzz/checks/front_stream.rs"]
mod checks;

#[test]
#[expect(clippy::disallowed_methods, reason = "the corpus lies in files")]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/front_stream");
    let mut n_files = 0;
    for file in corpus.read_dir().unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for size in [0, 6, 255] {
            checks::conversation(&[&[size], &bytes[1..]].concat());
        }
        n_files += 1;
    }
    assert!(n_files >= 9);
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
