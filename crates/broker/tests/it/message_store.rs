//! Large persistent messages that go to several queues: one copy of the body, until nobody needs it.

use crate::classic_v1::{declare, of_version, wait_converted, want_version};
use crate::client::{Client, Kind, block_on, policy, short, start, start_with};
use broker::{Broker, PagerOptions, StorageOptions, repair};
use log::WalOptions;
use message::Properties;
use meta::{Command, PolicyScope};
use segments::Disk;
use session::{Op, Outcome, Table};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use store::blob::BlobStats;
use testing::{CrashOutcome, Fault, MemoryDisk};

const DURABLE: [&str; 3] = ["a", "b", "c"];

/// A node with three durable queues and a transient one, all of which get what is published to
/// `amq.fanout`, and a client with confirms.
fn fan(disk: &Arc<MemoryDisk>) -> (Arc<Broker>, Client) {
    fan_on(start(disk))
}

fn fan_on(broker: Arc<Broker>) -> (Arc<Broker>, Client) {
    fan_of(broker, [0, 0, 0])
}

/// The same with durable queues of these versions; 0 for the one that is usual, or that a policy says.
fn fan_of(broker: Arc<Broker>, versions: [i64; 3]) -> (Arc<Broker>, Client) {
    let mut client = Client::connect(&broker);
    for (queue, version) in DURABLE.into_iter().zip(versions) {
        match version {
            0 => client.declare(queue, true),
            version => declare(&mut client, queue, version),
        };
    }
    client.declare("transient", false);
    for queue in DURABLE.into_iter().chain(["transient"]) {
        client.bind("amq.fanout", queue, "");
    }
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    (broker, client)
}

fn publish(client: &mut Client, bodies: &[&str]) {
    let heard = client.publish_to("amq.fanout", "", bodies, Kind::Persistent);
    client.wait_for(heard, 1);
}

fn stats(broker: &Broker) -> BlobStats {
    let of_vhosts = broker.figures().bodies();
    of_vhosts.iter().find(|(vhost, _)| vhost == "/").unwrap().1
}

fn body(first: char) -> String {
    first.to_string().repeat(5_000)
}

#[test]
fn a_body_is_stored_once_for_all_queues_and_goes_with_the_last_message() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan(&disk);
    let body = body('x');
    let before = broker.figures().log().written_bytes;
    publish(&mut client, &[&body]);
    assert!(broker.figures().log().written_bytes - before < 5_000, "the log has references only");
    assert_eq!((stats(&broker).live_blobs, stats(&broker).appended_bytes), (1, 5_000));
    for queue in DURABLE.into_iter().chain(["transient"]) {
        assert_eq!(client.get(queue), [format!("got {body} left 0")]);
        assert_eq!(stats(&broker).live_blobs, 1);
    }
    client.settle(4, Outcome::Accepted);
    assert_eq!(stats(&broker).live_blobs, 0);
}

#[test]
fn only_large_persistent_messages_of_several_durable_queues_are_stored() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan(&disk);
    publish(&mut client, &[&"s".repeat(4_095)]);
    let heard = client.publish_to("amq.fanout", "", &[&body('t')], Kind::Transient);
    client.wait_for(heard, 1);
    let heard = client.publish("a", &[&body('1')], Kind::Persistent);
    client.wait_for(heard, 1);
    assert_eq!(stats(&broker).appended_bytes, 0);
    publish(&mut client, &[&"l".repeat(4_096)]);
    assert_eq!(stats(&broker).appended_bytes, 4_096);
}

#[test]
fn what_was_confirmed_is_there_after_a_loss_of_power_and_its_references_are_counted() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan(&disk);
    let (x, y) = (body('x'), body('y'));
    publish(&mut client, &[&x, &y]);
    client.get("a");
    client.settle(1, Outcome::Accepted);
    client.ask(Op::PurgeQueue { queue: short("b") });
    // Confirmed after what was settled: that is durable too.
    publish(&mut client, &["small"]);
    drop(broker);

    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    assert_eq!(stats(&broker).live_blobs, 2);
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("a"), [format!("got {y} again left 1")]);
    assert_eq!(client.get("b"), ["got small again left 0"]);
    assert_eq!(client.get("c"), [format!("got {x} again left 2")]);
    client.settle(3, Outcome::Accepted);
    assert_eq!(stats(&broker).live_blobs, 1);
    assert_eq!(client.get("c"), [format!("got {y} again left 1")]);
    client.settle(1, Outcome::Accepted);
    assert_eq!((stats(&broker).live_blobs, broker.figures().losses().of_queues.n_messages), (0, 0));
}

#[test]
fn a_damaged_body_is_the_loss_of_its_message_alone() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan(&disk);
    let (x, y) = (body('x'), body('y'));
    publish(&mut client, &[&x, &y]);
    client.disconnect();
    broker.stop().unwrap();

    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    assert!(disk.flip_bit("vhosts/%2F/bodies/00000001.blob", 1_000, 3));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("a"), [format!("got {y} left 0")]);
    assert_eq!(client.get("b"), [format!("got {y} left 0")]);
    assert_eq!(broker.figures().losses().of_queues.n_messages, 2);
}

/// The content of three queues by what their publisher and consumer know.
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
        let bodies: Vec<String> = (0..3).map(|n| format!("{round}.{n}.{}", body('w'))).collect();
        for (queue, body) in
            DURABLE.into_iter().flat_map(|one| bodies.iter().map(move |b| (one, b)))
        {
            known.may.insert((queue, body.clone()));
        }
        let texts: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let mut heard = client.publish_to("amq.fanout", "", &texts, Kind::Persistent);
        while !heard.iter().any(|line| line.starts_with("ack")) {
            if has_failed() {
                return;
            }
            assert!(Instant::now() < deadline, "neither confirmed nor failed: {heard:?}");
            std::thread::yield_now();
            heard.extend(client.heard());
        }
        known.must.extend(known.may.iter().filter(|one| bodies.contains(&one.1)).cloned());
        // What goes may come back, but need not.
        if round == 0 {
            client.ask(Op::PurgeQueue { queue: short("a") });
            known.must.retain(|(queue, _)| *queue != "a");
        } else if round == 1 {
            client.get("b");
            client.settle(1, Outcome::Accepted);
            known.must.retain(|(queue, body)| *queue != "b" || !body.starts_with("0.0."));
        }
    }
}

/// Takes everything out of the queues.
fn drained(client: &mut Client) -> BTreeSet<(&'static str, String)> {
    let mut found = BTreeSet::new();
    for queue in DURABLE {
        while let [line] = client.get(queue).as_slice()
            && let Some(text) = line.strip_prefix("got ")
        {
            found.insert((queue, text.split(' ').next().unwrap().to_owned()));
            client.settle(1, Outcome::Accepted);
        }
    }
    found
}

#[test]
fn a_loss_of_power_at_any_write_loses_nothing_confirmed_and_no_reference() {
    for versions in [[2, 2, 2], [1, 2, 1]] {
        lose_power_at_any_write(versions);
    }
}

fn lose_power_at_any_write(versions: [i64; 3]) {
    for at in 0..80 {
        let disk = Arc::new(MemoryDisk::new());
        let (broker, mut client) = fan_of(start(&disk), versions);
        let first = disk.operations();
        disk.inject(first + at, Fault::PowerLoss);
        let mut known = Known::default();
        let has_failed = || disk.operations() > first + at;
        work(&mut client, &mut known, &has_failed);
        let is_over = !has_failed();
        drop((client, broker));
        for survival in [CrashOutcome::OnlySynced, CrashOutcome::Torn(at), CrashOutcome::Everything]
        {
            let broker = start(&Arc::new(disk.survive(survival)));
            let mut client = Client::connect(&broker);
            let found = drained(&mut client);
            let lost: Vec<_> = known.must.difference(&found).collect();
            assert!(lost.is_empty(), "{lost:?} of {versions:?} after {survival:?} at {at}");
            assert!(found.is_subset(&known.may));
            let live = broker.figures().bodies().iter().map(|(_, one)| one.live_blobs).sum::<u64>();
            assert_eq!(
                (live, broker.figures().losses().of_queues.n_messages),
                (0, 0),
                "{versions:?} after {survival:?} at {at}"
            );
        }
        if is_over {
            break;
        }
    }
}

/// Bytes of the files below a directory.
fn bytes_in(disk: &MemoryDisk, dir: &str) -> usize {
    disk.files().iter().filter(|(name, _)| name.starts_with(dir)).map(|(_, bytes)| bytes).sum()
}

#[test]
fn queues_of_version_1_have_references_of_bodies_that_are_stored_once() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan_of(start(&disk), [1, 2, 1]);
    let (x, y) = (body('x'), body('y'));
    publish(&mut client, &[&x, &"s".repeat(4_095)]);
    assert_eq!((stats(&broker).live_blobs, stats(&broker).appended_bytes), (1, 5_000));
    let heard = client.publish("a", &[&y], Kind::Persistent);
    client.wait_for(heard, 1);
    assert_eq!((stats(&broker).live_blobs, stats(&broker).appended_bytes), (2, 10_000));
    assert!(bytes_in(&disk, "queues/") < 3 * 4_095, "{:?}", disk.files());
    drop(broker);

    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    for queue in DURABLE {
        assert!(client.get(queue)[0].starts_with(&format!("got {x} again")), "{queue}");
    }
    assert_eq!(stats(&broker).live_blobs, 2);
    client.settle(3, Outcome::Accepted);
    assert_eq!(stats(&broker).live_blobs, 1);
    client.get("a");
    assert_eq!(client.get("a"), [format!("got {y} again left 0")]);
    client.settle(2, Outcome::Accepted);
    assert_eq!((stats(&broker).live_blobs, broker.figures().losses().of_queues.n_messages), (0, 0));
}

#[test]
fn properties_that_are_stored_with_a_body_come_back_from_a_journal() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan_of(start(&disk), [1, 1, 2]);
    let mut headers = Table::default();
    headers.push(short("large"), "h".repeat(5_000).as_str());
    let headers = Some(headers);
    let properties = Properties { headers, delivery_mode: Some(2), ..Properties::default() };
    let heard = client.publish_with("amq.fanout", "", &[(properties, "small")]);
    client.wait_for(heard, 1);
    assert_eq!(stats(&broker).live_blobs, 1);
    assert!(bytes_in(&disk, "queues/") < 1_000, "{:?}", disk.files());
    drop(broker);
    let broker = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    let mut client = Client::connect(&broker);
    for queue in DURABLE {
        assert_eq!(client.get(queue), ["got small again left 0"]);
        assert_eq!(client.last_headers().len(), 1);
    }
}

#[test]
fn a_missing_file_of_bodies_that_only_journals_name_is_told() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan_of(start(&disk), [1, 1, 1]);
    publish(&mut client, &[&body('x'), "small"]);
    client.disconnect();
    broker.stop().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    disk.remove("vhosts/%2F/bodies/00000001.blob").unwrap();
    let refused = Broker::open(disk.clone(), WalOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("bodies of messages of queue 'a' in vhost '/'"), "{refused}");
    let told = repair(&disk, None).unwrap();
    assert_eq!(told.set_aside, ["leveret-journals", "leveret-log", "wal", "definitions.snapshot"]);
    let lost: Vec<&str> = told.lost.iter().map(String::as_str).collect();
    for queue in DURABLE {
        let told = format!("queue '{queue}' in vhost '/': up to 1 messages");
        assert!(lost.contains(&told.as_str()), "{lost:?}");
    }
}

#[test]
fn a_body_that_an_older_journal_embeds_is_a_reference_after_a_conversion() {
    let disk = Arc::new(MemoryDisk::new());
    let embedding = StorageOptions { embed_below_bytes: 1 << 20, ..StorageOptions::default() };
    let broker = start_with(disk.clone(), &embedding);
    want_version(&broker, 1);
    let (broker, mut client) = fan_on(broker);
    publish(&mut client, &[&body('x'), "small"]);
    assert!(bytes_in(&disk, "queues/") > 3 * 5_000);
    drop((client, broker));

    let mut disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    wait_converted(&broker, 1, &|| false);
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("a"), [format!("got {} again left 1", body('x'))]);
    let before = broker.figures().log().written_bytes;
    want_version(&broker, 2);
    wait_converted(&broker, 2, &|| false);
    let written = broker.figures().log().written_bytes - before;
    assert!(written < 5_000, "{written} bytes");
    // The log is durable up to a declaration that was answered, so the conversion is too.
    client.declare("after", true);
    drop((client, broker));

    disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    assert_eq!(stats(&broker).live_blobs, 3);
    let mut client = Client::connect(&broker);
    assert_eq!(drained(&mut client).len(), 6);
    assert_eq!((stats(&broker).live_blobs, broker.figures().losses().of_queues.n_messages), (0, 0));
}

/// In both directions, deep queues and shallow ones.
#[test]
fn a_conversion_moves_references_and_a_loss_of_power_leaves_one_form_with_all_bodies() {
    let deep = PagerOptions {
        budget_bytes: 0,
        allowance_bytes_min: 0,
        allowance_bytes_max: 0,
        ..PagerOptions::default()
    };
    for (pager, from) in
        [(PagerOptions::default(), 1), (PagerOptions::default(), 2), (deep, 1), (deep, 2)]
    {
        let options = StorageOptions { pager, ..StorageOptions::default() };
        for at in (0..120).step_by(2) {
            if !convert_until_power_is_lost(&options, from, at) {
                break;
            }
        }
    }
}

/// False if the conversion came to its end before.
fn convert_until_power_is_lost(options: &StorageOptions, from: u8, at: u64) -> bool {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_with(disk.clone(), options);
    want_version(&broker, from);
    let (broker, mut client) = fan_on(broker);
    let bodies: Vec<String> = (0..20).map(|n| format!("{n}.{}", body('b'))).collect();
    let texts: Vec<&str> = bodies.iter().map(String::as_str).collect();
    publish(&mut client, &texts);
    // Of those of one queue alone the log of a shallow one has the bodies.
    let own: Vec<String> = (0..10).map(|n| format!("{n}.{}", body('o'))).collect();
    for text in &own {
        let heard = client.publish("a", &[text], Kind::Persistent);
        client.wait_for(heard, 1);
    }
    let to = 3 - from;
    let kept = || {
        let log = broker.figures().log().written_bytes;
        log + (bytes_in(&disk, "queues/") + bytes_in(&disk, "pages/")) as u64
    };
    let before = kept();
    let last = disk.operations() + at;
    disk.inject(last, Fault::PowerLoss);
    // Nobody waits for the policy itself: the log may fail.
    {
        let policy = policy(PolicyScope::User, ".*", &of_version(to));
        let mut change = pin!(broker.apply_definition(policy));
        let _is_durable = change.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        wait_converted(&broker, to, &|| disk.operations() > last);
    }
    let has_failed = disk.operations() > last;
    if !has_failed {
        let written = kept().saturating_sub(before);
        assert!(written < 70 * 500, "{written} bytes for 70 references");
    }
    drop((client, broker));
    for survival in [CrashOutcome::OnlySynced, CrashOutcome::Torn(at), CrashOutcome::Everything] {
        let broker = start_with(Arc::new(disk.survive(survival)), options);
        let mut client = Client::connect(&broker);
        let found = drained(&mut client);
        assert_eq!(found.len(), 70, "{from} after {survival:?} at {at}");
        let figures = broker.figures();
        let live = figures.bodies().iter().map(|(_, one)| one.live_blobs).sum::<u64>();
        assert_eq!(
            (live, figures.losses().of_queues.n_messages),
            (0, 0),
            "{from} {survival:?} at {at}"
        );
    }
    has_failed
}

/// Names of bodies are in page images only: those are read for the references to be let go of.
#[test]
fn a_purge_of_what_is_on_disk_lets_go_of_its_bodies_also_after_a_restart() {
    let pager = PagerOptions {
        budget_bytes: 0,
        allowance_bytes_min: 0,
        allowance_bytes_max: 0,
        ..PagerOptions::default()
    };
    let options = StorageOptions { pager, ..StorageOptions::default() };
    let deadline = Instant::now() + Duration::from_secs(60);
    let wait = |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(Instant::now() < deadline, "it does not come to that");
            std::thread::yield_now();
        }
    };
    for restarts in [false, true] {
        let mut disk = Arc::new(MemoryDisk::new());
        let (mut broker, mut client) = fan_on(start_with(disk.clone(), &options));
        for _ in 0..100 {
            publish(&mut client, &[&body('x')]);
        }
        assert_eq!(stats(&broker).live_blobs, 100);
        let view = broker.view();
        wait(&|| {
            DURABLE.iter().all(|one| {
                view.queue("/", one).unwrap().as_classic().unwrap().inspect().pages_on_disk() > 5
            })
        });
        drop(view);
        if restarts {
            client.disconnect();
            broker.stop().unwrap();
            disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
            broker = start_with(disk.clone(), &options);
            client = Client::connect(&broker);
        }
        wait(&|| stats(&broker).live_blobs == 100);
        for queue in DURABLE {
            assert_eq!(client.ask(Op::PurgeQueue { queue: short(queue) }), ["purged 100"]);
        }
        if !restarts {
            client.ask(Op::PurgeQueue { queue: short("transient") });
        }
        wait(&|| stats(&broker).live_blobs == 0);
        assert_eq!(broker.figures().losses().of_queues.n_messages, 0);
    }
}

#[test]
fn the_files_of_a_virtual_host_go_with_it() {
    let disk = Arc::new(MemoryDisk::new());
    let (broker, mut client) = fan(&disk);
    publish(&mut client, &[&body('x')]);
    assert_eq!(disk.list("vhosts").unwrap(), ["%2F"]);
    block_on(broker.apply_definition(Command::DeleteVhost { vhost: "/".into() })).unwrap();
    client.disconnect();
    let deadline = Instant::now() + Duration::from_secs(20);
    for round in 2.. {
        broker.tick(stdx::Now::at_ms(round));
        if disk.list("vhosts").unwrap().is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", disk.list("vhosts"));
        std::thread::yield_now();
    }
}
