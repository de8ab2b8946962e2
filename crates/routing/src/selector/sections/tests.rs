use super::*;
use amqp10::{Header, Properties, Section, put_application_properties};
use proptest::prelude::*;

const NOW: UnixMs = UnixMs::from_raw(5_000);

fn message(application: &[(&str, ValueRef<'_>)]) -> Vec<u8> {
    let mut message = Vec::new();
    Section::Header(Header { priority: Some(7), ..Header::default() }).encode(&mut message);
    let properties = Properties {
        message_id: Some(ValueRef::Uuid([0xAB; 16])),
        user_id: Some(b"guest"),
        subject: Some("order.eu"),
        correlation_id: Some(ValueRef::U64(u64::MAX)),
        content_type: Some("text/plain"),
        creation_time_ms: Some(4_000),
        ..Properties::default()
    };
    Section::Properties(properties).encode(&mut message);
    put_application_properties(&mut message, |items| {
        for (name, value) in application {
            items.put(ValueRef::Str(name));
            items.put(*value);
        }
    });
    Section::Data(b"body").encode(&mut message);
    message
}

fn known() -> Vec<u8> {
    message(&[
        ("colour", ValueRef::Str("blue")),
        ("weight", ValueRef::I32(2_600)),
        ("price", ValueRef::F64(2.5)),
        ("urgent", ValueRef::Bool(true)),
        ("unit price", ValueRef::U8(3)),
        ("a]b", ValueRef::I64(-1)),
        ("bytes", ValueRef::Binary(&[0xAB, 0xCD])),
        ("nothing", ValueRef::Null),
        ("date", ValueRef::Timestamp(6_000)),
        ("quoted", ValueRef::Symbol("it's")),
        ("percent", ValueRef::Str("100%")),
        ("umlaut", ValueRef::Str("grün")),
    ])
}

fn is_true(sql: &str) -> bool {
    let filter = SectionsFilter::of_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    filter.matches(&known(), NOW)
}

#[test]
fn conditions_over_sections() {
    for sql in [
        "colour = 'blue' AND weight > 2500",
        "colour = \"blue\" AND application_properties.colour = 'blue' AND a.weight <> 2601",
        "properties.subject LIKE 'order.%' AND p.user_id = 'guest' AND p.to IS NULL",
        "p.message_id = 0xABABABABABABABABABABABABABABABAB AND bytes = 0xABCD",
        "p.correlation_id = 18446744073709551615 AND p.correlation_id <> 18446744073709551614",
        "header.priority = 7 AND h.priority <> 4 AND p.content_type = 'text/plain'",
        "p.creation_time < UTC() AND UTC() = 5000 AND [date] - UTC() = 1000",
        "NOT colour = 'red' AND NOT (weight < 1 OR price < 1)",
        "weight IN (1, 2 * 1300) AND colour NOT IN ('red', 'green')",
        "colour IN (missing, 'blue') AND [unit price] = 3 AND [a]]b] = -1",
        "missing IS NULL AND nothing IS NULL AND colour IS NOT NULL",
        "urgent AND urgent = TRUE AND urgent != FALSE",
        "weight % 100 = 0 AND weight / 2 = 1300.0 AND 7 / 2 = 3.5 AND -7 % 4 = -3",
        "+weight = 2600 AND -(weight) = - 2600 AND 2 + 3 * 4 = 14 AND (2 + 3) * 4 = 20",
        "price = 2.5 AND price = 0.25E+1 AND price * 2 = 5 AND 1.0 = 1",
        "quoted = 'it''s' AND quoted = \"it's\" AND percent LIKE '%\\%' ESCAPE '\\'",
        "percent LIKE '100ü%' ESCAPE 'ü' AND umlaut LIKE 'gr_n' AND umlaut LIKE '%ü%'",
        "colour NOT LIKE 'b_e' AND 'abc' LIKE 'a%c' AND (colour = 'blue') = TRUE",
        "missing = 1 OR TRUE",
    ] {
        assert!(is_true(sql), "{sql}");
    }
    for sql in [
        "colour = 'red'",
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "missing IN (1) OR missing NOT IN (1)",
        "missing LIKE 'a%' OR missing NOT LIKE 'a%'",
        "weight LIKE '2%' OR weight NOT LIKE '2%'",
        "weight = '2600' OR weight < '9' OR colour > 1",
        "TRUE > FALSE OR TRUE >= TRUE",
        "1 / 0 = 1 OR NOT 1 / 0 = 1 OR weight % 0 = 0 OR 2.5 % 2 = 0",
        "+ colour = 'blue' OR colour + 1 > 0 OR colour",
        "missing = 1 AND TRUE",
    ] {
        assert!(!is_true(sql), "{sql}");
    }
}

#[test]
fn a_message_without_sections_has_the_default_priority_and_nothing_else() {
    let filter = SectionsFilter::of_sql("h.priority = 4 AND a IS NULL AND p.to IS NULL").unwrap();
    assert!(filter.matches(&[], NOW) && filter.matches(b"\x00\x53\x75\xa0\x01m", NOW));
    assert!(filter.matches(b"\x00", NOW), "what cannot be read is not there");
}

#[test]
fn what_rabbitmq_does_not_know_is_refused() {
    let deep = |n: usize| format!("{}TRUE{}", "(".repeat(n), ")".repeat(n));
    for sql in [
        "",
        "colour = 'a' and weight = 1",
        "true",
        "a BETWEEN 1 AND 2",
        "EXISTS(a)",
        "UPPER(a) = 'A'",
        "'a' || 'b' = 'ab'",
        "UTC = 1",
        "utc() = 1",
        "a = .5",
        "a = 5.",
        "a = 1e5",
        "a = 1L",
        "a = 0xabc",
        "a = 0xA",
        "- - 1 = 1",
        "a + 1 IS NULL",
        "1 IS NULL",
        "a LIKE b",
        "a LIKE 'x' ESCAPE 'yy'",
        "a LIKE 'x' ESCAPE ''",
        "a LIKE 'x!' ESCAPE '!'",
        "a LIKE 'x\ny'",
        "a IN ()",
        "a = b = c",
        "header.durable = TRUE",
        "properties.unknown = 1",
        "body.a = 1",
        "_a = 1",
        "a$ = 1",
        "[a = 1",
        "[a[b] = 1",
        "[a\u{1}] = 1",
        "a = 'b",
        "a = #",
        "date = 1",
        &format!("a = {}", vec!["1"; 150].join(" + ")),
        &deep(150),
        &format!("a = '{}'", "x".repeat(4_096)),
    ] {
        assert!(SectionsFilter::of_sql(sql).is_err(), "{sql}");
    }
    assert!(is_true(&deep(90)));
    assert!(!is_true(&format!("a = '{}'", "x".repeat(4_000))));
}

#[test]
fn a_dear_filter_ends() {
    let text = "a".repeat(100_000);
    let message = message(&[("text", ValueRef::Str(&text))]);
    let like = format!("text LIKE '%_{}b%'", "a".repeat(1_000));
    let filter = SectionsFilter::of_sql(&format!("NOT {like}")).unwrap();
    assert!(!filter.matches(&message, NOW));
}

/// An expression, its text, and its value by a second evaluator.
#[derive(Clone, Debug)]
enum Naive {
    Value(Worth),
    Name(usize),
    Not(Box<Self>),
    Minus(Box<Self>),
    Both(&'static str, Box<Self>, Box<Self>),
    In(Box<Self>, Vec<Self>),
    IsNull(usize),
    Like(Box<Self>, String),
}

#[derive(Clone, Debug, PartialEq)]
enum Worth {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(String),
}

const NAMES: [&str; 4] = ["i", "f", "t", "b"];

impl Naive {
    fn text(&self) -> String {
        match self {
            Self::Value(Worth::Nothing) => "missing".to_owned(),
            Self::Value(Worth::Bool(is_true)) => is_true.to_string().to_uppercase(),
            Self::Value(Worth::Number(n)) => format!("{n}"),
            Self::Value(Worth::Text(text)) => format!("'{text}'"),
            Self::Name(name) => NAMES[*name].to_owned(),
            Self::Not(inner) => format!("(NOT {})", inner.text()),
            Self::Minus(inner) => format!("(-({}))", inner.text()),
            Self::Both(sign, a, b) => format!("({} {sign} {})", a.text(), b.text()),
            Self::In(value, list) => {
                let list: Vec<_> = list.iter().map(Self::text).collect();
                format!("({} IN ({}))", value.text(), list.join(", "))
            }
            Self::IsNull(name) => format!("({} IS NULL)", NAMES[*name]),
            Self::Like(value, pattern) => format!("({} LIKE '{pattern}')", value.text()),
        }
    }

    fn worth(&self, values: &[Worth; 4]) -> Worth {
        let logic = |worth| if let Worth::Bool(is_true) = worth { Some(is_true) } else { None };
        let of = |found: Option<bool>| found.map_or(Worth::Nothing, Worth::Bool);
        match self {
            Self::Value(worth) => worth.clone(),
            Self::Name(name) => values[*name].clone(),
            Self::IsNull(name) => Worth::Bool(values[*name] == Worth::Nothing),
            Self::Not(inner) => of(logic(inner.worth(values)).map(|it| !it)),
            Self::Minus(inner) => {
                let Worth::Number(n) = inner.worth(values) else { return Worth::Nothing };
                Worth::Number(-n)
            }
            Self::In(value, list) => {
                let value = value.worth(values);
                let is_there = value != Worth::Nothing;
                of(is_there.then(|| list.iter().any(|one| one.worth(values) == value)))
            }
            Self::Like(value, pattern) => {
                let Worth::Text(text) = value.worth(values) else { return Worth::Nothing };
                let [pattern, text] = [pattern, &text].map(|it| it.chars().collect::<Vec<_>>());
                Worth::Bool(like(&pattern, &text))
            }
            Self::Both(sign @ ("AND" | "OR"), a, b) => {
                let settles = *sign == "OR";
                of(match (logic(a.worth(values)), logic(b.worth(values))) {
                    (Some(it), _) | (_, Some(it)) if it == settles => Some(settles),
                    (Some(_), Some(_)) => Some(!settles),
                    _ => None,
                })
            }
            Self::Both(sign, a, b) => match (a.worth(values), b.worth(values)) {
                (Worth::Nothing, _) | (_, Worth::Nothing) => Worth::Nothing,
                (Worth::Number(a), Worth::Number(b)) => numbers(sign, a, b),
                (Worth::Text(a), Worth::Text(b)) => ordered(sign, a.cmp(&b)),
                (a, b) => match *sign {
                    "=" => Worth::Bool(a == b),
                    "<>" => Worth::Bool(a != b),
                    "<" | ">=" => Worth::Bool(false),
                    _ => Worth::Nothing,
                },
            },
        }
    }
}

fn ordered(sign: &str, order: std::cmp::Ordering) -> Worth {
    match sign {
        "=" => Worth::Bool(order.is_eq()),
        "<>" => Worth::Bool(order.is_ne()),
        "<" => Worth::Bool(order.is_lt()),
        ">=" => Worth::Bool(order.is_ge()),
        _ => Worth::Nothing,
    }
}

fn numbers(sign: &str, a: f64, b: f64) -> Worth {
    match sign {
        "+" => Worth::Number(a + b),
        "-" => Worth::Number(a - b),
        "*" => Worth::Number(a * b),
        "/" if b != 0.0 => Worth::Number(a / b),
        "/" => Worth::Nothing,
        _ => a.partial_cmp(&b).map_or(Worth::Nothing, |order| ordered(sign, order)),
    }
}

fn like(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('%', rest)), None) => like(rest, text),
        (Some(('%', rest)), Some((_, others))) => like(rest, text) || like(pattern, others),
        (Some((part, rest)), Some((found, others))) => {
            (*part == '_' || part == found) && like(rest, others)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn worth() -> impl Strategy<Value = Worth> {
    prop_oneof![
        Just(Worth::Nothing),
        any::<bool>().prop_map(Worth::Bool),
        (0_u8..6).prop_map(|n| Worth::Number(f64::from(n) / 2.0)),
        "[ab]{0,2}".prop_map(Worth::Text),
    ]
}

fn naive() -> impl Strategy<Value = Naive> {
    const SIGNS: [&str; 10] = ["AND", "OR", "=", "<>", "<", ">=", "+", "-", "*", "/"];
    let leaf = prop_oneof![
        worth().prop_map(Naive::Value),
        (0_usize..4).prop_map(Naive::Name),
        (0_usize..4).prop_map(Naive::IsNull),
    ];
    // Sums have no NOT in them: what is compared is in parentheses.
    leaf.prop_recursive(4, 24, 3, |inner| {
        let both = (prop::sample::select(&SIGNS[..]), inner.clone(), inner.clone());
        prop_oneof![
            4 => both.prop_map(|(sign, a, b)| Naive::Both(sign, a.into(), b.into())),
            1 => inner.clone().prop_map(|it| Naive::Not(it.into())),
            1 => inner.clone().prop_map(|it| Naive::Minus(it.into())),
            1 => (inner.clone(), prop::collection::vec(inner.clone(), 1..3))
                .prop_map(|(value, list)| Naive::In(value.into(), list)),
            1 => (inner, "[ab%_]{0,3}").prop_map(|(it, pattern)| Naive::Like(it.into(), pattern)),
        ]
    })
}

fn value_of(worth: &Worth) -> ValueRef<'_> {
    match worth {
        Worth::Nothing => ValueRef::Null,
        Worth::Bool(is_true) => ValueRef::Bool(*is_true),
        Worth::Number(n) => ValueRef::F64(*n),
        Worth::Text(text) => ValueRef::Str(text),
    }
}

proptest! {
    #[test]
    fn filters_are_true_as_a_naive_evaluator_says(
        naive in naive(), values in [worth(), worth(), worth(), worth()],
    ) {
        let sql = naive.text();
        let filter = SectionsFilter::of_sql(&sql);
        prop_assume!(sql.len() < 400);
        let filter = filter.map_err(|error| TestCaseError::fail(format!("{sql}: {error}")))?;
        let application: Vec<_> =
            NAMES.into_iter().zip(values.iter().map(value_of)).collect();
        let expected = naive.worth(&values) == Worth::Bool(true);
        prop_assert_eq!(filter.matches(&message(&application), NOW), expected, "{}", sql);
    }

    #[test]
    fn any_text_is_read_or_refused(sql in "[a'(){}<>=, \\[\\].0-9ANDORTLIKEINSPU%\"_ü-]{0,40}") {
        if let Ok(filter) = SectionsFilter::of_sql(&sql) {
            let _is_true = filter.matches(&known(), NOW);
        }
    }
}
