//! A message when it is dead-lettered: its headers, its keys, and where it may not go.
//!
//! Annotations say whether a message was dead-lettered before; without that, headers that say so come from a
//! client and count for nothing.

use amqp091::{ShortString, Table, Value};
use exchanges::Released;
use exchanges::sender_selected::{self, CC};
use message::MessageRef;
use queue::Reason;
use queue_type::DeadLetterTo;
use stdx::UnixMs;

const DEATHS: &[u8] = b"x-death";
const LAST: [&str; 3] = ["x-last-death-reason", "x-last-death-queue", "x-last-death-exchange"];
const FIRST: [&str; 3] = ["x-first-death-reason", "x-first-death-queue", "x-first-death-exchange"];

/// How a message died.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death<'a> {
    pub(super) queue: &'a str,
    pub(super) reason: Reason,
    pub(super) unix_ms: UnixMs,
}

/// The properties and keys of a dead letter, in place of those its message had.
#[derive(Debug)]
pub(super) struct DeadLetterEnvelope {
    pub(super) properties: Vec<u8>,
    /// The routing key, then those of CC.
    pub(super) keys: Vec<Vec<u8>>,
    /// Queue and reason of each death; none for a message that was only held back.
    deaths: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the message goes on as it was, instead of being dead-lettered.
    pub(super) is_released: bool,
}

impl DeadLetterEnvelope {
    pub(super) fn new(message: &MessageRef<'_>, death: &Death<'_>, to: &DeadLetterTo) -> Self {
        let view = message.index();
        // Properties that cannot be read are not from a client.
        let mut properties = view.to_properties().unwrap_or_default();
        let mut headers = properties.headers.take().unwrap_or_default();
        let before = deaths_before(message, &headers);
        let keys = keys_of(message, &headers, &before);
        let table = record(before, death, message, &keys, properties.expiration.take());
        note_first_and_last(&mut headers, message, death);
        headers.insert(ShortString::from_static("x-death"), Value::Array(table.clone()));
        properties.headers = Some(headers);
        let keys = to.routing_key.clone().map_or(keys, |key| vec![key]);
        Self { properties: properties.to_bytes(), keys, deaths: names(&table), is_released: false }
    }

    /// Makes the envelope of a message that a delaying exchange held back.
    pub(super) fn released(message: &MessageRef<'_>) -> Self {
        let Released { properties, keys } = Released::new(message.properties, message.routing_key);
        Self { properties, keys, deaths: Vec::new(), is_released: true }
    }

    /// Makes the envelope of a message that is sent on as it is, by its own key alone.
    pub(super) fn sent_on(message: &MessageRef<'_>) -> Self {
        let (properties, keys) = (message.properties.to_vec(), vec![message.routing_key.to_vec()]);
        Self { properties, keys, deaths: Vec::new(), is_released: true }
    }

    /// Whether the message came back to `queue` by itself: without a consumer that refused it
    /// since it was there last.
    pub(super) fn is_cycle(&self, queue: &str) -> bool {
        let since_refused = self
            .deaths
            .iter()
            .take_while(|(_, reason)| reason != Reason::Rejected.as_str().as_bytes());
        since_refused.into_iter().any(|(dead_in, _)| dead_in == queue.as_bytes())
    }
}

/// The deaths the broker has noted, newest first.
fn deaths_before(message: &MessageRef<'_>, headers: &Table) -> Vec<Value> {
    let noted = headers.get(DEATHS).and_then(Value::as_array);
    noted.filter(|_| message.annotations.dead_lettered).map(<[Value]>::to_vec).unwrap_or_default()
}

/// The keys a message is routed by: its own and those of CC, unless an earlier dead-lettering gave it
/// another.
fn keys_of(message: &MessageRef<'_>, headers: &Table, before: &[Value]) -> Vec<Vec<u8>> {
    let mut keys = vec![message.routing_key.to_vec()];
    let newest = before.first().and_then(Value::as_table);
    let keys_then = newest.and_then(|death| death.get(b"routing-keys")).and_then(Value::as_array);
    let key_then = keys_then.and_then(<[Value]>::first).and_then(Value::as_bytes);
    let was_given_another = key_then.is_some_and(|key| key != message.routing_key);
    if !was_given_another {
        sender_selected::add_keys(headers, &[CC], &mut keys);
    }
    keys
}

fn long(text: &[u8]) -> Value {
    Value::LongString(text.to_vec())
}

/// The deaths with this one: one entry per queue and reason, newest first.
fn record(
    mut deaths: Vec<Value>,
    death: &Death<'_>,
    message: &MessageRef<'_>,
    keys: &[Vec<u8>],
    expiration: Option<ShortString>,
) -> Vec<Value> {
    let is_same = |known: &Value| {
        let field = |name: &[u8]| known.as_table()?.get(name)?.as_bytes();
        field(b"queue") == Some(death.queue.as_bytes())
            && field(b"reason") == Some(death.reason.as_str().as_bytes())
    };
    if let Some(at) = deaths.iter().position(is_same) {
        let mut known = deaths.remove(at);
        if let Value::Table(table) = &mut known {
            let count = table.get(b"count").and_then(Value::as_i64).unwrap_or(0);
            table.insert(ShortString::from_static("count"), Value::I64(count.saturating_add(1)));
        }
        deaths.insert(0, known);
        return deaths;
    }
    let mut table = Table::new();
    let mut put = |name: &'static str, value| table.push(ShortString::from_static(name), value);
    if let Some(expiration) = expiration {
        put("original-expiration", long(expiration.as_bytes()));
    }
    put("count", Value::I64(1));
    put("reason", long(death.reason.as_str().as_bytes()));
    put("queue", long(death.queue.as_bytes()));
    put("time", Value::Timestamp(death.unix_ms.get() / 1_000));
    put("exchange", long(message.exchange));
    put("routing-keys", Value::Array(keys.iter().map(|key| long(key)).collect()));
    deaths.insert(0, Value::Table(table));
    deaths
}

fn note_first_and_last(headers: &mut Table, message: &MessageRef<'_>, death: &Death<'_>) {
    let values = [death.reason.as_str().as_bytes(), death.queue.as_bytes(), message.exchange];
    let mut set = |names: [&'static str; 3]| {
        for (name, value) in names.into_iter().zip(values) {
            headers.insert(ShortString::from_static(name), long(value));
        }
    };
    if !message.annotations.dead_lettered {
        set(FIRST);
    }
    set(LAST);
}

/// Queue and reason of each death.
fn names(deaths: &[Value]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let field =
        |death: &Value, name: &[u8]| Some(death.as_table()?.get(name)?.as_bytes()?.to_vec());
    let both = |death| Some((field(death, b"queue")?, field(death, b"reason")?));
    deaths.iter().filter_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Properties;
    use message::{Annotations, Body, BodyForm};

    fn message<'a>(properties: &'a [u8], exchange: &'a str, key: &'a str) -> MessageRef<'a> {
        MessageRef {
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            properties,
            body: Body::Borrowed(b"body"),
            persistent: true,
            annotations: Annotations::default(),
            form: BodyForm::Plain,
        }
    }

    fn again(redirected: &DeadLetterEnvelope) -> MessageRef<'_> {
        let annotations = Annotations { dead_lettered: true, ..Annotations::default() };
        MessageRef { annotations, ..message(&redirected.properties, "dlx", "key") }
    }

    fn death(queue: &str, reason: Reason) -> Death<'_> {
        Death { queue, reason, unix_ms: UnixMs::from_raw(5_999) }
    }

    fn to(routing_key: Option<&str>) -> DeadLetterTo {
        let routing_key = routing_key.map(|key| key.as_bytes().to_vec());
        DeadLetterTo { exchange: meta::Name::from("dlx"), routing_key }
    }

    fn text(table: &Table, name: &str) -> String {
        let bytes = table.get(name.as_bytes()).and_then(Value::as_bytes).expect("there");
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn headers(redirected: &DeadLetterEnvelope) -> Table {
        let headers = message::View::of(&redirected.properties).headers();
        headers.expect("some").to_owned().expect("valid")
    }

    fn with_headers(headers: Table) -> Vec<u8> {
        Properties {
            headers: Some(headers),
            expiration: Some(ShortString::from_static("100")),
            ..Properties::default()
        }
        .to_bytes()
    }

    /// The headers say what happened, and the expiration is gone.
    #[test]
    fn a_death_is_told_in_the_headers() {
        let mut own = Table::new();
        own.insert(ShortString::from_static("CC"), Value::Array(vec![long(b"copy")]));
        own.insert(ShortString::from_static("x-death"), long(b"a client's"));
        let properties = with_headers(own);
        let source = message(&properties, "x", "key");
        let first = DeadLetterEnvelope::new(&source, &death("q", Reason::Expired), &to(None));
        assert_eq!(first.keys, [b"key".to_vec(), b"copy".to_vec()]);
        let found = headers(&first);
        assert!(found.get(b"CC").is_some());
        assert!(message::View::of(&first.properties).expiration().is_none());
        let [newest] = found.get(DEATHS).and_then(Value::as_array).unwrap() else { panic!() };
        let newest = newest.as_table().unwrap();
        for (name, expected) in [
            ("reason", "expired"),
            ("queue", "q"),
            ("exchange", "x"),
            ("original-expiration", "100"),
        ] {
            assert_eq!(text(newest, name), expected);
        }
        assert_eq!(newest.get(b"count"), Some(&Value::I64(1)));
        assert_eq!(newest.get(b"time"), Some(&Value::Timestamp(5)));
        let keys = Value::Array(vec![long(b"key"), long(b"copy")]);
        assert_eq!(newest.get(b"routing-keys"), Some(&keys));
        for (name, expected) in FIRST.iter().chain(&LAST).zip(["expired", "q", "x"].repeat(2)) {
            assert_eq!(text(&found, name), expected);
        }
    }

    /// Counts rise by queue and reason, the newest stands first; only what the
    /// broker wrote counts.
    #[test]
    fn deaths_are_counted_by_queue_and_reason() {
        let none = Properties::default().to_bytes();
        let source = message(&none, "x", "key");
        let first = DeadLetterEnvelope::new(&source, &death("q", Reason::Rejected), &to(None));
        let second =
            DeadLetterEnvelope::new(&again(&first), &death("wait", Reason::Expired), &to(None));
        let third =
            DeadLetterEnvelope::new(&again(&second), &death("q", Reason::Rejected), &to(None));
        let found = headers(&third);
        let deaths = found.get(DEATHS).and_then(Value::as_array).unwrap();
        let shown: Vec<_> = deaths
            .iter()
            .map(|death| {
                let death = death.as_table().unwrap();
                (text(death, "queue"), death.get(b"count").and_then(Value::as_i64).unwrap())
            })
            .collect();
        assert_eq!(shown, [("q".to_owned(), 2), ("wait".to_owned(), 1)]);
        assert_eq!(text(&found, "x-first-death-queue"), "q");
        assert_eq!(text(&found, "x-last-death-exchange"), "dlx");
        let from_client = message(&third.properties, "x", "key");
        let anew = DeadLetterEnvelope::new(&from_client, &death("q", Reason::Rejected), &to(None));
        let found = headers(&anew);
        let [only] = found.get(DEATHS).and_then(Value::as_array).unwrap() else { panic!() };
        assert_eq!(only.as_table().unwrap().get(b"count"), Some(&Value::I64(1)));
    }

    #[test]
    fn a_cycle_is_one_without_a_reject() {
        let none = Properties::default().to_bytes();
        let source = message(&none, "x", "key");
        let expired = DeadLetterEnvelope::new(&source, &death("a", Reason::Expired), &to(None));
        assert!(expired.is_cycle("a") && !expired.is_cycle("b"));
        let back =
            DeadLetterEnvelope::new(&again(&expired), &death("b", Reason::MaxLen), &to(None));
        assert!(back.is_cycle("a") && back.is_cycle("b"));
        let refused =
            DeadLetterEnvelope::new(&again(&expired), &death("b", Reason::Rejected), &to(None));
        assert!(!refused.is_cycle("a") && !refused.is_cycle("b"));
        let later =
            DeadLetterEnvelope::new(&again(&refused), &death("c", Reason::Expired), &to(None));
        assert!(later.is_cycle("c") && !later.is_cycle("a"));
    }

    /// A key of the queue's takes the place of all others; the next death names it.
    #[test]
    fn a_given_key_takes_the_place_of_all() {
        let mut own = Table::new();
        own.insert(ShortString::from_static("CC"), Value::Array(vec![long(b"copy")]));
        let properties = with_headers(own);
        let source = message(&properties, "x", "original");
        let first = DeadLetterEnvelope::new(&source, &death("q", Reason::MaxLen), &to(Some("key")));
        assert_eq!(first.keys, [b"key".to_vec()]);
        let second =
            DeadLetterEnvelope::new(&again(&first), &death("r", Reason::MaxLen), &to(None));
        assert_eq!(second.keys, [b"key".to_vec()]);
    }
}
