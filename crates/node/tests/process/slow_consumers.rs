//! Clients that do not read, and publishers without end.

use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{BasicGet, BasicPublish, BasicReject, QueueDeclare, QueuePurge};
use amqp091::{Method, PropertiesRef, content};
use testing::client::{Client, Login};

/// More than the kernel's and the node's buffers of one connection together.
const FLOOD_BYTES_MAX: usize = 400 << 20;

/// A node with a deep queue `deep`, and what it takes then.
fn node_with_backlog(n_messages: usize, body_bytes: usize) -> (Node, u64) {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    client.declare("deep");
    client.select_confirms();
    for _ in 0..n_messages {
        client.put_publish("deep", false, &vec![b'x'; body_bytes]);
    }
    client.flush();
    let mut n_confirmed = 0;
    while n_confirmed < n_messages as u64 {
        match client.next().method() {
            Method::BasicAck(ack) if ack.multiple => n_confirmed = ack.delivery_tag,
            Method::BasicAck(_) => n_confirmed += 1,
            other => panic!("no confirm but {}", other.name()),
        }
    }
    client.close();
    let rss = node.rss();
    (node, rss)
}

fn grown(node: &Node, rss: u64) -> u64 {
    node.rss().saturating_sub(rss)
}

#[test]
fn a_consumer_that_does_not_read_holds_back_only_itself() {
    let (node, rss) = node_with_backlog(20_000, 4000);
    let mut bystander = Client::guest(node.address());
    let mut slow: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::guest(node.address());
            client.consume("deep", true);
            client
        })
        .collect();
    for _ in 0..50 {
        bystander.round_trip();
    }
    let n = grown(&node, rss);
    assert!(n < (24 << 20), "four slow consumers take {n} bytes");
    // They get the rest as soon as they read, each in order and nothing twice.
    for client in &mut slow[1..] {
        client.shut_up();
    }
    let mut n_messages = 0;
    while n_messages < 1000 {
        assert_eq!(slow[0].message().unwrap().body.len(), 4000);
        n_messages += 1;
    }
    bystander.round_trip();
    node.stop();
}

#[test]
fn a_flood_of_requests_without_reading_is_not_listened_to() {
    let (node, rss) = node_with_backlog(100, 7000);
    let mut bystander = Client::guest(node.address());
    let mut frames = Vec::new();
    let mut gets = Vec::new();
    let get = BasicGet { queue: b"deep", no_ack: false, ..BasicGet::default() };
    for _ in 0..1000 {
        get.encode_frame(1, &mut gets);
    }
    let name = [b'n'; 255];
    let declare = QueueDeclare { queue: &name, ..QueueDeclare::default() };
    for _ in 0..1000 {
        declare.encode_frame(1, &mut frames);
    }
    let routing_key = b"nowhere";
    let mandatory = BasicPublish { routing_key, mandatory: true, ..Default::default() };
    let mut returns = Vec::new();
    for _ in 0..100 {
        mandatory.encode_frame(1, &mut returns);
        let body = [b'x'; 4000];
        content::encode_content(1, PropertiesRef::EMPTY, &body, 131_072, &mut returns);
    }
    for (what, flood) in [("declares", &frames), ("returns", &returns), ("gets", &gets)] {
        let mut client = Client::guest(node.address());
        let n_taken = client.flood(flood, FLOOD_BYTES_MAX);
        bystander.round_trip();
        let n = grown(&node, rss);
        eprintln!("{what}: {n_taken} bytes taken, {n} bytes grown");
        assert!(n < (64 << 20), "{what} take {n} bytes");
    }
    wait_until("the clients are gone", || node.n_connections() == 1);
    bystander.round_trip();
    node.stop();
}

#[test]
fn one_message_got_and_given_back_over_and_over_is_bounded() {
    let (node, rss) = node_with_backlog(1, 7000);
    let mut bystander = Client::guest(node.address());
    let mut client = Client::guest(node.address());
    let get = BasicGet { queue: b"deep", no_ack: false, ..BasicGet::default() };
    let mut flood = Vec::new();
    for delivery_tag in 1..=1_000_000 {
        get.encode_frame(1, &mut flood);
        BasicReject { delivery_tag, requeue: true }.encode_frame(1, &mut flood);
    }
    client.flood(&flood, usize::MAX);
    bystander.round_trip();
    let n = grown(&node, rss);
    eprintln!("{n} bytes grown");
    assert!(n < (96 << 20), "takes {n} bytes");
    node.stop();
}

/// Backlogs are on disk but for a part that all queues share: this many take all of it.
const N_FLOODED: usize = 16;

fn flooded(n: usize) -> String {
    format!("flooded-{}", n % N_FLOODED)
}

#[test]
fn publishers_without_consumers_wait_and_go_on() {
    let idle_rss = Node::start(&[]).rss();
    let limit = idle_rss + (16 << 20);
    let node = Node::start(&[&format!("vm_memory_high_watermark.absolute={limit}")]);
    let mut consumer = Client::guest(node.address());
    for n in 0..N_FLOODED {
        consumer.declare(&flooded(n));
    }
    let publisher = |capable| {
        let mut client = Client::login(node.address(), Login { capable, ..Login::default() });
        client.open_channel(1);
        client
    };
    let (mut capable, mut plain) = (publisher(true), publisher(false));
    let mut batch = publisher(true);
    for n in 0..10 * N_FLOODED {
        batch.put_publish(&flooded(n), false, &vec![b'x'; 10_000]);
    }
    let flood = std::mem::take(&mut batch.out);
    capable.flood(&flood, usize::MAX);
    assert_eq!(capable.next().show(), "connection.blocked low on memory");
    plain.flood(&flood, FLOOD_BYTES_MAX);
    node.expect_logged(1, "memory resource limit alarm set");
    wait_until("somebody to be named", || {
        node.log().contains("largest user at the alarm: queue 'flooded-")
    });
    let rss = node.rss();
    // What backlogs may have in memory is a fixed sum.
    assert!(rss < idle_rss + (96 << 20), "{rss} bytes after {idle_rss}");
    // Others consume, and who makes room is served.
    consumer.consume(&flooded(0), true);
    for _ in 0..10 {
        consumer.message().unwrap();
    }
    let mut purger = Client::guest(node.address());
    for n in 1..N_FLOODED {
        let queue = flooded(n);
        let purge = QueuePurge { queue: queue.as_bytes(), ..QueuePurge::default() };
        assert_eq!(purger.ask(1, purge), "queue.purge-ok");
    }
    // Freed memory goes back to the system a moment later.
    wait_until("the alarm to clear", || node.log().contains("limit alarm cleared"));
    assert_eq!(capable.next().show(), "connection.unblocked");
    // What the publishers had written comes after all.
    for _ in 0..10 {
        consumer.message().unwrap();
    }
    node.stop();
}
