//! Publishers that name themselves and number their messages: what comes again is dropped and confirmed.

use super::{after_crash, declare, node};
use crate::client::{Client, Kind, set_policy, short, table, text, wait_until};
use broker::Broker;
use message::Properties;
use meta::PolicyScope;
use session::{Flag, Op, Outcome, Value};
use std::sync::Arc;

fn of(publisher: &str, id: i64) -> Properties {
    let headers = [("x-publisher-id", text(publisher)), ("x-publishing-id", Value::I64(id))];
    Properties { headers: Some(table(&headers)), ..Properties::default() }
}

fn confirming(broker: &Arc<Broker>) -> Client {
    let mut client = Client::connect(broker);
    client.ask(Op::EnableConfirms);
    client
}

/// Publishes messages of `p` with these ids, whose bodies are their ids.
fn put(client: &mut Client, ids: &[i64]) -> Vec<String> {
    put_as(client, "p", ids)
}

fn put_as(client: &mut Client, publisher: &str, ids: &[i64]) -> Vec<String> {
    let bodies: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let messages: Vec<_> =
        ids.iter().zip(&bodies).map(|(id, body)| (of(publisher, *id), body.as_str())).collect();
    client.publish_with("", "q", &messages)
}

fn all(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    while client.ask_ready("q") > 0 {
        all.push(client.get("q").concat().split(' ').nth(1).unwrap().to_owned());
        client.settle_newest(Outcome::Accepted);
    }
    all
}

#[test]
fn messages_that_come_again_are_dropped_and_confirmed() {
    let (disk, broker) = node();
    let mut client = confirming(&broker);
    declare(&mut client, "q", &[]);
    let heard = put(&mut client, &[1, 2, 3]);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=3"]);
    client.disconnect();
    let mut client = confirming(&broker);
    let heard = put(&mut client, &[2, 3, 4]);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=3"]);
    let mut heard = put_as(&mut client, "other", &[1]);
    heard.extend(client.publish("q", &["unnamed", "unnamed"], Kind::Persistent));
    wait_until("all are confirmed", || {
        heard.extend(client.heard());
        heard.iter().any(|it| it.ends_with("=6"))
    });
    let (_disk, broker) = after_crash(&disk);
    let mut client = confirming(&broker);
    let heard = put(&mut client, &[1, 4, 5]);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=3"]);
    assert_eq!(all(&mut client), ["1", "2", "3", "4", "1", "unnamed", "unnamed", "5"]);
    let heard = put(&mut client, &[5]);
    assert_eq!(client.wait_for(heard, 1), ["ack 4..=4"], "also once it was consumed");
    assert_eq!(client.ask_ready("q"), 0);
}

#[test]
fn refused_messages_may_come_again() {
    let (_disk, broker) = node();
    let mut client = confirming(&broker);
    let limit = [("x-max-length", Value::I64(1)), ("x-overflow", Value::from("reject-publish"))];
    declare(&mut client, "q", &limit);
    let heard = put(&mut client, &[1, 2]);
    let mut heard = client.wait_for(heard, 2);
    heard.sort();
    assert_eq!(heard, ["ack 1..=1", "nack 2..=2"]);
    assert_eq!(all(&mut client), ["1"]);
    let heard = put(&mut client, &[1, 2]);
    assert_eq!(client.wait_for(heard, 1), ["ack 3..=4"]);
    assert_eq!(all(&mut client), ["2"]);
}

/// The confirm of the copy waits for the consumer as that of the first does, also after a crash.
#[test]
fn a_copy_of_a_message_that_waits_for_its_consumer_waits_too() {
    let (disk, broker) = node();
    let mut client = confirming(&broker);
    declare(&mut client, "q", &[("x-confirm-on", Value::from("ack"))]);
    declare(&mut client, "plain", &[]);
    let mut first = confirming(&broker);
    put(&mut first, &[1, 2]);
    assert!(put(&mut client, &[1]).is_empty());
    assert_eq!(first.heard(), ["nack 1..=1"], "the copy is waited for instead");
    super::confirmed(&mut client, "plain", &["sync"], Kind::Persistent);
    let (_disk, broker) = after_crash(&disk);
    let mut client = confirming(&broker);
    assert!(put(&mut client, &[1, 2]).is_empty());
    let mut consumer = Client::connect(&broker);
    assert_eq!(consumer.consume("q", false), ["consuming", "deliver 1 again", "deliver 2 again"]);
    consumer.settle(1, Outcome::Accepted);
    assert_eq!(client.heard(), ["ack 1..=1"]);
    consumer.settle(1, Outcome::Rejected);
    assert_eq!(client.heard(), ["nack 2..=2"]);
    assert_eq!(put(&mut client, &[1, 2]), ["ack 3..=3"], "it was consumed");
    assert_eq!(consumer.heard(), ["deliver 2"], "it was not");
}

#[test]
fn publishers_that_published_longest_ago_are_forgotten() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[("x-max-publishers", Value::I64(2))]);
    for publisher in ["a", "b", "c", "b", "a"] {
        put_as(&mut client, publisher, &[1]);
    }
    assert_eq!(all(&mut client).len(), 4, "a was forgotten, and b was not");
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"max-publishers": 1}"#);
    put_as(&mut client, "a", &[1]);
    put_as(&mut client, "b", &[1]);
    assert_eq!(all(&mut client).len(), 1);
}

/// Each comes with a connection and a name of its own, publishes once, and goes.
#[test]
fn what_is_known_of_publishers_that_come_and_go_is_bounded() {
    const KNOWN: usize = 100;
    let (disk, broker) = node();
    let mut client = confirming(&broker);
    declare(&mut client, "q", &[("x-max-publishers", Value::I64(KNOWN as i64))]);
    let names: Vec<String> = (0..20 * KNOWN).map(|n| format!("publisher-{n:0200}")).collect();
    for name in &names {
        let mut publisher = Client::connect(&broker);
        put_as(&mut publisher, name, &[1]);
        publisher.disconnect();
        client.get("q");
        client.settle_newest(Outcome::Accepted);
    }
    super::confirmed(&mut client, "q", &["sync"], Kind::Persistent);
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    for name in names.iter().rev() {
        put_as(&mut client, name, &[1]);
    }
    assert_eq!(
        all(&mut client).len(),
        1 + names.len() - KNOWN,
        "the last are known, all others new"
    );
}

#[test]
fn queues_of_other_types_do_not_look_at_names() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    put(&mut client, &[1, 1, -1]);
    assert_eq!(all(&mut client), ["1", "1", "-1"]);
    client.ask(Op::DeleteQueue { queue: short("q"), if_unused: Flag::No, if_empty: Flag::No });
    client.declare_exchange("x", "headers", &[]);
    declare(&mut client, "q", &[]);
    client.bind("x", "q", "");
    for _ in 0..2 {
        client.publish_with("x", "", &[(of("p", 1), "1")]);
    }
    assert_eq!(all(&mut client), ["1"], "by whatever exchange");
}

#[test]
fn bad_names_and_numbers_are_refused() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    let long = "x".repeat(257);
    let cases = [
        (vec![("x-publisher-id", text("p"))], "'x-publishing-id' is missing"),
        (vec![("x-publishing-id", Value::I64(1))], "'x-publisher-id' is missing"),
        (of_values(Value::I32(1), Value::I32(1)), "'x-publisher-id' is signedint"),
        (of_values(text(""), Value::I32(1)), "'x-publisher-id' is 0 bytes"),
        (of_values(text(&long), Value::I32(1)), "'x-publisher-id' is 257 bytes"),
        (of_values(text("p"), text("1")), "'x-publishing-id' is longstr"),
        (of_values(text("p"), Value::I64(-1)), "'x-publishing-id' is -1"),
    ];
    for (headers, found) in cases {
        let mut client = Client::connect(&broker);
        let properties = Properties { headers: Some(table(&headers)), ..Properties::default() };
        let refused = client.publish_with("", "q", &[(properties, "m")]).concat();
        let text = format!("channel failed PreconditionFailed: invalid message: header {found}");
        assert!(refused.starts_with(&text), "{refused}");
    }
    assert_eq!(client.ask_ready("q"), 0);
}

fn of_values(publisher: Value, id: Value) -> Vec<(&'static str, Value)> {
    vec![("x-publisher-id", publisher), ("x-publishing-id", id)]
}
