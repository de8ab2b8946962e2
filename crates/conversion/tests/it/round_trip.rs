//! Any message comes back as it was published.

use crate::{OFFSET, delivered, published, stored};
use amqp091::{Properties, ShortString, Table, Value};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Text of any bytes, as a rule UTF-8.
pub(crate) fn text() -> impl Strategy<Value = ShortString> {
    let bytes = prop_oneof![
        4 => "\\PC{0,60}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..=255),
    ];
    bytes.prop_map(|bytes| ShortString::new(bytes).expect("at most 255 bytes"))
}

/// Values that come back as they were: bytes become long strings, decimal numbers floats.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        (0..1_u64 << 53).prop_map(Value::Timestamp),
        vec(any::<u8>(), 0..300).prop_map(Value::LongString),
        "\\PC{0,300}".prop_map(Value::from),
        Just(Value::Void),
    ]
}

fn nested() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(31, 60, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec(("\\PC{0,10}", inner), 0..4).prop_map(|entries| {
                let name = |text: String| ShortString::truncated(&text);
                Value::Table(entries.into_iter().map(|(key, value)| (name(key), value)).collect())
            }),
        ]
    })
}

/// Headers in the order in which they come back.
fn headers() -> impl Strategy<Value = Table> {
    let plain = ("[a-w]{1,3}[\\PC]{0,10}", scalar());
    let own = ("x-[g-né]{1,3}", nested());
    (vec(plain, 0..5), vec(own, 0..5)).prop_map(|(plain, own)| {
        let all = plain.into_iter().chain(own);
        all.map(|(name, value)| (ShortString::truncated(&name), value)).collect()
    })
}

pub(crate) fn properties() -> impl Strategy<Value = Properties> {
    let types = (option::of(text()), option::of(text()), option::of(headers()));
    let delivery = (1..=2_u8, any::<Option<u8>>(), any::<Option<u64>>());
    let ids = (option::of(text()), option::of(text()), option::of(text()));
    let names = (option::of(text()), option::of("[a-zé]{0,20}"), option::of(text()));
    (types, delivery, ids, names).prop_map(|(types, delivery, ids, names)| Properties {
        content_type: types.0,
        content_encoding: types.1,
        headers: types.2,
        delivery_mode: Some(delivery.0),
        priority: delivery.1,
        correlation_id: ids.0,
        reply_to: ids.1,
        expiration: delivery.2.map(|ttl| ShortString::truncated(&ttl.to_string())),
        message_id: ids.2,
        timestamp: delivery.2,
        kind: names.0.filter(|kind| *kind != "amqp-1.0"),
        user_id: names.1.map(|name| ShortString::truncated(&name)),
        app_id: names.2,
        cluster_id: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_message_comes_back(
        properties in properties(),
        body in vec(any::<u8>(), 0..600),
        exchange in text(),
        key in text(),
    ) {
        let wire = properties.to_bytes();
        let message = message::MessageRef {
            exchange: &exchange,
            routing_key: &key,
            ..published(&wire, &body)
        };
        let back = delivered(&stored(&message));
        prop_assert_eq!(back.exchange, &*exchange);
        prop_assert_eq!(back.routing_key, &*key);
        prop_assert_eq!(back.body, body);
        let mut expected = properties;
        let offset = Value::I64(OFFSET.cast_signed());
        expected.headers.get_or_insert_default().push(crate::short("x-stream-offset"), offset);
        prop_assert_eq!(back.properties.to_bytes(), expected.to_bytes());
    }
}

#[test]
fn headers_may_nest_as_deep_as_amqp_0_9_1_lets_them() {
    let mut value = Value::Void;
    for level in 1..amqp091::table::DEPTH_MAX {
        value = match level % 2 {
            0 => Value::Array(vec![value]),
            _ => Value::Table(crate::table([("k", value)])),
        };
    }
    let headers = crate::table([("x-deep", value.clone())]);
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    let back = crate::there_and_back(&properties);
    assert_eq!(back.headers.unwrap().get(b"x-deep"), Some(&value));
}
