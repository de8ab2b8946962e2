//! Streams over AMQP 0-9-1, beside queues of other types.

use super::script::{Kind, Script, table, text};
use crate::support::node::Node;
use amqp091::method::{BasicConsume, BasicQos, ConfirmSelect, QueueDelete};
use amqp091::{TableRef, Value};

const DURABLE: Kind = Kind { durable: true, exclusive: false, auto_delete: false };

/// With a prefetch limit and confirms, and the stream `s`.
fn script(node: &Node) -> Script {
    let mut script = Script::to(node);
    stream(&mut script, "s");
    let prefetch_count = 9;
    assert_eq!(script.ask(BasicQos { prefetch_count, ..BasicQos::default() }), "basic.qos-ok");
    assert_eq!(script.ask(ConfirmSelect::default()), "confirm.select-ok");
    script
}

fn stream(script: &mut Script, name: &str) {
    let declared = script.queue(name, DURABLE, &[("x-queue-type", text("stream"))]);
    assert!(declared.starts_with("declared"), "{declared}");
}

fn consume(queue: &str, arguments: &[(&'static str, Value)], script: &mut Script) -> String {
    let (arguments, consumer_tag) = (table(arguments), queue.as_bytes());
    let arguments = TableRef::trusted(&arguments);
    script.say(BasicConsume {
        queue: consumer_tag,
        consumer_tag,
        arguments,
        ..BasicConsume::default()
    });
    script.next()
}

fn from_the_start(queue: &str, script: &mut Script) {
    let told = consume(queue, &[("x-stream-offset", text("first"))], script);
    assert_eq!(told, format!("consuming {queue}"));
}

#[test]
fn consumers_have_arguments_of_their_queues_type_alone() {
    let node = Node::start(&[]);
    let mut script = script(&node);
    script.queue("classic", DURABLE, &[]);
    script.queue("quorum", DURABLE, &[("x-queue-type", text("quorum"))]);
    let refused = |queue: &str, argument: &'static str, value: Value, script: &mut Script| {
        consume(queue, &[(argument, value)], script)
    };
    for queue in ["classic", "quorum"] {
        for (argument, value) in [
            ("x-stream-offset", text("first")),
            ("x-stream-filter", text("eu")),
            ("x-stream-match-unfiltered", Value::Bool(true)),
        ] {
            let mut script = Script::to(&node);
            let text = format!(
                "channel.close 406 PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in \
                 vhost '/' of queue type rabbit_{queue}_queue"
            );
            assert_eq!(refused(queue, argument, value, &mut script), text);
        }
        let told = refused(queue, "x-consumer-timeout", Value::I32(-1), &mut Script::to(&node));
        assert!(told.ends_with("in vhost '/': {value_negative,-1}"), "{told}");
    }
    for (argument, value) in [("x-priority", Value::I32(1)), ("x-consumer-timeout", Value::I32(1))]
    {
        let told = refused("s", argument, value, &mut self::script(&node));
        let text = format!(
            "invalid arg '{argument}' for queue 's' in vhost '/' of queue type rabbit_stream_queue"
        );
        assert_eq!(told, format!("channel.close 406 PRECONDITION_FAILED - {text}"));
    }
    let told = refused("s", "x-stream-offset", text("soon"), &mut self::script(&node));
    let reason = "{invalid_stream_offset_arg,{longstr,<<\"soon\">>}}";
    let text = format!("invalid arg 'x-stream-offset' for queue 's' in vhost '/': {reason}");
    assert_eq!(told, format!("channel.close 406 PRECONDITION_FAILED - {text}"));
    // What nobody knows is passed over.
    assert_eq!(refused("classic", "x-own", Value::I32(1), &mut script), "consuming classic");
}

/// Values that RabbitMQ takes, or does not look at.
#[test]
fn offsets_and_filters_may_have_other_types() {
    let node = Node::start(&[]);
    let mut script = script(&node);
    for (n, body) in ["0", "1", "2", "3"].into_iter().enumerate() {
        script.publish("", "s", body);
        assert_eq!(script.next(), format!("ack {}", n + 1));
    }
    let first = ("x-stream-offset", text("first"));
    let bytes = |word: &[u8]| Value::Bytes(word.to_vec());
    let list = Value::Array;
    let first_body = |arguments: &[(&'static str, Value)]| {
        let mut script = self::script(&node);
        let told = consume("s", arguments, &mut script);
        if told == "consuming s" { script.next() } else { told }
    };
    for (offset, body) in [
        (bytes(b"first"), "0"),
        (Value::I8(2), "2"),
        (Value::U16(2), "2"),
        (Value::Timestamp(0), "0"),
        // The last three, and more than there are.
        (Value::I64(-3), "1"),
        (Value::I32(-9), "0"),
    ] {
        let told = first_body(&[("x-stream-offset", offset.clone())]);
        assert_eq!(told, format!("s 1 {body}"), "{offset:?}");
    }
    for ignored in [
        Value::I32(5),
        Value::F64(0.5),
        Value::Bool(true),
        Value::Void,
        Value::Table(Default::default()),
        bytes(b"eu"),
    ] {
        let told = first_body(&[first.clone(), ("x-stream-filter", ignored.clone())]);
        assert_eq!(told, "s 1 0", "{ignored:?}");
    }
    for empty in [list(vec![]), list(vec![Value::I32(5), Value::Void, list(vec![text("eu")])])] {
        let told = first_body(&[first.clone(), ("x-stream-filter", empty.clone())]);
        let start =
            "channel.close 406 PRECONDITION_FAILED - invalid arg 'x-stream-filter' for queue 's' ";
        assert!(told.starts_with(start), "{told}");
    }
    let some = [
        first.clone(),
        ("x-stream-filter", list(vec![text("eu"), Value::I32(5)])),
        ("x-stream-match-unfiltered", Value::Bool(true)),
    ];
    assert_eq!(first_body(&some), "s 1 0");
}

#[test]
fn unsupported_operations_on_streams_are_refused() {
    let node = Node::start(&[]);
    let mut script = script(&node);
    for (argument, value) in [
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-confirm-on", text("ack")),
        ("x-dead-letter-exchange", text("")),
    ] {
        let mut script = Script::to(&node);
        let told =
            script.queue("t", DURABLE, &[("x-queue-type", text("stream")), (argument, value)]);
        let text = format!(
            "invalid arg '{argument}' for queue 't' in vhost '/' of queue type rabbit_stream_queue"
        );
        assert_eq!(told, format!("channel.close 406 PRECONDITION_FAILED - {text}"));
    }
    node.ctl(&["set_policy", "late", ".*", "{\"confirm-on\": \"ack\"}"]);
    script.publish("", "s", "a");
    assert_eq!(script.confirms(1, 1), [true], "nobody consumes it");
    let (queue, if_empty) = (&b"s"[..], true);
    // COMPAT: whether it is empty is not asked.
    assert_eq!(script.ask(QueueDelete { queue, if_empty, ..QueueDelete::default() }), "deleted 0");
    node.stop();
}

#[test]
fn a_publish_to_a_stream_and_a_queue_waits_for_each_confirm() {
    let node = Node::start(&[]);
    let (mut script, mut consumer) = (script(&node), Script::to(&node));
    script.queue("late", DURABLE, &[("x-confirm-on", text("ack"))]);
    for queue in ["late", "s"] {
        script.bind(queue, "amq.fanout", "");
    }
    script.publish("", "s", "a");
    assert_eq!(script.confirms(1, 1), [true]);
    script.publish("amq.fanout", "", "b");
    from_the_start("s", &mut script);
    assert_eq!([script.next(), script.next()], ["s 1 a", "s 2 b"], "it is there");
    script.quiet();
    consumer.consume("late", "c", false);
    assert_eq!(consumer.next(), "c 1 b");
    script.quiet();
    consumer.ack(1, false);
    assert_eq!(script.confirms(2, 1), [true]);
    node.stop();
}

#[test]
fn exchanges_of_every_type_and_dead_letters_lead_into_streams() {
    let node = Node::start(&[]);
    let mut script = script(&node);
    let kinds = [
        ("direct", "key"),
        ("fanout", ""),
        ("topic", "*"),
        ("headers", ""),
        ("x-consistent-hash", "1"),
        ("x-modulus-hash", ""),
        ("x-random", ""),
        ("x-local-random", ""),
        ("x-recent-history", ""),
    ];
    for ((kind, key), number) in kinds.into_iter().zip(1..) {
        stream(&mut script, kind);
        assert_eq!(script.exchange(kind, kind, false), "exchange.declare-ok");
        assert_eq!(script.bind(kind, kind, key), "queue.bind-ok");
        script.publish(kind, "key", kind);
        assert_eq!(script.confirms(number, 1), [true]);
        from_the_start(kind, &mut script);
        assert_eq!(script.next(), format!("{kind} {number} {kind}"));
        script.ack(number, false);
    }
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("s"))];
    for (queue, arguments) in [
        ("classic", &dead[..]),
        ("quorum", &[&dead[..], &[("x-queue-type", text("quorum"))]].concat()),
    ] {
        let mut script = self::script(&node);
        script.queue(queue, DURABLE, arguments);
        script.publish("", queue, queue);
        assert_eq!(script.confirms(1, 1), [true]);
        assert!(script.get(queue).starts_with("got 1"));
        script.discard(1);
        consume("s", &[("x-stream-offset", text("last"))], &mut script);
        while !script.next().ends_with(queue) {}
        let headers = script.headers();
        assert_eq!(
            headers.get(b"x-first-death-queue").and_then(Value::as_bytes),
            Some(queue.as_bytes())
        );
    }
    node.stop();
}

#[test]
fn shards_are_of_the_vhosts_default_type() {
    let node = Node::start(&[]);
    for kind in ["stream", "quorum"] {
        node.ctl(&["update_vhost_metadata", "/", "--default-queue-type", kind]);
        let mut script = script(&node);
        node.ctl(&[
            "set_policy",
            "--apply-to",
            "exchanges",
            kind,
            kind,
            "{\"shards-per-node\": 2}",
        ]);
        assert_eq!(script.exchange(kind, "x-modulus-hash", false), "exchange.declare-ok");
        let listed = node.ctl(&["-q", "list_queues", "type", "name"]);
        let is_shard = |line: &&str| line.starts_with(&format!("{kind}\tsharding: {kind} - "));
        assert_eq!(listed.lines().filter(is_shard).count(), 2, "{listed}");
        for number in 1..=2 {
            script.publish(kind, &format!("key {number}"), "a");
            assert_eq!(script.confirms(number, 1), [true]);
        }
        consume_shard(kind, "c1", &mut script);
        consume_shard(kind, "c2", &mut script);
        let mut told = [(); 4].map(|()| script.next());
        told.sort_unstable();
        assert_eq!(told[2..], ["consuming c1", "consuming c2"], "{told:?}");
        assert!(told[..2].iter().all(|told| told.ends_with(" a")), "{told:?}");
    }
    node.stop();
}

/// Consumes the exchange's name: one of its shards.
fn consume_shard(exchange: &str, tag: &str, script: &mut Script) {
    let first = [("x-stream-offset", text("first"))];
    let arguments = table(if exchange == "stream" { &first } else { &[] });
    let (queue, consumer_tag) = (exchange.as_bytes(), tag.as_bytes());
    let arguments = TableRef::trusted(&arguments);
    script.say(BasicConsume { queue, consumer_tag, arguments, ..BasicConsume::default() });
}
