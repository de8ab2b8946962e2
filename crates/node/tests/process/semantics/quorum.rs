//! Quorum queues with one member: what a declaration may ask for, and what RabbitMQ's own tests ask of them.

use super::super::support::node::Node;
use super::super::support::wait_until;
use super::script::{Kind, Script, table, text};
use amqp091::method::{
    BasicCancel, BasicConsume, BasicGet, BasicNack, BasicQos, BasicRecover, ConfirmSelect,
    QueueDelete, QueuePurge,
};
use amqp091::{Properties, ShortString, TableRef, Value};
use testing::client::Login;

const DURABLE: Kind = Kind { durable: true, exclusive: false, auto_delete: false };
/// Messages that a consumer without a limit is given before it acknowledges.
const HELD_MAX: u64 = 2_000;

/// Declares a quorum queue.
fn declare(
    script: &mut Script,
    name: &str,
    kind: Kind,
    arguments: &[(&'static str, Value)],
) -> String {
    let quorum = [("x-queue-type", text("quorum"))];
    script.queue(name, kind, &[&quorum, arguments].concat())
}

/// A script with the quorum queue `q`.
fn with_queue(node: &Node, arguments: &[(&'static str, Value)]) -> Script {
    let mut script = Script::to(node);
    assert_eq!(declare(&mut script, "q", DURABLE, arguments), "declared q 0 0");
    script
}

fn publish_all(script: &mut Script, bodies: &[&str]) {
    bodies.iter().for_each(|body| script.publish("", "q", body));
}

fn consume_with(script: &mut Script, tag: &str, arguments: &[(&'static str, Value)]) -> String {
    let (queue, consumer_tag, arguments) = (b"q", tag.as_bytes(), table(arguments));
    let arguments = TableRef::trusted(&arguments);
    script.ask(BasicConsume { queue, consumer_tag, arguments, ..BasicConsume::default() })
}

fn set_prefetch(script: &mut Script, prefetch_count: u16, global: bool) {
    assert_eq!(script.ask(BasicQos { prefetch_size: 0, prefetch_count, global }), "basic.qos-ok");
}

fn n_ready(script: &mut Script) -> u64 {
    script.look_up("q").split(' ').nth(2).and_then(|n| n.parse().ok()).unwrap()
}

#[test]
fn declarations_that_quorum_queues_refuse() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let mut refused = |name: &str, kind, arguments: &[_]| {
        let told = declare(&mut script, name, kind, arguments);
        let why = told.strip_prefix("channel.close 406 PRECONDITION_FAILED - ");
        let why = why.unwrap_or_else(|| panic!("not refused but: {told}")).to_owned();
        script.say(amqp091::method::ChannelCloseOk {});
        assert_eq!(script.ask(amqp091::method::ChannelOpen::default()), "channel.open-ok");
        why
    };
    for (kind, property) in [
        (Kind { exclusive: true, ..DURABLE }, "exclusive-owner"),
        (Kind { auto_delete: true, ..DURABLE }, "auto-delete"),
        (Kind::default(), "non-durable"),
    ] {
        let text = format!("invalid property '{property}' for queue 'q' in vhost '/'");
        assert_eq!(refused("q", kind, &[]), text);
    }
    let server_named = "Cannot declare a server-named queue for type rabbit_quorum_queue";
    assert_eq!(refused("", DURABLE, &[]), server_named);
    for (key, value) in [("x-max-priority", Value::I32(5)), ("x-queue-mode", text("lazy"))] {
        let of_type = "for queue 'q' in vhost '/' of queue type rabbit_quorum_queue";
        assert_eq!(
            refused("q", DURABLE, &[(key, value)]),
            format!("invalid arg '{key}' {of_type}")
        );
    }
    for (key, value, why) in [
        ("x-max-length", Value::I64(-5), "{value_negative,-5}"),
        ("x-max-length", text("5"), "\"expected integer, got longstr\""),
        ("x-consumer-timeout", Value::I64(-1), "{value_negative,-1}"),
        ("x-consumer-disconnected-timeout", Value::I64(-1), "{value_negative,-1}"),
        ("x-quorum-initial-group-size", Value::I32(0), "{value_zero,0}"),
        ("x-single-active-consumer", text("yes"), "{unacceptable_type,longstr}"),
        ("x-dead-letter-strategy", text("never"), "invalid_dlx_strategy"),
        ("x-overflow", text("spill"), "invalid_overflow"),
    ] {
        let text = format!("invalid arg '{key}' for queue 'q' in vhost '/': {why}");
        assert_eq!(refused("q", DURABLE, &[(key, value)]), text);
    }
}

#[test]
fn declarations_that_quorum_queues_take() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    for (at, (key, value)) in [
        ("x-delayed-retry-type", text("sometimes")),
        ("x-quorum-target-group-size", text("three")),
        ("x-quorum-initial-group-size", Value::I64(3)),
        ("x-delivery-limit", Value::I64(-1)),
        ("x-consumer-disconnected-timeout", Value::I64(30_000)),
        ("x-queue-leader-locator", text("balanced")),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, own) = (format!("q{at}"), [(key, value)]);
        let declared = format!("declared {name} 0 0");
        assert_eq!(declare(&mut script, &name, DURABLE, &own), declared, "{own:?}");
    }
    let at_least_once = [
        ("x-dead-letter-exchange", text("amq.fanout")),
        ("x-dead-letter-strategy", text("at-least-once")),
    ];
    assert_eq!(declare(&mut script, "dlx", DURABLE, &at_least_once), "declared dlx 0 0");
}

#[test]
fn a_consumer_of_a_quorum_queue_has_its_own_arguments() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    for (key, value, why) in [
        ("x-consumer-timeout", Value::I64(-1), ": {value_negative,-1}"),
        ("x-consumer-timeout", text("never"), ": \"expected integer, got longstr\""),
        ("x-priority", text("important"), ": \"expected integer, got longstr\""),
        ("x-stream-offset", text("last"), " of queue type rabbit_quorum_queue"),
    ] {
        let told = consume_with(&mut script, "c", &[(key, value)]);
        let text = format!("invalid arg '{key}' for queue 'q' in vhost '/'{why}");
        assert_eq!(told, format!("channel.close 406 PRECONDITION_FAILED - {text}"));
        script.say(amqp091::method::ChannelCloseOk {});
        assert_eq!(script.ask(amqp091::method::ChannelOpen::default()), "channel.open-ok");
    }
}

#[test]
fn global_prefetch_is_each_consumers_own_unless_it_is_permitted() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    set_prefetch(&mut script, 1, true);
    publish_all(&mut script, &["a", "b", "c"]);
    script.consume("q", "one", false);
    assert_eq!(script.next(), "one 1 a");
    script.consume("q", "two", false);
    assert_eq!(script.next(), "two 2 b");
    script.quiet();
    let node = Node::start(&["deprecated_features.permit.global_qos=true"]);
    let mut script = with_queue(&node, &[]);
    set_prefetch(&mut script, 1, true);
    assert_eq!(
        script.consume("q", "c", false),
        "connection.close 540 NOT_IMPLEMENTED - queue 'q' in vhost '/' does not support global qos"
    );
    // 0 is no limit.
    let mut script = Script::to(&node);
    set_prefetch(&mut script, 0, true);
    assert_eq!(script.consume("q", "c", false), "consuming c");
}

#[test]
fn exclusive_consumers_of_quorum_queues_exclude_nobody() {
    let node = Node::start(&[]);
    let (mut script, mut other) = (with_queue(&node, &[]), Script::to(&node));
    let exclusive = BasicConsume { queue: b"q", exclusive: true, ..BasicConsume::default() };
    for client in [&mut script, &mut other] {
        let told = client.ask(BasicConsume { consumer_tag: b"c", ..exclusive });
        assert_eq!(told, "consuming c");
    }
    assert_eq!(script.look_up("q"), "declared q 0 2");
}

#[test]
fn get_and_single_active_consumers_do_not_go_together() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[("x-single-active-consumer", Value::Bool(true))]);
    assert_eq!(
        script.refused(BasicGet { queue: b"q", ..BasicGet::default() }),
        "405 RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get \
         operations are not supported by quorum queues with single active consumer"
    );
}

#[test]
fn a_consumer_without_a_limit_holds_two_thousand() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    for n in 0..=HELD_MAX {
        script.publish("", "q", &n.to_string());
    }
    script.consume("q", "c", false);
    for n in 0..HELD_MAX {
        assert_eq!(script.next(), format!("c {} {n}", n + 1));
    }
    script.quiet();
    assert_eq!(n_ready(&mut script), 1);
    script.ack(1, false);
    assert_eq!(script.next(), format!("c {} {HELD_MAX}", HELD_MAX + 1));
}

/// Messages that were given back come again in the order they came back in, ahead of the rest.
#[test]
fn returned_messages_come_again_in_order() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    publish_all(&mut script, &["1", "2", "3", "4"]);
    script.consume("q", "c", false);
    let next_four = |script: &mut Script| [(); 4].map(|()| script.next());
    assert_eq!(next_four(&mut script), ["c 1 1", "c 2 2", "c 3 3", "c 4 4"]);
    script.say(BasicNack { delivery_tag: 4, multiple: true, requeue: true });
    assert_eq!(
        next_four(&mut script),
        ["c 5 again 1", "c 6 again 2", "c 7 again 3", "c 8 again 4"]
    );
    // One by one, each is given out before the next comes back.
    for tag in [7, 5, 8, 6] {
        script.requeue(tag);
    }
    let again = ["c 9 again 3", "c 10 again 1", "c 11 again 4", "c 12 again 2"];
    assert_eq!(next_four(&mut script), again);
    assert_eq!(script.ask(BasicRecover { requeue: true }), "basic.recover-ok");
    let mut recovered =
        next_four(&mut script).map(|it| it.split(' ').next_back().unwrap().to_owned());
    recovered.sort();
    assert_eq!(recovered, ["1", "2", "3", "4"]);
}

#[test]
fn a_tag_that_was_cancelled_may_be_used_again() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    publish_all(&mut script, &["a", "b"]);
    set_prefetch(&mut script, 1, false);
    script.consume("q", "c", false);
    assert_eq!(script.next(), "c 1 a");
    let cancel = BasicCancel { consumer_tag: b"c", no_wait: false };
    assert_eq!(script.ask(cancel), "cancelled c");
    assert_eq!(script.look_up("q"), "declared q 1 0");
    script.consume("q", "c", false);
    assert_eq!(script.next(), "c 2 b");
    // Of the first, which is gone.
    script.requeue(1);
    script.ack(2, false);
    assert_eq!(script.next(), "c 3 again a");
    assert_eq!(script.ask(cancel), "cancelled c");
    script.discard(3);
    assert_eq!(script.look_up("q"), "declared q 0 0");
}

#[test]
fn purged_messages_are_ready_ones_and_deletions_may_have_conditions() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    publish_all(&mut script, &["a", "b", "c"]);
    assert_eq!(script.get("q"), "got 1 a left 2");
    let purge = QueuePurge { queue: b"q", ..QueuePurge::default() };
    assert_eq!(script.ask(purge), "purged 2");
    script.requeue(1);
    let delete = |if_unused, if_empty| QueueDelete {
        queue: b"q",
        if_unused,
        if_empty,
        ..QueueDelete::default()
    };
    let text = |what: &str| format!("406 PRECONDITION_FAILED - queue 'q' in vhost '/' {what}");
    assert_eq!(script.refused(delete(false, true)), text("not empty"));
    script.consume("q", "c", false);
    assert_eq!(script.next(), "c 1 again a");
    script.ack(1, false);
    assert_eq!(script.refused(delete(true, false)), text("in use"));
    assert_eq!(script.ask(delete(true, true)), "deleted 0");
}

/// A message that expires goes wherever it stands, and those without a time stay.
#[test]
fn messages_expire_behind_others() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[]);
    let expiring =
        |ms| Properties { expiration: Some(ShortString::from_static(ms)), ..Properties::default() };
    script.publish("", "q", "stays");
    script.publish_with("", "q", false, &expiring("60000"), "later");
    script.publish_with("", "q", false, &expiring("50"), "soon");
    wait_until("one expires", || n_ready(&mut script) == 2);
    assert_eq!(script.drain("q"), ["stays", "later"]);
}

#[test]
fn a_consumer_that_forgets_a_message_is_cancelled_or_loses_its_channel() {
    let node = Node::start(&[]);
    let mut script = with_queue(&node, &[("x-consumer-timeout", Value::I64(300))]);
    let mut incapable = Script::with(&node, Login { capable: false, ..Login::default() });
    script.publish("", "q", "a");
    script.consume("q", "c", false);
    assert_eq!(script.next(), "c 1 a");
    assert_eq!(script.next(), "lost c");
    incapable.consume("q", "c", false);
    assert_eq!(incapable.next(), "c 1 again a");
    let why = incapable.failed();
    let timed_out = "406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. \
                     Timeout value used: 300 ms.";
    assert!(why.starts_with(timed_out), "{why}");
    wait_until("it comes back", || n_ready(&mut script) == 1);
}

/// The one with the higher priority takes over as soon as the active one holds nothing.
#[test]
fn a_higher_priority_takes_over_when_nothing_is_held() {
    for limit in [20, -1] {
        let node = Node::start(&[]);
        let single = ("x-single-active-consumer", Value::Bool(true));
        let mut low = with_queue(&node, &[single, ("x-delivery-limit", Value::I64(limit))]);
        let mut high = Script::to(&node);
        let priority = |n| [("x-priority", Value::I8(n))];
        consume_with(&mut low, "low", &priority(1));
        low.publish("", "q", "a");
        assert_eq!(low.next(), "low 1 a");
        consume_with(&mut high, "high", &priority(3));
        high.publish("", "q", "b");
        high.quiet();
        low.requeue(1);
        assert_eq!([high.next(), high.next()], ["high 1 again a", "high 2 b"]);
        low.quiet();
    }
}

/// COMPAT: nobody hears that a dead letter is refused which is sent once; a publisher does.
#[test]
fn at_most_once_dead_letters_exceed_the_limit_of_a_quorum_queue() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let to = |target: &str| {
        [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(target))]
    };
    let full = [("x-max-length", Value::I32(3)), ("x-overflow", text("reject-publish"))];
    let quorum = [("x-queue-type", text("quorum"))];
    script.queue("quorum", DURABLE, &[&full[..], &quorum].concat());
    script.queue("classic", DURABLE, &full);
    for target in ["quorum", "classic"] {
        for from in [&quorum[..], &[]] {
            let source = format!("to {target} from {}", from.len());
            script.queue(&source, DURABLE, &[&to(target)[..], from].concat());
            for n in 0..12 {
                script.publish("", &source, &n.to_string());
            }
            for _ in 0..12 {
                let mut told = script.get(&source);
                while told == "empty" {
                    told = script.get(&source);
                }
                script.discard(told.split(' ').nth(1).unwrap().parse().unwrap());
            }
        }
    }
    wait_until("all letters are in the quorum queue", || {
        script.look_up("quorum") == "declared quorum 24 0"
    });
    wait_until("those that there is room for are in the classic one", || {
        script.look_up("classic") == "declared classic 3 0"
    });
    assert_eq!(script.ask(ConfirmSelect::default()), "confirm.select-ok");
    script.publish("", "quorum", "one more");
    assert_eq!(script.next(), "nack 1");
    assert_eq!(script.drain("quorum").len(), 24);
    script.publish("", "quorum", "now there is room");
    assert_eq!(script.next(), "ack 2");
}

/// Once their target has room again, not minutes later.
#[test]
fn dead_letters_to_a_full_queue_are_retried_when_it_drains() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    for kind in ["classic", "quorum"] {
        let full = [
            ("x-queue-type", text(kind)),
            ("x-max-length", Value::I32(1)),
            ("x-overflow", text("reject-publish")),
        ];
        script.queue(kind, DURABLE, &full);
        script.publish("", kind, "there");
        let source = [
            ("x-queue-type", text("quorum")),
            ("x-overflow", text("reject-publish")),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(kind)),
        ];
        script.queue("q", DURABLE, &source);
        for body in ["a", "b"] {
            script.publish("", "q", body);
            let mut told = script.get("q");
            while told == "empty" {
                told = script.get("q");
            }
            script.discard(told.split(' ').nth(1).unwrap().parse().unwrap());
        }
        // They wait while it is full, and come as there is room: one that is tried for the first time just
        // then may be before one that waits to be tried again.
        assert_eq!(script.look_up(kind), format!("declared {kind} 1 0"));
        let mut drained = Vec::new();
        wait_until("all have come", || {
            drained.extend(script.drain(kind));
            drained.len() == 3
        });
        assert_eq!(drained.remove(0), "there");
        drained.sort_unstable();
        assert_eq!(drained, ["a", "b"]);
        assert!(
            script.ask(QueueDelete { queue: b"q", ..Default::default() }).starts_with("deleted")
        );
    }
}
