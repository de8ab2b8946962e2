//! The check of the fuzz target on the committed corpus and on random input, without a fuzzer.

use proptest::prelude::*;

#[path = "../../../fuzz/checks/filter.rs"]
mod checks;
#[path = "../../../fuzz/checks/inputs.rs"]
mod inputs;
#[path = "../../../fuzz/checks/link_filters.rs"]
mod link_checks;

use inputs::corpus;

/// Words of filters in any order, with any body.
fn any_filter() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "a",
        "b",
        "7",
        "'text'",
        "'a%'",
        "=",
        "<>",
        "<",
        "+",
        "-",
        "*",
        "/",
        "(",
        ")",
        ",",
        "AND",
        "OR",
        "NOT",
        "BETWEEN",
        "IN",
        "LIKE",
        "MATCHES",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "body",
        "exchange",
        "routing_key",
        "redelivered",
        "x-death.count",
        "header.b",
        "priority",
        "$.a",
        "$[0].b",
        "\"a\"",
    ]);
    let body = prop_oneof!["[\\[\\]{}:,a\"0-9 ]{0,20}", "\\PC{0,20}"];
    (prop::collection::vec(word, 0..12), body)
        .prop_map(|(words, body)| format!("{}\n{body}", words.join(" ")).into_bytes())
}

#[test]
fn the_corpus_is_read_or_refused() {
    for (target, check) in
        [("filter", checks::filter as fn(&[u8])), ("link_filters", link_checks::link_filters)]
    {
        let corpus = corpus(target);
        corpus.iter().for_each(|input| check(input));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_filter_is_read_or_refused(
        input in prop_oneof![any_filter(), prop::collection::vec(any::<u8>(), 0..60)],
    ) {
        checks::filter(&input);
    }

    /// A committed input with a few other bytes, or cut.
    #[test]
    fn any_filters_of_links_are_read_or_left_out(
        which: prop::sample::Index, at: prop::sample::Index, new in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let corpus = corpus("link_filters");
        let mut input = corpus[which.index(corpus.len())].clone();
        let at = at.index(input.len());
        let end = input.len().min(at + new.len());
        input.splice(at..end, new);
        link_checks::link_filters(&input);
    }
}
