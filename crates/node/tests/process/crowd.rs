//! One client with very much of something: it goes, and nobody else waits for that.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicNack, BasicRecoverAsync, ChannelOpen,
    ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare, QueueDelete, QueuePurge, TxCommit,
    TxRollback, TxSelect,
};
use amqp091::{Method, ShortString, Table, TableRef, Value};
use std::time::Instant;
use testing::client::{Client, Login};

/// `LEVERET_CROWD` asks for so many times as much.
fn crowd(n: usize) -> usize {
    n * std::env::var("LEVERET_CROWD").map_or(1, |times| times.parse().unwrap())
}

fn consumers() -> usize {
    crowd(10_000)
}

fn queues() -> usize {
    crowd(2_000)
}

fn bindings() -> usize {
    crowd(4_000)
}

fn messages() -> usize {
    crowd(40_000)
}

/// Requests written together.
const AT_ONCE: usize = 2_000;

fn table<const N: usize>(entries: [(&'static str, Value); N]) -> Vec<u8> {
    let entries = entries.into_iter();
    entries
        .map(|(name, value)| (ShortString::from_static(name), value))
        .collect::<Table>()
        .to_bytes()
}

/// Puts `n` requests into the output, and waits until they are carried out.
fn ask_many(client: &mut Client, n: usize, mut put: impl FnMut(usize, &mut Vec<u8>)) {
    for index in 0..n {
        put(index, &mut client.out);
        if index % AT_ONCE == AT_ONCE - 1 {
            client.flush();
        }
    }
    client.flush();
    client.declare("done");
}

/// Consumers on channel `channel(n)` of the queue `queue(n)`, with the priority n.
fn consume_many(
    client: &mut Client,
    n: usize,
    channel: impl Fn(usize) -> u16,
    queue: impl Fn(usize) -> String,
) {
    ask_many(client, n, |index, out| {
        let (queue, tag) = (queue(index), format!("consumer-{index}"));
        let priority = i32::try_from(index % 30_000).unwrap();
        let arguments = table([("x-priority", Value::I32(priority))]);
        let consume = BasicConsume {
            queue: queue.as_bytes(),
            consumer_tag: tag.as_bytes(),
            no_wait: true,
            arguments: TableRef::trusted(&arguments),
            ..BasicConsume::default()
        };
        Method::from(consume).encode_frame(channel(index), out);
    });
}

fn declare_many(client: &mut Client, n: usize, exclusive: bool) {
    ask_many(client, n, |index, out| {
        let queue = format!("q{index}");
        let declare = QueueDeclare {
            queue: queue.as_bytes(),
            durable: !exclusive,
            exclusive,
            no_wait: true,
            ..QueueDeclare::default()
        };
        Method::from(declare).encode_frame(1, out);
    });
}

fn declare_with<const N: usize>(client: &mut Client, arguments: [(&'static str, Value); N]) {
    let arguments = table(arguments);
    let arguments = TableRef::trusted(&arguments);
    let declare = QueueDeclare { queue: b"crowd", arguments, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

fn n_ready_and_consumers(client: &mut Client, queue: &str) -> (u32, u32) {
    client
        .say(1, QueueDeclare { queue: queue.as_bytes(), passive: true, ..QueueDeclare::default() });
    let answer = client.next();
    let Method::QueueDeclareOk(declared) = answer.method() else { panic!("{}", answer.show()) };
    (declared.message_count, declared.consumer_count)
}

fn publish_many(client: &mut Client, n: usize) {
    for index in 0..n {
        client.put_publish("crowd", false, &index.to_be_bytes());
        if index % AT_ONCE == AT_ONCE - 1 {
            client.flush();
        }
    }
    client.flush();
    client.declare("done");
}

/// A client that holds so many messages of the queue `crowd`.
fn holder<const N: usize>(node: &Node, n: usize, arguments: [(&'static str, Value); N]) -> Client {
    let mut client = Client::guest(node.address());
    declare_with(&mut client, arguments);
    publish_many(&mut client, n);
    client.consume("crowd", false);
    for _ in 0..n {
        client.message().unwrap();
    }
    client
}

/// Takes `n` messages of the queue `crowd`, and gives every second one back.
fn hold_every_second(client: &mut Client, n: usize) {
    let tag = b"holder";
    let consume = BasicConsume { queue: b"crowd", consumer_tag: tag, ..BasicConsume::default() };
    assert_eq!(client.ask(1, consume), "basic.consume-ok");
    for _ in 0..n {
        client.message().unwrap();
    }
    let cancel = BasicCancel { consumer_tag: tag, ..BasicCancel::default() };
    assert_eq!(client.ask(1, cancel), "basic.cancel-ok");
    for delivery_tag in (1..=n as u64).step_by(2) {
        let nack = BasicNack { delivery_tag, multiple: false, requeue: true };
        Method::from(nack).encode_frame(1, &mut client.out);
    }
    client.flush();
    client.declare("done");
}

/// All messages of the queue `crowd` are there, in their order.
fn expect_in_order(node: &Node, n: usize) {
    let mut client = Client::guest(node.address());
    wait_until("all are back", || {
        n_ready_and_consumers(&mut client, "crowd") == (u32::try_from(n).unwrap(), 0)
    });
    client.consume("crowd", true);
    for index in 0..n {
        let message = client.message().unwrap();
        assert_eq!(
            (message.body.as_slice(), message.redelivered),
            (&index.to_be_bytes()[..], true)
        );
    }
}

/// Measures what a bystander waits while `attack` is carried out.
fn beside(node: &Node, name: &str, attack: impl FnOnce()) {
    let bystander = Bystander::watch(node);
    let started = Instant::now();
    attack();
    let took = started.elapsed();
    bystander.expect_no_wait(&format!("{name} ({took:.2?})"));
}

#[test]
fn consumers_of_one_queue_go_with_their_connection() {
    for arguments in [vec![], vec![("x-single-active-consumer", Value::Bool(true))]] {
        let node = Node::start(&[]);
        let mut observer = Client::guest(node.address());
        match arguments.into_iter().next() {
            None => declare_with(&mut observer, []),
            Some(argument) => declare_with(&mut observer, [argument]),
        }
        let mut client = Client::guest(node.address());
        beside(&node, "consumers that come", || {
            consume_many(&mut client, consumers(), |_| 1, |_| "crowd".to_owned());
        });
        beside(&node, "consumers of one queue that go", || {
            drop(client);
            wait_until("they are gone", || n_ready_and_consumers(&mut observer, "crowd").1 == 0);
        });
        node.stop();
    }
}

#[test]
fn consumers_of_many_queues_and_channels_go_with_their_connection() {
    const CHANNELS: usize = 2_000;
    let node = Node::start(&[]);
    let mut observer = Client::guest(node.address());
    declare_many(&mut observer, queues(), false);
    let mut client = Client::guest(node.address());
    for channel in 2..=CHANNELS {
        client.open_channel(u16::try_from(channel).unwrap());
    }
    let channel = |index: usize| u16::try_from(index % CHANNELS + 1).unwrap();
    consume_many(&mut client, queues(), channel, |index| format!("q{index}"));
    beside(&node, "consumers of many queues and channels that go", || {
        drop(client);
        let mut is_unused = |queue: &str| n_ready_and_consumers(&mut observer, queue).1 == 0;
        let last = format!("q{}", queues() - 1);
        wait_until("they are gone", || is_unused(&last) && is_unused("q0"));
    });
    node.stop();
}

#[test]
fn channels_go_with_their_connections() {
    const CHANNELS: u16 = 2_000;
    let node = Node::start(&[]);
    let mut observer = Client::guest(node.address());
    declare_with(&mut observer, []);
    let clients: Vec<Client> = (0..crowd(3))
        .map(|_| {
            let mut client = Client::guest(node.address());
            for channel in 2..=CHANNELS {
                Method::from(ChannelOpen::default()).encode_frame(channel, &mut client.out);
            }
            client.flush();
            for _ in 2..=CHANNELS {
                assert_eq!(client.next().show(), "channel.open-ok");
            }
            let channel = |index| u16::try_from(index + 1).unwrap();
            consume_many(&mut client, CHANNELS.into(), channel, |_| "crowd".to_owned());
            client
        })
        .collect();
    beside(&node, "many channels that go", || {
        drop(clients);
        wait_until("they are gone", || n_ready_and_consumers(&mut observer, "crowd").1 == 0);
    });
    node.stop();
}

#[test]
fn consumers_are_cancelled_with_their_queue() {
    let node = Node::start(&[]);
    let mut observer = Client::guest(node.address());
    declare_with(&mut observer, []);
    let mut client = Client::guest(node.address());
    consume_many(&mut client, consumers(), |_| 1, |_| "crowd".to_owned());
    beside(&node, "consumers whose queue is deleted", || {
        let delete = QueueDelete { queue: b"crowd", ..QueueDelete::default() };
        assert_eq!(observer.ask(1, delete), "queue.delete-ok");
        for _ in 0..consumers() {
            assert_eq!(client.next().show(), "basic.cancel");
        }
    });
    client.close();
    node.stop();
}

#[test]
fn exclusive_queues_go_with_their_connection() {
    let node = Node::start(&[]);
    let mut observer = Client::guest(node.address());
    let mut client = Client::guest(node.address());
    declare_many(&mut client, queues(), true);
    let last = format!("q{}", queues() - 1);
    beside(&node, "exclusive queues that go", || {
        drop(client);
        let is_free = || {
            let declare = QueueDeclare { queue: last.as_bytes(), ..QueueDeclare::default() };
            let is_free = observer.ask(1, declare) == "queue.declare-ok";
            if !is_free {
                observer = Client::guest(node.address());
            }
            is_free
        };
        wait_until("they are gone", is_free);
    });
    node.stop();
}

#[test]
fn queues_go_with_their_virtual_host() {
    let node = Node::start(&[]);
    node.ctl(&["add_vhost", "crowd"]);
    node.ctl(&["set_permissions", "-p", "crowd", "guest", ".*", ".*", ".*"]);
    let mut client = Client::login(node.address(), Login { vhost: "crowd", ..Login::default() });
    client.open_channel(1);
    declare_many(&mut client, queues(), false);
    beside(&node, "a virtual host with many queues that goes", || {
        node.ctl(&["delete_vhost", "crowd"]);
    });
    node.stop();
}

#[test]
fn bindings_go_with_their_exchange_and_their_queue() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    for kind in ["direct", "topic"] {
        let exchange = ExchangeDeclare {
            exchange: b"crowd",
            kind: kind.as_bytes(),
            durable: true,
            ..ExchangeDeclare::default()
        };
        let bind_many = |client: &mut Client| {
            assert_eq!(client.ask(1, exchange), "exchange.declare-ok");
            client.declare("bound");
            ask_many(client, bindings(), |index, out| {
                let key = format!("key.{index}");
                let bind = QueueBind {
                    queue: b"bound",
                    exchange: b"crowd",
                    routing_key: key.as_bytes(),
                    no_wait: true,
                    ..QueueBind::default()
                };
                Method::from(bind).encode_frame(1, out);
            });
        };
        bind_many(&mut client);
        beside(&node, &format!("a {kind} exchange with many bindings that goes"), || {
            let delete = ExchangeDelete { exchange: b"crowd", ..ExchangeDelete::default() };
            assert_eq!(client.ask(1, delete), "exchange.delete-ok");
        });
        bind_many(&mut client);
        beside(
            &node,
            &format!("a queue with many bindings of a {kind} exchange that goes"),
            || {
                let delete = QueueDelete { queue: b"bound", ..QueueDelete::default() };
                assert_eq!(client.ask(1, delete), "queue.delete-ok");
            },
        );
        let delete = ExchangeDelete { exchange: b"crowd", ..ExchangeDelete::default() };
        assert_eq!(client.ask(1, delete), "exchange.delete-ok");
    }
    node.stop();
}

#[test]
fn unacknowledged_messages_come_back_in_order_when_their_connection_goes() {
    let node = Node::start(&[]);
    let client = holder(&node, messages(), []);
    beside(&node, "a connection with many unacknowledged messages that goes", || {
        drop(client);
        expect_in_order(&node, messages());
    });
    node.stop();
}

#[test]
fn unacknowledged_messages_come_back_in_order_when_they_are_given_back() {
    give_back("a plain queue", []);
    give_back("a queue with priorities", [("x-max-priority", Value::I32(5))]);
    give_back("a queue with a delivery limit", [("x-delivery-limit", Value::I32(100))]);
}

fn give_back<const N: usize>(kind: &str, arguments: [(&'static str, Value); N]) {
    let node = Node::start(&[]);
    let mut client = holder(&node, messages(), arguments);
    let nack = BasicNack { delivery_tag: 0, multiple: true, requeue: true };
    for attack in ["basic.nack", "basic.recover-async"] {
        beside(&node, &format!("{attack} to {kind}"), || {
            match attack {
                "basic.nack" => client.say(1, nack),
                _ => client.say(1, BasicRecoverAsync { requeue: true }),
            }
            for index in 0..messages() {
                let message = client.message().unwrap();
                assert!(message.redelivered);
                assert_eq!(message.body, index.to_be_bytes());
            }
        });
    }
    beside(&node, &format!("basic.ack of many to {kind}"), || {
        client.say(1, BasicAck { delivery_tag: 0, multiple: true });
        client.declare("done");
    });
    drop(client);
    expect_in_order(&node, 0);
    node.stop();
}

#[test]
fn transactions_of_many_acknowledgements_and_publishes_end() {
    let node = Node::start(&[]);
    let mut client = holder(&node, messages(), []);
    assert_eq!(client.ask(1, TxSelect {}), "tx.select-ok");
    let all = BasicAck { delivery_tag: 0, multiple: true };
    beside(&node, "a rollback of many acknowledgements", || {
        client.say(1, all);
        assert_eq!(client.ask(1, TxRollback {}), "tx.rollback-ok");
    });
    beside(&node, "a commit of many acknowledgements", || {
        client.say(1, all);
        assert_eq!(client.ask(1, TxCommit {}), "tx.commit-ok");
    });
    drop(client);
    let mut client = Client::guest(node.address());
    expect_in_order(&node, 0);
    assert_eq!(client.ask(1, TxSelect {}), "tx.select-ok");
    publish_many(&mut client, messages());
    beside(&node, "a rollback of many publishes", || {
        assert_eq!(client.ask(1, TxRollback {}), "tx.rollback-ok");
    });
    publish_many(&mut client, messages());
    beside(&node, "a commit of many publishes", || {
        assert_eq!(client.ask(1, TxCommit {}), "tx.commit-ok");
    });
    assert_eq!(n_ready_and_consumers(&mut client, "crowd").0, u32::try_from(messages()).unwrap());
    node.stop();
}

#[test]
fn a_deep_queue_is_purged_and_deleted() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    declare_with(&mut client, []);
    publish_many(&mut client, messages());
    let purge = QueuePurge { queue: b"crowd", ..QueuePurge::default() };
    beside(&node, "a purge of a deep queue", || {
        client.say(1, purge);
        let answer = client.next();
        let Method::QueuePurgeOk(purged) = answer.method() else { panic!("{}", answer.show()) };
        assert_eq!(purged.message_count, u32::try_from(messages()).unwrap());
    });
    publish_many(&mut client, messages());
    hold_every_second(&mut client, messages());
    beside(&node, "a purge of a queue with holes", || {
        assert_eq!(client.ask(1, purge), "queue.purge-ok");
    });
    client.close();
    let mut client = Client::guest(node.address());
    beside(&node, "a deep queue that is deleted", || {
        let delete = QueueDelete { queue: b"crowd", ..QueueDelete::default() };
        assert_eq!(client.ask(1, delete), "queue.delete-ok");
    });
    node.stop();
}

#[test]
fn messages_of_a_queue_that_confirms_late_come_back_with_their_consumers() {
    let holders = crowd(5_000);
    for mode in ["ack", "ack-direct"] {
        let node = Node::start(&[]);
        let mut observer = Client::guest(node.address());
        let arguments = [("x-confirm-on", Value::LongString(mode.as_bytes().into()))];
        declare_with(&mut observer, arguments);
        let mut publisher = Client::guest(node.address());
        publisher.select_confirms();
        for index in 0..holders {
            publisher.put_publish("crowd", false, &index.to_be_bytes());
        }
        publisher.flush();
        publisher.declare("done");
        let mut client = Client::guest(node.address());
        let qos = amqp091::method::BasicQos { prefetch_count: 1, ..Default::default() };
        assert_eq!(client.ask(1, qos), "basic.qos-ok");
        for index in 0..holders {
            let tag = format!("consumer-{index}");
            let consume = BasicConsume {
                queue: b"crowd",
                consumer_tag: tag.as_bytes(),
                no_wait: true,
                ..BasicConsume::default()
            };
            Method::from(consume).encode_frame(1, &mut client.out);
        }
        client.flush();
        for _ in 0..holders {
            client.message().unwrap();
        }
        beside(&node, &format!("consumers of a queue that confirms on {mode}"), || {
            drop(client);
            let all = (u32::try_from(holders).unwrap(), 0);
            wait_until("they are back", || n_ready_and_consumers(&mut observer, "crowd") == all);
        });
        node.stop();
    }
}

/// A client that asks for messages and reads none is not given more than an outbox takes, however many
/// requests one read holds; what is left comes once it reads.
#[test]
fn messages_that_are_asked_for_stay_in_their_queue_until_they_can_be_written() {
    const MESSAGES: u32 = 1_000;
    const BODY_BYTES: usize = 64 * 1024;
    let node = Node::start(&[]);
    let mut observer = Client::guest(node.address());
    declare_with(&mut observer, []);
    for _ in 0..MESSAGES {
        observer.put_publish("crowd", false, &[0; BODY_BYTES]);
        observer.flush();
    }
    observer.declare("done");
    let mut client = Client::guest(node.address());
    for _ in 0..MESSAGES {
        let get = BasicGet { queue: b"crowd", no_ack: true, ..BasicGet::default() };
        Method::from(get).encode_frame(1, &mut client.out);
    }
    client.flush();
    let (mut n_ready, mut n_same) = (MESSAGES, 0);
    wait_until("it is given no more", || {
        let n_before =
            std::mem::replace(&mut n_ready, n_ready_and_consumers(&mut observer, "crowd").0);
        n_same = if n_ready == n_before && n_ready < MESSAGES { n_same + 1 } else { 0 };
        n_same >= 100
    });
    eprintln!(
        "{} of {MESSAGES} messages were given to a client that does not read",
        MESSAGES - n_ready
    );
    assert!(n_ready > MESSAGES / 2, "only {n_ready} messages are left in their queue");
    for _ in 0..MESSAGES {
        assert_eq!(client.message().unwrap().body.len(), BODY_BYTES);
    }
    assert_eq!(n_ready_and_consumers(&mut observer, "crowd").0, 0);
    client.close();
    node.stop();
}
