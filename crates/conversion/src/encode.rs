//! From AMQP 0-9-1 to AMQP 1.0.

use crate::annotations::{self, put_envelope, put_envelope_alone, put_text};
use crate::attempt::DeliveryAttempt;
use crate::deaths;
use crate::ids::{id_of, reply_address};
use crate::sections::put_received;
use crate::values::{milliseconds, put_amqp10, put_key};
use amqp10::{Group, Header, Items, Properties, Section, Sections, ValueRef};
use amqp091::spec::DELIVERY_MODE_PERSISTENT;
use amqp091::{PropertiesRef, TableRef};
use message::{BodyForm, MessageRef};

/// Bytes beside exchange, key, properties and body that most messages need.
const SPARE_BYTES: usize = 96;

/// The type of a message whose body is one of AMQP 1.0.
pub(crate) const TYPE_AMQP10: &[u8] = b"amqp-1.0";

/// The header whose value streams filter by.
const FILTER_VALUE: &[u8] = b"x-stream-filter-value";

/// The value that streams filter the message by, if its publisher has given it one that is text or bytes.
/// COMPAT: RabbitMQ fails for a value of another type.
#[must_use]
pub fn stream_filter_value<'a>(message: &MessageRef<'a>) -> Option<&'a [u8]> {
    PropertiesRef::trusted(message.properties).headers()?.get(FILTER_VALUE)?.as_bytes()
}

/// Appends the message in AMQP 1.0's encoding, as RabbitMQ 4 stores it in a stream, and delivers it. Sections
/// that its publisher sent stay as they are.
pub fn to_amqp10(message: &MessageRef<'_>, attempt: DeliveryAttempt, out: &mut Vec<u8>) {
    out.reserve(message.size_bytes() + SPARE_BYTES);
    let source = PropertiesRef::trusted(message.properties);
    if source.is_bare() {
        return put_bare(message, source, attempt, out);
    }
    let header = Header {
        // A queue may keep more than its messages ask for.
        durable: Some(source.delivery_mode() == Some(DELIVERY_MODE_PERSISTENT)),
        priority: source.priority(),
        ttl_ms: ttl_ms(source),
        first_acquirer: attempt.first_acquirer,
        delivery_count: attempt.delivery_count,
    };
    header.encode(out);
    match message.form {
        BodyForm::Plain => put_plain(message, source, out),
        BodyForm::Amqp10 => put_received(message, &source, out),
    }
}

/// Appends a message whose properties are a delivery mode at most, as those of most messages are.
#[inline]
fn put_bare(
    message: &MessageRef<'_>,
    source: PropertiesRef<'_>,
    DeliveryAttempt { first_acquirer, delivery_count }: DeliveryAttempt,
    out: &mut Vec<u8>,
) {
    let durable = Some(source.delivery_mode() == Some(DELIVERY_MODE_PERSISTENT));
    Header { durable, first_acquirer, delivery_count, ..Header::default() }.encode(out);
    match message.form {
        BodyForm::Plain => {
            put_envelope_alone(message, None, out);
            Section::Data(message.body.bytes()).encode(out);
        }
        BodyForm::Amqp10 => put_received(message, &source, out),
    }
}

/// The time to live that properties state, if it is one of AMQP 1.0.
pub(crate) fn ttl_ms(source: PropertiesRef<'_>) -> Option<u32> {
    std::str::from_utf8(source.expiration()?).ok()?.parse().ok()
}

/// Appends the sections behind the header of a message that is not one of AMQP 1.0.
fn put_plain(message: &MessageRef<'_>, source: PropertiesRef<'_>, out: &mut Vec<u8>) {
    let headers = source.headers().unwrap_or(TableRef::EMPTY);
    amqp10::put_message_annotations(out, |items| {
        put_annotations(items, message, source, headers);
    });
    put_properties(source, out);
    if headers.iter().any(|(name, value)| is_application_property(name, value)) {
        amqp10::put_application_properties(out, |items| {
            for (name, value) in
                headers.iter().filter(|(name, value)| is_application_property(name, *value))
            {
                items.put(ValueRef::Str(&String::from_utf8_lossy(name)));
                put_amqp10(items, value);
            }
        });
    }
    let body = message.body.bytes();
    if source.kind() == Some(TYPE_AMQP10) && are_body_sections(body) {
        out.extend_from_slice(body);
    } else {
        Section::Data(body).encode(out);
    }
}

fn is_application_property(name: &[u8], value: amqp091::ValueRef<'_>) -> bool {
    use amqp091::ValueRef::{Array, Table};
    !name.starts_with(b"x-") && !matches!(value, Array(_) | Table(_))
}

fn put_annotations(
    items: &mut Items<'_>,
    message: &MessageRef<'_>,
    source: PropertiesRef<'_>,
    headers: TableRef<'_>,
) {
    put_envelope(items, message);
    if let Some(kind) = source.kind() {
        put_text(items, annotations::TYPE, kind);
    }
    put_what_does_not_fit(items, source);
    for (name, value) in headers {
        match name {
            b"CC" if value.as_array().is_some() => {
                items.put(ValueRef::Symbol(annotations::CC));
                put_amqp10(items, value);
            }
            deaths::HEADER if message.annotations.dead_lettered => {
                deaths::put_annotation(items, value.as_array().unwrap_or_default());
            }
            // The broker's own annotations tell exchange and routing key.
            b"x-exchange" | b"x-routing-key" => {}
            _ if name.starts_with(b"x-") => {
                put_key(items, name);
                put_amqp10(items, value);
            }
            _ => {}
        }
    }
}

/// Puts in properties that have no place in their sections.
fn put_what_does_not_fit(items: &mut Items<'_>, source: PropertiesRef<'_>) {
    let ids = [
        (annotations::MESSAGE_ID, source.message_id()),
        (annotations::CORRELATION_ID, source.correlation_id()),
        (annotations::APP_ID, source.app_id()),
    ];
    let types = [
        (annotations::CONTENT_TYPE, source.content_type()),
        (annotations::CONTENT_ENCODING, source.content_encoding()),
    ];
    let ids = ids.into_iter().filter(|(_, id)| id.is_some_and(|id| str::from_utf8(id).is_err()));
    let types = types.into_iter().filter(|(_, kind)| kind.is_some_and(|kind| !kind.is_ascii()));
    for (name, bytes) in ids.chain(types) {
        items.put_symbol(name, ValueRef::Binary(bytes.unwrap_or_default()));
    }
    if let Some(text) = source.expiration()
        && !str::from_utf8(text).is_ok_and(|text| text.parse::<u32>().is_ok())
    {
        put_text(items, annotations::EXPIRATION, text);
    }
    if let Some(seconds) = source.timestamp()
        && milliseconds(seconds).is_none()
    {
        items.put_symbol(annotations::TIMESTAMP, ValueRef::U64(seconds));
    }
}

fn put_properties(source: PropertiesRef<'_>, out: &mut Vec<u8>) {
    let reply_to = source.reply_to().map(reply_address);
    let properties = Properties {
        message_id: source.message_id().and_then(id_of),
        user_id: source.user_id(),
        reply_to: reply_to.as_deref().map(ValueRef::Str),
        correlation_id: source.correlation_id().and_then(id_of),
        content_type: source.content_type().and_then(ascii),
        content_encoding: source.content_encoding().and_then(ascii),
        creation_time_ms: source.timestamp().and_then(milliseconds),
        group: Group {
            id: source.app_id().and_then(|text| str::from_utf8(text).ok()),
            ..Group::default()
        },
        ..Properties::default()
    };
    let Properties { message_id, user_id, reply_to, correlation_id, .. } = properties;
    let Properties { content_type, content_encoding, creation_time_ms, group, .. } = properties;
    let is_any = message_id.is_some()
        || user_id.is_some()
        || reply_to.is_some()
        || correlation_id.is_some()
        || content_type.is_some()
        || content_encoding.is_some()
        || creation_time_ms.is_some()
        || group.id.is_some();
    if is_any {
        Section::Properties(properties).encode(out);
    }
}

fn ascii(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok().filter(|text| text.is_ascii())
}

/// Whether a body is sections of a body of AMQP 1.0, with a footer or without.
fn are_body_sections(body: &[u8]) -> bool {
    let is_of_body = |section| {
        matches!(
            section,
            Ok(Section::Data(_) | Section::Sequence(_) | Section::Value(_) | Section::Footer(_))
        )
    };
    !body.is_empty() && Sections::new(body).all(is_of_body)
}
