//! A message as JSON.

use super::line::put_exact;
use crate::Api;
use crate::amqp10_json;
use crate::objects::client_details::channel_details;
use crate::objects::messages::put_with_payload;
use crate::properties;
use conversion::to_amqp091;
use inspect::LookedAt;
use message::MessageRef;
use meta::definitions::table_to_json;
use queue::Standing;
use queues::QueueRef;
use serde_json::{Map, Value, json};
use session::{Table, Value as Field};
use std::collections::{BTreeMap, BTreeSet};

/// How much of a message is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) headers_only: bool,
    pub(super) payload_bytes: usize,
}

/// Messages as JSON, of which some are still without who holds them.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    pub(super) n_bytes: usize,
}

struct Row {
    /// The position of a message that is held; `None` for others.
    held: Option<u64>,
    /// An object without its end.
    json: Vec<u8>,
}

impl Rows {
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a message.
    pub(super) fn push(&mut self, at: &LookedAt<'_>, shown: Shown) {
        let held = (at.seen.standing == Standing::Held).then_some(at.seen.position);
        let mut json = Vec::new();
        let mut converted = Vec::new();
        let message = to_amqp091(&at.seen.message, &mut converted);
        let mut head = head_of(at, &message);
        put_sections(&at.seen.message, shown, &mut head);
        put(&message, head, shown, &mut json);
        self.n_bytes += json.len();
        self.rows.push(Row { held, json });
    }

    /// Takes the messages out as whole objects.
    pub(super) fn take(&mut self, api: &Api, queue: &QueueRef) -> Vec<Vec<u8>> {
        self.n_bytes = 0;
        let held: BTreeSet<u64> = self.rows.iter().filter_map(|row| row.held).collect();
        let holders =
            if held.is_empty() { Vec::new() } else { queues::QueueContents(queue).holders(&held) };
        let holders: BTreeMap<_, _> = holders.iter().map(|it| (it.position, it)).collect();
        let whole = |Row { held, mut json }| {
            if let Some(holder) = held.and_then(|position| holders.get(&position)) {
                let (connection, channel) = holder.owner;
                let mut details = channel_details(api, connection, channel);
                let tag = holder.consumer_tag.as_ref().map(session::ShortString::to_text);
                crate::objects::put_field(&mut details, "consumer_tag", json!(tag));
                let since_ms = api.now().unix_ms.get().saturating_sub(holder.held_ms);
                crate::objects::put_field(&mut details, "since", json!(since_ms));
                json.extend_from_slice(b",\"holder\":");
                json.extend_from_slice(details.to_string().as_bytes());
            }
            json.push(b'}');
            json
        };
        self.rows.drain(..).map(whole).collect()
    }
}

/// A message that has just come, and stands nowhere yet.
pub(super) fn new_message(message: &MessageRef<'_>, shown: Shown) -> Vec<u8> {
    let (mut out, mut converted) = (Vec::new(), Vec::new());
    let original = message;
    let message = to_amqp091(original, &mut converted);
    let mut head = head(&message);
    put_sections(original, shown, &mut head);
    put(&message, head, shown, &mut out);
    out.push(b'}');
    out
}

/// Puts in the sections of a message of AMQP 1.0, but for a body of which not all is to be shown, unless the
/// message is to be imported somewhere.
fn put_sections(message: &MessageRef<'_>, shown: Shown, head: &mut Map<String, Value>) {
    if shown.payload_bytes == usize::MAX {
        return;
    }
    let with_body = !shown.headers_only && message.body.len() <= shown.payload_bytes;
    if let Some(sections) = amqp10_json::sections_of(message, with_body) {
        head.insert("sections".to_owned(), sections);
    }
}

/// Appends a message as an object without its end; one with all of its payload as it can be imported.
fn put(message: &MessageRef<'_>, mut head: Map<String, Value>, shown: Shown, out: &mut Vec<u8>) {
    if shown.headers_only {
        let head = Value::Object(head).to_string();
        return out.extend_from_slice(head.strip_suffix('}').unwrap_or_default().as_bytes());
    }
    if shown.payload_bytes == usize::MAX {
        put_exact(message, &mut head);
    }
    let body = message.body.bytes();
    let start = body.get(..shown.payload_bytes).unwrap_or(body);
    let is_cut = start.len() < body.len();
    head.insert("payload_truncated".to_owned(), is_cut.into());
    put_with_payload(&Value::Object(head), text(start, is_cut), start, out);
}

/// Bytes as text; of those that were cut the last character may lack.
fn text(bytes: &[u8], is_cut: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).and_then(|whole| std::str::from_utf8(whole).ok())
        }
        Err(_) => None,
    }
}

/// The fields of a message that has no place in a queue.
fn head(message: &MessageRef<'_>) -> Map<String, Value> {
    let properties = message.index().to_properties().unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut head = Map::new();
    let mut put = |name: &str, value: Value| head.insert(name.to_owned(), value);
    put("exchange", text(message.exchange).into());
    put("routing_key", text(message.routing_key).into());
    put("payload_bytes", message.body.len().into());
    put("message_bytes", message.size_bytes().into());
    if let Some(deaths) = properties.headers.as_ref().and_then(deaths) {
        put("deaths", deaths);
    }
    put("properties", properties::object(&properties));
    if let Some(deadline_ms) = message.annotations.deadline_ms {
        put("expires_at", deadline_ms.get().into());
    }
    head
}

/// The fields of a message, and its place in the queue.
fn head_of(at: &LookedAt<'_>, message: &MessageRef<'_>) -> Map<String, Value> {
    let seen = &at.seen;
    let is_held = seen.standing == Standing::Held;
    let n_returns = seen.counts.n_acquired.max(u32::from(seen.redelivered == Some(true)));
    let mut head = head(message);
    let mut put = |name: &str, value: Value| head.insert(name.to_owned(), value);
    put("position", seen.position.into());
    put("state", state(seen.standing).into());
    put("redelivered", json!(seen.redelivered));
    put("deliveries", (n_returns + u32::from(is_held)).into());
    if let Standing::Delayed(Some(due_ms)) = seen.standing {
        put("due_at", due_ms.get().into());
    }
    if let Some(at_ms) = at.chunk_timestamp_ms {
        put("offset", seen.position.into());
        put("timestamp", at_ms.into());
    }
    head
}

const fn state(standing: Standing) -> &'static str {
    match standing {
        Standing::Ready => "ready",
        Standing::Held => "unacked",
        Standing::Delayed(_) => "delayed",
        Standing::Departing => "departing",
    }
}

/// Where the message was dead-lettered, the last first.
fn deaths(headers: &Table) -> Option<Value> {
    let Some(Field::Array(deaths)) = headers.get(b"x-death") else { return None };
    let death = |death: &Field| {
        let Field::Table(death) = death else { return None };
        Some(table_to_json(death))
    };
    Some(deaths.iter().filter_map(death).collect())
}
