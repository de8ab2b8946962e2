//! Messages that an operator sends on: where they arrive, what stays, and whom that concerns.

use crate::client::{Client, Kind, block_on, start};
use broker::{Broker, Browser, Departed, Departure, Fate, LookFrom, Standing};
use message::{MessageRef, OwnedMessage, Properties};
use session::{Op, Outcome, Value};
use std::ops::ControlFlow;
use std::sync::Arc;
use testing::MemoryDisk;

const ON_ACK: &str = "x-confirm-on";

struct Node {
    disk: Arc<MemoryDisk>,
    broker: Arc<Broker>,
    publisher: Client,
    consumer: Client,
}

/// A node with the queue `from` of that type, whose publishes wait for consumers.
fn node(kind: &'static str) -> Node {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let (mut publisher, consumer) = (Client::connect(&broker), Client::connect(&broker));
    assert_eq!(publisher.ask(Op::EnableConfirms), ["done"]);
    let arguments = [("x-queue-type", Value::from(kind)), (ON_ACK, Value::from("ack"))];
    publisher.declare_with("from", true, &arguments);
    Node { disk, broker, publisher, consumer }
}

impl Node {
    fn publish(&mut self, bodies: &[&str]) {
        let persistent = Properties { delivery_mode: Some(2), ..Properties::default() };
        let messages: Vec<_> = bodies.iter().map(|body| (persistent.clone(), *body)).collect();
        assert!(self.publisher.publish_with("", "from", &messages).is_empty());
    }

    /// Sends all ready messages of a queue on to another one.
    fn send_on(&self, from: &str, to: &str) -> Departed {
        send_on(&self.broker, from, to)
    }

    fn given(&mut self, queue: &str) -> Vec<String> {
        self.consumer.get(queue)
    }

    fn told(&self, n: usize) -> Vec<String> {
        self.publisher.wait_for(self.publisher.heard(), n)
    }
}

fn ready(broker: &Broker, queue: &str) -> Vec<(u64, OwnedMessage)> {
    let queue = broker.queue("/", queue).unwrap();
    let (mut browser, mut found) = (Browser::new(&queue, LookFrom::Position(0)), Vec::new());
    let mut see = |at: &broker::LookedAt<'_>| {
        if at.seen.standing == Standing::Ready {
            found.push((at.seen.position, OwnedMessage::new(&at.seen.message)));
        }
        ControlFlow::Continue(())
    };
    while browser.step(&mut see).unwrap() {}
    found
}

fn send_on(broker: &Broker, from: &str, to: &str) -> Departed {
    let departure = |(position, message): (u64, OwnedMessage)| {
        let changed = MessageRef { exchange: b"", routing_key: to.as_bytes(), ..message.message() };
        Departure { position, message: OwnedMessage::new(&changed) }
    };
    let messages: Vec<_> = ready(broker, from).into_iter().map(departure).collect();
    let from = broker.queue("/", from).unwrap();
    block_on(broker.operations().send_on(&from, &messages)).unwrap()
}

fn for_each_type(check: impl Fn(Node)) {
    ["classic", "quorum"].into_iter().for_each(|kind| check(node(kind)));
}

#[test]
fn who_waits_for_a_message_waits_where_it_is_sent() {
    for_each_type(|mut node| {
        node.publisher.declare_with("to", true, &[(ON_ACK, Value::from("ack"))]);
        node.publish(&["a", "b"]);
        let Departed { fates, n_left } = node.send_on("from", "to");
        assert_eq!((fates, n_left), (vec![Fate::Arrived; 2], 2));
        assert_eq!(node.publisher.heard(), [""; 0]);
        assert_eq!(node.given("from"), ["get empty"]);
        assert_eq!(node.given("to"), ["got a left 1"]);
        node.consumer.settle_newest(Outcome::Accepted);
        assert_eq!(node.told(1), ["ack 1..=1"]);
        assert_eq!(node.given("to"), ["got b left 0"]);
        node.consumer.settle_newest(Outcome::Rejected);
        assert_eq!(node.told(1), ["nack 2..=2"]);
    });
}

#[test]
fn in_an_ordinary_queue_it_is_confirmed_once_it_is_there_for_good() {
    for_each_type(|mut node| {
        node.publisher.declare("to", true);
        node.publish(&["a"]);
        assert_eq!(node.send_on("from", "to").n_left, 1);
        assert_eq!(node.told(1), ["ack 1..=1"]);
        let broker = start(&Arc::new(node.disk.survive(testing::CrashOutcome::OnlySynced)));
        assert_eq!(Client::connect(&broker).get("to"), ["got a again left 0"]);
    });
}

#[test]
fn what_finds_no_place_stays_with_who_waits_for_it() {
    for_each_type(|mut node| {
        let full = [("x-max-length", Value::I64(0)), ("x-overflow", Value::from("reject-publish"))];
        node.publisher.declare_with("full", true, &full);
        let full_on_ack = [(ON_ACK, Value::from("ack")), full[0].clone(), full[1].clone()];
        node.publisher.declare_with("full on ack", true, &full_on_ack);
        node.publish(&["a"]);
        for (to, fate) in
            [("full", Fate::Refused), ("full on ack", Fate::Refused), ("nowhere", Fate::NotRouted)]
        {
            let Departed { fates, n_left } = node.send_on("from", to);
            assert_eq!((fates, n_left), (vec![fate], 0));
        }
        assert_eq!(node.publisher.heard(), [""; 0]);
        assert_eq!(node.given("from"), ["got a left 0"]);
        node.consumer.settle_newest(Outcome::Accepted);
        assert_eq!(node.told(1), ["ack 1..=1"]);
    });
}

/// Deaths before are the broker's: the next is noted with them.
#[test]
fn a_dead_letter_that_dies_again_has_died_twice() {
    let mut node = node("classic");
    let to_dead = [
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("dead")),
    ];
    node.publisher.declare_with("work", true, &to_dead);
    node.publisher.declare("dead", true);
    node.publisher.publish("work", &["a"], Kind::Persistent);
    for n in 1..=2 {
        node.consumer.get_soon("work");
        node.consumer.settle_newest(Outcome::Rejected);
        assert!(node.consumer.get_soon("dead").starts_with("got a"));
        let headers = node.consumer.last_headers();
        let Some(Value::Array(deaths)) = headers.get(b"x-death") else { panic!("{headers:?}") };
        let [death] = &deaths[..] else { panic!("{deaths:?}") };
        assert_eq!(death.as_table().unwrap().get(b"count"), Some(&Value::I64(n)));
        node.consumer.settle_newest(Outcome::Released);
        assert_eq!(node.send_on("dead", "work").n_left, 1);
    }
}
