//! kill -9 in the middle of traffic: what was confirmed is there.

use super::support::client::{Client, Message};
use super::support::node::Node;
use super::support::random::Random;
use super::support::wait_until;
use amqp091::Method;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const N_QUEUES: usize = 10;
const N_PUBLISHERS: usize = 4;
const N_CONSUMERS: usize = 3;
const BODY_BYTES_MAX: usize = 20 * 1024;
/// Unconfirmed messages of a publisher.
const WINDOW: u64 = 50;
/// A node is killed after 50 confirmed messages, and this many at most.
const N_CONFIRMED_MAX: usize = 3000;
/// A message starts with its publisher and its number there.
const ID_BYTES: usize = 12;

/// `DURABILITY_ROUNDS` asks for another number.
fn n_rounds() -> usize {
    std::env::var("DURABILITY_ROUNDS").map_or(5, |n| n.parse().unwrap())
}

/// Publisher (over all rounds) and number.
type Id = (u32, u64);

fn queue_name(queue: usize) -> String {
    format!("durable-{queue}")
}

fn body(id: Id, random: &mut Random) -> Vec<u8> {
    // As many small ones as large ones.
    let size = random.below(BODY_BYTES_MAX) >> random.below(12);
    let mut body = [&id.0.to_be_bytes()[..], &id.1.to_be_bytes()].concat();
    body.resize(ID_BYTES + size, body[ID_BYTES - 1]);
    body
}

fn id_of(body: &[u8]) -> Id {
    let (id, rest) = body.split_at(ID_BYTES);
    assert!(rest.iter().all(|&byte| byte == id[ID_BYTES - 1]), "a damaged body");
    let (publisher, number) = id.split_at(4);
    let number = u64::from_be_bytes(number.try_into().unwrap());
    (u32::from_be_bytes(publisher.try_into().unwrap()), number)
}

/// What the clients know.
#[derive(Default)]
struct Known {
    /// Published and not consumed, by queue: confirmed or not, in the order of each publisher.
    published: Mutex<BTreeMap<Id, Published>>,
    /// Acknowledged by a consumer; the node may not have read it.
    acked: Mutex<BTreeSet<Id>>,
    /// Delivered to a consumer.
    delivered: Mutex<BTreeSet<Id>>,
    n_confirmed: AtomicU64,
    n_publishers: AtomicU64,
}

#[derive(Clone, Copy)]
struct Published {
    queue: usize,
    confirmed: bool,
}

/// Publishes with confirms until the connection breaks.
fn publish(mut client: Client, known: &Known, mut random: Random) {
    let publisher = u32::try_from(known.n_publishers.fetch_add(1, Ordering::Relaxed)).unwrap();
    client.select_confirms();
    let (mut number, mut confirmed) = (0, 0);
    let mut pending = BTreeSet::new();
    loop {
        while number - confirmed < WINDOW {
            for _ in 0..=random.below(8) {
                number += 1;
                let queue = random.below(N_QUEUES);
                let id = (publisher, number);
                let published = Published { queue, confirmed: false };
                known.published.lock().unwrap().insert(id, published);
                client.put_publish(&queue_name(queue), true, &body(id, &mut random));
                pending.insert(number);
            }
            if client.try_flush().is_err() {
                return;
            }
        }
        let Ok(frame) = client.try_next() else { return };
        let (tag, multiple) = match frame.method() {
            Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple),
            Method::ConnectionClose(_) => return,
            other => panic!("no confirm but {}", other.name()),
        };
        let told: Vec<u64> =
            if multiple { pending.range(..=tag).copied().collect() } else { vec![tag] };
        let mut published = known.published.lock().unwrap();
        for number in told {
            assert!(pending.remove(&number), "{number} is confirmed twice");
            published.get_mut(&(publisher, number)).unwrap().confirmed = true;
            known.n_confirmed.fetch_add(1, Ordering::Relaxed);
        }
        confirmed = number - pending.len() as u64;
    }
}

/// Consumes from some queues and acknowledges until the connection breaks.
fn consume(mut client: Client, known: &Known, mut random: Random) {
    let qos = amqp091::method::BasicQos { prefetch_count: 100, ..Default::default() };
    assert_eq!(client.ask(1, qos), "basic.qos-ok");
    client.consume(&queue_name(random.below(N_QUEUES)), false);
    while let Ok(Some(Message { tag, body, .. })) = client.try_message() {
        let id = id_of(&body);
        known.delivered.lock().unwrap().insert(id);
        if random.below(10) > 0 {
            // Known before the node can know.
            known.acked.lock().unwrap().insert(id);
            let ack = amqp091::method::BasicAck { delivery_tag: tag, multiple: false };
            ack.encode_frame(1, &mut client.out);
            if client.try_flush().is_err() {
                return;
            }
        }
    }
}

/// Empties the queues of a restarted node and compares.
fn check(node: &Node, known: &Known) {
    let mut client = Client::guest(node.address());
    let mut published = known.published.lock().unwrap();
    let (mut acked, mut delivered) = (known.acked.lock().unwrap(), known.delivered.lock().unwrap());
    for queue in 0..N_QUEUES {
        // A passive declare would do; this one fails when the queue is another one now.
        client.declare(&queue_name(queue));
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        while let Some(message) = client.get(&queue_name(queue)) {
            let id = id_of(&message.body);
            let known = published.remove(&id).unwrap_or_else(|| panic!("a phantom: {id:?}"));
            assert_eq!(known.queue, queue);
            let before = last.insert(id.0, id.1);
            assert!(before.is_none_or(|before| before < id.1), "{id:?} after {before:?}");
            if delivered.contains(&id) {
                assert!(message.redelivered, "{id:?} is not marked as redelivered");
            }
            acked.remove(&id);
        }
    }
    for (id, published) in published.iter() {
        assert!(!published.confirmed || acked.contains(id), "{id:?} was confirmed and is lost");
    }
    published.clear();
    acked.clear();
    delivered.clear();
}

/// Traffic until enough is confirmed; then `stop` is called in the middle of it.
fn traffic(node: &mut Node, known: &Known, random: &mut Random, stop: fn(&mut Node)) {
    let address = node.address();
    let n_confirmed = || known.n_confirmed.load(Ordering::Relaxed);
    let enough = n_confirmed() + 50 + random.below(N_CONFIRMED_MAX) as u64;
    let publishers: Vec<Client> = (0..N_PUBLISHERS).map(|_| Client::guest(address)).collect();
    let consumers: Vec<Client> = (0..N_CONSUMERS).map(|_| Client::guest(address)).collect();
    std::thread::scope(|scope| {
        for client in publishers {
            let random = random.fork();
            scope.spawn(|| publish(client, known, random));
        }
        for client in consumers {
            let random = random.fork();
            scope.spawn(|| consume(client, known, random));
        }
        wait_until("enough is confirmed", || n_confirmed() >= enough);
        stop(node);
    });
}

fn declare_all(node: &Node) {
    let mut client = Client::guest(node.address());
    for queue in 0..N_QUEUES {
        client.declare(&queue_name(queue));
    }
    client.close();
}

#[test]
fn what_was_confirmed_survives_kill_9() {
    let mut node = Node::start(&[]);
    declare_all(&node);
    let (known, mut random) = (Known::default(), Random::new());
    for _ in 0..n_rounds() {
        traffic(&mut node, &known, &mut random, Node::kill_and_start);
        check(&node, &known);
    }
    eprintln!("{} messages were confirmed", known.n_confirmed.load(Ordering::Relaxed));
    node.stop();
}

#[test]
fn what_was_confirmed_survives_a_stop_in_the_middle() {
    let mut node = Node::start(&[]);
    declare_all(&node);
    let (known, mut random) = (Known::default(), Random::new());
    for _ in 0..2 {
        traffic(&mut node, &known, &mut random, Node::stop_and_start);
        check(&node, &known);
    }
    node.stop();
}

#[test]
fn definitions_survive_and_a_second_start_is_quick() {
    use amqp091::method::{ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare};
    let mut node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    for (exchange, kind) in [(b"ex-1", b"topic".as_slice()), (b"ex-2", b"fanout")] {
        let declare =
            ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() };
        assert_eq!(client.ask(1, declare), "exchange.declare-ok");
    }
    let bind = ExchangeBind {
        source: b"ex-1",
        destination: b"ex-2",
        routing_key: b"a.#",
        ..ExchangeBind::default()
    };
    assert_eq!(client.ask(1, bind), "exchange.bind-ok");
    for number in 0..1000 {
        client.declare(&format!("q-{number}"));
    }
    let bind = QueueBind { queue: b"q-7", exchange: b"ex-2", ..QueueBind::default() };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
    let transient =
        QueueDeclare { queue: b"transient", exclusive: true, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, transient), "queue.declare-ok");

    let started = Instant::now();
    node.kill_and_start();
    // A machine that is busy with other tests included.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    let listed = node.ctl(&["list_queues", "name", "-q"]);
    assert_eq!(listed.lines().filter(|line| line.starts_with("q-")).count(), 1000);
    assert!(!listed.contains("transient"), "{listed}");
    let mut client = Client::guest(node.address());
    client.put_content("ex-1", "a.b", 2, b"through both");
    assert_eq!(client.get("q-7").unwrap().body, b"through both");
    assert_eq!(client.get("q-8"), None);
    node.stop();
}
