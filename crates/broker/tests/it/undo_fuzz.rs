//! The check of the fuzz target of undo files on the committed corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../../fuzz/checks/undo.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::{any_input, corpus};

#[test]
fn the_corpus_is_read_or_refused() {
    corpus("undo").iter().for_each(|input| checks::file(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_file_is_read_or_refused(input in any_input(prop::sample::select(corpus("undo")))) {
        checks::file(&input);
    }
}
