//! The forms in which copies of messages are written down: the tracing plugin's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use message::MessageRef;
use meta::definitions::table_to_json;
use serde_json::{Value as Json, json};
use session::{Table, Value};
use std::fmt::Write as _;
use stdx::{Civil, Date};

/// A form of a trace's lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// An object for each message; text for people else.
    pub(super) is_json: bool,
    /// The bytes of a body that are written down.
    pub(super) payload_bytes_max: usize,
}

/// A copy of a message, as the firehose makes it.
struct Traced<'t> {
    headers: &'t Table,
    /// The queue that it was delivered from; none if it was published.
    queue: Option<String>,
    payload: &'t [u8],
    time: String,
}

impl Form {
    /// Writes down a copy of a message.
    pub(super) fn write(self, copy: &MessageRef<'_>, unix_ms: u64, out: &mut Vec<u8>) {
        let headers = copy.index().to_properties().and_then(|it| it.headers).unwrap_or_default();
        let body = copy.body.bytes();
        let queue = copy.routing_key.strip_prefix(b"deliver.");
        let traced = Traced {
            headers: &headers,
            queue: queue.map(|it| String::from_utf8_lossy(it).into_owned()),
            payload: body.get(..self.payload_bytes_max).unwrap_or(body),
            time: time(unix_ms),
        };
        if self.is_json {
            out.extend_from_slice(traced.json().to_string().as_bytes());
        } else {
            out.extend_from_slice(traced.text().as_bytes());
            out.extend_from_slice(traced.payload);
        }
        out.push(b'\n');
    }
}

impl Traced<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.headers.get(name.as_bytes())
    }

    fn word(&self, name: &str) -> &str {
        self.value(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn words(&self, name: &str) -> Vec<&str> {
        let values = self.value(name).and_then(Value::as_array).unwrap_or_default();
        values.iter().filter_map(Value::as_str).collect()
    }

    const fn kind(&self) -> &'static str {
        if self.queue.is_some() { "received" } else { "published" }
    }

    fn channel(&self) -> i64 {
        self.value("channel").and_then(Value::as_i64).unwrap_or_default()
    }

    /// COMPAT: what a kind has not is `none`.
    fn json(&self) -> Json {
        let properties = match self.value("properties") {
            Some(Value::Table(table)) => table_to_json(table),
            _ => json!({}),
        };
        let routed = self.queue.is_none().then(|| json!(self.words("routed_queues")));
        json!({
            "timestamp": self.time,
            "type": self.kind(),
            "node": self.word("node"),
            "connection": self.word("connection"),
            "vhost": self.word("vhost"),
            "user": self.word("user"),
            "channel": self.channel(),
            "exchange": self.word("exchange_name"),
            "queue": self.queue.as_deref().unwrap_or("none"),
            "routed_queues": routed.unwrap_or_else(|| json!("none")),
            "routing_keys": self.words("routing_keys"),
            "properties": properties,
            "payload": STANDARD.encode(self.payload),
        })
    }

    /// All but the payload. COMPAT: lists are written as Erlang writes them.
    fn text(&self) -> String {
        let mut text = format!("\n{}\n{}: Message {}\n\n", "=".repeat(80), self.time, self.kind());
        let mut line = |name: &str, value: &str| {
            // Writing to a string never fails.
            let _ok = writeln!(text, "{name:<13} {value}");
        };
        line("Node:", self.word("node"));
        line("Connection:", self.word("connection"));
        line("Virtual host:", self.word("vhost"));
        line("User:", self.word("user"));
        line("Channel:", &self.channel().to_string());
        line("Exchange:", self.word("exchange_name"));
        line("Routing keys:", &self.term("routing_keys"));
        match &self.queue {
            Some(queue) => line("Queue:", queue),
            None => line("Routed queues:", &self.term("routed_queues")),
        }
        line("Properties:", &self.term("properties"));
        text + "Payload: \n"
    }

    fn term(&self, name: &str) -> String {
        self.value(name).map_or_else(|| "[]".to_owned(), term)
    }
}

/// The time as `2026-11-26 5:12:33:045`, in UTC. COMPAT: RabbitMQ's form.
fn time(unix_ms: u64) -> String {
    let Civil { date: Date { year, month, day }, time: (hour, minute, second) } =
        Civil::at(unix_ms / 1_000);
    let millis = unix_ms % 1_000;
    format!("{year}-{month:02}-{day:02} {hour}:{minute:02}:{second:02}:{millis:03}")
}

/// A value as a term of Erlang.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are integers")]
fn term(value: &Value) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    match value {
        Value::Array(items) => list(items.iter().map(term).collect()),
        Value::Table(table) => list(
            table
                .iter()
                .map(|(name, value)| {
                    let (name, kind) = (binary(name.as_bytes()), value.type_name());
                    format!("{{{name},{kind},{}}}", term(value))
                })
                .collect(),
        ),
        Value::LongString(bytes) | Value::Bytes(bytes) => binary(bytes),
        Value::Bool(flag) => flag.to_string(),
        Value::Void => "undefined".to_owned(),
        Value::Timestamp(seconds) => seconds.to_string(),
        Value::Decimal(decimal) => format!("{{{},{}}}", decimal.scale, decimal.value),
        Value::F32(_) | Value::F64(_) => format!("{:?}", value.as_f64().unwrap_or_default()),
        _ => value.as_i64().unwrap_or_default().to_string(),
    }
}

/// `<<"text">>`, or its bytes as numbers.
fn binary(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            let encoding = if text.is_ascii() { "" } else { "/utf8" };
            format!("<<\"{}\"{encoding}>>", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        _ => {
            let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
            format!("<<{}>>", numbers.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::ShortString;

    #[test]
    fn values_are_written_as_terms() {
        let mut table = Table::new();
        let mut put = |name, value| table.push(ShortString::from_static(name), value);
        put("a", Value::I32(-3));
        put("b", Value::Array(vec![Value::LongString(b"say \"hi\"".to_vec()), Value::F64(1.5)]));
        put("c", Value::LongString(vec![0xff, 1]));
        put("d", Value::Table(Table::new()));
        put("e", Value::LongString("\u{fc}".into()));
        assert_eq!(
            term(&Value::Table(table)),
            "[{<<\"a\">>,signedint,-3},{<<\"b\">>,array,[<<\"say \\\"hi\\\"\">>,1.5]},\
             {<<\"c\">>,longstr,<<255,1>>},{<<\"d\">>,table,[]},{<<\"e\">>,longstr,<<\"\u{fc}\"/utf8>>}]"
        );
        assert_eq!(time(1_795_669_953_045), "2026-11-26 5:12:33:045");
    }
}
