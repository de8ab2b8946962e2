//! The check of the fuzz target on the committed corpus and on documents made of its parts, without a fuzzer.

use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

#[path = "../../../fuzz/checks/definitions.rs"]
mod checks;

/// The committed inputs.
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/definitions");
    let files = std::fs::read_dir(&dir).expect("the target has a corpus");
    files.map(|file| std::fs::read(file.expect("a file").path()).expect("a file")).collect()
}

/// Values that may stand in the place of any other.
const VALUES: [&str; 16] = [
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "\"/\"",
    "\"q\"",
    "[]",
    "{}",
    "[[]]",
    "{\"x-queue-type\":\"quorum\"}",
    "{\"x-max-length\":-1}",
    "\"\\ud800\"",
    "{\"a\":1,\"a\":2}",
];

/// A document with some of its values replaced: what stands between a colon and the next comma or bracket.
fn changed(mut document: Vec<u8>, changes: &[(Index, &str)]) -> Vec<u8> {
    for (place, value) in changes {
        let colons: Vec<usize> = document
            .iter()
            .enumerate()
            .filter(|(_, it)| **it == b':')
            .map(|(at, _)| at + 1)
            .collect();
        if colons.is_empty() {
            return document;
        }
        let start = *place.get(&colons);
        let n = document.iter().skip(start).position(|it| b",]}".contains(it)).unwrap_or_default();
        document.splice(start..start + n, value.bytes());
    }
    document
}

#[test]
fn the_corpus_is_imported_or_refused() {
    let corpus = corpus();
    assert!(!corpus.is_empty(), "there is a corpus");
    corpus.iter().for_each(|input| checks::document(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_document_is_imported_or_refused(
        which in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), prop::sample::select(VALUES.to_vec())), 1..4),
    ) {
        let corpus = corpus();
        checks::document(&changed(which.get(&corpus).clone(), &changes));
    }
}
