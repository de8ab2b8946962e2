//! Streams where queues of other types are too: exchanges, dead letters, confirms, policies, defaults.

use crate::client::{
    Client, Kind, at, block_on, set_policy, short, start, table, text, wait_until,
};
use broker::Broker;
use message::Properties;
use meta::{Command, PolicyScope, VhostMetadata};
use session::{Flag, Op, Outcome, Value};
use std::sync::Arc;
use testing::MemoryDisk;

/// A client with confirms and a prefetch limit, and the stream `s`.
fn client(broker: &Arc<Broker>) -> Client {
    let mut client = Client::connect(broker);
    declare(&mut client, "s", &[]);
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    assert_eq!(client.ask(Op::SetPrefetch { prefetch_count: 99, global: false }), ["done"]);
    client
}

fn declare(client: &mut Client, name: &str, arguments: &[(&'static str, Value)]) {
    let kind = ("x-queue-type", text("stream"));
    let declared = client.declare_with(name, true, &[&[kind], arguments].concat());
    assert!(matches!(&*declared, [one] if one.starts_with("declared")), "{declared:?}");
}

/// The bodies of all messages of a stream.
fn all(client: &mut Client, stream: &str) -> Vec<String> {
    let heard = client.consume_with(stream, stream, false, &[("x-stream-offset", text("first"))]);
    let bodies = heard.iter().filter_map(|one| one.strip_prefix("deliver "));
    bodies.map(str::to_owned).collect()
}

#[test]
fn exchanges_of_every_type_route_into_streams() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client(&broker);
    let kinds = [
        ("direct", vec![], "key"),
        ("fanout", vec![], ""),
        ("topic", vec![], "key.#"),
        ("headers", vec![], ""),
        ("x-consistent-hash", vec![], "1"),
        ("x-modulus-hash", vec![], "1"),
        ("x-random", vec![], ""),
        ("x-recent-history", vec![], ""),
        ("x-local-random", vec![], ""),
        ("x-message-deduplication", vec![("x-cache-size", Value::I32(9))], ""),
        ("x-delayed-message", vec![("x-delayed-type", text("fanout"))], ""),
    ];
    for (kind, arguments, key) in kinds {
        declare(&mut client, kind, &[]);
        assert_eq!(client.declare_exchange(kind, kind, &arguments), ["done"], "{kind}");
        client.bind(kind, kind, key);
        client.publish_to(kind, "key", &[kind], Kind::Persistent);
        assert_eq!(all(&mut client, kind), [kind]);
    }
}

/// They are taken at most once: a stream has no part in what is noted of a dead letter.
#[test]
fn dead_letters_go_into_streams_with_their_history() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client(&broker);
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("s"))];
    client.declare_with("q", true, &dead);
    for kind in [Kind::Transient, Kind::Persistent] {
        let heard = client.publish("q", &["a"], kind);
        assert_eq!(client.wait_for(heard, 1).len(), 1);
    }
    let mut consumer = Client::connect(&broker);
    assert_eq!(consumer.consume("q", false).len(), 3);
    assert_eq!(all(&mut client, "s"), [""; 0]);
    consumer.settle(2, Outcome::Rejected);
    let mut heard = Vec::new();
    wait_until("both are there", || {
        heard.extend(client.resume());
        heard == ["deliver a", "deliver a"]
    });
    let headers = client.last_headers();
    let Some(Value::Array(deaths)) = headers.get(b"x-death") else { panic!("{headers:?}") };
    let Value::Table(death) = &deaths[0] else { panic!("{deaths:?}") };
    let what = |key: &[u8]| death.get(key).and_then(Value::as_bytes).map(<[u8]>::to_vec);
    assert_eq!((what(b"queue"), what(b"reason")), (Some(b"q".into()), Some(b"rejected".into())));
    assert_eq!(death.get(b"count").and_then(Value::as_i64), Some(1));
    assert_eq!(headers.get(b"x-first-death-queue").and_then(Value::as_bytes), Some(&b"q"[..]));
    assert_eq!(client.look_up("q"), ["declared 0 1"]);
}

#[test]
fn a_publish_to_a_stream_and_a_queue_waits_for_each_by_its_own_rule() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client(&broker);
    client.declare_with("q", true, &[("x-confirm-on", text("ack"))]);
    client.bind("amq.fanout", "q", "");
    client.bind("amq.fanout", "s", "");
    let mut consumer = Client::connect(&broker);
    assert_eq!(consumer.consume("q", false), ["consuming"]);
    assert_eq!(client.publish("s", &["alone"], Kind::Persistent), ["ack 1..=1"]);
    assert_eq!(client.publish_to("amq.fanout", "", &["a", "b"], Kind::Persistent), [""; 0]);
    assert_eq!(all(&mut client, "s"), ["alone", "a", "b"], "the stream waits for nobody");
    consumer.settle(1, Outcome::Accepted);
    assert_eq!(client.wait_for(Vec::new(), 1), ["ack 2..=2"]);
    consumer.settle(1, Outcome::Rejected);
    let heard = client.wait_for(Vec::new(), 1);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].ends_with("3..=3"), "{heard:?}");
}

#[test]
fn confirms_of_streams_never_wait_for_consumers() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    set_policy(&broker, PolicyScope::User, ".*", r#"{"confirm-on":"ack","max-age":"1D"}"#);
    let mut client = client(&broker);
    assert_eq!(client.publish("s", &["a"], Kind::Persistent), ["ack 1..=1"]);
    for (argument, value) in [
        ("x-confirm-on", text("ack")),
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-max-priority", Value::I32(3)),
        ("x-dead-letter-exchange", text("")),
        ("x-overflow", text("reject-publish")),
    ] {
        let arguments = [("x-queue-type", text("stream")), (argument, value)];
        let heard = Client::connect(&broker).declare_with("t", true, &arguments).concat();
        let refused = format!(
            "channel failed PreconditionFailed: invalid arg '{argument}' for queue 't' in vhost '/' of \
             queue type rabbit_stream_queue"
        );
        assert_eq!(heard, refused);
    }
    for (durable, arguments) in [
        (false, vec![("x-queue-type", text("stream"))]),
        (true, vec![("x-queue-type", text("stream")), ("x-max-age", text("soon"))]),
        (true, vec![("x-queue-type", text("stream")), ("x-max-length-bytes", Value::I32(-1))]),
    ] {
        let heard = Client::connect(&broker).declare_with("t", durable, &arguments).concat();
        assert!(heard.starts_with("channel failed PreconditionFailed"), "{heard}");
    }
}

#[test]
fn a_vhost_whose_queues_are_streams_makes_them_of_what_lasts() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let default_queue_type = Some("stream".into());
    let metadata = VhostMetadata { default_queue_type, ..VhostMetadata::default() };
    let update = Command::UpdateVhost { vhost: "/".into(), metadata };
    block_on(broker.apply_definition(update)).unwrap();
    let mut client = client(&broker);
    assert_eq!(client.declare("lasts", true), ["declared 0 0"]);
    client.publish("lasts", &["a"], Kind::Transient);
    assert_eq!(all(&mut client, "lasts"), ["a"]);
    // COMPAT: one that does not last stays classic.
    assert_eq!(client.declare("passes", false), ["declared 0 0"]);
    client.publish("passes", &["a"], Kind::Transient);
    assert_eq!(client.get("passes"), ["got a left 0"]);
    declare(&mut client, "lasts", &[]);
}

#[test]
fn policies_and_operators_cut_streams_off_while_they_are_used() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client(&broker);
    let body = "x".repeat(1_000);
    let publish = |client: &mut Client, n: usize| {
        for _ in 0..n {
            let heard = client.publish("s", &[&body], Kind::Transient);
            client.wait_for(heard, 1);
        }
        let declared = client.look_up("s").concat();
        declared.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(publish(&mut client, 20), 20);
    set_policy(
        &broker,
        PolicyScope::User,
        "^s$",
        r#"{"stream-max-segment-size-bytes":5000,"max-length-bytes":20000}"#,
    );
    let n = publish(&mut client, 40);
    assert!((10..30).contains(&n), "{n} messages are left");
    set_policy(&broker, PolicyScope::Operator, "^s$", r#"{"max-length-bytes":8000}"#);
    let n = publish(&mut client, 20);
    assert!((2..14).contains(&n), "{n} messages are left: the smaller limit counts");
    // Age counts from a chunk's time to the next segment.
    crate::client::clear_policy(&broker, PolicyScope::Operator);
    set_policy(
        &broker,
        PolicyScope::User,
        "^s$",
        r#"{"stream-max-segment-size-bytes":5000,"max-age":"10s"}"#,
    );
    let before = publish(&mut client, 20);
    assert!(before > 20, "{before}");
    at(&broker, 60_000);
    let n = publish(&mut client, 12);
    assert!(n < 20, "{n} messages are left of {before}");
}

#[test]
fn consumers_say_in_many_ways_where_they_begin() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client(&broker);
    for (ms, body) in [(10_000, "a"), (3_600_000, "b"), (7_200_000, "c")] {
        at(&broker, ms);
        let heard = client.publish("s", &[body], Kind::Transient);
        // Its chunk has the time at which it is written.
        client.wait_for(heard, 1);
    }
    let now = 7_200_000;
    let cases: [(Value, &[&str]); 13] = [
        (text("first"), &["a", "b", "c"]),
        (text("last"), &["c"]),
        (text("next"), &[]),
        (Value::I64(1), &["b", "c"]),
        (Value::I32(2), &["c"]),
        (Value::U8(0), &["a", "b", "c"]),
        (Value::I64(99), &[]),
        (Value::I64(-2), &["b", "c"]),
        (Value::I32(-1_000), &["a", "b", "c"]),
        (Value::Timestamp(now / 1_000), &["c"]),
        (text("90m"), &["b", "c"]),
        (text("1h"), &["b", "c"]),
        (text("7D"), &["a", "b", "c"]),
    ];
    for (tag, (offset, expected)) in (0..).zip(cases) {
        let what = format!("{offset:?}");
        let arguments = [("x-stream-offset", offset)];
        let heard = client.consume_with("s", &format!("c{tag}"), false, &arguments);
        let bodies: Vec<_> = heard.iter().filter_map(|it| it.strip_prefix("deliver ")).collect();
        assert_eq!(bodies, expected, "{what}");
    }
    for offset in [text("soon"), text("-5m"), Value::Bool(true), Value::F64(1.0)] {
        let what = format!("{offset:?}");
        let mut other = self::client(&broker);
        let heard = other.consume_with("s", "c", false, &[("x-stream-offset", offset)]).concat();
        assert!(heard.starts_with("channel failed PreconditionFailed"), "{what}: {heard}");
    }
}

/// Its publishers and consumers go on as those of a queue that is deleted.
#[test]
fn a_stream_may_be_deleted_while_everybody_uses_it() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let user = |broker: &Arc<Broker>| {
        let mut user = Client::connect(broker);
        user.ask(Op::EnableConfirms);
        user.ask(Op::SetPrefetch { prefetch_count: 99, global: false });
        let declared = user.declare_with("s", true, &[("x-queue-type", text("stream"))]).concat();
        assert!(declared.starts_with("declared"), "{declared}");
        user
    };
    let users = [false, true].map(|consumes| {
        let (broker, stop) = (Arc::clone(&broker), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut n = 0;
            while n == 0 || !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let mut user = user(&broker);
                for _ in 0..9 {
                    let heard = user.publish("s", &["a", "b"], Kind::Transient);
                    assert_eq!(
                        user.wait_for(heard, 1).len(),
                        1,
                        "it is confirmed, wherever it went"
                    );
                }
                if consumes {
                    // It may be gone, which is an error of the channel.
                    user.consume_with("s", "c", false, &[("x-stream-offset", text("first"))]);
                    user.resume();
                }
                user.disconnect();
                n += 1;
            }
            n
        })
    });
    let mut owner = Client::connect(&broker);
    for _ in 0..200 {
        let (queue, if_unused, if_empty) = (short("s"), Flag::No, Flag::No);
        assert_eq!(owner.ask(Op::DeleteQueue { queue, if_unused, if_empty }), ["deleted 0"]);
        std::thread::yield_now();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for user in users {
        assert!(user.join().unwrap() > 0);
    }
}

#[test]
fn messages_come_out_as_they_went_in() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client(&broker);
    let headers = table(&[("n", Value::I64(-7)), ("t", text("hare"))]);
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    client.publish_with("", "s", &[(properties, "a")]);
    assert_eq!(all(&mut client, "s"), ["a"]);
    let headers = client.last_headers();
    assert_eq!(headers.get(b"n").and_then(Value::as_i64), Some(-7));
    assert_eq!(headers.get(b"t").and_then(Value::as_bytes), Some(&b"hare"[..]));
}
