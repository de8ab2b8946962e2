//! Large persistent messages of one deep queue: their bodies go to the body store at once, and log and pages
//! have references.

use crate::client::{Client, Kind, short, start_with, wait_until};
use broker::{Broker, PagerOptions, StorageOptions};
use session::{Flag, Op, Outcome};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::blob::BlobStats;
use testing::{CrashOutcome, Fault, MemoryDisk};

const ALLOWANCE_BYTES: usize = 40_000;
const BODY_BYTES: usize = 5_000;

/// A node whose queues are deep early.
fn start(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    let pager = PagerOptions {
        budget_bytes: ALLOWANCE_BYTES,
        allowance_bytes_min: ALLOWANCE_BYTES,
        allowance_bytes_max: ALLOWANCE_BYTES,
        stored_at_once_bytes_min: 2 * BODY_BYTES,
        ..PagerOptions::default()
    };
    start_with(Arc::clone(disk) as _, &StorageOptions { pager, ..StorageOptions::default() })
}

/// A client with confirms, and the durable queue `q`.
fn connect(broker: &Arc<Broker>) -> Client {
    let mut client = Client::connect(broker);
    client.declare("q", true);
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    client
}

fn body(n: usize) -> String {
    format!("{n:0>BODY_BYTES$}")
}

/// Publishes `numbers` together; they are confirmed.
fn publish(client: &mut Client, numbers: impl Iterator<Item = usize>) {
    let bodies: Vec<String> = numbers.map(body).collect();
    let texts: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let heard = client.publish("q", &texts, Kind::Persistent);
    client.wait_for(heard, 1);
}

fn stats(broker: &Broker) -> BlobStats {
    let of_vhosts = broker.figures().bodies();
    of_vhosts.iter().find(|(vhost, _)| vhost == "/").unwrap().1
}

fn n_pages_on_disk(broker: &Broker) -> usize {
    broker.view().queue("/", "q").unwrap().as_classic().unwrap().inspect().pages_on_disk()
}

#[test]
fn bodies_of_a_backlog_are_written_once() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = connect(&broker);
    let n = 400;
    (0..n / 20).for_each(|part| publish(&mut client, part * 20..part * 20 + 20));
    wait_until("pages to be written", || n_pages_on_disk(&broker) >= n / 10);
    let log_bytes = broker.figures().log().written_bytes;
    let written =
        log_bytes + stats(&broker).appended_bytes + broker.figures().pages().0.appended_bytes;
    // What is in the log before the queue is deep is written again: a batch more than its allowance.
    let twice_max = ALLOWANCE_BYTES + 20 * BODY_BYTES;
    assert!(written < ((n * BODY_BYTES + twice_max) * 105 / 100) as u64, "{written} bytes");
    for at in 0..n {
        assert_eq!(client.get_soon("q"), format!("got {} left {}", body(at), n - at - 1));
        client.settle(1, Outcome::Accepted);
    }
    assert_eq!((stats(&broker).live_blobs, broker.figures().losses().of_queues.n_messages), (0, 0));
}

#[test]
fn a_shallow_queue_keeps_bodies_in_their_log_entries_and_so_does_a_message_that_comes_alone() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = connect(&broker);
    let mut before = 0;
    let mut logs_bodies = |client: &mut Client, numbers: std::ops::Range<usize>| {
        let n_bytes = (numbers.len() * BODY_BYTES) as u64;
        publish(client, numbers);
        let written = broker.figures().log().written_bytes;
        written - std::mem::replace(&mut before, written) >= n_bytes
    };
    assert!((0..8).all(|at| logs_bodies(&mut client, at..at + 1)));
    assert_eq!(stats(&broker).appended_bytes, 0);
    assert!(!logs_bodies(&mut client, 8..16), "it is deep");
    wait_until("nothing to wait for the disk", || broker.figures().log().unsynced_bytes == 0);
    assert!(logs_bodies(&mut client, 16..17), "it came alone");
    client.publish("q", &["small"; 10_000], Kind::Persistent);
    client.publish("q", &[&body(1), &body(2)], Kind::Transient);
    // The others are stored with their pages.
    assert!((8..=17).contains(&stats(&broker).live_blobs), "only large persistent ones");
}

#[test]
fn a_damaged_body_is_the_loss_of_its_message_alone() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = connect(&broker);
    (0..2).for_each(|part| publish(&mut client, part * 10..part * 10 + 10));
    client.disconnect();
    broker.stop().unwrap();

    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    assert!(disk.flip_bit("vhosts/%2F/bodies/00000001.blob", 7_000, 3));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    // Which one it is depends on when the first page was written.
    let mut left = (0..20).map(body);
    for _ in 0..19 {
        let heard = client.get_soon("q");
        assert!(left.any(|body| heard.starts_with(&format!("got {body} "))), "it is another one");
    }
    assert_eq!(broker.figures().losses().of_queues.n_messages, 1);
}

/// Names of bodies that are on disk only are read for the references to be let go of, and the files go.
#[test]
fn a_purge_or_deletion_gives_space_back_also_after_a_restart() {
    for restarts in [false, true] {
        let mut disk = Arc::new(MemoryDisk::new());
        let mut broker = start(&disk);
        let mut client = connect(&broker);
        for ask in [Op::PurgeQueue { queue: short("q") }, delete()] {
            (0..5).for_each(|part| publish(&mut client, part * 20..part * 20 + 20));
            wait_until("pages to be written", || n_pages_on_disk(&broker) > 5);
            assert!(stats(&broker).live_blobs >= 40);
            if restarts {
                client.disconnect();
                broker.stop().unwrap();
                disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
                broker = start(&disk);
                client = connect(&broker);
                wait_until("references to be counted", || stats(&broker).live_blobs >= 40);
            }
            client.ask(ask);
            wait_until("bodies to go", || stats(&broker).live_blobs == 0);
        }
        assert_eq!(broker.figures().losses().of_queues.n_messages, 0);
    }
}

fn delete() -> Op {
    Op::DeleteQueue { queue: short("q"), if_unused: Flag::No, if_empty: Flag::No }
}

/// Publishes in twos and acknowledges until the disk fails. Returns what was confirmed and never
/// acknowledged.
fn work(client: &mut Client, has_failed: &dyn Fn() -> bool) -> BTreeSet<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut must = BTreeSet::new();
    for round in 0..12 {
        let bodies = [body(2 * round), body(2 * round + 1)];
        let mut heard = client.publish("q", &[&bodies[0], &bodies[1]], Kind::Persistent);
        while !heard.iter().any(|line| line.starts_with("ack")) {
            if has_failed() {
                return must;
            }
            assert!(Instant::now() < deadline, "neither confirmed nor failed: {heard:?}");
            std::thread::yield_now();
            heard.extend(client.heard());
        }
        must.extend(bodies);
        if round == 8
            && let [line] = client.get("q").as_slice()
            && let Some(text) = line.strip_prefix("got ")
        {
            must.remove(text.split(' ').next().unwrap());
            client.settle(1, Outcome::Accepted);
        }
    }
    must
}

#[test]
fn a_loss_of_power_at_any_write_loses_nothing_confirmed_and_no_reference() {
    for at in 0..160 {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        let mut client = connect(&broker);
        let first = disk.operations();
        disk.inject(first + at, Fault::PowerLoss);
        let has_failed = || disk.operations() > first + at;
        let must = work(&mut client, &has_failed);
        let is_over = !has_failed();
        drop((client, broker));
        for survival in [CrashOutcome::OnlySynced, CrashOutcome::Torn(at), CrashOutcome::Everything]
        {
            let broker = start(&Arc::new(disk.survive(survival)));
            let mut client = connect(&broker);
            let mut found = BTreeSet::new();
            while client.ask_ready("q") > 0 {
                let heard = client.get_soon("q");
                found.insert(heard.split(' ').nth(1).unwrap().to_owned());
                client.settle(1, Outcome::Accepted);
            }
            let n_lost = must.difference(&found).count();
            assert_eq!(n_lost, 0, "after {survival:?} at {at}");
            wait_until("references to be counted", || stats(&broker).live_blobs == 0);
            assert_eq!(
                broker.figures().losses().of_queues.n_messages,
                0,
                "after {survival:?} at {at}"
            );
        }
        if is_over {
            break;
        }
    }
}
