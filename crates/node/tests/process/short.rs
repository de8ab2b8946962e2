//! A disk below its limit, and full: the node writes nothing of its own accord, lives, starts again and
//! serves consumers; nothing confirmed is lost.

use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::volume::Volume;
use super::support::wait_until;
use amqp091::method::{BasicAck, QueueDeclare, QueueDelete};
use amqp091::{ShortString, Table, TableRef, Value};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::{Duration, Instant};
use testing::client::Client;

const BODY_BYTES: usize = 9_000;
/// Unconfirmed messages of the publisher.
const WINDOW: usize = 50;
/// The default of `disk_free_limit`.
const LIMIT_BYTES: u64 = 50_000_000;
/// Time to live of the messages that are dead-lettered.
const TTL_MS: i32 = 3_000;
/// No request of a consumer takes longer.
const WAIT_MAX: Duration = Duration::from_secs(2);

const MORTAL: &str = "mortal";
const LETTERS: &str = "letters";
const DEEP: &str = "deep";
const DRAINED: &str = "drained";
/// Messages for those who only consume.
const N_DRAINED: usize = 600;

/// None, and why, on a machine that gives no process a file system of its own.
fn start(bytes: u64, settings: &[&str]) -> Option<(Node, Volume)> {
    match Node::start_on_volume(bytes, settings) {
        Ok(started) => Some(started),
        Err(reason) => {
            let told = format!("no disk has a limit of its own here: {}\n", reason.trim());
            std::io::stderr().write_all(told.as_bytes()).unwrap();
            None
        }
    }
}

fn body(number: usize) -> Vec<u8> {
    let mut body = format!("{number}|").into_bytes();
    body.resize(BODY_BYTES, b"abcdefg"[number % 7]);
    body
}

fn number_of(found: &[u8]) -> usize {
    let digits = found.split(|byte| *byte == b'|').next().unwrap();
    let number = std::str::from_utf8(digits).unwrap().parse().unwrap();
    assert_eq!(found, body(number), "a message is damaged");
    number
}

fn declare_mortal(client: &mut Client) {
    let text = |text: &str| Value::LongString(text.as_bytes().to_vec());
    let arguments: Table = [
        ("x-message-ttl", Value::I32(TTL_MS)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(LETTERS)),
    ]
    .into_iter()
    .map(|(name, value)| (ShortString::from_static(name), value))
    .collect();
    let arguments = arguments.to_bytes();
    let declare = QueueDeclare {
        queue: MORTAL.as_bytes(),
        durable: true,
        arguments: TableRef::trusted(&arguments),
        ..QueueDeclare::default()
    };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

/// Publishes for those who only consume.
fn fill_drained(client: &mut Client) {
    client.declare(DRAINED);
    for number in 0..N_DRAINED {
        client.put_content("", DRAINED, 2, &body(number));
    }
    client.wait_for_confirms();
}

/// Publishes until it has to wait, or `is_enough`. The numbers of those that are confirmed.
fn publish(client: &mut Client, queue: &str, is_enough: impl Fn() -> bool) -> BTreeSet<usize> {
    let n_before = client.n_published();
    let mut n_sent = 0;
    while !is_enough() {
        while client.unconfirmed.len() < WINDOW {
            client.put_content("", queue, 2, &body(n_sent));
            n_sent += 1;
        }
        client.flush();
        if client.try_confirmed().is_err() {
            break;
        }
    }
    let waits = |number: &usize| client.unconfirmed.contains(&(n_before + *number as u64 + 1));
    (0..n_sent).filter(|number| !waits(number)).collect()
}

fn n_ready(node: &Node, queue: &str) -> usize {
    let listed = node.ctl(&["list_queues", "name", "messages_ready", "-q"]);
    let line = listed.lines().find(|line| line.split('\t').next() == Some(queue));
    line.unwrap().split('\t').nth(1).unwrap().parse().unwrap()
}

/// Takes messages, and acknowledges each. The longest it had to wait.
fn drain(node: &Node, numbers: std::ops::Range<usize>) -> Duration {
    let mut worst = Duration::ZERO;
    let (mut client, watch) = (Client::guest(node.address()), Stopwatch::of(node));
    for number in numbers {
        watch.longest(&mut worst, || {
            let message = client.get_to_ack(DRAINED).unwrap();
            assert_eq!(number_of(&message.body), number);
            client.say(1, BasicAck { delivery_tag: message.tag, multiple: false });
        });
    }
    client.close();
    worst
}

/// Takes everything out of a queue that has at least these.
fn expect_all(node: &Node, queue: &str, mut confirmed: BTreeSet<usize>) {
    let mut client = Client::guest(node.address());
    wait_until("all to have come", || {
        while let Some(message) = client.get(queue) {
            confirmed.remove(&number_of(&message.body));
        }
        confirmed.is_empty()
    });
    client.close();
}

/// Writes the rest of the volume full.
fn fill_up(node: &Node, volume: &Volume) {
    let mut filler = std::fs::File::create(node.data_dir().join("filler")).unwrap();
    let zeroes = vec![0; 4_096];
    while filler.write_all(&zeroes).is_ok() {}
    assert_eq!(volume.free_bytes(), 0);
}

/// On a full disk it is killed, starts and serves consumers, over and over.
fn survives_full(node: &mut Node, volume: &Volume) {
    fill_up(node, volume);
    let mut worst = drain(node, 0..N_DRAINED / 4);
    for quarter in 1..4 {
        node.put_down();
        let started = Instant::now();
        node.start_again();
        let from = n_gone(node);
        eprintln!(
            "it starts on the full disk in {:?}; {from} messages are gone",
            started.elapsed()
        );
        worst = worst.max(drain(node, from..(quarter + 1) * N_DRAINED / 4));
    }
    eprintln!(
        "on the full disk a consumer waits {worst:?} at most, {} bytes are free",
        volume.free_bytes()
    );
    assert!(worst < WAIT_MAX, "{worst:?}");
    let mut client = Client::guest(node.address());
    let declare = QueueDeclare { queue: b"new", durable: true, ..QueueDeclare::default() };
    let answer = client.ask(1, declare);
    if answer == "queue.declare-ok" {
        // What consumers took, and a start removed, left space enough to make the reserve again.
        assert!(node.data_dir().join("reserve").exists(), "declared while the reserve is in use");
    } else {
        let refusal = "406 PRECONDITION_FAILED - no disk space for new definitions";
        assert!(answer.contains(refusal), "{answer}");
    }
    client.open_channel(2);
    let delete = QueueDelete { queue: DRAINED.as_bytes(), ..QueueDelete::default() };
    assert_eq!(client.ask(2, delete), "queue.delete-ok");
    client.close();
    std::fs::remove_file(node.data_dir().join("filler")).unwrap();
}

/// The number of drained messages that are gone: of those acknowledged before a kill some come back.
fn n_gone(node: &Node) -> usize {
    N_DRAINED - n_ready(node, DRAINED)
}

fn expect_recovery(node: &Node, volume: &Volume) {
    volume.resize(1 << 30);
    wait_until("the alarm to clear", || {
        let log = node.log();
        let last = log.lines().rev().find(|line| line.contains("disk resource limit alarm"));
        last.unwrap().contains("alarm cleared")
    });
    let mut client = Client::guest(node.address());
    client.declare("after");
    client.select_confirms();
    (0..100).for_each(|number| client.put_content("", "after", 2, &body(number)));
    client.wait_for_confirms();
    client.close();
}

#[test]
fn dead_letters_wait_while_the_disk_is_short_of_space() {
    let Some((mut node, volume)) = start(160 << 20, &[]) else { return };
    let mut client = Client::guest(node.address());
    client.declare(LETTERS);
    declare_mortal(&mut client);
    client.select_confirms();
    fill_drained(&mut client);
    let confirmed = publish(&mut client, MORTAL, || false);
    // The space that the node frees meanwhile does not end the alarm.
    let spare = vec![0; usize::try_from(LIMIT_BYTES / 2).unwrap()];
    std::fs::write(node.data_dir().join("spare"), spare).unwrap();
    let free_at_alarm = volume.free_bytes();
    wait_until("all to have expired", || n_ready(&node, MORTAL) == 0);
    let (n_letters, free) = (n_ready(&node, LETTERS), volume.free_bytes());
    eprintln!(
        "{} are confirmed, {n_letters} dead-lettered before the alarm; {free_at_alarm} bytes were free, now {free}",
        confirmed.len()
    );
    assert!(n_letters < confirmed.len(), "nothing had to wait");
    assert!(free + (16 << 20) > free_at_alarm, "the node has gone on writing");
    survives_full(&mut node, &volume);
    expect_recovery(&node, &volume);
    expect_all(&node, LETTERS, confirmed);
    node.put_down();
}

#[test]
fn what_waits_to_be_dead_lettered_can_be_purged() {
    let Some((mut node, volume)) = start(160 << 20, &[]) else { return };
    let mut client = Client::guest(node.address());
    client.declare(LETTERS);
    declare_mortal(&mut client);
    client.select_confirms();
    publish(&mut client, MORTAL, || false);
    wait_until("all to have expired", || n_ready(&node, MORTAL) == 0);
    let free = volume.free_bytes();
    node.ctl(&["purge_queue", MORTAL]);
    wait_until("the alarm to clear", || node.log().contains("disk resource limit alarm cleared"));
    eprintln!("{free} bytes were free before the purge, {} after it", volume.free_bytes());
    node.put_down();
}

#[test]
fn a_conversion_waits_while_the_disk_is_short_of_space() {
    // Bodies in the body store would only be named anew, which takes no space.
    let embedded = ["queue_index_embed_msgs_below=10000"];
    let Some((mut node, volume)) = start(200 << 20, &embedded) else { return };
    let mut client = Client::guest(node.address());
    client.declare(DEEP);
    client.select_confirms();
    fill_drained(&mut client);
    let almost = || volume.free_bytes() < LIMIT_BYTES + (24 << 20);
    let confirmed = publish(&mut client, DEEP, almost);
    client.wait_for_confirms();
    node.ctl(&["set_policy", "older", "^deep$", r#"{"queue-version": 1}"#]);
    wait_until("the alarm", || node.log().contains("disk resource limit alarm set"));
    eprintln!("{} are confirmed, {} bytes are free", confirmed.len(), volume.free_bytes());
    survives_full(&mut node, &volume);
    expect_recovery(&node, &volume);
    expect_all(&node, DEEP, confirmed);
    node.put_down();
}
