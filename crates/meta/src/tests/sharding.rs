//! Sharded exchanges: what a policy asks for, and the commands that bring it about.

use super::*;

const NODE: &str = "leveret@here";

fn set(state: &mut State, definition: &str) {
    let policy = PolicySpec {
        name: name("shards"),
        pattern: String::new(),
        apply_to: ApplyTo::Exchanges,
        definition: Json::parse(definition).unwrap(),
        priority: 0,
    };
    apply(state, Command::SetPolicy { scope: PolicyScope::User, vhost: name(V), policy }).unwrap();
}

fn clear(state: &mut State) {
    let (scope, vhost, name) = (PolicyScope::User, name(V), name("shards"));
    apply(state, Command::ClearPolicy { scope, vhost, name }).unwrap();
}

fn sharded(state: &State) -> Sharded {
    state.vhost(V).unwrap().policies.sharded().clone()
}

/// Carries out what follows from a change for the exchange `x`; returns it in words.
fn follow(state: &mut State, change: impl FnOnce(&mut State)) -> Vec<String> {
    let before = sharded(state);
    change(state);
    let changes = state.resharded(&name(V), &before);
    let mut told = Vec::new();
    for change in changes.iter().filter(|change| &*change.exchange == "x") {
        for command in state.reshard(change, NODE) {
            told.push(word(&command));
            apply(state, command).unwrap();
        }
    }
    told
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else follows")]
fn word(command: &Command) -> String {
    let bound = |spec: &BindingSpec| match &spec.destination {
        DestinationName::Queue(queue) => format!("{queue} by {:?}", spec.key),
        DestinationName::Exchange(exchange) => panic!("{exchange} is no queue"),
    };
    match command {
        Command::DeclareQueue(declare) => format!("declare {}", declare.name),
        Command::Bind(spec) => format!("bind {}", bound(spec)),
        Command::Unbind(spec) => format!("unbind {}", bound(spec)),
        other => panic!("{other:?}"),
    }
}

fn shard(index: u32) -> String {
    format!("sharding: x - {NODE} - {index}")
}

fn numbers(state: &State, exchange: &str) -> Vec<u32> {
    let mut numbers: Vec<_> = shards(state.vhost(V).unwrap(), exchange).map(|(n, _)| n).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn what_is_missing_is_made_and_bound_and_nothing_is_deleted() {
    let s = &mut state();
    let declare_x = Command::DeclareExchange(exchange("x", ExchangeKind::ModulusHash));
    apply(s, declare_x).unwrap();
    let words = |verb: &str, numbers: std::ops::Range<u32>, by: &str| {
        numbers.map(|n| format!("{verb} {}{by}", shard(n))).collect::<Vec<_>>()
    };
    let two = follow(s, |s| set(s, r#"{"shards-per-node":2,"routing-key":"k"}"#));
    assert_eq!(two, [words("declare", 0..2, ""), words("bind", 0..2, " by \"k\"")].concat());
    let three = follow(s, |s| set(s, r#"{"shards-per-node":3,"routing-key":"k"}"#));
    assert_eq!(three, [words("declare", 2..3, ""), words("bind", 0..3, " by \"k\"")].concat());
    assert_eq!(follow(s, |s| set(s, r#"{"shards-per-node":3,"routing-key":"k"}"#)).len(), 0);
    // Fewer: what is there stays, and stays bound.
    let one = follow(s, |s| set(s, r#"{"shards-per-node":1,"routing-key":"k"}"#));
    assert_eq!(one, words("bind", 0..1, " by \"k\""));
    assert_eq!(numbers(s, "x"), [0, 1, 2]);
    assert_eq!(s.routes(V).unwrap().n_bindings_from("x"), 3);
    // Another key: bound with it before the other goes, so far as there are to be shards.
    let other = follow(s, |s| set(s, r#"{"shards-per-node":2}"#));
    let expected = [words("bind", 0..2, " by \"\""), words("unbind", 0..1, " by \"k\"")].concat();
    assert_eq!(other, expected);
    // Without the policy they lose their bindings, and stay.
    assert_eq!(follow(s, clear), words("unbind", 0..2, " by \"\""));
    assert_eq!(numbers(s, "x"), [0, 1, 2]);
    // Of no shards there is nothing to do, and yet it is a sharded exchange.
    assert_eq!(follow(s, |s| set(s, r#"{"shards-per-node":0}"#)).len(), 0);
    assert!(sharded(s).contains_key("x"));
}

#[test]
fn shards_last_as_long_as_their_exchange() {
    let s = &mut state();
    set(s, r#"{"shards-per-node":1}"#);
    let transient = ExchangeDeclare { durable: false, ..exchange("x", ExchangeKind::Fanout) };
    let made = follow(s, |s| drop(apply(s, Command::DeclareExchange(transient)).unwrap()));
    assert_eq!(made, [format!("declare {}", shard(0)), format!("bind {} by \"\"", shard(0))]);
    assert!(!s.queue(V, &shard(0)).unwrap().durable);
    // It goes, and they stay.
    assert_eq!(follow(s, |s| drop(apply(s, delete_exchange("x")).unwrap())).len(), 0);
    assert!(s.queue(V, &shard(0)).is_some() && !sharded(s).contains_key("x"));
}

/// Every exchange that a policy matches but the default one: also those of the node itself.
#[test]
fn the_default_exchange_is_never_sharded() {
    let s = &mut state();
    set(s, r#"{"shards-per-node":1}"#);
    let all: Vec<_> = sharded(s).keys().map(|name| name.to_string()).collect();
    let predeclared =
        ["amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.topic"];
    assert_eq!(all, predeclared);
    assert_eq!(sharded(&State::restore(&durable(s)).unwrap()), sharded(s));
}

/// A shard is known by exchange and number, on whatever node it was made; names of other exchanges begin
/// alike.
#[test]
fn shards_are_known_by_their_names() {
    let s = &mut state();
    for name in [
        "sharding: x - rabbit@old - 0",
        "sharding: x - rabbit@old - 12",
        "sharding: x - rabbit@other - 0",
        "sharding: x - y - rabbit@old - 3",
        "sharding: x - rabbit@old - 04",
        "sharding: x - rabbit@old - +5",
        "sharding: x - rabbit@old - ",
        "sharding: x - 6",
        "sharding: xx - rabbit@old - 7",
    ] {
        declare(s, queue(name));
    }
    declare(s, exclusive("sharding: x - rabbit@old - 8", 1));
    assert_eq!(numbers(s, "x"), [0, 0, 12]);
    assert_eq!(numbers(s, "x - y"), [3]);
    apply(s, Command::DeclareExchange(exchange("x", ExchangeKind::Direct))).unwrap();
    let made = follow(s, |s| set(s, r#"{"shards-per-node":2}"#));
    let expected = [
        format!("declare {}", shard(1)),
        "bind sharding: x - rabbit@old - 0 by \"\"".to_owned(),
        "bind sharding: x - rabbit@other - 0 by \"\"".to_owned(),
        format!("bind {} by \"\"", shard(1)),
    ];
    assert_eq!(made, expected);
}
