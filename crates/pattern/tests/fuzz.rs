//! The check of the fuzz target on the committed corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../fuzz/checks/pattern.rs"]
mod checks;
#[path = "../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::corpus;

/// Parts of expressions in any order, with any text.
fn any_pattern() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        ".",
        "^",
        "$",
        "|",
        "(",
        ")",
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?>",
        "(?i)",
        "(?(1)",
        "(?<n>",
        "\\k<n>",
        "\\1",
        "[",
        "]",
        "[^",
        "-",
        "*",
        "+",
        "?",
        "{2}",
        "{1,}",
        "{900}",
        "*+",
        "*?",
        "\\pL",
        "\\w",
        "\\b",
        "\\x{e9}",
        "\\Q",
        "\\E",
        "[:alpha:]",
        "é",
    ]);
    (prop::collection::vec(part, 0..12), "[ab1é\n ]{0,30}")
        .prop_map(|(parts, text)| format!("{}\n{text}", parts.concat()).into_bytes())
}

#[test]
fn the_corpus_is_matched_or_refused() {
    let corpus = corpus("pattern");
    corpus.iter().for_each(|input| checks::pattern(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_pattern_is_matched_or_refused(
        input in prop_oneof![any_pattern(), prop::collection::vec(any::<u8>(), 0..60)],
    ) {
        checks::pattern(&input);
    }
}
