//! Large properties of messages that go to several queues: one copy, in front of the body, wherever the
//! messages are.

use crate::client::{Client, set_policy, short, start, start_with, table, text, wait_until};
use broker::{Broker, PagerOptions, StorageOptions};
use message::Properties;
use meta::PolicyScope;
use session::{Op, Outcome, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::blob::BlobStats;
use testing::{CrashOutcome, Fault, MemoryDisk};

const DURABLE: [&str; 3] = ["a", "b", "c"];
const LARGE_BYTES: usize = 10_000;

/// Properties of which only the headers are large.
fn large(id: &str) -> Properties {
    let filler = id.repeat(LARGE_BYTES / id.len());
    let headers = Some(table(&[("large", text(&filler))]));
    Properties { headers, delivery_mode: Some(2), ..Properties::default() }
}

/// A client with confirms, and three durable queues and a transient one bound to `amq.fanout`.
fn fan(broker: &Arc<Broker>, arguments: &[(&'static str, Value)]) -> Client {
    let mut client = Client::connect(broker);
    for queue in DURABLE.into_iter().chain(["transient"]) {
        client.declare_with(queue, queue != "transient", arguments);
        client.bind("amq.fanout", queue, "");
    }
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    client
}

fn publish(client: &mut Client, ids: &[&str]) {
    let messages: Vec<_> = ids.iter().map(|id| (large(id), *id)).collect();
    let heard = client.publish_with("amq.fanout", "", &messages);
    client.wait_for(heard, 1);
}

fn stats(broker: &Broker) -> BlobStats {
    let of_vhosts = broker.figures().bodies();
    of_vhosts.iter().find(|(vhost, _)| vhost == "/").unwrap().1
}

/// Nothing of a queue stays in memory for long.
fn without_memory() -> StorageOptions {
    let pager = PagerOptions {
        budget_bytes: 0,
        allowance_bytes_min: 0,
        allowance_bytes_max: 0,
        ..PagerOptions::default()
    };
    StorageOptions { pager, ..StorageOptions::default() }
}

/// Gets a message, and compares its properties with those it was published with.
fn take(client: &mut Client, queue: &str) -> Option<String> {
    let line = client.get(queue).concat();
    let id = line.strip_prefix("got ")?.split(' ').next().unwrap().to_owned();
    assert!(client.last().properties == large(&id).to_bytes(), "the properties of {id}");
    client.settle_newest(Outcome::Accepted);
    Some(id)
}

fn take_all(client: &mut Client, queue: &str) -> Vec<String> {
    std::iter::from_fn(|| take(client, queue)).collect()
}

fn crashed(disk: &MemoryDisk) -> Arc<MemoryDisk> {
    Arc::new(disk.survive(CrashOutcome::OnlySynced))
}

#[test]
fn properties_are_stored_once_for_all_queues_and_go_with_the_last_message() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = fan(&broker, &[]);
    let before = broker.figures().log().written_bytes;
    publish(&mut client, &["x"]);
    assert!(broker.figures().log().written_bytes - before < 4_000, "the log has references only");
    let stored_bytes = (large("x").to_bytes().len() + 1) as u64;
    assert_eq!((stats(&broker).live_blobs, stats(&broker).appended_bytes), (1, stored_bytes));
    let message_bytes = 4 * (stored_bytes + "amq.fanout".len() as u64);
    assert_eq!(broker.figures().message_bytes(), message_bytes);
    for queue in DURABLE.into_iter().chain(["transient"]) {
        assert_eq!(stats(&broker).live_blobs, 1);
        assert_eq!(take(&mut client, queue).unwrap(), "x");
    }
    assert_eq!((stats(&broker).live_blobs, broker.figures().message_bytes()), (0, 0));
}

#[test]
fn only_large_properties_for_several_queues_are_stored() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = fan(&broker, &[]);
    let of_bytes = |n: usize| {
        let without = large("x").to_bytes().len() - LARGE_BYTES;
        let headers = Some(table(&[("large", text(&"s".repeat(n - without)))]));
        Properties { headers, ..large("x") }
    };
    for (exchange, queue, properties) in
        [("amq.fanout", "", of_bytes(4_095)), ("", "a", of_bytes(9_000))]
    {
        let heard = client.publish_with(exchange, queue, &[(properties, "body")]);
        client.wait_for(heard, 1);
        assert_eq!(stats(&broker).appended_bytes, 0);
    }
    let heard = client.publish_with("amq.fanout", "", &[(of_bytes(4_096), "body")]);
    client.wait_for(heard, 1);
    assert_eq!(stats(&broker).appended_bytes, 4_100);
}

#[test]
fn they_leave_memory_and_come_back_also_after_a_crash() {
    let options = without_memory();
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_with(disk.clone(), &options);
    let mut client = fan(&broker, &[]);
    let ids: Vec<String> = (100..140).map(|n| format!("{n}")).collect();
    for id in &ids {
        publish(&mut client, &[id]);
    }
    let view = broker.view();
    let is_away = |queue: &&str| {
        view.queue("/", queue).unwrap().as_classic().unwrap().inspect().pages_on_disk() > 5
    };
    wait_until("pages to be written", || DURABLE.iter().chain(&["transient"]).all(is_away));
    drop(view);
    assert!(broker.figures().pages().0.live_bytes < 20_000, "pages have none of them");
    let found: Vec<String> = ids.iter().map(|_| client.get_soon("transient")).collect();
    assert!(found[0].starts_with("got 100 left 39"));
    assert!(client.last().properties == large("139").to_bytes());
    let broker = start_with(crashed(&disk), &options);
    let mut client = Client::connect(&broker);
    wait_until("references are counted", || stats(&broker).live_blobs == 40);
    assert_eq!(take_all(&mut client, "a"), ids);
    assert_eq!(client.ask(Op::PurgeQueue { queue: short("b") }), ["purged 40"]);
    assert_eq!(take_all(&mut client, "c"), ids);
    wait_until("all is let go of", || stats(&broker).live_blobs == 0);
    assert_eq!(broker.figures().losses().of_queues.n_messages, 0);
}

/// A start reads no properties, and yet knows which message goes first.
#[test]
fn priorities_are_known_before_the_properties_are_read() {
    for options in [StorageOptions::default(), without_memory()] {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start_with(disk.clone(), &options);
        let mut client = fan(&broker, &[("x-max-priority", Value::I32(5))]);
        let urgent = |id: &str, priority| Properties { priority, ..large(id) };
        let sent = [("low", None), ("high", Some(4)), ("middle", Some(2)), ("late", Some(4))];
        for (id, priority) in sent {
            let heard = client.publish_with("amq.fanout", "", &[(urgent(id, priority), id)]);
            client.wait_for(heard, 1);
        }
        let broker = start_with(crashed(&disk), &options);
        let mut client = Client::connect(&broker);
        for id in ["high", "late", "middle", "low"] {
            assert!(client.get("b").concat().starts_with(&format!("got {id} again")));
            let priority = sent.iter().find(|(one, _)| *one == id).unwrap().1;
            assert!(client.last().properties == urgent(id, priority).to_bytes());
        }
    }
}

/// The content of three queues, as far as their publisher and consumer know.
#[derive(Default)]
struct Known {
    /// Confirmed and never acknowledged, by queue.
    must: BTreeSet<(&'static str, String)>,
    /// Published.
    may: BTreeSet<(&'static str, String)>,
}

/// Publishes, acknowledges and purges until the disk fails.
fn work(client: &mut Client, known: &mut Known, has_failed: &dyn Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    for round in 0..4 {
        let ids: Vec<String> = (0..3).map(|n| format!("{round}.{n}")).collect();
        let everywhere = DURABLE.into_iter().flat_map(|one| ids.iter().map(move |id| (one, id)));
        known.may.extend(everywhere.map(|(queue, id)| (queue, id.clone())));
        let messages: Vec<_> = ids.iter().map(|id| (large(id), id.as_str())).collect();
        let mut heard = client.publish_with("amq.fanout", "", &messages);
        while !heard.iter().any(|line| line.starts_with("ack")) {
            if has_failed() {
                return;
            }
            assert!(Instant::now() < deadline, "neither confirmed nor failed: {heard:?}");
            std::thread::yield_now();
            heard.extend(client.heard());
        }
        known.must.extend(known.may.iter().filter(|one| ids.contains(&one.1)).cloned());
        // What goes may come back, but need not.
        if round == 0 {
            client.ask(Op::PurgeQueue { queue: short("a") });
            known.must.retain(|(queue, _)| *queue != "a");
        } else if round == 1 {
            client.get("b");
            client.settle(1, Outcome::Accepted);
            known.must.retain(|(queue, id)| *queue != "b" || id != "0.0");
        }
    }
}

#[test]
fn a_loss_of_power_at_any_write_loses_nothing_confirmed_and_no_reference() {
    for (at, options) in
        (0..80).flat_map(|at| [(at, StorageOptions::default()), (at, without_memory())])
    {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start_with(disk.clone(), &options);
        let mut client = fan(&broker, &[]);
        let first = disk.operations();
        disk.inject(first + at, Fault::PowerLoss);
        let mut known = Known::default();
        work(&mut client, &mut known, &|| disk.operations() > first + at);
        drop((client, broker));
        for survival in [CrashOutcome::OnlySynced, CrashOutcome::Torn(at), CrashOutcome::Everything]
        {
            let broker = start_with(Arc::new(disk.survive(survival)), &options);
            let mut client = Client::connect(&broker);
            let mut found = BTreeSet::new();
            for queue in DURABLE {
                found.extend(take_all(&mut client, queue).into_iter().map(|id| (queue, id)));
            }
            let lost: Vec<_> = known.must.difference(&found).collect();
            assert!(lost.is_empty(), "{lost:?} after {survival:?} at {at}");
            assert!(found.is_subset(&known.may));
            let live =
                || broker.figures().bodies().iter().map(|(_, one)| one.live_blobs).sum::<u64>();
            wait_until("all is let go of", || live() == 0);
            assert_eq!(
                broker.figures().losses().of_queues.n_messages,
                0,
                "after {survival:?} at {at}"
            );
        }
    }
}

/// Has queues converted by a policy, and waits until they are.
fn convert(broker: &Arc<Broker>, version: u8) {
    let definition = format!("{{\"queue-version\":{version}}}");
    set_policy(broker, PolicyScope::User, ".*", &definition);
    wait_until("the queues to be converted", || {
        let view = broker.view();
        let mut durable = view.queues().filter(|queue| queue.def().durable);
        durable.all(|queue| queue.local_stat().version.number() == version)
    });
}

#[test]
fn a_queue_keeps_them_from_form_to_form() {
    for options in [StorageOptions::default(), without_memory()] {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start_with(disk.clone(), &options);
        let mut client = fan(&broker, &[]);
        publish(&mut client, &["1", "2"]);
        for (version, id) in [(1, "3"), (2, "4"), (1, "5"), (2, "6")] {
            convert(&broker, version);
            publish(&mut client, &[id]);
            let broker = start_with(crashed(&disk), &options);
            let mut client = Client::connect(&broker);
            let all: Vec<String> = (1..=id.parse().unwrap()).map(|n: u32| n.to_string()).collect();
            assert_eq!(take_all(&mut client, "b"), all);
        }
        let all = ["1", "2", "3", "4", "5", "6"];
        for queue in DURABLE.into_iter().chain(["transient"]) {
            assert_eq!(take_all(&mut client, queue), all, "in {queue}");
        }
        wait_until("all is let go of", || stats(&broker).live_blobs == 0);
        assert_eq!(broker.figures().losses().of_queues.n_messages, 0);
    }
}

#[test]
fn dead_letters_have_them_and_are_stored_once_too() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let arguments = [("x-dead-letter-exchange", text("amq.direct"))];
    let mut client = fan(&broker, &arguments);
    for queue in ["dead 1", "dead 2"] {
        client.declare(queue, true);
        client.bind("amq.direct", queue, "");
    }
    publish(&mut client, &["x"]);
    client.get("a");
    client.settle(1, Outcome::Rejected);
    for queue in ["dead 1", "dead 2"] {
        wait_until("letters to arrive", || client.ask_ready(queue) == 1);
    }
    assert_eq!(stats(&broker).live_blobs, 2);
    let heard = client.publish_with(
        "",
        "a",
        &[(Properties { delivery_mode: Some(2), ..Properties::default() }, "last")],
    );
    client.wait_for(heard, 1);
    let broker = start(&crashed(&disk));
    let mut client = Client::connect(&broker);
    for queue in ["dead 1", "dead 2"] {
        assert_eq!(client.get(queue), ["got x again left 0"]);
        let properties = client.last().properties;
        let headers = message::View::of(&properties).headers().unwrap().to_owned().unwrap();
        assert_eq!(headers.get(b"large"), large("x").headers.unwrap().get(b"large"));
        assert!(headers.get(b"x-death").is_some());
    }
    client.settle(2, Outcome::Accepted);
    assert_eq!(stats(&broker).live_blobs, 1);
}
