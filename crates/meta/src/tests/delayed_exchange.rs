//! Exchanges that hold messages back, and the queues behind them.

use super::*;

fn delaying(exchange_name: &str, arguments: &[(&'static str, Value)]) -> Command {
    let declare = exchange(exchange_name, ExchangeKind::Delayed);
    Command::DeclareExchange(ExchangeDeclare { arguments: table(arguments), ..declare })
}

fn delays(state: &State, exchange: &str) -> bool {
    let vhost = state.vhost(V).unwrap();
    vhost.policies.exchange_settings(vhost.exchange(exchange).unwrap()).delays
}

/// The queue that the broker declares for a delaying exchange.
fn behind(exchange: &str) -> QueueDeclare {
    QueueDeclare { named_by: NamedBy::Server, ..queue(&delayed_queue_of(exchange)) }
}

#[test]
fn a_delaying_exchange_routes_as_another_kind() {
    let s = &mut state();
    apply(s, delaying("x", &[("x-delayed-type", "topic".into())])).unwrap();
    assert_eq!(s.exchange(V, "x").unwrap().routes_as(), ExchangeKind::Topic);
    assert!(delays(s, "x") && !delays(s, "amq.direct"));
    let refusals: [(&[(&'static str, Value)], &str); 4] = [
        (&[], "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            &[("x-delayed-type", Value::I32(1))],
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            &[("x-delayed-type", Value::LongString(b"x-delayed-message".to_vec()))],
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        (
            &[("x-delayed-type", Value::LongString(b"x-strange".to_vec()))],
            "unknown exchange type 'x-strange'",
        ),
    ];
    for (arguments, text) in refusals {
        assert_eq!(refused(s, delaying("y", arguments)).1, text);
    }
    // What the other kind does not take is refused.
    let both = [
        ("x-delayed-type", "x-consistent-hash".into()),
        ("hash-header", "a".into()),
        ("hash-property", "message_id".into()),
    ];
    let text = "hash-header and hash-property are mutually exclusive";
    assert_eq!(refused(s, delaying("y", &both)).1, text);
}

#[test]
fn the_name_of_a_delaying_exchange_leaves_room_for_its_queues() {
    let s = &mut state();
    let direct = [("x-delayed-type", "direct".into())];
    apply(s, delaying(&"x".repeat(243), &direct)).unwrap();
    let (kind, text) = refused(s, delaying(&"x".repeat(244), &direct));
    assert_eq!(kind, ErrorKind::PreconditionFailed);
    assert!(text.starts_with("the name of an exchange that delays messages has at most 243 bytes"));
    assert!(text.ends_with("has 244"), "{text}");
    let by_argument = ExchangeDeclare {
        arguments: table(&[("x-delayed-exchange", Value::Bool(true))]),
        ..exchange(&"y".repeat(244), ExchangeKind::Direct)
    };
    assert!(refused(s, Command::DeclareExchange(by_argument)).1.ends_with("has 244"));
    // A policy does nothing to a name that is too long.
    let long = "z".repeat(244);
    for name in [long.as_str(), "short"] {
        apply(s, Command::DeclareExchange(exchange(name, ExchangeKind::Direct))).unwrap();
    }
    let policy = PolicySpec {
        name: name("delays"),
        pattern: "^(z|short)".to_owned(),
        apply_to: ApplyTo::Exchanges,
        definition: Json::parse("{\"x-delayed-exchange\": true}").unwrap(),
        priority: 0,
    };
    let scope = PolicyScope::User;
    apply(s, Command::SetPolicy { scope, vhost: name(V), policy }).unwrap();
    assert!(delays(s, "short") && !delays(s, &long));
}

#[test]
fn the_queue_behind_an_exchange_is_the_brokers_own() {
    let s = &mut state();
    let limits = VhostLimits { max_queues: Some(1), ..VhostLimits::default() };
    apply(s, Command::SetVhostLimits { vhost: name(V), limits }).unwrap();
    apply(s, delaying("x", &[("x-delayed-type", "direct".into())])).unwrap();
    let id = declare(s, behind("x"));
    // It counts towards no limit, and none keeps it out.
    declare(s, queue("q"));
    apply(s, delaying("y", &[("x-delayed-type", "direct".into())])).unwrap();
    declare(s, behind("y"));
    refused(s, Command::DeclareQueue(queue("r")));
    let def = s.queue_by_id(id).unwrap();
    assert!(def.is_internal() && s.queue_settings(def).holds_back);
    assert_eq!(def.delays_for(), Some("x"));
    let by = Some(ConnectionId(1));
    assert!(def.check_access(by).is_err() && def.check_access(None).is_ok());
    // Nobody reaches it by its name.
    let mut out = Vec::new();
    s.routes(V).unwrap().route(b"", &[b"amq.delayed.x"], None, &mut out);
    assert!(out.is_empty());
    let spec = BindingSpec { by, ..to_queue("amq.direct", "amq.delayed.x", "") };
    refused(s, Command::Bind(spec));
    let origin =
        definitions::Origin { rabbitmq_version: "", product_version: "", cluster_name: "" };
    let document = serde_json::to_value(definitions::export(s, origin)).unwrap();
    assert!(!document["queues"].to_string().contains("amq.delayed"), "{document}");
    // It goes with its exchange, whatever took that away, also in what is logged.
    let outcome = apply(s, delete_exchange("x")).unwrap();
    assert_eq!(gone(&outcome), ["exchange x", "queue amq.delayed.x"]);
    assert_eq!(outcome.facts.len(), 2);
    let mut again = state();
    for command in [
        delaying("x", &[("x-delayed-type", "direct".into())]),
        Command::DeclareQueue(QueueDeclare { id: Some(id), ..behind("x") }),
    ] {
        again.replay(&command).unwrap();
    }
    for command in outcome.durable() {
        again.replay(command).unwrap();
    }
    assert!(again.queue(V, "amq.delayed.x").is_none());
}

#[test]
fn an_exchange_that_deletes_itself_takes_its_queue_along() {
    let s = &mut state();
    let x = ExchangeDeclare {
        auto_delete: true,
        arguments: table(&[("x-delayed-exchange", Value::Bool(true))]),
        ..exchange("x", ExchangeKind::Fanout)
    };
    apply(s, Command::DeclareExchange(x.clone())).unwrap();
    declare(s, behind("x"));
    declare(s, queue("q"));
    apply(s, Command::Bind(to_queue("x", "q", ""))).unwrap();
    let outcome = apply(s, Command::Unbind(to_queue("x", "q", ""))).unwrap();
    let expected = ["binding from x by \"\"", "exchange x", "queue amq.delayed.x"];
    assert_eq!(gone(&outcome), expected);
    apply(s, Command::DeclareExchange(x)).unwrap();
    declare(s, behind("x"));
    apply(s, Command::Bind(to_queue("x", "q", ""))).unwrap();
    let outcome = apply(s, delete_queue("q")).unwrap();
    assert_eq!(gone(&outcome).last().unwrap(), "queue amq.delayed.x");
}
