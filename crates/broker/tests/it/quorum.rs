//! Quorum queues with one member, over a disk in memory.

mod at_least_once;
mod changes;
mod confirm_on;
mod exactly_once;

use crate::client::{Client, Kind, block_on, short, start, wait_until};
use broker::{Broker, QueueRef, QuorumInspection};
use content::records::QueueEntry;
use control::log_records::{self, Entry};
use log::{Salvaged, WalOptions};
use message::Properties;
use queue::machine::Command;
use segments::Disk;
use session::{Flag, Op, Outcome, Value};
use std::sync::Arc;
use stdx::record::Reader;
use testing::{CrashOutcome, MemoryDisk};

type Arguments<'a> = &'a [(&'static str, Value)];

fn node() -> (Arc<MemoryDisk>, Arc<Broker>) {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    (disk, broker)
}

fn declare(client: &mut Client, queue: &str, arguments: Arguments<'_>) -> Vec<String> {
    let mut all = vec![("x-queue-type", Value::from("quorum"))];
    all.extend_from_slice(arguments);
    client.declare_with(queue, true, &all)
}

/// The node after a crash that leaves what was synced.
fn after_crash(disk: &MemoryDisk) -> (Arc<MemoryDisk>, Arc<Broker>) {
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    (disk, broker)
}

fn confirmed(client: &mut Client, queue: &str, bodies: &[&str], kind: Kind) {
    let heard = client.publish(queue, bodies, kind);
    let heard = client.wait_for(heard, 1);
    assert!(heard.iter().all(|line| line.starts_with("ack ")));
}

#[test]
fn messages_are_confirmed_delivered_and_settled() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    assert_eq!(declare(&mut publisher, "q", &[]), ["declared 0 0"]);
    publisher.ask(Op::EnableConfirms);
    confirmed(&mut publisher, "q", &["a", "b"], Kind::Persistent);
    assert_eq!(consumer.consume("q", false), ["consuming", "deliver a", "deliver b"]);
    confirmed(&mut publisher, "q", &["c"], Kind::Transient);
    assert_eq!(consumer.heard(), ["deliver c"]);
    consumer.settle(3, Outcome::Accepted);
    assert_eq!(declare(&mut publisher, "q", &[]), ["declared 0 1"]);
    assert_eq!(broker.figures().message_bytes(), 0);
}

#[test]
fn confirmed_messages_survive_a_crash_whatever_their_mode() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.ask(Op::EnableConfirms);
    confirmed(&mut client, "q", &["a"], Kind::Transient);
    confirmed(&mut client, "q", &["b", "c"], Kind::Persistent);
    let (disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    let all = ["consuming", "deliver a again", "deliver b again", "deliver c again"];
    assert_eq!(client.consume("q", false), all);
    client.settle(1, Outcome::Accepted);
    // Covers what was settled before.
    let mut publisher = Client::connect(&broker);
    publisher.ask(Op::EnableConfirms);
    confirmed(&mut publisher, "q", &["d"], Kind::Transient);
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    let left = ["consuming", "deliver b again", "deliver c again", "deliver d again"];
    assert_eq!(client.consume("q", false), left);
}

#[test]
fn a_clean_stop_leaves_what_nobody_was_given_unmarked() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
    client.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a"]);
    client.disconnect();
    broker.stop().unwrap();
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a again", "deliver b"]);
}

#[test]
fn returned_messages_come_first_in_the_order_they_came_back() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    assert_eq!(client.get("q"), ["got a left 2"]);
    assert_eq!(client.get("q"), ["got b left 1"]);
    client.settle_newest(Outcome::Released);
    client.settle_newest(Outcome::Modified);
    assert_eq!(client.get("q"), ["got b again left 2"]);
    let n = |client: &Client, header: &[u8]| client.last_headers().get(header).cloned();
    assert_eq!(n(&client, b"x-acquired-count"), Some(Value::I64(1)));
    assert_eq!(n(&client, b"x-delivery-count"), None);
    assert_eq!(client.get("q"), ["got a again left 1"]);
    assert_eq!(n(&client, b"x-delivery-count"), Some(Value::I64(1)));
}

#[test]
fn gets_hold_messages_until_they_are_settled() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    assert_eq!(client.get("q"), ["got a left 2"]);
    assert_eq!(client.ask(Op::Get { queue: short("q"), no_ack: true }), ["got b left 1"]);
    client.disconnect();
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("q"), ["got a again left 1"]);
    client.settle(1, Outcome::Rejected);
    assert_eq!(client.get("q"), ["got c left 0"]);
    assert_eq!(client.get("q"), ["get empty"]);
    drop(disk);
}

#[test]
fn purged_and_deleted_queues_are_empty_after_a_crash() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    for queue in ["p", "d"] {
        declare(&mut client, queue, &[]);
        client.publish(queue, &["a", "b"], Kind::Persistent);
    }
    assert_eq!(client.ask(Op::PurgeQueue { queue: short("p") }), ["purged 2"]);
    let delete = |if_empty| Op::DeleteQueue { queue: short("d"), if_unused: Flag::No, if_empty };
    let refused = client.ask(delete(Flag::Yes)).concat();
    assert!(refused.contains("PreconditionFailed: queue 'd' in vhost '/' not empty"), "{refused}");
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask(delete(Flag::No)), ["deleted 2"]);
    declare(&mut client, "d", &[]);
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    for queue in ["p", "d"] {
        assert_eq!(declare(&mut client, queue, &[]), ["declared 0 0"], "{queue}");
    }
}

/// Its commands are still in the log, and the state that they follow is not.
#[test]
fn a_start_passes_over_what_is_left_of_a_deleted_queue() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    declare(&mut client, "other", &[]);
    client.ask(Op::EnableConfirms);
    let large = "x".repeat(300 * 1024);
    for _ in 0..5 {
        confirmed(&mut client, "q", &[&large], Kind::Persistent);
    }
    let n_segments = broker.figures().log().segments;
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    assert_eq!(
        client.ask(Op::DeleteQueue { queue: short("q"), if_unused, if_empty }),
        ["deleted 5"]
    );
    broker.snapshot_definitions().unwrap();
    wait_until("what was in front is freed", || {
        confirmed(&mut client, "other", &["a"], Kind::Persistent);
        broker.figures().log().segments < n_segments
    });
    let (_disk, broker) = after_crash(&disk);
    assert!(Client::connect(&broker).ask_ready("other") > 0);
}

#[test]
fn a_delivery_limit_sends_messages_to_the_dead_letter_exchange() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("dead", true);
    let to_dead = ("x-dead-letter-exchange", Value::from(""));
    let key = ("x-dead-letter-routing-key", Value::from("dead"));
    declare(&mut client, "q", &[to_dead, key, ("x-delivery-limit", Value::I64(1))]);
    client.publish("q", &["a"], Kind::Persistent);
    assert_eq!(client.get("q"), ["got a left 0"]);
    client.settle_newest(Outcome::Modified);
    assert_eq!(client.get("q"), ["got a again left 0"]);
    client.settle_newest(Outcome::Modified);
    assert_eq!(client.get_soon("dead"), "got a left 0");
    assert_eq!(client.get("q"), ["get empty"]);
}

#[test]
fn messages_expire_and_full_queues_refuse() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let refuses = ("x-overflow", Value::from("reject-publish"));
    declare(&mut client, "full", &[("x-max-length", Value::I64(1)), refuses]);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("full", &["a", "b"], Kind::Transient);
    let mut heard = client.wait_for(heard, 2);
    heard.sort();
    assert_eq!(heard, ["ack 1..=1", "nack 2..=2"]);
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[("x-message-ttl", Value::I64(1))]);
    client.publish("q", &["a"], Kind::Transient);
    broker.tick(stdx::Now::at_ms(2));
    wait_until("it expires", || client.ask_ready("q") == 0);
}

#[test]
fn priorities_go_first() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    let of = |priority| Properties { priority: Some(priority), ..Properties::default() };
    client.publish_with("", "q", &[(of(1), "low"), (of(9), "high")]);
    assert_eq!(client.get("q"), ["got high left 1"]);
}

/// One that nobody acknowledges holds back nothing else in the log.
#[test]
fn the_log_stays_short_behind_a_message_that_nobody_settles() {
    let (disk, broker) = node();
    let (mut client, mut holder) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    client.publish("q", &["held"], Kind::Persistent);
    assert_eq!(holder.get("q"), ["got held left 0"]);
    client.ask(Op::EnableConfirms);
    let mut consumer = Client::connect(&broker);
    consumer.consume("q", true);
    let large = "x".repeat(200 * 1024);
    for round in 0..60 {
        confirmed(&mut client, "q", &[&large, &large], Kind::Persistent);
        consumer.write_out();
        broker.tick(stdx::Now::at_ms(round));
    }
    let stats = broker.figures().log();
    assert!(stats.segments < 12, "{stats:?}");
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", false)[..2], ["consuming", "deliver held again"]);
}

/// Messages count beside commands, and upkeep of the node is needed for the definitions alone.
#[test]
fn a_queue_in_use_lets_go_of_the_log_by_itself() {
    let (_disk, broker) = node();
    let (mut client, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    client.ask(Op::EnableConfirms);
    consumer.consume("q", true);
    let body = "x".repeat(3000);
    let bodies = [body.as_str(); 100];
    for round in 0..100 {
        confirmed(&mut client, "q", &bodies, Kind::Persistent);
        consumer.write_out();
        if round == 50 {
            broker.tick(stdx::Now::at_ms(1));
        }
    }
    let stats = broker.figures().log();
    assert!(stats.segments < 6, "{stats:?}");
}

#[test]
fn a_publish_to_queues_of_all_types_is_confirmed_once() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare_exchange("x", "fanout", &[]);
    client.declare("c", true);
    declare(&mut client, "q", &[]);
    client.declare_with("s", true, &[("x-queue-type", Value::from("stream"))]);
    for queue in ["c", "q", "s"] {
        client.bind("x", queue, "");
    }
    client.ask(Op::EnableConfirms);
    for (number, kind) in [(1, Kind::Persistent), (2, Kind::Transient)] {
        let heard = client.publish_to("x", "", &["a"], kind);
        assert_eq!(client.wait_for(heard, 1), [format!("ack {number}..={number}")]);
    }
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask_ready("c"), 1, "a classic queue forgets what is transient");
    assert_eq!(client.ask_ready("q"), 2);
}

#[test]
fn transactions_put_in_and_settle_together() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.publish("q", &["a"], Kind::Persistent);
    client.ask(Op::EnableTransactions);
    assert_eq!(client.get("q"), ["got a left 0"]);
    client.settle(1, Outcome::Accepted);
    client.publish("q", &["b"], Kind::Transient);
    assert_eq!(client.ask(Op::Commit), ["done"]);
    let (_disk, broker) = after_crash(&disk);
    assert_eq!(Client::connect(&broker).get("q"), ["got b again left 0"]);
}

#[test]
fn one_consumer_is_active_and_what_it_holds_stays_its_own() {
    let (_disk, broker) = node();
    let (mut first, mut second) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut first, "q", &[("x-single-active-consumer", Value::Bool(true))]);
    assert_eq!(first.consume("q", false), ["consuming"]);
    assert_eq!(second.consume("q", false), ["consuming"]);
    assert_eq!(first.publish("q", &["a", "b"], Kind::Transient), ["deliver a", "deliver b"]);
    let refused = Client::connect(&broker).get("q").concat();
    assert!(
        refused.contains("ResourceLocked: cannot obtain access to locked queue 'q'"),
        "{refused}"
    );
    first.settle(1, Outcome::Accepted);
    first.disconnect();
    assert_eq!(second.heard(), ["deliver b again"]);
    assert_eq!(second.last_headers().get(b"x-delivery-count"), Some(&Value::I64(1)));
}

#[test]
fn what_the_active_consumer_held_comes_before_what_was_ready() {
    let (_disk, broker) = node();
    let (mut first, mut second) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut first, "q", &[("x-single-active-consumer", Value::Bool(true))]);
    for consumer in [&mut first, &mut second] {
        consumer.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
        assert_eq!(consumer.consume("q", false), ["consuming"]);
    }
    assert_eq!(first.publish("q", &["a", "b"], Kind::Transient), ["deliver a"]);
    first.disconnect();
    assert_eq!(second.heard(), ["deliver a again"]);
    assert_eq!(second.settle(1, Outcome::Accepted), ["deliver b"]);
}

#[test]
fn an_automatic_acknowledgement_counts_once_it_is_written() {
    let (disk, broker) = node();
    let (mut client, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(consumer.consume("q", true), ["consuming", "deliver a", "deliver b"]);
    assert_eq!(broker.figures().message_bytes(), 8, "bodies, keys and properties");
    consumer.write_out();
    assert_eq!(broker.figures().message_bytes(), 0);
    client.ask(Op::EnableConfirms);
    confirmed(&mut client, "q", &["c"], Kind::Transient);
    let (_disk, broker) = after_crash(&disk);
    assert_eq!(Client::connect(&broker).get("q"), ["got c again left 0"]);
}

/// One that acknowledges nothing is given so many until they are written.
#[test]
fn automatic_acknowledgement_has_two_thousand_under_way() {
    let (_disk, broker) = node();
    let (mut client, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    for _ in 0..21 {
        client.publish("q", &["m"; 100], Kind::Transient);
    }
    assert_eq!(consumer.consume("q", true).len(), 1 + 2_000);
    assert_eq!(client.ask_ready("q"), 100);
    assert_eq!(consumer.write_out().len(), 100);
}

#[test]
fn a_cancelled_consumer_keeps_what_it_holds() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    client.ask(Op::SetPrefetch { prefetch_count: 2, global: false });
    let consuming = client.consume_with("q", "tag", false, &[]);
    assert_eq!(consuming, ["consuming", "deliver a", "deliver b"]);
    assert_eq!(client.ask(Op::Detach { consumer_tag: short("tag") }), ["cancelled"]);
    client.settle(1, Outcome::Accepted);
    assert_eq!(client.get("q"), ["got c left 0"]);
    let again = client.consume_with("q", "tag", false, &[]);
    assert_eq!(again, ["consuming"]);
    assert_eq!(client.settle(1, Outcome::Released), ["deliver b again"]);
}

/// Messages that its outbox had no room for were not tried.
#[test]
fn what_a_cancelled_consumer_was_not_sent_goes_back() {
    let (_disk, broker) = node();
    let (mut client, mut other) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b"], Kind::Transient);
    client.fill_up(true);
    assert_eq!(client.consume_with("q", "tag", false, &[]), ["consuming", "deliver a"]);
    assert_eq!(client.ask(Op::Detach { consumer_tag: short("tag") }), ["cancelled"]);
    assert_eq!(other.get("q"), ["got b again left 0"]);
    assert_eq!(other.last_headers().get(b"x-delivery-count"), None);
}

#[test]
fn consumers_that_leave_together_are_not_given_what_the_others_held() {
    let (_disk, broker) = node();
    let (mut client, mut other) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    client.consume_with("q", "one", false, &[]);
    client.consume_with("q", "two", false, &[]);
    client.publish("q", &["a"], Kind::Transient);
    client.disconnect();
    assert_eq!(other.get("q"), ["got a again left 0"]);
    assert_eq!(other.last_headers().get(b"x-delivery-count"), Some(&Value::I64(1)));
}

/// Also if the other consumer would have taken it.
#[test]
fn what_consumers_that_leave_together_were_not_sent_was_not_tried() {
    let (_disk, broker) = node();
    let (mut client, mut other) = (Client::connect(&broker), Client::connect(&broker));
    declare(&mut client, "q", &[]);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    client.fill_up(true);
    assert_eq!(client.consume_with("q", "one", false, &[]), ["consuming", "deliver a"]);
    assert_eq!(client.consume_with("q", "two", false, &[]), ["consuming"]);
    client.disconnect();
    let mut tried = Vec::new();
    for left in (0..3).rev() {
        let got = other.get("q").concat();
        assert!(got.ends_with(&format!(" again left {left}")), "{got}");
        tried.extend(other.last_headers().get(b"x-delivery-count").map(|_| got));
    }
    assert_eq!(tried.len(), 1, "{tried:?}");
    assert!(tried.concat().starts_with("got a "), "{tried:?}");
}

/// The first bytes of the message that would be given out as the `nth`.
fn body_start_at(broker: &Broker, nth: usize) -> String {
    let Some(QueueRef::Quorum(queue)) = broker.queue("/", "q") else { panic!("it is there") };
    let peeked = block_on(QuorumInspection::of(&queue).peek(nth));
    let start = peeked.map(|it| it.body_start.iter().take(5).copied().collect());
    String::from_utf8(start.unwrap_or_default()).unwrap()
}

/// Most of it is in pages, also after a crash.
#[test]
fn a_deep_queue_is_drained_in_order() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.ask(Op::EnableConfirms);
    let bodies: Vec<String> = (0..300).map(|n| format!("{n:05}{}", "x".repeat(40_000))).collect();
    for some in bodies.chunks(20) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        confirmed(&mut client, "q", &some, Kind::Persistent);
    }
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask_ready("q"), 300);
    assert_eq!(body_start_at(&broker, 0), "00000");
    assert_eq!(body_start_at(&broker, 150), "00150");
    assert_eq!(body_start_at(&broker, 299), "00299");
    assert_eq!(body_start_at(&broker, 300), "", "there are no more");
    for (n, body) in bodies.iter().enumerate() {
        let left = bodies.len() - n - 1;
        assert!(client.get("q") == [format!("got {body} again left {left}")], "{n}");
        client.settle(1, Outcome::Accepted);
    }
}

/// The numbers of consumers in the commands that the log has.
fn logged_consumers(disk: &Arc<MemoryDisk>) -> Vec<u64> {
    let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(disk);
    let mut consumers = Vec::new();
    let mut visit = |entry: log::Entry<'_>| {
        if let Ok(Entry::Queue(_, QueueEntry::Commands { commands })) = log_records::parse(&entry) {
            let mut reader = Reader::new(commands);
            while let Ok((_, command)) = Command::read(&mut reader) {
                match command {
                    Command::Attach(terms) => consumers.push(terms.consumer),
                    Command::Get(get) => consumers.push(get.consumer),
                    _ => {}
                }
            }
        }
        Ok(())
    };
    Salvaged::read(&disk, &WalOptions::default(), &mut visit).unwrap();
    consumers
}

#[test]
fn a_number_of_a_consumer_tells_the_node_and_its_life() {
    let (mut disk, mut broker) = node();
    let mut expected = Vec::new();
    for boot in 1..4 {
        let mut client = Client::connect(&broker);
        declare(&mut client, "q", &[]);
        client.get("q");
        client.consume("q", false);
        let mut publisher = Client::connect(&broker);
        publisher.ask(Op::EnableConfirms);
        confirmed(&mut publisher, "q", &["covers what was before"], Kind::Persistent);
        let base = 1 << 48 | boot << 32;
        expected.extend([base | 1, base | 2]);
        assert_eq!(logged_consumers(&disk), expected);
        (disk, broker) = after_crash(&disk);
    }
}
