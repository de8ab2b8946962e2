//! The effect of policies in force.

use super::*;

fn set(s: &mut State, scope: PolicyScope, name_of: &str, definition: &str) {
    let policy = PolicySpec {
        name: name(name_of),
        pattern: "^q".to_owned(),
        apply_to: ApplyTo::All,
        definition: Json::parse(definition).unwrap(),
        priority: 0,
    };
    apply(s, Command::SetPolicy { scope, vhost: name(V), policy }).unwrap();
}

fn clear(s: &mut State, scope: PolicyScope, name_of: &str) {
    let name = name(name_of);
    apply(s, Command::ClearPolicy { scope, vhost: Name::from(V), name }).unwrap();
}

fn settings(s: &State, queue: &str) -> QueueSettings {
    s.queue_settings(s.queue(V, queue).unwrap())
}

#[test]
fn arguments_policies_and_operator_policies_become_one() {
    let s = &mut state();
    declare(s, queue("q"));
    let arguments = table(&[
        ("x-max-length", Value::I32(10)),
        ("x-message-ttl", Value::I32(1_000)),
        ("x-dead-letter-exchange", Value::from("of-argument")),
        ("x-overflow", Value::from("reject-publish")),
    ]);
    declare(s, QueueDeclare { arguments, ..queue("q.own") });
    declare(s, queue("other"));
    set(
        s,
        PolicyScope::User,
        "p",
        r#"{"max-length":7,"message-ttl":2000,"expires":5000,"dead-letter-exchange":"of-policy",
            "dead-letter-routing-key":"k","overflow":"drop-head","queue-version":1}"#,
    );
    let plain = settings(s, "q");
    assert_eq!((plain.length.messages_max, plain.message_ttl_ms), (Some(7), Some(2_000)));
    assert_eq!(plain.dead_letter.exchange, Some(name("of-policy")));
    assert_eq!(plain.dead_letter.routing_key.as_deref(), Some(&b"k"[..]));
    assert_eq!(plain.version, Some(QueueVersion::V1));
    let own = settings(s, "q.own");
    // Of lengths and times the smaller counts, of the rest the argument.
    assert_eq!((own.length.messages_max, own.message_ttl_ms), (Some(7), Some(1_000)));
    assert_eq!(own.expires_ms, Some(5_000));
    assert_eq!(own.dead_letter.exchange, Some(name("of-argument")));
    assert_eq!(own.length.overflow, Overflow::RejectPublish);
    assert_eq!(settings(s, "other"), QueueSettings::default());
    set(s, PolicyScope::Operator, "o", r#"{"max-length":3,"expires":9000,"queue-version":2}"#);
    let held = settings(s, "q");
    assert_eq!((held.length.messages_max, held.expires_ms), (Some(3), Some(5_000)));
    assert_eq!(held.version, Some(QueueVersion::V2));
    clear(s, PolicyScope::User, "p");
    assert_eq!(
        settings(s, "q"),
        QueueSettings {
            length: LengthLimits { messages_max: Some(3), ..LengthLimits::default() },
            expires_ms: Some(9_000),
            version: Some(QueueVersion::V2),
            ..QueueSettings::default()
        }
    );
}

#[test]
fn a_policy_with_settings_of_other_queue_types_does_not_apply_to_a_classic_queue() {
    let s = &mut state();
    declare(s, queue("q"));
    set(s, PolicyScope::User, "p", r#"{"max-length":7,"max-age":"3D"}"#);
    assert_eq!(settings(s, "q").length.messages_max, None);
    set(s, PolicyScope::User, "p", r#"{"max-length":7}"#);
    assert_eq!(settings(s, "q").length.messages_max, Some(7));
}

/// Classic queues have both here, so policies with them apply.
#[test]
fn delivery_limits_and_delayed_retry_may_come_from_policies() {
    let s = &mut state();
    let arguments = table(&[
        ("x-delivery-limit", Value::I32(5)),
        ("x-delayed-retry-type", Value::from("all")),
        ("x-delayed-retry-min", Value::I32(100)),
    ]);
    declare(s, queue("q"));
    declare(s, QueueDeclare { arguments, ..queue("q.own") });
    let retry = |on, min_ms, max_ms| Some(DelayedRetry { on, min_ms, max_ms });
    let seen = |s: &State| {
        ["q", "q.own"].map(|name| {
            let settings = settings(s, name);
            (settings.delivery_limit, settings.delayed_retry)
        })
    };
    let own = (Some(5), retry(RetryType::All, 100, 100));
    assert_eq!(seen(s), [(None, None), own]);
    set(s, PolicyScope::User, "p", r#"{"delivery-limit":-1}"#);
    assert_eq!(seen(s), [(None, None), own], "no limit, and that of the argument");
    set(
        s,
        PolicyScope::User,
        "p",
        r#"{"delivery-limit":7,"delayed-retry-type":"failed","delayed-retry-min":50,
            "delayed-retry-max":70}"#,
    );
    let both = retry(RetryType::Failed, 50, 70);
    assert_eq!(seen(s), [(Some(7), both), (Some(5), both)]);
    set(s, PolicyScope::Operator, "o", r#"{"delivery-limit":3,"delayed-retry-type":"disabled"}"#);
    assert_eq!(seen(s), [(Some(3), None), (Some(3), None)]);
    clear(s, PolicyScope::User, "p");
    clear(s, PolicyScope::Operator, "o");
    assert_eq!(seen(s), [(None, None), own]);
}

#[test]
fn what_a_policy_cannot_set_is_refused() {
    let s = &mut state();
    let policy = |definition: &str| PolicySpec {
        name: name("p"),
        pattern: String::new(),
        apply_to: ApplyTo::All,
        definition: Json::parse(definition).unwrap(),
        priority: 0,
    };
    let set = |scope, definition: &str| Command::SetPolicy {
        scope,
        vhost: name(V),
        policy: policy(definition),
    };
    assert_eq!(
        refused(s, set(PolicyScope::User, r#"{"expires":0}"#)),
        (ErrorKind::Invalid, "0 is not a valid queue expiry".to_owned())
    );
    let of_users = set(PolicyScope::Operator, r#"{"alternate-exchange":"x"}"#);
    assert_eq!(
        refused(s, of_users).1,
        "[{<<\"alternate-exchange\">>,<<\"x\">>}] are not recognised policy settings"
    );
}

/// The alternate exchange may come from a policy, and an argument goes before it.
#[test]
fn an_alternate_exchange_may_come_from_a_policy() {
    let s = &mut state();
    for name_of in ["q.x", "q.own", "last", "own"] {
        apply(s, Command::DeclareExchange(exchange(name_of, ExchangeKind::Direct))).unwrap();
    }
    let arguments = table(&[("alternate-exchange", Value::from("own"))]);
    let with_own = ExchangeDeclare { arguments, ..exchange("q.argued", ExchangeKind::Direct) };
    apply(s, Command::DeclareExchange(with_own)).unwrap();
    for (exchange, name_of) in [("last", "of-policy"), ("own", "of-argument")] {
        declare(s, queue(name_of));
        apply(s, Command::Bind(to_queue(exchange, name_of, "k"))).unwrap();
    }
    let routed = |s: &State, exchange: &str| {
        let mut out = Vec::new();
        s.routes(V).unwrap().route(exchange.as_bytes(), &[b"k"], None, &mut out);
        let names = out.iter().map(|id| s.queue_by_id(*id).unwrap().name.to_string());
        names.collect::<Vec<_>>()
    };
    assert!(routed(s, "q.x").is_empty());
    set(s, PolicyScope::User, "p", r#"{"alternate-exchange":"last"}"#);
    assert_eq!(routed(s, "q.x"), ["of-policy"]);
    assert_eq!(routed(s, "q.argued"), ["of-argument"]);
    // Also for what is declared later, and after a restart.
    apply(s, Command::DeclareExchange(exchange("q.late", ExchangeKind::Fanout))).unwrap();
    assert_eq!(routed(s, "q.late"), ["of-policy"]);
    assert_eq!(routed(&State::restore(&durable(s)).unwrap(), "q.x"), ["of-policy"]);
    clear(s, PolicyScope::User, "p");
    assert!(routed(s, "q.x").is_empty());
    assert!(routed(s, "q.late").is_empty());
}

/// Every queue of a virtual host is looked at when a policy changes: no JSON is read and no pattern
/// compiled for that.
#[test]
fn settings_of_many_queues_are_worked_out_from_policies_read_once() {
    let s = &mut state();
    for n in 0..20_000 {
        declare(s, queue(&format!("q{n}")));
    }
    for n in 0..10 {
        set(s, PolicyScope::User, &format!("p{n}"), &format!("{{\"max-length\":{}}}", n + 1));
    }
    let vhost = s.vhost(V).unwrap();
    let all = vhost.queues().map(|queue| vhost.policies.queue_settings(queue));
    assert!(all.into_iter().all(|settings| settings.length.messages_max == Some(1)));
}

/// Each declaration of a queue matches all policies: what they may take together for a name is limited, where
/// they are set. What is in the log is taken as it is.
#[test]
fn policies_that_take_too_long_for_a_name_are_refused() {
    let s = &mut state();
    let set = |n: usize, pattern: String| {
        let definition = Json::parse(r#"{"max-length":5}"#).unwrap();
        let (name, apply_to) = (name(&format!("p{n}")), ApplyTo::All);
        let policy = PolicySpec { name, pattern, apply_to, definition, priority: 0 };
        Command::SetPolicy { scope: PolicyScope::User, vhost: Name::from(V), policy }
    };
    let too_long = "(?:[^c]*a[^c]*b){200}c".to_owned();
    let (kind, reason) = refused(s, set(0, too_long.clone()));
    assert_eq!((kind, &*reason), (ErrorKind::Invalid, "the pattern may take too long for a name"));
    s.clone().replay(&set(0, too_long)).unwrap();
    for n in 0..500 {
        apply(s, set(n, format!("^tenant-{n}\\.(orders|events)\\."))).unwrap();
    }
    let look_around = |n: usize| set(n, format!("^(?!amq\\.)q{n}(?=x)"));
    let refused_from = (1_000..2_000).find(|n| apply(s, look_around(*n)).is_err()).unwrap();
    assert!(refused_from > 1_010, "some are taken beside those: {refused_from}");
    // One that is there may be set anew, for less, and for as much.
    apply(s, look_around(1_000)).unwrap();
    apply(s, set(1_001, "^x".to_owned())).unwrap();
    apply(s, look_around(refused_from)).unwrap();
}
