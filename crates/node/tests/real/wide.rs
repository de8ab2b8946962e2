//! Publishes that are much work: for selectors, and for many queues. Others do not wait for them.

use super::support::bystander::Bystander;
use super::support::client::Client;
use super::support::node::Node;
use amqp091::method::{ExchangeDeclare, QueueBind};
use amqp091::{Properties, ShortString, Table, TableRef, Value};
use std::time::Instant;

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
    let bystander = Bystander::watch(node.address());
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
    node.expect_logged(N_PUBLISHERS, "the selectors of the bindings take too many steps");
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
