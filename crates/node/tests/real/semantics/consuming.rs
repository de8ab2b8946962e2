//! 76-104: consuming, getting, acknowledging, requeueing.

use super::super::support::node::Node;
use super::super::support::wait_until;
use super::script::{Kind, Talk, table, text};
use amqp091::method::{
    BasicCancel, BasicConsume, BasicGet, BasicNack, BasicQos, BasicRecover, BasicReject,
    ChannelClose, ChannelOpen, QueuePurge,
};
use amqp091::{TableRef, Value};

fn fill(talk: &mut Talk, queue: &str, bodies: &[&str]) {
    talk.plain(queue);
    for body in bodies {
        talk.publish("", queue, body);
    }
    talk.quiet();
}

fn set_prefetch(talk: &mut Talk, prefetch_count: u16, global: bool) {
    assert_eq!(talk.ask(BasicQos { prefetch_size: 0, prefetch_count, global }), "basic.qos-ok");
}

fn cancel(talk: &mut Talk, tag: &str) -> String {
    talk.ask(BasicCancel { consumer_tag: tag.as_bytes(), no_wait: false })
}

#[test]
fn semantics_76_a_consumer_exists_before_its_first_and_after_its_last_delivery() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b"]);
    assert_eq!(talk.consume("q", "c", true), "consuming c");
    assert_eq!((talk.next(), talk.next()), ("c 1 a".to_owned(), "c 2 b".to_owned()));
    talk.publish("", "q", "c");
    talk.say(BasicCancel { consumer_tag: b"c", no_wait: false });
    assert_eq!(talk.next(), "c 3 c");
    assert_eq!(talk.next(), "cancelled c");
    talk.publish("", "q", "d");
    talk.quiet();
}

#[test]
fn semantics_77_a_consumer_tag_is_used_once() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    talk.consume("q", "c", false);
    assert_eq!(
        talk.consume("q", "c", false),
        "connection.close 530 NOT_ALLOWED - attempt to reuse consumer tag 'c'"
    );
}

#[test]
fn semantics_78_exclusive_consumers() {
    let node = Node::start(&[]);
    let (mut talk, mut other) = (Talk::to(&node), Talk::to(&node));
    talk.plain("q");
    let exclusive = BasicConsume { queue: b"q", exclusive: true, ..BasicConsume::default() };
    other.consume("q", "c", false);
    let refused = "403 ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use";
    assert_eq!(talk.refused(exclusive), refused);
    cancel(&mut other, "c");
    assert!(talk.ask(exclusive).starts_with("consuming amq.ctag-"));
    assert_eq!(other.refused(BasicConsume { queue: b"q", ..BasicConsume::default() }), refused);
    talk.queue("single", Kind::default(), &[("x-single-active-consumer", Value::Bool(true))]);
    let told = other.refused(BasicConsume { queue: b"single", ..exclusive });
    assert!(told.starts_with("403 ACCESS_REFUSED - "), "{told}");
}

#[test]
fn semantics_79_no_local_is_ignored_and_who_acks_nothing_has_no_limit() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b", "c"]);
    set_prefetch(&mut talk, 1, false);
    let consume = BasicConsume {
        queue: b"q",
        consumer_tag: b"c",
        no_local: true,
        no_ack: true,
        ..BasicConsume::default()
    };
    assert_eq!(talk.ask(consume), "consuming c");
    assert_eq!([talk.next(), talk.next(), talk.next()], ["c 1 a", "c 2 b", "c 3 c"]);
    assert_eq!(talk.look_up("q"), "declared q 0 1");
    talk.ack(1, false);
    assert_eq!(talk.failed(), "406 PRECONDITION_FAILED - unknown delivery tag 1");
}

#[test]
fn semantics_80_to_82_prefetch_is_each_consumers() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "p", &["a", "b", "c"]);
    fill(&mut talk, "q", &["a", "b", "c", "d", "e"]);
    set_prefetch(&mut talk, 2, false);
    talk.consume("p", "two", false);
    assert_eq!([talk.next(), talk.next()], ["two 1 a", "two 2 b"]);
    set_prefetch(&mut talk, 1, false);
    talk.consume("q", "one", false);
    assert_eq!(talk.next(), "one 3 a");
    talk.quiet();
    // 81 and 82: what is got has no limit and counts in no one's; tags are the channel's.
    assert_eq!(talk.get("q"), "got 4 b left 3");
    talk.ack(3, false);
    assert_eq!(talk.next(), "one 5 c");
    talk.quiet();
    // 0 is no limit, for those who come later.
    set_prefetch(&mut talk, 0, false);
    talk.consume("q", "all", false);
    assert_eq!([talk.next(), talk.next()], ["all 6 d", "all 7 e"]);
}

#[test]
fn semantics_80_global_is_taken_for_each_consumer() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "p", &["a", "b"]);
    fill(&mut talk, "q", &["a", "b"]);
    set_prefetch(&mut talk, 1, true);
    talk.consume("p", "p", false);
    assert_eq!(talk.next(), "p 1 a");
    talk.consume("q", "q", false);
    assert_eq!(talk.next(), "q 2 a");
    talk.quiet();
}

#[test]
fn semantics_83_and_84_delivery_tags() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b", "c", "d"]);
    let get_all = |talk: &mut Talk| {
        for tag in 1..=4 {
            assert!(talk.get("q").starts_with(&format!("got {tag} ")));
        }
    };
    get_all(&mut talk);
    let unknown = |tag: u64| format!("406 PRECONDITION_FAILED - unknown delivery tag {tag}");
    talk.ack(5, false);
    assert_eq!(talk.failed(), unknown(5));
    get_all(&mut talk);
    talk.ack(1, false);
    talk.ack(1, false);
    assert_eq!(talk.failed(), unknown(1));
    talk.publish("", "q", "e");
    get_all(&mut talk);
    talk.ack(0, false);
    assert_eq!(talk.failed(), unknown(0));
    get_all(&mut talk);
    talk.client.open_channel(2);
    talk.client.say(2, amqp091::method::BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(talk.next(), format!("channel.close {}", unknown(1)));
    talk.client.say(2, amqp091::method::ChannelCloseOk {});
    talk.ack(0, true);
    assert_eq!(talk.look_up("q"), "declared q 0 0");
    // 84.
    talk.ack(9, true);
    assert_eq!(talk.failed(), unknown(9));
}

#[test]
fn semantics_85_and_86_what_comes_back_takes_its_place_and_is_marked() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["0", "1", "2", "3", "4"]);
    for _ in 0..5 {
        talk.get("q");
    }
    talk.ack(3, false);
    talk.requeue(2);
    talk.requeue(1);
    talk.say(BasicNack { delivery_tag: 0, multiple: true, requeue: true });
    for expected in ["got 6 again 0 left 3", "got 7 again 1 left 2", "got 8 again 3 left 1"] {
        assert_eq!(talk.get("q"), expected);
    }
    talk.say(BasicReject { delivery_tag: 7, requeue: true });
    assert_eq!(talk.get("q"), "got 9 again 1 left 1");
}

#[test]
fn semantics_87_what_a_channel_held_is_back_before_it_is_closed() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b", "c"]);
    talk.consume("q", "c", false);
    assert_eq!([talk.next(), talk.next(), talk.next()], ["c 1 a", "c 2 b", "c 3 c"]);
    assert_eq!(
        talk.ask(ChannelClose { reply_code: 200, ..ChannelClose::default() }),
        "channel.close-ok"
    );
    assert_eq!(talk.ask(ChannelOpen::default()), "channel.open-ok");
    assert_eq!(talk.look_up("q"), "declared q 3 0");
    assert_eq!(talk.drain("q"), ["a", "b", "c"]);
}

#[test]
fn semantics_88_recover_gives_everything_back() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b"]);
    talk.get("q");
    talk.get("q");
    assert_eq!(talk.ask(BasicRecover { requeue: true }), "basic.recover-ok");
    assert_eq!(talk.get("q"), "got 3 again a left 1");
    talk.consume("q", "c", false);
    assert_eq!(talk.next(), "c 4 again b");
    // The answer goes ahead of what comes again.
    assert_eq!(talk.ask(BasicRecover { requeue: true }), "basic.recover-ok");
    assert_eq!([talk.next(), talk.next()], ["c 5 again a", "c 6 again b"]);
    talk.ack(1, false);
    assert_eq!(talk.failed(), "406 PRECONDITION_FAILED - unknown delivery tag 1");
    assert_eq!(
        talk.ask(BasicRecover { requeue: false }),
        "connection.close 540 NOT_IMPLEMENTED - requeue=false"
    );
}

#[test]
fn semantics_89_and_90_a_cancelled_consumer_keeps_what_it_holds() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b"]);
    talk.consume("q", "c", false);
    assert_eq!([talk.next(), talk.next()], ["c 1 a", "c 2 b"]);
    assert_eq!(cancel(&mut talk, "c"), "cancelled c");
    assert_eq!(talk.look_up("q"), "declared q 0 0");
    talk.ack(1, false);
    talk.requeue(2);
    assert_eq!(talk.get("q"), "got 3 again b left 0");
}

#[test]
fn semantics_92_and_93_who_comes_first() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    let arguments = table(&[("x-priority", text("high"))]);
    let arguments = TableRef::trusted(&arguments);
    assert_eq!(
        talk.refused(BasicConsume { queue: b"q", arguments, ..BasicConsume::default() }),
        "406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\""
    );
    talk.queue("single", Kind::default(), &[("x-single-active-consumer", Value::Bool(true))]);
    talk.consume("single", "first", false);
    talk.consume("single", "second", false);
    for body in ["a", "b"] {
        talk.publish("", "single", body);
    }
    assert_eq!([talk.next(), talk.next()], ["first 1 a", "first 2 b"]);
    assert_eq!(cancel(&mut talk, "first"), "cancelled first");
    // What the first was given stays with it.
    talk.publish("", "single", "c");
    assert_eq!(talk.next(), "second 3 c");
    talk.requeue(1);
    assert_eq!(talk.next(), "second 4 again a");
}

#[test]
fn semantics_97_and_104_counts_are_of_what_is_ready() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    fill(&mut talk, "q", &["a", "b", "c"]);
    talk.get("q");
    assert_eq!(talk.look_up("q"), "declared q 2 0");
    let purge = QueuePurge { queue: b"q", ..QueuePurge::default() };
    assert_eq!(talk.ask(purge), "purged 2");
    talk.requeue(1);
    assert_eq!(talk.get("q"), "got 2 again a left 0");
    let delete = amqp091::method::QueueDelete { queue: b"q", ..Default::default() };
    assert_eq!(talk.ask(delete), "deleted 0");
}

#[test]
fn semantics_98_to_102_limits_and_dead_letters() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let arguments = [
        ("x-max-length", Value::I32(2)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    talk.queue("q", Kind::default(), &arguments);
    talk.plain("dead");
    for body in ["a", "b"] {
        talk.publish("", "q", body);
    }
    assert_eq!(talk.get("q"), "got 1 a left 1");
    for body in ["c", "d"] {
        talk.publish("", "q", body);
    }
    // Only ready ones count: b has made room.
    let dead = |talk: &mut Talk| {
        let mut told = "empty".to_owned();
        wait_until("a dead letter", || {
            told = talk.ask(BasicGet { queue: b"dead", no_ack: true, ..BasicGet::default() });
            told != "empty"
        });
        let headers = talk.headers();
        let field = |name: &[u8]| {
            let value = headers.get(name).unwrap();
            value.as_str().unwrap().to_owned()
        };
        (told, field(b"x-first-death-reason"), field(b"x-last-death-queue"))
    };
    let words =
        |(told, reason, queue): (String, String, String)| format!("{told} {reason} {queue}");
    assert_eq!(words(dead(&mut talk)), "got 2 b left 0 maxlen q");
    // What comes back is the oldest, and goes first.
    talk.requeue(1);
    assert_eq!(words(dead(&mut talk)), "got 3 a left 0 maxlen q");
    assert_eq!(talk.drain("q"), ["c", "d"]);
}
