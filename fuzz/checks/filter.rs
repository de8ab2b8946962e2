//! What must hold for any filter of messages. Shared by the fuzz target and by an ordinary test of the crate, which
//! needs no fuzzer.

use amqp091::{Properties, ShortString, Table, Value};
use message::{Annotations, Body, BodyForm, MessageRef};
use routing::{Candidate, Filter};

fn properties() -> Vec<u8> {
    let entry = |name, value| (ShortString::from_static(name), value);
    let death: Table =
        [entry("queue", Value::from("q")), entry("count", Value::I64(2))].into_iter().collect();
    let headers: Table = [
        entry("a", Value::from("text")),
        entry("b", Value::I32(7)),
        entry("x-death", Value::Array(vec![Value::Table(death)])),
    ]
    .into_iter()
    .collect();
    let properties =
        Properties { headers: Some(headers), priority: Some(4), ..Properties::default() };
    properties.to_bytes()
}

/// The first line is a filter, what follows the body of a message. A filter is refused at one of its places, with
/// a reason, or can be asked: then it is not true together with its contrary, and heeds the body only if it says so.
pub(crate) fn filter(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (text, body) = input.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(
                (1..=text.chars().count() + 1).contains(&error.column) && !error.reason.is_empty()
            );
            return;
        }
    };
    let properties = properties();
    let message = MessageRef {
        exchange: b"ex",
        routing_key: b"a.b",
        properties: &properties,
        body: Body::Borrowed(b""),
        persistent: false,
        annotations: Annotations::NONE,
        form: BodyForm::Plain,
    };
    let matches = |filter: &Filter, body| {
        filter.matches(&Candidate { message: &message, body, redelivered: false })
    };
    let is_true = matches(&filter, Some(body));
    assert_eq!(matches(&filter, None), is_true && !filter.reads_body());
    if let Ok(contrary) = Filter::parse(&format!("NOT ({text})")) {
        assert!(!(is_true && matches(&contrary, Some(body))));
    }
}
