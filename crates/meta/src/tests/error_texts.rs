//! The exact texts of refusals: clients and operators look for them.

use super::*;
use ErrorKind::{AccessRefused, InUse, NotFound, PreconditionFailed, ResourceLocked};

#[track_caller]
fn check(state: &mut State, command: Command, kind: ErrorKind, text: &str) {
    assert_eq!(refused(state, command), (kind, text.to_owned()));
}

#[test]
fn exchanges() {
    let s = &mut state();
    apply(s, Command::DeclareExchange(exchange("x", ExchangeKind::Direct))).unwrap();
    let again = |declare: ExchangeDeclare| Command::DeclareExchange(declare);
    let x = || exchange("x", ExchangeKind::Direct);
    assert!(matches!(apply(s, again(x())).unwrap().done, Done::ExchangeExists(_)));
    check(
        s,
        again(exchange("x", ExchangeKind::Fanout)),
        PreconditionFailed,
        "inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'direct'",
    );
    check(
        s,
        again(ExchangeDeclare { durable: false, internal: true, ..x() }),
        PreconditionFailed,
        "inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'",
    );
    check(
        s,
        again(ExchangeDeclare {
            arguments: table(&[("alternate-exchange", Value::from("y"))]),
            ..x()
        }),
        PreconditionFailed,
        "inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received the value 'y' \
         of type 'longstr' but current is none",
    );
    let unknown = ExchangeDeclare { arguments: table(&[("x-foo", Value::Void)]), ..x() };
    assert!(apply(s, again(unknown)).is_ok());
    check(
        s,
        again(ExchangeDeclare {
            arguments: table(&[("alternate-exchange", Value::I32(1))]),
            ..exchange("new", ExchangeKind::Direct)
        }),
        PreconditionFailed,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'new' in vhost '/'",
    );
    check(
        s,
        again(exchange("amq.foo", ExchangeKind::Direct)),
        AccessRefused,
        "exchange name 'amq.foo' contains reserved prefix 'amq.*'",
    );
    assert!(apply(s, again(exchange("amq.direct", ExchangeKind::Direct))).is_ok());
    let not_permitted = "operation not permitted on the default exchange";
    check(s, again(exchange("", ExchangeKind::Direct)), AccessRefused, not_permitted);
    check(s, delete_exchange(""), AccessRefused, not_permitted);
    check(
        s,
        delete_exchange("amq.direct"),
        AccessRefused,
        "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    );
    assert_eq!(apply(s, delete_exchange("missing")).unwrap().done, Done::Nothing);
    let error = parse_exchange_kind("nope").unwrap_err();
    assert_eq!(error.to_string(), "unknown exchange type 'nope'");
    assert_eq!(error.kind(), PreconditionFailed);
}

#[test]
fn an_exchange_is_in_use_by_bindings_from_it_only() {
    let s = &mut state();
    for x in ["a", "b"] {
        apply(s, Command::DeclareExchange(exchange(x, ExchangeKind::Fanout))).unwrap();
    }
    apply(s, Command::Bind(to_exchange("a", "b", ""))).unwrap();
    let if_unused = |x| Command::DeleteExchange { vhost: name(V), name: name(x), if_unused: true };
    check(s, if_unused("a"), InUse, "exchange 'a' in vhost '/' in use");
    assert_eq!(gone(&apply(s, if_unused("b")).unwrap()), ["binding from a by \"\"", "exchange b"]);
    assert!(apply(s, if_unused("a")).is_ok());
}

#[test]
fn queues_redeclared() {
    let s = &mut state();
    let ttl = |value: i64| ("x-message-ttl", Value::I64(value));
    apply(s, queue_with("q", &[("x-message-ttl", Value::I32(1))])).unwrap();
    assert!(matches!(apply(s, queue_with("q", &[ttl(1)])).unwrap().done, Done::QueueExists(_)));
    check(
        s,
        queue_with("q", &[ttl(2)]),
        PreconditionFailed,
        "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '2' but current is '1'",
    );
    check(
        s,
        queue_with("q", &[]),
        PreconditionFailed,
        "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received none but current is \
         the value '1' of type 'signedint'",
    );
    check(
        s,
        Command::DeclareQueue(QueueDeclare { durable: false, ..queue("q") }),
        PreconditionFailed,
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
    );
    check(
        s,
        Command::DeclareQueue(QueueDeclare { auto_delete: true, ..queue("q") }),
        PreconditionFailed,
        "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is \
         'false'",
    );
}

#[test]
fn only_known_arguments_are_compared() {
    let s = &mut state();
    let classic = ("x-queue-type", Value::from("classic"));
    apply(s, queue_with("q", &[("x-foo", Value::Bool(true))])).unwrap();
    assert!(apply(s, queue_with("q", &[])).is_ok());
    assert!(apply(s, queue_with("q", &[("x-foo", Value::I32(1)), classic.clone()])).is_ok());
    check(
        s,
        queue_with("q", &[("x-queue-mode", Value::from("lazy"))]),
        PreconditionFailed,
        "inequivalent arg 'x-queue-mode' for queue 'q' in vhost '/': received the value 'lazy' of \
         type 'longstr' but current is none",
    );
    apply(s, queue_with("typed", &[classic])).unwrap();
    assert!(apply(s, queue_with("typed", &[])).is_ok());
    check(
        s,
        queue_with("typed", &[("x-queue-type", Value::from("quorum"))]),
        PreconditionFailed,
        "inequivalent arg 'x-queue-type' for queue 'typed' in vhost '/': received 'quorum' but \
         current is 'classic'",
    );
}

#[test]
fn queue_arguments_out_of_their_domain() {
    const TEN_YEARS_AND_MORE: i64 = 315_360_000_001;
    let s = &mut state();
    let cases: &[(&'static str, Value, &str)] = &[
        ("x-message-ttl", Value::I32(-1), "{value_negative,-1}"),
        ("x-message-ttl", Value::from("1"), "\"expected integer, got longstr\""),
        ("x-message-ttl", Value::I64(TEN_YEARS_AND_MORE), "{value_too_large,315360000001}"),
        ("x-expires", Value::I32(0), "{value_zero,0}"),
        ("x-expires", Value::I32(-2), "{value_negative,-2}"),
        ("x-max-length", Value::I32(-1), "{value_negative,-1}"),
        ("x-max-length-bytes", Value::Bool(true), "\"expected integer, got bool\""),
        ("x-max-priority", Value::I32(256), "{max_value_exceeded,256}"),
        ("x-overflow", Value::from("drop"), "invalid_overflow"),
        ("x-overflow", Value::I32(1), "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", Value::from("k"), "routing_key_but_no_dlx_defined"),
        ("x-single-active-consumer", Value::from("yes"), "{unacceptable_type,longstr}"),
        ("x-queue-version", Value::I32(3), "\"unsupported queue version '3'\""),
        ("x-queue-mode", Value::from("fast"), "\"unsupported queue mode 'fast'\""),
        ("x-queue-type", Value::from("bad"), "\"unsupported queue type 'bad'\""),
        ("x-queue-type", Value::I32(1), "{unacceptable_type,signedint}"),
        ("x-queue-leader-locator", Value::from("x"), "invalid_queue_locator_arg"),
        ("x-delivery-limit", Value::from("1"), "\"expected integer, got longstr\""),
        ("x-delayed-retry-type", Value::from("x"), "invalid_delayed_retry_type"),
        ("x-delayed-retry-min", Value::I32(-1), "{value_negative,-1}"),
        ("x-consumer-timeout", Value::I32(-1), "{value_negative,-1}"),
        ("x-confirm-on", Value::from("publish"), "invalid_confirm_on"),
        ("x-confirm-on", Value::Bool(true), "{unacceptable_type,bool}"),
        ("x-confirm-on-max-pending", Value::I32(0), "{value_zero,0}"),
        ("x-confirm-on-max-pending-bytes", Value::I32(-1), "{value_negative,-1}"),
        ("x-confirm-on-no-consumer", Value::from("drop"), "invalid_confirm_on_no_consumer"),
        ("x-confirm-timeout", Value::I32(0), "{value_zero,0}"),
        ("x-confirm-timeout", Value::I32(-1), "{value_negative,-1}"),
        ("x-confirm-timeout", Value::I64(315_360_000_001), "{value_too_large,315360000001}"),
        ("x-confirm-timeout", Value::from("10s"), "\"expected integer, got longstr\""),
    ];
    for (key, value, reason) in cases {
        check(
            s,
            queue_with("q", &[(key, value.clone())]),
            PreconditionFailed,
            &format!("invalid arg '{key}' for queue 'q' in vhost '/': {reason}"),
        );
    }
    check(
        s,
        queue_with("q", &[("x-dead-letter-exchange", Value::I32(1))]),
        PreconditionFailed,
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'",
    );
    check(
        s,
        queue_with("q", &[("x-foo", Value::Void), ("x-max-age", Value::I32(1))]),
        PreconditionFailed,
        "invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_classic_queue",
    );
}

#[test]
fn queue_arguments_inside_their_domain() {
    let s = &mut state();
    let all_good = [
        ("x-expires", Value::I64(1)),
        ("x-message-ttl", Value::U8(0)),
        ("x-dead-letter-exchange", Value::from("d")),
        ("x-dead-letter-routing-key", Value::from("k")),
        ("x-max-length", Value::I32(0)),
        ("x-max-length-bytes", Value::I64(i64::MAX)),
        ("x-max-priority", Value::I32(255)),
        ("x-overflow", Value::from("reject-publish-dlx")),
        ("x-queue-mode", Value::from("lazy")),
        ("x-queue-version", Value::I32(1)),
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-queue-leader-locator", Value::from("client-local")),
        ("x-delivery-limit", Value::I32(-1)),
        ("x-delayed-retry-type", Value::from("failed")),
        ("x-delayed-retry-min", Value::I32(1_000)),
        ("x-delayed-retry-max", Value::I32(90_000)),
        ("x-consumer-timeout", Value::I32(5)),
        ("x-confirm-on", Value::from("ack-direct")),
        ("x-confirm-on-max-pending", Value::I32(7)),
        ("x-confirm-on-no-consumer", Value::from("nack")),
        ("x-confirm-timeout", Value::I32(30_000)),
        ("x-unknown", Value::Void),
    ];
    assert!(apply(s, queue_with("q", &all_good)).is_ok());
    let settings = s.queue(V, "q").unwrap().settings();
    let expected = QueueSettings {
        message_ttl_ms: Some(0),
        expires_ms: Some(1),
        length: LengthLimits {
            messages_max: Some(0),
            bytes_max: Some(u64::try_from(i64::MAX).unwrap()),
            overflow: Overflow::RejectPublishDeadLetter,
        },
        dead_letter: DeadLetterSettings {
            exchange: Some(name("d")),
            routing_key: Some(b"k".to_vec()),
            ..DeadLetterSettings::default()
        },
        max_priority: 255,
        single_active_consumer: true,
        delivery_limit: None,
        delayed_retry: Some(DelayedRetry { on: RetryType::Failed, min_ms: 1_000, max_ms: 90_000 }),
        version: Some(QueueVersion::V1),
        consumer_timeout_ms: Some(5),
        holds_back: false,
        confirm: ConfirmSettings {
            on: ConfirmOn::AckDirect,
            max_pending: 7,
            without_consumer: WithoutConsumer::Nack,
            timeout_ms: Some(30_000),
            ..ConfirmSettings::default()
        },
    };
    assert_eq!(settings, expected);
    declare(s, queue("plain"));
    assert_eq!(s.queue(V, "plain").unwrap().settings(), QueueSettings::default());
}

#[test]
fn reserved_queue_names() {
    let s = &mut state();
    let text = "queue name 'amq.gen-a' contains reserved prefix 'amq.*'";
    check(s, Command::DeclareQueue(queue("amq.gen-a")), AccessRefused, text);
    declare(s, QueueDeclare { named_by: NamedBy::Server, ..queue("amq.gen-a") });
    check(s, Command::DeclareQueue(queue("amq.gen-a")), AccessRefused, text);
    let text = "invalid queue name: the length must be 1 to 255 bytes";
    check(s, Command::DeclareQueue(queue("")), PreconditionFailed, text);
    check(s, Command::DeclareQueue(queue(&"q".repeat(256))), PreconditionFailed, text);
}

#[test]
fn exclusive_queues_are_locked() {
    let s = &mut state();
    declare(s, exclusive("q", 1));
    let stored = s.queue(V, "q").unwrap();
    assert!(!stored.durable);
    let locked = "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be \
                  originally declared on another connection or the exclusive property value does \
                  not match that of the original declaration.";
    assert!(stored.check_access(Some(ConnectionId(1))).is_ok());
    assert!(stored.check_access(None).is_ok());
    let error = stored.check_access(Some(ConnectionId(2))).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ResourceLocked, locked.to_owned()));
    // The owner may declare it again, durable or not, but not as a shared one.
    declare(s, exclusive("q", 1));
    declare(s, QueueDeclare { durable: false, ..exclusive("q", 1) });
    check(s, Command::DeclareQueue(queue("q")), ResourceLocked, locked);
    check(s, Command::DeclareQueue(exclusive("q", 2)), ResourceLocked, locked);
    let by = Some(ConnectionId(2));
    let bind = BindingSpec { by, ..to_queue("amq.direct", "q", "k") };
    check(s, Command::Bind(bind.clone()), ResourceLocked, locked);
    check(s, Command::Unbind(bind.clone()), ResourceLocked, locked);
    check(s, Command::DeleteQueue { vhost: name(V), name: name("q"), by }, ResourceLocked, locked);
    declare(s, queue("shared"));
    let text = locked.replace("'q'", "'shared'");
    check(s, Command::DeclareQueue(exclusive("shared", 1)), ResourceLocked, &text);
    let by = Some(ConnectionId(1));
    assert!(apply(s, Command::Bind(BindingSpec { by, ..bind })).is_ok());
}

#[test]
fn bindings() {
    let s = &mut state();
    declare(s, queue("q"));
    let no_x = "no exchange 'x' in vhost '/'";
    check(s, Command::Bind(to_queue("x", "q", "")), NotFound, no_x);
    check(s, Command::Bind(to_queue("x", "none", "")), NotFound, no_x);
    check(
        s,
        Command::Bind(to_queue("amq.topic", "none", "")),
        NotFound,
        "no queue 'none' in vhost '/'",
    );
    check(s, Command::Bind(to_exchange("amq.topic", "x", "")), NotFound, no_x);
    let not_permitted = "operation not permitted on the default exchange";
    for spec in [to_queue("", "q", "q"), to_exchange("amq.topic", "", "")] {
        check(s, Command::Bind(spec.clone()), AccessRefused, not_permitted);
        check(s, Command::Unbind(spec), AccessRefused, not_permitted);
    }
    check(
        s,
        Command::Bind(to_queue("amq.topic", "q", "#.#.#")),
        PreconditionFailed,
        "Topic binding key '#.#.#' uses 3 '#' wildcards, at most 2 are allowed",
    );
    let arguments = table(&[("x-match", Value::from("none"))]);
    check(
        s,
        Command::Bind(BindingSpec { arguments, ..to_queue("amq.match", "q", "") }),
        PreconditionFailed,
        "Invalid x-match field value <<\"none\">>; expected all, any, all-with-x, or any-with-x",
    );
    let vhost = s.vhost(V).unwrap();
    assert_eq!(
        vhost.require_queue("none").unwrap_err().to_string(),
        "no queue 'none' in vhost '/'"
    );
    assert_eq!(vhost.require_exchange("x").unwrap_err().to_string(), no_x);
    for missing in [
        to_queue("x", "q", ""),
        to_queue("amq.topic", "none", ""),
        to_queue("amq.topic", "q", "never"),
        to_exchange("amq.topic", "x", ""),
    ] {
        assert_eq!(apply(s, Command::Unbind(missing)).unwrap().done, Done::Nothing);
    }
    let k = || Command::Bind(to_queue("amq.topic", "q", "k"));
    assert_eq!(apply(s, k()).unwrap().done, Done::Changed);
    assert_eq!(apply(s, k()).unwrap().done, Done::Nothing);
    let views: Vec<_> = s.bindings(s.vhost(V).unwrap()).collect();
    let sources: Vec<_> = views.iter().map(|view| (&*view.source, view.key.to_text())).collect();
    assert_eq!(sources, [("", "q".into()), ("amq.topic", "k".into())]);
}

#[test]
fn virtual_hosts_and_limits() {
    let s = &mut state();
    let metadata = VhostMetadata { protected_from_deletion: true, ..VhostMetadata::default() };
    let create = |vhost| Command::CreateVhost { vhost: name(vhost), metadata: metadata.clone() };
    check(s, create(V), ErrorKind::AlreadyExists, "Virtual host '/' already exists");
    apply(s, create("safe")).unwrap();
    let (kind, _) = refused(s, Command::DeleteVhost { vhost: name("safe") });
    assert_eq!(kind, ErrorKind::NotAllowed);
    let elsewhere = QueueDeclare { vhost: name("nope"), ..queue("q") };
    check(s, Command::DeclareQueue(elsewhere), NotFound, "vhost nope not found");
    let limits = VhostLimits { max_queues: Some(1), max_connections: None };
    apply(s, Command::SetVhostLimits { vhost: name(V), limits }).unwrap();
    declare(s, queue("one"));
    declare(s, queue("one"));
    check(
        s,
        Command::DeclareQueue(queue("two")),
        PreconditionFailed,
        "cannot declare queue 'two': queue limit in vhost '/' (1) is reached",
    );
    // One that is there again with its files counts as any other.
    let again = QueueDeclare { id: Some(QueueId(77)), ..queue("two") };
    let (kind, _) = refused(s, Command::DeclareQueue(again.clone()));
    assert_eq!(kind, PreconditionFailed);
    let limits = VhostLimits { max_queues: Some(-1), max_connections: None };
    apply(s, Command::SetVhostLimits { vhost: name(V), limits }).unwrap();
    assert_eq!(declare(s, again), QueueId(77));
    assert!(declare(s, queue("three")) > QueueId(77));
}

#[test]
fn the_default_queue_type_counts_as_asked_for() {
    let s = &mut state();
    let default_queue_type = Some(name("classic"));
    let metadata = VhostMetadata { default_queue_type, ..VhostMetadata::default() };
    apply(s, Command::UpdateVhost { vhost: name(V), metadata }).unwrap();
    declare(s, queue("q"));
    let arguments = s.queue(V, "q").unwrap().arguments.clone();
    assert_eq!(arguments, table(&[("x-queue-type", Value::from("classic"))]));
    declare(s, queue("q"));
    let metadata =
        VhostMetadata { default_queue_type: Some(name("quorum")), ..VhostMetadata::default() };
    apply(s, Command::UpdateVhost { vhost: name(V), metadata }).unwrap();
    declare(s, queue("other"));
    assert_eq!(s.queue(V, "other").unwrap().kind, QueueKind::Quorum);
    declare(s, exclusive("mine", 1));
    assert_eq!(everything(&State::restore(&everything(s)).unwrap()), everything(s));
}

/// A newer version may have logged it: as another type it would be an empty queue.
#[test]
fn a_logged_queue_of_an_unknown_type_is_refused() {
    let s = &mut state();
    let mut queue = queue_with("q", &[("x-queue-type", Value::from("of-the-future"))]);
    if let Command::DeclareQueue(declare) = &mut queue {
        declare.id = Some(QueueId(1));
    }
    let refused = s.replay(&queue).unwrap_err().to_string();
    assert!(refused.contains("of-the-future"), "{refused}");
}

/// Limits of the node itself; what exists may be declared again.
#[test]
fn a_node_takes_only_so_much() {
    let s = &mut state();
    declare(s, queue("q"));
    let limits = NodeLimits {
        vhosts: Some(1),
        queues: Some(1),
        exchanges: Some(7),
        no_transient_queues: false,
        no_local_random: true,
        types: NodeQueueTypes::default(),
    };
    let told = |s: &State, command: &Command| {
        s.check_room(&limits, command).err().map(|error| (error.kind(), error.to_string()))
    };
    assert_eq!(told(s, &Command::DeclareQueue(queue("q"))), None);
    assert_eq!(
        told(s, &Command::DeclareQueue(queue("q2"))),
        Some((
            PreconditionFailed,
            "cannot declare queue 'q2': queue limit in cluster (1) is reached".to_owned()
        ))
    );
    let declared = Command::DeclareExchange(exchange("x", ExchangeKind::Direct));
    assert_eq!(
        told(s, &declared),
        Some((
            PreconditionFailed,
            "cannot declare exchange 'x' in vhost '/': exchange limit of 7 is reached".to_owned()
        ))
    );
    let random = Command::DeclareExchange(exchange("r", ExchangeKind::LocalRandom));
    let disabled = "x-local-random exchange is disabled by configuration".to_owned();
    assert_eq!(told(s, &random), Some((PreconditionFailed, disabled)));
    let existing = Command::DeclareExchange(exchange("amq.direct", ExchangeKind::Direct));
    assert_eq!(told(s, &existing), None);
    let create = |vhost: &str| Command::CreateVhost {
        vhost: name(vhost),
        metadata: VhostMetadata::default(),
    };
    assert_eq!(told(s, &create(V)), None);
    assert_eq!(
        told(s, &create("w")),
        Some((
            ErrorKind::NotAllowed,
            "cannot create vhost 'w': vhost limit of 1 is reached".to_owned()
        ))
    );
    assert_eq!(s.check_room(&NodeLimits::default(), &create("w")), Ok(()));
    let strict = NodeLimits { no_transient_queues: true, ..NodeLimits::default() };
    let transient = Command::DeclareQueue(QueueDeclare { durable: false, ..queue("t") });
    let told = s.check_room(&strict, &transient).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::NotPermitted);
    assert!(told.to_string().starts_with("Feature `transient_nonexcl_queues` is deprecated."));
    let exclusive = Command::DeclareQueue(exclusive("t", 1));
    assert_eq!(s.check_room(&strict, &exclusive), Ok(()));
}
