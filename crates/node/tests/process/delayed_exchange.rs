//! Delayed messages, and those that are held for too long, as clients and operators see them.

use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{ChannelCloseOk, ExchangeDeclare, QueueBind};
use amqp091::{Properties, PropertiesRef, ShortString, Table, TableRef, Value};
use std::collections::BTreeSet;
use testing::client::{Client, Message};

fn table(entries: &[(&'static str, Value)]) -> Table {
    let entry =
        |(name, value): &(&'static str, Value)| (ShortString::from_static(name), value.clone());
    entries.iter().map(entry).collect()
}

/// An exchange that delays and routes as `kind`.
fn declare(client: &mut Client, exchange: &str, kind: &str) -> String {
    let arguments = table(&[("x-delayed-type", kind.into())]).to_bytes();
    let declare = ExchangeDeclare {
        exchange: exchange.as_bytes(),
        kind: b"x-delayed-message",
        durable: true,
        arguments: TableRef::trusted(&arguments),
        ..ExchangeDeclare::default()
    };
    client.ask(1, declare)
}

fn bind(client: &mut Client, queue: &str, key: &str) {
    client.declare(queue);
    let (queue, routing_key) = (queue.as_bytes(), key.as_bytes());
    let bind = QueueBind { queue, exchange: b"x", routing_key, ..QueueBind::default() };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
}

fn put(client: &mut Client, key: &str, delay_ms: impl Into<Value>, body: &str) {
    let properties = Properties {
        delivery_mode: Some(2),
        headers: Some(table(&[("x-delay", delay_ms.into())])),
        ..Properties::default()
    };
    client.put_message("x", key, &properties, body.as_bytes());
}

fn delay_of(message: &Message) -> Option<i64> {
    let headers = PropertiesRef::parse(&message.properties).unwrap().headers()?;
    headers.get(b"x-delay")?.as_i64()
}

/// The delayed messages of the exchange, a row each.
fn listed(node: &Node) -> Vec<Vec<String>> {
    let listed = node.ctl(&["-s", "list_delayed_messages", "x"]);
    listed.lines().map(|row| row.split('\t').map(str::to_owned).collect()).collect()
}

/// Consumes until each of these messages has come, with its delay: the first time of each in this order. One
/// whose removal from the exchange's queue was not synced when the node was killed comes once more.
fn expect_each(node: &Node, queue: &str, key: &str, expected: &[(&str, i64)]) {
    let mut client = Client::guest(node.address());
    client.consume(queue, true);
    let (mut first, mut again) = (Vec::new(), BTreeSet::new());
    while first.len() < expected.len() {
        let message = client.message().unwrap();
        let body = String::from_utf8(message.body.clone()).unwrap();
        let came = (&*message.exchange, &*message.routing_key, delay_of(&message));
        let delay_ms = expected.iter().find(|it| it.0 == body).map(|it| it.1);
        let key = if key.is_empty() { body.split(' ').next().unwrap() } else { key };
        assert_eq!(came, (&b"x"[..], key.as_bytes(), delay_ms), "{body}");
        if first.contains(&body) {
            assert!(again.insert(body), "a message comes twice at most: {again:?}");
        } else {
            first.push(body);
        }
    }
    assert!(first.iter().eq(expected.iter().map(|it| it.0)), "{first:?}");
}

/// Whatever kills the node, messages come in time, in order, from all bindings.
#[test]
fn delayed_messages_survive_crashes() {
    let mut node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    assert_eq!(declare(&mut client, "x", "topic"), "exchange.declare-ok");
    bind(&mut client, "q", "a.*");
    bind(&mut client, "other", "#");
    client.select_confirms();
    for (delay_ms, body) in [(7_200_000, "later"), (3_600_000, "never")] {
        put(&mut client, "a.b", delay_ms, body);
    }
    client.wait_for_confirms();
    assert_eq!(client.get("q"), None);
    let rows = listed(&node);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row[2..] == ["x", "a.b", "5", "true"]), "{rows:?}");
    node.ctl(&["cancel_delayed_message", "x", &rows[0][0]]);
    for (delay_ms, body) in [(3_000, "third"), (1_000, "first")] {
        put(&mut client, "a.b", delay_ms, body);
    }
    put(&mut client, "a.b", "2000", "second");
    client.wait_for_confirms();
    node.kill_and_start();
    for queue in ["q", "other"] {
        let expected = [("first", -1_000), ("second", -2_000), ("third", -3_000)];
        expect_each(&node, queue, "a.b", &expected);
    }
    wait_until("they are gone from the exchange", || listed(&node) == rows[1..]);
    node.end_well();
}

/// Those that are to go on now do, the other waits, and both survive what kills the node.
#[test]
fn delayed_messages_go_on_when_an_operator_says_so() {
    let mut node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    assert_eq!(declare(&mut client, "x", "topic"), "exchange.declare-ok");
    bind(&mut client, "q", "#");
    client.select_confirms();
    for body in ["now", "later", "other 1", "other 2"] {
        put(&mut client, body.split(' ').next().unwrap(), 3_600_000, body);
    }
    client.wait_for_confirms();
    let before = listed(&node);
    let id = |key: &str| before.iter().find(|row| row[3] == key).unwrap()[0].clone();
    node.ctl(&["reschedule_delayed_message", "x", &id("now")]);
    wait_until("it has gone on", || node.ctl(&["-s", "list_queues"]) == "q\t1\n");
    let far = "7200000";
    node.ctl(&["reschedule_delayed_message", "x", &id("later"), "--delay-ms", far]);
    let filter = "routing_key = 'other'";
    let said = node.ctl(&["-s", "reschedule_delayed_messages", "x", "--filter", filter]);
    assert_eq!(said.trim(), "Rescheduled 2 messages");
    node.kill_and_start();
    expect_each(&node, "q", "", &[("now", 0), ("other 1", 0), ("other 2", 0)]);
    wait_until("the others have gone on", || listed(&node).len() == 1);
    let left = listed(&node);
    assert_eq!(left[0][3], "later", "{left:?}");
    let due = |row: &[String]| row[1].parse::<u64>().unwrap();
    assert!(due(&left[0]) > due(&before[0]) + 3_000_000, "{left:?}");
    node.stop();
}

#[test]
fn a_client_that_never_acknowledges_loses_its_channel() {
    let node = Node::start(&["consumer_timeout=1000"]);
    let mut client = Client::guest(node.address());
    client.declare("q");
    client.put_publish("q", true, b"held");
    client.consume("q", false);
    assert_eq!(client.message().unwrap().body, b"held");
    assert_eq!(
        client.next().show(),
        "channel.close 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. \
         Timeout value used: 1000 ms. This timeout value can be configured, see consumers doc guide \
         to learn more"
    );
    client.say(1, ChannelCloseOk {});
    client.open_channel(1);
    assert!(client.get("q").unwrap().redelivered);
    client.close();
    node.stop();
}

#[test]
fn an_exchange_that_cannot_delay_is_refused() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    let refused = declare(&mut client, &"x".repeat(244), "direct");
    assert!(
        refused.starts_with("channel.close 406 PRECONDITION_FAILED - the name of an exchange"),
        "{refused}"
    );
    client.open_channel(2);
    drop(client);
    node.stop();
}
