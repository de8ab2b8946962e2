//! Annotations that consumers add to messages: encoded maps of AMQP 1.0, empty for none.

use crate::annotations::{CC, DEATHS, EXCHANGE, ROUTING_KEY, text};
use crate::values::put_entry;
use amqp10::MapRef;
use amqp091::table::put_name;
use amqp091::{PropertiesRef, TableRef};
use message::{Body, BodyForm, MessageRef};
use std::collections::{BTreeMap, BTreeSet};

/// Annotations that are the broker's own, which consumers do not change.
const RESERVED: [&str; 5] = [EXCHANGE, ROUTING_KEY, CC, DEATHS, "x-death"];

/// Merges annotations into those that were kept before: a later value of a key replaces an earlier one. Those
/// that are the broker's own are left out.
#[must_use]
pub fn merge_annotations(kept: &[u8], added: &[u8]) -> Vec<u8> {
    let mut merged = BTreeMap::new();
    for (key, value) in MapRef::decode(kept).iter().chain(MapRef::decode(added).iter()) {
        if let Some(name) = text(key).filter(|name| !RESERVED.contains(name)) {
            merged.insert(name, value);
        }
    }
    let mut out = Vec::new();
    if !merged.is_empty() {
        amqp10::put_map(&mut out, |items| {
            merged.into_iter().for_each(|(name, value)| items.put_symbol(name, value));
        });
    }
    out
}

/// The message as if its publisher had given it these annotations, too, in place of others of the same keys.
/// What changes is written to `out`, which is emptied before.
#[must_use]
pub fn annotate<'a>(
    message: &MessageRef<'a>,
    added: &[u8],
    out: &'a mut Vec<u8>,
) -> MessageRef<'a> {
    out.clear();
    let added = MapRef::decode(added);
    let names: BTreeSet<&[u8]> =
        added.iter().filter_map(|(key, _)| Some(text(key)?.as_bytes())).collect();
    match message.form {
        BodyForm::Plain => {
            let source = PropertiesRef::trusted(message.properties);
            let mut table = Vec::new();
            for (name, value) in source.headers().unwrap_or(TableRef::EMPTY) {
                if !names.contains(name) {
                    put_name(&mut table, name);
                    value.encode(&mut table);
                }
            }
            for (key, value) in added.iter() {
                text(key).into_iter().for_each(|name| put_entry(&mut table, name, value));
            }
            source.encode_with_headers(Some(TableRef::trusted(&table)), out);
            MessageRef { properties: out, ..*message }
        }
        BodyForm::Amqp10 => {
            let (received, rest) = amqp10::split_message_annotations(message.body.bytes());
            out.reserve(message.body.len() + SPARE_BYTES);
            amqp10::put_message_annotations(out, |items| {
                for (key, value) in received.iter() {
                    if !text(key).is_some_and(|name| names.contains(name.as_bytes())) {
                        items.put(key);
                        items.put(value);
                    }
                }
                items.put_entries(added);
            });
            out.extend_from_slice(rest);
            MessageRef { body: Body::Borrowed(out), ..*message }
        }
    }
}

/// Bytes of annotations that most messages need beside what they have.
const SPARE_BYTES: usize = 256;
