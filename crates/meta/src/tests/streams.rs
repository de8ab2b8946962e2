//! Arguments and policies of streams.

use super::*;
use crate::queue_arguments::check_for;
use crate::queue_type::STREAM;

/// A queue that lasts.
fn stream(arguments: &[(&'static str, Value)]) -> QueueDef {
    QueueDef {
        id: QueueId(1),
        vhost: name(V),
        name: name("q"),
        kind: QueueKind::Stream,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: table(arguments),
        home: QueueHome::default(),
    }
}

fn told(queue: &QueueDef) -> String {
    match check_for(&STREAM, queue) {
        Ok(()) => "fine".to_owned(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
            error.to_string()
        }
    }
}

#[test]
fn values_of_arguments_are_checked() {
    let invalid = |key: &str, reason: &str| {
        format!("invalid arg '{key}' for queue 'q' in vhost '/': {reason}")
    };
    let refused = |key: &'static str, value: Value, reason: &str| {
        assert_eq!(told(&stream(&[(key, value)])), invalid(key, reason));
    };
    for age in ["", "1", "D", "0D", "7x", "1Y2M", "-1D", "+1D", "1 D", "99999999999999999999s"] {
        refused("x-max-age", Value::from(age), "invalid_max_age");
    }
    refused("x-max-age", Value::I32(1), "{unacceptable_type,signedint}");
    refused("x-max-length-bytes", Value::I64(-1), "{value_negative,-1}");
    refused("x-max-length-bytes", Value::from("1"), "\"expected integer, got longstr\"");
    refused("x-stream-max-segment-size-bytes", Value::I64(-1), "{value_negative,-1}");
    refused("x-stream-filter-size-bytes", Value::from("16"), "\"expected integer, got longstr\"");
    refused("x-initial-cluster-size", Value::I64(0), "{value_zero,0}");
    refused("x-queue-leader-locator", Value::from("here"), "invalid_queue_locator_arg");
    let segment = |bytes| stream(&[("x-stream-max-segment-size-bytes", Value::I64(bytes))]);
    assert_eq!(told(&segment(3_000_000_000)), "fine");
    assert_eq!(
        told(&segment(3_000_000_001)),
        "Exceeded max value for x-stream-max-segment-size-bytes"
    );
    let initial = |offset| stream(&[("x-stream-initial-offset", Value::I64(offset))]);
    assert_eq!(told(&initial((1 << 62) - 1)), "fine");
    assert_eq!(told(&initial(1 << 62)), "Invalid value for x-stream-initial-offset");
    refused("x-stream-initial-offset", Value::I64(-1), "{value_negative,-1}");
    refused("x-stream-initial-offset", Value::from("1"), "\"expected integer, got longstr\"");
    let filter = |bytes| stream(&[("x-stream-filter-size-bytes", Value::I64(bytes))]);
    for (bytes, text) in [
        (15, "Invalid value for x-stream-filter-size-bytes"),
        (16, "fine"),
        (255, "fine"),
        (256, "Invalid value for x-stream-filter-size-bytes"),
    ] {
        assert_eq!(told(&filter(bytes)), text);
    }
    let all = [
        ("x-max-age", Value::from("7D")),
        ("x-max-length-bytes", Value::I64(0)),
        ("x-initial-cluster-size", Value::I64(3)),
        ("x-queue-leader-locator", Value::from("balanced")),
        ("x-queue-type", Value::from("stream")),
        ("x-unknown", Value::Void),
    ];
    assert_eq!(told(&stream(&all)), "fine");
}

#[test]
fn arguments_of_other_queues_are_refused() {
    for key in [
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-overflow",
        "x-dead-letter-exchange",
        "x-max-priority",
        "x-single-active-consumer",
        "x-queue-version",
        "x-queue-mode",
        "x-consumer-timeout",
        "x-delivery-limit",
        "x-quorum-initial-group-size",
        "x-confirm-on",
        "x-confirm-timeout",
    ] {
        assert_eq!(
            told(&stream(&[(key, Value::I32(1))])),
            format!(
                "invalid arg '{key}' for queue 'q' in vhost '/' of queue type rabbit_stream_queue"
            )
        );
    }
}

#[test]
fn streams_last_and_belong_to_nobody() {
    let cases = [
        (QueueDef { auto_delete: true, ..stream(&[]) }, "auto-delete"),
        (QueueDef { exclusive_owner: Some(ConnectionId(1)), ..stream(&[]) }, "exclusive-owner"),
        (QueueDef { durable: false, ..stream(&[]) }, "non-durable"),
    ];
    for (queue, property) in cases {
        let text = format!("invalid property '{property}' for queue 'q' in vhost '/'");
        assert_eq!(told(&queue), text);
    }
    let error = MetaError::ServerNamed(STREAM.module.into());
    let text = "Cannot declare a server-named queue for type rabbit_stream_queue";
    assert_eq!((error.to_string().as_str(), error.kind()), (text, ErrorKind::PreconditionFailed));
}

fn policy(text: &str) -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_str(text).expect("an object")
}

#[test]
fn for_streams_a_policy_counts_before_an_argument() {
    let arguments = [
        ("x-max-age", Value::from("1h")),
        ("x-max-length-bytes", Value::I64(5)),
        ("x-stream-max-segment-size-bytes", Value::I64(7)),
        ("x-stream-filter-size-bytes", Value::I64(20)),
        ("x-stream-initial-offset", Value::I64(9)),
    ];
    let by_arguments = StreamSettings {
        max_bytes: Some(5),
        max_age_ms: Some(3_600_000),
        segment_bytes: 7,
        filter_bytes: 20,
        initial_offset: 9,
    };
    let none = policy("{}");
    assert_eq!(StreamSettings::of(&stream(&arguments), &none), by_arguments);
    let larger = policy(
        r#"{"max-age":"2Y","max-length-bytes":50,"stream-max-segment-size-bytes":70,
            "stream-filter-size-bytes":200,"stream-initial-offset":300}"#,
    );
    let by_policy = StreamSettings {
        max_bytes: Some(50),
        max_age_ms: Some(2 * 365 * 24 * 3_600_000),
        segment_bytes: 70,
        filter_bytes: 200,
        initial_offset: 0,
    };
    // No policy says where a stream begins.
    let of_both = StreamSettings { initial_offset: 9, ..by_policy };
    assert_eq!(StreamSettings::of(&stream(&arguments), &larger), of_both);
    assert_eq!(StreamSettings::of(&stream(&[]), &larger), by_policy);
    let some = policy(r#"{"max-age":"30s"}"#);
    assert_eq!(
        StreamSettings::of(&stream(&arguments), &some),
        StreamSettings { max_age_ms: Some(30_000), ..by_arguments }
    );
    assert_eq!(StreamSettings::of(&stream(&[]), &none), StreamSettings::default());
}

#[test]
fn the_settings_of_a_stream_that_exists_are_found() {
    let s = &mut state();
    apply(s, queue_with("q", &[("x-max-length-bytes", Value::I64(5))])).unwrap();
    let queue = s.queue(V, "q").unwrap();
    assert_eq!(stream_settings(s, queue).max_bytes, Some(5));
    let elsewhere = QueueDef { vhost: name("elsewhere"), ..QueueDef::clone(queue) };
    assert_eq!(stream_settings(s, &elsewhere), StreamSettings::default());
}

/// COMPAT: a policy with a setting that streams are said not to support applies to none of them, whatever
/// else it sets; other settings that they do not know are passed over.
#[test]
fn policies_of_other_queues_pass_streams_by() {
    use crate::setting::policy::suit;
    for key in [
        "expires",
        "message-ttl",
        "dead-letter-exchange",
        "max-length",
        "overflow",
        "queue-mode",
        "delivery-limit",
        "queue-master-locator",
        "target-group-size",
        "confirm-on",
        "confirm-timeout",
    ] {
        assert!(!suit(&STREAM, &policy(&format!(r#"{{"max-age":"1D","{key}":1}}"#))), "{key}");
    }
    for key in [
        "max-length-bytes",
        "stream-max-segment-size-bytes",
        "stream-filter-size-bytes",
        "queue-leader-locator",
        "initial-cluster-size",
        "queue-version",
        "consumer-timeout",
        "delayed-retry-type",
    ] {
        assert!(suit(&STREAM, &policy(&format!(r#"{{"max-age":"1D","{key}":1}}"#))), "{key}");
    }
}

#[test]
fn queues_of_the_brokers_own_stay_classic_whatever_the_default_is() {
    let s = &mut state();
    let metadata =
        VhostMetadata { default_queue_type: Some(name("classic")), ..VhostMetadata::default() };
    apply(s, Command::UpdateVhost { vhost: name(V), metadata }).unwrap();
    let own = QueueDeclare { named_by: NamedBy::Server, ..queue(&delayed_queue_of("x")) };
    let made = apply(s, Command::DeclareQueue(own)).unwrap();
    let Done::QueueCreated(made) = made.done else { panic!("it is new") };
    assert!(made.arguments.is_empty());
}
