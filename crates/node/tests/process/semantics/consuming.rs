//! Consuming, getting, acknowledging, requeueing.

use super::super::support::node::Node;
use super::super::support::wait_until;
use super::script::{Kind, Script, table, text};
use amqp091::method::{
    BasicCancel, BasicConsume, BasicGet, BasicNack, BasicQos, BasicRecover, BasicReject,
    ChannelClose, ChannelOpen, QueuePurge,
};
use amqp091::{TableRef, Value};

fn fill(script: &mut Script, queue: &str, bodies: &[&str]) {
    script.plain(queue);
    for body in bodies {
        script.publish("", queue, body);
    }
    script.quiet();
}

fn set_prefetch(script: &mut Script, prefetch_count: u16, global: bool) {
    assert_eq!(script.ask(BasicQos { prefetch_size: 0, prefetch_count, global }), "basic.qos-ok");
}

fn cancel(script: &mut Script, tag: &str) -> String {
    script.ask(BasicCancel { consumer_tag: tag.as_bytes(), no_wait: false })
}

#[test]
fn deliveries_come_between_consume_ok_and_cancel_ok() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b"]);
    assert_eq!(script.consume("q", "c", true), "consuming c");
    assert_eq!((script.next(), script.next()), ("c 1 a".to_owned(), "c 2 b".to_owned()));
    script.publish("", "q", "c");
    script.say(BasicCancel { consumer_tag: b"c", no_wait: false });
    assert_eq!(script.next(), "c 3 c");
    assert_eq!(script.next(), "cancelled c");
    script.publish("", "q", "d");
    script.quiet();
}

#[test]
fn a_consumer_tag_is_unique_on_its_channel() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    script.consume("q", "c", false);
    assert_eq!(
        script.consume("q", "c", false),
        "connection.close 530 NOT_ALLOWED - attempt to reuse consumer tag 'c'"
    );
}

#[test]
fn exclusive_consumers() {
    let node = Node::start(&[]);
    let (mut script, mut other) = (Script::to(&node), Script::to(&node));
    script.plain("q");
    let exclusive = BasicConsume { queue: b"q", exclusive: true, ..BasicConsume::default() };
    other.consume("q", "c", false);
    let refused = "403 ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use";
    assert_eq!(script.refused(exclusive), refused);
    cancel(&mut other, "c");
    assert!(script.ask(exclusive).starts_with("consuming amq.ctag-"));
    assert_eq!(other.refused(BasicConsume { queue: b"q", ..BasicConsume::default() }), refused);
    script.queue("single", Kind::default(), &[("x-single-active-consumer", Value::Bool(true))]);
    let told = other.refused(BasicConsume { queue: b"single", ..exclusive });
    assert!(told.starts_with("403 ACCESS_REFUSED - "), "{told}");
}

#[test]
fn no_local_is_ignored_and_prefetch_does_not_limit_no_ack_consumers() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b", "c"]);
    set_prefetch(&mut script, 1, false);
    let consume = BasicConsume {
        queue: b"q",
        consumer_tag: b"c",
        no_local: true,
        no_ack: true,
        ..BasicConsume::default()
    };
    assert_eq!(script.ask(consume), "consuming c");
    assert_eq!([script.next(), script.next(), script.next()], ["c 1 a", "c 2 b", "c 3 c"]);
    assert_eq!(script.look_up("q"), "declared q 0 1");
    script.ack(1, false);
    assert_eq!(script.failed(), "406 PRECONDITION_FAILED - unknown delivery tag 1");
}

#[test]
fn prefetch_limits_each_consumer() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "p", &["a", "b", "c"]);
    fill(&mut script, "q", &["a", "b", "c", "d", "e"]);
    set_prefetch(&mut script, 2, false);
    script.consume("p", "two", false);
    assert_eq!([script.next(), script.next()], ["two 1 a", "two 2 b"]);
    set_prefetch(&mut script, 1, false);
    script.consume("q", "one", false);
    assert_eq!(script.next(), "one 3 a");
    script.quiet();
    // What is got has no limit and counts in no one's; tags are the channel's.
    assert_eq!(script.get("q"), "got 4 b left 3");
    script.ack(3, false);
    assert_eq!(script.next(), "one 5 c");
    script.quiet();
    // 0 is no limit, for those who come later.
    set_prefetch(&mut script, 0, false);
    script.consume("q", "all", false);
    assert_eq!([script.next(), script.next()], ["all 6 d", "all 7 e"]);
}

#[test]
fn global_prefetch_limits_each_consumer() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "p", &["a", "b"]);
    fill(&mut script, "q", &["a", "b"]);
    set_prefetch(&mut script, 1, true);
    script.consume("p", "p", false);
    assert_eq!(script.next(), "p 1 a");
    script.consume("q", "q", false);
    assert_eq!(script.next(), "q 2 a");
    script.quiet();
}

#[test]
fn delivery_tags() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b", "c", "d"]);
    let get_all = |script: &mut Script| {
        for tag in 1..=4 {
            assert!(script.get("q").starts_with(&format!("got {tag} ")));
        }
    };
    get_all(&mut script);
    let unknown = |tag: u64| format!("406 PRECONDITION_FAILED - unknown delivery tag {tag}");
    script.ack(5, false);
    assert_eq!(script.failed(), unknown(5));
    get_all(&mut script);
    script.ack(1, false);
    script.ack(1, false);
    assert_eq!(script.failed(), unknown(1));
    script.publish("", "q", "e");
    get_all(&mut script);
    script.ack(0, false);
    assert_eq!(script.failed(), unknown(0));
    get_all(&mut script);
    script.client.open_channel(2);
    script.client.say(2, amqp091::method::BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(script.next(), format!("channel.close {}", unknown(1)));
    script.client.say(2, amqp091::method::ChannelCloseOk {});
    script.ack(0, true);
    assert_eq!(script.look_up("q"), "declared q 0 0");
    script.ack(9, true);
    assert_eq!(script.failed(), unknown(9));
}

#[test]
fn requeued_messages_return_to_their_place_and_are_marked_redelivered() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["0", "1", "2", "3", "4"]);
    for _ in 0..5 {
        script.get("q");
    }
    script.ack(3, false);
    script.requeue(2);
    script.requeue(1);
    script.say(BasicNack { delivery_tag: 0, multiple: true, requeue: true });
    for expected in ["got 6 again 0 left 3", "got 7 again 1 left 2", "got 8 again 3 left 1"] {
        assert_eq!(script.get("q"), expected);
    }
    script.say(BasicReject { delivery_tag: 7, requeue: true });
    assert_eq!(script.get("q"), "got 9 again 1 left 1");
}

#[test]
fn closing_a_channel_requeues_before_close_ok() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b", "c"]);
    script.consume("q", "c", false);
    assert_eq!([script.next(), script.next(), script.next()], ["c 1 a", "c 2 b", "c 3 c"]);
    assert_eq!(
        script.ask(ChannelClose { reply_code: 200, ..ChannelClose::default() }),
        "channel.close-ok"
    );
    assert_eq!(script.ask(ChannelOpen::default()), "channel.open-ok");
    assert_eq!(script.look_up("q"), "declared q 3 0");
    assert_eq!(script.drain("q"), ["a", "b", "c"]);
}

#[test]
fn recover_requeues_everything_unacked() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b"]);
    script.get("q");
    script.get("q");
    assert_eq!(script.ask(BasicRecover { requeue: true }), "basic.recover-ok");
    assert_eq!(script.get("q"), "got 3 again a left 1");
    script.consume("q", "c", false);
    assert_eq!(script.next(), "c 4 again b");
    // The answer goes ahead of what comes again.
    assert_eq!(script.ask(BasicRecover { requeue: true }), "basic.recover-ok");
    assert_eq!([script.next(), script.next()], ["c 5 again a", "c 6 again b"]);
    script.ack(1, false);
    assert_eq!(script.failed(), "406 PRECONDITION_FAILED - unknown delivery tag 1");
    assert_eq!(
        script.ask(BasicRecover { requeue: false }),
        "connection.close 540 NOT_IMPLEMENTED - requeue=false"
    );
}

#[test]
fn a_cancelled_consumer_keeps_its_unacked_messages() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b"]);
    script.consume("q", "c", false);
    assert_eq!([script.next(), script.next()], ["c 1 a", "c 2 b"]);
    assert_eq!(cancel(&mut script, "c"), "cancelled c");
    assert_eq!(script.look_up("q"), "declared q 0 0");
    script.ack(1, false);
    script.requeue(2);
    assert_eq!(script.get("q"), "got 3 again b left 0");
}

#[test]
fn consumer_priority_and_single_active_consumer() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    let arguments = table(&[("x-priority", text("high"))]);
    let arguments = TableRef::trusted(&arguments);
    assert_eq!(
        script.refused(BasicConsume { queue: b"q", arguments, ..BasicConsume::default() }),
        "406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\""
    );
    script.queue("single", Kind::default(), &[("x-single-active-consumer", Value::Bool(true))]);
    script.consume("single", "first", false);
    script.consume("single", "second", false);
    for body in ["a", "b"] {
        script.publish("", "single", body);
    }
    assert_eq!([script.next(), script.next()], ["first 1 a", "first 2 b"]);
    assert_eq!(cancel(&mut script, "first"), "cancelled first");
    // What the first was given stays with it.
    script.publish("", "single", "c");
    assert_eq!(script.next(), "second 3 c");
    script.requeue(1);
    assert_eq!(script.next(), "second 4 again a");
}

#[test]
fn message_counts_are_of_ready_messages() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    fill(&mut script, "q", &["a", "b", "c"]);
    script.get("q");
    assert_eq!(script.look_up("q"), "declared q 2 0");
    let purge = QueuePurge { queue: b"q", ..QueuePurge::default() };
    assert_eq!(script.ask(purge), "purged 2");
    script.requeue(1);
    assert_eq!(script.get("q"), "got 2 again a left 0");
    let delete = amqp091::method::QueueDelete { queue: b"q", ..Default::default() };
    assert_eq!(script.ask(delete), "deleted 0");
}

#[test]
fn limits_and_dead_letters() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let arguments = [
        ("x-max-length", Value::I32(2)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    script.queue("q", Kind::default(), &arguments);
    script.plain("dead");
    for body in ["a", "b"] {
        script.publish("", "q", body);
    }
    assert_eq!(script.get("q"), "got 1 a left 1");
    for body in ["c", "d"] {
        script.publish("", "q", body);
    }
    // Only ready ones count: b has made room.
    let dead = |script: &mut Script| {
        let mut told = "empty".to_owned();
        wait_until("a dead letter", || {
            told = script.ask(BasicGet { queue: b"dead", no_ack: true, ..BasicGet::default() });
            told != "empty"
        });
        let headers = script.headers();
        let field = |name: &[u8]| {
            let value = headers.get(name).unwrap();
            value.as_str().unwrap().to_owned()
        };
        (told, field(b"x-first-death-reason"), field(b"x-last-death-queue"))
    };
    let words =
        |(told, reason, queue): (String, String, String)| format!("{told} {reason} {queue}");
    assert_eq!(words(dead(&mut script)), "got 2 b left 0 maxlen q");
    // What comes back is the oldest, and goes first.
    script.requeue(1);
    assert_eq!(words(dead(&mut script)), "got 3 a left 0 maxlen q");
    assert_eq!(script.drain("q"), ["c", "d"]);
}
