//! Answers that clients may be told around failures of the disk and restarts.

use crate::client::{Client, Kind, short, start};
use session::{Op, Outcome, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use testing::{CrashOutcome, Fault, MemoryDisk};

/// Nobody had seen the message before the stop, somebody had before the crash.
#[test]
fn what_was_delivered_before_a_crash_comes_back_marked_also_after_a_clean_stop() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["a"], Kind::Persistent);
    client.wait_for(heard, 1);
    client.disconnect();
    broker.stop().unwrap();

    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a"]);

    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a again"]);
}

/// Names that a life of the node gives are its own: clients and operators may know those of earlier lives.
#[test]
fn ids_and_tokens_of_each_life_are_new() {
    let disk = Arc::new(MemoryDisk::new());
    let mut given = BTreeSet::new();
    for boot in 1..4 {
        let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
        // Starts before this one, of which nothing but the number is left.
        (1..boot).for_each(|_| drop(start(&disk)));
        let broker = start(&disk);
        let (mut asker, mut other) = (Client::connect(&broker), Client::connect(&broker));
        asker.consume("amq.rabbitmq.reply-to", true);
        other.declare("transient", false);
        other.consume("transient", true);
        asker.request("transient", "question");
        other.heard();
        let token = other.last_reply_to();
        assert!(token.starts_with("amq.rabbitmq.reply-to.1-"), "{token}");
        let ids: Vec<u64> = broker.connections.list().iter().map(|it| it.id.0).collect();
        assert_eq!(ids, [1, 2].map(|n| 1 << 48 | boot << 32 | n));
        let id = broker.queue("/", "transient").unwrap().id().0;
        assert_eq!(id, 1 << 63 | boot << 32);
        assert!(given.insert(token), "boot {boot}");
        asker.disconnect();
        other.disconnect();
    }
}

#[test]
fn nothing_is_reported_as_done_that_the_log_has_lost() {
    let failed = ["connection failed InternalError: the log has failed"];
    for failing in 0..2 {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        client.declare("q", true);
        client.ask(Op::EnableTransactions);
        client.publish("q", &["a"], Kind::Persistent);
        disk.inject(disk.operations(), Fault::Io);
        let heard = if failing == 0 { client.ask(Op::Commit) } else { client.declare("p", true) };
        assert_eq!(heard, failed);
        // Also once the failure is known.
        assert_eq!(Client::connect(&broker).declare("r", true), failed);
    }
}

/// A consumer that takes what it gets at once lets messages pass without the log, until it is full.
#[test]
fn a_commit_waits_for_messages_that_did_not_pass_through() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let (mut publisher, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    publisher.declare("q", true);
    consumer.consume("q", true);
    publisher.ask(Op::EnableTransactions);
    publisher.publish("q", &["passes", "late"], Kind::Persistent);
    consumer.fill_up(true);
    assert_eq!(publisher.ask(Op::Commit), ["done"]);
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    assert_eq!(Client::connect(&broker).get("q"), ["got late again left 0"]);
}

#[test]
fn what_a_commit_has_settled_does_not_come_again_after_a_crash() {
    for kind in ["classic", "quorum"] {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        client.declare_with("q", true, &[("x-queue-type", Value::from(kind))]);
        client.ask(Op::EnableTransactions);
        client.publish("q", &["a", "b"], Kind::Persistent);
        assert_eq!(client.ask(Op::Commit), ["done"]);
        assert_eq!(client.get("q"), ["got a left 1"]);
        client.settle(1, Outcome::Accepted);
        assert_eq!(client.ask(Op::Commit), ["done"]);
        let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
        let broker = start(&disk);
        assert_eq!(Client::connect(&broker).get("q"), ["got b again left 0"], "{kind}");
    }
}

/// Changes that a snapshot that fails would have covered are covered by the next one.
#[test]
fn a_snapshot_that_fails_leaves_nothing_in_the_log_for_ever() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    assert!(broker.figures().log().live_bytes > 0);
    disk.inject(disk.operations(), Fault::NoSpace);
    broker.snapshot_definitions().unwrap_err();
    broker.snapshot_definitions().unwrap();
    assert_eq!(broker.figures().log().live_bytes, 0);
}

/// Segments are freed oldest first: one that nobody consumes must not keep all behind it.
#[test]
fn the_log_does_not_grow_behind_a_queue_that_is_never_consumed() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    for queue in ["kept", "busy"] {
        client.declare(queue, true);
    }
    client.ask(Op::EnableConfirms);
    let large = "x".repeat(200 * 1024);
    let heard = client.publish("kept", &[large.as_str(); 6], Kind::Persistent);
    client.wait_for(heard, 1);
    for round in 0..40 {
        let heard = client.publish("busy", &[&large, &large], Kind::Persistent);
        client.wait_for(heard, 1);
        client.ask(Op::PurgeQueue { queue: short("busy") });
        broker.tick(stdx::Now::at_ms(round));
    }
    let stats = broker.figures().log();
    assert!(stats.segments < 12, "{stats:?}");
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    assert_eq!(Client::connect(&start(&disk)).declare("kept", true), ["declared 6 0"]);
}
