//! Publishes that are much work: for selectors, and for many queues. Others do not wait for them.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{ExchangeDeclare, QueueBind, QueueDeclare, TxCommit, TxSelect};
use amqp091::{Method, Properties, ShortString, Table, TableRef, Value};
use std::time::Instant;
use testing::client::Client;

fn headers(entries: Vec<(&'static str, Value)>) -> Table {
    let named = |(name, value)| (ShortString::from_static(name), value);
    entries.into_iter().map(named).collect()
}

fn declare_exchange(client: &mut Client, exchange: &str, kind: &str) {
    let (exchange, kind) = (exchange.as_bytes(), kind.as_bytes());
    let declare = ExchangeDeclare { exchange, kind, ..ExchangeDeclare::default() };
    assert_eq!(client.ask(1, declare), "exchange.declare-ok");
}

fn bind(client: &mut Client, exchange: &str, queue: &str, arguments: &Table) {
    let arguments = arguments.to_bytes();
    let bind = QueueBind {
        queue: queue.as_bytes(),
        exchange: exchange.as_bytes(),
        arguments: TableRef::trusted(&arguments),
        ..QueueBind::default()
    };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
}

/// Declares `q0`, `q1` and so on, which do not survive a restart, bound to the exchange `all`.
fn declare_many(client: &mut Client, n_queues: usize) {
    declare_exchange(client, "all", "fanout");
    for n in 0..n_queues {
        let name = format!("q{n}");
        let queue = name.as_bytes();
        let declare = QueueDeclare { queue, no_wait: true, ..QueueDeclare::default() };
        declare_frame(client, declare.into());
        let bind = QueueBind { queue, exchange: b"all", no_wait: true, ..QueueBind::default() };
        declare_frame(client, bind.into());
    }
    client.declare("last");
}

fn declare_frame(client: &mut Client, method: Method<'_>) {
    method.encode_frame(1, &mut client.out);
}

/// A message of a read is put into many queues in portions; others go on in between.
#[test]
fn messages_to_many_queues_keep_nobody_waiting() {
    const N_QUEUES: usize = 2_000;
    const N_MESSAGES: usize = 40;
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    declare_many(&mut client, N_QUEUES);
    client.select_confirms();
    let bystander = Bystander::watch(&node);
    for n in 0..N_MESSAGES {
        client.put_content("all", "", 1, n.to_string().as_bytes());
    }
    client.wait_for_confirms();
    let names = (0..N_QUEUES).map(|n| Value::LongString(format!("q{n}").into_bytes()));
    let copies = headers(vec![("CC", Value::Array(names.collect()))]);
    let copies = Properties { headers: Some(copies), ..Properties::default() };
    for _ in 0..5 {
        client.put_message("", "q0", &copies, b"copied");
        client.wait_for_confirms();
    }
    let mut transactional = Client::guest(node.address());
    assert_eq!(transactional.ask(1, TxSelect {}), "tx.select-ok");
    for n in 0..N_MESSAGES {
        transactional.put_content("all", "", 1, format!("tx {n}").as_bytes());
    }
    assert_eq!(transactional.ask(1, TxCommit {}), "tx.commit-ok");
    bystander.expect_no_wait("messages to 2,000 queues");
    for queue in ["q0", "q1", "q1023", "q1999"] {
        let all = (0..N_MESSAGES).map(|n| n.to_string());
        let all = all.chain((0..5).map(|_| "copied".to_owned()));
        let all = all.chain((0..N_MESSAGES).map(|n| format!("tx {n}")));
        let found: Vec<_> = std::iter::from_fn(|| client.get(queue)).collect();
        assert!(found.iter().map(|message| &message.body[..]).eq(all.map(String::into_bytes)));
    }
    node.stop();
}

/// A body's share of disk and memory does not grow with the number of queues.
#[test]
fn a_body_in_many_queues_is_stored_once() {
    const N_QUEUES: usize = 1_000;
    const N_MESSAGES: usize = 10;
    const BODY_BYTES: usize = 1_000_000;
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    declare_many(&mut client, N_QUEUES);
    let rss_before = node.rss();
    client.select_confirms();
    let bodies: Vec<_> = (1..).take(N_MESSAGES).map(|n| vec![n; BODY_BYTES]).collect();
    for body in &bodies {
        client.put_content("all", "", 1, body);
    }
    client.wait_for_confirms();
    let on_disk = || node.bytes_in("swap") + node.bytes_in("vhosts/%2F/bodies");
    // The pages at the heads stay in memory.
    let n_away = N_MESSAGES - 1;
    wait_until("bodies are on disk", || {
        node.bytes_in("vhosts/%2F/bodies") >= (n_away * BODY_BYTES) as u64
    });
    for queue in ["q0", "q500", "q999"] {
        for body in &bodies {
            assert!(client.get(queue).is_some_and(|message| message.body == *body));
        }
    }
    let memory_bytes = node.rss().saturating_sub(rss_before);
    eprintln!("10 MB in 1,000 queues: {} bytes on disk, {memory_bytes} of memory", on_disk());
    assert!(on_disk() < 4 * (N_MESSAGES * BODY_BYTES) as u64);
    assert!(memory_bytes < 20 * (N_MESSAGES * BODY_BYTES) as u64);
    node.stop();
}

/// The test of properties in many queues: so many, with a header of some 70 kB.
const N_WIDE: usize = 2_000;
/// Of a queue's name.
const WIDE_NAME_BYTES: usize = 30;

fn wide_name(n: usize) -> String {
    format!("{n:0WIDE_NAME_BYTES$}")
}

/// Headers that copy a message to all those queues.
fn copies_to_all() -> Properties {
    let names = (1..N_WIDE).map(|n| Value::LongString(wide_name(n).into_bytes()));
    let copies = headers(vec![("CC", Value::Array(names.collect()))]);
    Properties { headers: Some(copies), ..Properties::default() }
}

/// The properties of a message take no more on disk and in memory for more queues, and
/// every queue gives them out whole, also after a crash.
fn properties_in_many_queues_are_stored_once(persistent: bool) {
    const N_MESSAGES: usize = 4;
    let mut node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    for n in 0..N_WIDE {
        let name = wide_name(n);
        let queue = name.as_bytes();
        let declare =
            QueueDeclare { queue, durable: true, no_wait: true, ..QueueDeclare::default() };
        declare_frame(&mut client, declare.into());
    }
    client.declare("last");
    let on_disk = |node: &Node| {
        let dirs = ["wal", "pages", "swap", "vhosts/%2F/bodies"];
        dirs.iter().map(|dir| node.bytes_in(dir)).sum::<u64>()
    };
    let (rss_before, disk_before) = (node.rss(), on_disk(&node));
    client.select_confirms();
    let copies = Properties { delivery_mode: persistent.then_some(2), ..copies_to_all() };
    let bytes = copies.to_bytes();
    for n in 0..N_MESSAGES {
        client.put_message("", &wide_name(0), &copies, n.to_string().as_bytes());
        client.wait_for_confirms();
    }
    let rss = node.rss().saturating_sub(rss_before);
    // Pages beyond what may be in memory are being written.
    wait_until("properties are on disk", || node.bytes_in("vhosts/%2F/bodies") > 0);
    let disk = on_disk(&node).saturating_sub(disk_before);
    let all = (bytes.len() * N_MESSAGES) as u64;
    eprintln!("{all} bytes of properties in {N_WIDE} queues: {disk} on disk, {rss} of memory");
    assert!(rss < 60_000_000, "{rss} bytes of memory");
    assert!(disk < 20_000_000, "{disk} bytes on disk");
    let expect = |client: &mut Client, queues: &[usize], n: usize| {
        for queue in queues {
            let found = client.get(&wide_name(*queue)).unwrap_or_else(|| panic!("{queue}: {n}"));
            assert_eq!(found.body, n.to_string().as_bytes());
            assert!(found.properties == bytes, "the properties of {n} in {queue}");
        }
    };
    let all: Vec<usize> = (0..N_WIDE).collect();
    expect(&mut client, &all, 0);
    if persistent {
        // Confirmed behind what was taken, which is as durable.
        client.put_publish(&wide_name(0), true, b"last");
        client.wait_for_confirms();
        node.kill_and_start();
        client = Client::guest(node.address());
        (1..N_MESSAGES).for_each(|n| expect(&mut client, &all, n));
        assert_eq!(client.get(&wide_name(7)), None);
    } else {
        expect(&mut client, &[0, 1, 1_000, N_WIDE - 1], 1);
    }
    node.stop();
}

#[test]
fn transient_properties_in_many_queues_are_stored_once() {
    properties_in_many_queues_are_stored_once(false);
}

#[test]
fn persistent_properties_in_many_queues_are_stored_once() {
    properties_in_many_queues_are_stored_once(true);
}

#[test]
fn selectors_take_no_more_than_their_steps() {
    const N_BINDINGS: usize = 300;
    const N_PUBLISHERS: usize = 3;
    const N_PUBLISHES: usize = 8;
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    client.declare("selected");
    declare_exchange(&mut client, "jms", "x-jms-topic");
    for n in 0..N_BINDINGS {
        // The first shows at its end that it is false.
        let end = if n == 0 { "" } else { "%" };
        let like = format!("k LIKE '%a%a%a%a%a%a%a%ab{end}'");
        let selector = format!("{} OR n = {n}", vec![like; 100].join(" OR "));
        let selector = Value::LongString(selector.into_bytes());
        bind(&mut client, "jms", "selected", &headers(vec![("rabbitmq_jms_selector", selector)]));
    }
    let bystander = Bystander::watch(&node);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..N_PUBLISHERS {
            scope.spawn(|| {
                let mut publisher = Client::guest(node.address());
                publisher.select_confirms();
                let text = Value::LongString(vec![b'a'; 120_000]);
                let headers = Some(headers(vec![("k", text), ("n", Value::I32(1))]));
                let properties = Properties { headers, ..Properties::default() };
                for _ in 0..N_PUBLISHES {
                    publisher.put_message("jms", "", &properties, b"");
                    publisher.wait_for_confirms();
                }
                publisher.close();
            });
        }
    });
    let each = started.elapsed() / u32::try_from(N_PUBLISHERS * N_PUBLISHES).unwrap();
    eprintln!("{each:?} for each publish");
    bystander.expect_no_wait("publishes past selectors of LIKE");
    node.expect_logged(N_PUBLISHERS, "binding selectors and federation hop lists");
    // What is little work is done as ever.
    let few =
        Properties { headers: Some(headers(vec![("n", Value::I32(1))])), ..Properties::default() };
    client.select_confirms();
    client.put_message("jms", "", &few, b"first");
    client.wait_for_confirms();
    assert_eq!(client.get("selected").unwrap().body, b"first");
    client.close();
    node.stop();
}
