//! The check of the fuzz target of undo files on the committed corpus and on random input, without a fuzzer.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[path = "../../../../fuzz/checks/undo.rs"]
mod checks;

/// The committed inputs.
fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/undo");
    let files = std::fs::read_dir(&dir).expect("the target has a corpus");
    files.map(|file| std::fs::read(file.expect("a file").path()).expect("a file")).collect()
}

fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()];
    let changes = vec((any::<usize>(), byte), 0..6);
    let changed = (prop::sample::select(corpus()), changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes.splice(at..=at, [byte]);
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..200), 9 => changed]
}

#[test]
fn the_corpus_is_read_or_refused() {
    corpus().iter().for_each(|input| checks::file(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_file_is_read_or_refused(input in any_file()) {
        checks::file(&input);
    }
}
