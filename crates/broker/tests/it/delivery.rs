//! The broker without a protocol: rules of delivery, confirms and recovery, over a disk in memory.

use crate::client::{Client, Kind, block_on, short, start, start_limited};
use broker::{Hold, n_settles_spare};
use message::Properties;
use session::{Attachment, ExchangeBinding, ExchangeDeclaration, Flag, Op, Outcome, Table, Value};
use std::sync::Arc;
use stdx::Now;
use testing::MemoryDisk;

fn node() -> (Arc<MemoryDisk>, Arc<broker::Broker>) {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    (disk, broker)
}

#[test]
fn a_waiting_consumer_gets_what_is_published_in_order() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    assert_eq!(publisher.declare("q", false), ["declared 0 0"]);
    assert_eq!(consumer.consume("q", true), ["consuming"]);
    publisher.publish("q", &["a", "b", "c"], Kind::Transient);
    assert_eq!(consumer.heard(), ["deliver a", "deliver b", "deliver c"]);
    assert_eq!(publisher.declare("q", false), ["declared 0 1"]);
}

#[test]
fn a_backlog_is_delivered_to_a_late_consumer() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(client.declare("q", false), ["declared 2 0"]);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a", "deliver b"]);
    client.settle(2, Outcome::Accepted);
    assert_eq!(client.declare("q", false), ["declared 0 1"]);
    assert_eq!(broker.figures().message_bytes(), 0);
}

/// A publisher lets consumers catch up, and does not wait for consumers that take nothing.
#[test]
fn a_publisher_is_slowed_down_while_consumers_take_from_a_deep_backlog() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    publisher.declare("q", false);
    let many = ["a"; 20_000];
    publisher.publish("q", &many, Kind::Transient);
    assert!(!publisher.session().wake(), "nobody is there to catch up");
    consumer.ask(Op::SetPrefetch { prefetch_count: 1_000, global: false });
    consumer.consume("q", false);
    publisher.publish("q", &["b"], Kind::Transient);
    assert!(publisher.session().wake());
    assert!(!publisher.session().wake(), "once is enough");
    publisher.publish("q", &many, Kind::Transient);
    assert!(!publisher.session().wake(), "the consumer is stuck");
    consumer.settle(1_000, Outcome::Accepted);
    publisher.publish("q", &["c"], Kind::Transient);
    assert!(publisher.session().wake());
    for _ in 0..39 {
        consumer.settle(1_000, Outcome::Accepted);
    }
    publisher.publish("q", &["d"], Kind::Transient);
    assert!(!publisher.session().wake(), "the backlog is shallow");
}

/// Consumers of one queue that settle what they get.
fn consumers(broker: &Arc<broker::Broker>, n: usize) -> Vec<Client> {
    let mut consumers: Vec<Client> = (0..n).map(|_| Client::connect(broker)).collect();
    for consumer in &mut consumers {
        assert_eq!(consumer.consume("q", false), ["consuming"]);
    }
    consumers
}

/// Whatever ends the gathering, nobody waits for a publisher that has no more for now.
#[test]
fn a_flood_for_many_consumers_is_gathered_until_its_publisher_pauses() {
    let (_disk, broker) = node();
    let mut publisher = Client::connect(&broker);
    publisher.declare("q", false);
    let consumers = consumers(&broker, 100);
    let first_hears = || consumers.first().unwrap().heard();
    publisher.publish("q", &["a"], Kind::Transient);
    assert_eq!(first_hears(), ["deliver a"], "few are given out at once");
    publisher.publish("q", &["b"; 199], Kind::Transient);
    assert!(first_hears().is_empty());
    assert!(publisher.session().n_to_wake() > consumers.len());
    publisher.session().wake();
    assert!(consumers.iter().skip(1).all(|one| one.heard() == ["deliver b"; 2]));
    assert_eq!(first_hears(), ["deliver b"]);
    publisher.publish("q", &["c"; 100], Kind::Transient);
    assert_eq!(publisher.ask_ready("q"), 0, "it waits for an answer");
    assert!(consumers.iter().all(|one| one.heard() == ["deliver c"]));
    publisher.publish("q", &["d"; 100], Kind::Transient);
    assert!(first_hears().is_empty());
    publisher.disconnect();
    assert!(consumers.iter().all(|one| one.heard() == ["deliver d"]));
}

/// Messages that are several for each consumer do not wait for the publisher's pause, and each gets as many.
#[test]
fn what_is_gathered_is_given_out_once_it_is_much_for_everybody() {
    let (_disk, broker) = node();
    let mut publisher = Client::connect(&broker);
    publisher.declare("q", false);
    let consumers = consumers(&broker, 100);
    publisher.publish("q", &["a"; 6_450], Kind::Transient);
    assert!(consumers.iter().all(|one| one.heard() == ["deliver a"; 64]));
    publisher.session().wake();
    let rest: Vec<usize> = consumers.iter().map(|one| one.heard().len()).collect();
    assert_eq!(rest, [vec![1; 50], vec![0; 50]].concat());
    publisher.publish("q", &["b"; 4_050], Kind::Transient);
    assert!(consumers.iter().all(|one| one.heard().is_empty()), "more may come");
    publisher.session().wake();
    let n_given: Vec<usize> = consumers.iter().map(|one| one.heard().len()).collect();
    assert_eq!(n_given, [vec![40; 50], vec![41; 50]].concat(), "in portions, to each as many");
}

/// A flood that is gathered is given out before a message that is to be delivered now or never.
#[test]
fn an_immediate_message_finds_the_consumers_that_a_flood_is_gathered_for() {
    let (_disk, broker) = node();
    let mut publisher = Client::connect(&broker);
    publisher.declare("q", false);
    let consumers = consumers(&broker, 100);
    publisher.publish("q", &["a"; 100], Kind::Transient);
    let now = [(Properties::default(), "now")];
    let heard = publisher.publish_as("", "q", &now, Kind::Immediate);
    assert!(heard.is_empty(), "it is not returned: {heard:?}");
    assert_eq!(consumers.first().unwrap().heard(), ["deliver a", "deliver now"]);
}

#[test]
fn prefetch_holds_back_and_settling_lets_go_on() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    client.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
    assert_eq!(client.consume("q", false), ["consuming", "deliver a"]);
    assert_eq!(client.settle(1, Outcome::Accepted), ["deliver b"]);
    assert_eq!(client.settle(1, Outcome::Modified), ["deliver b again"]);
}

/// Messages that a lost connection held come back in order, marked.
#[test]
fn a_lost_connection_gives_its_messages_back() {
    let (_disk, broker) = node();
    let (mut first, mut second) = (Client::connect(&broker), Client::connect(&broker));
    first.declare("q", false);
    first.publish("q", &["a", "b"], Kind::Transient);
    first.consume("q", false);
    first.disconnect();
    second.publish("q", &["c"], Kind::Transient);
    let heard = second.consume("q", true);
    assert_eq!(heard, ["consuming", "deliver a again", "deliver b again", "deliver c"]);
}

#[test]
fn an_unroutable_message_is_returned_before_it_is_confirmed() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    let heard = client.publish("nowhere", &["a"], Kind::Mandatory);
    assert_eq!(heard, ["returned a", "ack 1..=1"]);
    assert_eq!(client.publish("nowhere", &["b", "c"], Kind::Transient), ["ack 2..=3"]);
}

/// Confirmed only when durable, and then there after a crash.
#[test]
fn confirmed_persistent_messages_survive_a_crash() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["a", "b", "c"], Kind::Persistent);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=3"]);
    assert_eq!(client.consume("q", false).len(), 4);
    client.settle(1, Outcome::Accepted);
    // An ack is written before anything later: wait for a later confirm.
    let heard = client.publish("q", &["d"], Kind::Persistent);
    assert_eq!(client.wait_for(heard, 2), ["deliver d", "ack 4..=4"]);
    let survivors = Arc::new(disk.survive(testing::CrashOutcome::OnlySynced));
    let again = start(&survivors);
    let mut client = Client::connect(&again);
    let heard = client.consume("q", true);
    let expected = ["consuming", "deliver b again", "deliver c again", "deliver d again"];
    assert_eq!(heard, expected);
}

#[test]
fn a_clean_stop_remembers_what_nobody_has_seen() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.publish("q", &["a", "b"], Kind::Persistent);
    client.publish("q", &["gone"], Kind::Transient);
    assert_eq!(client.get("q"), ["got a left 2"]);
    client.disconnect();
    broker.stop().unwrap();
    drop(broker);
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.consume("q", true), ["consuming", "deliver a again", "deliver b"]);
}

#[test]
fn transient_queues_and_their_messages_are_gone_after_a_restart() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("transient", false);
    client.declare("durable", true);
    client.publish("transient", &["a"], Kind::Persistent);
    client.publish("durable", &["b"], Kind::Transient);
    client.disconnect();
    broker.stop().unwrap();
    drop(broker);
    let broker = start(&disk);
    assert!(broker.queue("/", "transient").is_none());
    let mut client = Client::connect(&broker);
    assert_eq!(client.declare("durable", true), ["declared 0 0"]);
}

#[test]
fn a_full_outbox_pauses_a_consumer_until_it_is_resumed() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    publisher.declare("q", false);
    consumer.consume("q", true);
    consumer.heard();
    consumer.fill_up(true);
    publisher.publish("q", &["a"], Kind::Transient);
    publisher.publish("q", &["b", "c"], Kind::Transient);
    assert_eq!(consumer.heard(), ["deliver a"]);
    consumer.fill_up(false);
    assert_eq!(consumer.resume(), ["deliver b", "deliver c"]);
}

/// It is asked beforehand: what it is handed from a deep queue is not much more than it takes.
#[test]
fn an_outbox_is_handed_what_it_has_room_for() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    publisher.declare("q", false);
    publisher.publish("q", &["a", "b", "c", "d"], Kind::Transient);
    consumer.fill_up(true);
    assert_eq!(consumer.consume("q", true), ["consuming", "deliver a"]);
    assert_eq!(consumer.resume(), ["deliver b"]);
    consumer.fill_up(false);
    assert_eq!(consumer.resume(), ["deliver c", "deliver d"]);
}

/// Others are given the messages that its outbox has no room for.
#[test]
fn a_slow_consumer_without_a_limit_does_not_hoard_a_queue() {
    let (_disk, broker) = node();
    let (mut slow, mut fast) = (Client::connect(&broker), Client::connect(&broker));
    slow.declare("q", false);
    slow.fill_up(true);
    slow.consume("q", false);
    fast.publish("q", &["a", "b", "c", "d"], Kind::Transient);
    assert_eq!(slow.heard(), ["deliver a"]);
    assert_eq!(fast.consume("q", false), ["consuming", "deliver b", "deliver c", "deliver d"]);
}

#[test]
fn a_limit_that_is_raised_while_an_outbox_is_full_counts_once_it_has_room() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["a", "b", "c", "d"], Kind::Transient);
    client.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
    client.fill_up(true);
    assert_eq!(client.consume("q", false), ["consuming", "deliver a"]);
    let raise = Op::SetPrefetch { prefetch_count: 3, global: true };
    assert_eq!(client.ask(raise), ["done"]);
    client.fill_up(false);
    assert_eq!(client.resume(), ["deliver b", "deliver c"]);
}

/// Publishes before the bad one are in, the channel is closed.
#[test]
fn publishing_to_a_missing_exchange_closes_the_channel() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    let mut input = b"nopeq".to_vec();
    input.extend_from_slice(&[0, 0]);
    let publish = session::Publish {
        channel: session::ChannelId(1),
        head: session::HeadPlace::Content,
        exchange: session::Span { start: 0, len: 4 },
        routing_key: session::Span { start: 4, len: 1 },
        properties: session::Span { start: 5, len: 2 },
        content: session::Content::Inline(session::Span::default()),
        form: message::BodyForm::Plain,
        mandatory: false,
        persistent: false,
        immediate: false,
        inspect: false,
    };
    let heard = client.submit(&input, vec![session::Request::Publish(publish)]);
    assert_eq!(heard, ["channel failed NotFound: no exchange 'nope' in vhost '/'"]);
    assert_eq!(client.publish("q", &["ignored"], Kind::Transient), Vec::<String>::new());
    assert_eq!(client.ask(Op::OpenChannel), ["opened"]);
    assert_eq!(client.declare("q", false), ["declared 0 0"]);
}

#[test]
fn a_transaction_takes_effect_at_its_commit() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.ask(Op::EnableTransactions);
    assert!(client.publish("q", &["a"], Kind::Persistent).is_empty());
    assert!(client.publish("nowhere", &["b"], Kind::Mandatory).is_empty());
    assert_eq!(client.declare("q", true), ["declared 0 0"]);
    assert_eq!(client.ask(Op::Commit), ["returned b", "done"]);
    assert_eq!(client.declare("q", true), ["declared 1 0"]);
    client.publish("q", &["c"], Kind::Persistent);
    assert_eq!(client.ask(Op::RollBack), ["done"]);
    assert_eq!(client.declare("q", true), ["declared 1 0"]);
    let refused = "channel failed PreconditionFailed: cannot switch from tx to confirm mode";
    assert_eq!(client.ask(Op::EnableConfirms), [refused]);
}

/// Where the operator lets clients have it, `global` limits what all consumers of a channel hold together,
/// in turn; what is got with `basic.get` does not count.
#[test]
fn a_prefetch_limit_can_be_a_whole_channels() {
    let limits = broker::Limits { channel_prefetch: true, ..broker::Limits::default() };
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_limited(disk, &broker::StorageOptions::default(), limits);
    let mut client = Client::connect(&broker);
    for queue in ["p", "q"] {
        client.declare(queue, false);
        client.publish(queue, &["1", "2", "3", "4"], Kind::Transient);
    }
    let limit = |prefetch_count| Op::SetPrefetch { prefetch_count, global: true };
    assert_eq!(client.get("p"), ["got 1 left 3"]);
    // Who was there before is limited, too, and what it holds counts.
    client.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
    assert_eq!(client.consume("p", false), ["consuming", "deliver 2"]);
    assert_eq!(client.ask(limit(2)), ["done"]);
    client.ask(Op::SetPrefetch { prefetch_count: 0, global: false });
    assert_eq!(client.consume("q", false), ["consuming", "deliver 1"]);
    // The first is what was got; each of the others makes room for one, for who waits longer.
    assert_eq!(client.settle(1, Outcome::Accepted), [""; 0]);
    assert_eq!(client.settle(1, Outcome::Accepted), ["deliver 2"]);
    assert_eq!(client.settle(1, Outcome::Accepted), ["deliver 3"]);
    assert_eq!(client.ask(limit(3)), ["deliver 3", "done"]);
    // What goes back makes room for what comes first again.
    let back = client.ask(Op::ReleaseUnsettled);
    assert_eq!(back.len(), 4, "{back:?}");
    // No limit any more but the first consumer's own.
    let rest = client.ask(limit(0));
    assert_eq!(rest, ["deliver 4", "done"]);
    // Others have nothing to do with it.
    let mut other = Client::connect(&broker);
    other.declare("r", false);
    other.publish("r", &["1", "2", "3", "4"], Kind::Transient);
    assert_eq!(other.consume("r", false).len(), 5);
}

/// Deliveries a transaction has settled are not given back before it ends.
#[test]
fn recovering_in_a_transaction_leaves_what_it_settled() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    client.ask(Op::EnableTransactions);
    for _ in 0..3 {
        client.get("q");
    }
    client.settle(1, Outcome::Accepted);
    assert_eq!(client.ask(Op::ReleaseUnsettled), ["done"]);
    assert_eq!(client.get("q"), ["got b again left 1"]);
    assert_eq!(client.get("q"), ["got c again left 0"]);
    client.ask(Op::RollBack);
    assert_eq!(client.ask(Op::ReleaseUnsettled), ["done"]);
    assert_eq!(client.declare("q", false), ["declared 3 0"]);
}

#[test]
fn deleting_a_queue_tells_its_consumers() {
    let (_disk, broker) = node();
    let (mut one, mut other) = (Client::connect(&broker), Client::connect(&broker));
    one.declare("q", false);
    other.consume("q", false);
    other.heard();
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    let delete = Op::DeleteQueue { queue: short("q"), if_unused, if_empty };
    assert_eq!(one.ask(delete), ["deleted 0"]);
    assert_eq!(other.heard(), ["consumer lost"]);
}

#[test]
fn alarms_hold_publishers_and_let_go_of_them() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    broker.alarms.set(broker::Alarm::Memory, true);
    assert_eq!(client.consume("q", true), ["consuming"]);
    assert_eq!(client.session().hold(), Hold::None);
    let heard = client.publish("q", &["a"], Kind::Transient);
    assert_eq!(heard, ["blocked low on memory"]);
    assert_ne!(client.session().hold(), Hold::None);
    // What has been read already waits its turn.
    assert_eq!(client.publish("q", &["b"], Kind::Transient), [""; 0]);
    assert_eq!(client.ask(Op::EnableConfirms), [""; 0]);
    broker.alarms.set(broker::Alarm::Memory, false);
    block_on(client.session().released());
    block_on(client.session().release_hold()).unwrap();
    assert_eq!(client.heard(), ["unblocked", "deliver a", "deliver b", "done"]);
    assert_eq!(client.session().hold(), Hold::None);
}

#[test]
fn what_comes_behind_closed_windows_is_taken_up_to_a_limit() {
    let (_disk, broker) = node();
    let mut client = Client::connect_with_links(&broker);
    client.declare("q", false);
    client.ask(Op::Link(session::LinkOp::AttachPublisher(None)));
    let body = "x".repeat(16 << 20);
    let four = [&*body; 4];
    for _ in 0..2 {
        broker.alarms.set(broker::Alarm::Memory, true);
        // No queue has them, so that nothing but the limit holds the client back.
        assert_eq!(client.publish("none", &four, Kind::Transient), [""; 0]);
        assert_eq!(client.session().hold(), Hold::None);
        assert_eq!(client.publish("q", &["a"], Kind::Transient), ["blocked low on memory"]);
        assert_ne!(client.session().hold(), Hold::None);
        broker.alarms.set(broker::Alarm::Memory, false);
        block_on(client.session().released());
        block_on(client.session().release_hold()).unwrap();
        assert_eq!(client.heard(), ["unblocked"]);
        assert_eq!(client.ask(Op::PurgeQueue { queue: short("q") }), ["purged 1"]);
    }
}

#[test]
fn a_queue_made_for_a_publisher_goes_with_its_link_or_channel() {
    let (_disk, broker) = node();
    let mut client = Client::connect_with_links(&broker);
    let mut made = Vec::new();
    for _ in 0..3 {
        let heard = client.ask(Op::Link(session::LinkOp::MakeTarget)).concat();
        let queue = &heard[heard.find("amq.dyn-").unwrap()..];
        made.push(queue[..queue.find('"').unwrap()].to_owned());
    }
    let is_there = |queue: &String| broker.view().queue("/", queue).is_some();
    assert_eq!(made.iter().filter(|it| is_there(it)).count(), 3);
    client.ask(Op::Link(session::LinkOp::Detach(session::LinkId(2))));
    assert_eq!([0, 1, 2].map(|n| is_there(&made[n])), [true, false, true]);
    assert_eq!(client.ask(Op::CloseChannel), ["closed"]);
    assert_eq!(made.iter().filter(|it| is_there(it)).count(), 0);
    client.disconnect();
}

#[test]
fn a_large_body_leaves_no_bytes_behind() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let body = "x".repeat(100_000);
    client.declare("q", false);
    client.publish("q", &[&body], Kind::Transient);
    assert_eq!(client.get("q"), [format!("got {body} left 0")]);
    assert_eq!(client.settle(1, Outcome::Rejected), Vec::<String>::new());
    assert_eq!(broker.figures().message_bytes(), 0);
}

#[test]
fn raising_the_global_prefetch_lets_a_waiting_consumer_go_on() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    client.ask(Op::SetPrefetch { prefetch_count: 1, global: true });
    assert_eq!(client.consume("q", false), ["consuming", "deliver a"]);
    let raise = Op::SetPrefetch { prefetch_count: 2, global: true };
    assert_eq!(client.ask(raise), ["deliver b", "done"]);
}

/// An eighth of the lowest limit that a consumer has, whatever its channel's limit for further ones is.
#[test]
fn settlements_may_be_late_as_far_as_each_consumer_has_room() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    let limit = |prefetch_count, global| Op::SetPrefetch { prefetch_count, global };
    let mut spare_after = |op| {
        client.ask(op);
        n_settles_spare(client.session())
    };
    let consume = |consumer_tag, no_ack| {
        let (queue, consumer_tag) = (short("q"), short(consumer_tag));
        let (exclusive, arguments) = (false, Table::default());
        Op::Attach(Attachment { queue, consumer_tag, no_ack, source: None, exclusive, arguments })
    };
    let cancel = |tag| Op::Detach { consumer_tag: short(tag) };
    for (op, expected) in [
        (limit(16, false), u32::MAX / 8),
        (consume("a", false), 2),
        (limit(100, false), 2),
        (consume("b", false), 2),
        (limit(4, false), 2),
        (consume("c", true), 2),
        (cancel("a"), 12),
        (limit(40, true), 5),
        (limit(0, true), u32::MAX / 8),
        (limit(24, true), 3),
        (Op::CloseChannel, u32::MAX / 8),
    ] {
        let after = format!("{op:?}");
        assert_eq!(spare_after(op), expected, "{after}");
    }
}

#[test]
fn a_reply_goes_to_who_asked_without_a_queue() {
    let (_disk, broker) = node();
    let (mut asker, mut answerer) = (Client::connect(&broker), Client::connect(&broker));
    assert_eq!(asker.consume("amq.rabbitmq.reply-to", true), ["consuming"]);
    answerer.declare("rpc", false);
    answerer.consume("rpc", true);
    answerer.heard();
    asker.request("rpc", "question");
    assert_eq!(answerer.heard(), ["deliver question"]);
    let reply_to = answerer.last_reply_to();
    assert!(reply_to.starts_with("amq.rabbitmq.reply-to."), "{reply_to}");
    answerer.publish(&reply_to, &["answer"], Kind::Transient);
    assert_eq!(asker.heard(), ["deliver answer"]);
    asker.disconnect();
    answerer.ask(Op::EnableConfirms);
    assert_eq!(
        answerer.publish(&reply_to, &["late"], Kind::Mandatory),
        ["returned late", "ack 1..=1"]
    );
}

#[test]
fn direct_replies_need_a_consumer_that_does_not_settle() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let refused = "channel failed PreconditionFailed: reply consumer cannot acknowledge";
    assert_eq!(client.consume("amq.rabbitmq.reply-to", false), [refused]);
    assert_eq!(client.ask(Op::OpenChannel), ["opened"]);
    let refused = "channel failed PreconditionFailed: fast reply consumer does not exist";
    assert_eq!(client.request("rpc", "question"), [refused]);
}

#[test]
fn unsettled_messages_are_counted_by_channel() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    client.get("q");
    client.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
    client.consume("q", false);
    let held = || broker.figures().unacked_by_channel().into_values().collect::<Vec<_>>();
    let connection = Arc::clone(client.session().connection());
    let bytes_held = |at_ms| {
        broker.tick(Now::at_ms(at_ms));
        connection.held_bytes()
    };
    assert_eq!((held(), bytes_held(1_000)), (vec![2], 64));
    client.settle(2, Outcome::Accepted);
    assert_eq!((held(), bytes_held(2_000)), (vec![1], 32));
    client.disconnect();
    assert_eq!((held(), bytes_held(3_000)), (vec![], 0));
}

#[test]
fn headers_decide_where_a_headers_exchange_is_on_the_way() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.ask(exchange("by-type", "headers"));
    client.ask(exchange("any", "fanout"));
    client.ask(Op::BindExchange(ExchangeBinding {
        destination: short("by-type"),
        source: short("any"),
        routing_key: short(""),
        arguments: Table::default(),
    }));
    for kind in ["a", "b"] {
        client.declare(kind, false);
        client.bind_with("by-type", kind, "", headers(kind));
    }
    let message = |kind| {
        let headers = Some(headers(kind));
        (Properties { headers, ..Properties::default() }, kind)
    };
    for from in ["by-type", "any"] {
        client.publish_with(from, "", &["a", "b", "c", "a"].map(message));
        assert_eq!(client.get("a"), ["got a left 1"]);
        assert_eq!(client.get("a"), ["got a left 0"]);
        assert_eq!(client.get("b"), ["got b left 0"]);
        assert_eq!(client.get("b"), ["get empty"]);
    }
    // With headers or without, elsewhere only the key counts.
    client.publish_with("", "b", &["a", "b"].map(message));
    client.publish("b", &["c"], Kind::Transient);
    assert_eq!(client.get("b"), ["got a left 2"]);
    assert_eq!(client.declare("a", false), ["declared 0 0"]);
}

/// The flag `immediate`, where the operator wants it honoured.
#[test]
fn an_immediate_message_comes_back_when_no_consumer_can_be_given_it() {
    let (_disk, broker) = node();
    let (mut client, mut consumer) = (Client::connect(&broker), Client::connect(&broker));
    client.ask(exchange("x", "fanout"));
    for queue in ["idle", "busy"] {
        client.declare(queue, true);
        client.bind("x", queue, "");
    }
    let publish = |client: &mut Client, bodies: &[&str]| {
        let messages: Vec<_> = bodies.iter().map(|body| (Properties::default(), *body)).collect();
        client.publish_as("x", "", &messages, Kind::Immediate)
    };
    assert_eq!(publish(&mut client, &["a"]), ["returned a without consumers"]);
    consumer.ask(Op::SetPrefetch { prefetch_count: 2, global: false });
    consumer.consume("busy", false);
    consumer.heard();
    assert_eq!(publish(&mut client, &["b", "c", "d"]), ["returned d without consumers"]);
    assert_eq!(consumer.heard(), ["deliver b", "deliver c"]);
    assert_eq!(client.declare("idle", true), ["declared 0 0"]);
    let lost = [(Properties::default(), "e")];
    let heard = client.publish_as("", "nowhere", &lost, Kind::Immediate);
    assert_eq!(heard, ["returned e without consumers"]);
    consumer.settle(2, Outcome::Accepted);
    client.ask(Op::EnableConfirms);
    assert_eq!(publish(&mut client, &["f"]), ["ack 1..=1"]);
    assert_eq!(consumer.heard(), ["deliver f"]);
}

fn exchange(name: &str, kind: &str) -> Op {
    Op::DeclareExchange(ExchangeDeclaration {
        exchange: short(name),
        kind: short(kind),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        arguments: Table::default(),
    })
}

fn headers(kind: &str) -> Table {
    [(short("type"), Value::from(kind))].into_iter().collect()
}
