use super::*;
use message::{Annotations, Body, BodyForm};
use proptest::prelude::*;
use session::{ShortString, Table, Value as Field};

fn line(key: &[u8], properties: &[u8], payload: &[u8]) -> Vec<u8> {
    written(&MessageRef {
        exchange: b"ex",
        routing_key: key,
        properties,
        body: Body::Borrowed(payload),
        persistent: false,
        annotations: Annotations::NONE,
        form: BodyForm::Plain,
    })
}

fn refusal(line: &str) -> String {
    parse_line(line.as_bytes()).unwrap_err().0
}

#[test]
fn plain_messages_are_plain_lines() {
    let priority = Properties { priority: Some(4), ..Properties::default() }.to_bytes();
    let text = String::from_utf8(line(b"k", &priority, b"a\n\"b\"")).unwrap();
    assert_eq!(
        text,
        "{\"exchange\":\"ex\",\"properties\":{\"priority\":4},\
         \"routing_key\":\"k\",\"payload_encoding\":\"string\",\"payload\":\"a\\n\\\"b\\\"\"}\n"
    );
    let read = parse_line(br#"{"payload": "x"}"#).unwrap();
    assert_eq!(
        (&*read.routing_key, &*read.properties, &*read.payload),
        (&b""[..], &[0, 0][..], &b"x"[..])
    );
    let hand_written =
        r#"{"payload":"eA==","payload_encoding":"base64","properties":[],"routing_key":"k"}"#;
    assert_eq!(&*parse_line(hand_written.as_bytes()).unwrap().payload, b"x");
}

#[test]
fn lines_that_are_no_messages_have_a_reason() {
    for (line, reason) in [
        ("", "not_json"),
        ("[]", "not an object"),
        ("{}", "payload is missing or not a string"),
        (r#"{"payload": 1}"#, "payload is missing or not a string"),
        (r#"{"payload": "a", "payload_truncated": true}"#, "the payload is truncated"),
        (r#"{"payload": "a", "payload_encoding": "rot13"}"#, "unsupported encoding: rot13"),
        (r#"{"payload": "a", "payload_encoding": "base64"}"#, "payload is not base64"),
        (r#"{"payload": "a", "routing_key": 7}"#, "routing_key must be a string"),
        (r#"{"payload": "a", "properties": 7}"#, "properties must be an object"),
        (r#"{"payload": "a", "properties": {"priority": 256}}"#, "invalid property: priority"),
        (r#"{"payload": "a", "properties_base64": "A"}"#, "properties_base64 is not base64"),
        (r#"{"payload": "a", "properties_base64": "//8="}"#, "properties_base64 is malformed"),
    ] {
        assert!(refusal(line).starts_with(reason), "{line}: {}", refusal(line));
    }
    let long = format!(r#"{{"payload": "a", "routing_key": "{}"}}"#, "k".repeat(256));
    assert!(refusal(&long).ends_with("longer than 255 bytes"));
}

fn any_short() -> impl Strategy<Value = Option<ShortString>> {
    let bytes = prop_oneof![
        "[a-zü\"]{0,9}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..9)
    ];
    prop::option::of(bytes.prop_map(|bytes| ShortString::new(bytes).expect("it is short")))
}

fn any_field() -> impl Strategy<Value = Field> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Field::Bool),
        any::<i8>().prop_map(Field::I8),
        any::<u32>().prop_map(Field::U32),
        any::<i64>().prop_map(Field::I64),
        any::<f32>().prop_map(Field::F32),
        any::<f64>().prop_map(Field::F64),
        any::<u64>().prop_map(Field::Timestamp),
        "[a-zü]{0,9}".prop_map(|text| Field::from(text.as_str())),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Field::LongString),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Field::Bytes),
        Just(Field::Void),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Field::Array),
            any_table(inner).prop_map(Field::Table),
        ]
    })
}

fn any_table(field: impl Strategy<Value = Field>) -> impl Strategy<Value = Table> {
    let field = (any_short(), field).prop_map(|(name, field)| (name.unwrap_or_default(), field));
    prop::collection::vec(field, 0..4).prop_map(|fields| fields.into_iter().collect())
}

fn any_properties() -> impl Strategy<Value = Properties> {
    let texts = (any_short(), any_short(), any_short(), any_short(), any_short());
    let numbers = (any::<Option<u8>>(), any::<Option<u8>>(), any::<Option<u64>>());
    (texts, prop::option::of(any_table(any_field())), numbers).prop_map(
        |(texts, headers, numbers)| {
            let (content_type, correlation_id, expiration, kind, app_id) = texts;
            let (delivery_mode, priority, timestamp) = numbers;
            Properties {
                content_type,
                correlation_id,
                expiration,
                kind,
                app_id,
                headers,
                delivery_mode,
                priority,
                timestamp,
                ..Properties::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn a_message_comes_back_to_the_byte(
        key in prop_oneof!["[a-z.ü]{0,9}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..9)],
        properties in any_properties(),
        payload in prop_oneof!["\\PC{0,20}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..20)],
    ) {
        let properties = properties.to_bytes();
        let line = line(&key, &properties, &payload);
        prop_assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let read = parse_line(&line).expect("it is a message");
        prop_assert_eq!(read, Line { routing_key: key, properties, payload: payload.into() });
    }
}
