use super::*;
use amqp10::{Properties, Section, put_application_properties, put_described};
use stdx::UnixMs;

/// A filter of an attach: its name, descriptor and value.
type Asked<'a> = (&'a str, Descriptor<'a>, Vec<u8>);

fn encoded(value: ValueRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

fn map(entries: &[(ValueRef<'_>, ValueRef<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_map(&mut out, |items| {
        for (key, value) in entries {
            items.put(*key);
            items.put(*value);
        }
    });
    out
}

fn of(asked: &[Asked<'_>]) -> (LinkFilters, Vec<String>) {
    let described: Vec<Vec<u8>> = asked
        .iter()
        .map(|(_, descriptor, value)| {
            let mut out = Vec::new();
            match descriptor {
                Descriptor::Code(code) => put_described(&mut out, *code),
                Descriptor::Symbol(name) => {
                    out.push(0);
                    ValueRef::Symbol(name).encode(&mut out);
                }
            }
            out.extend_from_slice(value);
            out
        })
        .collect();
    let values = described.iter().map(|bytes| ValueRef::decode(bytes).unwrap().0);
    let names = asked.iter().map(|(name, ..)| ValueRef::Symbol(name));
    let bytes = map(&names.zip(values).collect::<Vec<_>>());
    let Ok((ValueRef::Map(asked), _)) = ValueRef::decode(&bytes) else { unreachable!("a map") };
    let filters = LinkFilters::of(asked);
    let Ok((ValueRef::Map(in_place), _)) = ValueRef::decode(&filters.in_place) else {
        unreachable!("a map")
    };
    let symbol =
        |name| if let ValueRef::Symbol(name) = name { Some(name.to_owned()) } else { None };
    let names = in_place.iter().map(|(name, _)| symbol(name).unwrap()).collect();
    (filters, names)
}

fn stream(name: &'static str, value: ValueRef<'_>) -> Asked<'static> {
    (name, Descriptor::Symbol(name), encoded(value))
}

fn sql(text: &str) -> Asked<'static> {
    (SQL_NAME, Descriptor::Symbol("amqp:sql-filter"), encoded(ValueRef::Str(text)))
}

fn matches(filters: &LinkFilters, properties: Properties<'_>) -> bool {
    let mut message = Vec::new();
    Section::Properties(properties).encode(&mut message);
    put_application_properties(&mut message, |items| {
        for (name, value) in [
            ("colour", ValueRef::Str("blue")),
            ("weight", ValueRef::U16(7)),
            ("id", ValueRef::Uuid([7; 16])),
            ("&", ValueRef::Str("&p:")),
        ] {
            items.put(ValueRef::Str(name));
            items.put(value);
        }
    });
    filters.sections.as_ref().unwrap().matches(&message, UnixMs::from_raw(1))
}

#[test]
fn filters_of_streams_become_arguments_of_consumers() {
    for (value, expected) in [
        (ValueRef::Str("first"), Value::from("first")),
        (ValueRef::Symbol("5m"), Value::from("5m")),
        (ValueRef::Timestamp(5_999), Value::Timestamp(5)),
        (ValueRef::U64(7), Value::I64(7)),
        (ValueRef::I32(7), Value::I64(7)),
    ] {
        let (filters, names) = of(&[stream("rabbitmq:stream-offset-spec", value)]);
        assert_eq!(names, ["rabbitmq:stream-offset-spec"]);
        assert_eq!(filters.arguments.get(b"x-stream-offset"), Some(&expected));
    }
    let mut list = Vec::new();
    amqp10::put_list(&mut list, |items| {
        items.put(ValueRef::Str("a"));
        items.put(ValueRef::Null);
        items.put(ValueRef::Str("b"));
    });
    let (list, _) = ValueRef::decode(&list).unwrap();
    let (filters, names) = of(&[
        stream("rabbitmq:stream-filter", list),
        stream("rabbitmq:stream-match-unfiltered", ValueRef::Bool(true)),
    ]);
    assert_eq!(names, ["rabbitmq:stream-filter", "rabbitmq:stream-match-unfiltered"]);
    let texts = Value::Array(vec![Value::from("a"), Value::from("b")]);
    assert_eq!(filters.arguments.get(b"x-stream-filter"), Some(&texts));
    assert_eq!(filters.arguments.get(b"x-stream-match-unfiltered"), Some(&Value::Bool(true)));
}

#[test]
fn what_is_not_understood_is_left_out() {
    let refused = [
        stream("rabbitmq:stream-offset-spec", ValueRef::I32(-1)),
        stream("rabbitmq:stream-offset-spec", ValueRef::Bool(true)),
        stream("rabbitmq:stream-filter", ValueRef::U8(1)),
        stream("rabbitmq:stream-match-unfiltered", ValueRef::Str("true")),
        stream("apache.org:selector-filter:string", ValueRef::Str("a = 1")),
        sql("a = "),
        ("other", Descriptor::Code(0x120), encoded(ValueRef::Str("a = 1"))),
        (SQL_NAME, Descriptor::Code(0x173), map(&[])),
        ("p", Descriptor::Code(0x173), map(&[])),
        ("p", Descriptor::Code(0x173), map(&[(ValueRef::Symbol("size"), ValueRef::U8(1))])),
        (
            "p",
            Descriptor::Code(0x173),
            map(&[(ValueRef::Symbol("user_id"), ValueRef::Binary(b""))]),
        ),
        (
            "p",
            Descriptor::Code(0x173),
            map(&[(ValueRef::Symbol("subject"), ValueRef::Symbol("a"))]),
        ),
        (
            "p",
            Descriptor::Code(0x173),
            map(&[(ValueRef::Symbol("subject"), ValueRef::Str("&x:a"))]),
        ),
        ("p", Descriptor::Code(0x173), map(&[(ValueRef::Symbol("subject"), ValueRef::Null)])),
        ("a", Descriptor::Code(0x174), map(&[(ValueRef::Symbol("a"), ValueRef::U8(1))])),
        ("a", Descriptor::Code(0x174), map(&[(ValueRef::Str("a"), ValueRef::U8(1)); 17])),
    ];
    for asked in refused {
        let name = format!("{asked:?}");
        let (filters, names) = of(&[asked]);
        assert!(names.is_empty() && filters.arguments.is_empty(), "{name}");
        assert!(filters.sections.is_none(), "{name}");
    }
}

#[test]
fn filters_of_properties() {
    let properties = Properties {
        message_id: Some(ValueRef::Uuid([9; 16])),
        subject: Some("order.eu"),
        group: amqp10::Group { sequence: Some(3), ..amqp10::Group::default() },
        ..Properties::default()
    };
    for (key, wanted, is_match) in [
        ("subject", ValueRef::Str("order.eu"), true),
        ("subject", ValueRef::Str("&p:order."), true),
        ("subject", ValueRef::Str("&p:%"), false),
        ("subject", ValueRef::Str("&s:.eu"), true),
        ("subject", ValueRef::Str("&s:.us"), false),
        ("subject", ValueRef::Str("&&"), false),
        ("message-id", ValueRef::Uuid([9; 16]), true),
        ("message-id", ValueRef::U64(9), false),
        ("group-sequence", ValueRef::U32(3), true),
        ("to", ValueRef::Str("&p:"), false),
    ] {
        for descriptor in [Descriptor::Code(0x173), Descriptor::Symbol("amqp:properties-filter")] {
            let filter = map(&[(ValueRef::Symbol(key), wanted)]);
            let (filters, names) = of(&[("any", descriptor, filter)]);
            assert_eq!(names, ["any"]);
            assert_eq!(matches(&filters, properties), is_match, "{key} {wanted:?}");
        }
    }
    for (key, wanted, is_match) in [
        ("colour", ValueRef::Str("blue"), true),
        ("colour", ValueRef::Symbol("blue"), true),
        ("colour", ValueRef::Null, true),
        ("missing", ValueRef::Null, false),
        ("weight", ValueRef::F64(7.0), true),
        ("weight", ValueRef::I64(8), false),
        ("weight", ValueRef::Str("7"), false),
        ("id", ValueRef::Uuid([7; 16]), true),
        ("&", ValueRef::Str("&&p:"), true),
    ] {
        let filter = map(&[(ValueRef::Str(key), wanted)]);
        let (filters, _) = of(&[("any", Descriptor::Code(0x174), filter)]);
        assert_eq!(matches(&filters, properties), is_match, "{key} {wanted:?}");
    }
}

#[test]
fn of_filters_that_exclude_each_other_the_last_one_is_in_place() {
    let subject = |text| map(&[(ValueRef::Symbol("subject"), ValueRef::Str(text))]);
    let weight = map(&[(ValueRef::Str("weight"), ValueRef::U8(7))]);
    let p = |name| (name, Descriptor::Code(0x173), subject("a"));
    let a = ("a", Descriptor::Code(0x174), weight);
    let properties = Properties { subject: Some("a"), ..Properties::default() };
    let (filters, names) = of(&[p("p1"), a.clone(), p("p2")]);
    assert_eq!(names, ["a", "p2"]);
    assert!(matches(&filters, properties) && !matches(&filters, Properties::default()));
    assert_eq!(of(&[sql("weight = 7"), a.clone()]).1, ["a"]);
    assert_eq!(of(&[a, sql("weight = 7")]).1, [SQL_NAME]);
}
