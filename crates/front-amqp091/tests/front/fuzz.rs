//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::prelude::*;
use std::path::Path;

#[path = "../../../../fuzz/checks/front.rs"]
mod checks;

#[test]
#[expect(clippy::disallowed_methods, reason = "the corpus lies in files")]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/front");
    let mut n_files = 0;
    for file in corpus.read_dir().unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for size in [0, 6, 255] {
            checks::conversation(&[&[size], &bytes[1..]].concat());
        }
        n_files += 1;
    }
    assert!(n_files >= 4);
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
