//! The parts of a message that filters name, beside headers.

use message::View;

use super::section_field::SectionField;
use super::{Expression, Operand};

/// The header with the deaths of a message.
pub(super) const DEATHS: &[u8] = b"x-death";
/// The fields of an entry that can be compared.
const DEATH_FIELDS: [&str; 6] =
    ["count", "exchange", "original-expiration", "queue", "reason", "time"];

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Exchange,
    RoutingKey,
    Redelivered,
    Body,
    Property(Property),
    /// A field of the latest death.
    Death(&'static [u8]),
    /// A value in the body, by its number among the filter's [`Paths`](super::json::Paths).
    Path(usize),
    /// A part of a message in sections.
    Section(SectionField),
}

/// A property, by its place among [`PROPERTIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Property(usize);

type Read = for<'a> fn(View<'a>) -> Operand<'a>;

/// The properties by RabbitMQ's names.
const PROPERTIES: [(&str, Read); 13] = [
    ("content_type", |it| text(it.content_type())),
    ("content_encoding", |it| text(it.content_encoding())),
    ("delivery_mode", |it| number(it.delivery_mode())),
    ("priority", |it| number(it.priority())),
    ("correlation_id", |it| text(it.correlation_id())),
    ("reply_to", |it| text(it.reply_to())),
    ("expiration", |it| text(it.expiration())),
    ("message_id", |it| text(it.message_id())),
    ("timestamp", |it| number(it.timestamp())),
    ("type", |it| text(it.kind())),
    ("user_id", |it| text(it.user_id())),
    ("app_id", |it| text(it.app_id())),
    ("cluster_id", |it| text(it.cluster_id())),
];

fn text(value: Option<&[u8]>) -> Operand<'_> {
    value.map_or(Operand::Unknown, Operand::Text)
}

pub(super) fn number<'a>(value: Option<impl TryInto<i64>>) -> Operand<'a> {
    let value = value.and_then(|value| value.try_into().ok());
    value.map_or(Operand::Unknown, |value: i64| Operand::Integer(value.into()))
}

impl Property {
    fn named(name: &str) -> Option<Self> {
        PROPERTIES.iter().position(|(known, _)| *known == name).map(Self)
    }

    pub(super) fn value(self, view: View<'_>) -> Operand<'_> {
        PROPERTIES.get(self.0).map_or(Operand::Unknown, |(_, read)| read(view))
    }
}

/// The part that a filter calls by a name; of an unknown one, what is known.
pub(super) fn named(name: &str) -> Result<Expression, String> {
    let header = name.strip_prefix("header.").or_else(|| name.strip_prefix("properties.headers."));
    if let Some(header) = header {
        return Ok(Expression::Header(header.as_bytes().into()));
    }
    let property = |name| Property::named(name).map(Field::Property);
    let field = if let Some(wanted) = name.strip_prefix("properties.") {
        let known = PROPERTIES.map(|(known, _)| known);
        Some(property(wanted).ok_or_else(|| one_of("property", wanted, &known))?)
    } else if let Some(wanted) = name.strip_prefix("x-death.") {
        let field = DEATH_FIELDS.iter().find(|known| **known == wanted);
        let field = field.ok_or_else(|| one_of("field of x-death", wanted, &DEATH_FIELDS))?;
        Some(Field::Death(field.as_bytes()))
    } else {
        match name {
            "exchange" => Some(Field::Exchange),
            "routing_key" => Some(Field::RoutingKey),
            "redelivered" => Some(Field::Redelivered),
            "body" => Some(Field::Body),
            _ => property(name),
        }
    };
    let header = || Expression::Header(name.as_bytes().into());
    Ok(field.map_or_else(header, Expression::Field))
}

fn one_of(what: &str, wanted: &str, known: &[&str]) -> String {
    format!("unknown {what} '{wanted}', expected {}", known.join(", "))
}
