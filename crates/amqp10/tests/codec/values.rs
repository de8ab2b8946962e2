//! Values and messages there and back: by the specification, and of any bytes.

use amqp10::{
    Body, DEPTH_MAX, DecodeError, Group, Header, Items, MapRef, MessageOutline, MessageRef,
    Properties, Section, Sections, ValueRef, put_list, put_map,
};
use proptest::prelude::*;

fn decode(bytes: &[u8]) -> Result<ValueRef<'_>, DecodeError> {
    let (value, n_bytes) = ValueRef::decode(bytes)?;
    assert_eq!(n_bytes, bytes.len());
    Ok(value)
}

fn encoded(value: ValueRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// Part 1, 1.6: each type, in its shortest form.
#[test]
fn wire_form_of_every_type() {
    let forms: &[(ValueRef<'_>, &[u8])] = &[
        (ValueRef::Null, b"\x40"),
        (ValueRef::Bool(true), b"\x41"),
        (ValueRef::Bool(false), b"\x42"),
        (ValueRef::U8(255), b"\x50\xff"),
        (ValueRef::U16(258), b"\x60\x01\x02"),
        (ValueRef::U32(0), b"\x43"),
        (ValueRef::U32(7), b"\x52\x07"),
        (ValueRef::U32(256), b"\x70\x00\x00\x01\x00"),
        (ValueRef::U64(0), b"\x44"),
        (ValueRef::U64(0x73), b"\x53\x73"),
        (ValueRef::U64(1 << 32), b"\x80\x00\x00\x00\x01\x00\x00\x00\x00"),
        (ValueRef::I8(-1), b"\x51\xff"),
        (ValueRef::I16(-2), b"\x61\xff\xfe"),
        (ValueRef::I32(-3), b"\x54\xfd"),
        (ValueRef::I32(128), b"\x71\x00\x00\x00\x80"),
        (ValueRef::I64(-128), b"\x55\x80"),
        (ValueRef::I64(-129), b"\x81\xff\xff\xff\xff\xff\xff\xff\x7f"),
        (ValueRef::F32(1.5), b"\x72\x3f\xc0\x00\x00"),
        (ValueRef::F64(-2.0), b"\x82\xc0\x00\x00\x00\x00\x00\x00\x00"),
        (ValueRef::Decimal32([1, 2, 3, 4]), b"\x74\x01\x02\x03\x04"),
        (ValueRef::Decimal64([1; 8]), b"\x84\x01\x01\x01\x01\x01\x01\x01\x01"),
        (
            ValueRef::Decimal128([2; 16]),
            b"\x94\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02",
        ),
        (ValueRef::Char('\u{1f407}'), b"\x73\x00\x01\xf4\x07"),
        (ValueRef::Timestamp(1), b"\x83\x00\x00\x00\x00\x00\x00\x00\x01"),
        (
            ValueRef::Uuid([3; 16]),
            b"\x98\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03",
        ),
        (ValueRef::Binary(b"\x00\xff"), b"\xa0\x02\x00\xff"),
        (ValueRef::Str("hé"), b"\xa1\x03h\xc3\xa9"),
        (ValueRef::Symbol("x-opt"), b"\xa3\x05x-opt"),
    ];
    for (value, bytes) in forms {
        assert_eq!(encoded(*value), *bytes, "{value:?}");
        assert_eq!(decode(bytes), Ok(*value));
    }
}

#[test]
fn longer_forms_are_read_too() {
    assert_eq!(decode(b"\x56\x01"), Ok(ValueRef::Bool(true)));
    assert_eq!(decode(b"\x70\x00\x00\x00\x00"), Ok(ValueRef::U32(0)));
    assert_eq!(decode(b"\xb1\x00\x00\x00\x01a"), Ok(ValueRef::Str("a")));
    assert_eq!(decode(b"\xb3\x00\x00\x00\x01a"), Ok(ValueRef::Symbol("a")));
    assert_eq!(decode(b"\xb0\x00\x00\x00\x01a"), Ok(ValueRef::Binary(b"a")));
    let long = "n".repeat(300);
    let bytes = encoded(ValueRef::Str(&long));
    assert_eq!(bytes[..5], *b"\xb1\x00\x00\x01\x2c");
    assert_eq!(decode(&bytes), Ok(ValueRef::Str(&long)));
}

#[test]
fn lists_maps_and_arrays_hold_what_they_say() {
    // List of 1 and "a"; the same in the longer form.
    for bytes in [
        &b"\xc0\x06\x02\x52\x01\xa1\x01a"[..],
        b"\xd0\x00\x00\x00\x09\x00\x00\x00\x02\x52\x01\xa1\x01a",
    ] {
        let Ok(ValueRef::List(list)) = decode(bytes) else { panic!("no list") };
        assert_eq!(list.len(), 2);
        assert!(list.iter().eq([ValueRef::U32(1), ValueRef::Str("a")]));
        assert_eq!(encoded(ValueRef::List(list)), b"\xc0\x06\x02\x52\x01\xa1\x01a");
    }
    let Ok(ValueRef::List(empty)) = decode(b"\x45") else { panic!("no list") };
    assert!(empty.is_empty());
    assert_eq!(encoded(ValueRef::List(empty)), b"\x45");
    let Ok(ValueRef::Map(map)) = decode(b"\xc1\x05\x02\xa3\x01k\x41") else { panic!("no map") };
    assert_eq!((map.len(), map.get("k"), map.get("l")), (1, Some(ValueRef::Bool(true)), None));
    // Two shorts, and two shorts that have a descriptor.
    let Ok(ValueRef::Array(array)) = decode(b"\xe0\x06\x02\x61\x00\x01\x00\x02") else {
        panic!("no array")
    };
    assert!(array.iter().eq([ValueRef::I16(1), ValueRef::I16(2)]) && array.len() == 2);
    let Ok(ValueRef::Array(array)) = decode(b"\xe0\x09\x02\x00\x53\x05\x61\x00\x01\x00\x02") else {
        panic!("no array")
    };
    assert_eq!(array.descriptor(), Some(amqp10::Descriptor::Code(5)));
    assert!(array.iter().eq([ValueRef::I16(1), ValueRef::I16(2)]));
}

#[test]
fn what_is_written_item_by_item_takes_the_shorter_form_if_it_fits() {
    let mut out = Vec::new();
    put_map(&mut out, |items| items.put_symbol("k", ValueRef::Bool(true)));
    assert_eq!(out, b"\xc1\x05\x02\xa3\x01k\x41");
    out.clear();
    put_list(&mut out, |_| {});
    assert_eq!(out, b"\x45");
    out.clear();
    put_list(&mut out, |items| {
        items.put_list(|items| items.put(ValueRef::Null));
        items.put_map(|_| {});
        (0..300).for_each(|n| items.put(ValueRef::U32(n)));
    });
    let Ok(ValueRef::List(list)) = decode(&out) else { panic!("no list") };
    assert_eq!((list.len(), out[0]), (302, 0xd0));
    assert!(list.iter().skip(2).eq((0..300).map(ValueRef::U32)));
}

#[test]
fn bad_values_are_refused() {
    let nested = b"\xc0\xff\x01".repeat(DEPTH_MAX + 1);
    let descriptors = [b"\x00\x53\x01".repeat(DEPTH_MAX + 1), vec![0x40]].concat();
    let cases: &[(&[u8], DecodeError)] = &[
        (b"", DecodeError::Truncated),
        (b"\x70\x00", DecodeError::Truncated),
        (b"\xa1\x05abc", DecodeError::Truncated),
        (b"\xb0\xff\xff\xff\xff", DecodeError::Truncated),
        (b"\x3f", DecodeError::UnknownConstructor(0x3f)),
        (b"\xa2\x00", DecodeError::UnknownConstructor(0xa2)),
        (b"\x56\x02", DecodeError::NotOfType),
        (b"\x73\x00\x00\xd8\x00", DecodeError::NotOfType),
        (b"\xa1\x01\xff", DecodeError::NotText),
        (b"\xa3\x02\xc3\xa9", DecodeError::NotText),
        // A count of more than there is, of less, and a key without a value.
        (b"\xc0\x02\x02\x40", DecodeError::Count),
        (b"\xc0\x03\x01\x40\x40", DecodeError::Count),
        (b"\xc1\x02\x01\x40", DecodeError::Count),
        (b"\xe0\x04\x01\x50\x01\x02", DecodeError::Count),
        (b"\x00\x40\x40", DecodeError::Descriptor),
        (b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40", DecodeError::TooManyElements),
        (&descriptors, DecodeError::TooDeep),
    ];
    for (bytes, error) in cases {
        assert_eq!(ValueRef::decode(bytes), Err(*error), "{bytes:x?}");
    }
    // Lists that claim to be longer than what they are in.
    assert_eq!(ValueRef::decode(&nested), Err(DecodeError::Truncated));
    let mut deep = vec![0x40];
    for _ in 0..=DEPTH_MAX {
        let inner = std::mem::take(&mut deep);
        put_list(&mut deep, |items| items.put(ValueRef::decode(&inner).unwrap().0));
        if ValueRef::decode(&deep).is_err() {
            break;
        }
    }
    assert_eq!(ValueRef::decode(&deep), Err(DecodeError::TooDeep));
}

/// Arrays of 40,000 nulls each, in ten bytes.
#[test]
fn elements_without_bytes_are_counted_over_all_arrays_of_a_value() {
    let nulls = b"\xf0\x00\x00\x00\x05\x00\x00\x9c\x40\x40";
    assert!(ValueRef::decode(nulls).is_ok());
    let list = [&b"\xc0\x15\x02"[..], nulls, nulls].concat();
    assert_eq!(ValueRef::decode(&list), Err(DecodeError::TooManyElements));
    let described = [&b"\x00\x53\x01"[..], &list].concat();
    assert_eq!(ValueRef::decode(&described), Err(DecodeError::TooManyElements));
    let annotations = [&b"\x00\x53\x72\xc1\x1b\x04\xa3\x01a"[..], nulls, b"\xa3\x01b", nulls];
    assert_eq!(parse(&annotations.concat()), Err(DecodeError::TooManyElements));
}

/// The message; its outline says the same.
fn parse(bytes: &[u8]) -> Result<MessageRef<'_>, DecodeError> {
    let (message, outline) = (MessageRef::parse(bytes), MessageOutline::parse(bytes));
    let outlined = message.map(|message| {
        let properties = message.properties.unwrap_or_default();
        MessageOutline {
            header: message.header.unwrap_or_default(),
            message_annotations: message.message_annotations,
            user_id: properties.user_id,
            to: properties.to,
            subject: properties.subject,
            creation_time_ms: properties.creation_time_ms,
            has_body: message.body != Body::Data(&[]),
            hop_bytes: outline.map_or(0, |outline| outline.hop_bytes),
        }
    });
    assert_eq!(outline, outlined);
    if let Ok(outline) = outline {
        let is_of_hop = |section| {
            matches!(section, Some(Ok(Section::Header(_) | Section::DeliveryAnnotations(_))))
        };
        let (of_hop, rest) = bytes.split_at(outline.hop_bytes);
        assert!(Sections::new(of_hop).all(|section| is_of_hop(Some(section))));
        assert!(!is_of_hop(Sections::new(rest).next()));
    }
    message
}

#[test]
fn a_message_has_its_sections() {
    // Header durable; a property "k"; two parts of a body.
    let bytes = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x74\xc1\x05\x02\xa1\x01k\x41\
                  \x00\x53\x75\xa0\x02ab\x00\x53\x75\xa0\x01c";
    let message = parse(bytes).unwrap();
    assert_eq!(message.header, Some(Header { durable: Some(true), ..Header::default() }));
    assert_eq!(message.application_properties.get("k"), Some(ValueRef::Bool(true)));
    assert!(message.body.data().eq([&b"ab"[..], b"c"]));
    assert_eq!(message.properties, None);
    let mut again = Vec::new();
    Sections::new(bytes).for_each(|section| section.unwrap().encode(&mut again));
    assert_eq!(again, bytes);
    // By name.
    let named = parse(b"\x00\xa3\x10amqp:data:binary\xa0\x01d").unwrap();
    assert!(named.body.data().eq([&b"d"[..]]));
    let value = parse(b"\x00\x53\x77\xa1\x01v").unwrap();
    assert_eq!(value.body, Body::Value(ValueRef::Str("v")));
    assert_eq!(value.body.data().count(), 0);
    assert_eq!(parse(b"").unwrap().body, Body::Data(b""));
}

#[test]
fn sections_have_an_order() {
    let cases: &[(&[u8], DecodeError)] = &[
        (b"\x00\x53\x75\xa0\x00\x00\x53\x77\x40", DecodeError::Section),
        (b"\x00\x53\x77\x40\x00\x53\x77\x40", DecodeError::Section),
        (b"\x00\x53\x75\xa0\x00\x00\x53\x70\x45", DecodeError::Section),
        (b"\x00\x53\x79\x40", DecodeError::Section),
        (b"\x40", DecodeError::Section),
        (b"\x00\x53\x75\x40", DecodeError::FieldType),
        (b"\x00\x53\x70\xc0\x02\x01\x43", DecodeError::FieldType),
        (b"\x00\x53\x73\xc0\x03\x02\x40\x41", DecodeError::FieldType),
    ];
    for (bytes, error) in cases {
        assert_eq!(parse(bytes), Err(*error), "{bytes:x?}");
    }
}

#[test]
fn properties_come_back() {
    let properties = Properties {
        message_id: Some(ValueRef::U64(9)),
        user_id: Some(b"guest"),
        to: Some(ValueRef::Str("/queues/q")),
        content_type: Some("text/plain"),
        creation_time_ms: Some(1_700_000_000_000),
        group: Group { id: Some("g"), sequence: Some(3), reply_to_id: None },
        ..Properties::default()
    };
    let mut out = Vec::new();
    Section::Properties(properties).encode(&mut out);
    assert_eq!(parse(&out).unwrap().properties, Some(properties));
    let header =
        Header { priority: Some(9), ttl_ms: Some(5), delivery_count: 1, ..Header::default() };
    out.clear();
    Section::Header(header).encode(&mut out);
    assert_eq!(parse(&out).unwrap().header, Some(header));
}

/// A value of any type, and of any nesting, as bytes.
pub(crate) fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(encoded(ValueRef::Null)),
        any::<bool>().prop_map(|it| encoded(ValueRef::Bool(it))),
        any::<u32>().prop_map(|it| encoded(ValueRef::U32(it))),
        any::<i64>().prop_map(|it| encoded(ValueRef::I64(it))),
        any::<i64>().prop_map(|it| encoded(ValueRef::Timestamp(it))),
        any::<char>().prop_map(|it| encoded(ValueRef::Char(it))),
        any::<Vec<u8>>().prop_map(|it| encoded(ValueRef::Binary(&it))),
        ".{0,300}".prop_map(|it| encoded(ValueRef::Str(&it))),
        "[ -~]{0,40}".prop_map(|it| encoded(ValueRef::Symbol(&it))),
    ];
    leaf.prop_recursive(4, 60, 8, |inner| {
        let many = proptest::collection::vec(inner.clone(), 0..8);
        let put = |items: &mut Items<'_>, values: &[Vec<u8>]| {
            values.iter().flat_map(|it| ValueRef::decode(it)).for_each(|(it, _)| items.put(it));
        };
        prop_oneof![
            many.clone().prop_map(move |values| {
                let mut out = Vec::new();
                put_list(&mut out, |items| put(items, &values));
                out
            }),
            (many, inner).prop_map(move |(values, last)| {
                let mut out = Vec::new();
                put_map(&mut out, |items| {
                    put(items, &values);
                    if values.len() % 2 == 1 {
                        put(items, &[last]);
                    }
                });
                out
            }),
        ]
    })
}

/// Everything in a value, so that no iterator is left untried.
fn walk(value: ValueRef<'_>) -> usize {
    let inner: usize = if let ValueRef::List(list) = value {
        list.iter().map(walk).sum()
    } else if let ValueRef::Map(map) = value {
        map.iter().map(|(key, value)| walk(key) + walk(value)).sum()
    } else if let ValueRef::Array(array) = value {
        array.iter().map(walk).sum()
    } else if let ValueRef::Described(described) = value {
        walk(described.value())
    } else {
        0
    };
    1 + inner
}

proptest! {
    #[test]
    fn values_come_back(bytes in any_value()) {
        let (value, n_bytes) = ValueRef::decode(&bytes).unwrap();
        prop_assert_eq!(n_bytes, bytes.len());
        prop_assert_eq!(encoded(value), bytes);
    }

    /// Valid bytes are written again as something that means the same, and every count is true.
    #[test]
    fn any_bytes_are_refused_or_understood(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((value, n_bytes)) = ValueRef::decode(&bytes) {
            let n_values = walk(value);
            let again = encoded(value);
            let (value, n_again) = ValueRef::decode(&again).unwrap();
            prop_assert_eq!((walk(value), n_again), (n_values, again.len()));
            prop_assert!(n_bytes <= bytes.len());
        }
        if let Ok(message) = parse(&bytes) {
            prop_assert!(message.body.data().map(<[u8]>::len).sum::<usize>() <= bytes.len());
        }
    }

    /// The same of messages that were whole before one of their bytes was changed.
    #[test]
    fn damaged_messages_are_refused_or_understood(
        body in any::<Vec<u8>>(),
        map in any_value(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        Section::Header(Header::default()).encode(&mut bytes);
        let value = ValueRef::decode(&map).unwrap().0;
        let map = if let ValueRef::Map(map) = value { map } else { MapRef::EMPTY };
        Section::ApplicationProperties(map).encode(&mut bytes);
        Section::Data(&body).encode(&mut bytes);
        let whole = parse(&bytes).unwrap();
        prop_assert_eq!(whole.body.data().collect::<Vec<_>>(), [&body[..]]);
        let at = at.index(bytes.len());
        bytes[at] = to;
        for section in Sections::new(&bytes).map_while(Result::ok) {
            let mut again = Vec::new();
            section.encode(&mut again);
            prop_assert!(again.len() <= bytes.len() + 64);
        }
    }
}
