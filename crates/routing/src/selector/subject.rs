//! The message that an expression is evaluated for.

use std::cell::OnceCell;

use amqp091::{TableRef, ValueRef};
use message::View;

use super::field::{self, Field};
use super::json::{Found, Paths};
use super::section_field::{self, MessageSections};
use super::{Candidate, Operand, Steps};
use crate::message::Message;

/// A message, of which filters see more than selectors of bindings.
#[derive(Debug)]
pub(super) struct Subject<'m> {
    headers: Option<TableRef<'m>>,
    properties: Option<View<'m>>,
    filtered: Option<Filtered<'m>>,
    sections: Option<MessageSections<'m>>,
    /// The sections of a message of which the headers are known, too.
    routed: Option<&'m [u8]>,
}

/// The parts of a message that filters alone see.
#[derive(Debug)]
struct Filtered<'m> {
    candidate: Candidate<'m>,
    paths: &'m Paths,
    /// The values at those, once one is asked for.
    found: OnceCell<Box<[Found<'m>]>>,
}

impl<'m> Subject<'m> {
    pub(super) const fn of_routing(message: &Message<'m>) -> Self {
        Self {
            headers: message.headers,
            properties: message.properties,
            filtered: None,
            sections: None,
            routed: message.sections,
        }
    }

    pub(super) fn of_filter(candidate: &Candidate<'m>, paths: &'m Paths) -> Self {
        let view = candidate.message.index();
        let filtered = Filtered { candidate: *candidate, paths, found: OnceCell::new() };
        Self {
            headers: view.headers(),
            properties: Some(view),
            filtered: Some(filtered),
            sections: None,
            routed: None,
        }
    }

    pub(super) const fn of_sections(sections: MessageSections<'m>) -> Self {
        let sections = Some(sections);
        Self { headers: None, properties: None, filtered: None, sections, routed: None }
    }

    /// A header or, if there is none of that name, the property JMS calls so.
    pub(super) fn header(&self, name: &[u8], steps: &mut Steps) -> Operand<'m> {
        if let Some(sections) = &self.sections {
            return sections.application_property(name, steps);
        }
        let headers_bytes = self.headers.map_or(0, |headers| headers.as_bytes().len());
        if steps.pass_over(headers_bytes).is_none() {
            return Operand::Unknown;
        }
        let Some(value) = self.headers.and_then(|headers| headers.get(name)) else {
            let of_sections = self.routed.and_then(|it| section_field::jms_property(it, name));
            let property = || self.properties.map(|found| jms_property(found, name));
            let found = of_sections.or_else(property).unwrap_or(Operand::Unknown);
            let is_usual = self.routed.is_some() && name == b"JMSPriority";
            return match found == Operand::Unknown && is_usual {
                true => Operand::Integer(section_field::DEFAULT_PRIORITY),
                false => found,
            };
        };
        match (field_value(value), value) {
            // COMPAT: selectors of bindings do not see them.
            (Operand::Opaque, _) | (_, ValueRef::Timestamp(_)) if self.filtered.is_none() => {
                Operand::Unknown
            }
            (found, _) => found,
        }
    }

    /// A part of the message that filters alone see.
    pub(super) fn field(&self, field: &Field, steps: &mut Steps) -> Operand<'_> {
        if let (Some(sections), Field::Section(field)) = (&self.sections, field) {
            return sections.field(*field);
        }
        let Some(filtered) = &self.filtered else { return Operand::Unknown };
        let candidate = &filtered.candidate;
        let message = candidate.message;
        match field {
            Field::Exchange => Operand::Text(message.exchange),
            Field::RoutingKey => Operand::Text(message.routing_key),
            Field::Redelivered => Operand::Bool(candidate.redelivered),
            Field::Body => candidate.body_seen().map_or(Operand::Unknown, Operand::Text),
            Field::Property(property) => property.value(message.index()),
            Field::Death(name) => self.latest_death(name, steps),
            Field::Path(path) => filtered.at_path(*path, steps),
            Field::Section(_) => Operand::Unknown,
        }
    }

    /// A field of the newest entry of `x-death`, which is its first.
    fn latest_death(&self, name: &[u8], steps: &mut Steps) -> Operand<'m> {
        let headers_bytes = self.headers.map_or(0, |headers| headers.as_bytes().len());
        let looked_at = steps.pass_over(headers_bytes);
        let deaths = looked_at.and(self.headers).and_then(|headers| headers.get(field::DEATHS));
        let latest = deaths.and_then(|deaths| deaths.as_array()?.iter().next());
        let value = latest.and_then(|latest| latest.as_table()?.get(name));
        value.map_or(Operand::Unknown, field_value)
    }
}

impl Filtered<'_> {
    /// The value at a path of the body, which is read once.
    fn at_path(&self, path: usize, steps: &mut Steps) -> Operand<'_> {
        let found = self.found.get_or_init(|| {
            let body = self.candidate.body_seen().unwrap_or_default();
            steps.take(body.len()).map_or_else(Box::default, |()| self.paths.read(body))
        });
        found.get(path).map_or(Operand::Unknown, Found::operand)
    }
}

fn field_value(value: ValueRef<'_>) -> Operand<'_> {
    if let ValueRef::Bool(value) = value {
        return Operand::Bool(value);
    }
    if let ValueRef::LongString(text) | ValueRef::Bytes(text) = value {
        return Operand::Text(text);
    }
    if value == ValueRef::Void {
        return Operand::Unknown;
    }
    if let ValueRef::Timestamp(seconds) = value {
        return field::number(Some(seconds));
    }
    let float = || value.as_f64().map_or(Operand::Opaque, Operand::Float);
    value.as_i64().map_or_else(float, |value| Operand::Integer(value.into()))
}

fn jms_property<'a>(properties: View<'a>, name: &[u8]) -> Operand<'a> {
    let text = |value: Option<&'a [u8]>| value.map_or(Operand::Unknown, Operand::Text);
    match name {
        b"JMSMessageID" => text(properties.message_id()),
        b"JMSCorrelationID" => text(properties.correlation_id()),
        b"JMSType" => text(properties.kind()),
        b"JMSPriority" => {
            properties.priority().map_or(Operand::Unknown, |n| Operand::Integer(n.into()))
        }
        b"JMSTimestamp" => {
            // JMS counts milliseconds.
            let ms = properties.timestamp().and_then(|seconds| seconds.checked_mul(1_000));
            field::number(ms)
        }
        b"JMSDeliveryMode" if properties.is_persistent() => Operand::Text(b"PERSISTENT"),
        b"JMSDeliveryMode" => Operand::Text(b"NON_PERSISTENT"),
        _ => Operand::Unknown,
    }
}
