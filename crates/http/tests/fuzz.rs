//! The checks of the fuzz targets on the committed corpora and on random input, without a fuzzer.

use proptest::collection::vec;
use proptest::prelude::*;

#[path = "../../../fuzz/checks/http_query.rs"]
mod checks;
#[path = "../../../fuzz/checks/http_connection.rs"]
mod connection;
#[path = "../../../fuzz/checks/inputs.rs"]
mod inputs;
#[path = "../../../fuzz/checks/ndjson.rs"]
mod ndjson;

use inputs::corpus;

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
    let corpus = corpus("http_query");
    corpus.iter().for_each(|input| checks::query(input));
}

#[test]
fn lines_of_the_corpus_are_read_or_refused() {
    let corpus = corpus("ndjson");
    corpus.iter().for_each(|input| ndjson::line(input));
}

#[test]
fn connections_of_the_corpus_are_answered_or_end() {
    let corpus = corpus("http_connection");
    assert!(corpus.len() >= 12, "there is a corpus");
    corpus.iter().for_each(|input| connection::connection(input));
}

/// Lines of heads, ends of heads and bodies, in any order.
fn any_conversation() -> impl Strategy<Value = Vec<u8>> {
    let begun = prop::sample::select(vec![
        "GET / HTTP/1.1\r\n",
        "HEAD /api/overview HTTP/1.1\r\n",
        "GET /api/queues?page=1 HTTP/1.0\r\n",
        "PUT /api/queues/%2F/q HTTP/1.1\r\n",
        "POST /api/login HTTP/1.1\r\n",
        "DELETE /api/queues/%2F/q/contents HTTP/1.1\r\n",
        "GET /api/vhosts/%ff HTTP/1.1\r\n",
        "OPTIONS * HTTP/1.1\r\n",
    ]);
    let header = prop::sample::select(vec![
        "authorization: Basic ZnV6ejpmdXp6\r\n",
        "authorization: Basic eDp4\r\n",
        "transfer-encoding: chunked\r\n",
        "content-length: 2\r\n",
        "content-length: 18446744073709551616\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "accept-encoding: gzip\r\n",
        "accept: text/plain\r\n",
        "connection: close\r\n",
        "expect: 100-continue\r\n",
        "upgrade: websocket\r\n",
        "range: bytes=0-\r\n",
        "if-none-match: *\r\n",
        "origin: null\r\n",
        "host: y\r\n",
        " folded\r\n",
        "\u{e9}: \0\r\n",
    ]);
    let body = prop_oneof![
        prop::sample::select(vec![
            "{}",
            "2\r\n{}\r\n0\r\n\r\n",
            "-1\r\n",
            "username=fuzz&password=fuzz",
            ""
        ])
        .prop_map(str::to_owned),
        "[\\[\\]{}:,a\"0-9 ]{0,20}",
    ];
    let request = (begun, any::<bool>(), vec(header, 0..4), body);
    (any::<u8>(), vec(request, 1..5)).prop_map(|(size, requests)| {
        let mut input = vec![size];
        for (begun, has_host, headers, body) in requests {
            let host = if has_host { "host: x\r\n" } else { "" };
            input.extend(format!("{begun}{host}{}\r\n{body}", headers.concat()).into_bytes());
        }
        input
    })
}

/// Objects with fields of messages, of any values.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec![
        "routing_key",
        "routing_key_base64",
        "properties",
        "properties_base64",
        "payload",
        "payload_encoding",
        "payload_truncated",
    ]);
    let value = prop::sample::select(vec![
        "null",
        "1",
        "true",
        "[]",
        "{}",
        r#""""#,
        r#""AAA=""#,
        r#""EAAC""#,
        r#""AA==""#,
        r#""base64""#,
        r#""string""#,
        r#""\ud800""#,
        r#"{"priority":4}"#,
        r#"{"headers":{"a":[1.5,null]}}"#,
        r#"{"headers":{"b":-7,"a":{}}}"#,
        r#"{"type":"t","timestamp":1}"#,
    ]);
    vec((name, value), 0..6).prop_map(|fields| {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_query_is_answered(input in prop_oneof![any_query(), vec(any::<u8>(), 0..60)]) {
        checks::query(&input);
    }

    #[test]
    fn any_line_is_read_or_refused(input in prop_oneof![any_line(), vec(any::<u8>(), 0..60)]) {
        ndjson::line(&input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_connection_is_answered_or_ends(
        input in prop_oneof![4 => any_conversation(), 1 => vec(any::<u8>(), 0..200)],
    ) {
        connection::connection(&input);
    }
}
