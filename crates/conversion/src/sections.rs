//! Bodies that are sections of AMQP 1.0: how they are received, and how clients of AMQP 1.0 get them.

use crate::annotations::{self, put_envelope, put_envelope_alone, short, text};
use crate::deaths;
use crate::ids::{NO_TEXT, decimal};
use crate::values::{put_amqp10, put_entry, put_key, seconds};
use amqp10::{DecodeError, Header, Items, MapRef, MessageOutline, Section, Sections, ValueRef};
use amqp091::content::PropertiesWriter;
use amqp091::spec::DELIVERY_MODE_PERSISTENT;
use amqp091::{PropertiesRef, TableRef};
use message::{MessageRef, View};

/// Annotations that become headers of the index under the same names: queues and exchanges look at them.
const INDEXED: [&str; 4] =
    ["x-delay", "x-stream-filter-value", "x-publisher-id", "x-publishing-id"];

/// Annotations that the broker writes into each message.
const WRITTEN: [&str; 2] = [annotations::EXCHANGE, annotations::ROUTING_KEY];

/// The annotation of a message of JMS that says of which kind it is. One kind has no body.
const JMS_KIND: &str = "x-opt-jms-msg-type";

const DELIVERY_MODE_TRANSIENT: u8 = 1;

/// A message of AMQP 1.0 as the broker takes it: its index was appended to a buffer.
#[derive(Debug)]
pub struct ReceivedSections<'a> {
    /// The body: what came, from the message annotations on.
    pub body: ReceivedBody,
    /// Whether the message is to survive a restart.
    pub persistent: bool,
    /// Whether the index has anything that routing or the queue must look at.
    pub inspect: bool,
    /// The address that the message itself states.
    pub to: Option<ValueRef<'a>>,
    /// The message's subject.
    pub subject: Option<&'a str>,
}

/// The body of a message that was received.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceivedBody {
    /// The sections from this byte on.
    From(usize),
    /// Sections without the annotations that the broker writes.
    Rewritten(Vec<u8>),
}

/// The reason why a message is not taken. COMPAT: RabbitMQ's texts, with words for its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The sections cannot be decoded, or are out of order.
    #[error("failed to parse message: {0}")]
    Malformed(DecodeError),
    /// The message has no body.
    #[error("failed to parse message: it has no body")]
    NoBody,
    /// A message annotation has a name that is reserved.
    #[error("failed to parse message: the key of a message annotation does not begin with 'x-'")]
    ReservedAnnotation,
    /// The annotation that names further routing keys does not hold any.
    #[error("bad value for 'x-cc' message-annotation: not a list of routing keys")]
    Copies,
}

/// Takes a message as it was received: appends its index to `index`, which are properties of AMQP 0-9-1.
///
/// # Errors
/// The first thing that is wrong with the sections; a part of the index may have been appended.
pub fn receive<'a>(
    sections: &'a [u8],
    index: &mut Vec<u8>,
) -> Result<ReceivedSections<'a>, ReceiveError> {
    let message = MessageOutline::parse(sections).map_err(ReceiveError::Malformed)?;
    // COMPAT: RabbitMQ refuses them all, also those of JMS that have nothing but properties.
    if !message.has_body && message.message_annotations.get(JMS_KIND).is_none() {
        return Err(ReceiveError::NoBody);
    }
    let durable = message.header.durable.map(|durable| match durable {
        true => DELIVERY_MODE_PERSISTENT,
        false => DELIVERY_MODE_TRANSIENT,
    });
    let indexed = if is_bare(&message) {
        let mut writer = PropertiesWriter::new(index);
        writer.delivery_mode(durable);
        writer.finish();
        Indexed { is_clean: true, inspect: false }
    } else {
        put_index(&message, durable, index)?
    };
    Ok(ReceivedSections {
        body: match indexed.is_clean {
            true => ReceivedBody::From(message.hop_bytes),
            false => ReceivedBody::Rewritten(without_written(
                sections.get(message.hop_bytes..).unwrap_or_default(),
            )),
        },
        persistent: durable == Some(DELIVERY_MODE_PERSISTENT),
        inspect: indexed.inspect,
        to: message.to,
        subject: message.subject,
    })
}

/// Whether an index says nothing of a message but its delivery mode.
#[inline]
fn is_bare(message: &MessageOutline<'_>) -> bool {
    let Header { priority, ttl_ms, .. } = message.header;
    message.message_annotations.is_empty()
        && message.user_id.is_none()
        && message.creation_time_ms.is_none()
        && priority.is_none()
        && ttl_ms.is_none()
}

/// An index that was appended.
struct Indexed {
    /// Whether no annotation of the message is to go.
    is_clean: bool,
    /// Whether it has anything that routing or the queue must look at.
    inspect: bool,
}

/// Appends the index of a message that has more than a delivery mode.
fn put_index(
    message: &MessageOutline<'_>,
    durable: Option<u8>,
    index: &mut Vec<u8>,
) -> Result<Indexed, ReceiveError> {
    let MessageOutline { header, message_annotations: annotations, user_id, .. } = *message;
    let begin = index.len();
    let mut writer = PropertiesWriter::new(index);
    let mut is_clean = Ok(true);
    if !annotations.is_empty() {
        writer.headers(|out| is_clean = put_indexed(out, annotations));
    }
    let is_clean = is_clean?;
    writer.delivery_mode(durable);
    writer.priority(header.priority);
    let mut room = NO_TEXT;
    writer.expiration(header.ttl_ms.map(|ttl_ms| decimal(ttl_ms.into(), &mut room)));
    writer.timestamp(message.creation_time_ms.map(seconds));
    writer.user_id(user_id);
    writer.finish();
    let inspect = header.priority.is_some()
        || header.ttl_ms.is_some()
        || user_id.is_some()
        || View::of(index.get(begin..).unwrap_or_default()).headers().is_some();
    Ok(Indexed { is_clean, inspect })
}

/// Appends the headers that annotations become; whether none of the annotations is to go.
fn put_indexed(out: &mut Vec<u8>, annotations: MapRef<'_>) -> Result<bool, ReceiveError> {
    let mut is_clean = true;
    for (key, value) in annotations.iter() {
        let name = text(key).filter(|name| name.starts_with("x-"));
        let name = name.ok_or(ReceiveError::ReservedAnnotation)?;
        if name == annotations::CC {
            if !are_routing_keys(value) {
                return Err(ReceiveError::Copies);
            }
            put_entry(out, "CC", value);
        } else if INDEXED.contains(&name) {
            put_entry(out, name, value);
        }
        is_clean &= !WRITTEN.contains(&name);
    }
    Ok(is_clean)
}

fn are_routing_keys(value: ValueRef<'_>) -> bool {
    let ValueRef::List(keys) = value else { return false };
    keys.iter().all(|key| matches!(key, ValueRef::Str(_)) && short(key).is_some())
}

/// The sections behind the header and the annotations of the hop before, which go.
pub(crate) fn behind_header(sections: &[u8]) -> &[u8] {
    let mut left = Sections::new(sections);
    loop {
        let here = left.rest();
        match left.next() {
            Some(Ok(Section::Header(_) | Section::DeliveryAnnotations(_))) => {}
            _ => return here,
        }
    }
}

fn without_written(sections: &[u8]) -> Vec<u8> {
    let (received, rest) = amqp10::split_message_annotations(sections);
    let mut out = Vec::with_capacity(sections.len());
    amqp10::put_message_annotations(&mut out, |items| {
        put_those(items, received, |name| !WRITTEN.contains(&name));
    });
    out.extend_from_slice(rest);
    out
}

fn put_those(items: &mut Items<'_>, map: MapRef<'_>, is_one: impl Fn(&str) -> bool) {
    for (key, value) in map.iter().filter(|(key, _)| text(*key).is_none_or(&is_one)) {
        items.put(key);
        items.put(value);
    }
}

/// Appends the sections behind the header: annotations of the broker, then what was received.
pub(crate) fn put_received(message: &MessageRef<'_>, index: &PropertiesRef<'_>, out: &mut Vec<u8>) {
    let (received, rest) = amqp10::split_message_annotations(message.body.bytes());
    let headers = index.headers().unwrap_or(TableRef::EMPTY);
    let offset = stream_offset(headers);
    if received.is_empty() && (headers.is_empty() || offset.is_some()) {
        put_envelope_alone(message, offset, out);
        return out.extend_from_slice(rest);
    }
    let own = || headers.iter().filter_map(|(name, value)| Some((annotation_of(name)?, value)));
    amqp10::put_message_annotations(out, |items| {
        put_envelope(items, message);
        if own().next().is_none() {
            return items.put_entries(received);
        }
        for (name, value) in own() {
            put_own(items, name, value);
        }
        put_those(items, received, |name| {
            !WRITTEN.contains(&name) && !own().any(|(it, _)| it == name.as_bytes())
        });
    });
    out.extend_from_slice(rest);
}

/// The offset in a stream, if that is the only header.
#[inline]
fn stream_offset(headers: TableRef<'_>) -> Option<i64> {
    let mut headers = headers.iter();
    match (headers.next()?, headers.next()) {
        ((name, amqp091::ValueRef::I64(offset)), None) => {
            (name == annotations::OFFSET.as_bytes()).then_some(offset)
        }
        _ => None,
    }
}

/// Whether an annotation is one that the broker writes into each message.
pub(crate) fn is_written((key, _): (ValueRef<'_>, ValueRef<'_>)) -> bool {
    text(key).is_some_and(|name| WRITTEN.contains(&name))
}

/// The name of the annotation that a header of an index becomes, if the broker has added it.
fn annotation_of(header: &[u8]) -> Option<&[u8]> {
    match header {
        deaths::HEADER => Some(annotations::DEATHS.as_bytes()),
        b"timestamp_in_ms" => Some(annotations::RECEIVED_TIME.as_bytes()),
        _ if INDEXED.iter().any(|name| name.as_bytes() == header) => None,
        _ => header.starts_with(b"x-").then_some(header),
    }
}

fn put_own(items: &mut Items<'_>, name: &[u8], value: amqp091::ValueRef<'_>) {
    const DEATHS: &[u8] = annotations::DEATHS.as_bytes();
    const RECEIVED_TIME: &[u8] = annotations::RECEIVED_TIME.as_bytes();
    const SENT_TIME: &[u8] = annotations::SENT_TIME.as_bytes();
    match (name, value) {
        (DEATHS, value) => deaths::put_annotation(items, value.as_array().unwrap_or_default()),
        (RECEIVED_TIME | SENT_TIME, amqp091::ValueRef::I64(ms)) => {
            put_key(items, name);
            items.put(ValueRef::Timestamp(ms));
        }
        (name, value) => {
            put_key(items, name);
            put_amqp10(items, value);
        }
    }
}
