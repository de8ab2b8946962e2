//! Messages: published to an exchange, fetched from a queue. Properties and bodies as JSON has them.

use super::put_field;
use crate::amqp10_json;
use crate::call::{Answer, Call, Outcome as Answered, parsed};
use crate::list;
use crate::properties;
use crate::refusal::Refusal;
use crate::request::{require_all, text};
use crate::user_session::{Got, Told, UserSession, unexpected};
use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conversion::to_amqp091;
use message::Properties;
use meta::definitions::table_from_json;
use serde_json::{Map, Value, json};
use session::{Op, Outcome, ShortString};
use std::borrow::Cow;

/// Messages of one request.
const GET_MAX: u64 = 50_000;
/// Bytes of bodies of one answer, but for the last: what is beyond stays in the queue.
const GET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Texts among the properties, by the names that JSON has for them.
type TextOf = fn(&mut Properties) -> &mut Option<ShortString>;
const TEXTS: [(&str, TextOf); 10] = [
    ("type", |it| &mut it.kind),
    ("content_type", |it| &mut it.content_type),
    ("content_encoding", |it| &mut it.content_encoding),
    ("correlation_id", |it| &mut it.correlation_id),
    ("reply_to", |it| &mut it.reply_to),
    ("expiration", |it| &mut it.expiration),
    ("message_id", |it| &mut it.message_id),
    ("user_id", |it| &mut it.user_id),
    ("app_id", |it| &mut it.app_id),
    ("cluster_id", |it| &mut it.cluster_id),
];

/// The properties that an object names.
pub(crate) fn properties_of(object: &Map<String, Value>) -> Result<Properties, Refusal> {
    let invalid = |name: &str| Refusal::bad_request(format!("invalid property: {name}"));
    let mut properties = Properties::default();
    for (name, part) in TEXTS {
        let Some(value) = object.get(name).filter(|value| !value.is_null()) else { continue };
        let text = value.as_str().ok_or_else(|| invalid(name))?;
        let short = ShortString::new(text).map_err(|_| Refusal::too_long(text))?;
        *part(&mut properties) = Some(short);
    }
    let number = |name: &str, most: u64| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let found = value.as_u64().filter(|found| *found <= most);
            found.map(Some).ok_or_else(|| invalid(name))
        }
    };
    let byte = |name| Ok::<_, Refusal>(number(name, 255)?.and_then(|it| u8::try_from(it).ok()));
    properties.delivery_mode = byte("delivery_mode")?;
    properties.priority = byte("priority")?;
    properties.timestamp = number("timestamp", u64::MAX)?;
    if let headers @ Some(_) = object.get("headers") {
        properties.headers = Some(table_from_json(headers).map_err(Refusal::bad_request)?);
    }
    Ok(properties)
}

/// Properties as JSON. COMPAT: no properties are an empty list.
fn properties_json(properties: &Properties) -> Value {
    let object = properties::object(properties);
    if object.as_object().is_some_and(Map::is_empty) { json!([]) } else { object }
}

type Parts<'c> = (Map<String, Value>, Option<Cow<'c, str>>);

/// The fields of a message and its payload, which may be long: as it stands in the body it is not copied.
fn parts(call: &Call) -> Result<Parts<'_>, Refusal> {
    let mut payload = None;
    let mut object = Map::new();
    for (name, raw) in call.fields()? {
        if name == "payload" {
            let text = serde_json::from_str::<&str>(raw.get()).map(Cow::Borrowed);
            payload = text.or_else(|_| serde_json::from_str(raw.get()).map(Cow::Owned)).ok();
            object.insert(name, Value::Null);
        } else {
            object.insert(name, parsed(raw.get().as_bytes())?);
        }
    }
    Ok((object, payload))
}

pub(crate) async fn publish(call: &Call) -> Answered {
    let exchange = super::exchanges::name(call);
    if call.view().meta.exchange(call.param("vhost"), exchange).is_none() {
        return Err(Refusal::lacks("exchange_not_found"));
    }
    let (body, payload) = parts(call)?;
    require_all(&body, &["routing_key", "properties", "payload", "payload_encoding"])?;
    let payload = payload.ok_or_else(|| Refusal::bad_request("payload must be a string"))?;
    let payload = match text(&body, "payload_encoding")? {
        "string" => match payload {
            // A payload that is most of the body shares the body's memory.
            Cow::Borrowed(text) if text.len() > call.body.len() / 2 => {
                call.body.slice_ref(text.as_bytes())
            }
            text @ (Cow::Borrowed(_) | Cow::Owned(_)) => Bytes::from(text.into_owned()),
        },
        "base64" => {
            let bytes = STANDARD.decode(&*payload);
            Bytes::from(bytes.map_err(|_| Refusal::bad_request("payload is not base64"))?)
        }
        other => return Err(Refusal::bad_request(format!("unsupported encoding: {other}"))),
    };
    let none = Map::new();
    let properties = match body.get("properties") {
        Some(Value::Object(properties)) => properties,
        // COMPAT: no properties are an empty list.
        Some(Value::Array(properties)) if properties.is_empty() => &none,
        _ => return Err(Refusal::bad_request("properties must be an object")),
    };
    let mut encoded = Vec::new();
    properties_of(properties)?.encode(&mut encoded);
    let key = text(&body, "routing_key")?;
    super::short(key)?;
    let mut session = UserSession::open(&call.api, &call.caller, call.param("vhost")).await?;
    let routed = routed(&mut session, exchange, key, &encoded, payload).await;
    session.close().await;
    Ok(Answer::Json(json!({"routed": routed?})))
}

async fn routed(
    session: &mut UserSession,
    exchange: &str,
    key: &str,
    properties: &[u8],
    body: Bytes,
) -> Result<bool, Refusal> {
    session.ask(Op::EnableConfirms).await?;
    session.publish(exchange, key, properties, body).await
}

/// The fate of a message that was fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AckMode {
    Taken,
    Settled(Outcome),
}

impl AckMode {
    fn of(word: &str) -> Result<Self, Refusal> {
        Ok(match word {
            "ack_requeue_false" => Self::Taken,
            "ack_requeue_true" => Self::Settled(Outcome::Released),
            "reject_requeue_true" => Self::Settled(Outcome::Modified),
            "reject_requeue_false" => Self::Settled(Outcome::Rejected),
            other => {
                return Err(Refusal::bad_request(format!(
                    "Invalid ackmode value: {other}. Valid values are: ack_requeue_true, \
                     ack_requeue_false, reject_requeue_true, reject_requeue_false"
                )));
            }
        })
    }
}

/// How bodies are shown.
struct Shown {
    in_base64: bool,
    bytes_max: usize,
}

pub(crate) async fn get(call: &Call) -> Answered {
    let body = call.object()?;
    let view = call.view();
    let vhost = crate::call::vhost(&view.meta, call)?;
    vhost.queue(call.param("name")).ok_or_else(|| Refusal::lacks("queue_not_found"))?;
    require_all(&body, &["ackmode", "count", "encoding"])?;
    let mode = AckMode::of(text(&body, "ackmode")?)?;
    let number = |field: &str| match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| field.to_owned()),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| field.to_owned()),
    };
    let invalid =
        |field: String| Refusal::bad_request(format!("{field} must be a number, 0 or more"));
    let count = number("count").map_err(invalid)?.unwrap_or(1).min(GET_MAX);
    let truncate = number("truncate").map_err(invalid)?;
    let in_base64 = match text(&body, "encoding")? {
        "auto" => false,
        "base64" => true,
        _ => {
            let text = "Unsupported encoding. Please use auto or base64.";
            return Err(Refusal::bad_request(text));
        }
    };
    let bytes_max = truncate.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let shown = Shown { in_base64, bytes_max };
    let mut session = UserSession::open(&call.api, &call.caller, call.param("vhost")).await?;
    let fetched = fetch(call, &mut session, count, mode, &shown).await;
    session.close().await;
    Ok(Answer::Raw(fetched?))
}

async fn fetch(
    call: &Call,
    session: &mut UserSession,
    count: u64,
    mode: AckMode,
    shown: &Shown,
) -> Result<Vec<u8>, Refusal> {
    let (mut rows, mut held, mut n_bytes) = (vec![b'['], Vec::new(), 0);
    for _ in 0..count {
        // A client that has disconnected takes no more messages.
        if call.course.end().is_some() {
            break;
        }
        let queue = super::short(call.param("name"))?;
        let got = match session.ask(Op::Get { queue, no_ack: mode == AckMode::Taken }).await? {
            Told::Empty => break,
            Told::Got(got) => got,
            other @ (Told::Done | Told::Confirmed { .. }) => {
                return unexpected(&other);
            }
        };
        n_bytes += got.message.size_bytes().min(shown.bytes_max);
        if rows.len() > 1 {
            rows.push(b',');
        }
        match call.query.get("columns") {
            None => put_row(&got, shown, &mut rows),
            Some(_) => put_columns(call, &got, shown, &mut rows)?,
        }
        if matches!(mode, AckMode::Settled(_)) {
            // Link and position are enough to settle the message.
            held.push((got.link, got.position));
        }
        if n_bytes > GET_BYTES_MAX {
            break;
        }
    }
    if let AckMode::Settled(outcome) = mode {
        for (link, position) in held {
            session.settle(link, position, outcome).await;
        }
    }
    rows.push(b']');
    Ok(rows)
}

/// Appends the columns of a message that the query wants.
fn put_columns(call: &Call, got: &Got, shown: &Shown, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut row = Vec::new();
    put_row(got, shown, &mut row);
    let row = serde_json::from_slice(&row).map_err(|_| Refusal::internal())?;
    out.extend_from_slice(list::reduced(&call.query, row)?.to_string().as_bytes());
    Ok(())
}

/// Appends a message.
fn put_row(got: &Got, shown: &Shown, out: &mut Vec<u8>) {
    let (original, mut converted) = (got.message.message(), Vec::new());
    let message = to_amqp091(&original, &mut converted);
    let body = message.body.bytes();
    let start = body.get(..shown.bytes_max).unwrap_or(body);
    let properties = message.index().to_properties().unwrap_or_default();
    let mut rest = json!({
        "payload_bytes": body.len(),
        "redelivered": got.redelivered,
        "exchange": String::from_utf8_lossy(message.exchange),
        "routing_key": String::from_utf8_lossy(message.routing_key),
        "message_count": got.n_ready,
        "properties": properties_json(&properties),
    });
    if let Some(sections) = amqp10_json::sections_of(&original, start.len() == body.len()) {
        put_field(&mut rest, "sections", sections);
    }
    let text = std::str::from_utf8(start).ok().filter(|_| !shown.in_base64);
    put_with_payload(&rest, text, start, out);
    out.push(b'}');
}

/// Appends an object without its end, whose payload is put as text if it is some, and then not copied again.
pub(crate) fn put_with_payload(
    rest: &Value,
    text: Option<&str>,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let (payload, encoding) = match text {
        Some(text) => (Cow::Borrowed(text), "string"),
        None => (Cow::Owned(STANDARD.encode(payload)), "base64"),
    };
    let rest = rest.to_string();
    out.extend_from_slice(rest.strip_suffix('}').unwrap_or_default().as_bytes());
    out.extend_from_slice(format!(",\"payload_encoding\":\"{encoding}\",\"payload\":").as_bytes());
    serde_json::to_writer(&mut *out, &payload).expect("memory takes all that is written");
}
