//! Message annotations that say what AMQP 1.0 has no other place for, by their names.
//!
//! COMPAT: text that is not UTF-8, which AMQP 0-9-1 lets pass, has no place in AMQP 1.0's strings. RabbitMQ
//! stores it in one all the same; here it is binary, in an annotation of the same kind as `x-basic-type`.

use amqp10::{Items, MapRef, ValueRef};
use message::MessageRef;

pub(crate) const EXCHANGE: &str = "x-exchange";
pub(crate) const ROUTING_KEY: &str = "x-routing-key";
pub(crate) const CC: &str = "x-cc";
pub(crate) const DEATHS: &str = "x-opt-deaths";
pub(crate) const RECEIVED_TIME: &str = "x-opt-rabbitmq-received-time";
pub(crate) const SENT_TIME: &str = "x-opt-rabbitmq-sent-time";
pub(crate) const OFFSET: &str = "x-stream-offset";
pub(crate) const BASIC: &str = "x-basic-";
pub(crate) const APP_ID: &str = "x-basic-app-id";
pub(crate) const CONTENT_ENCODING: &str = "x-basic-content-encoding";
pub(crate) const CONTENT_TYPE: &str = "x-basic-content-type";
pub(crate) const CORRELATION_ID: &str = "x-basic-correlation-id";
pub(crate) const EXPIRATION: &str = "x-basic-expiration";
pub(crate) const MESSAGE_ID: &str = "x-basic-message-id";
pub(crate) const TIMESTAMP: &str = "x-basic-timestamp";
pub(crate) const TYPE: &str = "x-basic-type";

/// Envelope and properties, as far as annotations tell them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Annotated<'a> {
    pub(crate) exchange: Option<&'a [u8]>,
    pub(crate) routing_key: Option<&'a [u8]>,
    pub(crate) expiration: Option<&'a [u8]>,
    pub(crate) timestamp: Option<u64>,
    pub(crate) kind: Option<&'a [u8]>,
    pub(crate) other: Other<'a>,
    /// Whether other annotations are there, which perhaps become headers.
    pub(crate) has_headers: bool,
}

/// Properties that were not text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Other<'a> {
    pub(crate) content_type: Option<&'a [u8]>,
    pub(crate) content_encoding: Option<&'a [u8]>,
    pub(crate) correlation_id: Option<&'a [u8]>,
    pub(crate) message_id: Option<&'a [u8]>,
    pub(crate) app_id: Option<&'a [u8]>,
}

impl<'a> Annotated<'a> {
    pub(crate) fn read(annotations: MapRef<'a>) -> Self {
        let mut found = Self::default();
        for (key, value) in annotations.iter() {
            if let Some(name) = text(key) {
                found.take(name, value);
            }
        }
        found
    }

    /// Takes over one annotation; of several with one name the first counts.
    fn take(&mut self, name: &str, value: ValueRef<'a>) {
        let field = match name {
            EXCHANGE => &mut self.exchange,
            ROUTING_KEY => &mut self.routing_key,
            EXPIRATION => &mut self.expiration,
            TYPE => &mut self.kind,
            CONTENT_TYPE => &mut self.other.content_type,
            CONTENT_ENCODING => &mut self.other.content_encoding,
            CORRELATION_ID => &mut self.other.correlation_id,
            MESSAGE_ID => &mut self.other.message_id,
            APP_ID => &mut self.other.app_id,
            TIMESTAMP => {
                let ValueRef::U64(seconds) = value else { return };
                return self.timestamp = self.timestamp.or(Some(seconds));
            }
            _ => return self.has_headers = true,
        };
        *field = field.or_else(|| short(value));
    }
}

/// Puts in exchange and routing key.
pub(crate) fn put_envelope(items: &mut Items<'_>, message: &MessageRef<'_>) {
    put_text(items, EXCHANGE, message.exchange);
    put_text(items, ROUTING_KEY, message.routing_key);
}

/// Appends message annotations that are nothing but exchange, routing key and perhaps a stream's offset;
/// those of most messages in one go.
#[inline]
pub(crate) fn put_envelope_alone(message: &MessageRef<'_>, offset: Option<i64>, out: &mut Vec<u8>) {
    /// The bytes of the items beside exchange and routing key, and the count in front of them.
    const FIXED_BYTES: usize = 32;
    /// The most bytes of an offset and its name.
    const OFFSET_BYTES: usize = 26;
    /// The bytes up to that of the size.
    const SIZE_END: usize = 5;
    let (exchange, routing_key) = (message.exchange, message.routing_key);
    // Most names are short and ASCII, of which the check is no call.
    let is_text =
        [exchange, routing_key].iter().all(|it| it.is_ascii() || str::from_utf8(it).is_ok());
    let (n_items, offset_bytes) = if offset.is_some() { (6, OFFSET_BYTES) } else { (4, 0) };
    let begin = out.len();
    match u8::try_from(FIXED_BYTES + offset_bytes + exchange.len() + routing_key.len()) {
        Ok(size) if is_text => {
            let short = |text: &[u8]| u8::try_from(text.len()).unwrap_or(size);
            let mut first = *b"\x00\x53\x72\xc1\x00\x04\xa3\x0ax-exchange\xa1\x00";
            (first[4], first[5], first[19]) = (size, n_items, short(exchange));
            out.extend_from_slice(&first);
            out.extend_from_slice(exchange);
            let mut second = *b"\xa3\x0dx-routing-key\xa1\x00";
            second[16] = short(routing_key);
            out.extend_from_slice(&second);
            out.extend_from_slice(routing_key);
            if let Some(offset) = offset {
                out.extend_from_slice(b"\xa3\x0fx-stream-offset");
                ValueRef::I64(offset).encode(out);
                let n_bytes = u8::try_from(out.len() - begin - SIZE_END).unwrap_or(size);
                out.get_mut(begin + SIZE_END - 1).into_iter().for_each(|size| *size = n_bytes);
            }
        }
        _ => amqp10::put_message_annotations(out, |items| {
            put_envelope(items, message);
            offset.into_iter().for_each(|offset| items.put_symbol(OFFSET, ValueRef::I64(offset)));
        }),
    }
}

/// Puts in an annotation that is text as a rule.
pub(crate) fn put_text(items: &mut Items<'_>, name: &str, bytes: &[u8]) {
    items.put_symbol(name, str::from_utf8(bytes).map_or(ValueRef::Binary(bytes), ValueRef::Str));
}

/// The text that a value or a map's key is.
pub(crate) fn text(value: ValueRef<'_>) -> Option<&str> {
    if let ValueRef::Symbol(text) | ValueRef::Str(text) = value { Some(text) } else { None }
}

/// A value that is text or bytes, if it fits a short string of AMQP 0-9-1.
pub(crate) fn short(value: ValueRef<'_>) -> Option<&[u8]> {
    let bytes = if let ValueRef::Binary(bytes) = value { bytes } else { text(value)?.as_bytes() };
    (bytes.len() <= amqp091::ShortString::LEN_MAX).then_some(bytes)
}
