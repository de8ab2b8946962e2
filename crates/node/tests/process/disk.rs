//! Disks that are full, slow, broken or forgetful: nothing confirmed is lost, nothing is delivered
//! damaged, and the node says what happened.

use super::data_dir_formats;
use super::durability::Proof;
use super::support::faults::Fault;
use super::support::node::Node;
use super::support::{copy_dir, wait_until};
use amqp091::method::{BasicGet, QueueDeclare};
use amqp091::{ShortString, Table, TableRef, Value};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use testing::Random;
use testing::client::Client;

/// Starts of nodes on flipped bits.
const N_FLIPS: usize = 24;

fn assert_told(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "\"{part}\" is not in \"{told}\"");
    }
}

/// The node ends by itself under full load, says why, and has lost nothing when it starts again.
fn fails(fault: Fault, dir: &str, parts: &[&str]) {
    let mut proof = Proof::start(Node::start_on_faulty_disk);
    for _ in 0..2 {
        proof.traffic(|node| {
            node.let_disk_fail(fault, dir);
            let told = node.expect_failure();
            assert_told(&told, &["the log has failed: ", dir]);
            assert_told(&told, parts);
        });
        proof.node.mend_disk(fault);
        proof.node.start_again();
        proof.check();
    }
}

#[test]
fn a_sync_that_fails_ends_the_node_and_loses_nothing_confirmed() {
    fails(Fault::SyncFails, "wal", &["cannot sync", "Input/output error"]);
    fails(Fault::SyncFails, "pages", &["cannot sync", "Input/output error"]);
}

#[test]
fn a_disk_without_space_ends_the_node_and_loses_nothing_confirmed() {
    fails(Fault::NoSpace, "wal", &["No space left on device"]);
    fails(Fault::NoSpace, "pages", &["cannot write", "No space left on device"]);
}

#[test]
fn pages_that_cannot_be_read_end_the_node_and_are_there_later() {
    fails(Fault::ReadFails, "pages", &["cannot read", "Input/output error"]);
}

#[test]
fn a_start_on_a_disk_that_fails_says_so_and_changes_nothing() {
    let mut proof = Proof::start(Node::start_on_faulty_disk);
    proof.traffic(Node::kill);
    for fault in [Fault::NoSpace, Fault::SyncFails, Fault::ReadFails] {
        proof.node.let_disk_fail(fault, "");
        let told = proof.node.try_start_again().unwrap_err();
        assert_told(&told, &["leveret: ", "(os error "]);
        proof.node.mend_disk(fault);
    }
    proof.node.start_again();
    proof.check();
    proof.node.stop();
}

#[test]
fn slow_syncs_only_take_longer() {
    let mut proof = Proof::start(Node::start_on_faulty_disk);
    proof.node.let_disk_fail(Fault::SlowSync, "");
    proof.traffic(Node::kill);
    proof.node.start_again();
    proof.check();
    proof.node.stop();
}

/// Queues in the older form are read behind the start, on this disk for some seconds.
#[test]
fn queues_that_are_still_being_read_make_only_their_own_clients_wait() {
    const N_QUEUES: usize = 8;
    const N_EACH: usize = 5;
    let mut node = Node::start_on_faulty_disk(&[]);
    let mut client = Client::guest(node.address());
    let names: Vec<String> = (0..N_QUEUES).map(|number| format!("older-{number}")).collect();
    names.iter().for_each(|name| declare_older(&mut client, name));
    client.declare("plain");
    client.select_confirms();
    for name in names.iter().map(String::as_str).chain(["plain"]) {
        for number in 0..N_EACH {
            client.put_content("", name, 2, &data_dir_formats::body(number, 100));
        }
    }
    client.wait_for_confirms();
    node.kill();
    node.let_disk_fail(Fault::SlowSync, "queues");
    node.start_again();
    let address = node.address();
    let mut waiting: Vec<Client> = names.iter().map(|_| Client::guest(address)).collect();
    // All ask, then others are served meanwhile, and at last each has its answer.
    for (client, name) in waiting.iter_mut().zip(&names).rev() {
        client.say(1, BasicGet { queue: name.as_bytes(), no_ack: true, ..BasicGet::default() });
    }
    let mut other = Client::guest(address);
    other.round_trip();
    (0..N_EACH)
        .for_each(|n| assert_eq!(other.get("plain").unwrap().body, data_dir_formats::body(n, 100)));
    for (client, name) in waiting.iter_mut().zip(&names) {
        assert_eq!(client.message().unwrap().body, data_dir_formats::body(0, 100));
        for number in 1..N_EACH {
            assert_eq!(client.get(name).unwrap().body, data_dir_formats::body(number, 100));
        }
        assert!(client.get(name).is_none());
    }
    node.mend_disk(Fault::SlowSync);
    node.stop();
}

fn declare_older(client: &mut Client, name: &str) {
    let arguments: Table =
        [(ShortString::from_static("x-queue-version"), Value::I32(1))].into_iter().collect();
    let arguments = arguments.to_bytes();
    let (queue, arguments) = (name.as_bytes(), TableRef::trusted(&arguments));
    let declare = QueueDeclare { queue, arguments, durable: true, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

/// A copy of the sample of a node that was killed, and the one file of its log.
fn sample() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    copy_dir(&data_dir_formats::samples().join("format-1/killed"), &home.path().join("data"));
    let wal = home.path().join("data/wal");
    let file = std::fs::read_dir(wal).unwrap().next().unwrap().unwrap().path();
    (home, file)
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_log_is_told_with_its_place_or_does_no_harm() {
    let mut random = Random::by_chance();
    let mut n_refused = 0;
    for _ in 0..N_FLIPS {
        let (home, file) = sample();
        // What follows the last sync is taken for a write that power was lost in.
        change(&file, |bytes| {
            let at = random.below(bytes.len() * 9 / 10);
            bytes[at] ^= 1 << random.below(8);
        });
        match Node::try_start_in(home) {
            Ok(node) => data_dir_formats::check(&node, true, 1),
            Err((_, told)) => {
                assert_told(&told, &["wal/00000000000000000001.wal is corrupt at byte "]);
                n_refused += 1;
            }
        }
    }
    assert!(n_refused > 0);
}

#[test]
fn a_write_that_power_was_lost_in_does_no_harm() {
    let mut random = Random::by_chance();
    for n_bytes in [1, 100, 5000, 70_000] {
        let (home, file) = sample();
        let torn = random.bytes(n_bytes);
        change(&file, |bytes| bytes.extend_from_slice(&torn));
        let node = Node::start_in(home);
        data_dir_formats::check(&node, true, 1);
        node.stop();
    }
}

const PAGED: &str = "paged";
const N_PAGED: usize = 400;
/// Of a queue that may have next to nothing in memory no page is larger, if its messages are small.
const PAGE_BYTES: usize = 16 << 10;

fn paged_body(number: usize) -> Vec<u8> {
    data_dir_formats::body(number, 200 + number * 3)
}

/// The home of a node that was stopped with a deep queue, so that all its pages are in use.
fn paged() -> TempDir {
    let node = Node::start(&["backlog_memory=0"]);
    let mut client = Client::guest(node.address());
    client.declare(PAGED);
    client.select_confirms();
    for number in 0..N_PAGED {
        client.put_content("", PAGED, 2, &paged_body(number));
    }
    client.wait_for_confirms();
    wait_until("most of it is paged", || node.bytes_in("pages") > N_PAGED as u64 * 600);
    node.stop_and_leave()
}

/// Takes everything: what comes is whole and in order. How many bytes are lost, which the node tells.
fn lost_bytes(node: &Node) -> usize {
    let mut client = Client::guest(node.address());
    let (mut next, mut lost_bytes) = (0, 0);
    while let Some(message) = client.get(PAGED) {
        let number = (next..N_PAGED).find(|number| paged_body(*number) == message.body);
        let number = number.expect("a message that was published, behind those before it");
        lost_bytes += (next..number).map(|number| paged_body(number).len()).sum::<usize>();
        next = number + 1;
    }
    lost_bytes += (next..N_PAGED).map(|number| paged_body(number).len()).sum::<usize>();
    let is_told = || node.log().contains("messages are lost: ");
    if lost_bytes > 0 {
        wait_until("the loss is told", is_told);
    } else {
        assert!(!is_told());
    }
    lost_bytes
}

#[test]
fn a_flipped_bit_in_pages_costs_one_page_and_is_told() {
    let home = paged();
    let mut random = Random::by_chance();
    let mut n_noticed = 0;
    for _ in 0..N_FLIPS {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&home.path().join("data"), &copy.path().join("data"));
        let pages = std::fs::read_dir(copy.path().join("data/pages")).unwrap();
        let pages: Vec<PathBuf> = pages.map(|file| file.unwrap().path()).collect();
        change(&pages[random.below(pages.len())], |bytes| {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        });
        let lost_bytes = lost_bytes(&Node::start_in(copy));
        assert!(lost_bytes <= PAGE_BYTES, "{lost_bytes} bytes are lost");
        n_noticed += usize::from(lost_bytes > 0);
    }
    assert!(n_noticed > 0);
}
