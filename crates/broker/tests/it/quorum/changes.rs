//! Messages that consumers settle with changes: annotations that stay with them, and a time to come again.

use super::{after_crash, confirmed, declare, node};
use crate::client::{Client, Kind, at, start, text, wait_until};
use amqp10::ValueRef;
use bytes::Bytes;
use message::BodyForm;
use proptest::prelude::*;
use session::{MessageChanges, Op, Outcome, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::UnixMs;
use testing::MemoryDisk;

fn changes(annotations: &[(&str, ValueRef<'_>)]) -> MessageChanges {
    let mut encoded = Vec::new();
    amqp10::put_map(&mut encoded, |items| {
        annotations.iter().for_each(|(key, value)| items.put_symbol(key, *value));
    });
    MessageChanges { annotations: Bytes::from(encoded), until_ms: None }
}

fn until(ms: u64) -> MessageChanges {
    MessageChanges { until_ms: Some(UnixMs::from_raw(ms)), ..MessageChanges::default() }
}

fn header(client: &Client, name: &str) -> Option<Value> {
    client.last_headers().get(name.as_bytes()).cloned()
}

#[test]
fn annotations_stay_with_a_message_and_later_values_replace_earlier_ones() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b"], Kind::Persistent);
    client.get("q");
    let first = changes(&[("x-one", ValueRef::Str("1")), ("x-two", ValueRef::U32(2))]);
    assert_eq!(client.modify_newest(Outcome::Modified, first), ["done"]);
    assert_eq!(client.get("q"), ["got a again left 1"]);
    assert_eq!(header(&client, "x-one"), Some(text("1")));
    assert_eq!(header(&client, "x-two"), Some(Value::U32(2)));
    assert_eq!(header(&client, "x-delivery-count"), Some(Value::I64(1)));
    let second = changes(&[("x-two", ValueRef::Bool(true)), ("x-exchange", ValueRef::Str("no"))]);
    client.modify_newest(Outcome::Released, second);
    client.ask(Op::EnableConfirms);
    confirmed(&mut client, "q", &["c"], Kind::Persistent);

    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("q"), ["got a again left 2"]);
    assert_eq!(header(&client, "x-one"), Some(text("1")));
    assert_eq!(header(&client, "x-two"), Some(Value::Bool(true)));
    assert_eq!(header(&client, "x-exchange"), None, "the broker's own");
    client.get("q");
    assert_eq!(header(&client, "x-one"), None, "of another message");
}

#[test]
fn sections_are_annotated_in_front_of_what_their_publisher_sent() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    let mut sections = Vec::new();
    amqp10::put_message_annotations(&mut sections, |items| {
        items.put_symbol("x-kept", ValueRef::Decimal32([1, 2, 3, 4]));
        items.put_symbol("x-mine", ValueRef::Str("the publisher's"));
    });
    let bare = sections.len();
    amqp10::Section::Data(b"body").encode(&mut sections);
    crate::forms::publish(&mut client, "", "q", &sections);
    client.get("q");
    let uuid = ValueRef::Uuid([7; 16]);
    client.modify_newest(Outcome::Released, changes(&[("x-mine", uuid)]));
    client.get("q");
    let last = client.last();
    assert_eq!(last.form, BodyForm::Amqp10);
    let (annotations, rest) = amqp10::split_message_annotations(&last.body);
    assert_eq!(rest, &sections[bare..]);
    let annotations: Vec<_> = annotations.iter().collect();
    let kept = (ValueRef::Symbol("x-kept"), ValueRef::Decimal32([1, 2, 3, 4]));
    assert_eq!(annotations, [kept, (ValueRef::Symbol("x-mine"), uuid)]);
}

#[test]
fn dead_letters_take_annotations_along() {
    let dead = [
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("dead")),
    ];
    let at_least_once = [
        ("x-dead-letter-strategy", Value::from("at-least-once")),
        ("x-overflow", Value::from("reject-publish")),
    ];
    for more in [&[][..], &at_least_once[..]] {
        let (_disk, broker) = node();
        let mut client = Client::connect(&broker);
        declare(&mut client, "dead", &[]);
        declare(&mut client, "q", &[&dead[..], more].concat());
        client.publish("q", &["a", "b"], Kind::Persistent);
        client.get("q");
        client.modify_newest(Outcome::Released, changes(&[("x-first", ValueRef::I32(1))]));
        client.get("q");
        client.modify_newest(Outcome::Rejected, changes(&[("x-why", ValueRef::Str("bad"))]));
        assert_eq!(client.get("q"), ["got b left 0"]);
        client.settle_newest(Outcome::Rejected);
        assert!(client.get_soon("dead").starts_with("got a left "));
        assert_eq!(header(&client, "x-first"), Some(Value::I32(1)));
        assert_eq!(header(&client, "x-why"), Some(text("bad")));
        assert_eq!(header(&client, "x-first-death-reason"), Some(text("rejected")));
        assert_eq!(client.get_soon("dead"), "got b left 0");
        assert_eq!(header(&client, "x-why"), None);
    }
}

#[test]
fn a_time_counts_for_more_than_the_queues_settings_unless_it_has_passed() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let retry =
        [("x-delayed-retry-type", Value::from("all")), ("x-delayed-retry-min", Value::I64(100))];
    declare(&mut client, "q", &[]);
    declare(&mut client, "r", &retry);
    for (queue, until_ms, early_ms, late_ms) in
        [("q", 5_000, 4_999, 5_000), ("r", 5_200, 5_199, 5_200)]
    {
        client.publish(queue, &["a"], Kind::Persistent);
        client.get(queue);
        client.modify_newest(Outcome::Modified, until(until_ms));
        at(&broker, early_ms);
        assert_eq!(client.get(queue), ["get empty"]);
        at(&broker, late_ms);
        assert_eq!(client.get_soon(queue), "got a again left 0");
        client.modify_newest(Outcome::Modified, until(1));
    }
    assert_eq!(client.get("q"), ["got a again left 0"], "at once");
    assert_eq!(client.get("r"), ["get empty"], "by its settings");
    at(&broker, 5_400);
    assert_eq!(client.get_soon("r"), "got a again left 0");
    client.modify_newest(Outcome::Released, until(u64::MAX));
    at(&broker, 1 << 50);
    assert_eq!(client.get("r"), ["get empty"]);
}

#[test]
fn classic_queues_drop_changes_and_do_the_rest() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.publish("q", &["a"], Kind::Persistent);
    client.get("q");
    let far =
        MessageChanges { until_ms: until(9_000).until_ms, ..changes(&[("x-a", ValueRef::Null)]) };
    client.modify_newest(Outcome::Modified, far);
    assert_eq!(client.get("q"), ["got a again left 0"]);
    assert_eq!(header(&client, "x-a"), None);
}

#[test]
fn annotations_beyond_the_limit_are_dropped_and_the_rest_is_done() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.publish("q", &["a"], Kind::Persistent);
    client.get("q");
    client.modify_newest(Outcome::Released, changes(&[("x-a", ValueRef::U8(1))]));
    for n_bytes in [3_000, 5_000] {
        client.get("q");
        let long = "x".repeat(n_bytes);
        client.modify_newest(Outcome::Released, changes(&[("x-b", ValueRef::Str(&long))]));
    }
    client.get("q");
    let long = "x".repeat(3_000);
    client.modify_newest(Outcome::Modified, changes(&[("x-c", ValueRef::Str(&long))]));
    client.get("q");
    assert_eq!(header(&client, "x-a"), Some(Value::U8(1)));
    assert_eq!(header(&client, "x-b"), Some(text(&long)), "the shorter one");
    assert_eq!(header(&client, "x-c"), None, "both are too long together");
    assert_eq!(header(&client, "x-delivery-count"), Some(Value::I64(1)));
    wait_until("both are counted", || broker.figures().n_annotations_dropped() == 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random settlements, with restarts in between: each message has what a map of maps says.
    #[test]
    fn annotations_are_those_of_a_naive_model(
        steps in prop::collection::vec((1..4_usize, prop::collection::vec((0..4_u8, any::<u8>()), 0..3), any::<bool>()), 1..30),
    ) {
        let names = ["x-a", "x-b", "x-c", "x-d"];
        let mut disk = Arc::new(MemoryDisk::new());
        let mut broker = start(&disk);
        let mut client = Client::connect(&broker);
        declare(&mut client, "q", &[]);
        client.publish("q", &["0", "1", "2", "3", "4"], Kind::Persistent);
        let mut model: BTreeMap<u8, BTreeMap<&str, u8>> = BTreeMap::new();
        for (n_held, added, restarts) in steps {
            let mut held = Vec::new();
            for _ in 0..n_held {
                client.get("q");
                let body = client.last().body[0];
                held.push(body);
                let expected = model.get(&body).cloned().unwrap_or_default();
                for name in names {
                    let value = expected.get(name).map(|it| Value::U8(*it));
                    prop_assert_eq!(header(&client, name), value);
                }
            }
            let entries: Vec<_> = added.iter().map(|(name, value)| (names[usize::from(*name)], ValueRef::U8(*value))).collect();
            client.modify_all(Outcome::Released, changes(&entries));
            for body in held {
                let of_message = model.entry(body).or_default();
                of_message.extend(added.iter().map(|(name, value)| (names[usize::from(*name)], *value)));
            }
            if restarts {
                client.disconnect();
                broker.stop().unwrap();
                (disk, broker) = after_crash(&disk);
                client = Client::connect(&broker);
            }
        }
    }
}
