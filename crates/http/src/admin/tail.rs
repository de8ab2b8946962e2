//! Messages of a stream, a page for each question: who reads slowly asks later, and nothing is kept.

use super::Reply;
use super::streams::stream_of;
use crate::properties;
use crate::request::Request;
use api::ErrorCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mgmt::{ApiError, Management};
use serde_json::{Value, json};
use session::{ShortString, Table, Value as Field};
use std::sync::Arc;
use stream::{Stream, StreamMessage, Tail};
use tokio::task::spawn_blocking;

/// Bytes of bodies and properties that end a page: the message that reaches them is its last.
const PAGE_BYTES_MAX: usize = 64 * 1024;
/// Most messages of a page.
const PAGE_MESSAGES_MAX: u64 = 1_000;

/// The next messages. They are read on a thread that may wait.
pub(crate) async fn messages(management: &Management, request: &Request) -> Reply {
    let stream = stream_of(management, request, "tail")?;
    let id = stream.id().0;
    if request.number("id").is_some_and(|known| known.cast_unsigned() != id) {
        return Err(ApiError::new(ErrorCode::NotFound, "the stream was deleted"));
    }
    let offset = [(ShortString::from_static("x-stream-offset"), offset(request))];
    let arguments: Table = offset.into_iter().collect();
    let n_wanted = request.number("count").map_or(u64::MAX, i64::unsigned_abs);
    let read = spawn_blocking(move || page(&stream, &arguments, n_wanted)).await;
    let read = read.map_err(|error| error.to_string()).flatten();
    read.map_err(ApiError::invalid)
}

/// The argument of a consumer that begins there: a number that was told, or an operator's words.
fn offset(request: &Request) -> Field {
    let text = request.optional("offset").unwrap_or("-10");
    let seconds = text.strip_prefix('@').and_then(|seconds| seconds.parse().ok());
    let number = request.number("next").or_else(|| text.parse().ok());
    let field = seconds.filter(|_| number.is_none()).map(Field::Timestamp);
    field.or_else(|| number.map(Field::I64)).unwrap_or_else(|| Field::from(text))
}

fn page(stream: &Arc<Stream>, arguments: &Table, n_wanted: u64) -> Result<Value, String> {
    let end = stream.view.next_offset();
    let mut tail = Tail::open(stream, arguments)?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while (messages.len() as u64) < n_wanted.min(PAGE_MESSAGES_MAX) && bytes < PAGE_BYTES_MAX {
        let seen = tail.next(|next| {
            bytes += next.message.size_bytes();
            messages.push(object(next));
        });
        if !seen? {
            break;
        }
    }
    let next = tail.next_offset();
    Ok(json!({"id": stream.id().0, "next": next, "end": end, "messages": messages}))
}

/// A message with the fields that RabbitMQ's HTTP API has for it.
fn object(next: &StreamMessage<'_>) -> Value {
    let StreamMessage { offset, chunk_timestamp_ms, message } = next;
    let body = message.body.bytes();
    let (payload, encoding) = match std::str::from_utf8(body) {
        Ok(text) => (text.to_owned(), "string"),
        Err(_) => (BASE64_STANDARD.encode(body), "base64"),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "offset": offset,
        "chunk_timestamp_ms": chunk_timestamp_ms,
        "exchange": text(message.exchange),
        "routing_key": text(message.routing_key),
        "properties": message.index().to_properties().map(|it| properties::object(&it)),
        "payload_bytes": body.len(),
        "payload": payload,
        "payload_encoding": encoding,
    })
}
