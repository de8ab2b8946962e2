//! Messages that exchanges hold back.

use crate::client::{
    Client, Kind, at, block_on, clear_policy, set_policy, short, start, start_with, table, text,
};
use broker::{Broker, PagerOptions, StorageOptions};
use message::Properties;
use meta::PolicyScope;
use session::{ExchangeBinding, Flag, Op, Outcome, QueueBinding, Table, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testing::{CrashOutcome, MemoryDisk};

fn new_node() -> (Arc<MemoryDisk>, Arc<Broker>, Client) {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let client = Client::connect(&broker);
    (disk, broker, client)
}

/// An exchange of the plugin's type that routes as `kind`.
fn delaying(client: &mut Client, name: &str, kind: &str) {
    let arguments = [("x-delayed-type", text(kind))];
    assert_eq!(client.declare_exchange(name, "x-delayed-message", &arguments), ["done"]);
}

fn queue(client: &mut Client, name: &str) {
    assert_eq!(client.declare(name, true), ["declared 0 0"]);
}

fn delayed(delay: impl Into<Value>) -> Properties {
    let headers = Some(table(&[("x-delay", delay.into())]));
    Properties { headers, ..Properties::default() }
}

fn persistent(delay: impl Into<Value>) -> Properties {
    Properties { delivery_mode: Some(2), ..delayed(delay) }
}

fn held(broker: &Broker, exchange: &str) -> usize {
    block_on(broker.operations().held_back_is_known("/", exchange));
    broker.operations().held_back("/", exchange, 1_000).unwrap().len()
}

/// Messages come when their time has come, the sooner ones first, as what they were.
#[test]
fn messages_come_in_the_order_of_their_time() {
    let (_disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "direct");
    queue(&mut client, "q");
    client.bind("x", "q", "key");
    let messages = [
        (delayed(5_000), "five"),
        (delayed(1_000), "one"),
        (delayed(3_000), "three"),
        (delayed(1_000), "one too"),
        (Properties::default(), "at once"),
    ];
    client.publish_with("x", "key", &messages);
    assert_eq!(client.get("q"), ["got at once left 0"]);
    at(&broker, 1_000);
    assert_eq!(client.get("q"), ["get empty"], "they were published at 1");
    at(&broker, 1_001);
    assert_eq!(client.get_soon("q"), "got one left 1");
    let last = client.last();
    assert_eq!((&*last.exchange, &*last.key), (&b"x"[..], &b"key"[..]));
    let found = client.last_headers();
    assert_eq!(found.get(b"x-delay"), Some(&Value::I64(-1_000)));
    assert!(found.get(b"x-death").is_none() && found.get(b"x-last-death-queue").is_none());
    assert_eq!(client.get("q"), ["got one too left 0"]);
    at(&broker, 9_000);
    assert_eq!(client.get_soon("q"), "got three left 1");
    assert_eq!(client.get_soon("q"), "got five left 0");
    assert_eq!(held(&broker, "x"), 0);
}

/// A header that is no delay does not delay, whatever it looks like.
#[test]
fn what_is_no_delay_goes_on_at_once() {
    let (_disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "fanout");
    queue(&mut client, "q");
    client.bind("x", "q", "");
    for (n, value) in [
        Value::I32(0),
        Value::I32(-7),
        Value::I64(i64::from(u32::MAX) + 1),
        text("soon"),
        Value::Bool(true),
        Value::Void,
    ]
    .into_iter()
    .enumerate()
    {
        client.publish_with("x", "", &[(delayed(value.clone()), "now")]);
        assert_eq!(client.get("q"), ["got now left 0"], "{n}");
        assert_eq!(client.last_headers().get(b"x-delay"), Some(&value), "it is left alone");
    }
    for value in [text("60000"), Value::F64(60_000.5), Value::U16(60_000), Value::I64(60_000)] {
        client.publish_with("x", "", &[(delayed(value), "later")]);
    }
    assert_eq!((client.get("q"), held(&broker, "x")), (vec!["get empty".to_owned()], 4));
    // Neither is returned: nobody can say yet where they go.
    let heard = client.publish_as("x", "", &[(delayed(60_000), "later")], Kind::Mandatory);
    assert_eq!(heard, Vec::<String>::new());
    let heard = client.publish_as("x", "", &[(delayed(60_000), "later")], Kind::Immediate);
    assert_eq!(heard, Vec::<String>::new());
    at(&broker, 60_001);
    for n in (0..6).rev() {
        assert_eq!(client.get_soon("q"), format!("got later left {n}"));
        assert_eq!(client.last_headers().get(b"x-delay"), Some(&Value::I64(-60_000)));
    }
}

/// The routes are those of the time of release; all bindings and keys count, also hidden ones.
#[test]
fn released_messages_are_routed_as_if_they_came_then() {
    let (_disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "topic");
    for name in ["all", "some", "copy", "hidden", "late", "behind"] {
        queue(&mut client, name);
    }
    client.declare_exchange("next", "fanout", &[]);
    for (name, key) in [("all", "#"), ("some", "a.*"), ("copy", "c"), ("hidden", "h")] {
        client.bind("x", name, key);
    }
    client.bind("next", "behind", "");
    let keys = |key: &str| Value::Array(vec![text(key)]);
    let headers_of = table(&[("x-delay", 100.into()), ("CC", keys("c")), ("BCC", keys("h"))]);
    let properties = Properties { headers: Some(headers_of), ..Properties::default() };
    client.publish_with("x", "a.b", &[(properties, "message")]);
    assert_eq!(held(&broker, "x"), 1);
    client.bind("x", "late", "a.b");
    client.ask(Op::BindExchange(ExchangeBinding {
        destination: short("next"),
        source: short("x"),
        routing_key: short("a.#"),
        arguments: Table::default(),
    }));
    at(&broker, 101);
    for name in ["all", "some", "copy", "hidden", "late", "behind"] {
        assert_eq!(client.get_soon(name), "got message left 0", "{name}");
        let found = client.last_headers();
        assert!(found.get(b"CC").is_some() && found.get(b"BCC").is_none(), "{name}");
        assert_eq!(client.get(name), ["get empty"], "once, however many keys and bindings");
    }
}

/// Hidden keys count where the message is held back, and nobody sees them where the same
/// publish goes to a queue at once.
#[test]
fn hidden_keys_count_later_and_are_not_seen_now() {
    let (_disk, broker, mut client) = new_node();
    client.declare_exchange("source", "fanout", &[]);
    delaying(&mut client, "x", "direct");
    for name in ["now", "hidden"] {
        queue(&mut client, name);
    }
    client.bind("source", "now", "");
    client.bind("x", "hidden", "h");
    client.ask(Op::BindExchange(ExchangeBinding {
        destination: short("x"),
        source: short("source"),
        routing_key: short(""),
        arguments: Table::default(),
    }));
    let hidden = Value::Array(vec![text("h"), 7.into()]);
    let headers_of = table(&[("BCC", hidden), ("x-delay", 100.into()), ("own", text("kept"))]);
    let properties = Properties { headers: Some(headers_of), ..Properties::default() };
    client.publish_with("source", "k", &[(properties, "message")]);
    for (name, delay) in [("now", 100_i32.into()), ("hidden", Value::I64(-100))] {
        assert_eq!(client.get_soon(name), "got message left 0");
        let found = client.last_headers();
        assert!(found.get(b"BCC").is_none() && found.get(b"own").is_some(), "{name}");
        assert_eq!(found.get(b"x-delay"), Some(&delay), "{name}");
        at(&broker, 101);
    }
}

/// Large headers are stored once for the queues that have a message at once and the one that holds it
/// back, but for hidden keys, which the latter alone has.
#[test]
fn large_headers_are_held_back_whole() {
    let (disk, broker, mut client) = new_node();
    client.declare_exchange("source", "fanout", &[]);
    delaying(&mut client, "x", "fanout");
    for (name, exchange) in [("now", "source"), ("later", "x"), ("too", "x")] {
        queue(&mut client, name);
        client.bind(exchange, name, "");
    }
    client.ask(Op::BindExchange(ExchangeBinding {
        destination: short("x"),
        source: short("source"),
        routing_key: short(""),
        arguments: Table::default(),
    }));
    client.ask(Op::EnableConfirms);
    let large = text(&"h".repeat(10_000));
    for (id, hidden) in [("plain", None), ("hidden", Some(Value::Array(vec![text("h")])))] {
        let mut headers_of = table(&[("x-delay", 100.into()), ("large", large.clone())]);
        if let Some(hidden) = hidden {
            headers_of.insert(short("BCC"), hidden);
        }
        let properties = Properties { headers: Some(headers_of), ..persistent(100) };
        let heard = client.publish_with("source", "", &[(properties, id)]);
        client.wait_for(heard, 1);
    }
    drop((client, broker));
    let broker = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    let mut client = Client::connect(&broker);
    assert_eq!(held(&broker, "x"), 2);
    for (name, delay) in
        [("now", 100_i32.into()), ("later", Value::I64(-100)), ("too", Value::I64(-100))]
    {
        for id in ["plain", "hidden"] {
            assert!(client.get_soon(name).starts_with(&format!("got {id}")), "{name}");
            let found = client.last_headers();
            assert_eq!((found.get(b"large"), found.get(b"BCC")), (Some(&large), None), "{name}");
            assert_eq!(found.get(b"x-delay"), Some(&delay), "{name}");
        }
        at(&broker, 101);
    }
    let stored: u64 = broker.figures().bodies().iter().map(|(_, stats)| stats.live_blobs).sum();
    assert_eq!(
        stored, 4,
        "one for each message that is somewhere, and one for each that was released"
    );
}

/// The time to live of a message begins when it is released.
#[test]
fn an_expiration_counts_from_the_release() {
    let (_disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "direct");
    queue(&mut client, "q");
    client.bind("x", "q", "");
    let expiring = |ms: &str| Properties { expiration: Some(short(ms)), ..delayed(1_000) };
    client.publish_with("x", "", &[(expiring("50"), "short"), (expiring("500"), "long")]);
    at(&broker, 900);
    assert_eq!(held(&broker, "x"), 2);
    at(&broker, 1_001);
    assert_eq!(client.get_soon("q"), "got short left 1");
    client.settle(1, Outcome::Modified);
    at(&broker, 1_100);
    assert_eq!(client.get_soon("q"), "got long left 0");
}

/// Any exchange holds messages back if an argument or a policy says so; a policy that goes leaves
/// those alone that are waiting.
#[test]
fn arguments_and_policies_make_exchanges_delay() {
    let (_disk, broker, mut client) = new_node();
    client.declare_exchange("a", "direct", &[("x-delayed-exchange", true.into())]);
    client.declare_exchange("x", "direct", &[]);
    queue(&mut client, "q");
    client.bind("a", "q", "");
    client.bind("x", "q", "");
    client.publish_with("a", "", &[(delayed(100), "by argument")]);
    client.publish_with("x", "", &[(delayed(100), "not yet")]);
    assert_eq!(client.get("q"), ["got not yet left 0"]);
    set_policy(&broker, PolicyScope::User, "^x$", "{\"x-delayed-exchange\": true}");
    client.publish_with("x", "", &[(delayed(200), "by policy")]);
    clear_policy(&broker, PolicyScope::User);
    client.publish_with("x", "", &[(delayed(200), "no more")]);
    assert_eq!(client.get("q"), ["got no more left 0"]);
    at(&broker, 101);
    assert_eq!(client.get_soon("q"), "got by argument left 0");
    at(&broker, 201);
    assert_eq!(client.get_soon("q"), "got by policy left 0");
}

/// Persistent messages wait on through a restart and through a crash; others go with the node.
#[test]
fn persistent_messages_survive() {
    let (disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "direct");
    queue(&mut client, "q");
    client.bind("x", "q", "");
    client.ask(Op::EnableConfirms);
    let messages = [
        (persistent(5_000), "five"),
        (persistent(1_000), "one"),
        (delayed(1_000), "transient"),
        (persistent(3_000), "three"),
    ];
    let heard = client.publish_with("x", "", &messages);
    let heard = client.wait_for(heard, 1);
    assert!(heard.iter().any(|line| line.starts_with("ack ")), "{heard:?}");
    assert_eq!(held(&broker, "x"), 4);
    drop((client, broker));
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(held(&broker, "x"), 3);
    at(&broker, 1_001);
    assert_eq!(client.get_soon("q"), "got one left 0");
    assert_eq!(client.last_headers().get(b"x-delay"), Some(&Value::I64(-1_000)));
    client.settle(1, Outcome::Accepted);
    client.disconnect();
    broker.stop().unwrap();
    drop(broker);
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(held(&broker, "x"), 2);
    at(&broker, 9_000);
    assert_eq!(client.get_soon("q"), "got three left 1");
    assert_eq!(client.get_soon("q"), "got five left 0");
}

/// The queue behind an exchange is the broker's own, and goes with the exchange.
#[test]
fn clients_cannot_get_at_what_is_held_back() {
    let (_disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "direct");
    client.publish_with("x", "", &[(delayed(100), "kept")]);
    let own = "amq.delayed.x";
    let locked = |heard: Vec<String>| {
        assert!(heard[0].starts_with("channel failed ResourceLocked"), "{heard:?}");
    };
    locked(client.get(own));
    for op in [
        Op::PurgeQueue { queue: short(own) },
        Op::DeleteQueue { queue: short(own), if_unused: Flag::No, if_empty: Flag::No },
        Op::BindQueue(QueueBinding {
            queue: short(own),
            exchange: short("amq.fanout"),
            routing_key: short(""),
            arguments: Table::default(),
        }),
    ] {
        client.ask(Op::OpenChannel);
        locked(client.ask(op));
    }
    client.ask(Op::OpenChannel);
    locked(client.consume(own, false));
    client.ask(Op::OpenChannel);
    let heard = client.declare(own, true);
    assert!(heard[0].starts_with("channel failed AccessRefused"), "{heard:?}");
    client.ask(Op::OpenChannel);
    let heard = client.publish(own, &["past the exchange"], Kind::Mandatory);
    assert_eq!(heard, ["returned past the exchange"]);
    assert!(
        broker.queue("/", own).is_none()
            && block_on(broker.operations().purge_queue("/", own)).is_err()
    );
    assert_eq!(held(&broker, "x"), 1);
    client.ask(Op::DeleteExchange { exchange: short("x"), if_unused: false });
    assert!(broker.operations().held_back("/", "x", 1).is_none());
    delaying(&mut client, "x", "direct");
    assert_eq!(held(&broker, "x"), 0);
}

/// Operators look at what is held back, and take out what is not to come.
#[test]
fn operators_list_and_cancel() {
    let (disk, broker, mut client) = new_node();
    delaying(&mut client, "x", "direct");
    queue(&mut client, "q");
    client.bind("x", "q", "k");
    let messages = [(persistent(500), "b"), (persistent(300), "cancelled"), (delayed(400), "a")];
    client.publish_with("x", "k", &messages);
    let listed = broker.operations().held_back("/", "x", 2).unwrap();
    let due: Vec<u64> = listed.iter().map(|held| held.due_ms.get()).collect();
    assert_eq!(due, [301, 401]);
    let message = listed[0].message.as_ref().unwrap();
    assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), ("x", "k"));
    assert_eq!((message.body_bytes, message.persistent), (9, true));
    let id = listed[0].id;
    for (exchange, is_there) in [("none", false), ("x", true), ("x", false)] {
        assert_eq!(block_on(broker.operations().cancel_held_back("/", exchange, id)), is_there);
    }
    assert!(broker.operations().held_back("/", "amq.direct", 1).is_none());
    drop((client, broker));
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(held(&broker, "x"), 1);
    at(&broker, 1_000);
    assert_eq!(client.get_soon("q"), "got b left 0");
}

/// Operators see all of it of messages that are on disk only too, also after a crash.
#[test]
fn what_is_on_disk_is_listed_too() {
    const BATCHES: u64 = 20;
    const EACH: u64 = 50;
    let disk = Arc::new(MemoryDisk::new());
    let allowance_bytes = 16 << 10;
    let pager = PagerOptions {
        budget_bytes: allowance_bytes,
        allowance_bytes_min: allowance_bytes,
        allowance_bytes_max: allowance_bytes,
        ..PagerOptions::default()
    };
    let storage = StorageOptions { pager, ..StorageOptions::default() };
    let broker = start_with(disk.clone(), &storage);
    let mut client = Client::connect(&broker);
    delaying(&mut client, "x", "direct");
    client.ask(Op::EnableConfirms);
    for batch in 0..BATCHES {
        // The last one goes on first; and every other one does not survive.
        let messages: Vec<(Properties, String)> = (0..EACH)
            .map(|n| {
                let delay = Value::I64(i64::try_from(100_000 - batch * EACH - n).unwrap());
                let properties =
                    if n.is_multiple_of(2) { persistent(delay) } else { delayed(delay) };
                (properties, "x".repeat(200 + usize::try_from(n).unwrap()))
            })
            .collect();
        let messages: Vec<(Properties, &str)> =
            messages.iter().map(|(properties, body)| (properties.clone(), body.as_str())).collect();
        let heard = client.publish_with("x", &format!("key {batch}"), &messages);
        client.wait_for(heard, usize::try_from(EACH).unwrap());
    }
    let check = |broker: &Broker, is_expected: fn(u64) -> bool| {
        block_on(broker.operations().held_back_is_known("/", "x"));
        let listed = broker.operations().held_back("/", "x", 10_000).unwrap();
        let mut found = Vec::new();
        for held in listed {
            let message = held.message.unwrap();
            let batch: u64 = message.routing_key.strip_prefix("key ").unwrap().parse().unwrap();
            let n = batch * EACH + message.body_bytes - 200;
            assert!(
                (100_001 - n..100_100 - n).contains(&held.due_ms.get()),
                "{n} is due {}",
                held.due_ms.get()
            );
            assert_eq!((message.exchange.as_str(), message.persistent), ("x", n.is_multiple_of(2)));
            found.push(n);
        }
        found.sort_unstable();
        assert_eq!(found, (0..BATCHES * EACH).filter(|n| is_expected(*n)).collect::<Vec<_>>());
    };
    let pages_on_disk = |broker: &Broker| {
        let queue = broker.view().queue("/", "amq.delayed.x").unwrap();
        queue.as_classic().unwrap().inspect().pages_on_disk()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while pages_on_disk(&broker) < 3 {
        assert!(Instant::now() < deadline, "all pages stay in memory");
        std::thread::yield_now();
    }
    check(&broker, |_| true);
    drop((client, broker));
    let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start_with(disk, &storage);
    check(&broker, |n| n.is_multiple_of(2));
    // Nothing that was looked at is kept for it.
    let mut client = Client::connect(&broker);
    client.ask(Op::DeleteExchange { exchange: short("x"), if_unused: false });
    while broker.figures().pages().0.live_blobs > 0 {
        assert!(Instant::now() < deadline, "pages of nobody stay");
        std::thread::yield_now();
    }
}

/// A message is told from those seen before when it comes, and not once more when it is released; and
/// dead letters are held back, and told from those seen before, as publishes are.
#[test]
fn what_is_delayed_may_be_deduplicated_and_dead() {
    let (_disk, broker, mut client) = new_node();
    let both = [("x-delayed-exchange", true.into()), ("x-message-deduplication", true.into())];
    assert_eq!(client.declare_exchange("x", "direct", &both), ["done"]);
    queue(&mut client, "q");
    client.bind("x", "q", "");
    let named = |name: &str, delay: i32| {
        let headers = table(&[("x-delay", delay.into()), ("x-deduplication-header", text(name))]);
        Properties { headers: Some(headers), ..Properties::default() }
    };
    client.publish_with("x", "", &[(named("a", 100), "a"), (named("a", 100), "a again")]);
    at(&broker, 101);
    assert_eq!(client.get_soon("q"), "got a left 0");
    let arguments =
        [("x-dead-letter-exchange", text("x")), ("x-dead-letter-routing-key", text(""))];
    client.declare_with("source", true, &arguments);
    client.publish_with("", "source", &[(named("a", 5), "seen"), (named("b", 200), "b")]);
    for expected in ["got seen left 1", "got b left 0"] {
        assert_eq!(client.get("source"), [expected]);
    }
    client.settle(1, Outcome::Accepted);
    client.settle(2, Outcome::Rejected);
    let deadline = Instant::now() + Duration::from_secs(20);
    while held(&broker, "x") == 0 {
        assert!(Instant::now() < deadline, "nothing is held back");
        std::thread::yield_now();
    }
    at(&broker, 400);
    assert_eq!(client.get_soon("q"), "got b left 0");
    assert_eq!(client.get("q"), ["get empty"]);
    let found = client.last_headers();
    assert_eq!(found.get(b"x-delay"), Some(&Value::I64(-200)));
    let deaths = found.get(b"x-death").and_then(Value::as_array).unwrap();
    assert_eq!(deaths.len(), 1, "waiting is no death");
}
