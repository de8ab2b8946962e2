//! Exchanges of all kinds, and the checks of what is published, as clients see them.

use crate::client::{Client, Kind, clear_policy, set_policy, short, start, table};
use broker::{Broker, BrokerOptions};
use log::WalOptions;
use message::Properties;
use meta::PolicyScope;
use session::{ExchangeBinding, Flag, Op, QueueBinding, Table, Value};
use std::sync::Arc;
use stdx::Now;
use testing::{CrashOutcome, MemoryDisk};

fn node() -> (Arc<Broker>, Client) {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let client = Client::connect(&broker);
    (broker, client)
}

fn bind_exchange(client: &mut Client, source: &str, destination: &str, key: &str) -> Vec<String> {
    client.ask(Op::BindExchange(ExchangeBinding {
        destination: short(destination),
        source: short(source),
        routing_key: short(key),
        arguments: Table::default(),
    }))
}

/// Durable queues of these names.
fn queues(client: &mut Client, names: &[&str]) {
    for name in names {
        assert_eq!(client.declare(name, true), ["declared 0 0"]);
    }
}

/// A session remembers where messages go. Another's changes of definitions are heeded at once, whether they
/// concern the exchange itself, one that it leads to, or a queue.
#[test]
fn remembered_routes_follow_what_others_change() {
    let (broker, mut publisher) = node();
    let mut other = Client::connect(&broker);
    queues(&mut other, &["q", "late", "again"]);
    let alternate = Value::LongString(b"alternate".to_vec());
    other.declare_exchange("x", "direct", &[("alternate-exchange", alternate)]);
    other.bind("x", "q", "k");
    let mut publish = |exchange: &str, key: &str| {
        publisher.publish_to(exchange, key, &["a"], Kind::Transient);
    };
    let all = [("x", "k"), ("x", "unbound"), ("", "again"), ("", "none")];
    let mut round = |expected: [u64; 3], other: &mut Client| {
        all.iter().for_each(|(exchange, key)| publish(exchange, key));
        assert_eq!(["q", "late", "again"].map(|queue| other.ask_ready(queue)), expected);
    };
    round([1, 0, 1], &mut other);
    // Nothing that concerns the routes.
    other.declare("unrelated", true);
    round([2, 0, 2], &mut other);
    // An alternate exchange that was not there before.
    other.declare_exchange("alternate", "fanout", &[]);
    other.bind("alternate", "late", "");
    round([3, 1, 3], &mut other);
    // A queue of the same name is another queue.
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    other.ask(Op::DeleteQueue { queue: short("again"), if_unused, if_empty });
    queues(&mut other, &["again"]);
    round([4, 2, 1], &mut other);
    other.bind("x", "late", "k");
    round([5, 4, 2], &mut other);
}

/// The binding key is a share, and messages with one key stay together.
#[test]
fn a_consistent_hash_exchange_shares_messages_out_by_weight() {
    let (_broker, mut client) = node();
    queues(&mut client, &["one", "three"]);
    client.declare_exchange("x", "x-consistent-hash", &[]);
    client.bind("x", "one", "1");
    client.bind("x", "three", "3");
    for n in 0..400 {
        client.publish_to("x", &format!("key {n}"), &["a", "b"], Kind::Transient);
    }
    let (one, three) = (client.ask_ready("one"), client.ask_ready("three"));
    assert_eq!((one + three, one % 2), (800, 0));
    assert!((120..280).contains(&one), "{one}");
    let refused =
        "channel failed PreconditionFailed: The binding key must be an integer: <<\"k\">>";
    assert_eq!(client.bind_with("x", "one", "k", Table::default()), [refused]);
}

/// A header or a property is hashed instead of the key.
#[test]
fn a_consistent_hash_exchange_hashes_headers_and_properties() {
    let (_broker, mut client) = node();
    queues(&mut client, &["a", "b", "c"]);
    client.declare_exchange("header", "x-consistent-hash", &[("hash-header", "user".into())]);
    client.declare_exchange("id", "x-consistent-hash", &[("hash-property", "message_id".into())]);
    for (exchange, queue) in
        ["header", "id"].into_iter().flat_map(|x| ["a", "b", "c"].map(|q| (x, q)))
    {
        client.bind(exchange, queue, "1");
    }
    let message = |user: usize| {
        let headers = Some(table(&[("user", Value::I64(user as i64))]));
        let message_id = Some(short(&format!("message {user}")));
        (Properties { headers, message_id, ..Properties::default() }, "x")
    };
    for exchange in ["header", "id"] {
        for n in 0..60 {
            // Same header and property, other keys.
            client.publish_with(exchange, &format!("key {n}"), &[message(n % 20)]);
        }
        let counts = ["a", "b", "c"].map(|queue| client.ask_ready(queue));
        assert!(counts.iter().all(|n| n % 3 == 0 && *n > 0), "{counts:?}");
        assert_eq!(counts.iter().sum::<u64>(), 60);
        for queue in ["a", "b", "c"] {
            client.ask(Op::PurgeQueue { queue: short(queue) });
        }
    }
    let both = [("hash-header", "user".into()), ("hash-property", "message_id".into())];
    let refused = client.declare_exchange("both", "x-consistent-hash", &both);
    let text = "hash-header and hash-property are mutually exclusive";
    assert_eq!(refused, [format!("channel failed PreconditionFailed: {text}")]);
    client.ask(Op::OpenChannel);
    let refused =
        client.declare_exchange("x", "x-consistent-hash", &[("hash-property", "type".into())]);
    assert_eq!(refused, ["channel failed PreconditionFailed: Unsupported property: type"]);
}

/// The same key always goes to the same queue.
#[test]
fn a_modulus_hash_exchange_chooses_by_key() {
    let (_broker, mut client) = node();
    queues(&mut client, &["a", "b"]);
    client.declare_exchange("x", "x-modulus-hash", &[]);
    client.bind("x", "a", "");
    client.bind("x", "b", "whatever");
    for n in 0..50 {
        client.publish_to("x", &format!("key {n}"), &["1", "2"], Kind::Transient);
    }
    let (a, b) = (client.ask_ready("a"), client.ask_ready("b"));
    assert_eq!((a + b, a % 2), (100, 0));
    assert!(a > 20 && b > 20, "{a} {b}");
}

#[test]
fn random_exchanges_choose_by_chance() {
    let (_broker, mut client) = node();
    queues(&mut client, &["a", "b"]);
    for kind in ["x-random", "x-local-random"] {
        client.declare_exchange(kind, kind, &[]);
        client.bind(kind, "a", "");
        client.bind(kind, "b", "");
        client.publish_to(kind, "key", &["x"; 200], Kind::Transient);
        let (a, b) = (client.ask_ready("a"), client.ask_ready("b"));
        assert_eq!(a + b, 200);
        assert!(a > 40 && b > 40, "{a} {b}");
        for queue in ["a", "b"] {
            client.ask(Op::PurgeQueue { queue: short(queue) });
        }
    }
    let refused = "channel failed PreconditionFailed: Non empty binding 'k' key not permitted";
    assert_eq!(client.bind_with("x-local-random", "a", "k", Table::default()), [refused]);
    client.ask(Op::OpenChannel);
    let refused = "channel failed PreconditionFailed: Destination not found";
    assert_eq!(bind_exchange(&mut client, "x-local-random", "x-random", ""), [refused]);
}

/// The last messages go to who is bound, but for those that shall not be kept.
#[test]
fn a_newly_bound_queue_is_given_the_recent_history() {
    let (_broker, mut client) = node();
    queues(&mut client, &["early", "late", "later"]);
    client.declare_exchange("x", "x-recent-history", &[("x-recent-history-length", Value::I32(2))]);
    client.declare_exchange("topic", "topic", &[]);
    client.bind("x", "early", "");
    client.publish_to("x", "k.1", &["a", "b"], Kind::Transient);
    let secret = table(&[("x-recent-history-no-store", Value::Bool(true))]);
    let secret = Properties { headers: Some(secret), ..Properties::default() };
    client.publish_with("x", "k.2", &[(secret, "secret"), (Properties::default(), "c")]);
    assert_eq!(client.ask_ready("early"), 4);
    assert_eq!(client.bind_with("x", "late", "any", Table::default()), ["done"]);
    assert_eq!(client.consume("late", true), ["consuming", "deliver b", "deliver c"]);
    assert_eq!(
        client.bind_with("x", "late", "any", Table::default()),
        ["done"],
        "it is bound already"
    );
    client.bind("topic", "later", "*.2");
    assert_eq!(bind_exchange(&mut client, "x", "topic", ""), ["done"]);
    assert_eq!(client.get("later"), ["got c left 0"]);
    client.publish_to("x", "k.3", &["d"], Kind::Transient);
    assert_eq!(client.heard(), Vec::<String>::new());
    for (bad, text) in [(Value::I32(0), "0"), (Value::from("2"), "<<\"2\">>")] {
        let arguments = [("x-recent-history-length", bad)];
        let refused = client.declare_exchange("y", "x-recent-history", &arguments);
        let text = format!(
            "channel failed PreconditionFailed: Invalid argument {text}, \
             'x-recent-history-length' must be a positive integer"
        );
        assert_eq!(refused, [text]);
        client.ask(Op::OpenChannel);
    }
}

/// As people write selectors, and as RabbitMQ's JMS client does.
#[test]
fn a_jms_exchange_routes_by_selectors() {
    let (_broker, mut client) = node();
    queues(&mut client, &["sql", "term", "none"]);
    client.declare_exchange("x", "x-jms-topic", &[]);
    let mut bind_with = |queue: &str, arguments: &[(&str, Value)]| {
        client.bind_with("x", queue, "ignored", table(arguments))
    };
    let sql = "colour = 'blue' AND weight > 2500".into();
    assert_eq!(bind_with("sql", &[("rabbitmq_jms_selector", sql)]), ["done"]);
    let term = "{'<=',{'ident',<<\"weight\">>},2500}.".into();
    assert_eq!(bind_with("term", &[("rjms_erlang_selector", term)]), ["done"]);
    assert_eq!(bind_with("none", &[]), ["done"]);
    let message = |colour: &str, weight: i32, body| {
        let headers = table(&[("colour", colour.into()), ("weight", weight.into())]);
        (Properties { headers: Some(headers), ..Properties::default() }, body)
    };
    let messages =
        [message("blue", 2_501, "a"), message("red", 9_999, "b"), message("red", 2_500, "c")];
    client.publish_with("x", "k", &messages);
    client.publish_to("x", "k", &["without headers"], Kind::Transient);
    assert_eq!(client.get("sql"), ["got a left 0"]);
    assert_eq!(client.get("term"), ["got c left 0"]);
    assert_eq!(client.get("none"), ["get empty"]);
    let refused = client.ask(Op::BindQueue(QueueBinding {
        queue: short("sql"),
        exchange: short("x"),
        routing_key: short(""),
        arguments: table(&[("rabbitmq_jms_selector", "colour =".into())]),
    }));
    let text = "cannot parse selector 'colour =': expected a value, found the end";
    assert_eq!(refused, [format!("channel failed PreconditionFailed: {text}")]);
}

/// By type, argument and policy; what was seen is known after a restart.
#[test]
fn messages_that_come_again_are_dropped() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    queues(&mut client, &["q"]);
    client.declare_exchange("typed", "x-message-deduplication", &[("x-cache-size", 2.into())]);
    let by = [("x-message-deduplication", true.into()), ("x-deduplication-header", "id".into())];
    client.declare_exchange("argued", "direct", &by);
    client.declare_exchange("ruled", "topic", &[]);
    set_policy(&broker, PolicyScope::User, "^ruled$", r#"{"x-message-deduplication":true}"#);
    for exchange in ["typed", "argued", "ruled"] {
        client.bind(exchange, "q", "k");
    }
    let named = |header: &str, name: &str| {
        let headers = Some(table(&[(header, name.into())]));
        (Properties { headers, ..Properties::default() }, "x")
    };
    let mut published = |exchange: &str, header: &str, names: &[&str]| {
        let messages: Vec<_> = names.iter().map(|name| named(header, name)).collect();
        client.publish_with(exchange, "k", &messages);
        let n = client.ask_ready("q");
        client.ask(Op::PurgeQueue { queue: short("q") });
        n
    };
    assert_eq!(published("typed", "x-deduplication-header", &["a", "a", "b", "c", "a", "c"]), 4);
    assert_eq!(published("argued", "id", &["a", "a"]), 1);
    assert_eq!(published("argued", "other", &["a", "a"]), 2);
    assert_eq!(published("ruled", "x-deduplication-header", &["a", "b", "a"]), 2);
    client.ask(Op::EnableConfirms);
    client.publish_to("argued", "k", &["without a name"], Kind::Mandatory);
    assert_eq!(client.publish_to("argued", "none", &["y"], Kind::Mandatory)[0], "returned y");
    client.disconnect();
    broker.stop().unwrap();
    drop(broker);
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.publish_with("argued", "k", &[named("id", "a"), named("id", "b")]);
    client.publish_with("ruled", "k", &[named("x-deduplication-header", "b")]);
    assert_eq!(client.ask_ready("q"), 1);
    let refused =
        client.declare_exchange("bad", "x-message-deduplication", &[("x-cache-size", 0.into())]);
    let text = "Invalid argument 0, 'x-cache-size' must be a positive integer";
    assert_eq!(refused, [format!("channel failed PreconditionFailed: {text}")]);
}

/// A message that a crash takes away is not told from one that comes again: its name is on disk once the
/// message is.
#[test]
fn a_message_that_a_crash_takes_away_may_come_again() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.declare_exchange("x", "x-message-deduplication", &[]);
    client.bind("x", "q", "");
    client.disconnect();
    broker.stop().unwrap();
    drop(broker);
    let publish = |client: &mut Client| {
        let headers = Some(table(&[("x-deduplication-header", "a".into())]));
        let properties = Properties { headers, delivery_mode: Some(2), ..Properties::default() };
        client.publish_with("x", "", &[(properties, "m")]);
    };
    let mut times = (1..).map(|n| Now::at_ms(n * 10_000));
    let mut pass = |broker: &Broker| broker.tick(times.next().unwrap());
    for is_durable in [false, true] {
        let disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
        let opened =
            Broker::open_stepped(disk.clone(), WalOptions::default(), BrokerOptions::default());
        let (broker, mut steppers) = opened.unwrap();
        let mut client = Client::connect(&broker);
        publish(&mut client);
        assert_eq!(client.ask_ready("q"), 1);
        pass(&broker);
        if is_durable {
            while steppers.log.step() {}
        }
        pass(&broker);
        let broker = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
        let mut client = Client::connect(&broker);
        assert_eq!(client.ask_ready("q"), u64::from(is_durable));
        publish(&mut client);
        assert_eq!(client.ask_ready("q"), 1, "once, and once only");
    }
}

/// The alternate exchange of a policy, which an argument goes before.
#[test]
fn a_policy_names_the_alternate_exchange() {
    let (broker, mut client) = node();
    queues(&mut client, &["a", "b"]);
    for exchange in ["x", "by-policy", "by-argument"] {
        client.declare_exchange(exchange, "fanout", &[]);
    }
    client.declare_exchange("y", "direct", &[("alternate-exchange", "by-argument".into())]);
    client.bind("by-policy", "a", "");
    client.bind("by-argument", "b", "");
    client.publish_to("x", "k", &["lost"], Kind::Transient);
    set_policy(&broker, PolicyScope::User, "^[xy]$", r#"{"alternate-exchange":"by-policy"}"#);
    client.publish_to("x", "k", &["1"], Kind::Mandatory);
    client.publish_to("y", "k", &["2"], Kind::Mandatory);
    assert_eq!(client.get("a"), ["got 1 left 0"]);
    assert_eq!(client.get("b"), ["got 2 left 0"]);
    clear_policy(&broker, PolicyScope::User);
    assert_eq!(client.publish_to("x", "k", &["3"], Kind::Mandatory), ["returned 3"]);
}
