use std::collections::BTreeMap;

use amqp091::{ShortString, Value};
use proptest::prelude::*;

use super::*;
use crate::exchange_kind::HashOn;

fn rules() -> ExchangeRules {
    ExchangeRules::default()
}

fn alternate(name: &str) -> ExchangeRules {
    ExchangeRules { alternate: Some(Name::from(name)), ..rules() }
}

fn queue(id: u64) -> Destination {
    Destination::Queue(QueueId(id))
}

fn exchange(name: &str) -> Destination {
    Destination::Exchange(Name::from(name))
}

/// Three queues `q1` to `q3` and an exchange of each kind, named as the kind.
fn routes() -> Routes {
    let mut routes = Routes::new();
    for id in 1..=3 {
        routes.put_queue(Name::from(format!("q{id}")), QueueId(id));
    }
    for kind in ExchangeKind::ALL {
        routes.put_exchange(Name::from(kind.as_str()), kind, rules());
    }
    routes
}

fn bind_with(
    routes: &mut Routes,
    source: &str,
    destination: Destination,
    key: &str,
    arguments: Table,
) -> bool {
    let kind = routes.kind(source).unwrap();
    let binding =
        Binding::new(Name::from(source), kind, destination, RoutingKey::from(key), arguments);
    routes.bind(binding.unwrap())
}

fn bind(routes: &mut Routes, source: &str, destination: Destination, key: &str) -> bool {
    bind_with(routes, source, destination, key, Table::new())
}

fn unbind(routes: &mut Routes, source: &str, destination: Destination, key: &str) -> bool {
    let key = RoutingKey::from(key);
    routes.unbind(&Name::from(source), destination, &key, &Table::new()).is_some()
}

fn route(routes: &Routes, exchange: &str, keys: &[&str]) -> Vec<u64> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let mut out = vec![QueueId(999)];
    let outcome = routes.route(exchange.as_bytes(), &keys, None, &mut out);
    assert!(!matches!(outcome, RouteOutcome::NoSuchExchange | RouteOutcome::Internal));
    check_trace(routes, exchange, &Message::new(&keys, None), &out);
    out.into_iter().map(|QueueId(id)| id).collect()
}

/// The way that is told ends where the message goes, and leads from one exchange to the next.
fn check_trace(routes: &Routes, exchange: &str, message: &Message<'_>, queues: &[QueueId]) {
    let trace = routes.trace(exchange.as_bytes(), message, |_| Passage::Open);
    assert_eq!(trace.queues, queues);
    let led = || trace.steps.iter().flat_map(|step| &step.destinations);
    let reached: BTreeSet<QueueId> = led()
        .filter_map(|destination| match destination {
            Destination::Queue(id) => Some(*id),
            Destination::Exchange(_) => None,
        })
        .collect();
    assert_eq!(reached, queues.iter().copied().collect());
    for step in trace.steps.iter().skip(1) {
        let is_led_to = led().any(|it| *it == Destination::Exchange(step.exchange.clone()));
        let is_alternate = |from: &TraceStep| from.alternate.as_ref() == Some(&step.exchange);
        assert!(is_led_to || trace.steps.iter().any(is_alternate), "{:?}", trace.steps);
    }
}

fn argument(name: &'static str, value: impl Into<Value>) -> Table {
    [(ShortString::from_static(name), value.into())].into_iter().collect()
}

#[test]
fn the_default_exchange_routes_by_queue_name() {
    let mut routes = routes();
    assert_eq!(route(&routes, "", &["q2"]), [2]);
    assert_eq!(route(&routes, "", &["q3", "q1", "q3", "nope"]), [1, 3]);
    routes.remove_queue("q2");
    assert_eq!(route(&routes, "", &["q2"]), [0; 0]);
}

#[test]
fn each_kind_chooses_its_bindings() {
    let mut routes = routes();
    bind(&mut routes, "direct", queue(1), "a");
    bind(&mut routes, "direct", queue(2), "a");
    bind(&mut routes, "direct", queue(3), "b");
    assert_eq!(route(&routes, "direct", &["a"]), [1, 2]);
    assert_eq!(route(&routes, "direct", &["b", "a", "c"]), [1, 2, 3]);
    bind(&mut routes, "fanout", queue(3), "x");
    bind(&mut routes, "fanout", queue(1), "");
    assert_eq!(route(&routes, "fanout", &["anything", "else"]), [1, 3]);
    bind(&mut routes, "topic", queue(1), "a.#");
    bind(&mut routes, "topic", queue(1), "a.*");
    bind(&mut routes, "topic", queue(2), "*.b");
    assert_eq!(route(&routes, "topic", &["a.b"]), [1, 2]);
    assert_eq!(route(&routes, "topic", &["c.b", "x"]), [2]);
}

#[test]
fn headers_are_looked_at_by_headers_exchanges_only() {
    let mut routes = routes();
    bind_with(&mut routes, "headers", queue(2), "", argument("a", 1i64));
    bind_with(&mut routes, "headers", queue(2), "other", argument("a", 1i64));
    bind_with(&mut routes, "headers", queue(1), "", argument("b", 1i64));
    bind(&mut routes, "fanout", exchange("headers"), "");
    let bytes = argument("a", 1i64).to_bytes();
    for from in ["headers", "fanout"] {
        let mut out = Vec::new();
        let headers = Some(TableRef::parse(&bytes).unwrap());
        let outcome = routes.route(from.as_bytes(), &[b"k"], headers, &mut out);
        assert_eq!(outcome, RouteOutcome::RoutedByHeaders);
        assert_eq!(out, [QueueId(2)]);
        // It is told also where it makes no difference to this message.
        let without = routes.route(from.as_bytes(), &[b"k"], None, &mut out);
        assert_eq!((without, out), (RouteOutcome::RoutedByHeaders, Vec::new()));
    }
    let mut out = Vec::new();
    bind(&mut routes, "direct", queue(1), "k");
    assert_eq!(routes.route(b"direct", &[b"k"], None, &mut out), RouteOutcome::Routed);
}

#[test]
fn missing_and_internal_exchanges_are_told() {
    let mut routes = routes();
    routes.put_exchange(
        Name::from("inner"),
        ExchangeKind::Fanout,
        ExchangeRules { internal: true, ..rules() },
    );
    bind(&mut routes, "inner", queue(1), "");
    bind(&mut routes, "fanout", exchange("inner"), "");
    let mut out = vec![QueueId(9)];
    assert_eq!(routes.route(b"nope", &[b""], None, &mut out), RouteOutcome::NoSuchExchange);
    assert_eq!(out, []);
    assert_eq!(routes.route(b"inner", &[b""], None, &mut out), RouteOutcome::Internal);
    assert_eq!(out, []);
    assert_eq!(route(&routes, "fanout", &[""]), [1]);
    let message = Message::new(&[b""], None);
    let routed = routes.route_from_broker(b"inner", &message, |_| Passage::Open, &mut out);
    let outcome = routed.outcome;
    assert_eq!(outcome, RouteOutcome::Routed);
    assert_eq!(out, [QueueId(1)]);
}

#[test]
fn cycles_end_and_a_queue_comes_once() {
    let mut routes = routes();
    bind(&mut routes, "fanout", exchange("direct"), "");
    bind(&mut routes, "fanout", exchange("topic"), "");
    bind(&mut routes, "fanout", exchange("fanout"), "");
    bind(&mut routes, "topic", exchange("fanout"), "#");
    for source in ["fanout", "direct", "topic"] {
        bind(&mut routes, source, queue(1), "k");
        bind(&mut routes, source, queue(2), "k");
    }
    assert_eq!(route(&routes, "fanout", &["k"]), [1, 2]);
    assert_eq!(route(&routes, "topic", &["k", "k"]), [1, 2]);
}

#[test]
fn the_alternate_exchange_gets_what_finds_no_binding() {
    let mut routes = routes();
    routes.put_exchange(Name::from("direct"), ExchangeKind::Direct, alternate("topic"));
    routes.put_exchange(Name::from("topic"), ExchangeKind::Topic, alternate("fanout"));
    bind(&mut routes, "direct", queue(1), "a");
    bind(&mut routes, "topic", queue(2), "b");
    bind(&mut routes, "fanout", queue(3), "");
    assert_eq!(route(&routes, "direct", &["a"]), [1]);
    assert_eq!(route(&routes, "direct", &["a", "b"]), [1]);
    assert_eq!(route(&routes, "direct", &["b"]), [2]);
    assert_eq!(route(&routes, "direct", &["c"]), [3]);
}

#[test]
fn alternate_cycles_end_and_missing_alternates_drop() {
    let mut routes = routes();
    routes.put_exchange(Name::from("direct"), ExchangeKind::Direct, alternate("topic"));
    routes.put_exchange(Name::from("topic"), ExchangeKind::Topic, alternate("direct"));
    assert_eq!(route(&routes, "direct", &["c"]), [0; 0]);
    routes.put_exchange(Name::from("direct"), ExchangeKind::Direct, alternate("gone"));
    assert_eq!(route(&routes, "direct", &["c"]), [0; 0]);
    routes.put_exchange(Name::from("direct"), ExchangeKind::Direct, alternate(""));
    assert_eq!(route(&routes, "direct", &["q2"]), [2]);
    // A binding to an exchange counts as found, whatever comes of it there.
    routes.put_exchange(Name::from("direct"), ExchangeKind::Direct, alternate("fanout"));
    bind(&mut routes, "fanout", queue(1), "");
    bind(&mut routes, "direct", exchange("headers"), "c");
    assert_eq!(route(&routes, "direct", &["c"]), [0; 0]);
}

#[test]
fn arguments_are_part_of_the_identity_but_not_their_order() {
    let mut routes = routes();
    let table = |names: [&'static str; 2]| -> Table {
        names.map(|name| (ShortString::from_static(name), Value::from(name))).into_iter().collect()
    };
    assert!(bind_with(&mut routes, "direct", queue(1), "k", table(["a", "b"])));
    assert!(!bind_with(&mut routes, "direct", queue(1), "k", table(["b", "a"])));
    assert!(bind(&mut routes, "direct", queue(1), "k"));
    assert!(!bind(&mut routes, "direct", queue(1), "k"));
    assert_eq!(routes.n_bindings_from("direct"), 2);
    assert!(unbind(&mut routes, "direct", queue(1), "k"));
    assert_eq!(route(&routes, "direct", &["k"]), [1]);
    let gone =
        routes.unbind(&Name::from("direct"), queue(1), &RoutingKey::from("k"), &table(["b", "a"]));
    assert_eq!(gone.unwrap().arguments, table(["a", "b"]));
    assert_eq!(route(&routes, "direct", &["k"]), [0; 0]);
    assert_eq!(routes.n_bindings(), 0);
}

#[test]
fn what_is_removed_takes_its_bindings_along() {
    let mut routes = routes();
    bind(&mut routes, "direct", queue(1), "a");
    bind(&mut routes, "fanout", exchange("direct"), "");
    bind(&mut routes, "direct", exchange("topic"), "b");
    bind(&mut routes, "fanout", queue(1), "");
    let gone = routes.remove_exchange("direct");
    assert_eq!(gone.iter().filter(|b| b.source.as_str() == "direct").count(), 2);
    assert_eq!(gone.len(), 3);
    assert_eq!(routes.n_bindings(), 1);
    assert_eq!(routes.remove_queue("q1").len(), 1);
    assert_eq!(routes.n_bindings_from("fanout"), 0);
    assert_eq!(route(&routes, "fanout", &[""]), [0; 0]);
}

#[test]
fn a_snapshot_does_not_see_later_changes() {
    let mut routes = routes();
    bind(&mut routes, "direct", queue(1), "a");
    let snapshot = routes.clone();
    bind(&mut routes, "direct", queue(2), "a");
    routes.remove_queue("q1");
    assert_eq!(route(&snapshot, "direct", &["a"]), [1]);
    assert_eq!(route(&routes, "direct", &["a"]), [2]);
}

fn outcome(routes: &Routes, exchange: &str, message: &Message<'_>) -> (RouteOutcome, Vec<u64>) {
    let mut out = vec![QueueId(999)];
    let routed = routes.route_message(exchange.as_bytes(), message, |_| Passage::Open, &mut out);
    let outcome = routed.outcome;
    check_trace(routes, exchange, message, &out);
    (outcome, out.into_iter().map(|QueueId(id)| id).collect())
}

#[test]
fn what_decides_beside_the_key_is_told() {
    let mut routes = routes();
    let header = argument("user", "ann").to_bytes();
    let properties = message::Properties {
        message_id: Some(ShortString::from_static("1")),
        ..message::Properties::default()
    };
    let properties = properties.to_bytes();
    let message = Message {
        keys: &[b"k"],
        headers: Some(TableRef::parse(&header).unwrap()),
        properties: Some(message::View::of(&properties)),
        chance: 5,
        ..Message::new(&[], None)
    };
    for (on, expected) in [
        (HashOn::RoutingKey, RouteOutcome::Routed),
        (HashOn::Header(b"user".as_slice().into()), RouteOutcome::RoutedByHeaders),
        (HashOn::MessageId, RouteOutcome::RoutedByMessage),
        (HashOn::CorrelationId, RouteOutcome::RoutedByMessage),
        (HashOn::Timestamp, RouteOutcome::RoutedByMessage),
    ] {
        let (name, kind) = (Name::from("x-consistent-hash"), ExchangeKind::ConsistentHash);
        let first = bind(&mut routes, &name, queue(1), "1");
        bind(&mut routes, &name, queue(2), "1");
        assert!(first || routes.n_bindings() == 2);
        routes.put_exchange(name, kind, ExchangeRules { hash_on: on, ..rules() });
        let (decides, queues) = outcome(&routes, "x-consistent-hash", &message);
        assert_eq!((decides, queues.len()), (expected, 1));
    }
    bind(&mut routes, "x-random", queue(1), "a");
    bind(&mut routes, "x-random", queue(1), "b");
    bind(&mut routes, "x-random", queue(3), "a");
    bind(&mut routes, "fanout", exchange("x-random"), "");
    let chosen = |chance| outcome(&routes, "fanout", &Message { chance, ..message });
    let queues: BTreeSet<_> = (0..4).map(|n| chosen(n).1).collect();
    assert_eq!(queues, [vec![1], vec![3]].into());
    assert_eq!(chosen(0).0, RouteOutcome::RoutedByMessage);
}

#[test]
fn the_host_may_stop_a_message_at_a_watched_exchange() {
    let mut routes = routes();
    let watched = ExchangeRules { watched: true, ..alternate("direct") };
    routes.put_exchange(Name::from("topic"), ExchangeKind::Topic, watched);
    bind(&mut routes, "fanout", exchange("topic"), "");
    bind(&mut routes, "fanout", queue(1), "");
    bind(&mut routes, "topic", queue(2), "#");
    bind(&mut routes, "direct", queue(3), "k");
    let message = Message::new(&[b"k"], None);
    let routed = |passage| {
        let (mut out, mut asked) = (Vec::new(), Vec::new());
        let watch = |name: &Name| {
            asked.push(name.to_string());
            passage
        };
        let outcome = routes.route_message(b"fanout", &message, watch, &mut out).outcome;
        assert_eq!((outcome, asked), (RouteOutcome::RoutedByMessage, vec!["topic".to_owned()]));
        out
    };
    assert_eq!(routed(Passage::Open), [QueueId(1), QueueId(2)]);
    // The alternate exchange gets nothing either.
    assert_eq!(routed(Passage::Closed), [QueueId(1)]);
}

#[test]
fn binding_keys_are_checked_by_the_kind_of_exchange() {
    let refused = |kind, destination, key: &str| {
        let (source, key) = (Name::from("x"), RoutingKey::from(key));
        Binding::new(source, kind, destination, key, Table::new()).unwrap_err().to_string()
    };
    for (key, text) in [
        ("", "The binding key must be an integer: <<>>"),
        ("1.5", "The binding key must be an integer: <<\"1.5\">>"),
        ("-", "The binding key must be an integer: <<\"-\">>"),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("4294967296", "The binding key must be at most 4294967295"),
    ] {
        assert_eq!(refused(ExchangeKind::ConsistentHash, queue(1), key), text);
    }
    let kind = ExchangeKind::LocalRandom;
    assert_eq!(refused(kind, queue(1), "k"), "Non empty binding 'k' key not permitted");
    assert_eq!(refused(kind, exchange("direct"), ""), "Destination not found");
}

/// The straightforward way: a list of bindings, looked through for every message.
#[derive(Default)]
struct Model {
    bindings: Vec<(String, Destination, String)>,
}

impl Model {
    fn route(&self, first: &str, key: &str, alternates: &BTreeMap<String, String>) -> Vec<u64> {
        let mut seen = vec![first.to_owned()];
        let mut pending = vec![first.to_owned()];
        let mut found = Vec::new();
        while let Some(source) = pending.pop() {
            let mut next = Vec::new();
            let mut n_met = 0;
            for (from, destination, wanted) in &self.bindings {
                let is_met = *from == source && (source == "fanout" || wanted == key);
                n_met += usize::from(is_met);
                match destination {
                    Destination::Queue(QueueId(id)) if is_met => found.push(*id),
                    Destination::Exchange(name) if is_met => next.push(name.to_string()),
                    Destination::Queue(_) | Destination::Exchange(_) => {}
                }
            }
            if n_met == 0 {
                next.extend(alternates.get(&source).cloned());
            }
            for name in next {
                if !seen.contains(&name) {
                    seen.push(name.clone());
                    pending.push(name);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

const SOURCES: [&str; 3] = ["direct", "fanout", "topic"];

fn destination() -> impl Strategy<Value = Destination> {
    prop_oneof![(1u64..4).prop_map(queue), prop::sample::select(&SOURCES[..]).prop_map(exchange),]
}

proptest! {
    #[test]
    fn routes_as_the_model_does(
        steps in prop::collection::vec(
            (any::<bool>(), prop::sample::select(&SOURCES[..]), destination(), "[ab]"), 0..40),
        alternates in prop::collection::btree_map(
            prop::sample::select(&SOURCES[..]), prop::sample::select(&SOURCES[..]), 0..3),
    ) {
        let mut routes = routes();
        let mut model = Model::default();
        for (source, other) in &alternates {
            let kind = routes.kind(source).unwrap();
            routes.put_exchange(Name::from(*source), kind, alternate(other));
        }
        let alternates =
            alternates.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        for (is_bind, source, destination, key) in steps {
            let entry = (source.to_owned(), destination.clone(), key.clone());
            let was_there = model.bindings.contains(&entry);
            if is_bind {
                prop_assert_eq!(bind(&mut routes, source, destination, &key), !was_there);
                if !was_there {
                    model.bindings.push(entry);
                }
            } else {
                prop_assert_eq!(unbind(&mut routes, source, destination, &key), was_there);
                model.bindings.retain(|other| *other != entry);
            }
            prop_assert_eq!(routes.n_bindings(), model.bindings.len());
        }
        for source in SOURCES {
            let n = model.bindings.iter().filter(|(from, ..)| from == source).count();
            prop_assert_eq!(routes.n_bindings_from(source), n);
            for key in ["a", "b", "c"] {
                let expected = model.route(source, key, &alternates);
                prop_assert_eq!(route(&routes, source, &[key]), expected);
            }
        }
    }
}

/// The arguments of a binding whose key counts.
fn of_key(others: &[(&'static str, &'static str)]) -> Table {
    let others = others.iter().map(|(name, text)| (*name, Value::from(*text)));
    let all = others.chain([(crate::MATCH_KEY, Value::Bool(true))]);
    all.map(|(name, value)| (ShortString::from_static(name), value)).collect()
}

#[test]
fn topics_are_found_by_their_key() {
    let (topics, mut routes) = ("x-jms-topic", routes());
    let red = of_key(&[(crate::SQL_SELECTOR, "colour = 'red'")]);
    assert!(bind_with(&mut routes, topics, queue(1), "news", of_key(&[])));
    assert!(bind_with(&mut routes, topics, queue(2), "news", red.clone()));
    assert!(bind_with(&mut routes, topics, queue(2), "sport", red));
    assert!(bind_with(&mut routes, topics, queue(3), "sport", of_key(&[])));
    assert!(bind_with(&mut routes, topics, queue(3), "weather", of_key(&[])));
    let header = argument("colour", "red").to_bytes();
    let red = Some(TableRef::parse(&header).unwrap());
    let routed = |routes: &Routes, keys: &[&[u8]], headers| {
        outcome(routes, topics, &Message::new(keys, headers))
    };
    assert_eq!(routed(&routes, &[b"news"], red), (RouteOutcome::RoutedByMessage, vec![1, 2]));
    assert_eq!(routed(&routes, &[b"news"], None), (RouteOutcome::RoutedByMessage, vec![1]));
    assert_eq!(routed(&routes, &[b"news", b"sport"], red).1, [1, 2, 3]);
    // Without selectors the key says it all.
    assert_eq!(routed(&routes, &[b"weather"], red), (RouteOutcome::Routed, vec![3]));
    assert_eq!(routed(&routes, &[b"nothing"], red), (RouteOutcome::Routed, vec![]));
    // COMPAT: a selector by itself looks at all messages, and a key by itself at none.
    assert!(bind(&mut routes, topics, queue(4), "weather"));
    let all = argument(crate::SQL_SELECTOR, "colour = 'red'");
    assert!(bind_with(&mut routes, topics, queue(1), "weather", all.clone()));
    assert_eq!(routed(&routes, &[b"nothing"], red), (RouteOutcome::RoutedByMessage, vec![1]));
    for (n, key, arguments) in
        [(1, "weather", all), (4, "weather", Table::new()), (3, "weather", of_key(&[]))]
    {
        let (topics, key) = (Name::from(topics), RoutingKey::from(key));
        assert!(routes.unbind(&topics, queue(n), &key, &arguments).is_some());
    }
    assert_eq!(routed(&routes, &[b"weather"], red), (RouteOutcome::Routed, vec![]));
}

#[test]
fn a_containers_own_messages_may_stay_away() {
    let (topics, mut routes) = ("x-jms-topic", routes());
    bind_with(&mut routes, topics, queue(1), "news", of_key(&[(crate::NO_LOCAL, "ann")]));
    bind_with(&mut routes, topics, queue(2), "news", of_key(&[]));
    let published_by = |container| {
        let message = Message { container, ..Message::new(&[b"news"], None) };
        outcome(&routes, topics, &message)
    };
    assert_eq!(published_by(Some(b"ann")), (RouteOutcome::Routed, vec![2]));
    assert_eq!(published_by(Some(b"bob")).1, [1, 2]);
    assert_eq!(published_by(None).1, [1, 2]);
}

/// A topic costs the same, whoever else has subscribed to others.
#[test]
fn subscriptions_of_other_topics_are_not_looked_at() {
    let (topics, mut routes) = ("x-jms-topic", routes());
    let dear = of_key(&[(crate::SQL_SELECTOR, "a LIKE '%a%b%' OR a LIKE '%c%'")]);
    for n in 0..10_000 {
        bind_with(&mut routes, topics, queue(n), &format!("other.{n}"), dear.clone());
    }
    bind_with(&mut routes, topics, queue(1), "news", dear);
    let keys: [&[u8]; 1] = [b"news"];
    let mut out = Vec::new();
    let message = Message::new(&keys, None);
    let routed = routes.route_message(topics.as_bytes(), &message, |_| Passage::Open, &mut out);
    assert!(routed.n_steps < 100, "{} steps", routed.n_steps);
}
