//! The deaths of a dead letter: the header `x-death` in AMQP 0-9-1, the annotation `x-opt-deaths` in
//! AMQP 1.0.

use crate::annotations;
use crate::ids::{NO_TEXT, decimal};
use crate::values::{milliseconds, seconds};
use amqp10::{ArrayRef, Items, MapRef, ValueRef};
use amqp091::table::{ArrayRef as Deaths, TableRef, put_array, put_name, put_table};
use std::borrow::Cow;

/// The name of the header.
pub(crate) const HEADER: &[u8] = b"x-death";

/// Puts in the annotation for a header that the broker has made.
pub(crate) fn put_annotation(items: &mut Items<'_>, deaths: Deaths<'_>) {
    items.put(ValueRef::Symbol(annotations::DEATHS));
    let tables = deaths.iter().filter_map(|death| death.as_table());
    items.put_maps(tables, |items, death| put_death(items, death));
}

fn put_death(items: &mut Items<'_>, death: TableRef<'_>) {
    let text = |name: &[u8]| {
        String::from_utf8_lossy(death.get(name).and_then(|it| it.as_bytes()).unwrap_or_default())
    };
    if let Ok(ttl) = text(b"original-expiration").parse() {
        items.put_symbol("ttl", ValueRef::U32(ttl));
    }
    items.put_symbol("queue", ValueRef::Str(&text(b"queue")));
    let reason = text(b"reason");
    items.put_symbol(
        "reason",
        if reason.is_ascii() { ValueRef::Symbol(&reason) } else { ValueRef::Null },
    );
    let count = death.get(b"count").and_then(|count| count.as_i64()).unwrap_or(1);
    items.put_symbol("count", ValueRef::U64(count.unsigned_abs()));
    // The header has the time of the first death alone.
    let time = match death.get(b"time") {
        Some(amqp091::ValueRef::Timestamp(seconds)) => milliseconds(seconds).unwrap_or(i64::MAX),
        _ => 0,
    };
    items.put_symbol("first-time", ValueRef::Timestamp(time));
    items.put_symbol("last-time", ValueRef::Timestamp(time));
    items.put_symbol("exchange", ValueRef::Str(&text(b"exchange")));
    items.put(ValueRef::Symbol("routing-keys"));
    let keys = death.get(b"routing-keys").and_then(|keys| keys.as_array()).unwrap_or_default();
    items.put_strings(
        keys.iter()
            .filter_map(|key| key.as_bytes())
            .map(String::from_utf8_lossy)
            .collect::<Vec<Cow<'_, str>>>(),
    );
}

/// Appends the header for the annotation. Maps without a queue are no deaths.
pub(crate) fn put_header(out: &mut Vec<u8>, deaths: ArrayRef<'_>) {
    put_name(out, HEADER);
    put_array(out, |out| {
        for death in deaths.iter() {
            if let ValueRef::Map(death) = death
                && death.get("queue").is_some()
            {
                put_table(out, |out| put_fields(out, death));
            }
        }
    });
}

fn put_fields(out: &mut Vec<u8>, death: MapRef<'_>) {
    use amqp091::ValueRef as To;
    let mut put = |name: &[u8], value: To<'_>| {
        put_name(out, name);
        value.encode(out);
    };
    let text = |name| match death.get(name) {
        Some(ValueRef::Str(text) | ValueRef::Symbol(text)) => To::LongString(text.as_bytes()),
        _ => To::LongString(b""),
    };
    if let Some(ValueRef::U32(ttl)) = death.get("ttl") {
        let mut room = NO_TEXT;
        put(b"original-expiration", To::LongString(decimal(ttl.into(), &mut room)));
    }
    let count = if let Some(ValueRef::U64(n)) = death.get("count") { n } else { 1 };
    put(b"count", To::I64(count.cast_signed()));
    put(b"reason", text("reason"));
    put(b"queue", text("queue"));
    let time = if let Some(ValueRef::Timestamp(ms)) = death.get("first-time") { ms } else { 0 };
    put(b"time", To::Timestamp(seconds(time)));
    put(b"exchange", text("exchange"));
    put_name(out, b"routing-keys");
    put_array(out, |out| {
        let Some(ValueRef::Array(keys)) = death.get("routing-keys") else { return };
        for key in keys.iter() {
            if let ValueRef::Str(key) = key {
                To::LongString(key.as_bytes()).encode(out);
            }
        }
    });
}
