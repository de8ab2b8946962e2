use amqp091::{Properties, ShortString, Table, Value};
use message::{Annotations, Body, BodyForm};
use proptest::prelude::*;

use super::*;

fn table(entries: &[(&'static str, Value)]) -> Table {
    entries.iter().map(|(name, value)| (ShortString::from_static(name), value.clone())).collect()
}

fn properties() -> Vec<u8> {
    let death = |queue: &str, count| {
        Value::Table(table(&[
            ("queue", Value::from(queue)),
            ("reason", Value::from("expired")),
            ("count", Value::I64(count)),
            ("exchange", Value::from("ex")),
            ("time", Value::Timestamp(7)),
        ]))
    };
    let headers = table(&[
        ("colour", Value::from("blue")),
        ("weight", Value::I32(2_600)),
        ("priority", Value::from("of a header")),
        ("two words", Value::Bool(true)),
        ("x-retry-count", Value::I32(3)),
        ("since", Value::Timestamp(1_000)),
        ("list", Value::Array(vec![])),
        ("x-death", Value::Array(vec![death("newest", 3), death("older", 1)])),
    ]);
    let short = |text| Some(ShortString::from_static(text));
    let properties = Properties {
        content_type: short("application/json"),
        headers: Some(headers),
        delivery_mode: Some(2),
        priority: Some(4),
        correlation_id: short("c"),
        message_id: short("m1"),
        timestamp: Some(1_700_000_000),
        kind: short("order"),
        user_id: short("guest"),
        app_id: short("shop"),
        ..Properties::default()
    };
    properties.to_bytes()
}

fn matches_body(filter: &str, body: Option<&[u8]>) -> bool {
    let properties = properties();
    let message = MessageRef {
        exchange: b"orders",
        routing_key: b"eu.created",
        properties: &properties,
        body: Body::Borrowed(b""),
        persistent: true,
        annotations: Annotations::NONE,
        form: BodyForm::Plain,
    };
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    filter.matches(&Candidate { message: &message, body, redelivered: true })
}

fn matches(filter: &str) -> bool {
    matches_body(filter, Some("Übung: one two three".as_bytes()))
}

#[test]
fn all_parts_of_a_message_have_names() {
    for filter in [
        "exchange = 'orders' AND routing_key LIKE 'eu.%' AND redelivered",
        "exchange in ('a', 'orders') and not redelivered = false",
        "content_type = 'application/json' and content_encoding is null",
        "priority = 4 AND properties.priority = 4 AND header.priority = 'of a header'",
        "properties.headers.priority LIKE 'of%' and properties.headers.x-retry-count = 3",
        "delivery_mode = 2 AND timestamp BETWEEN 1700000000 AND 1700000001",
        "correlation_id = 'c' and message_id <> 'm2' and type = 'order' and user_id = 'guest'",
        "app_id = 'shop' and cluster_id is null and reply_to is null and expiration is null",
        "JMSPriority = 4 AND JMSType = 'order' AND JMSDeliveryMode = 'PERSISTENT'",
        "colour = 'blue' AND weight - 600 = 2000 AND header.weight = 2600",
        "\"two words\" AND \"colour\" = 'blue' and \"a \"\"quote\" is null",
        "x-retry-count > 2 AND header.x-retry-count - 1 = 2",
        "since > 999 and list is not null and x-death is not null",
        "x-death.queue = 'newest' AND x-death.reason = 'expired' AND x-death.count >= 3",
        "x-death.exchange = 'ex' and x-death.time = 7 and x-death.original-expiration is null",
        "body LIKE '%two%' AND body NOT LIKE 'two%' AND body LIKE '_bung%'",
        "body MATCHES '^(?i)übung.*THREE$' AND body NOT MATCHES 'four'",
        "routing_key MATCHES '(created|deleted)$' and colour matches 'l.e'",
        "missing IS NULL",
    ] {
        assert!(matches(filter), "{filter}");
    }
    for filter in [
        "exchange = 'order'",
        "exchange",
        "missing MATCHES 'a'",
        "NOT missing MATCHES 'a'",
        "weight MATCHES '2600'",
        "list = 1",
        "list",
        "expiration = 1000",
        "body = 'two'",
        "redelivered = 'true'",
        "x-death.queue = 'older'",
    ] {
        assert!(!matches(filter), "{filter}");
    }
}

const ORDER: &str = r#"{"order": {"id": 7, "items": [{"name": "abc\u00fc", "price": 2.5}, {"name": "x"}]},
    "paid": true, "note": null, "a b": "it's", "big": 18446744073709551615, "paid": false, "7": -1}"#;

#[test]
fn values_in_json_have_paths() {
    for filter in [
        "$.order.id = 7 AND $.order.items[0].name LIKE 'abc_' AND $.order.items[1].name MATCHES '^x$'",
        "$.order.items[0].price * 2 = 5 AND $.paid AND $['a b'] = 'it''s'",
        "$.big > 1e19 AND $['7'] = -1 AND $[\"7\"] BETWEEN -1 AND 0",
        "$.note IS NULL AND $.none IS NULL AND $.order IS NOT NULL AND $.order.items is not null",
        "$.order.id.deeper IS NULL AND $.order[0] IS NULL AND $.order.items.name IS NULL",
        "$.order.items[2] IS NULL and $.order.id IN (6, 7) and exchange = 'orders'",
    ] {
        assert!(matches_body(filter, Some(ORDER.as_bytes())), "{filter}");
    }
    for filter in
        ["$.order = 7", "$.order", "$.order.id = '7'", "NOT $.none = 1", "$.note = 'null'"]
    {
        assert!(!matches_body(filter, Some(ORDER.as_bytes())), "{filter}");
    }
    let of = |filter: &str, body: &str| matches_body(filter, Some(body.as_bytes()));
    assert!(of("$[1][0] = 'a'", "[0, [\"a\"]] and so on"), "nothing is read behind the value");
    assert!(of("$.a = 1", "{\"a\": 1, cut"));
    assert!(of("$.a.c = 2", "{\"a\": {\"b\": 1}, \"a\": {\"c\": 2}}"));
    assert!(of("$.a IS NULL", "no JSON"));
    assert!(of(&format!("${} IS NOT NULL", "[0]".repeat(64)), &"[".repeat(100_000)));
    let deepest = format!("{}7{}", "[".repeat(64), "]".repeat(64));
    assert!(of(&format!("${} = 7", "[0]".repeat(64)), &deepest));
}

#[test]
fn a_hidden_body_matches_nothing() {
    for filter in [
        "body IS NULL",
        "body LIKE '%'",
        "TRUE OR body = 'a'",
        "$.a IS NULL",
        "properties.priority = body",
    ] {
        assert!(Filter::parse(filter).unwrap().reads_body(), "{filter}");
        assert!(!matches_body(filter, None), "{filter}");
    }
    assert!(!Filter::parse("\"body\" = 'a' OR header.body = 'b'").unwrap().reads_body());
    assert!(matches_body("colour = 'blue'", None));
}

#[test]
fn the_first_part_of_a_long_body_is_looked_at() {
    let long = [vec![b'a'; BODY_BYTES_MAX], b"behind".to_vec()].concat();
    assert!(matches_body("body LIKE 'a%a' AND body MATCHES '^a+$'", Some(&long)));
    assert!(!matches_body("body LIKE '%behind%'", Some(&long)));
    assert!(!matches_body("body MATCHES 'a{9}b'", Some(&long)));
    // Large expressions look at less of it; more than two of them take too long.
    let at_end = "body MATCHES '\\wb'";
    let with_end = |n_bytes: usize| [&vec![b'a'; n_bytes][..], b"b"].concat();
    assert!(matches_body(at_end, Some(&with_end(800))));
    assert!(!matches_body(at_end, Some(&with_end(16_000))));
    let [two, three] = [2, 3].map(|n| vec!["body MATCHES '\\w[^a]c'"; n].join(" OR "));
    assert!(!matches_body(&two, Some(&long)) && !matches_body(&three, Some(&long)));
    assert!(matches_body(&format!("{two} OR exchange IS NOT NULL"), Some(&long)));
    assert!(!matches_body(&format!("{three} OR exchange IS NOT NULL"), Some(&long)));
    let many = vec!["body LIKE '%b%'"; 20].join(" OR ");
    assert!(!matches_body(&format!("{many} OR TRUE"), Some(&long)), "too many steps");
}

#[test]
fn errors_tell_their_place() {
    let deep = "(".repeat(600);
    let patterns = ["body MATCHES 'a'"; 5].join(" OR ");
    for (text, column, reason) in [
        ("", 1, "expected a value, found the end"),
        ("exchange = ", 12, "expected a value, found the end"),
        ("exchange = AND", 12, "expected a value, found AND"),
        ("ä = 'ö' b", 9, "expected AND, OR or the end, found b"),
        ("a IN (1, b)", 10, "expected a string or number, found b"),
        ("a = 'b", 5, "unterminated string"),
        ("a = \"b", 5, "unterminated string"),
        ("a != 1", 3, "unexpected '!'"),
        ("a = 12x", 5, "invalid number '12x'"),
        ("$. = 1", 3, "expected a member name"),
        ("1 = $.a[x]", 9, "expected a number or a quoted name"),
        ("$[99999999999999999999] = 1", 3, "expected a number or a quoted name"),
        ("$[1 = 1", 4, "expected ']'"),
        ("$['a] = 1", 3, "unterminated string"),
        (&format!("${}", ".a".repeat(65)), 130, "a path has at most 64 steps"),
        ("$.a .b", 5, "unexpected '.'"),
        ("a MATCHES b", 11, "expected a string, found b"),
        ("MATCHES = 1", 1, "expected a value, found MATCHES"),
        ("a MATCHES 'x('", 11, "the regular expression: unclosed group"),
        ("a MATCHES '\\w{900}'", 11, "the regular expression is too large"),
        ("a LIKE 'x' ESCAPE 'yy'", 19, "ESCAPE takes one character"),
        ("x-death.colour = 1", 1, "unknown field of x-death 'colour', expected count, exchange, "),
        ("1 = properties.colour", 5, "unknown property 'colour', expected content_type, "),
        (&deep, 257, "more than 512 parts"),
        (&patterns, 94, "more than 4 regular expressions"),
        (&" ".repeat(TEXT_BYTES_MAX + 1), 1, "longer than 16384 bytes"),
    ] {
        let error = Filter::parse(text).unwrap_err();
        assert_eq!((error.column, error.reason.starts_with(reason)), (column, true), "{error}");
    }
}

#[test]
fn selectors_of_bindings_know_nothing_of_filters() {
    for text in ["a MATCHES 'b'", "\"a\" = 1", "x-death.queue = 'a'", "$.a = 1"] {
        assert!(sql::selector(text).map_or(true, |read| read != sql::filter(text).ok().unwrap().0));
    }
}

/// JSON without members of the same name.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1_000..1_000).prop_map(|n| (f64::from(n) / 8.0).into()),
        "[a'\\\\\"\nü]{0,4}".prop_map(Into::into),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[ab\n\\\\]", inner, 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A path, in a filter and as a pointer.
fn any_path() -> impl Strategy<Value = (String, String)> {
    let step = prop_oneof![
        (0_usize..3).prop_map(|index| (format!("[{index}]"), format!("/{index}"))),
        "[ab]".prop_map(|name| (format!(".{name}"), format!("/{name}"))),
        "[ab\n\\\\]".prop_map(|name| (format!("['{name}']"), format!("/{name}"))),
    ];
    prop::collection::vec(step, 1..4).prop_map(|steps| {
        let (of_filter, pointers): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
        (format!("${}", of_filter.concat()), pointers.concat())
    })
}

/// The condition that holds for a value.
fn condition(path: &str, value: Option<&serde_json::Value>) -> String {
    use serde_json::Value;
    match value {
        None | Some(Value::Null) => format!("{path} IS NULL"),
        Some(Value::Bool(value)) => format!("{path} = {value}"),
        // As a positive number it would not be one of i64.
        Some(Value::Number(n)) if n.as_i64() == Some(i64::MIN) => format!("{path} < -1"),
        Some(Value::Number(n)) => format!("{path} = {n}"),
        Some(Value::String(text)) => format!("{path} = '{}'", text.replace('\'', "''")),
        Some(Value::Array(_) | Value::Object(_)) => {
            format!("({path} IS NOT NULL AND {path} <> 'x' AND NOT {path} = {path})")
        }
    }
}

proptest! {
    /// An index is no name, which it is in a pointer: names here are letters.
    #[test]
    fn paths_lead_where_pointers_do(
        json in any_json(), paths in prop::collection::vec(any_path(), 1..5), pretty in any::<bool>(),
    ) {
        let conditions = paths.iter().map(|(path, pointer)| condition(path, json.pointer(pointer)));
        let filter = conditions.collect::<Vec<_>>().join(" AND ");
        let body = if pretty { serde_json::to_vec_pretty(&json) } else { serde_json::to_vec(&json) };
        prop_assert!(matches_body(&filter, Some(&body.unwrap())), "{}", filter);
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in prop_oneof!["[a'(){}<>=, $.\\[\\]0-9ANDORT%\"-]{0,40}", "\\PC{0,40}"],
        body in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        match Filter::parse(&text) {
            Ok(_) => drop(matches_body(&text, Some(&body))),
            Err(error) => {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{}", error);
                prop_assert!(!error.reason.is_empty());
            }
        }
    }

    #[test]
    fn bodies_are_searched_as_texts_are(body in "[ab%_ü]{0,12}", part in "[abü]{1,3}") {
        let [like, found] = ["LIKE '%PART%'", "MATCHES 'PART'"].map(|condition| {
            let filter = format!("body {}", condition.replace("PART", &part));
            matches_body(&filter, Some(body.as_bytes()))
        });
        prop_assert_eq!((like, found), (body.contains(&part), body.contains(&part)));
    }
}
