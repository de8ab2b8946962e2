//! Arguments and policies of quorum queues.

use super::*;
use crate::queue_arguments::check_for;
use crate::queue_type::QUORUM;
use crate::setting::policy::suit;

/// A queue that lasts.
fn quorum(arguments: &[(&'static str, Value)]) -> QueueDef {
    QueueDef {
        id: QueueId(1),
        vhost: name(V),
        name: name("q"),
        kind: QueueKind::Quorum,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: table(arguments),
        home: QueueHome::default(),
    }
}

fn told(queue: &QueueDef) -> String {
    match check_for(&QUORUM, queue) {
        Ok(()) => "fine".to_owned(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
            error.to_string()
        }
    }
}

#[test]
fn values_of_arguments_are_checked() {
    let cases = [
        ("x-dead-letter-strategy", Value::from("never"), "invalid_dlx_strategy"),
        ("x-quorum-initial-group-size", Value::I64(0), "{value_zero,0}"),
        ("x-quorum-initial-group-size", Value::from("3"), "\"expected integer, got longstr\""),
        ("x-max-in-memory-length", Value::I64(-1), "{value_negative,-1}"),
        ("x-consumer-disconnected-timeout", Value::I64(-1), "{value_negative,-1}"),
        ("x-consumer-timeout", Value::I64(-1), "{value_negative,-1}"),
        ("x-queue-leader-locator", Value::from("here"), "invalid_queue_locator_arg"),
        ("x-overflow", Value::from("spill"), "invalid_overflow"),
        (
            "x-confirm-on",
            Value::from("ack-direct"),
            "\"quorum queues confirm on enqueue or ack, not on 'ack-direct'\"",
        ),
        ("x-confirm-timeout", Value::I64(0), "{value_zero,0}"),
        ("x-single-active-consumer", Value::from("yes"), "{unacceptable_type,longstr}"),
        ("x-expires", Value::I64(0), "{value_zero,0}"),
        ("x-message-ttl", Value::I64(-1), "{value_negative,-1}"),
    ];
    for (key, value, reason) in cases {
        let text = format!("invalid arg '{key}' for queue 'q' in vhost '/': {reason}");
        assert_eq!(told(&quorum(&[(key, value)])), text);
    }
    // COMPAT: these may be anything.
    let all = [
        ("x-delayed-retry-type", Value::from("sometimes")),
        ("x-delayed-retry-min", Value::I64(-1)),
        ("x-delivery-limit", Value::from("many")),
        ("x-dead-letter-exchange", Value::from("x")),
        ("x-dead-letter-strategy", Value::from("at-least-once")),
        ("x-quorum-target-group-size", Value::from("three")),
        ("x-quorum-initial-group-size", Value::I64(5)),
        ("x-queue-type", Value::from("quorum")),
    ];
    assert_eq!(told(&quorum(&all)), "fine");
}

#[test]
fn arguments_of_other_queues_are_refused() {
    for key in
        ["x-max-priority", "x-queue-mode", "x-queue-version", "x-max-age", "x-initial-cluster-size"]
    {
        assert_eq!(
            told(&quorum(&[(key, Value::I32(1))])),
            format!(
                "invalid arg '{key}' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"
            )
        );
    }
}

#[test]
fn quorum_queues_last_and_belong_to_nobody() {
    let cases = [
        (QueueDef { auto_delete: true, ..quorum(&[]) }, "auto-delete"),
        (QueueDef { exclusive_owner: Some(ConnectionId(1)), ..quorum(&[]) }, "exclusive-owner"),
        (QueueDef { durable: false, ..quorum(&[]) }, "non-durable"),
    ];
    for (queue, property) in cases {
        let text = format!("invalid property '{property}' for queue 'q' in vhost '/'");
        assert_eq!(told(&queue), text);
    }
    let error = MetaError::ServerNamed(QUORUM.module.into());
    let text = "Cannot declare a server-named queue for type rabbit_quorum_queue";
    assert_eq!((error.to_string().as_str(), error.kind()), (text, ErrorKind::PreconditionFailed));
}

#[test]
fn policies_of_other_queues_do_not_apply() {
    let policy = |text: &str| serde_json::from_str(text).expect("an object");
    for fits in [
        r#"{"delivery-limit":5,"overflow":"reject-publish","target-group-size":3}"#,
        r#"{"dead-letter-strategy":"at-least-once","consumer-disconnected-timeout":5}"#,
    ] {
        assert!(suit(&QUORUM, &policy(fits)), "{fits}");
    }
    for other in [r#"{"queue-mode":"lazy"}"#, r#"{"max-age":"1D"}"#] {
        assert!(!suit(&QUORUM, &policy(other)), "{other}");
    }
}

#[test]
fn the_nodes_settings_of_queue_types_count_for_new_queues() {
    let s = &mut state();
    let of_type = |kind: &'static str| queue_with("q", &[("x-queue-type", Value::from(kind))]);
    let mut types = NodeQueueTypes::default();
    types.default = Some(QueueKind::Quorum);
    let mut declare = queue("q");
    let typed = types.complete(s, &Command::DeclareQueue(declare.clone())).into_owned();
    assert_eq!(typed, of_type("quorum"));
    declare.auto_delete = true;
    let passing = Command::DeclareQueue(declare);
    assert_eq!(*types.complete(s, &passing), passing);
    let mut no_quorum = types;
    no_quorum.enable(QueueKind::Quorum, false);
    let limits = NodeLimits { types: no_quorum, ..NodeLimits::default() };
    let refused = s.check_room(&limits, &typed).unwrap_err().to_string();
    assert!(refused.contains("of type 'quorum': the queue type is not enabled"), "{refused}");
    apply(s, typed).unwrap();
    let mut relaxed = NodeQueueTypes::default();
    relaxed.relaxed_redeclaration = true;
    let again = of_type("classic");
    assert!(apply(s, again.clone()).is_err());
    let again = relaxed.complete(s, &again).into_owned();
    apply(s, again).unwrap();
    let other = queue_with(
        "q",
        &[("x-queue-type", Value::from("classic")), ("x-max-length", Value::I32(1))],
    );
    let other = relaxed.complete(s, &other).into_owned();
    let refused = apply(s, other).unwrap_err().to_string();
    assert!(refused.contains("inequivalent arg 'x-max-length'"), "{refused}");
}
