//! The filters of a link whose source is a stream (part 3, 3.5.8), as RabbitMQ knows them.

use super::SectionsFilter;
use amqp10::{DescribedRef, Descriptor, MapRef, ValueRef, put_map};
use amqp091::{ShortString, Table, Value};

/// The largest map of filters, in bytes.
const FILTERS_BYTES_MAX: usize = 16 * 1024;
/// The name under which alone SQL is taken.
const SQL_NAME: &str = "sql-filter";
const SQL: FilterType = FilterType { code: 0x120, name: "amqp:sql-filter" };
const PROPERTIES: FilterType = FilterType { code: 0x173, name: "amqp:properties-filter" };
const APPLICATION_PROPERTIES: FilterType =
    FilterType { code: 0x174, name: "amqp:application-properties-filter" };

/// A type of filters, which clients tell by number or by name.
struct FilterType {
    code: u64,
    name: &'static str,
}

impl FilterType {
    fn is(&self, descriptor: Descriptor<'_>) -> bool {
        [Descriptor::Code(self.code), Descriptor::Symbol(self.name)].contains(&descriptor)
    }
}

/// The filters of a link that are in place. What is not understood is left out, and so are filters of
/// properties together with SQL, and a second one of the same section.
#[derive(Clone, Debug, Default)]
pub struct LinkFilters {
    /// The filters in place, an encoded map for the answer to the client.
    pub in_place: Vec<u8>,
    /// Arguments of a stream's consumer that say the same: `x-stream-offset`, `x-stream-filter` and
    /// `x-stream-match-unfiltered`.
    pub arguments: Table,
    /// The condition over the sections of messages.
    pub sections: Option<SectionsFilter>,
}

/// A filter that is understood.
enum LinkFilter {
    Argument(&'static str, Value),
    Sections(SectionsKind, SectionsFilter),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionsKind {
    Sql,
    Properties,
    ApplicationProperties,
}

impl LinkFilters {
    /// Reads an encoded map of filters; no bytes and what is no map ask for none. Of a map that is too large
    /// nothing is in place.
    #[must_use]
    pub fn decode(asked: &[u8]) -> Self {
        let is_small = asked.len() <= FILTERS_BYTES_MAX;
        Self::of(if is_small { MapRef::decode(asked) } else { MapRef::EMPTY })
    }

    /// Reads the filters that a client asks for. COMPAT: of those that exclude each other the last one holds.
    #[must_use]
    pub fn of(asked: MapRef<'_>) -> Self {
        let (mut filters, mut kinds) = (Self::default(), Vec::new());
        let mut in_place = Vec::new();
        let entries: Vec<_> = asked.iter().collect();
        for (name, value) in entries.into_iter().rev() {
            let (ValueRef::Symbol(symbol), ValueRef::Described(described)) = (name, value) else {
                continue;
            };
            match LinkFilter::of(symbol, described) {
                Some(LinkFilter::Argument(argument, value)) => {
                    filters.arguments.push(ShortString::from_static(argument), value);
                }
                Some(LinkFilter::Sections(kind, filter)) => {
                    if kinds.contains(&SectionsKind::Sql)
                        || kinds.contains(&kind)
                        || (kind == SectionsKind::Sql && !kinds.is_empty())
                    {
                        continue;
                    }
                    kinds.push(kind);
                    filters.sections = Some(match filters.sections.take() {
                        Some(before) => before.and(filter),
                        None => filter,
                    });
                }
                None => continue,
            }
            in_place.push((name, value));
        }
        put_map(&mut filters.in_place, |items| {
            for (name, value) in in_place.into_iter().rev() {
                items.put(name);
                items.put(value);
            }
        });
        filters
    }
}

impl LinkFilter {
    fn of(name: &str, described: DescribedRef<'_>) -> Option<Self> {
        let value = described.value();
        let argument = |name, value: Option<Value>| Some(Self::Argument(name, value?));
        let sections = |kind, filter: Option<SectionsFilter>| Some(Self::Sections(kind, filter?));
        match (described.descriptor, value) {
            (Descriptor::Symbol("rabbitmq:stream-offset-spec"), value) => {
                argument("x-stream-offset", offset(value))
            }
            (Descriptor::Symbol("rabbitmq:stream-filter"), value) => {
                argument("x-stream-filter", texts(value))
            }
            (Descriptor::Symbol("rabbitmq:stream-match-unfiltered"), ValueRef::Bool(value)) => {
                argument("x-stream-match-unfiltered", Some(Value::Bool(value)))
            }
            (descriptor, value) if name == SQL_NAME => match (SQL.is(descriptor), value) {
                (true, ValueRef::Str(sql)) => {
                    sections(SectionsKind::Sql, SectionsFilter::of_sql(sql).ok())
                }
                _ => None,
            },
            (descriptor, ValueRef::Map(map)) if PROPERTIES.is(descriptor) => {
                sections(SectionsKind::Properties, SectionsFilter::of_properties(map))
            }
            (descriptor, ValueRef::Map(map)) if APPLICATION_PROPERTIES.is(descriptor) => {
                let filter = SectionsFilter::of_application_properties(map);
                sections(SectionsKind::ApplicationProperties, filter)
            }
            _ => None,
        }
    }
}

fn offset(value: ValueRef<'_>) -> Option<Value> {
    // `first`, `last`, `next`, or a time span.
    if let ValueRef::Str(text) | ValueRef::Symbol(text) = value {
        return Some(Value::from(text));
    }
    if let ValueRef::Timestamp(ms) = value {
        return u64::try_from(ms).ok().map(|ms| Value::Timestamp(ms / 1_000));
    }
    let offset = value.as_integer().and_then(|offset| i64::try_from(offset).ok());
    offset.filter(|offset| *offset >= 0).map(Value::I64)
}

/// A text, or those in a list.
fn texts(value: ValueRef<'_>) -> Option<Value> {
    let text = |value| if let ValueRef::Str(text) = value { Some(Value::from(text)) } else { None };
    if let ValueRef::List(list) = value {
        let texts: Vec<_> = list.iter().filter_map(text).collect();
        return (!texts.is_empty()).then_some(Value::Array(texts));
    }
    text(value)
}

#[cfg(test)]
mod tests;
