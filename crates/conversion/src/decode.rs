//! From AMQP 1.0 to AMQP 0-9-1.

use crate::annotations::{self, Annotated, OFFSET, short, text};
use crate::deaths;
use crate::encode::{TYPE_AMQP10, ttl_ms};
use crate::head::{ConvertedHead, LastHead, Origin};
use crate::ids::{NO_TEXT, decimal, id_header, id_text, reply_queue};
use crate::sections::{behind_header, is_written};
use crate::values::{put_entry, seconds};
use amqp10::{Header, MapRef, Properties, Section, Sections, ValueRef};
use amqp091::content::PropertiesWriter;
use amqp091::spec::DELIVERY_MODE_PERSISTENT;
use amqp091::table::put_name;
use amqp091::{PropertiesRef, TableRef};
use message::{Annotations, Body, BodyForm, MessageRef};
use std::borrow::Cow;

const DELIVERY_MODE_TRANSIENT: u8 = 1;
/// The bytes that one byte of AMQP 1.0 becomes at most: the number zero of eight bytes, with its tag.
const GROWTH_MAX: usize = 9;
/// Bytes of names, flags and lengths that sections do not have.
const NAMES_BYTES: usize = 128;

/// The memory of conversions of a stream's messages, one after the other.
#[derive(Debug, Default)]
pub struct DecodeBuffer {
    /// Properties of the last message, and its body if it is in several parts.
    out: Vec<u8>,
    head: LastHead,
}

/// The message that `stored` is to a consumer of AMQP 0-9-1, as RabbitMQ 4 delivers it from a stream.
/// Properties are written into the buffer, and the body too if it is in several parts; all else is borrowed.
///
/// COMPAT: bytes that are no message of AMQP 1.0, which stream clients may publish, are the body of a message
/// without properties; RabbitMQ fails.
#[inline]
#[must_use]
pub fn decode_amqp10<'a>(
    stored: &'a [u8],
    origin: Origin<'a>,
    buffer: &'a mut DecodeBuffer,
) -> MessageRef<'a> {
    match buffer.head.body_behind(stored) {
        Some(body) => buffer.head.message(body, origin, &mut buffer.out),
        None => convert(stored, origin, buffer),
    }
}

fn convert<'a>(
    stored: &'a [u8],
    origin: Origin<'a>,
    DecodeBuffer { out, head }: &'a mut DecodeBuffer,
) -> MessageRef<'a> {
    out.clear();
    let stored = Stored::read(stored).unwrap_or_else(|| Stored::bytes(stored));
    let annotated = Annotated::read(stored.annotations);
    let delivery_mode = stored.delivery_mode();
    let offset_at = stored.put_properties(
        &annotated,
        delivery_mode,
        BesideSections::Offset(origin.offset),
        out,
    );
    let properties_bytes = out.len();
    let body = stored.join_body(out);
    let persistent = delivery_mode == Some(DELIVERY_MODE_PERSISTENT);
    let exchange = annotated.exchange.unwrap_or_default();
    let routing_key = annotated.routing_key;
    head.remember(stored.head, ConvertedHead { exchange, routing_key, offset_at, persistent });
    let (properties, joined) = out.split_at(properties_bytes);
    MessageRef {
        exchange,
        routing_key: routing_key.unwrap_or(origin.stream),
        properties,
        body: Body::Borrowed(body.unwrap_or(joined)),
        persistent,
        annotations: Annotations::NONE,
        form: BodyForm::Plain,
    }
}

/// The message that `stored` is to a client of AMQP 1.0: its sections from the annotations on as they are,
/// with an index of what the header and the stream say. Annotations that are exchange and routing key alone
/// are left out, as the message names these. Values inside the bare message are passed on as they are; bytes
/// that are no sections of AMQP 1.0 are as to [`decode_amqp10`].
#[inline]
#[must_use]
pub fn take_amqp10<'a>(
    stored: &'a [u8],
    origin: Origin<'a>,
    buffer: &'a mut DecodeBuffer,
) -> MessageRef<'a> {
    let front = amqp10::annotated_bytes(stored).and_then(|n_bytes| stored.get(..n_bytes));
    if !front.is_some_and(|front| buffer.head.is_of(front)) {
        let Some(found) = Stored::read(front.unwrap_or(stored)) else {
            return convert(stored, origin, buffer);
        };
        buffer.index(&found, front, origin.offset);
        buffer.head.skipped = match front {
            Some(front) if found.annotations.iter().all(is_written) => front.len(),
            _ => stored.len() - behind_header(stored).len(),
        };
    }
    let sections = stored.get(buffer.head.skipped..).unwrap_or_default();
    let message = buffer.head.message(sections, origin, &mut buffer.out);
    MessageRef { form: BodyForm::Amqp10, ..message }
}

impl DecodeBuffer {
    /// Makes the index of a stored message, and remembers it if the sections that it is made of are given.
    fn index(&mut self, stored: &Stored<'_>, front: Option<&[u8]>, offset: u64) {
        let Self { out, head } = self;
        out.clear();
        let delivery_mode = stored.delivery_mode();
        let (mut room, mut offset_at) = (NO_TEXT, 0);
        let mut writer = PropertiesWriter::new(out);
        writer.headers(|out| {
            BesideSections::Offset(offset).put(out);
            offset_at = out.len().saturating_sub(size_of::<u64>());
        });
        writer.delivery_mode(delivery_mode);
        writer.priority(stored.header.priority);
        writer.expiration(stored.header.ttl_ms.map(|ttl_ms| decimal(ttl_ms.into(), &mut room)));
        writer.finish();
        let Annotated { exchange, routing_key, .. } = Annotated::read(stored.annotations);
        let exchange = exchange.unwrap_or_default();
        let persistent = delivery_mode == Some(DELIVERY_MODE_PERSISTENT);
        head.remember(front, ConvertedHead { exchange, routing_key, offset_at, persistent });
    }
}

/// The message as it is to AMQP 0-9-1. What its properties do not say already is written to `out`, which is
/// emptied before; all else is borrowed.
#[inline]
#[must_use]
pub fn to_amqp091<'a>(message: &MessageRef<'a>, out: &'a mut Vec<u8>) -> MessageRef<'a> {
    match message.form {
        BodyForm::Plain => *message,
        BodyForm::Amqp10 => convert_sections(message, out),
    }
}

/// The most bytes that the properties of [`to_amqp091`]'s message take: what they take, unless they are the
/// index of sections.
#[inline]
#[must_use]
pub fn properties_bytes_max(message: &MessageRef<'_>) -> usize {
    let n_bytes = message.properties.len();
    if message.form.is_plain() {
        n_bytes
    } else {
        n_bytes + converted_bytes_max(message.body.bytes())
    }
}

#[cold]
fn converted_bytes_max(sections: &[u8]) -> usize {
    amqp10::head_bytes(sections) * GROWTH_MAX + NAMES_BYTES
}

#[inline(never)]
fn convert_sections<'a>(message: &MessageRef<'a>, out: &'a mut Vec<u8>) -> MessageRef<'a> {
    out.clear();
    let (index, sections) = (PropertiesRef::trusted(message.properties), message.body.bytes());
    let mut stored = Stored::read(sections).unwrap_or_else(|| Stored::bytes(sections));
    stored.header =
        Header { priority: index.priority(), ttl_ms: ttl_ms(index), ..Header::default() };
    let mut annotated = Annotated::read(stored.annotations);
    annotated.expiration = None;
    stored.put_properties(&annotated, index.delivery_mode(), BesideSections::Index(index), out);
    let properties_bytes = out.len();
    let body = stored.join_body(out);
    let (properties, joined) = out.split_at(properties_bytes);
    let body = Body::Borrowed(body.unwrap_or(joined));
    MessageRef { properties, body, form: BodyForm::Plain, ..*message }
}

/// The source of a message's last headers, which its sections do not have.
#[derive(Clone, Copy)]
enum BesideSections<'a> {
    /// Its offset in a stream.
    Offset(u64),
    /// The broker's index of the message, which counts for more than the sections do.
    Index(PropertiesRef<'a>),
}

impl<'a> BesideSections<'a> {
    const fn index(self) -> Option<PropertiesRef<'a>> {
        if let Self::Index(index) = self { Some(index) } else { None }
    }

    fn headers(self) -> TableRef<'a> {
        self.index().and_then(|index| index.headers()).unwrap_or(TableRef::EMPTY)
    }

    /// Whether the sections' value of this header does not count. Keys of copies are the index's alone.
    fn replaces(self, header: &[u8]) -> bool {
        self.headers().get(header).is_some() || (header == b"CC" && self.index().is_some())
    }

    fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Offset(offset) => {
                put_name(out, OFFSET.as_bytes());
                amqp091::ValueRef::I64(offset.cast_signed()).encode(out);
            }
            Self::Index(_) => out.extend_from_slice(self.headers().as_bytes()),
        }
    }
}

/// A stored message, taken apart.
#[derive(Clone, Copy, Debug)]
struct Stored<'a> {
    header: Header,
    annotations: MapRef<'a>,
    properties: Properties<'a>,
    application_properties: MapRef<'a>,
    /// The sections in front of the body, if that is opaque, in one section, and the last.
    head: Option<&'a [u8]>,
    body: StoredBody<'a>,
}

#[derive(Clone, Copy, Debug)]
enum StoredBody<'a> {
    /// Opaque bytes, in one section.
    Data(&'a [u8]),
    /// Opaque bytes, in sections.
    Parts(&'a [u8]),
    /// Sections, with what is behind them, as they are.
    Sections(&'a [u8]),
}

impl<'a> Stored<'a> {
    fn bytes(body: &'a [u8]) -> Self {
        Self {
            header: Header::default(),
            annotations: MapRef::EMPTY,
            properties: Properties::default(),
            application_properties: MapRef::EMPTY,
            head: None,
            body: StoredBody::Data(body),
        }
    }

    /// `None` if it is not a message of AMQP 1.0.
    fn read(stored: &'a [u8]) -> Option<Self> {
        let mut found = Self::bytes(&[]);
        let mut sections = Sections::new(stored);
        let mut body_begin = None;
        loop {
            let here = sections.rest();
            let Some(section) = sections.next() else { return Some(found) };
            match section.ok()? {
                Section::Header(header) => found.header = header,
                Section::MessageAnnotations(map) => found.annotations = map,
                Section::Properties(properties) => found.properties = properties,
                Section::ApplicationProperties(map) => found.application_properties = map,
                Section::Data(bytes) => match body_begin {
                    None => {
                        (found.body, body_begin) = (StoredBody::Data(bytes), Some(here));
                        found.head =
                            amqp10::sole_data(here).and_then(|_| stored.strip_suffix(here));
                    }
                    Some(begin) => found.body = StoredBody::Parts(begin),
                },
                Section::Sequence(_) | Section::Value(_) => {
                    found.body = StoredBody::Sections(body_begin.unwrap_or(here));
                    return Some(found);
                }
                Section::DeliveryAnnotations(_) | Section::Footer(_) => {}
            }
        }
    }

    const fn delivery_mode(&self) -> Option<u8> {
        match self.header.durable {
            Some(true) => Some(DELIVERY_MODE_PERSISTENT),
            Some(false) => Some(DELIVERY_MODE_TRANSIENT),
            None => None,
        }
    }

    /// The body, unless it is in several parts: then those are appended.
    fn join_body(&self, out: &mut Vec<u8>) -> Option<&'a [u8]> {
        match self.body {
            StoredBody::Data(bytes) | StoredBody::Sections(bytes) => Some(bytes),
            StoredBody::Parts(sections) => {
                amqp10::Body::Data(sections).data().for_each(|part| out.extend_from_slice(part));
                None
            }
        }
    }

    /// Appends the properties; with the place of the offset.
    fn put_properties(
        &self,
        annotated: &Annotated<'_>,
        delivery_mode: Option<u8>,
        added: BesideSections<'_>,
        out: &mut Vec<u8>,
    ) -> usize {
        let Self { header, properties, .. } = self;
        let (mut room, mut offset_at) = (NO_TEXT, 0);
        let or = |text: Option<&'a str>, other| text.map(ValueRef::Str).and_then(short).or(other);
        let mut writer = PropertiesWriter::new(out);
        writer.content_type(or(properties.content_type, annotated.other.content_type));
        writer.content_encoding(or(properties.content_encoding, annotated.other.content_encoding));
        writer.headers(|out| {
            self.put_headers(annotated.has_headers, added, out);
            offset_at = out.len().saturating_sub(size_of::<u64>());
        });
        writer.delivery_mode(delivery_mode);
        writer.priority(header.priority);
        let correlation_id = id_text(properties.correlation_id, &mut room);
        writer.correlation_id(correlation_id.or(annotated.other.correlation_id));
        let said = added.index();
        let reply_to = said.and_then(|index| index.reply_to()).map(Cow::Borrowed);
        writer.reply_to(reply_to.or_else(|| reply_queue(properties.reply_to)).as_deref());
        let ttl = header.ttl_ms.map(|ttl_ms| decimal(ttl_ms.into(), &mut room));
        writer.expiration(ttl.or(annotated.expiration));
        let message_id = id_text(properties.message_id, &mut room);
        writer.message_id(message_id.or(annotated.other.message_id));
        let sent = properties.creation_time_ms.map(seconds).or(annotated.timestamp);
        writer.timestamp(said.and_then(|index| index.timestamp()).or(sent));
        writer.kind(match self.body {
            StoredBody::Sections(_) => Some(TYPE_AMQP10),
            StoredBody::Data(_) | StoredBody::Parts(_) => annotated.kind,
        });
        writer.user_id(properties.user_id.filter(|id| is_user_id(id)));
        writer.app_id(or(properties.group.id, annotated.other.app_id));
        writer.finish();
        offset_at
    }

    /// Appends the headers. COMPAT: RabbitMQ sorts them by name; here those that begin with `x-` are last,
    /// and the others in the order they were published in.
    fn put_headers(&self, has_annotated: bool, added: BesideSections<'_>, out: &mut Vec<u8>) {
        for (name, value) in self.application_properties.iter() {
            if let ValueRef::Str(name) = name
                && name != OFFSET
                && !(name.starts_with("x-") && self.annotations.get(name).is_some())
                && !added.replaces(name.as_bytes())
            {
                put_entry(out, name, value);
            }
        }
        let ids = [
            (&b"x-message-id"[..], self.properties.message_id),
            (b"x-correlation-id", self.properties.correlation_id),
        ];
        for (name, id) in ids {
            if let Some(value) = id_header(id) {
                put_name(out, name);
                value.encode(out);
            }
        }
        let annotations = if has_annotated { self.annotations } else { MapRef::EMPTY };
        for (name, value) in annotations.iter() {
            if let Some(name) = text(name)
                && !added.replaces(header_of(name).as_bytes())
            {
                put_annotation(out, name, value);
            }
        }
        added.put(out);
    }
}

/// The name of the header that an annotation becomes.
fn header_of(annotation: &str) -> &str {
    match annotation {
        annotations::CC => "CC",
        annotations::RECEIVED_TIME => "timestamp_in_ms",
        annotations::DEATHS => "x-death",
        _ => annotation,
    }
}

/// Appends the header that an annotation becomes, if it becomes one.
fn put_annotation(out: &mut Vec<u8>, name: &str, value: ValueRef<'_>) {
    match (name, value) {
        (annotations::EXCHANGE | annotations::ROUTING_KEY | OFFSET | "x-death", _) => {}
        (annotations::CC, value) => put_entry(out, header_of(name), value),
        (annotations::RECEIVED_TIME, ValueRef::Timestamp(ms)) => {
            put_entry(out, header_of(name), ValueRef::I64(ms));
        }
        (annotations::DEATHS, ValueRef::Array(deaths)) => deaths::put_header(out, deaths),
        (annotations::DEATHS, _) => {}
        (name, value) if name.starts_with("x-") && !name.starts_with(annotations::BASIC) => {
            put_entry(out, name, value);
        }
        _ => {}
    }
}

/// Whether a user id has the form of one in AMQP 0-9-1.
fn is_user_id(id: &[u8]) -> bool {
    id.len() <= amqp091::ShortString::LEN_MAX && !id.contains(&0) && str::from_utf8(id).is_ok()
}
