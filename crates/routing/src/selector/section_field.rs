//! The parts of a message in sections that filters of AMQP 1.0 see.

use super::{Operand, Steps};
use amqp10::{MessageHead, ValueRef};
use stdx::UnixMs;

/// The priority of a message that has none.
pub(super) const DEFAULT_PRIORITY: i128 = 4;
/// The place of the priority among the fields of a header.
const PRIORITY: usize = 1;

/// A part of a message in sections, beside application properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionField {
    Priority,
    /// A field of the properties section, by its place among [`PROPERTIES`].
    Property(usize),
    /// The time when the filter is asked, in milliseconds.
    Utc,
}

/// The fields of the properties section, in its order.
const PROPERTIES: [&str; 13] = [
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
];

impl SectionField {
    pub(super) fn of_properties(name: &str) -> Option<Self> {
        PROPERTIES.iter().position(|known| *known == name).map(Self::Property)
    }

    /// Whether the value has the type that the property is defined with.
    pub(super) fn is_of_type(self, value: ValueRef<'_>) -> bool {
        let Self::Property(at) = self else { return false };
        match PROPERTIES.get(at).copied().unwrap_or_default() {
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
    pub(super) head: &'m MessageHead<'m>,
    pub(super) now: UnixMs,
}

impl<'m> MessageSections<'m> {
    pub(super) fn application_property(&self, name: &[u8], steps: &mut Steps) -> Operand<'m> {
        let application = self.head.application_properties;
        if steps.take(application.len()).is_none() {
            return Operand::Unknown;
        }
        application.find(name).map_or(Operand::Unknown, operand)
    }

    pub(super) fn field(&self, field: SectionField) -> Operand<'m> {
        match field {
            SectionField::Priority => match self.head.header.iter().nth(PRIORITY) {
                Some(ValueRef::U8(priority)) => Operand::Integer(priority.into()),
                _ => Operand::Integer(DEFAULT_PRIORITY),
            },
            SectionField::Utc => Operand::Integer(self.now.get().into()),
            SectionField::Property(at) => {
                self.head.properties.iter().nth(at).map_or(Operand::Unknown, operand)
            }
        }
    }
}

/// The property of JMS that an AMQP 0-9-1 message does not have as such: none if the message in these
/// sections has none, or it is no such property.
pub(super) fn jms_property<'m>(sections: &'m [u8], name: &[u8]) -> Option<Operand<'m>> {
    let field = match name {
        b"JMSType" => "subject",
        b"JMSTimestamp" => "creation_time",
        b"JMSXUserID" => "user_id",
        b"JMSXGroupID" => "group_id",
        b"JMSXGroupSeq" => "group_sequence",
        _ => return None,
    };
    let at = PROPERTIES.iter().position(|known| *known == field)?;
    MessageHead::read(sections).properties.iter().nth(at).map(operand)
}

/// COMPAT: values that are not simple are as if they were not there.
#[inline]
pub(super) fn operand(value: ValueRef<'_>) -> Operand<'_> {
    match value {
        ValueRef::U8(n) => Operand::Integer(n.into()),
        ValueRef::U16(n) => Operand::Integer(n.into()),
        ValueRef::U32(n) => Operand::Integer(n.into()),
        ValueRef::U64(n) => Operand::Integer(n.into()),
        ValueRef::I8(n) => Operand::Integer(n.into()),
        ValueRef::I16(n) => Operand::Integer(n.into()),
        ValueRef::I32(n) => Operand::Integer(n.into()),
        ValueRef::I64(n) | ValueRef::Timestamp(n) => Operand::Integer(n.into()),
        ValueRef::Char(found) => Operand::Integer(u32::from(found).into()),
        ValueRef::Str(text) | ValueRef::Symbol(text) => Operand::Text(text.as_bytes()),
        ValueRef::Binary(bytes) => Operand::Text(bytes),
        ValueRef::Bool(value) => Operand::Bool(value),
        ValueRef::F64(x) => Operand::Float(x),
        ValueRef::F32(x) => Operand::Float(x.into()),
        ValueRef::Uuid(uuid) => Operand::Uuid(uuid),
        ValueRef::Null
        | ValueRef::Decimal32(_)
        | ValueRef::Decimal64(_)
        | ValueRef::Decimal128(_)
        | ValueRef::List(_)
        | ValueRef::Map(_)
        | ValueRef::Array(_)
        | ValueRef::Described(_) => Operand::Unknown,
    }
}
