//! A message as its sections, in their order (part 3, 3.2):
//!
//! ```text
//! header  delivery-annotations  message-annotations | properties  application-properties  body | footer
//!                                                   +---------------- bare message ---------+
//! body = data+ | sequence+ | value         each section: 0x00 descriptor value
//! ```

use crate::code;
use crate::encode::{Items, put_described, put_list, put_map};
use crate::error::DecodeError;
use crate::properties::Properties;
use crate::reader::{ValueCursor, Width};
use crate::value::{DEPTH_MAX, Descriptor, ListRef, MapRef, ValueRef};

const HEADER: u64 = 0x70;
const DELIVERY_ANNOTATIONS: u64 = 0x71;
const MESSAGE_ANNOTATIONS: u64 = 0x72;
const PROPERTIES: u64 = 0x73;
const APPLICATION_PROPERTIES: u64 = 0x74;
const DATA: u64 = 0x75;
/// The descriptor of a `HEADER` section as one byte.
const HEADER_SMALL: u8 = 0x70;
/// The descriptor of a `MESSAGE_ANNOTATIONS` section as one byte.
const MESSAGE_ANNOTATIONS_SMALL: u8 = 0x72;
/// The descriptor of a `DATA` section as one byte.
const DATA_SMALL: u8 = 0x75;
const SEQUENCE: u64 = 0x76;
const VALUE: u64 = 0x77;
const FOOTER: u64 = 0x78;

/// A section.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a section is taken apart where it is read")]
pub enum Section<'a> {
    /// The header: how the message is to be delivered.
    Header(Header),
    /// Annotations of this hop.
    DeliveryAnnotations(MapRef<'a>),
    /// Annotations of the infrastructure.
    MessageAnnotations(MapRef<'a>),
    /// Standard properties.
    Properties(Properties<'a>),
    /// The application's properties.
    ApplicationProperties(MapRef<'a>),
    /// A part of an opaque body.
    Data(&'a [u8]),
    /// A part of a body that is a list.
    Sequence(ListRef<'a>),
    /// A body that is a value.
    Value(ValueRef<'a>),
    /// Checksums and the like.
    Footer(MapRef<'a>),
}

/// The header: how a message is to be delivered (3.2.1). The number and the flag that are not there have the
/// specification's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether it survives a restart; by default it does not.
    pub durable: Option<bool>,
    /// More is sooner; 4 by default.
    pub priority: Option<u8>,
    /// Milliseconds for which the message is live.
    pub ttl_ms: Option<u32>,
    /// Nobody acquired it before.
    pub first_acquirer: bool,
    /// Deliveries before this one that did not succeed.
    pub delivery_count: u32,
}

impl Header {
    fn from_list(list: ListRef<'_>) -> Result<Self, DecodeError> {
        let mut fields = list.iter();
        let mut next = || fields.next().unwrap_or(ValueRef::Null);
        Ok(Self {
            durable: boolean(next())?,
            priority: byte(next())?,
            ttl_ms: number(next())?,
            first_acquirer: boolean(next())?.unwrap_or_default(),
            delivery_count: number(next())?.unwrap_or_default(),
        })
    }

    /// Appends the section.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Self { durable, priority, ttl_ms, first_acquirer, delivery_count } = *self;
        match durable {
            Some(durable)
                if first_acquirer
                    && delivery_count == 0
                    && priority.is_none()
                    && ttl_ms.is_none() =>
            {
                let durable = if durable { code::TRUE } else { code::FALSE };
                out.extend_from_slice(&[
                    code::DESCRIBED,
                    code::U64_SMALL,
                    HEADER_SMALL,
                    code::LIST8,
                    5,
                    4,
                    durable,
                    code::NULL,
                    code::NULL,
                    code::TRUE,
                ]);
            }
            _ => self.encode_any(out),
        }
    }

    #[cold]
    fn encode_any(&self, out: &mut Vec<u8>) {
        put_described(out, HEADER);
        self.put_list(out);
    }

    fn put_list(&self, out: &mut Vec<u8>) {
        put_list(out, |items| self.put(items));
    }

    fn put(&self, items: &mut Items<'_>) {
        let fields = [
            self.durable.map(ValueRef::Bool),
            self.priority.map(ValueRef::U8),
            self.ttl_ms.map(ValueRef::U32),
            self.first_acquirer.then_some(ValueRef::Bool(true)),
            (self.delivery_count != 0).then_some(ValueRef::U32(self.delivery_count)),
        ];
        let n_fields = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        fields.into_iter().take(n_fields).for_each(|field| items.put_option(field));
    }
}

fn none(value: ValueRef<'_>) -> Result<(), DecodeError> {
    if matches!(value, ValueRef::Null) { Ok(()) } else { Err(DecodeError::FieldType) }
}

fn byte(value: ValueRef<'_>) -> Result<Option<u8>, DecodeError> {
    if let ValueRef::U8(n) = value { Ok(Some(n)) } else { none(value).map(|()| None) }
}

fn boolean(value: ValueRef<'_>) -> Result<Option<bool>, DecodeError> {
    if let ValueRef::Bool(is_true) = value { Ok(Some(is_true)) } else { none(value).map(|()| None) }
}

fn number(value: ValueRef<'_>) -> Result<Option<u32>, DecodeError> {
    if let ValueRef::U32(n) = value { Ok(Some(n)) } else { none(value).map(|()| None) }
}

/// Appends the annotations of the infrastructure that `items` puts in.
pub fn put_message_annotations(out: &mut Vec<u8>, items: impl FnOnce(&mut Items<'_>)) {
    put_described(out, MESSAGE_ANNOTATIONS);
    put_map(out, items);
}

/// Appends the application's properties that `items` puts in.
pub fn put_application_properties(out: &mut Vec<u8>, items: impl FnOnce(&mut Items<'_>)) {
    put_described(out, APPLICATION_PROPERTIES);
    put_map(out, items);
}

impl<'a> Section<'a> {
    /// Appends the section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_described(out, self.descriptor());
        match *self {
            Self::Header(header) => header.put_list(out),
            Self::Properties(properties) => put_list(out, |items| properties.put(items)),
            Self::DeliveryAnnotations(map)
            | Self::MessageAnnotations(map)
            | Self::ApplicationProperties(map)
            | Self::Footer(map) => ValueRef::Map(map).encode(out),
            Self::Data(bytes) => ValueRef::Binary(bytes).encode(out),
            Self::Sequence(list) => ValueRef::List(list).encode(out),
            Self::Value(value) => value.encode(out),
        }
    }

    const fn descriptor(&self) -> u64 {
        match self {
            Self::Header(_) => HEADER,
            Self::DeliveryAnnotations(_) => DELIVERY_ANNOTATIONS,
            Self::MessageAnnotations(_) => MESSAGE_ANNOTATIONS,
            Self::Properties(_) => PROPERTIES,
            Self::ApplicationProperties(_) => APPLICATION_PROPERTIES,
            Self::Data(_) => DATA,
            Self::Sequence(_) => SEQUENCE,
            Self::Value(_) => VALUE,
            Self::Footer(_) => FOOTER,
        }
    }

    fn from_value(code: u64, value: ValueRef<'a>) -> Result<Self, DecodeError> {
        Ok(match (code, value) {
            (HEADER, ValueRef::List(list)) => Self::Header(Header::from_list(list)?),
            (DELIVERY_ANNOTATIONS, ValueRef::Map(map)) => Self::DeliveryAnnotations(map),
            (MESSAGE_ANNOTATIONS, ValueRef::Map(map)) => Self::MessageAnnotations(map),
            (PROPERTIES, ValueRef::List(list)) => Self::Properties(Properties::from_list(list)?),
            (APPLICATION_PROPERTIES, ValueRef::Map(map)) => Self::ApplicationProperties(map),
            (DATA, ValueRef::Binary(bytes)) => Self::Data(bytes),
            (SEQUENCE, ValueRef::List(list)) => Self::Sequence(list),
            (VALUE, value) => Self::Value(value),
            (FOOTER, ValueRef::Map(map)) => Self::Footer(map),
            _ => return Err(DecodeError::FieldType),
        })
    }
}

/// The number of a section that is described by number or by name.
pub(crate) fn section_code(descriptor: Descriptor<'_>) -> Option<u64> {
    const NAMES: [&str; 9] = [
        "amqp:header:list",
        "amqp:delivery-annotations:map",
        "amqp:message-annotations:map",
        "amqp:properties:list",
        "amqp:application-properties:map",
        "amqp:data:binary",
        "amqp:amqp-sequence:list",
        "amqp:amqp-value:*",
        "amqp:footer:map",
    ];
    match descriptor {
        Descriptor::Code(code) => (HEADER..=FOOTER).contains(&code).then_some(code),
        Descriptor::Symbol(name) => {
            (HEADER..).zip(NAMES).find(|(_, it)| *it == name).map(|it| it.0)
        }
    }
}

/// The sections of a message, read one after the other and validated as they are.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a>(ValueCursor<'a>);

impl<'a> Sections<'a> {
    /// Reads the sections of an encoded message.
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self(ValueCursor(message))
    }

    /// The bytes that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0.0
    }

    /// The next section's number and value.
    #[inline]
    fn read(&mut self) -> Result<(u64, ValueRef<'a>), DecodeError> {
        // The form that nearly all peers write.
        if let [code::DESCRIBED, code::U64_SMALL, section, value @ ..] = self.0.0 {
            self.0 = ValueCursor(value);
            if let [code::BINARY8, ..] = value
                && *section == DATA_SMALL
            {
                self.0.u8()?;
                return Ok((DATA, ValueRef::Binary(self.0.counted(Width::One)?)));
            }
            let value = ValueRef::read_valid(&mut self.0, DEPTH_MAX - 1)?;
            let code = section_code(Descriptor::Code(u64::from(*section)));
            return Ok((code.ok_or(DecodeError::Section)?, value));
        }
        let ValueRef::Described(described) = ValueRef::read_valid(&mut self.0, DEPTH_MAX)? else {
            return Err(DecodeError::Section);
        };
        let code = section_code(described.descriptor).ok_or(DecodeError::Section)?;
        Ok((code, described.value()))
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let section = self.read().and_then(|(code, value)| Section::from_value(code, value));
        if section.is_err() {
            self.0 = ValueCursor(&[]);
        }
        Some(section)
    }
}

/// The bytes of an opaque body in one section, in the form that nearly all peers write, if that is all.
#[inline]
#[must_use]
pub fn sole_data(sections: &[u8]) -> Option<&[u8]> {
    let [code::DESCRIBED, code::U64_SMALL, DATA_SMALL, code, bytes @ ..] = sections else {
        return None;
    };
    let width = match *code {
        code::BINARY8 => Width::One,
        code::BINARY32 => Width::Four,
        _ => return None,
    };
    let mut reader = ValueCursor(bytes);
    let bytes = reader.counted(width).ok()?;
    reader.is_empty().then_some(bytes)
}

/// The message annotations that sections begin with, and the sections behind them. The annotations are not
/// validated.
#[must_use]
pub fn split_message_annotations(sections: &[u8]) -> (MapRef<'_>, &[u8]) {
    if let [code::DESCRIBED, code::U64_SMALL, section, map, rest @ ..] = sections {
        if *section != MESSAGE_ANNOTATIONS_SMALL {
            return (MapRef::EMPTY, sections);
        }
        let width = if *map == code::MAP8 { Width::One } else { Width::Four };
        let mut reader = ValueCursor(rest);
        if matches!(*map, code::MAP8 | code::MAP32)
            && let Ok(map) = MapRef::read(&mut reader, width)
        {
            return (map, reader.0);
        }
    }
    let mut rest = Sections::new(sections);
    match rest.next() {
        Some(Ok(Section::MessageAnnotations(map))) => (map, rest.rest()),
        _ => (MapRef::EMPTY, sections),
    }
}

/// A message's body, and the sections that it consists of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body<'a> {
    /// Opaque bytes, in one or more sections.
    Data(&'a [u8]),
    /// Lists, in one or more sections.
    Sequence(&'a [u8]),
    /// A single value.
    Value(ValueRef<'a>),
}

impl<'a> Body<'a> {
    /// The parts of an opaque body; none of any other.
    pub fn data(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let sections = if let Body::Data(sections) = self { *sections } else { &[] };
        Sections::new(sections).filter_map(|section| match section {
            Ok(Section::Data(bytes)) => Some(bytes),
            _ => None,
        })
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageRef<'a> {
    /// The header: how the message is to be delivered.
    pub header: Option<Header>,
    /// Annotations of this hop.
    pub delivery_annotations: MapRef<'a>,
    /// Annotations of the infrastructure.
    pub message_annotations: MapRef<'a>,
    /// Standard properties.
    pub properties: Option<Properties<'a>>,
    /// The application's properties.
    pub application_properties: MapRef<'a>,
    /// The body. COMPAT: a message without one has an empty opaque body, as with RabbitMQ.
    pub body: Body<'a>,
    /// Checksums and the like.
    pub footer: MapRef<'a>,
}

impl<'a> MessageRef<'a> {
    /// Looks into an encoded message after validating all of it.
    ///
    /// # Errors
    /// The first thing that is wrong; [`DecodeError::Section`] for sections out of order.
    pub fn parse(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut parsed = Self {
            header: None,
            delivery_annotations: MapRef::EMPTY,
            message_annotations: MapRef::EMPTY,
            properties: None,
            application_properties: MapRef::EMPTY,
            body: Body::Data(&[]),
            footer: MapRef::EMPTY,
        };
        let (mut sections, mut last) = (Sections::new(message), 0);
        let mut body_begin = sections;
        loop {
            let before = sections;
            let Some(section) = sections.next() else { return Ok(parsed) };
            let section = section?;
            if !goes_on(section.descriptor(), &mut last)? {
                body_begin = before;
            }
            parsed.take(section, sections.0.read_since(body_begin.0));
        }
    }

    fn take(&mut self, section: Section<'a>, body: &'a [u8]) {
        match section {
            Section::Header(header) => self.header = Some(header),
            Section::DeliveryAnnotations(map) => self.delivery_annotations = map,
            Section::MessageAnnotations(map) => self.message_annotations = map,
            Section::Properties(properties) => self.properties = Some(properties),
            Section::ApplicationProperties(map) => self.application_properties = map,
            Section::Data(_) => self.body = Body::Data(body),
            Section::Sequence(_) => self.body = Body::Sequence(body),
            Section::Value(value) => self.body = Body::Value(value),
            Section::Footer(map) => self.footer = map,
        }
    }
}

/// Whether a section is a further part of the body of which the `last` one was a part.
///
/// # Errors
/// The section may not follow.
#[inline]
pub(crate) fn goes_on(code: u64, last: &mut u64) -> Result<bool, DecodeError> {
    let before = std::mem::replace(last, code);
    if code == before && matches!(code, DATA | SEQUENCE) {
        return Ok(true);
    }
    let is_second_body = (DATA..=VALUE).contains(&before) && (DATA..=VALUE).contains(&code);
    if code <= before || is_second_body { Err(DecodeError::Section) } else { Ok(false) }
}

/// The parts of a message that a broker looks at when it takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageOutline<'a> {
    /// The header: how the message is to be delivered.
    pub header: Header,
    /// Annotations of the infrastructure.
    pub message_annotations: MapRef<'a>,
    /// The user who made the message.
    pub user_id: Option<&'a [u8]>,
    /// The address of the node that the message is destined to.
    pub to: Option<ValueRef<'a>>,
    /// A summary of content and purpose.
    pub subject: Option<&'a str>,
    /// Milliseconds since 1970.
    pub creation_time_ms: Option<i64>,
    /// Whether the message has a body, which may be empty.
    pub has_body: bool,
    /// The bytes of the header and of the annotations of the hop before, which stand in front.
    pub hop_bytes: usize,
}

impl<'a> MessageOutline<'a> {
    /// Looks into an encoded message after validating all of it.
    ///
    /// # Errors
    /// As [`MessageRef::parse`].
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut outline = Self {
            header: Header::default(),
            message_annotations: MapRef::EMPTY,
            user_id: None,
            to: None,
            subject: None,
            creation_time_ms: None,
            has_body: false,
            hop_bytes: 0,
        };
        let (mut sections, mut last) = (Sections::new(message), 0);
        while !sections.0.is_empty() {
            let (code, value) = sections.read()?;
            outline.take(code, value)?;
            goes_on(code, &mut last)?;
            if matches!(code, HEADER | DELIVERY_ANNOTATIONS) {
                outline.hop_bytes = message.len() - sections.rest().len();
            }
        }
        Ok(outline)
    }

    #[inline]
    fn take(&mut self, code: u64, value: ValueRef<'a>) -> Result<(), DecodeError> {
        match (code, value) {
            (DATA, ValueRef::Binary(_)) | (SEQUENCE, ValueRef::List(_)) | (VALUE, _) => {
                self.has_body = true;
            }
            (HEADER, ValueRef::List(list)) => self.header = Header::from_list(list)?,
            (MESSAGE_ANNOTATIONS, ValueRef::Map(map)) => self.message_annotations = map,
            (PROPERTIES, ValueRef::List(list)) => self.take_properties(list)?,
            (DELIVERY_ANNOTATIONS | APPLICATION_PROPERTIES | FOOTER, ValueRef::Map(_)) => {}
            _ => return Err(DecodeError::FieldType),
        }
        Ok(())
    }

    fn take_properties(&mut self, list: ListRef<'a>) -> Result<(), DecodeError> {
        let properties = Properties::from_list(list)?;
        (self.user_id, self.to, self.subject) =
            (properties.user_id, properties.to, properties.subject);
        self.creation_time_ms = properties.creation_time_ms;
        Ok(())
    }
}
