//! Values of AMQP 1.0 as JSON, for people to read. What JSON has no form for comes as text.

use amqp10::{
    DescribedRef, Descriptor, Group, Header, MapRef, Properties, Section, Sections, ValueRef,
    put_application_properties,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use message::MessageRef;
use serde_json::{Map, Value, json};

/// A value. Bytes that are no text come in base64, decimal numbers as their bytes do.
pub(crate) fn value(of: ValueRef<'_>) -> Value {
    match of {
        ValueRef::Null => Value::Null,
        ValueRef::Bool(it) => it.into(),
        ValueRef::U8(it) => it.into(),
        ValueRef::U16(it) => it.into(),
        ValueRef::U32(it) => it.into(),
        ValueRef::U64(it) => it.into(),
        ValueRef::I8(it) => it.into(),
        ValueRef::I16(it) => it.into(),
        ValueRef::I32(it) => it.into(),
        ValueRef::I64(it) | ValueRef::Timestamp(it) => it.into(),
        ValueRef::F32(it) => f64::from(it).into(),
        ValueRef::F64(it) => it.into(),
        ValueRef::Decimal32(it) => bytes(&it),
        ValueRef::Decimal64(it) => bytes(&it),
        ValueRef::Decimal128(it) => bytes(&it),
        ValueRef::Char(it) => it.to_string().into(),
        ValueRef::Uuid(it) => uuid(u128::from_be_bytes(it)).into(),
        ValueRef::Binary(it) => bytes(it),
        ValueRef::Str(it) | ValueRef::Symbol(it) => it.into(),
        ValueRef::List(it) => it.iter().map(value).collect(),
        ValueRef::Map(it) => map(it),
        ValueRef::Array(it) => it.iter().map(value).collect(),
        ValueRef::Described(it) => {
            json!({"descriptor": descriptor(&it), "value": value(it.value())})
        }
    }
}

/// A map as an object; keys that are no text are written as JSON.
pub(crate) fn map(of: MapRef<'_>) -> Value {
    let entry = |(key, of)| {
        let key = value(key);
        (key.as_str().map_or_else(|| key.to_string(), str::to_owned), value(of))
    };
    Value::Object(of.iter().map(entry).collect::<Map<_, _>>())
}

/// The filters of a source. COMPAT: RabbitMQ's keys.
pub(crate) fn filters(encoded: &[u8]) -> Value {
    let Ok((ValueRef::Map(filters), _)) = ValueRef::decode(encoded) else { return json!([]) };
    let filter = |(name, filter)| {
        let (descriptor, of) = if let ValueRef::Described(it) = filter {
            (descriptor(&it), it.value())
        } else {
            (Value::Null, filter)
        };
        json!({"name": value(name), "descriptor": descriptor, "value": value(of)})
    };
    filters.iter().map(filter).collect()
}

/// The sections of a message of AMQP 1.0 as [`sections`] shows them. One that streams have converted has its
/// body's sections.
pub(crate) fn sections_of(message: &MessageRef<'_>, with_body: bool) -> Option<Value> {
    let is_converted = || {
        let properties = message.index().to_properties().unwrap_or_default();
        properties.kind.is_some_and(|kind| kind.as_bytes() == b"amqp-1.0")
    };
    let has_sections = !message.form.is_plain() || is_converted();
    has_sections.then(|| sections(message.body.bytes(), with_body))?
}

/// The sections of a message as an object, but for opaque bodies; of other bodies if `with_body`. Nothing if
/// these are no sections.
fn sections(encoded: &[u8], with_body: bool) -> Option<Value> {
    let mut shown = Map::new();
    let mut put = |name: &str, of: Value| shown.insert(name.to_owned(), of);
    let mut sequences = Vec::new();
    for section in Sections::new(encoded) {
        match section.ok()? {
            Section::Header(it) => drop(put("header", header(it))),
            Section::DeliveryAnnotations(it) => drop(put("delivery_annotations", map(it))),
            Section::MessageAnnotations(it) => drop(put("message_annotations", map(it))),
            Section::Properties(it) => drop(put("properties", properties(&it))),
            Section::ApplicationProperties(it) => drop(put("application_properties", map(it))),
            Section::Sequence(it) if with_body => sequences.push(value(ValueRef::List(it))),
            Section::Value(it) if with_body => drop(put("amqp_value", value(it))),
            Section::Footer(it) => drop(put("footer", map(it))),
            Section::Data(_) | Section::Sequence(_) | Section::Value(_) => {}
        }
    }
    if !sequences.is_empty() {
        put("amqp_sequence", sequences.into());
    }
    Some(Value::Object(shown))
}

/// Encodes the parts of [`sections`]' object that exchanges look at: properties, and application properties,
/// whose integers are `long`s.
///
/// # Errors
/// The name of a field that has no value that it can have.
pub(crate) fn encode_sections(of: &Map<String, Value>) -> Result<Vec<u8>, &str> {
    let part = |name| of.get(name).and_then(Value::as_object);
    let fields = part("properties");
    let field = |name| fields.and_then(|fields| fields.get(name));
    let value = |name| field(name).map(|of| plain(of).ok_or(name)).transpose();
    let text = |name| field(name).map(|of| of.as_str().ok_or(name)).transpose();
    let number = |name| field(name).map(|of| of.as_i64().ok_or(name)).transpose();
    let sequence = number("group_sequence")?.map(u32::try_from).transpose();
    let properties = Properties {
        message_id: value("message_id")?,
        user_id: text("user_id")?.map(str::as_bytes),
        to: value("to")?,
        subject: text("subject")?,
        reply_to: value("reply_to")?,
        correlation_id: value("correlation_id")?,
        content_type: text("content_type")?,
        content_encoding: text("content_encoding")?,
        absolute_expiry_time_ms: number("absolute_expiry_time")?,
        creation_time_ms: number("creation_time")?,
        group: Group {
            id: text("group_id")?,
            sequence: sequence.map_err(|_| "group_sequence")?,
            reply_to_id: text("reply_to_group_id")?,
        },
    };
    let application = part("application_properties").into_iter().flatten();
    let application = application.map(|(name, of)| Ok((name, plain(of).ok_or(&**name)?)));
    let application: Vec<_> = application.collect::<Result<_, &str>>()?;
    let mut out = Vec::new();
    Section::Properties(properties).encode(&mut out);
    put_application_properties(&mut out, |items| {
        for (name, of) in application {
            items.put(ValueRef::Str(name));
            items.put(of);
        }
    });
    Ok(out)
}

fn plain(of: &Value) -> Option<ValueRef<'_>> {
    match of {
        Value::Null => Some(ValueRef::Null),
        Value::Bool(it) => Some(ValueRef::Bool(*it)),
        Value::Number(it) => {
            let integer = it.as_i64().map(ValueRef::I64).or_else(|| it.as_u64().map(ValueRef::U64));
            integer.or_else(|| it.as_f64().map(ValueRef::F64))
        }
        Value::String(it) => Some(ValueRef::Str(it)),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// The fields of an object that are there.
fn there<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let there = fields.into_iter().filter_map(|(name, of)| Some((name.to_owned(), of?)));
    Value::Object(there.collect())
}

fn header(of: Header) -> Value {
    there([
        ("durable", of.durable.map(Value::from)),
        ("priority", of.priority.map(Value::from)),
        ("ttl", of.ttl_ms.map(Value::from)),
        ("first_acquirer", of.first_acquirer.then_some(Value::from(true))),
        ("delivery_count", Some(of.delivery_count).filter(|n| *n > 0).map(Value::from)),
    ])
}

fn properties(of: &Properties<'_>) -> Value {
    there([
        ("message_id", of.message_id.map(value)),
        ("user_id", of.user_id.map(bytes)),
        ("to", of.to.map(value)),
        ("subject", of.subject.map(Value::from)),
        ("reply_to", of.reply_to.map(value)),
        ("correlation_id", of.correlation_id.map(value)),
        ("content_type", of.content_type.map(Value::from)),
        ("content_encoding", of.content_encoding.map(Value::from)),
        ("absolute_expiry_time", of.absolute_expiry_time_ms.map(Value::from)),
        ("creation_time", of.creation_time_ms.map(Value::from)),
        ("group_id", of.group.id.map(Value::from)),
        ("group_sequence", of.group.sequence.map(Value::from)),
        ("reply_to_group_id", of.group.reply_to_id.map(Value::from)),
    ])
}

fn descriptor(of: &DescribedRef<'_>) -> Value {
    match of.descriptor {
        Descriptor::Code(code) => code.into(),
        Descriptor::Symbol(name) => name.into(),
    }
}

fn bytes(of: &[u8]) -> Value {
    std::str::from_utf8(of).map_or_else(|_| BASE64.encode(of), str::to_owned).into()
}

fn uuid(of: u128) -> String {
    let part = |shift: u32, bits: u32| (of >> shift) & ((1 << bits) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 32),
        part(80, 16),
        part(64, 16),
        part(48, 16),
        part(0, 48)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp10::{put_application_properties, put_list, put_map, put_message_annotations};

    #[test]
    fn sections_are_readable() {
        let mut message = Vec::new();
        Section::Header(Header { durable: Some(true), ttl_ms: Some(7), ..Header::default() })
            .encode(&mut message);
        put_message_annotations(&mut message, |items| items.put_symbol("x-a", ValueRef::U8(3)));
        let id = ValueRef::Uuid([0x0f; 16]);
        let properties = Properties { message_id: Some(id), ..Properties::default() };
        Section::Properties(properties).encode(&mut message);
        put_application_properties(&mut message, |items| {
            items.put(ValueRef::Str("bytes"));
            items.put(ValueRef::Binary(b"\xff\0"));
        });
        let mut body = Vec::new();
        put_list(&mut body, |items| {
            items.put(ValueRef::Null);
            items.put_map(|map| {
                map.put(ValueRef::I8(-1));
                map.put(ValueRef::Char('h'));
            });
        });
        let (list, _) = ValueRef::decode(&body).unwrap();
        Section::Value(list).encode(&mut message);
        let mut shown = json!({
            "header": {"durable": true, "ttl": 7},
            "message_annotations": {"x-a": 3},
            "properties": {"message_id": "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"},
            "application_properties": {"bytes": "/wA="},
            "amqp_value": [null, {"-1": "h"}],
        });
        assert_eq!(sections(&message, true), Some(shown.clone()));
        shown.as_object_mut().unwrap().remove("amqp_value");
        assert_eq!(sections(&message, false), Some(shown));
        assert_eq!(sections(b"no sections", true), None);
    }

    #[test]
    fn filters_have_names_and_descriptors() {
        let mut encoded = Vec::new();
        put_map(&mut encoded, |items| items.put_symbol("plain", ValueRef::Bool(true)));
        let plain = json!([{"name": "plain", "descriptor": null, "value": true}]);
        assert_eq!(filters(&encoded), plain);
        assert_eq!(filters(b""), json!([]));
    }
}
