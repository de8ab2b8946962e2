//! Messages as lines of NDJSON, each an object. A message that is written and read again is the same to the
//! byte: where JSON loses something, the field of the same name with `_base64` has all of it, and counts.

use crate::call::parsed;
use crate::objects::messages::{properties_of, put_with_payload};
use crate::properties;
use crate::refusal::Refusal;
use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use message::Properties;
use message::{MessageRef, View};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The most bytes of a routing key.
const KEY_BYTES_MAX: usize = 255;

/// A message that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) routing_key: Vec<u8>,
    /// The properties, encoded as in a message.
    pub(crate) properties: Vec<u8>,
    pub(crate) payload: Bytes,
}

/// The reason why a line is no message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineError(pub(crate) String);

impl From<Refusal> for LineError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.reason)
    }
}

/// Puts exchange, routing key and properties into an object, the same to the byte.
pub(super) fn put_exact(message: &MessageRef<'_>, fields: &mut Map<String, Value>) {
    put_text(fields, "exchange", message.exchange);
    put_text(fields, "routing_key", message.routing_key);
    let properties = properties::object(&message.index().to_properties().unwrap_or_default());
    let told = properties.as_object().and_then(|object| properties_of(object).ok());
    if told.is_none_or(|told| told.to_bytes() != message.properties) {
        let encoded = STANDARD.encode(message.properties);
        fields.insert("properties_base64".to_owned(), encoded.into());
    }
    fields.insert("properties".to_owned(), properties);
}

fn put_text(fields: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Cow::Owned(_) = text {
        fields.insert(format!("{name}_base64"), STANDARD.encode(bytes).into());
    }
    fields.insert(name.to_owned(), text.into());
}

/// Reads a message. Fields that are not its own are passed over; all but the payload may be absent.
pub(crate) fn parse_line(line: &[u8]) -> Result<Line, LineError> {
    let Value::Object(mut fields) = parsed(line)? else {
        return Err(LineError("not an object".to_owned()));
    };
    let payload = payload(&mut fields)?;
    let routing_key = match in_base64(&fields, "routing_key_base64")? {
        Some(key) => key,
        None => text(&fields, "routing_key")?.unwrap_or_default().into(),
    };
    if routing_key.len() > KEY_BYTES_MAX {
        return Err(Refusal::too_long(&String::from_utf8_lossy(&routing_key)).into());
    }
    let properties = match in_base64(&fields, "properties_base64")? {
        Some(encoded) if View::parse(&encoded).is_some() => encoded,
        Some(_) => return Err(LineError("properties_base64 is malformed".to_owned())),
        None => match fields.get("properties") {
            Some(Value::Object(object)) => properties_of(object)?.to_bytes(),
            None | Some(Value::Null) => Properties::default().to_bytes(),
            Some(Value::Array(list)) if list.is_empty() => Properties::default().to_bytes(),
            Some(_) => return Err(LineError("properties must be an object".to_owned())),
        },
    };
    Ok(Line { routing_key, properties, payload })
}

fn payload(fields: &mut Map<String, Value>) -> Result<Bytes, LineError> {
    if fields.get("payload_truncated") == Some(&Value::Bool(true)) {
        return Err(LineError("the payload is truncated".to_owned()));
    }
    let Some(Value::String(payload)) = fields.remove("payload") else {
        return Err(LineError("payload is missing or not a string".to_owned()));
    };
    match text(fields, "payload_encoding")? {
        None | Some("string") => Ok(payload.into()),
        Some("base64") => decoded("payload", &payload).map(Bytes::from),
        Some(other) => Err(LineError(format!("unsupported encoding: {other}"))),
    }
}

fn text<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<Option<&'f str>, LineError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(LineError(format!("{name} must be a string"))),
    }
}

fn in_base64(fields: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, LineError> {
    text(fields, name)?.map(|text| decoded(name, text)).transpose()
}

fn decoded(name: &str, text: &str) -> Result<Vec<u8>, LineError> {
    STANDARD.decode(text).map_err(|_| LineError(format!("{name} is not base64")))
}

/// A line as it is written once it was read, for fuzzers and tests.
///
/// # Errors
/// The reason why it is no message.
pub fn rewritten(line: &[u8]) -> Result<Vec<u8>, String> {
    let Line { routing_key, properties, payload } = parse_line(line).map_err(|error| error.0)?;
    let message = MessageRef {
        exchange: b"",
        routing_key: &routing_key,
        persistent: View::of(&properties).is_persistent(),
        properties: &properties,
        body: message::Body::Shared(&payload),
        annotations: message::Annotations::NONE,
        form: message::BodyForm::Plain,
    };
    Ok(written(&message))
}

fn written(message: &MessageRef<'_>) -> Vec<u8> {
    let mut fields = Map::new();
    put_exact(message, &mut fields);
    let mut line = Vec::new();
    let body = message.body.bytes();
    put_with_payload(&Value::Object(fields), std::str::from_utf8(body).ok(), body, &mut line);
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests;
