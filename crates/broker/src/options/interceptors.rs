//! Headers that the broker writes into each message that is published or delivered, where an operator wants
//! it (<https://www.rabbitmq.com/docs/message-interceptors>).

use amqp091::{ShortString, Table, Value};
use bytes::Bytes;
use message::Properties;
use stdx::UnixMs;
use trace::{TRACEPARENT, TraceContext};

const TIMESTAMP: &str = "timestamp_in_ms";
const ROUTED_BY: &str = "x-routed-by";

/// The fate of a value that the publisher has set itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The publisher's value is replaced.
    Yes,
    /// The publisher's value stays.
    No,
}

/// Headers that are written into each message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interceptors {
    /// The time of publishing: the header `timestamp_in_ms`, and the property `timestamp` in seconds.
    pub timestamp: Option<Overwrite>,
    /// The header `x-routed-by`, with the node's name.
    pub routing_node: Option<Overwrite>,
    /// The time of delivery, in milliseconds: the header `x-opt-rabbitmq-sent-time`.
    pub sent_time: bool,
    /// The share of messages without a trace that begin one: the header `traceparent`, in 65536ths.
    pub new_traces: u32,
}

impl Interceptors {
    /// Whether any header is written as messages are published.
    pub const fn any_incoming(&self) -> bool {
        self.timestamp.is_some() || self.routing_node.is_some() || self.new_traces > 0
    }

    /// Whether a message begins a trace.
    pub(crate) fn begins_trace(&self, random: impl FnOnce() -> u64) -> bool {
        self.new_traces > 0 && random() % 65_536 < u64::from(self.new_traces)
    }

    /// Returns the properties with the headers written; `None` if the properties cannot be read.
    pub(crate) fn apply(
        &self,
        properties: &[u8],
        unix_ms: UnixMs,
        node: &str,
        trace: Option<TraceContext>,
    ) -> Option<Bytes> {
        let mut properties: Properties = message::View::of(properties).to_properties()?;
        let mut headers = properties.headers.take().unwrap_or_default();
        if let Some(overwrite) = self.timestamp {
            let in_ms = i64::try_from(unix_ms.get()).unwrap_or(i64::MAX);
            put(&mut headers, TIMESTAMP, Value::I64(in_ms), overwrite);
            if overwrite == Overwrite::Yes || properties.timestamp.is_none() {
                properties.timestamp = Some(unix_ms.get() / 1_000);
            }
        }
        if let Some(overwrite) = self.routing_node {
            put(&mut headers, ROUTED_BY, Value::LongString(node.as_bytes().to_vec()), overwrite);
        }
        if let Some(TraceContext { trace_id, span_id }) = trace {
            let text = format!("00-{trace_id:032x}-{span_id:016x}-01").into_bytes();
            put(&mut headers, TRACEPARENT, Value::LongString(text), Overwrite::No);
        }
        properties.headers = Some(headers);
        Some(Bytes::from(properties.to_bytes()))
    }
}

fn put(headers: &mut Table, name: &'static str, value: Value, overwrite: Overwrite) {
    if overwrite == Overwrite::Yes || headers.get(name.as_bytes()).is_none() {
        headers.insert(ShortString::from_static(name), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(interceptors: Interceptors, properties: &Properties) -> Properties {
        let bytes = interceptors
            .apply(&properties.to_bytes(), UnixMs::from_raw(5_999), "rabbit@box", None)
            .unwrap();
        amqp091::PropertiesRef::parse(&bytes).unwrap().to_owned().unwrap()
    }

    #[test]
    fn values_are_written_and_those_of_publishers_stay_unless_they_are_to_go() {
        let both = |overwrite| Interceptors {
            new_traces: 0,
            timestamp: Some(overwrite),
            routing_node: Some(overwrite),
            sent_time: false,
        };
        let node = Value::LongString(b"rabbit@box".to_vec());
        for overwrite in [Overwrite::Yes, Overwrite::No] {
            let plain = applied(both(overwrite), &Properties::default());
            let headers = plain.headers.unwrap();
            assert_eq!(plain.timestamp, Some(5));
            assert_eq!(headers.get(b"timestamp_in_ms"), Some(&Value::I64(5_999)));
            assert_eq!(headers.get(b"x-routed-by"), Some(&node));
        }
        let mut headers = Table::new();
        headers.push(ShortString::from_static("other"), 7);
        headers.push(ShortString::from_static("timestamp_in_ms"), 1i64);
        headers.push(ShortString::from_static("x-routed-by"), "me");
        let own = Properties { headers: Some(headers), timestamp: Some(1), ..Default::default() };
        assert_eq!(applied(both(Overwrite::No), &own), own);
        let replaced = applied(both(Overwrite::Yes), &own);
        let headers = replaced.headers.unwrap();
        assert_eq!((replaced.timestamp, headers.get(b"other")), (Some(5), Some(&Value::I32(7))));
        assert_eq!(headers.get(b"timestamp_in_ms"), Some(&Value::I64(5_999)));
        assert_eq!(headers.get(b"x-routed-by"), Some(&node));
        let nothing = applied(Interceptors::default(), &own);
        assert_eq!(nothing, own);
        assert!(!Interceptors::default().any_incoming() && both(Overwrite::No).any_incoming());
    }
}
