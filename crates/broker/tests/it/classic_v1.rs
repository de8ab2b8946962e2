//! Queues of version 1, over a disk in memory.

use crate::client::{Client, Kind, set_policy, short, start};
use broker::{Broker, View};
use meta::PolicyScope;
use segments::Disk;
use session::{Op, Outcome, QueueDeclaration, Table};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testing::{CrashOutcome, MemoryDisk};

pub(crate) fn declare(client: &mut Client, queue: &str, version: i64) -> Vec<String> {
    let mut arguments = Table::default();
    arguments.push(short("x-queue-version"), version);
    client.ask(Op::DeclareQueue(QueueDeclaration {
        queue: short(queue),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments,
    }))
}

/// The disk as it is after a loss of power.
fn crashed(disk: &MemoryDisk) -> Arc<MemoryDisk> {
    Arc::new(disk.survive(CrashOutcome::OnlySynced))
}

#[test]
fn what_is_confirmed_survives_a_crash_and_what_was_settled_does_not_come_back() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(declare(&mut client, "q", 1), ["declared 0 0"]);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["a", "b", "c"], Kind::Persistent);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=3"]);
    client.publish("q", &["transient"], Kind::Transient);
    assert_eq!(client.get("q"), ["got a left 3"]);
    client.settle(1, Outcome::Accepted);
    // The next confirm comes when the settlement is durable too.
    let heard = client.publish("q", &["d"], Kind::Persistent);
    assert_eq!(client.wait_for(heard, 1), ["ack 5..=5"]);
    assert!(disk.list("queues/1").unwrap().iter().any(|name| name.ends_with(".jif")));

    let disk = crashed(&disk);
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(declare(&mut client, "q", 1), ["declared 3 0"]);
    assert_eq!(
        client.consume("q", false),
        ["consuming", "deliver b again", "deliver c again", "deliver d again"]
    );
}

/// Has queues converted by a policy, and waits until they are.
pub(crate) fn convert(broker: &Arc<Broker>, version: u8) {
    want_version(broker, version);
    wait_converted(broker, version, &|| false);
}

pub(crate) fn want_version(broker: &Broker, version: u8) {
    set_policy(broker, PolicyScope::User, ".*", &of_version(version));
}

/// The definition of a policy that says which version queues have.
pub(crate) fn of_version(version: u8) -> String {
    format!("{{\"queue-version\":{version}}}")
}

/// Waits until queues have that version, or the disk has failed.
pub(crate) fn wait_converted(broker: &Broker, version: u8, has_failed: &dyn Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_converted = |view: &View| {
        let mut durable = view.queues().filter(|queue| queue.def().durable);
        durable.all(|queue| {
            let stat = queue.local_stat();
            stat.version.number() == version && stat.conversion.is_none()
        })
    };
    while !has_failed() && !is_converted(&broker.view()) {
        assert!(Instant::now() < deadline, "the queues are not converted");
        std::thread::yield_now();
    }
}

#[test]
fn a_queue_keeps_its_messages_from_form_to_form() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.ask(Op::EnableConfirms);
    for (bodies, kind) in
        [(["a", "b", "c"].as_slice(), Kind::Persistent), (&["t"], Kind::Transient)]
    {
        let heard = client.publish("q", bodies, kind);
        client.wait_for(heard, 1);
    }
    assert_eq!(client.get("q"), ["got a left 3"]);
    assert_eq!(client.get("q"), ["got b left 2"]);
    for (version, new) in [(1, "d"), (2, "e"), (1, "f")] {
        convert(&broker, version);
        let heard = client.publish("q", &[new], Kind::Persistent);
        client.wait_for(heard, 1);
    }
    // Those consumers hold, transient ones, and the order are as before.
    client.settle(1, Outcome::Modified);
    client.settle(1, Outcome::Accepted);
    let all = ["a again", "c", "t", "d", "e", "f"].map(|body| format!("deliver {body}"));
    assert_eq!(client.consume("q", false)[1..], all);
    let heard = client.publish("q", &["g"], Kind::Persistent);
    client.wait_for(heard, 2);
    for version in [1, 2] {
        let disk = crashed(&disk);
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        let all = ["a", "c", "d", "e", "f", "g"].map(|body| format!("deliver {body} again"));
        assert_eq!(client.consume("q", false)[1..], all);
        convert(&broker, version);
        let disk = crashed(&disk);
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        assert_eq!(client.consume("q", false)[1..], all);
    }
}
