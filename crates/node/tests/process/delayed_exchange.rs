//! Delayed messages, and those that are held for too long, as clients and operators see them.

use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{ChannelCloseOk, ExchangeDeclare, QueueBind};
use amqp091::{Properties, PropertiesRef, ShortString, Table, TableRef, Value};
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

/// Whatever kills the node, messages come in time, in order, from all bindings.
#[test]
fn delayed_messages_survive_crashes() {
    let mut node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    assert_eq!(declare(&mut client, "x", "topic"), "exchange.declare-ok");
    bind(&mut client, "q", "a.*");
    bind(&mut client, "other", "#");
    client.select_confirms();
    for (delay_ms, body) in [(3_600_000, "never"), (3_000, "third"), (1_000, "first")] {
        put(&mut client, "a.b", delay_ms, body);
    }
    put(&mut client, "a.b", "2000", "second");
    client.wait_for_confirms();
    assert_eq!(client.get("q"), None);
    let listed = node.ctl(&["-s", "list_delayed_messages", "x"]);
    let rows: Vec<Vec<&str>> = listed.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.len(), 4, "{listed}");
    assert_eq!(rows[3][2..], ["x", "a.b", "5", "true"]);
    node.ctl(&["cancel_delayed_message", "x", rows[3][0]]);
    node.kill_and_start();
    let mut client = Client::guest(node.address());
    client.consume("q", true);
    for (body, delay_ms) in [("first", -1_000), ("second", -2_000), ("third", -3_000)] {
        let message = client.message().unwrap();
        assert_eq!(message.body, body.as_bytes());
        assert_eq!(
            (message.exchange.as_slice(), message.routing_key.as_slice()),
            (&b"x"[..], &b"a.b"[..])
        );
        assert_eq!(delay_of(&message), Some(delay_ms));
    }
    wait_until("the third in the other queue", || {
        node.ctl(&["-s", "list_queues"]) == "other\t3\nq\t0\n"
    });
    assert_eq!(node.ctl(&["-s", "list_delayed_messages", "x"]).trim(), "");
    drop(client);
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
    for key in ["now", "later", "other", "other"] {
        put(&mut client, key, 3_600_000, key);
    }
    client.wait_for_confirms();
    let listed = |node: &Node| {
        let listed = node.ctl(&["-s", "list_delayed_messages", "x"]);
        let rows = listed.lines().map(|row| row.split('\t').map(str::to_owned).collect());
        rows.collect::<Vec<Vec<String>>>()
    };
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
    wait_until("the others have gone on", || node.ctl(&["-s", "list_queues"]) == "q\t3\n");
    let left = listed(&node);
    assert_eq!((left.len(), &*left[0][3]), (1, "later"), "{left:?}");
    let due = |row: &[String]| row[1].parse::<u64>().unwrap();
    assert!(due(&left[0]) > due(&before[0]) + 3_000_000, "{left:?}");
    let mut client = Client::guest(node.address());
    for key in ["now", "other", "other"] {
        let message = client.get("q").unwrap();
        assert_eq!((&*message.body, delay_of(&message)), (key.as_bytes(), Some(0)));
    }
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
