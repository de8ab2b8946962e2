//! The parts of a message in sections that filters of AMQP 1.0 see.

use super::{Operand, Steps};
use amqp10::{MapRef, Properties, Section, Sections, ValueRef};
use stdx::UnixMs;

/// The priority of a message that has none.
const DEFAULT_PRIORITY: u8 = 4;

/// A part of a message in sections, beside application properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionField {
    Priority,
    /// A field of the properties section, by its place among [`PROPERTIES`].
    Property(usize),
    /// The time when the filter is asked, in milliseconds.
    Utc,
}

type ReadProperty = for<'a> fn(&Properties<'a>) -> Option<ValueRef<'a>>;

/// The fields of the properties section, by name.
const PROPERTIES: [(&str, ReadProperty); 13] = [
    ("message_id", |it| it.message_id),
    ("user_id", |it| it.user_id.map(ValueRef::Binary)),
    ("to", |it| it.to),
    ("subject", |it| it.subject.map(ValueRef::Str)),
    ("reply_to", |it| it.reply_to),
    ("correlation_id", |it| it.correlation_id),
    ("content_type", |it| it.content_type.map(ValueRef::Symbol)),
    ("content_encoding", |it| it.content_encoding.map(ValueRef::Symbol)),
    ("absolute_expiry_time", |it| it.absolute_expiry_time_ms.map(ValueRef::Timestamp)),
    ("creation_time", |it| it.creation_time_ms.map(ValueRef::Timestamp)),
    ("group_id", |it| it.group.id.map(ValueRef::Str)),
    ("group_sequence", |it| it.group.sequence.map(ValueRef::U32)),
    ("reply_to_group_id", |it| it.group.reply_to_id.map(ValueRef::Str)),
];

impl SectionField {
    pub(super) fn of_properties(name: &str) -> Option<Self> {
        PROPERTIES.iter().position(|(known, _)| *known == name).map(Self::Property)
    }

    /// Whether the value has the type that the property is defined with.
    pub(super) fn is_of_type(self, value: ValueRef<'_>) -> bool {
        let Self::Property(at) = self else { return false };
        match PROPERTIES.get(at).map_or("", |(name, _)| name) {
            "message_id" | "correlation_id" => matches!(
                value,
                ValueRef::U64(_) | ValueRef::Uuid(_) | ValueRef::Binary(_) | ValueRef::Str(_)
            ),
            "user_id" => matches!(value, ValueRef::Binary(_)),
            "content_type" | "content_encoding" => matches!(value, ValueRef::Symbol(_)),
            "absolute_expiry_time" | "creation_time" => matches!(value, ValueRef::Timestamp(_)),
            "group_sequence" => matches!(value, ValueRef::U32(_)),
            _ => matches!(value, ValueRef::Str(_)),
        }
    }
}

/// The sections of a message that filters look at.
#[derive(Debug)]
pub(super) struct MessageSections<'m> {
    priority: u8,
    properties: Option<Properties<'m>>,
    application: MapRef<'m>,
    now: UnixMs,
}

impl<'m> MessageSections<'m> {
    /// Reads what stands in front of the body; what cannot be read is not there.
    pub(super) fn read(message: &'m [u8], now: UnixMs) -> Self {
        let mut read =
            Self { priority: DEFAULT_PRIORITY, properties: None, application: MapRef::EMPTY, now };
        let mut sections = Sections::new(message);
        while !sections.is_at_body()
            && let Some(Ok(section)) = sections.next()
        {
            match section {
                Section::Header(header) => {
                    read.priority = header.priority.unwrap_or(DEFAULT_PRIORITY);
                }
                Section::Properties(properties) => read.properties = Some(properties),
                Section::ApplicationProperties(map) => read.application = map,
                Section::DeliveryAnnotations(_) | Section::MessageAnnotations(_) => {}
                Section::Data(_)
                | Section::Sequence(_)
                | Section::Value(_)
                | Section::Footer(_) => break,
            }
        }
        read
    }

    pub(super) fn application_property(&self, name: &[u8], steps: &mut Steps) -> Operand<'m> {
        if steps.take(self.application.len()).is_none() {
            return Operand::Unknown;
        }
        let mut entries = self.application.iter();
        let found =
            entries.find(|(key, _)| matches!(key, ValueRef::Str(key) if key.as_bytes() == name));
        found.map_or(Operand::Unknown, |(_, value)| operand(value))
    }

    pub(super) fn field(&self, field: SectionField) -> Operand<'m> {
        match field {
            SectionField::Priority => Operand::Integer(self.priority.into()),
            SectionField::Utc => Operand::Integer(self.now.get().into()),
            SectionField::Property(at) => {
                let value = self.properties.as_ref().zip(PROPERTIES.get(at));
                let value = value.and_then(|(properties, (_, read))| read(properties));
                value.map_or(Operand::Unknown, operand)
            }
        }
    }
}

/// COMPAT: values that are not simple are as if they were not there.
pub(super) fn operand(value: ValueRef<'_>) -> Operand<'_> {
    if let Some(n) = value.as_integer() {
        Operand::Integer(n)
    } else if let ValueRef::Str(text) | ValueRef::Symbol(text) = value {
        Operand::Text(text.as_bytes())
    } else if let ValueRef::Binary(bytes) = value {
        Operand::Text(bytes)
    } else if let ValueRef::Bool(value) = value {
        Operand::Bool(value)
    } else if let ValueRef::F64(x) = value {
        Operand::Float(x)
    } else if let ValueRef::F32(x) = value {
        Operand::Float(x.into())
    } else if let ValueRef::Timestamp(ms) = value {
        Operand::Integer(ms.into())
    } else if let ValueRef::Uuid(uuid) = value {
        Operand::Uuid(uuid)
    } else if let ValueRef::Char(found) = value {
        Operand::Integer(u32::from(found).into())
    } else {
        Operand::Unknown
    }
}
