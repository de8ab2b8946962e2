//! The check of the fuzz target on the committed corpus and on documents made of its parts, without a fuzzer.

use proptest::prelude::*;
use proptest::sample::Index;

#[path = "../../../fuzz/checks/definitions.rs"]
mod checks;
#[path = "../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::corpus;

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
    let corpus = corpus("definitions");
    corpus.iter().for_each(|input| checks::document(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_document_is_imported_or_refused(
        which in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), prop::sample::select(VALUES.to_vec())), 1..4),
    ) {
        let corpus = corpus("definitions");
        checks::document(&changed(which.get(&corpus).clone(), &changes));
    }
}
