//! A filesystem that is really full: the node says so, makes publishers wait, and starts again; nothing
//! confirmed is lost. One that takes nothing at all ends it.
//!
//! A machine that gives processes no filesystem of their own gets the disk of `support/faults.c`, which
//! only acts as if it were full, and says so, whether or not the output of tests is shown.

use super::support::faults::Fault;
use super::support::node::Node;
use super::support::volume::Volume;
use super::support::wait_until;
use amqp091::method::{QueueBind, QueuePurge};
use std::collections::BTreeSet;
use std::io::Write as _;
use testing::client::Client;

const VOLUME_BYTES: u64 = 80 << 20;
/// The volume's larger size: more than twice what the log keeps beyond its need.
const ROOMY_BYTES: u64 = 256 << 20;
/// Confirmed on a disk that is not really small before it is as if it were full.
const N_BEFORE_FAULT: usize = 2_000;
/// More than fits into the volume.
const N_SENT_MAX: usize = 100_000;
/// No alarm comes before the disk is full.
const NO_ALARM: &str = "disk_free_limit.absolute=1";
/// Bodies are stored in the log, and apart when they go to several queues.
const BODY_BYTES: [usize; 4] = [12, 300, 3_000, 20_000];
const QUEUES: [&str; 3] = ["full-a", "full-b", "full-c"];
const FANOUT: &str = "amq.fanout";
/// Unconfirmed messages of the publisher.
const WINDOW: usize = 50;

/// A disk that can become full.
enum Disk {
    Volume(Volume),
    Pretended,
}

impl Disk {
    fn start(settings: &[&str]) -> (Node, Self) {
        match Node::start_on_volume(VOLUME_BYTES, settings) {
            Ok((node, volume)) => (node, Self::Volume(volume)),
            Err(reason) => {
                // Not by a macro, whose output is kept from who runs tests.
                let told =
                    format!("no disk is really full here, one only acts so: {}\n", reason.trim());
                std::io::stderr().write_all(told.as_bytes()).unwrap();
                (Node::start_on_faulty_disk(settings), Self::Pretended)
            }
        }
    }

    /// Publishers wait, and it starts again; or the node ends.
    fn expect_shortage(&self, node: &mut Node) {
        match self {
            Self::Volume(volume) => {
                node.expect_logged(1, "disk full while writing ");
                node.put_down();
                node.start_again();
                eprintln!("{} bytes are left", volume.free_bytes());
                node.put_down();
            }
            Self::Pretended => {
                let told = node.expect_failure();
                assert!(told.contains("the log has failed: "), "{told}");
                assert!(told.contains("No space left on device"), "{told}");
                // On a disk that is still full it may start, or says why it does not.
                match node.try_start_again() {
                    Ok(()) => node.put_down(),
                    Err(told) => assert!(told.contains("No space left on device"), "{told}"),
                }
            }
        }
    }

    fn give_space(&self, node: &Node) {
        match self {
            Self::Volume(volume) => volume.resize(ROOMY_BYTES),
            Self::Pretended => node.mend_disk(Fault::NoSpace),
        }
    }
}

fn body(number: usize) -> Vec<u8> {
    let mut body = format!("{number}|").into_bytes();
    body.resize(body.len() + BODY_BYTES[number % BODY_BYTES.len()], b"abcdefg"[number % 7]);
    body
}

/// The queues a message goes to.
fn queues_of(number: usize) -> &'static [&'static str] {
    match number % 5 {
        0 => &QUEUES,
        of => &QUEUES[of % 3..=of % 3],
    }
}

fn put(client: &mut Client, number: usize) {
    match queues_of(number) {
        [queue] => client.put_content("", queue, 2, &body(number)),
        _ => client.put_content(FANOUT, "", 2, &body(number)),
    }
}

fn declare_all(node: &Node) {
    let mut client = Client::guest(node.address());
    for queue in QUEUES {
        client.declare(queue);
        let (queue, exchange) = (queue.as_bytes(), FANOUT.as_bytes());
        let bind = QueueBind { queue, exchange, ..QueueBind::default() };
        assert_eq!(client.ask(1, bind), "queue.bind-ok");
    }
    client.close();
}

/// Publishes messages from number 0 on until the connection ends. How many were sent, and which of them
/// were not confirmed.
fn publish(node: &Node, mut when_confirmed: impl FnMut(usize)) -> (usize, BTreeSet<usize>) {
    let mut client = Client::guest(node.address());
    client.select_confirms();
    let (mut n_sent, mut n_confirmed) = (0, 0);
    loop {
        assert!(n_sent < N_SENT_MAX, "the disk does not fill up");
        while client.unconfirmed.len() < WINDOW {
            put(&mut client, n_sent);
            n_sent += 1;
        }
        if client.try_flush().is_err() {
            break;
        }
        let Ok(confirmed) = client.try_confirmed() else { break };
        n_confirmed += confirmed.len();
        when_confirmed(n_confirmed);
    }
    // Publishes are counted from 1.
    let unconfirmed = client.unconfirmed.iter().map(|tag| usize::try_from(*tag).unwrap() - 1);
    (n_sent, unconfirmed.collect())
}

/// Takes everything: of `n_sent` messages those that were confirmed are there, whole and in order.
fn check(node: &Node, n_sent: usize, unconfirmed: &BTreeSet<usize>) {
    let mut client = Client::guest(node.address());
    for queue in QUEUES {
        let mut numbers = (0..n_sent).filter(|number| queues_of(*number).contains(&queue));
        let may_lack =
            |number: usize| assert!(unconfirmed.contains(&number), "{queue} lacks {number}");
        while let Some(message) = client.get(queue) {
            let found = numbers.by_ref().find(|number| {
                let is_it = body(*number) == message.body;
                is_it || {
                    may_lack(*number);
                    false
                }
            });
            assert!(found.is_some(), "{queue} gives what was not sent, or not in order");
        }
        numbers.for_each(may_lack);
    }
    client.close();
}

fn fills(settings: &[&str]) {
    let settings: Vec<&str> = settings.iter().copied().chain([NO_ALARM]).collect();
    let (mut node, disk) = Disk::start(&settings);
    declare_all(&node);
    let mut is_full = false;
    let (n_sent, unconfirmed) = publish(&node, |n_confirmed| {
        if matches!(disk, Disk::Pretended) && n_confirmed >= N_BEFORE_FAULT && !is_full {
            node.let_disk_fail(Fault::NoSpace, "");
            is_full = true;
        }
    });
    disk.expect_shortage(&mut node);
    eprintln!("{n_sent} messages, {} are not confirmed", unconfirmed.len());
    disk.give_space(&node);
    node.start_again();
    check(&node, n_sent, &unconfirmed);
    // What was taken gives its space back, and the node goes on.
    let mut client = Client::guest(node.address());
    client.select_confirms();
    for number in 0..100 {
        put(&mut client, number);
    }
    client.wait_for_confirms();
    client.close();
    node.put_down();
    node.start_again();
    check(&node, 100, &BTreeSet::new());
}

#[test]
fn a_full_disk_makes_publishers_wait_and_loses_nothing_confirmed() {
    fills(&[]);
}

#[test]
fn a_disk_full_of_pages_makes_publishers_wait_and_loses_nothing_confirmed() {
    fills(&["backlog_memory=0"]);
}

#[test]
fn before_a_disk_is_full_publishers_wait_and_go_on_when_there_is_space() {
    let limit = ROOMY_BYTES / 2;
    let setting = format!("disk_free_limit.absolute={limit}");
    let (node, volume) = match Node::start_on_volume(ROOMY_BYTES, &[&setting]) {
        Ok(started) => started,
        Err(reason) => {
            let told = format!("no disk has a limit of its own here: {}\n", reason.trim());
            return std::io::stderr().write_all(told.as_bytes()).unwrap();
        }
    };
    declare_all(&node);
    let mut publisher = Client::guest(node.address());
    let mut other = Client::guest(node.address());
    let mut number = 0;
    // Until it is told to wait: nothing else comes to it, since it asks for no confirms.
    while volume.free_bytes() >= limit {
        for _ in 0..WINDOW {
            put(&mut publisher, number);
            number += 1;
        }
        publisher.flush();
    }
    node.expect_logged(1, "disk resource limit alarm set");
    put(&mut publisher, number);
    publisher.flush();
    assert_eq!(publisher.next().show(), "connection.blocked low on disk");
    // Others make room, and are served.
    for queue in QUEUES {
        let purge = QueuePurge { queue: queue.as_bytes(), ..QueuePurge::default() };
        assert_eq!(other.ask(1, purge), "queue.purge-ok");
    }
    wait_until("the alarm to clear", || node.log().contains("limit alarm cleared"));
    assert_eq!(publisher.next().show(), "connection.unblocked");
    node.stop();
}
