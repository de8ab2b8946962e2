//! Backlogs on disk: in order, through crashes, damage, slow disks; and their space given back.

use crate::client::{Client, Kind, block_on, short, start, start_with, wait_until};
use broker::{Broker, Hold, PagerOptions, QueueRef, StorageOptions};
use control::{DEFINITIONS_FILE, Gone};
use log::WalOptions;
use meta::{Command, QueueDef, Removed};
use segments::Disk;
use session::{Flag, Op, Outcome};
use std::sync::Arc;
use stdx::Now;
use testing::{CrashOutcome, MemoryDisk};

const ALLOWANCE_BYTES: usize = 4_000;
const FILE_BYTES: u32 = 20_000;

/// Every queue may have little in memory.
fn limits() -> StorageOptions {
    let pager = PagerOptions {
        budget_bytes: ALLOWANCE_BYTES,
        allowance_bytes_min: ALLOWANCE_BYTES,
        allowance_bytes_max: ALLOWANCE_BYTES,
        excess_bytes_max: 20_000,
        unsynced_bytes_max: 10_000,
        ..PagerOptions::default()
    };
    StorageOptions { pager, page_file_bytes: FILE_BYTES, ..StorageOptions::default() }
}

fn node(disk: &MemoryDisk) -> Arc<Broker> {
    start_with(Arc::new(disk.clone()), &limits())
}

fn queue(broker: &Broker) -> QueueRef {
    broker.view().queue("/", "q").unwrap()
}

fn body(n: usize) -> String {
    format!("{n:0>100}")
}

/// A client, and `n` messages in the durable queue `q` that are where they belong.
fn deep(broker: &Arc<Broker>, n: usize, kind: Kind) -> Client {
    let mut client = Client::connect(broker);
    client.declare("q", true);
    deep_in(broker, client, n, kind)
}

/// As [`deep`], in a queue that is there.
fn deep_in(broker: &Arc<Broker>, mut client: Client, n: usize, kind: Kind) -> Client {
    client.ask(Op::EnableConfirms);
    let bodies: Vec<String> = (0..n).map(body).collect();
    for part in bodies.chunks(50) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        let heard = client.publish("q", &part, kind);
        client.wait_for(heard, 1);
    }
    let n_pages_min = n * 100 / ALLOWANCE_BYTES;
    wait_until("pages to be written", || {
        queue(broker).as_classic().unwrap().inspect().pages_on_disk() > n_pages_min
    });
    client
}

/// The messages a consumer without acknowledgements gets in all, once they are `n`.
fn drained(client: &mut Client, n: usize) -> Vec<String> {
    let heard = client.consume("q", true);
    client.wait_for(heard, n + 1).split_off(1)
}

fn delivered(n: std::ops::Range<usize>, again: &str) -> Vec<String> {
    n.map(|n| format!("deliver {}{again}", body(n))).collect()
}

#[test]
fn a_deep_backlog_is_delivered_in_order_from_disk() {
    let broker = node(&MemoryDisk::new());
    for kind in [Kind::Transient, Kind::Persistent] {
        let mut client = deep(&broker, 1_000, kind);
        let left = |n: usize| format!("got {} left {}", body(n), 999 - n);
        for n in 0..300 {
            assert_eq!(client.get("q"), [left(n)]);
        }
        assert_eq!(drained(&mut client, 700), delivered(300..1_000, ""));
        client.settle(300, Outcome::Accepted);
        client.disconnect();
        assert_eq!(broker.figures().message_bytes(), 0);
        let images =
            || broker.figures().pages().0.live_blobs + broker.figures().pages().1.live_blobs;
        wait_until("the pages to be let go of", || images() == 0);
    }
}

#[test]
fn a_backlog_on_disk_is_there_after_a_crash_without_being_read() {
    let disk = MemoryDisk::new();
    let broker = node(&disk);
    let mut client = deep(&broker, 999, Kind::Persistent);
    // What the log knows of pages is durable with it.
    let heard = client.publish("q", &[&body(999)], Kind::Persistent);
    client.wait_for(heard, 1);
    let survivors = disk.survive(CrashOutcome::OnlySynced);
    let broker = node(&survivors);
    let n_pages = queue(&broker).as_classic().unwrap().inspect().pages_on_disk();
    assert!(n_pages > 1_000 * 100 / ALLOWANCE_BYTES, "{n_pages} pages are on disk");
    let mut client = Client::connect(&broker);
    assert_eq!(drained(&mut client, 1_000), delivered(0..1_000, " again"));
}

#[test]
fn a_damaged_page_is_lost_and_the_rest_of_the_queue_goes_on() {
    let disk = MemoryDisk::new();
    let broker = node(&disk);
    let mut client = deep(&broker, 999, Kind::Persistent);
    // Messages of pages that the log does not know of yet are read from there.
    let heard = client.publish("q", &[&body(999)], Kind::Persistent);
    client.wait_for(heard, 1);
    let damaged = disk.survive(CrashOutcome::Everything);
    let files = damaged.list("pages").unwrap();
    // A place may be of a page that is superfluous by now.
    for at in [1, 2, 3] {
        damaged.flip_bit(&format!("pages/{}", files[0]), FILE_BYTES as usize / 4 * at, 3);
    }
    let broker = node(&damaged);
    let mut client = Client::connect(&broker);
    let mut heard = client.consume("q", true);
    wait_until("the queue to be empty", || broker.figures().message_bytes() == 0);
    heard.extend(client.heard());
    heard.retain(|line| line.starts_with("deliver"));
    let n_lost = usize::try_from(broker.figures().losses().of_queues.n_messages).unwrap();
    assert!((1..600).contains(&n_lost), "{n_lost} are lost");
    assert_eq!(heard.len(), 1_000 - n_lost);
    assert!(heard.is_sorted(), "in order");
    assert_eq!(client.publish("q", &["next"], Kind::Transient), ["deliver next"]);
    assert_eq!(client.declare("q", true), ["declared 0 1"]);
}

/// Messages that consumers hold on to must not keep the space of those around them.
#[test]
fn few_messages_that_stay_do_not_keep_much_space() {
    const N: usize = 2_000;
    let broker = node(&MemoryDisk::new());
    let mut client = deep(&broker, N, Kind::Persistent);
    let most_bytes = broker.figures().pages().0.file_bytes;
    let heard = client.consume("q", false);
    client.wait_for(heard, N + 1);
    for _ in 0..N / 50 {
        client.settle(49, Outcome::Accepted);
        // It comes again, behind those that are settled later.
        client.settle(1, Outcome::Modified);
    }
    let n_ready = || queue(&broker).local_stat().n_ready;
    wait_until("what was given back to be delivered again", || n_ready() == 0);
    let live_bytes = broker.figures().message_bytes();
    assert!(live_bytes < most_bytes / 20, "{live_bytes} of {most_bytes}");
    wait_until("space to be given back", || {
        broker.tick(Now::at_ms(2));
        broker.figures().pages().0.file_bytes < 2 * live_bytes + 2 * u64::from(FILE_BYTES)
    });
}

#[test]
fn a_deep_queue_is_purged_and_deleted_without_being_read() {
    let disk = MemoryDisk::new();
    let broker = node(&disk);
    let mut client = deep(&broker, 1_000, Kind::Persistent);
    let purge = Op::PurgeQueue { queue: short("q") };
    assert_eq!(client.ask(purge), ["purged 1000"]);
    assert_eq!(broker.figures().message_bytes(), 0);
    deep(&broker, 1_000, Kind::Persistent);
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    let delete = Op::DeleteQueue { queue: short("q"), if_unused, if_empty };
    assert_eq!(client.ask(delete), ["deleted 1000"]);
    let images = |broker: &Broker| broker.figures().pages().0.live_blobs;
    wait_until("the pages to be let go of", || images(&broker) == 0);
    assert_eq!(broker.figures().message_bytes(), 0);
    let broker = node(&disk.survive(CrashOutcome::OnlySynced));
    assert_eq!((broker.figures().message_bytes(), images(&broker)), (0, 0));
}

/// A start does not read the pages of a queue with rules: it serves others while that is done, and keeps
/// what the rules are about.
#[test]
fn pages_that_rules_are_about_are_read_behind_the_start() {
    const N: u64 = 1_000;
    let disk = MemoryDisk::new();
    let broker = node(&disk);
    let mut client = Client::connect(&broker);
    client.declare("other", true);
    client.declare_with("q", true, &[("x-message-ttl", 60_000.into())]);
    let mut client = deep_in(&broker, client, usize::try_from(N).unwrap(), Kind::Persistent);
    client.publish("other", &["at once"], Kind::Persistent);
    let heard = client.publish("q", &["last"], Kind::Persistent);
    client.wait_for(heard, 1);
    drop((client, broker));
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let opened = Broker::open_stepped(disk, WalOptions::default(), limits().into());
    let (broker, mut steppers) = opened.unwrap();
    let mut other = Client::connect(&broker);
    let mut client = Client::connect(&broker);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || (client.get("q"), client));
        assert_eq!(other.get("other"), ["got at once again left 0"]);
        assert!(queue(&broker).is_loading() && !waiting.is_finished());
        assert_eq!(queue(&broker).local_stat().n_ready, N + 1, "as listed");
        while queue(&broker).is_loading() {
            steppers.v1.step();
        }
        while !waiting.is_finished() {
            steppers.pager.step_jobs();
            std::thread::yield_now();
        }
        let (heard, mut client) = waiting.join().unwrap();
        assert_eq!(heard, [format!("got {} again left {N}", body(0))]);
        broker.tick(Now::at_ms(50_000));
        assert_eq!(client.ask_ready("q"), N);
        broker.tick(Now::at_ms(61_000));
        while steppers.rules.step() {}
        assert_eq!(client.ask_ready("q"), 0, "their time is known");
    });
}

/// Publishers wait for a disk that does not keep up, and memory stays bounded.
#[test]
fn publishers_wait_while_pages_cannot_be_written() {
    let disk = MemoryDisk::new();
    start(&Arc::new(disk.clone())).stop().unwrap();
    let disk = Arc::new(disk.survive(CrashOutcome::Everything));
    let opened = Broker::open_stepped(disk, WalOptions::default(), limits().into());
    let (broker, steppers) = opened.unwrap();
    let mut pager = steppers.pager;
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    let mut n = 0;
    while client.session().hold() == Hold::None {
        client.publish("q", &[&body(n)], Kind::Transient);
        while pager.step_jobs() {}
        n += 1;
        assert!(n < 1_000, "{} bytes are waiting", broker.figures().message_bytes());
    }
    assert!(n > 100, "held after {n}");
    // It is synced: there is room.
    while pager.step_sync() || pager.step_jobs() {}
    assert_eq!(client.session().hold(), Hold::None);
    assert!(queue(&broker).as_classic().unwrap().inspect().pages_on_disk() > 3);
}

/// Writes definitions without the queue, which say that it was deleted or do not.
fn write_definitions_without(disk: &MemoryDisk, def: &QueueDef, broker: &Broker, is_deleted: bool) {
    broker.snapshot_definitions().unwrap();
    let (mut meta, mut gone) = (broker.view().meta.clone(), Gone::default());
    let command = Command::DeleteQueueById { id: def.id };
    meta.replay(&command).ok();
    if is_deleted {
        gone.note([&command], &[Removed::Queue(Arc::new(def.clone()))]);
    }
    let bytes = control::encode_definitions(1_000_000, &gone, &meta);
    let (stamp, _) = segments::read_stamped(disk, DEFINITIONS_FILE).unwrap().unwrap();
    segments::write_stamped(disk, DEFINITIONS_FILE, stamp.unwrap(), &bytes).unwrap();
}

/// Repairs the disk as the command line does, after damage of the definitions that leaves them readable.
fn repair(disk: &MemoryDisk) {
    let (whole, anew): (Arc<dyn Disk>, _) = (Arc::new(disk.clone()), MemoryDisk::new());
    assert!(disk.flip_bit(DEFINITIONS_FILE, 5, 0));
    let found = broker::repair(&whole, Some(Arc::new(anew.clone()))).unwrap();
    assert!(found.refusal.is_some());
    for name in &found.set_aside {
        let is_of = |file: &&(String, usize)| file.0.starts_with(name.as_str());
        disk.files().iter().filter(is_of).for_each(|(file, _)| whole.remove(file).unwrap());
        for (file, _) in anew.files().iter().filter(is_of) {
            whole.create_dir(file.rsplit_once('/').map_or("", |(dir, _)| dir)).unwrap();
            let bytes = segments::read_file(&anew, file).unwrap().unwrap();
            segments::replace_file(disk, file, &bytes).unwrap();
        }
    }
    assert!(broker::repair(&whole, None).unwrap().refusal.is_none());
}

fn n_images(broker: &Broker) -> u64 {
    broker.figures().pages().0.live_blobs
}

#[test]
fn page_images_of_a_queue_that_a_repair_does_not_know_stay_until_its_deletion_is_logged() {
    let mut disk = MemoryDisk::new();
    let broker = node(&disk);
    deep(&broker, 500, Kind::Persistent);
    let def = Arc::clone(queue(&broker).def());
    wait_until("pages to be written", || n_images(&broker) > 10);
    // A commit: the log knows of the first of them at least.
    let metadata = meta::VhostMetadata::default();
    let made = Command::CreateVhost { vhost: "other".into(), metadata };
    block_on(broker.apply_definition(made)).unwrap();
    write_definitions_without(&disk, &def, &broker, false);
    disk = disk.survive(CrashOutcome::Everything);
    drop(broker);
    repair(&disk);
    let dir = format!("queues/{}", def.id.0);
    let n_before = content::read_left_pages(&disk, def.id.0).unwrap().len() as u64;
    assert!(n_before > 0);
    for is_deleted in [false, true] {
        let broker = node(&disk);
        assert_eq!(
            (broker.figures().leftovers(), n_images(&broker)),
            (vec![dir.clone()], n_before)
        );
        let mut client = deep(&broker, 500, Kind::Persistent);
        assert!(queue(&broker).id() > def.id);
        drained(&mut client, 500);
        let deletion = Command::DeleteQueueById { id: queue(&broker).id() };
        block_on(broker.apply_definition(deletion)).unwrap();
        wait_until("other images to go", || n_images(&broker) == n_before);
        write_definitions_without(&disk, &def, &broker, is_deleted);
        disk = disk.survive(CrashOutcome::Everything);
    }
    let broker = node(&disk);
    assert_eq!((broker.figures().leftovers(), n_images(&broker)), (Vec::new(), 0));
    wait_until("the directory to go", || disk.list("queues").unwrap().is_empty());
}

#[test]
fn a_repair_notes_no_page_images_of_a_queue_whose_deletion_is_logged() {
    let mut disk = MemoryDisk::new();
    let broker = node(&disk);
    deep(&broker, 500, Kind::Persistent);
    write_definitions_without(&disk, queue(&broker).def(), &broker, true);
    disk = disk.survive(CrashOutcome::Everything);
    repair(&disk);
    let broker = node(&disk);
    assert_eq!((broker.figures().leftovers(), n_images(&broker)), (Vec::new(), 0));
}
