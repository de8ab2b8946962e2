//! Queues whose home is another node, which is down.

use crate::client::{Client, Kind, at, block_on, short, start_set, text, wait_until};
use broker::{Broker, BrokerOptions, Browser, DeleteConditions, Diagnosis, LookFrom, QueueHomes};
use meta::Name;
use queue_type::QueueRefused;
use session::{Flag, LinkOp, Op, Outcome, StreamOp};
use std::sync::Arc;
use testing::{CrashOutcome, MemoryDisk};

const DOWN: &str =
    "home node 'rabbit@b' of durable queue 'far' in vhost '/' is down or inaccessible";

/// A node beside another, `rabbit@b`, which has the queues whose names begin with "far".
fn start(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    let homes = QueueHomes::by_rule(|_, _, def| {
        def.name.starts_with("far").then(|| Name::from("rabbit@b"))
    });
    start_set(disk.clone(), BrokerOptions { homes, ..BrokerOptions::default() })
}

/// A node with the durable queues `near`, and `far` of that type.
fn node(kind: &str) -> (Arc<MemoryDisk>, Arc<Broker>) {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.declare("near", true), ["declared 0 0"]);
    client.declare_with("far", true, &[("x-queue-type", text(kind))]);
    (disk, broker)
}

fn refused() -> Vec<String> {
    vec![format!("channel failed NotFound: {DOWN}")]
}

fn n_letters(broker: &Broker) -> u64 {
    broker.queue("/", "source").unwrap().local_stat().n_departing
}

/// Publishes a message to the queue `source`, and rejects it.
fn reject_one(client: &mut Client) {
    client.publish("source", &["dying"], Kind::Persistent);
    assert_eq!(client.get("source"), ["got dying left 0"]);
    client.settle_newest(Outcome::Rejected);
}

#[test]
fn requests_with_answers_name_the_home_for_queues_of_each_type() {
    for kind in ["classic", "quorum", "stream"] {
        let (_disk, broker) = node(kind);
        let ask = |request: fn(&mut Client, &str) -> Vec<String>| {
            request(&mut Client::connect(&broker), kind)
        };
        let declare = |client: &mut Client, kind: &str| {
            client.declare_with("far", true, &[("x-queue-type", text(kind))])
        };
        assert_eq!(ask(declare), refused(), "{kind}");
        assert_eq!(ask(|client, _| client.look_up("far")), refused(), "{kind}");
        assert_eq!(ask(|client, _| client.get("far")), refused(), "{kind}");
        let purge =
            |client: &mut Client, _: &str| client.ask(Op::PurgeQueue { queue: short("far") });
        assert_eq!(ask(purge), refused(), "{kind}");
        let mut client = Client::connect(&broker);
        let prefetch_count = 1;
        client.ask(Op::SetPrefetch { prefetch_count, global: false });
        assert_eq!(client.consume("far", false), refused(), "{kind}");
        assert_eq!(broker.figures().consumers().len(), 0);
    }
}

#[test]
fn other_declarations_are_compared_before_the_home_is_asked() {
    let (_disk, broker) = node("classic");
    let told = Client::connect(&broker).declare("far", false).concat();
    assert!(told.contains("PreconditionFailed: inequivalent arg 'durable'"), "{told}");
    let mut client = Client::connect(&broker);
    let told = client.declare("far.passing", false).concat();
    let text = "home node 'rabbit@b' of queue 'far.passing' in vhost '/' is down or inaccessible";
    assert_eq!(told, format!("channel failed NotFound: {text}"));
}

#[test]
fn publishes_are_refused_only_to_publishers_that_wait() {
    for kind in ["classic", "quorum", "stream"] {
        let (_disk, broker) = node(kind);
        let mut client = Client::connect(&broker);
        for how in [Kind::Persistent, Kind::Transient, Kind::Mandatory] {
            assert!(client.publish("far", &["a"], how).is_empty(), "{kind}");
        }
        client.ask(Op::EnableConfirms);
        client.declare_exchange("both", "fanout", &[]);
        client.bind("both", "far", "");
        client.bind("both", "near", "");
        let mut heard = client.publish("far", &["a", "b"], Kind::Mandatory);
        heard.extend(client.publish_to("both", "", &["c"], Kind::Persistent));
        heard.extend(client.publish("near", &["d"], Kind::Persistent));
        let heard = client.wait_for(heard, 4);
        let expected = ["nack 1..=1", "nack 2..=2", "nack 3..=3", "ack 4..=4"];
        assert_eq!(heard, expected, "{kind}");
        assert_eq!(client.ask_ready("near"), 2, "{kind}");
    }
}

#[test]
fn a_commit_fails_that_such_a_queue_has_a_part_in_and_the_rest_takes_effect() {
    let (_disk, broker) = node("classic");
    let mut client = Client::connect(&broker);
    client.ask(Op::EnableTransactions);
    client.publish("near", &["a"], Kind::Persistent);
    client.publish("far", &["b"], Kind::Persistent);
    let failed = "channel failed PreconditionFailed: partial tx completion";
    assert_eq!(client.ask(Op::Commit), [failed]);
    assert_eq!(Client::connect(&broker).ask_ready("near"), 1);
}

#[test]
fn a_link_is_refused_and_the_queue_is_not_browsed() {
    let (_disk, broker) = node("classic");
    let mut client = Client::connect_with_links(&broker);
    let consume = session::Attachment {
        queue: short("far"),
        consumer_tag: short("tag"),
        no_ack: false,
        source: Some(session::LinkSource::default()),
        exclusive: false,
        arguments: session::Table::default(),
    };
    assert_eq!(client.ask(Op::Link(LinkOp::AttachConsumer(consume))), refused());
    let queue = broker.queue("/", "far").unwrap();
    let looked = Browser::new(&queue, LookFrom::Position(0)).step(&mut |_| panic!("a message"));
    assert_eq!(looked, Err(DOWN.to_owned()));
}

#[test]
fn clients_of_streams_are_told_that_a_stream_is_not_available() {
    let (_disk, broker) = node("stream");
    let mut client = Client::connect(&broker);
    let mut ask = |op: StreamOp| client.ask(Op::Stream(op)).concat();
    let told = ask(StreamOp::Stats { stream: "far".to_owned() });
    assert!(told.contains("StreamNotAvailable"), "{told}");
    let told = ask(StreamOp::Stats { stream: "near".to_owned() });
    assert!(told.contains("StreamDoesNotExist"), "{told}");
    assert_eq!(ask(StreamOp::Delete { stream: "far".to_owned() }), "done");
    assert!(broker.queue("/", "far").is_none());
}

#[test]
fn deletes_need_no_home_unless_the_queue_is_to_be_empty() {
    let (_disk, broker) = node("classic");
    let delete = |if_empty| {
        let queue = short("far");
        Client::connect(&broker).ask(Op::DeleteQueue { queue, if_unused: Flag::Yes, if_empty })
    };
    let not_empty = "channel failed PreconditionFailed: queue 'far' in vhost '/' not empty";
    assert_eq!(delete(Flag::Yes), [not_empty]);
    let queue = broker.queue("/", "far").unwrap();
    assert_eq!(delete(Flag::No), ["deleted 0"]);
    assert!(queue.is_deleted() && broker.queue("/", "far").is_none());
}

#[test]
fn operators_are_told_the_same() {
    let (_disk, broker) = node("classic");
    let operations = broker.operations();
    let down = || Err(QueueRefused::HomeDown(DOWN.to_owned()));
    assert_eq!(block_on(operations.purge_queue("/", "far")), down());
    assert_eq!(block_on(broker.queue("/", "far").unwrap().stat()).map(|stat| stat.n_ready), down());
    let conditions = DeleteConditions::default();
    assert_eq!(block_on(operations.delete_queue("/", "far", conditions)), Ok(0));
}

#[test]
fn a_queue_elsewhere_survives_a_restart_and_has_no_figures_here() {
    for kind in ["classic", "quorum", "stream"] {
        let (disk, broker) = node(kind);
        drop(broker);
        let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
        let broker = start(&disk);
        let queue = broker.queue("/", "far").unwrap();
        assert_eq!(Diagnosis(&queue).home().map(|home| home.as_str()), Some("rabbit@b"));
        assert_eq!(queue.def().kind.as_str(), kind);
        assert_eq!(Diagnosis(&broker.queue("/", "near").unwrap()).home(), None);
        let n: u64 = broker.figures().totals().values().map(|totals| totals.n).sum();
        assert_eq!(n, 1, "the other node counts its queue");
        assert_eq!(Client::connect(&broker).get("far"), refused(), "{kind}");
        broker.stop().unwrap();
    }
}

#[test]
fn dead_letters_are_dropped_unless_they_are_to_arrive() {
    let (_disk, broker) = node("classic");
    let mut client = Client::connect(&broker);
    client.declare_exchange("x", "fanout", &[]);
    client.bind("x", "far", "");
    let mut dying = vec![("x-queue-type", text("quorum")), ("x-dead-letter-exchange", text("x"))];
    client.declare_with("source", true, &dying);
    reject_one(&mut client);
    wait_until("the letter is gone", || n_letters(&broker) == 0);
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    client.ask(Op::DeleteQueue { queue: short("source"), if_unused, if_empty });
    dying.push(("x-dead-letter-strategy", text("at-least-once")));
    dying.push(("x-overflow", text("reject-publish")));
    client.declare_with("source", true, &dying);
    reject_one(&mut client);
    client.bind("x", "near", "");
    wait_until("the other queue has it", || {
        at(&broker, broker.now().unix_ms.get() + 1_000);
        client.ask_ready("near") > 0
    });
    assert_eq!(n_letters(&broker), 1, "it waits for this queue");
    client.ask(Op::DeleteQueue { queue: short("far"), if_unused, if_empty });
    wait_until("there is nothing to wait for", || {
        at(&broker, broker.now().unix_ms.get() + 1_000);
        n_letters(&broker) == 0
    });
    assert_eq!(client.ask_ready("near"), 1);
}
