//! Data directories of earlier nodes open, and hold what they held: `tests/data/README.md`.
//!
//! [`fill`] says what is in each of them, [`check`] reads all of it back. A directory made by the
//! present binary goes the same way, so that the two cannot drift apart.

mod later;

use super::support::node::Node;
use super::support::{copy_dir, wait_until};
use amqp091::method::{
    BasicAck, BasicQos, ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete,
    QueuePurge,
};
use amqp091::{Properties, ShortString, Table, TableRef, Value};
use std::path::{Path, PathBuf};
use testing::client::{Client, Login, Message};

/// Bodies of these sizes are in queue `sizes`, around the limit from which bodies are kept apart.
const SIZES: [usize; 7] = [0, 12, 4095, 4096, 4097, 5000, 40_000];
const N_DEEP: usize = 300;
/// Queues, policies and messages of any format.
const QUEUES: &[&str] = &[
    "acked\t\t50",
    "arguments\t\t0",
    "deep\tlong\t300",
    "lost-1\t\t1",
    "lost-2\t\t1",
    "purged\t\t1",
    "sizes\t\t7",
];
/// The samples: directory, how its node ended, and its format.
const SAMPLES: &[(&str, bool, u32)] = &[
    ("format-1/killed", true, 1),
    ("format-1/stopped", false, 1),
    ("format-2/killed", true, 2),
    ("format-2/stopped", false, 2),
    ("format-3/killed", true, 3),
    ("format-3/stopped", false, 3),
    ("format-4/killed", true, 4),
    ("format-4/stopped", false, 4),
    ("format-5/killed", true, 5),
    ("format-5/stopped", false, 5),
    ("format-6/killed", true, 6),
    ("format-6/stopped", false, 6),
    ("format-7/killed", true, 7),
    ("format-7/stopped", false, 7),
    ("format-8/killed", true, 8),
    ("format-8/stopped", false, 8),
    ("format-9/killed", true, 9),
    ("format-9/stopped", false, 9),
    ("format-10/killed", true, 10),
    ("format-10/stopped", false, 10),
];

fn text(text: &str) -> ShortString {
    ShortString::new(text).unwrap()
}

fn table(entries: &[(&str, Value)]) -> Table {
    entries.iter().map(|(name, value)| (text(name), value.clone())).collect()
}

pub(super) fn body(number: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 + at / 251 + number * 7).to_le_bytes()[0]).collect()
}

fn properties(number: usize) -> Properties {
    Properties {
        content_type: Some(text("text/plain")),
        headers: Some(table(&[("number", Value::I64(i64::try_from(number).unwrap()))])),
        delivery_mode: Some(2),
        priority: Some(3),
        correlation_id: Some(text(&format!("number {number}"))),
        timestamp: Some(1_700_000_000),
        ..Properties::default()
    }
}

/// Everything a check looks at, made through the node's doors.
fn fill(node: &Node, format: u32) {
    define(node);
    let mut client = connect(node);
    declare(&mut client);
    let pattern = "^(sizes|nobody|m)";
    node.ctl(&["set_topic_permissions", "-p", "shop", "carol", "orders", pattern, ".*"]);
    client.select_confirms();
    for (number, size) in SIZES.into_iter().enumerate() {
        client.put_message("orders", "sizes.a", &properties(number), &body(number, size));
        client.put_content("orders", "sizes.a", 1, b"transient");
    }
    for number in 0..N_DEEP {
        client.put_message("", "deep", &properties(number), &body(number, 12));
    }
    for number in 0..60 {
        client.put_message("", "acked", &properties(number), &body(number, 20));
    }
    for queue in ["purged", "deleted"] {
        for number in 0..5 {
            client.put_message("", queue, &properties(number), &body(number, 4096));
        }
    }
    client.put_message("orders", "nobody", &properties(0), &body(0, 5000));
    client.wait_for_confirms();
    settle(node);
    let purge = QueuePurge { queue: b"purged", ..QueuePurge::default() };
    assert_eq!(client.ask(1, purge), "queue.purge-ok");
    let delete = QueueDelete { queue: b"deleted", ..QueueDelete::default() };
    assert_eq!(client.ask(1, delete), "queue.delete-ok");
    // Confirmed behind the purge and the acknowledgements, so these are as durable.
    client.put_message("", "purged", &properties(5), &body(5, 30));
    client.wait_for_confirms();
    later::fill(node, &mut client, format);
    client.close();
}

fn define(node: &Node) {
    for words in [
        &["add_vhost", "shop", "--description", "the shop", "--tags", "a,b"][..],
        &["add_user", "carol", "secret"],
        &["set_user_tags", "carol", "monitoring"],
        &["set_permissions", "-p", "shop", "carol", ".*", ".*", ".*"],
        &["set_policy", "-p", "shop", "long", "^d", r#"{"max-length":5000}"#, "--priority", "3"],
        &["set_vhost_limits", "-p", "shop", r#"{"max-queues":50}"#],
        &["set_user_limits", "carol", r#"{"max-channels":7}"#],
        &["set_global_parameter", "motto", r#""no message lost""#],
    ] {
        node.ctl(words);
    }
}

fn connect(node: &Node) -> Client {
    let login = Login {
        user: "carol",
        password: "secret",
        vhost: "shop",
        channel_max: 7,
        ..Login::default()
    };
    let mut client = Client::login(node.address(), login);
    client.open_channel(1);
    client
}

fn declare(client: &mut Client) {
    let lost = table(&[("alternate-exchange", "lost".into())]).to_bytes();
    for (exchange, kind, arguments) in [
        (b"lost".as_slice(), b"fanout".as_slice(), &[][..]),
        (b"orders", b"topic", &lost),
        (b"marked", b"headers", &[]),
    ] {
        let arguments = TableRef::trusted(arguments);
        let declare = ExchangeDeclare {
            exchange,
            kind,
            arguments,
            durable: true,
            ..ExchangeDeclare::default()
        };
        assert_eq!(client.ask(1, declare), "exchange.declare-ok");
    }
    for queue in ["sizes", "deep", "acked", "purged", "deleted", "lost-1", "lost-2"] {
        client.declare(queue);
    }
    let arguments = table(&[("x-max-length", Value::I32(1000)), ("note", "kept".into())]);
    let arguments = arguments.to_bytes();
    let (queue, arguments) = (b"arguments".as_slice(), TableRef::trusted(&arguments));
    let declare = QueueDeclare { queue, arguments, durable: true, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
    bind(client);
}

fn bind(client: &mut Client) {
    let red = table(&[("x-match", "any".into()), ("colour", "red".into())]).to_bytes();
    for (queue, exchange, routing_key, arguments) in [
        (b"sizes".as_slice(), b"orders".as_slice(), b"sizes.#".as_slice(), &[][..]),
        (b"lost-1", b"lost", b"", &[]),
        (b"lost-2", b"lost", b"", &[]),
        (b"arguments", b"marked", b"", &red),
    ] {
        let arguments = TableRef::trusted(arguments);
        let bind = QueueBind { queue, exchange, routing_key, arguments, ..QueueBind::default() };
        assert_eq!(client.ask(1, bind), "queue.bind-ok");
    }
    let (source, destination) = (b"orders".as_slice(), b"marked".as_slice());
    let bind = ExchangeBind { source, destination, routing_key: b"m.*", ..ExchangeBind::default() };
    assert_eq!(client.ask(1, bind), "exchange.bind-ok");
}

/// Of `acked` 40 are delivered, and of the first 30 every third is acknowledged.
fn settle(node: &Node) {
    let mut client = connect(node);
    let qos = BasicQos { prefetch_count: 30, ..BasicQos::default() };
    assert_eq!(client.ask(1, qos), "basic.qos-ok");
    client.consume("acked", false);
    let tags: Vec<u64> = (0..30).map(|_| client.message().unwrap().tag).collect();
    for delivery_tag in tags.into_iter().step_by(3) {
        client.say(1, BasicAck { delivery_tag, multiple: false });
    }
    // Each makes room for another one.
    (0..10).for_each(|_| drop(client.message().unwrap()));
    client.close();
}

/// All definitions and all messages, which are gone afterwards.
pub(super) fn check(node: &Node, was_killed: bool, format: u32) {
    check_definitions(node, format);
    let mut client = connect(node);
    let sizes: Vec<Message> = take(&mut client, "sizes");
    assert_eq!(sizes.len(), SIZES.len());
    for ((number, size), found) in SIZES.into_iter().enumerate().zip(&sizes) {
        assert_eq!((found.exchange.as_slice(), found.routing_key.as_slice()), {
            (b"orders".as_slice(), b"sizes.a".as_slice())
        });
        assert_is(found, number, size);
        assert_eq!(found.redelivered, was_killed);
    }
    let deep = take(&mut client, "deep");
    assert_eq!(deep.len(), N_DEEP);
    deep.iter().enumerate().for_each(|(number, found)| assert_is(found, number, 12));
    let left: Vec<usize> = (0..60).filter(|number| *number >= 30 || number % 3 > 0).collect();
    let acked = take(&mut client, "acked");
    assert_eq!(acked.len(), left.len());
    for (number, found) in left.into_iter().zip(&acked) {
        assert_is(found, number, 20);
        assert_eq!(found.redelivered, was_killed || number < 40, "{number}");
    }
    for (queue, number, size) in [("purged", 5, 30), ("lost-1", 0, 5000), ("lost-2", 0, 5000)] {
        let found = take(&mut client, queue);
        assert_eq!(found.len(), 1, "{queue}");
        assert_is(&found[0], number, size);
    }
    check_routes(&mut client);
    later::check(&mut client, was_killed, format);
    client.close();
}

fn assert_is(found: &Message, number: usize, size: usize) {
    assert!(found.body == body(number, size), "message {number} of {size} bytes");
    assert_eq!(found.properties, properties(number).to_bytes(), "message {number}");
}

fn take(client: &mut Client, queue: &str) -> Vec<Message> {
    std::iter::from_fn(|| client.get(queue)).collect()
}

/// Bindings route, and so does the alternate exchange.
fn check_routes(client: &mut Client) {
    let red = table(&[("colour", "red".into())]);
    let red = Properties { headers: Some(red), ..Properties::default() };
    client.put_message("orders", "m.x", &red, b"red");
    client.put_content("orders", "nobody", 1, b"lost");
    assert_eq!(client.get("arguments").unwrap().body, b"red");
    assert_eq!(take(client, "lost-1").len(), 1);
    assert_eq!(take(client, "lost-2").len(), 1);
}

fn check_definitions(node: &Node, format: u32) {
    let shop = |verb: &str, columns: &[&str]| {
        node.ctl(&[&[verb, "-p", "shop", "-q", "--no-table-headers"], columns].concat())
    };
    let mut lines = later::listed(format);
    lines.extend(QUEUES.iter().map(|line| (*line).to_owned()));
    lines.sort_unstable();
    // One in the older form is read behind the start.
    wait_until(&format!("these queues: {lines:?}"), || {
        let listed = shop("list_queues", &["name", "policy", "messages"]);
        listed.lines().filter(|line| !later::is_timed(line)).eq(lines.iter())
    });
    let arguments = shop("list_queues", &["arguments"]);
    assert!(arguments.contains("note") && arguments.contains("kept"), "{arguments}");
    let exchanges = shop("list_exchanges", &["name", "type", "durable", "arguments"]);
    for line in ["lost\tfanout\ttrue\t[]\n", "marked\theaders\ttrue\t[]\n", "orders\ttopic\ttrue\t"]
    {
        assert!(exchanges.contains(line), "{line} in {exchanges}");
    }
    assert_eq!(shop("list_vhost_limits", &[]), "{\"max-queues\":50}\n");
    assert_eq!(shop("list_permissions", &[]), "carol\t.*\t.*\t.*\n");
    assert_eq!(shop("list_topic_permissions", &[]), "carol\torders\t^(sizes|nobody|m)\t.*\n");
    let policies = shop("list_policies", &[]);
    assert_eq!(policies, "shop\tlong\t^d\tall\t{\"max-length\":5000}\t3\n");
    let ask = |words: &[&str]| node.ctl(&[words, &["-q", "--no-table-headers"]].concat());
    assert!(ask(&["list_vhosts", "name", "description", "tags"]).contains("the shop\t[a, b]"));
    assert!(ask(&["list_users"]).contains("carol\t[monitoring]\n"));
    assert!(ask(&["list_user_limits", "--user", "carol"]).contains("{\"max-channels\":7}"));
    assert!(ask(&["list_global_parameters"]).contains("no message lost"));
}

pub(super) fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The directory for a sample made now, if one is asked for.
fn wanted(end: &str) -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("LEVERET_SAMPLES")?).join(end))
}

/// As [`copy_dir`], without what belongs to one run or to one disk, and without most zeroes at the ends of
/// files: an entry may end with some.
fn keep_sample(from: &Path, to: &Path) {
    copy_dir(from, to);
    for run in ["leveret.lock", "node.log", "reserve"] {
        std::fs::remove_file(to.join(run)).unwrap();
    }
    for file in std::fs::read_dir(to.join("wal")).unwrap() {
        let file = file.unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end.next_multiple_of(4_096));
        std::fs::write(&file, bytes).unwrap();
    }
}

/// The present format, or that of the binary which `LEVERET_BINARY` names.
fn format() -> u32 {
    let named = std::env::var("LEVERET_FORMAT");
    named.map_or(log::FORMAT_VERSION, |named| named.parse().unwrap())
}

#[test]
fn what_a_node_of_today_leaves_reads_back() {
    let format = format();
    for was_killed in [true, false] {
        let mut node = Node::start(&["backlog_memory=0"]);
        fill(&node, format);
        let end = if was_killed { "killed" } else { "stopped" };
        if was_killed {
            node.kill();
        } else {
            node.end_well();
        }
        if let Some(sample) = wanted(end) {
            keep_sample(&node.data_dir(), &sample);
        }
        node.start_again();
        check(&node, was_killed, format);
        node.stop();
    }
}

#[test]
fn samples_of_earlier_nodes_read_back() {
    for &(sample, was_killed, format) in SAMPLES {
        let home = tempfile::tempdir().unwrap();
        copy_dir(&samples().join(sample), &home.path().join("data"));
        let mut node = Node::start_in(home);
        let marked = std::fs::read_to_string(node.data_dir().join("leveret-format")).unwrap();
        let today = format!("leveret {}\n", log::FORMAT_VERSION);
        assert_eq!(marked, today, "an older one does not take it for its own any more");
        check_definitions(&node, format);
        // Whatever the first start made of it is as good.
        if was_killed {
            node.kill_and_start();
        } else {
            node.stop_and_start();
        }
        check(&node, was_killed, format);
        node.stop();
    }
}
