//! The check of the fuzz target on the committed corpus and on random input, without a fuzzer.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[path = "../../../fuzz/checks/http_query.rs"]
mod checks;

/// The committed inputs.
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http_query");
    let files = std::fs::read_dir(&dir).expect("the target has a corpus");
    files.map(|file| std::fs::read(file.expect("a file").path()).expect("a file")).collect()
}

/// Words of queries, with any values.
fn any_query() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec![
        "page",
        "page_size",
        "name",
        "use_regex",
        "sort",
        "sort_reverse",
        "columns",
        "pagination",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec!["1", "0", "true", "deep.n", "q1", "[", "(%3Fi)q", "name,n", "%"])
            .prop_map(str::to_owned),
        "[ -~]{0,12}",
        any::<u16>().prop_map(|n| n.to_string()),
    ];
    let pair = (key, value).prop_map(|(key, value)| format!("{key}={value}"));
    vec(pair, 0..6).prop_map(|pairs| pairs.join("&").into_bytes())
}

#[test]
fn the_corpus_is_answered() {
    let corpus = corpus();
    assert!(!corpus.is_empty(), "there is a corpus");
    corpus.iter().for_each(|input| checks::query(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_query_is_answered(input in prop_oneof![any_query(), vec(any::<u8>(), 0..60)]) {
        checks::query(&input);
    }
}
