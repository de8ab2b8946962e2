//! Streams as clients of AMQP 0-9-1 use them: read by whoever likes, from where he likes, and never emptied.

use crate::client::{Client, Kind, start, start_set, text};
use broker::{Broker, BrokerOptions, StreamDurability, StreamOptions};
use message::Properties;
use session::{Op, Outcome, Value};
use std::sync::Arc;
use testing::{CrashOutcome, Fault, MemoryDisk};

/// A client of the stream `s`, with confirms and a prefetch limit.
fn client(broker: &Arc<Broker>) -> Client {
    let mut client = Client::connect(broker);
    declare(&mut client, "s");
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    assert_eq!(client.ask(Op::SetPrefetch { prefetch_count: 3, global: false }), ["done"]);
    client
}

fn declare(client: &mut Client, name: &str) {
    let declared = client.declare_with(name, true, &[("x-queue-type", text("stream"))]);
    assert!(matches!(&*declared, [one] if one.starts_with("declared")), "{declared:?}");
}

fn read_from(client: &mut Client, tag: &str, offset: Value) -> Vec<String> {
    client.consume_with("s", tag, false, &[("x-stream-offset", offset)])
}

fn offset(client: &Client) -> Option<i64> {
    client.last_headers().get(b"x-stream-offset").and_then(Value::as_i64)
}

#[test]
fn a_stream_is_read_by_everybody_for_as_long_as_it_has_it() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut publisher = client(&broker);
    assert_eq!(publisher.publish("s", &["a", "b"], Kind::Transient), ["ack 1..=2"]);
    for _ in 0..2 {
        let mut consumer = client(&broker);
        let heard = read_from(&mut consumer, "c", text("first"));
        assert_eq!(heard, ["consuming", "deliver a", "deliver b"]);
        assert_eq!(offset(&consumer), Some(1));
        assert_eq!(consumer.settle(2, Outcome::Accepted), [""; 0]);
        assert_eq!(consumer.look_up("s"), ["declared 2 1"], "nothing is taken out");
        consumer.disconnect();
    }
}

#[test]
fn who_waits_at_the_end_is_told_of_more() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let (mut publisher, mut consumer) = (client(&broker), client(&broker));
    assert_eq!(read_from(&mut consumer, "c", text("next")), ["consuming"]);
    for body in ["a", "b"] {
        assert_eq!(publisher.publish("s", &[body], Kind::Persistent).len(), 1);
        assert_eq!(consumer.resume(), [format!("deliver {body}")]);
    }
    assert_eq!(publisher.publish("s", &["c", "d", "e"], Kind::Transient).len(), 1);
    assert_eq!(consumer.resume(), ["deliver c"], "as many as its prefetch limit says");
    assert_eq!(consumer.settle(1, Outcome::Released), ["deliver d"], "nothing comes back");
    assert_eq!(consumer.settle(1, Outcome::Rejected), ["deliver e"]);
    assert_eq!(consumer.n_unsettled(), 3);
}

#[test]
fn an_outbox_without_room_is_given_the_rest_later() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut consumer = client(&broker);
    consumer.publish("s", &["a", "b", "c"], Kind::Transient);
    consumer.fill_up(true);
    assert_eq!(read_from(&mut consumer, "c", text("first")), ["consuming", "deliver a"]);
    consumer.fill_up(false);
    assert_eq!(consumer.resume(), ["deliver b", "deliver c"]);
}

#[test]
fn link_credit_is_used_up_by_deliveries_and_by_a_drain() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut consumer = client(&broker);
    consumer.publish("s", &["a", "b", "c", "d"], Kind::Transient);
    let from = [("x-stream-offset", text("first"))];
    let link = consumer.consume_by_credit_with("s", "c", false, &from);
    assert_eq!(consumer.flow(link, 0, 2, "echo"), ["deliver a", "deliver b", "credit 2+0 of 2"]);
    assert_eq!(consumer.settle(2, Outcome::Accepted), [""; 0], "settling gives no credit");
    consumer.fill_up(true);
    assert_eq!(consumer.flow(link, 2, 5, "drain"), ["deliver c"]);
    consumer.fill_up(false);
    assert_eq!(consumer.resume(), ["deliver d", "credit 7+0 of 0 drained"]);
    consumer.publish("s", &["e"], Kind::Transient);
    assert_eq!(consumer.resume(), [""; 0]);
    assert_eq!(consumer.flow(link, 6, 2, ""), ["deliver e"], "one was not seen");
    assert_eq!(consumer.flow(link, 8, 0, "drain"), ["credit 8+0 of 0 drained"]);
}

#[test]
fn deliveries_by_link_credit_may_be_settled_at_once() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut consumer = client(&broker);
    consumer.publish("s", &["a", "b", "c"], Kind::Transient);
    let from = [("x-stream-offset", text("first"))];
    let link = consumer.consume_by_credit_with("s", "c", true, &from);
    assert_eq!(consumer.flow(link, 0, 2, "echo"), ["deliver a", "deliver b", "credit 2+0 of 1"]);
    let mut held = std::collections::BTreeMap::new();
    broker.view().queue("/", "s").unwrap().as_stream().unwrap().count_held(&mut held);
    assert_eq!(held.into_values().sum::<u64>(), 0, "nothing waits to be settled");
    assert_eq!(consumer.flow(link, 2, 5, "drain"), ["deliver c", "credit 7+0 of 0 drained"]);
}

#[test]
fn readers_begin_where_they_say() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = client(&broker);
    client.publish("s", &["a", "b"], Kind::Transient);
    client.publish("s", &["c", "d"], Kind::Transient);
    let cases: [(&str, Value, &[&str]); 6] = [
        ("first", text("first"), &["a", "b", "c"]),
        ("last", text("last"), &["c", "d"]),
        ("next", text("next"), &[]),
        ("offset", Value::I64(3), &["d"]),
        ("from the end", Value::I64(-3), &["b", "c", "d"]),
        ("time", Value::Timestamp(0), &["a", "b", "c"]),
    ];
    for (tag, from, expected) in cases {
        let heard = read_from(&mut client, tag, from);
        let delivered: Vec<_> =
            heard.iter().filter_map(|one| one.strip_prefix("deliver ")).collect();
        assert_eq!(delivered, expected, "{tag}");
    }
}

#[test]
fn chunks_without_the_wanted_filter_value_are_passed_over() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = client(&broker);
    for (value, body) in [("eu", "a"), ("us", "b"), ("eu", "c")] {
        let headers = crate::client::table(&[("x-stream-filter-value", text(value))]);
        let properties = Properties { headers: Some(headers), ..Properties::default() };
        client.publish_with("", "s", &[(properties, body)]);
    }
    client.publish("s", &["plain"], Kind::Transient);
    let first = ("x-stream-offset", text("first"));
    let filter = ("x-stream-filter", text("eu"));
    let heard = client.consume_with("s", "eu", false, &[first.clone(), filter.clone()]);
    assert_eq!(heard, ["consuming", "deliver a", "deliver c"]);
    let unfiltered = ("x-stream-match-unfiltered", Value::Bool(true));
    let heard = client.consume_with("s", "all", false, &[first, filter, unfiltered]);
    assert_eq!(heard, ["consuming", "deliver a", "deliver c", "deliver plain"]);
}

#[test]
fn what_streams_do_not_do_is_refused() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let s = "queue 's' in vhost '/'";
    let refused = |ask: &mut dyn FnMut(&mut Client) -> Vec<String>| {
        let mut client = client(&broker);
        ask(&mut client).concat()
    };
    let told = refused(&mut |client| client.get("s"));
    assert!(told.contains(&format!("basic.get not supported by stream queues {s}")), "{told}");
    let told =
        refused(&mut |client| client.ask(Op::PurgeQueue { queue: crate::client::short("s") }));
    assert!(told.contains(&format!("queue.purge not supported by stream queues {s}")), "{told}");
    let told = refused(&mut |client| client.consume("s", true));
    assert!(told.contains("automatic acknowledgement not supported by stream"), "{told}");
    let told = refused(&mut |client| {
        client.ask(Op::SetPrefetch { prefetch_count: 0, global: false });
        client.consume("s", false)
    });
    assert!(told.contains("consumer prefetch count is not set for stream"), "{told}");
    let told = refused(&mut |client| {
        client.consume_with("s", "c", false, &[("x-priority", Value::I32(1))])
    });
    assert!(told.contains("invalid arg 'x-priority' for queue 's'"), "{told}");
}

#[test]
fn a_stream_that_is_deleted_is_gone_for_those_who_read_it() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let (mut owner, mut consumer) = (client(&broker), client(&broker));
    owner.publish("s", &["a"], Kind::Transient);
    read_from(&mut consumer, "c", text("first"));
    let delete = Op::DeleteQueue {
        queue: crate::client::short("s"),
        if_unused: session::Flag::No,
        if_empty: session::Flag::Yes,
    };
    assert_eq!(owner.ask(delete), ["deleted 0"], "whether it is empty is not asked");
    assert_eq!(consumer.heard(), ["consumer lost"]);
    declare(&mut owner, "s");
    assert_eq!(read_from(&mut owner, "c", text("first")), ["consuming"], "it is another one");
}

#[test]
fn exchanges_route_into_streams_and_queues_alike() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = client(&broker);
    client.declare("q", true);
    client.bind("amq.fanout", "q", "");
    client.bind("amq.fanout", "s", "");
    let heard = client.publish_to("amq.fanout", "key", &["a"], Kind::Persistent);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=1"]);
    assert_eq!(client.get("q"), ["got a left 0"]);
    assert_eq!(read_from(&mut client, "c", text("first")), ["consuming", "deliver a"]);
    assert_eq!(client.last().key, b"key");
}

#[test]
fn what_was_confirmed_as_synced_is_there_after_a_power_cut() {
    let mut disk = Arc::new(MemoryDisk::new());
    let streams = StreamOptions { durability: StreamDurability::Fsync, ..StreamOptions::default() };
    let settings = || BrokerOptions { streams, ..BrokerOptions::default() };
    for round in 1..=3 {
        let broker = start_set(disk.clone(), settings());
        let mut publisher = client(&broker);
        let heard = publisher.publish("s", &["a", "b"], Kind::Transient);
        assert_eq!(publisher.wait_for(heard, 1), ["ack 1..=2"]);
        let left = disk.survive(CrashOutcome::OnlySynced);
        drop((publisher, broker));
        disk = Arc::new(left);
        let broker = start_set(disk.clone(), settings());
        let mut client = client(&broker);
        assert_eq!(client.look_up("s"), [format!("declared {} 0", 2 * round)]);
        drop((client, broker));
    }
}

/// Whoever has asked for the deletion has no answer then: the stream is there, with all that was confirmed.
#[test]
fn a_stream_whose_deletion_is_not_logged_keeps_its_messages_and_takes_more() {
    let disk = Arc::new(MemoryDisk::new());
    let streams = StreamOptions { durability: StreamDurability::Fsync, ..StreamOptions::default() };
    let settings = || BrokerOptions { streams, ..BrokerOptions::default() };
    let broker = start_set(disk.clone(), settings());
    let mut publisher = client(&broker);
    let heard = publisher.publish("s", &["a", "b"], Kind::Transient);
    assert_eq!(publisher.wait_for(heard, 1), ["ack 1..=2"]);
    disk.inject(disk.operations(), Fault::Io);
    let queue = crate::client::short("s");
    let (if_unused, if_empty) = (session::Flag::No, session::Flag::No);
    let heard = publisher.ask(Op::DeleteQueue { queue, if_unused, if_empty });
    assert!(heard[0].contains("failed InternalError"), "{heard:?}");
    let left = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    drop((publisher, broker));
    let mut client = client(&start_set(left, settings()));
    assert_eq!(client.look_up("s"), ["declared 2 0"]);
    let heard = client.publish("s", &["c"], Kind::Transient);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=1"]);
    let heard = read_from(&mut client, "c", text("first"));
    assert_eq!(heard, ["consuming", "deliver a", "deliver b", "deliver c"]);
}
