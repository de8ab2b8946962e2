//! Queues of one node of a cluster, used by clients of the others.

use super::member::Member;
use super::three;
use crate::support::wait_until;
use amqp091::Method;
use amqp091::method::{
    BasicAck, BasicCancel, BasicConsume, BasicNack, BasicQos, BasicRecover, QueueBind,
    QueueDeclare, QueueDelete, QueuePurge, TxCommit, TxSelect,
};
use amqp091::{Properties, ShortString, Table, Value};
use testing::client::Client;

/// The deliveries of a client's next messages: their bodies, each with a star if it came before.
fn bodies(client: &mut Client, n: usize) -> Vec<String> {
    let mut next = || {
        let message = client.message().expect("a message");
        let star = if message.redelivered { "*" } else { "" };
        format!("{}{star}", String::from_utf8(message.body).unwrap())
    };
    (0..n).map(|_| next()).collect()
}

/// Publishes messages to a queue, which are confirmed.
fn publish(node: &Member, queue: &str, bodies: &[&str]) {
    let mut client = node.client();
    client.select_confirms();
    bodies.iter().for_each(|body| client.put_publish(queue, true, body.as_bytes()));
    client.wait_for_confirms();
    client.close();
}

fn consume(queue: &str) -> BasicConsume<'_> {
    BasicConsume { queue: queue.as_bytes(), consumer_tag: b"tag", ..BasicConsume::default() }
}

fn ack(client: &mut Client, delivery_tag: u64, multiple: bool) {
    client.say(1, BasicAck { delivery_tag, multiple });
    client.flush();
}

/// The number of messages that a node says are ready in a queue.
fn n_ready(node: &Member, queue: &str) -> u32 {
    let mut client = node.client();
    let queue = queue.as_bytes();
    client.say(1, QueueDeclare { queue, passive: true, ..QueueDeclare::default() });
    client.flush();
    let answer = client.next();
    let Method::QueueDeclareOk(told) = answer.method() else { panic!("{}", answer.show()) };
    client.close();
    told.message_count
}

#[test]
fn a_queue_is_used_from_every_node() {
    let [a, b, c] = three(&[]);
    b.client().declare("far");
    publish(&a, "far", &["one", "two", "three", "four"]);
    assert_eq!([&a, &b, &c].map(|node| n_ready(node, "far")), [4, 4, 4]);
    let mut client = c.client();
    let two = BasicQos { prefetch_count: 2, ..BasicQos::default() };
    assert_eq!(client.ask(1, two), "basic.qos-ok");
    client.consume("far", false);
    assert_eq!(bodies(&mut client, 2), ["one", "two"]);
    ack(&mut client, 1, false);
    assert_eq!(bodies(&mut client, 1), ["three"]);
    // What a client leaves comes back, and goes to others.
    client.close();
    let mut client = a.client();
    assert_eq!(client.ask(1, consume("far")), "basic.consume-ok");
    assert_eq!(bodies(&mut client, 3), ["two*", "three*", "four"]);
    client.say(1, BasicNack { delivery_tag: 1, multiple: false, requeue: true });
    client.flush();
    assert_eq!(bodies(&mut client, 1), ["two*"]);
    ack(&mut client, 4, true);
    assert_eq!(
        client.ask(1, BasicCancel { consumer_tag: b"tag", no_wait: false }),
        "basic.cancel-ok"
    );
    wait_until("all is acknowledged", || n_ready(&b, "far") == 0);
    assert!(client.get("far").is_none());
    publish(&c, "far", &["five", "six"]);
    assert_eq!(client.get("far").unwrap().body, b"five");
    let got = client.get_to_ack("far").unwrap();
    assert_eq!((got.body.as_slice(), got.redelivered), (&b"six"[..], false));
    assert_eq!(client.ask(1, BasicRecover { requeue: true }), "basic.recover-ok");
    let got = client.get_to_ack("far").unwrap();
    assert_eq!((got.body.as_slice(), got.redelivered), (&b"six"[..], true));
    ack(&mut client, got.tag, false);
    publish(&a, "far", &["seven"]);
    let purge = QueuePurge { queue: b"far", ..QueuePurge::default() };
    assert_eq!(client.ask(1, purge), "queue.purge-ok");
    publish(&a, "far", &["eight"]);
    let delete = QueueDelete { queue: b"far", if_empty: true, ..QueueDelete::default() };
    let told = client.ask(1, delete);
    assert!(told.starts_with("channel.close 406 PRECONDITION_FAILED"), "{told}");
    let delete = QueueDelete { queue: b"far", ..QueueDelete::default() };
    assert_eq!(c.client().ask(1, delete), "queue.delete-ok");
    assert!(b.list(&["list_queues", "name"]).is_empty());
}

#[test]
fn messages_without_acknowledgement_pass_in_order() {
    let [a, b, c] = three(&[]);
    b.client().declare("far");
    let mut client = c.client();
    client.consume("far", true);
    let mut publisher = a.client();
    publisher.select_confirms();
    let large = vec![b'x'; 700_000];
    for n in 0..2_000_u32 {
        publisher.put_publish("far", n % 2 == 0, &n.to_le_bytes());
    }
    publisher.put_publish("far", true, &large);
    publisher.wait_for_confirms();
    for n in 0..2_000_u32 {
        assert_eq!(client.message().unwrap().body, n.to_le_bytes());
    }
    assert_eq!(client.message().unwrap().body, large);
    wait_until("all is settled", || n_ready(&b, "far") == 0);
}

#[test]
fn a_deleted_queue_and_its_node_end_consumers_of_other_nodes() {
    let [a, mut b, c] = three(&[]);
    ["far", "gone"].iter().for_each(|queue| {
        b.client().declare(queue);
    });
    let mut client = a.client();
    assert_eq!(client.ask(1, consume("gone")), "basic.consume-ok");
    c.client().ask(1, QueueDelete { queue: b"gone", ..QueueDelete::default() });
    let told = client.next();
    assert!(matches!(told.method(), Method::BasicCancel(_)), "{}", told.show());
    publish(&a, "far", &["kept"]);
    assert_eq!(client.ask(1, consume("far")), "basic.consume-ok");
    assert_eq!(bodies(&mut client, 1), ["kept"]);
    b.kill();
    let told = client.next();
    assert!(matches!(told.method(), Method::BasicCancel(_)), "{}", told.show());
    let mut publisher = c.client();
    publisher.select_confirms();
    publisher.put_publish("far", true, b"lost");
    publisher.flush();
    let answer = publisher.next();
    assert!(matches!(answer.method(), Method::BasicNack(_)), "{}", answer.show());
    let down = format!(
        "channel.close 404 NOT_FOUND - home node '{}' of durable queue 'far' in vhost '/' is down or \
         inaccessible",
        b.name
    );
    let declare = QueueDeclare { queue: b"far", durable: true, ..QueueDeclare::default() };
    assert_eq!(publisher.ask(1, declare), down);
    assert_eq!(a.client().ask(1, consume("far")), down);
    b.start_again();
    wait_until("the queue is reached again", || {
        let mut client = c.client();
        client.ask(1, consume("far")) == "basic.consume-ok"
    });
    let mut client = c.client();
    client.consume("far", false);
    assert_eq!(bodies(&mut client, 1), ["kept*"]);
}

#[test]
fn a_node_that_is_killed_leaves_what_its_clients_hold() {
    let [mut a, b, c] = three(&[]);
    b.client().declare("far");
    publish(&b, "far", &["held"]);
    let mut client = a.client();
    client.consume("far", false);
    assert_eq!(bodies(&mut client, 1), ["held"]);
    let mut other = c.client();
    other.consume("far", false);
    a.kill();
    assert_eq!(bodies(&mut other, 1), ["held*"]);
}

#[test]
fn transactions_and_dead_letters_reach_queues_of_other_nodes() {
    let [a, b, c] = three(&[]);
    b.client().declare("far");
    let mut client = a.client();
    assert_eq!(client.ask(1, TxSelect {}), "tx.select-ok");
    client.put_publish("far", true, b"whole");
    client.flush();
    assert_eq!(n_ready(&c, "far"), 0);
    assert_eq!(client.ask(1, TxCommit {}), "tx.commit-ok");
    assert_eq!(n_ready(&c, "far"), 1);
    let arguments = [
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("far")),
    ];
    let arguments = arguments.map(|(name, value)| (ShortString::from_static(name), value));
    let arguments = Table::from_iter(arguments).to_bytes();
    let declare = QueueDeclare {
        queue: b"dying",
        durable: true,
        arguments: amqp091::TableRef::parse(&arguments).unwrap(),
        ..QueueDeclare::default()
    };
    assert_eq!(a.client().ask(1, declare), "queue.declare-ok");
    publish(&c, "dying", &["letter"]);
    let mut client = c.client();
    client.consume("dying", false);
    assert_eq!(bodies(&mut client, 1), ["letter"]);
    client.say(1, BasicNack { delivery_tag: 1, multiple: false, requeue: false });
    client.flush();
    wait_until("the letter has arrived", || n_ready(&b, "far") == 2);
    let mut client = b.client();
    client.consume("far", true);
    assert_eq!(bodies(&mut client, 2), ["whole", "letter"]);
    wait_until("the letter has left", || n_ready(&a, "dying") == 0);
}

#[test]
fn a_fanout_reaches_queues_of_all_nodes_with_one_confirm() {
    let nodes = three(&[]);
    nodes[0].client().ask(1, super::member::exchange("all"));
    for (node, queue) in nodes.iter().zip(["at a", "at b", "at c"]) {
        let mut client = node.client();
        client.declare(queue);
        let bind = QueueBind { queue: queue.as_bytes(), exchange: b"all", ..QueueBind::default() };
        assert_eq!(client.ask(1, bind), "queue.bind-ok");
    }
    let mut client = nodes[1].client();
    client.select_confirms();
    (0..100_u8).for_each(|n| client.put_content("all", "", 2, &[n]));
    client.wait_for_confirms();
    for queue in ["at a", "at b", "at c"] {
        assert_eq!(n_ready(&nodes[2], queue), 100);
    }
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer_on_another_node() {
    let [a, b, c] = three(&[]);
    let declare = QueueDeclare { queue: b"brief", auto_delete: true, ..QueueDeclare::default() };
    assert_eq!(b.client().ask(1, declare), "queue.declare-ok");
    let mut client = a.client();
    assert_eq!(client.ask(1, consume("brief")), "basic.consume-ok");
    assert_eq!(
        client.ask(1, BasicCancel { consumer_tag: b"tag", no_wait: false }),
        "basic.cancel-ok"
    );
    let look = QueueDeclare { queue: b"brief", passive: true, ..QueueDeclare::default() };
    let told = client.ask(1, look);
    assert!(told.starts_with("channel.close 404 NOT_FOUND - no queue 'brief'"), "{told}");
    assert!(c.list(&["list_queues", "name"]).is_empty());
}

#[test]
fn direct_replies_find_their_client_on_another_node() {
    let [a, b, _c] = three(&[]);
    let mut asker = a.client();
    let replies = BasicConsume { no_ack: true, ..consume("amq.rabbitmq.reply-to") };
    assert_eq!(asker.ask(1, replies), "basic.consume-ok");
    b.client().declare("questions");
    let reply_to = Some(ShortString::from_static("amq.rabbitmq.reply-to"));
    let properties = Properties { reply_to, ..Properties::default() };
    asker.put_message("", "questions", &properties, b"?");
    asker.flush();
    let mut server = b.client();
    server.consume("questions", true);
    let question = server.message().unwrap();
    let asked = amqp091::PropertiesRef::parse(&question.properties).unwrap();
    let to = String::from_utf8(asked.reply_to().unwrap().to_vec()).unwrap();
    let alive = QueueDeclare { queue: to.as_bytes(), passive: true, ..QueueDeclare::default() };
    assert_eq!(server.ask(1, alive), "queue.declare-ok");
    server.put_publish(&to, false, b"!");
    server.flush();
    assert_eq!(asker.message().unwrap().body, b"!");
}

#[test]
fn an_alarm_of_one_node_blocks_publishers_of_all_until_it_clears_or_its_node_dies() {
    let [a, mut b, c] = three(&[]);
    b.client().declare("far");
    let blocked = |node: &Member| {
        let mut client = node.client();
        client.select_confirms();
        client.put_publish("far", true, b"x");
        client.flush();
        let told = client.next().show();
        (told.starts_with("connection.blocked"), client)
    };
    b.done(&["set_vm_memory_high_watermark", "absolute", "1"]);
    wait_until("publishers of another node are blocked", || blocked(&a).0);
    wait_until("publishers of the third node are blocked", || blocked(&c).0);
    let (is_blocked, mut client) = blocked(&c);
    assert!(is_blocked);
    b.done(&["set_vm_memory_high_watermark", "0.6"]);
    let told = client.next();
    assert!(matches!(told.method(), Method::ConnectionUnblocked(_)), "{}", told.show());
    client.wait_for_confirms();
    b.done(&["set_vm_memory_high_watermark", "absolute", "1"]);
    wait_until("publishers of another node are blocked", || blocked(&a).0);
    b.kill();
    wait_until("publishers go on", || !blocked(&a).0);
}

#[test]
fn balanced_queues_are_placed_where_the_fewest_are() {
    let [a, b, c] = three(&[]);
    a.done(&["set_policy", "spread", "^spread", r#"{"queue-leader-locator":"balanced"}"#]);
    let mut client = a.client();
    ["spread 1", "spread 2", "spread 3", "near"].iter().for_each(|queue| {
        client.declare(queue);
    });
    for queue in ["spread 1", "spread 2", "spread 3"] {
        publish(&b, queue, &[queue]);
    }
    let homes = |node: &Member| node.list(&["list_queues", "--local", "name"]);
    assert_eq!([&a, &b, &c].map(|node| homes(node).len()), [2, 1, 1]);
    assert!(homes(&a).contains(&"near".to_owned()));
}

#[test]
fn quorum_queues_and_streams_are_used_from_every_node() {
    let [a, b, c] = three(&[]);
    for kind in ["quorum", "stream"] {
        let arguments = [(ShortString::from_static("x-queue-type"), Value::from(kind))];
        let arguments = Table::from_iter(arguments).to_bytes();
        let declare = QueueDeclare {
            queue: kind.as_bytes(),
            durable: true,
            arguments: amqp091::TableRef::parse(&arguments).unwrap(),
            ..QueueDeclare::default()
        };
        assert_eq!(b.client().ask(1, declare), "queue.declare-ok");
        publish(&a, kind, &["one", "two", "three"]);
        let mut client = c.client();
        let limit = BasicQos { prefetch_count: 2, ..BasicQos::default() };
        assert_eq!(client.ask(1, limit), "basic.qos-ok");
        let offset = [(ShortString::from_static("x-stream-offset"), Value::from("first"))];
        let offset = Table::from_iter(offset).to_bytes();
        let from_first =
            BasicConsume { arguments: amqp091::TableRef::parse(&offset).unwrap(), ..consume(kind) };
        let wanted = if kind == "stream" { from_first } else { consume(kind) };
        assert_eq!(client.ask(1, wanted), "basic.consume-ok");
        assert_eq!(bodies(&mut client, 2), ["one", "two"], "{kind}");
        ack(&mut client, 2, true);
        assert_eq!(bodies(&mut client, 1), ["three"], "{kind}");
    }
}

#[test]
fn a_home_that_is_frozen_is_given_up_and_used_again() {
    let [a, b, c] = three(&[]);
    b.client().declare("far");
    publish(&a, "far", &["kept"]);
    let mut consumer = c.client();
    assert_eq!(consumer.ask(1, consume("far")), "basic.consume-ok");
    assert_eq!(bodies(&mut consumer, 1), ["kept"]);
    b.stand_still();
    let mut publisher = a.client();
    publisher.select_confirms();
    publisher.put_publish("far", true, b"in vain");
    publisher.flush();
    let answer = publisher.next();
    assert!(matches!(answer.method(), Method::BasicNack(_)), "{}", answer.show());
    let told = consumer.next();
    assert!(matches!(told.method(), Method::BasicCancel(_)), "{}", told.show());
    b.go_on();
    wait_until("the queue is reached again", || {
        c.client().ask(1, consume("far")) == "basic.consume-ok"
    });
    // A publish that was given up may have arrived.
    let mut consumer = a.client();
    assert_eq!(consumer.ask(1, consume("far")), "basic.consume-ok");
    assert_eq!(bodies(&mut consumer, 1), ["kept*"]);
}

#[test]
fn a_consumer_that_does_not_read_holds_up_nobody_else() {
    let [a, b, c] = three(&[]);
    ["flood", "far"].iter().for_each(|queue| {
        b.client().declare(queue);
    });
    let mut stuck = a.client();
    stuck.consume("flood", true);
    let mut consumer = a.client();
    consumer.consume("far", true);
    let mut publisher = c.client();
    publisher.select_confirms();
    let body = vec![b'x'; 100_000];
    for n in 0..600_u32 {
        publisher.put_publish("flood", false, &body);
        if n % 100 == 0 {
            publisher.put_publish("far", false, &n.to_le_bytes());
        }
    }
    publisher.wait_for_confirms();
    for n in (0..600_u32).step_by(100) {
        assert_eq!(consumer.message().unwrap().body, n.to_le_bytes());
    }
    // Most of the flood waits at its home.
    assert!(n_ready(&b, "flood") > 200);
    for _ in 0..600 {
        assert_eq!(stuck.message().unwrap().body.len(), body.len());
    }
}

#[test]
fn a_channel_that_holds_a_message_of_another_node_for_too_long_is_closed() {
    let [a, b, _c] = three(&[]);
    b.client().declare("far");
    b.done(&["set_policy", "soon", "far", r#"{"consumer-timeout":500}"#]);
    publish(&b, "far", &["held"]);
    let mut client = a.client();
    assert_eq!(client.ask(1, consume("far")), "basic.consume-ok");
    assert_eq!(bodies(&mut client, 1), ["held"]);
    let told = client.next().show();
    let text =
        "channel.close 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out";
    assert!(told.starts_with(text), "{told}");
    let mut other = b.client();
    other.consume("far", false);
    assert_eq!(bodies(&mut other, 1), ["held*"]);
}
