//! RabbitMQ's conversions, one by one.

use crate::{OFFSET, delivered, published, short, stored, table, there_and_back};
use amqp10::{
    Group, Header, Items, MessageRef as Stored, Properties as Properties10, Section,
    ValueRef as V10, put_application_properties, put_message_annotations,
};
use amqp091::table::Decimal;
use amqp091::{Properties, Value};
use conversion::{DeliveryAttempt, stream_filter_value, to_amqp10};
use message::{Annotations, MessageRef};

fn persistent() -> Properties {
    Properties { delivery_mode: Some(2), ..Properties::default() }
}

fn text(bytes: &[u8]) -> Value {
    Value::LongString(bytes.to_vec())
}

/// The headers of a message of these sections.
fn headers_of(put: impl FnOnce(&mut Vec<u8>)) -> Vec<(String, Value)> {
    let mut bytes = Vec::new();
    put(&mut bytes);
    Section::Data(b"").encode(&mut bytes);
    let headers = delivered(&bytes).properties.headers.expect("the offset at least");
    headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

#[test]
fn a_plain_message_has_the_sections_that_rabbitmq_stores() {
    let bytes = stored(&published(&persistent().to_bytes(), b"hello, world"));
    let expected = b"\x00\x53\x70\xc0\x05\x04\x41\x40\x40\x41\
        \x00\x53\x72\xc1\x2b\x04\xa3\x0ax-exchange\xa1\x06orders\xa3\x0dx-routing-key\xa1\x05eu.de\
        \x00\x53\x75\xa0\x0chello, world";
    assert_eq!(bytes, expected);
    let back = delivered(&bytes);
    assert_eq!((&*back.exchange, &*back.routing_key), (&b"orders"[..], &b"eu.de"[..]));
    assert_eq!(back.body, b"hello, world");
    let offset = table([("x-stream-offset", Value::I64(42))]);
    assert_eq!(back.properties, Properties { headers: Some(offset), ..persistent() });
}

#[test]
fn properties_become_those_of_amqp_1_0() {
    let properties = Properties {
        content_type: Some(short("text/plain")),
        content_encoding: Some(short("gzip")),
        delivery_mode: Some(1),
        priority: Some(4),
        correlation_id: Some(short("7")),
        reply_to: Some(short("a queue/é")),
        expiration: Some(short("60000")),
        message_id: Some(short("urn:uuid:00112233-4455-6677-8899-aabbccddeeff")),
        timestamp: Some(1_700_000_000),
        kind: Some(short("order")),
        user_id: Some(short("guest")),
        app_id: Some(short("shop")),
        cluster_id: Some(short("lost")),
        headers: None,
    };
    let wire = properties.to_bytes();
    let bytes = stored(&published(&wire, b""));
    let message = Stored::parse(&bytes).unwrap();
    let header = Header {
        durable: Some(false),
        priority: Some(4),
        ttl_ms: Some(60_000),
        first_acquirer: true,
        delivery_count: 0,
    };
    assert_eq!(message.header, Some(header));
    let uuid = [
        0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
    ];
    let expected = Properties10 {
        message_id: Some(V10::Uuid(uuid)),
        user_id: Some(b"guest"),
        reply_to: Some(V10::Str("/queues/a%20queue%2F%C3%A9")),
        correlation_id: Some(V10::Str("7")),
        content_type: Some("text/plain"),
        content_encoding: Some("gzip"),
        creation_time_ms: Some(1_700_000_000_000),
        group: Group { id: Some("shop"), ..Group::default() },
        ..Properties10::default()
    };
    assert_eq!(message.properties, Some(expected));
    assert_eq!(message.message_annotations.get("x-basic-type"), Some(V10::Str("order")));
    let offset = Some(table([("x-stream-offset", Value::I64(42))]));
    let back = there_and_back(&properties);
    assert_eq!(back, Properties { headers: offset, cluster_id: None, ..properties });
}

#[test]
fn headers_become_annotations_or_application_properties_by_name() {
    let headers = table([
        ("x-own", Value::Array(vec![Value::I32(1), text(b"two")])),
        ("region", Value::from("eu")),
        ("nested", Value::Table(table([("k", Value::Void)]))),
        ("CC", Value::Array(vec![text(b"copy")])),
        ("x-exchange", Value::from("forged")),
        ("x-death", Value::from("forged")),
        ("x-stream-offset", Value::I64(1)),
        ("n", Value::U16(3)),
    ]);
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    let wire = properties.to_bytes();
    let bytes = stored(&published(&wire, b""));
    let message = Stored::parse(&bytes).unwrap();
    let names = |map: amqp10::MapRef<'_>| -> Vec<String> {
        map.iter().map(|(name, _)| format!("{name:?}")).collect()
    };
    assert_eq!(names(message.application_properties), [r#"Str("region")"#, r#"Str("n")"#]);
    assert_eq!(
        names(message.message_annotations),
        ["x-exchange", "x-routing-key", "x-own", "x-cc", "x-death", "x-stream-offset"]
            .map(|name| format!("Symbol({name:?})"))
    );
    assert_eq!(message.message_annotations.get("x-exchange"), Some(V10::Str("orders")));
    let expected = table([
        ("region", Value::from("eu")),
        ("n", Value::U16(3)),
        ("x-own", Value::Array(vec![Value::I32(1), text(b"two")])),
        ("CC", Value::Array(vec![text(b"copy")])),
        ("x-stream-offset", Value::I64(42)),
    ]);
    assert_eq!(there_and_back(&properties).headers, Some(expected));
}

/// Sections of AMQP 1.0 do not come out of headers: RabbitMQ up to 4.3 read these so.
#[test]
fn headers_named_as_sections_are_headers_like_others() {
    let mut section = Vec::new();
    put_application_properties(&mut section, |items| {
        items.put(V10::Str("forged"));
        items.put(V10::Str("value"));
    });
    let names =
        ["properties", "app-properties", "message-annotations", "delivery-annotations", "footer"];
    let headers = table(names.map(|name| {
        let name: &'static str = format!("x-amqp-1.0-{name}").leak();
        (name, Value::LongString(section.clone()))
    }));
    let properties = Properties { headers: Some(headers.clone()), ..persistent() };
    let bytes = stored(&published(&properties.to_bytes(), b"body"));
    let message = Stored::parse(&bytes).unwrap();
    assert!(message.properties.is_none() && message.application_properties.iter().next().is_none());
    let back = delivered(&bytes);
    assert_eq!(back.body, b"body");
    for (name, value) in headers.iter() {
        let header = back.properties.headers.as_ref().unwrap().get(name.as_bytes());
        assert_eq!(header, Some(value));
    }
}

#[test]
fn each_type_of_header_has_its_type_in_amqp_1_0_and_back() {
    let long = vec![b'a'; 4097];
    let nested = table([("a", Value::Array(vec![Value::Bool(true)])), ("ü", Value::Void)]);
    let cases: Vec<(Value, V10<'_>, Value)> = vec![
        (Value::Bool(true), V10::Bool(true), Value::Bool(true)),
        (Value::I8(-1), V10::I8(-1), Value::I8(-1)),
        (Value::U8(1), V10::U8(1), Value::U8(1)),
        (Value::I16(-2), V10::I16(-2), Value::I16(-2)),
        (Value::U16(2), V10::U16(2), Value::U16(2)),
        (Value::I32(-3), V10::I32(-3), Value::I32(-3)),
        (Value::U32(3), V10::U32(3), Value::U32(3)),
        (Value::I64(-4), V10::I64(-4), Value::I64(-4)),
        (Value::F32(0.5), V10::F32(0.5), Value::F32(0.5)),
        (Value::F64(0.25), V10::F64(0.25), Value::F64(0.25)),
        (Value::Timestamp(5), V10::Timestamp(5000), Value::Timestamp(5)),
        (Value::Void, V10::Null, Value::Void),
        (text("é".as_bytes()), V10::Str("é"), text("é".as_bytes())),
        (text(b"a\0b"), V10::Binary(b"a\0b"), text(b"a\0b")),
        (text(b"\xff"), V10::Binary(b"\xff"), text(b"\xff")),
        (text(&long), V10::Binary(&long), text(&long)),
        (Value::Bytes(b"b".to_vec()), V10::Binary(b"b"), text(b"b")),
        (Value::Decimal(Decimal { scale: 2, value: 275 }), V10::F64(2.75), Value::F64(2.75)),
    ];
    for (before, within, after) in cases {
        for name in ["h", "x-h"] {
            let headers = table([(name, before.clone())]);
            let wire = Properties { headers: Some(headers), ..persistent() }.to_bytes();
            let bytes = stored(&published(&wire, b""));
            let message = Stored::parse(&bytes).unwrap();
            let found = message.application_properties.get(name);
            assert_eq!(found.or_else(|| message.message_annotations.get(name)), Some(within));
            let back = delivered(&bytes).properties.headers.unwrap();
            assert_eq!(back.get(name.as_bytes()), Some(&after), "{before:?}");
        }
    }
    let headers = table([("x-h", Value::Table(nested.clone()))]);
    let back = there_and_back(&Properties { headers: Some(headers), ..persistent() });
    assert_eq!(back.headers.unwrap().get(b"x-h"), Some(&Value::Table(nested)));
}

#[test]
fn values_that_only_amqp_1_0_has_become_the_nearest() {
    let found = headers_of(|out| {
        put_application_properties(out, |items| {
            let mut put = |name, value| {
                items.put(V10::Str(name));
                items.put(value);
            };
            put("ulong", V10::U64(u64::MAX));
            put("symbol", V10::Symbol("s"));
            put("char", V10::Char('é'));
            put("uuid", V10::Uuid([0xAB; 16]));
            put("decimal", V10::Decimal32([1; 4]));
            put("before 1970", V10::Timestamp(-5000));
        });
    });
    let expected = [
        ("ulong", Value::I64(-1)),
        ("symbol", Value::from("s")),
        ("char", Value::from("é")),
        ("uuid", Value::from("urn:uuid:abababab-abab-abab-abab-abababababab")),
        ("before 1970", Value::Timestamp(-5_i64 as u64)),
        ("x-stream-offset", Value::I64(42)),
    ];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn annotations_become_headers_if_their_names_say_so() {
    let found = headers_of(|out| {
        put_message_annotations(out, |items| {
            items.put_symbol("x-opt-rabbitmq-received-time", V10::Timestamp(1_234));
            items.put_symbol("x-own", V10::Null);
            items.put_symbol("not-x", V10::Null);
            items.put_symbol("x-basic-other", V10::Null);
            items.put_symbol("x-opt-deaths", V10::Bool(true));
            items.put(V10::U64(1));
            items.put(V10::Null);
        });
        put_application_properties(out, |items| {
            for name in ["x-own", "x-stream-offset", "x-other"] {
                items.put(V10::Str(name));
                items.put(V10::Bool(true));
            }
            items.put(V10::Str(&"n".repeat(256)));
            items.put(V10::Null);
        });
    });
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-other", "timestamp_in_ms", "x-own", "x-stream-offset"]);
    assert_eq!(found[1].1, Value::I64(1_234));
    assert_eq!(found[3].1, Value::I64(OFFSET.cast_signed()));
}

#[test]
fn ids_of_every_kind_become_text_or_headers() {
    let long = "i".repeat(256);
    let cases = [
        (V10::U64(12_345), Some("12345"), None),
        (V10::I64(-12_345), Some("-12345"), None),
        (V10::Bool(true), None, None),
        (V10::Str("id"), Some("id"), None),
        (V10::Uuid([1; 16]), Some("urn:uuid:01010101-0101-0101-0101-010101010101"), None),
        (V10::Binary(b"\x01"), None, Some(Value::Bytes(b"\x01".to_vec()))),
        (V10::Str(&long), None, Some(Value::from(long.as_str()))),
    ];
    for (id, as_text, as_header) in cases {
        let properties =
            Properties10 { message_id: Some(id), correlation_id: Some(id), ..Default::default() };
        let mut bytes = Vec::new();
        Section::Properties(properties).encode(&mut bytes);
        let back = delivered(&bytes).properties;
        let text = |id: Option<amqp091::ShortString>| id.map(|id| id.to_string());
        assert_eq!(text(back.message_id).as_deref(), as_text);
        assert_eq!(text(back.correlation_id).as_deref(), as_text);
        let headers = back.headers.unwrap();
        assert_eq!(headers.get(b"x-message-id"), as_header.as_ref());
        assert_eq!(headers.get(b"x-correlation-id"), as_header.as_ref());
    }
    for not_a_uuid in ["urn:uuid:0011", "urn:uuid:00112233-4455-6677-8899-aabbccddeefg"] {
        let properties = Properties { message_id: Some(short(not_a_uuid)), ..persistent() };
        assert_eq!(there_and_back(&properties).message_id, properties.message_id);
    }
}

#[test]
fn a_reply_address_is_that_of_a_queue_or_itself() {
    let cases = [
        ("/queues/a%2Fb", Some("a/b")),
        ("/queues/plain", Some("plain")),
        ("/exchanges/x", Some("/exchanges/x")),
        ("/queues/%zz", None),
        ("/queues/%2", None),
    ];
    for (address, queue) in cases {
        let mut bytes = Vec::new();
        let properties = Properties10 { reply_to: Some(V10::Str(address)), ..Default::default() };
        Section::Properties(properties).encode(&mut bytes);
        let found = delivered(&bytes).properties.reply_to.map(|queue| queue.to_string());
        assert_eq!(found.as_deref(), queue, "{address}");
    }
}

#[test]
fn what_has_no_place_in_a_section_comes_back_all_the_same() {
    let raw = |bytes: &[u8]| Some(amqp091::ShortString::new(bytes).unwrap());
    let properties = Properties {
        content_type: raw("größe".as_bytes()),
        content_encoding: raw(b"\xff"),
        delivery_mode: Some(1),
        correlation_id: raw(b"\xfe\x01"),
        expiration: raw(b"4294967296"),
        message_id: raw(b"\xfd"),
        timestamp: Some(u64::MAX),
        kind: raw(b"\xfc"),
        app_id: raw(b"\xfb"),
        ..Properties::default()
    };
    let offset = Some(table([("x-stream-offset", Value::I64(42))]));
    let back = there_and_back(&properties);
    assert_eq!(back, Properties { headers: offset, ..properties.clone() });
    let wire = properties.to_bytes();
    let message = MessageRef { exchange: b"\xfa", routing_key: b"\xf9", ..published(&wire, b"") };
    let back = delivered(&stored(&message));
    assert_eq!((&*back.exchange, &*back.routing_key), (&b"\xfa"[..], &b"\xf9"[..]));
}

#[test]
fn the_deaths_of_a_dead_letter_come_back_and_those_a_client_claims_do_not() {
    let death = |entries: &[(&'static str, Value)]| {
        let keys = Value::Array(vec![text(b"key"), text(b"copy")]);
        let all = [("exchange", Value::from("x")), ("routing-keys", keys)];
        let entries = entries.iter().cloned().chain(all);
        Value::Table(entries.map(|(name, value)| (short(name), value)).collect())
    };
    let deaths = Value::Array(vec![
        death(&[
            ("original-expiration", Value::from("100")),
            ("count", Value::I64(3)),
            ("reason", Value::from("expired")),
            ("queue", Value::from("q")),
            ("time", Value::Timestamp(1_700_000_000)),
        ]),
        death(&[
            ("count", Value::I64(1)),
            ("reason", Value::from("rejected")),
            ("queue", Value::from("r")),
            ("time", Value::Timestamp(7)),
        ]),
    ]);
    let headers =
        table([("x-death", deaths.clone()), ("x-last-death-reason", Value::from("expired"))]);
    let wire = Properties { headers: Some(headers), ..persistent() }.to_bytes();
    let dead = Annotations { dead_lettered: true, ..Annotations::NONE };
    for (annotations, expected) in [(dead, Some(&deaths)), (Annotations::NONE, None)] {
        let bytes = stored(&MessageRef { annotations, ..published(&wire, b"") });
        let headers = delivered(&bytes).properties.headers.unwrap();
        assert_eq!(headers.get(b"x-death"), expected);
        assert_eq!(headers.get(b"x-last-death-reason"), Some(&Value::from("expired")));
    }
}

#[test]
fn bodies_are_joined_or_stay_sections() {
    let part = |bytes: &'static [u8], out: &mut Vec<u8>| Section::Data(bytes).encode(out);
    let mut parts = Vec::new();
    part(b"one, ", &mut parts);
    part(b"two", &mut parts);
    assert_eq!(delivered(&parts).body, b"one, two");
    let mut value = Vec::new();
    Section::Header(Header { durable: Some(true), ..Header::default() }).encode(&mut value);
    let body_begin = value.len();
    Section::Value(V10::Str("text")).encode(&mut value);
    let back = delivered(&value);
    assert_eq!(
        (&*back.body, back.properties.kind),
        (&value[body_begin..], Some(short("amqp-1.0")))
    );
    assert_eq!(back.properties.delivery_mode, Some(2));
    // Published with that type, the body is sections again.
    let typed = Properties { kind: Some(short("amqp-1.0")), ..persistent() }.to_bytes();
    let sections = &value[body_begin..];
    assert!(stored(&published(&typed, sections)).ends_with(sections));
    for not_sections in [&b"text"[..], b"", &value] {
        let bytes = stored(&published(&typed, not_sections));
        assert_eq!(delivered(&bytes).body, not_sections);
    }
    assert_eq!(delivered(b"").body, b"");
}

#[test]
fn bytes_that_are_no_message_are_a_body() {
    for raw in [&b"hello"[..], b"\x00", b"\x00\x53\x75\xa0\x05abc", b"\x00\x53\x79\x40", b"{}"] {
        let back = delivered(raw);
        assert_eq!(back.body, raw);
        assert_eq!((&*back.exchange, &*back.routing_key), (&b""[..], &b"stream"[..]));
        let offset = table([("x-stream-offset", Value::I64(42))]);
        let properties = Properties { headers: Some(offset), ..Properties::default() };
        assert_eq!(back.properties, properties);
    }
}

#[test]
fn a_name_that_is_too_long_for_amqp_0_9_1_is_not_taken() {
    let mut bytes = Vec::new();
    let long = "k".repeat(256);
    put_message_annotations(&mut bytes, |items: &mut Items<'_>| {
        items.put_symbol("x-routing-key", V10::Str(&long));
        items.put_symbol("x-basic-type", V10::Str(&long));
    });
    let properties = Properties10 {
        content_type: Some(&long),
        user_id: Some(b"with\0zero"),
        reply_to: Some(V10::Str(&long)),
        ..Default::default()
    };
    Section::Properties(properties).encode(&mut bytes);
    let back = delivered(&bytes);
    assert_eq!(back.routing_key, b"stream");
    let offset = table([("x-stream-offset", Value::I64(42))]);
    assert_eq!(back.properties, Properties { headers: Some(offset), ..Properties::default() });
}

#[test]
fn the_filter_value_is_the_header_of_its_name() {
    let wire = |value| {
        let headers = table([("a", Value::Void), ("x-stream-filter-value", value)]);
        Properties { headers: Some(headers), ..Properties::default() }.to_bytes()
    };
    let found = |wire: &[u8]| stream_filter_value(&published(wire, b"")).map(<[u8]>::to_vec);
    assert_eq!(found(&wire(Value::from("eu"))), Some(b"eu".to_vec()));
    assert_eq!(found(&wire(Value::I32(1))), None);
    assert_eq!(found(&Properties::default().to_bytes()), None);
}

#[test]
fn messages_are_appended() {
    let message = published(b"\0\0", b"x");
    let mut out = b"before".to_vec();
    to_amqp10(&message, DeliveryAttempt::FIRST, &mut out);
    assert_eq!(out, [&b"before"[..], &stored(&message)].concat());
}
