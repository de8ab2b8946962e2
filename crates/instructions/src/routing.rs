//! From exchange and key to queues, with few bindings and with many.

use crate::codec::headers;
use crate::{N_OPERATIONS, Piece, Work};
use amqp091::{ShortString, Table, TableRef, Value};
use routing::{
    Binding, Destination, ExchangeKind, ExchangeRules, Name, QueueId, RouteOutcome, Routes,
    RoutingKey,
};
use std::hint::black_box;

pub(crate) const PIECES: &[Piece] = &[
    ("routing/consistent-hash-100", || consistent_hash(100)),
    ("routing/default-1000", default_exchange),
    ("routing/direct-1000", || direct(1000)),
    ("routing/direct-3", || direct(3)),
    ("routing/fanout-100", || fanout(100)),
    ("routing/fanout-3", || fanout(3)),
    ("routing/headers-100", || by_headers(100)),
    ("routing/headers-3", || by_headers(3)),
    ("routing/topic-1000", || topic(1000)),
    ("routing/topic-3", || topic(3)),
];

const EXCHANGE: &str = "exchange";

/// An exchange with a queue for each of these keys and arguments.
fn bound(kind: ExchangeKind, bindings: impl IntoIterator<Item = (String, Table)>) -> Routes {
    let mut routes = Routes::new();
    routes.put_exchange(Name::from(EXCHANGE), kind, ExchangeRules::default());
    for (n, (key, arguments)) in bindings.into_iter().enumerate() {
        let destination = Destination::Queue(QueueId(n as u64));
        let key = RoutingKey::from(key.as_str());
        let binding = Binding::new(Name::from(EXCHANGE), kind, destination, key, arguments);
        assert!(routes.bind(binding.expect("a good binding")));
    }
    routes
}

/// Routes messages with these keys in turn, each to `n_queues` queues.
fn routing(routes: Routes, exchange: &'static str, keys: Vec<String>, n_queues: usize) -> Work {
    let headers = headers().to_bytes();
    let mut queues = Vec::new();
    Box::new(move || {
        let mut keys = keys.iter().cycle();
        for _ in 0..N_OPERATIONS {
            let key = keys.next().expect("there are keys").as_bytes();
            let headers = Some(TableRef::trusted(&headers));
            let outcome =
                routes.route(black_box(exchange.as_bytes()), &[key], headers, &mut queues);
            assert_ne!(outcome, RouteOutcome::NoSuchExchange);
            assert_eq!(queues.len(), n_queues);
        }
    })
}

fn default_exchange() -> Work {
    let keys: Vec<String> = (0..1000).map(|n| format!("queue-{n}")).collect();
    let mut routes = Routes::new();
    for (n, name) in keys.iter().enumerate() {
        routes.put_queue(Name::from(name.as_str()), QueueId(n as u64));
    }
    routing(routes, "", keys, 1)
}

fn direct(n_bindings: u64) -> Work {
    let keys: Vec<String> = (0..n_bindings).map(|n| format!("key-{n}")).collect();
    let bindings = keys.iter().map(|key| (key.clone(), Table::new()));
    routing(bound(ExchangeKind::Direct, bindings), EXCHANGE, keys, 1)
}

fn fanout(n_bindings: usize) -> Work {
    let bindings = (0..n_bindings).map(|_| (String::new(), Table::new()));
    routing(bound(ExchangeKind::Fanout, bindings), EXCHANGE, vec!["key".to_owned()], n_bindings)
}

fn consistent_hash(n_bindings: u64) -> Work {
    let bindings = (0..n_bindings).map(|n| ((n % 3 + 1).to_string(), Table::new()));
    let keys = (0..1000).map(|n| format!("key-{n}")).collect();
    routing(bound(ExchangeKind::ConsistentHash, bindings), EXCHANGE, keys, 1)
}

/// One binding of three has a `*`, one a `#`; a message meets two.
fn topic(n_bindings: u64) -> Work {
    let pattern = |n: u64| match n {
        0 => "orders.#".to_owned(),
        n if n % 3 == 1 => format!("orders.*.country-{n}"),
        n if n % 3 == 2 => format!("orders.created.country-{n}"),
        n => format!("payments.country-{n}.#"),
    };
    let bindings = (0..n_bindings).map(|n| (pattern(n), Table::new()));
    let keys = (1..n_bindings).filter(|n| n % 3 != 0);
    let keys = keys.map(|n| format!("orders.created.country-{n}")).collect();
    routing(bound(ExchangeKind::Topic, bindings), EXCHANGE, keys, 2)
}

/// The first binding is met, the others are not.
fn by_headers(n_bindings: u64) -> Work {
    let arguments = |n: u64| {
        let version: Value =
            if n == 0 { 3_i64.into() } else { format!("none-{n}").as_str().into() };
        let mut arguments = Table::new();
        arguments.insert(ShortString::from_static("type"), "order.created");
        arguments.insert(ShortString::from_static("version"), version);
        arguments
    };
    let bindings = (0..n_bindings).map(|n| (String::new(), arguments(n)));
    routing(bound(ExchangeKind::Headers, bindings), EXCHANGE, vec!["key".to_owned()], 1)
}
