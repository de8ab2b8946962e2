//! Filters of links whose source is a stream: what of it they are given, and that nobody waits for them.

use crate::client::{Client, Kind, data_of, short, start, table, text};
use amqp10::{ValueRef, put_described, put_map};
use broker::Broker;
use message::{Annotations, Body, BodyForm, MessageRef, Properties};
use session::{Op, Value};
use std::sync::Arc;
use testing::MemoryDisk;

/// Codes of filters that have one.
const SQL: u64 = 0x120;
const PROPERTIES: u64 = 0x173;

/// Puts one filter of each name and value into a map: under a code, or by the name alone.
fn filters(asked: &[(&str, Option<u64>, ValueRef<'_>)]) -> Vec<u8> {
    let described: Vec<Vec<u8>> = asked
        .iter()
        .map(|(name, code, value)| {
            let mut out = Vec::new();
            match code {
                Some(code) => put_described(&mut out, *code),
                None => {
                    out.push(0);
                    ValueRef::Symbol(name).encode(&mut out);
                }
            }
            value.encode(&mut out);
            out
        })
        .collect();
    let mut map = Vec::new();
    put_map(&mut map, |items| {
        for ((name, ..), value) in asked.iter().zip(&described) {
            items.put(ValueRef::Symbol(name));
            items.put(ValueRef::decode(value).unwrap().0);
        }
    });
    map
}

fn sql(condition: &str) -> Vec<u8> {
    filters(&[
        ("rabbitmq:stream-offset-spec", None, ValueRef::Str("first")),
        ("sql-filter", Some(SQL), ValueRef::Str(condition)),
    ])
}

/// A client, and the stream `s` with messages of which each has its number as header `n` and as body.
fn stream(n_messages: u32) -> (Arc<Broker>, Client) {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare_with("s", true, &[("x-queue-type", text("stream"))]);
    for begin in (0..n_messages).step_by(500) {
        let bodies: Vec<String> =
            (begin..n_messages.min(begin + 500)).map(|n| n.to_string()).collect();
        let message = |body: &String| Properties {
            headers: Some(table(&[("n", Value::I64(body.parse().unwrap()))])),
            message_id: Some(short(&format!("m{body}"))),
            ..Properties::default()
        };
        let messages: Vec<_> = bodies.iter().map(|it| (message(it), &**it)).collect();
        client.publish_with("", "s", &messages);
    }
    (broker, client)
}

/// The number of the last message, out of its sections.
fn last(client: &Client) -> String {
    let last = client.last();
    assert_eq!(last.form, BodyForm::Amqp10);
    String::from_utf8_lossy(data_of(&last.body)).into_owned()
}

#[test]
fn a_link_begins_where_its_filter_says() {
    let (_broker, mut client) = stream(5);
    for (spec, n_there, first) in [
        (Some(ValueRef::Str("first")), 5, "0"),
        (Some(ValueRef::U64(3)), 2, "3"),
        (Some(ValueRef::Str("last")), 5, "0"),
        (Some(ValueRef::Timestamp(0)), 5, "0"),
        (Some(ValueRef::Str("1h")), 5, "0"),
        (Some(ValueRef::Str("next")), 0, ""),
        (None, 0, ""),
    ] {
        let asked: Vec<_> =
            spec.map(|spec| ("rabbitmq:stream-offset-spec", None, spec)).into_iter().collect();
        let link = client.consume_filtered("s", "c", filters(&asked));
        client.flow(link, 0, 1, "");
        assert_eq!(client.take_n_delivered(link), u32::from(n_there > 0), "{spec:?}");
        if n_there > 0 {
            assert_eq!(last(&client), first, "{spec:?}");
        }
        client.ask(Op::Detach { consumer_tag: short("c") });
    }
}

#[test]
fn sections_stay_as_they_are_stored_and_say_the_offset() {
    let (_broker, mut client) = stream(2);
    let properties = {
        let mut map = Vec::new();
        put_map(&mut map, |items| items.put_symbol("message-id", ValueRef::Str("m1")));
        map
    };
    let Ok((properties @ ValueRef::Map(_), _)) = ValueRef::decode(&properties) else {
        unreachable!("a map")
    };
    let link = client.consume_filtered(
        "s",
        "c",
        filters(&[
            ("rabbitmq:stream-offset-spec", None, ValueRef::Str("first")),
            ("p", Some(PROPERTIES), properties),
        ]),
    );
    assert_eq!(client.flow(link, 0, 10, "drain").last().unwrap(), "credit 10+0 of 0 drained");
    assert_eq!((client.take_n_delivered(link), last(&client)), (1, "1".to_owned()));
    let given = client.last();
    let message = MessageRef {
        exchange: &given.exchange,
        routing_key: &given.key,
        properties: &given.properties,
        body: Body::Borrowed(&given.body),
        persistent: given.persistent,
        annotations: Annotations::NONE,
        form: given.form,
    };
    let mut sent = Vec::new();
    conversion::to_amqp10(&message, conversion::DeliveryAttempt::FIRST, &mut sent);
    let parsed = amqp10::MessageRef::parse(&sent).unwrap();
    let annotation = |name| parsed.message_annotations.get(name);
    assert_eq!(annotation("x-stream-offset"), Some(ValueRef::I64(1)));
    assert_eq!(annotation("x-routing-key"), Some(ValueRef::Str("s")));
    let keys: Vec<_> =
        parsed.message_annotations.iter().map(|(key, _)| format!("{key:?}")).collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert_eq!(parsed.properties.unwrap().message_id, Some(ValueRef::Str("m1")));
}

#[test]
fn a_turn_that_is_used_up_by_what_passes_goes_on_with_further_credit() {
    let (_broker, mut client) = stream(5_000);
    let link = client.consume_filtered("s", "c", sql("n >= 0"));
    let (mut seen, mut n_idle) = (0, 0);
    while seen < 5_000 {
        client.flow(link, seen, 100, "");
        client.resume();
        let n = client.take_n_delivered(link);
        (seen, n_idle) = (seen + n, if n == 0 { n_idle + 1 } else { 0 });
        assert!(n_idle < 10, "all messages come: {seen}");
    }
}

#[test]
fn a_filter_is_evaluated_in_turns_and_answers_a_drain() {
    let (broker, mut client) = stream(5_000);
    let costly = format!("n >= 4998{}", " + 0 * n".repeat(20));
    let link = client.consume_filtered("s", "c", sql(&costly));
    client.flow(link, 0, 7, "drain");
    assert_eq!(client.take_n_delivered(link), 0, "others have their turn");
    let mut n_turns = 0;
    while client.credits().is_empty() {
        assert_eq!(client.flow(link, 0, 7, "drain"), [""; 0], "a flow gives no further turn");
        client.resume();
        n_turns += 1;
        assert!(n_turns < 1_000, "the drain is answered");
    }
    assert!(n_turns > 2, "{n_turns}");
    assert_eq!((client.take_n_delivered(link), last(&client)), (2, "4999".to_owned()));
    let counts = broker.view().queue("/", "s").unwrap().local_stat().counts;
    assert_eq!(counts.of(queue_type::Count::PassedOver), 4_998);
    client.publish("s", &["unnumbered"], Kind::Transient);
    client.flow(link, 7, 1, "");
    assert_eq!(client.resume(), [""; 0], "an unknown value is no match");
}
