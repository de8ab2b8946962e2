//! Queues that confirm a publish once a consumer has had it.

mod timeout;

use crate::client::{Client, Kind, block_on, short, start};
use broker::{Broker, Diagnosis, QueueStat};
use meta::{ApplyTo, Command, Json, PolicyScope, PolicySpec};
use session::{LinkId, LinkOp, Op, Outcome, Value};
use std::sync::Arc;
use stdx::Now;
use testing::MemoryDisk;

const ACK: (&str, Value) = ("x-confirm-on", Value::I32(0));

fn on(mode: &str) -> (&'static str, Value) {
    let (key, _) = ACK;
    (key, Value::from(mode))
}

fn delete(queue: &str) -> Op {
    let no = session::Flag::No;
    Op::DeleteQueue { queue: short(queue), if_unused: no, if_empty: no }
}

/// Arguments by which a queue's dead letters go to the queue `dead`.
fn to_dead() -> [(&'static str, Value); 2] {
    [
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("dead")),
    ]
}

struct Node {
    disk: Arc<MemoryDisk>,
    broker: Arc<Broker>,
    publisher: Client,
    consumer: Client,
}

fn node() -> Node {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut publisher = Client::connect(&broker);
    assert_eq!(publisher.ask(Op::EnableConfirms), ["done"]);
    let consumer = Client::connect(&broker);
    Node { disk, broker, publisher, consumer }
}

fn queue_with(mode: &str, more: &[(&'static str, Value)]) -> Node {
    let mut node = node();
    let mut arguments = vec![on(mode)];
    arguments.extend_from_slice(more);
    assert_eq!(node.publisher.declare_with("q", true, &arguments), ["declared 0 0"]);
    node
}

impl Node {
    /// Confirms that the publisher is told, at once or later.
    fn told(&self) -> Vec<String> {
        self.publisher.heard()
    }

    fn set_policy(&self, definition: &str) {
        let policy = PolicySpec {
            name: "p".into(),
            pattern: ".*".to_owned(),
            definition: Json::parse(definition).unwrap(),
            priority: 0,
            apply_to: ApplyTo::Queues,
        };
        let set = Command::SetPolicy { vhost: "/".into(), scope: PolicyScope::User, policy };
        block_on(self.broker.apply_definition(set)).unwrap();
    }

    fn n_pending(&self) -> u64 {
        Diagnosis(&self.broker.view().queue("/", "q").unwrap()).pending_confirms().n
    }

    /// The figures of the queue after what was heard of it: they are brought up to date under its lock, which
    /// another thread may still hold.
    fn stat(&self) -> QueueStat {
        let queue = self.broker.view().queue("/", "q").unwrap();
        let _under_the_lock = queue.as_classic().unwrap().inspect().pages_on_disk();
        queue.local_stat()
    }
}

#[test]
fn a_publish_is_confirmed_by_the_acknowledgement() {
    for mode in ["ack", "ack-direct"] {
        for kind in [Kind::Transient, Kind::Persistent] {
            let mut node = queue_with(mode, &[]);
            assert_eq!(node.publisher.publish("q", &["a", "b", "c"], kind), [""; 0]);
            assert_eq!(node.n_pending(), 3);
            let heard = node.consumer.consume("q", false);
            assert_eq!(heard, ["consuming", "deliver a", "deliver b", "deliver c"]);
            assert_eq!(node.told(), [""; 0]);
            node.consumer.settle(2, Outcome::Accepted);
            assert_eq!(node.told(), ["ack 1..=2"]);
            // The rule holds for what comes to a consumer that waits, too.
            assert_eq!(node.publisher.publish("q", &["d"], kind), [""; 0]);
            node.consumer.settle(2, Outcome::Accepted);
            assert_eq!(node.told(), ["ack 3..=4"]);
            assert_eq!(node.n_pending(), 0);
        }
    }
}

#[test]
fn what_comes_back_is_still_waited_for() {
    let mut node = queue_with("ack", &[]);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a"], Kind::Transient);
    assert_eq!(node.consumer.heard(), ["deliver a"]);
    assert_eq!(node.consumer.settle(1, Outcome::Modified), ["deliver a again"]);
    assert_eq!(node.consumer.settle(1, Outcome::Released), ["deliver a again"]);
    assert_eq!(node.told(), [""; 0]);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=1"]);
}

#[test]
fn a_lost_consumer_gives_back_what_it_held_in_every_mode() {
    for mode in ["ack", "ack-direct"] {
        let Node { broker, mut publisher, mut consumer, .. } = queue_with(mode, &[]);
        publisher.publish("q", &["a", "b", "c"], Kind::Transient);
        consumer.consume("q", false);
        consumer.settle(1, Outcome::Accepted);
        consumer.disconnect();
        assert_eq!(publisher.heard(), ["ack 1..=1"]);
        let mut other = Client::connect(&broker);
        assert_eq!(other.consume("q", false), ["consuming", "deliver b again", "deliver c again"]);
        other.settle(2, Outcome::Accepted);
        assert_eq!(publisher.heard(), ["ack 2..=3"]);
    }
}

#[test]
fn a_cancelled_consumer_keeps_what_it_holds_in_every_mode() {
    for mode in ["ack", "ack-direct"] {
        let mut node = queue_with(mode, &[]);
        node.publisher.publish("q", &["a", "b"], Kind::Transient);
        node.consumer.consume_with("q", "tag", false, &[]);
        node.consumer.ask(Op::Detach { consumer_tag: short("tag") });
        node.consumer.settle(1, Outcome::Accepted);
        assert_eq!(node.told(), ["ack 1..=1"]);
        node.consumer.disconnect();
        let mut other = Client::connect(&node.broker);
        assert_eq!(other.get("q"), ["got b again left 0"]);
    }
}

#[test]
fn recovering_gives_back_what_is_held_in_every_mode() {
    for mode in ["ack", "ack-direct"] {
        let mut node = queue_with(mode, &[]);
        node.publisher.publish("q", &["a", "b"], Kind::Transient);
        node.consumer.consume("q", false);
        let heard = node.consumer.ask(Op::ReleaseUnsettled);
        assert_eq!(heard, ["done", "deliver a again", "deliver b again"]);
        // The first two were forgotten by the client; the test's outbox has all four.
        node.consumer.settle(4, Outcome::Accepted);
        assert_eq!(node.told(), ["ack 1..=2"]);
    }
}

#[test]
fn links_are_refused_other_outcomes_where_a_channel_would_fail() {
    let mut node = queue_with("ack-direct", &[]);
    node.publisher.publish("q", &["a", "b", "c"], Kind::Transient);
    let link = node.consumer.consume_by_credit("q", "link", false);
    assert_eq!(node.consumer.flow(link, 0, 2, ""), ["deliver a", "deliver b"]);
    assert_eq!(node.consumer.settle(1, Outcome::Accepted), [""; 0]);
    assert_eq!(node.told(), ["ack 1..=1"]);
    for outcome in [Outcome::Released, Outcome::Modified, Outcome::Rejected] {
        let (heard, link) = match outcome {
            Outcome::Released => (node.consumer.settle(1, outcome), link),
            _ => {
                let link = node.consumer.consume_by_credit("q", "link", false);
                let heard = node.consumer.flow(link, 0, 1, "");
                assert_eq!(heard, ["deliver b again"]);
                (node.consumer.settle(1, outcome), link)
            }
        };
        assert_eq!(heard.len(), 1);
        assert!(
            heard[0].contains("OutcomeRefused") && heard[0].contains("ack-direct"),
            "{heard:?}"
        );
        node.consumer.ask(Op::Link(LinkOp::Detach(LinkId(link))));
    }
    assert_eq!(node.told(), [""; 0]);
    // Clients of channels are on the other side now, and the other way round before.
    let mut other = Client::connect(&node.broker);
    assert_eq!(other.consume("q", false), ["consuming", "deliver b again", "deliver c"]);
    other.settle(2, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 2..=3"]);
    // What is settled by being written is confirmed then; the rest comes again.
    let link = node.consumer.consume_by_credit("q", "settled", true);
    node.consumer.flow(link, 0, 9, "");
    other.disconnect();
    node.publisher.publish("q", &["d"], Kind::Transient);
    assert_eq!(node.consumer.wait_for(Vec::new(), 1), ["deliver d"]);
    assert_eq!(node.told(), [""; 0]);
    node.consumer.write_out();
    assert_eq!(node.told(), ["ack 4..=4"]);
}

#[test]
fn rejecting_is_not_known_where_nothing_is_recorded() {
    let mut node = queue_with("ack-direct", &[]);
    node.publisher.publish("q", &["a", "b"], Kind::Transient);
    node.consumer.consume("q", false);
    assert_eq!(
        node.consumer.settle(1, Outcome::Rejected),
        [
            "channel failed NotImplementedByMode: basic.reject and basic.nack are not implemented for \
          queue 'q' in vhost '/': it confirms on ack-direct (x-confirm-on)"
        ]
    );
    assert_eq!(node.told(), [""; 0]);
    let mut other = Client::connect(&node.broker);
    assert_eq!(other.consume("q", false), ["consuming", "deliver a again", "deliver b again"]);
    other.settle(2, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=2"]);
}

#[test]
fn what_is_rejected_without_a_way_on_is_refused() {
    let mut node = queue_with("ack", &[]);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a", "b"], Kind::Persistent);
    node.consumer.settle(1, Outcome::Rejected);
    assert_eq!(node.told(), ["nack 1..=1"]);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 2..=2"]);
}

#[test]
fn what_expires_is_dropped_purged_or_deleted_is_refused() {
    let mut node = queue_with("ack", &[("x-message-ttl", Value::I32(1_000))]);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.broker.tick(Now::at_ms(5_000));
    assert_eq!(node.publisher.wait_for(Vec::new(), 1), ["nack 1..=1"]);
    node.publisher.publish("q", &["b", "c"], Kind::Transient);
    let heard = node.publisher.ask(Op::PurgeQueue { queue: short("q") });
    assert_eq!(heard, ["nack 2..=3", "purged 2"]);
    node.publisher.publish("q", &["d"], Kind::Transient);
    let heard = node.publisher.ask(delete("q"));
    assert_eq!(heard, ["nack 4..=4", "deleted 1"]);

    let mut node = queue_with("ack", &[("x-max-length", Value::I32(1))]);
    assert_eq!(node.publisher.publish("q", &["a", "b"], Kind::Transient), ["nack 1..=1"]);
    let reject = ("x-overflow", Value::from("reject-publish"));
    let mut node = queue_with("ack", &[("x-max-length", Value::I32(1)), reject]);
    assert_eq!(node.publisher.publish("q", &["a", "b"], Kind::Transient), ["nack 2..=2"]);
    node.consumer.consume("q", false);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=1"]);
}

#[test]
fn what_consumers_hold_when_their_queue_goes_is_refused() {
    for mode in ["ack", "ack-direct"] {
        let mut node = queue_with(mode, &[]);
        node.consumer.consume("q", false);
        node.publisher.publish("q", &["a"], Kind::Transient);
        node.publisher.ask(delete("q"));
        node.consumer.settle(1, Outcome::Accepted);
        assert_eq!(node.publisher.publish("q", &["b"], Kind::Transient), ["ack 2..=2"]);
    }
}

#[test]
fn no_more_wait_than_may() {
    let mut node = queue_with("ack", &[("x-confirm-on-max-pending", Value::I32(2))]);
    let refused = node.publisher.publish("q", &["a", "b", "c"], Kind::Transient);
    assert_eq!(refused, ["nack 3..=3"]);
    node.consumer.consume("q", false);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=1"]);
    assert_eq!(node.publisher.publish("q", &["d", "e"], Kind::Transient), ["nack 5..=5"]);
    // Who waits for nothing is let in.
    let mut other = Client::connect(&node.broker);
    other.publish("q", &["f"], Kind::Transient);
    assert_eq!(node.consumer.heard(), ["deliver d", "deliver f"]);

    let mut node = queue_with("ack", &[("x-confirm-on-max-pending-bytes", Value::I32(5))]);
    let refused = node.publisher.publish("q", &["1234", "56", "7"], Kind::Transient);
    assert_eq!(refused, ["nack 2..=2"]);
}

#[test]
fn without_a_consumer_a_publish_waits_or_is_refused() {
    let refuse = ("x-confirm-on-no-consumer", Value::from("nack"));
    let mut node = queue_with("ack", &[refuse]);
    assert_eq!(node.publisher.publish("q", &["a"], Kind::Transient), ["nack 1..=1"]);
    node.consumer.consume("q", false);
    assert_eq!(node.publisher.publish("q", &["b"], Kind::Transient), [""; 0]);
    assert_eq!(node.consumer.settle(1, Outcome::Accepted), ["deliver b"]);
    assert_eq!(node.told(), ["ack 2..=2"]);
}

#[test]
fn being_written_counts_where_nobody_acknowledges() {
    for mode in ["ack", "ack-direct"] {
        let Node { broker, mut publisher, mut consumer, .. } = queue_with(mode, &[]);
        consumer.consume("q", true);
        publisher.publish("q", &["a", "b"], Kind::Persistent);
        assert_eq!(consumer.heard(), ["deliver a", "deliver b"]);
        assert_eq!(publisher.heard(), [""; 0]);
        consumer.write_out();
        assert_eq!(publisher.heard(), ["ack 1..=2"]);
        // What was not written is somebody else's.
        publisher.publish("q", &["c"], Kind::Persistent);
        consumer.disconnect();
        let mut other = Client::connect(&broker);
        let heard = other.ask(Op::Get { queue: short("q"), no_ack: true });
        assert_eq!(heard, ["got c again left 0"]);
        assert_eq!(publisher.heard(), [""; 0]);
        other.write_out();
        assert_eq!(publisher.heard(), ["ack 3..=3"]);
    }
}

#[test]
fn recovering_leaves_what_is_being_written() {
    let mut node = queue_with("ack", &[]);
    node.publisher.publish("q", &["a", "b", "c"], Kind::Transient);
    let get = |no_ack| Op::Get { queue: short("q"), no_ack };
    assert_eq!(node.consumer.ask(get(false)), ["got a left 2"]);
    assert_eq!(node.consumer.ask(get(true)), ["got b left 1"]);
    assert_eq!(node.consumer.consume("q", true), ["consuming", "deliver c"]);
    assert_eq!(node.consumer.ask(Op::ReleaseUnsettled), ["done", "deliver a again"]);
    node.consumer.write_out();
    assert_eq!(node.told(), ["ack 2..=2", "ack 1..=1", "ack 3..=3"]);
}

#[test]
fn recovering_gives_nothing_to_who_is_still_to_give_back() {
    for mode in ["enqueue", "ack", "ack-direct"] {
        let mut node = queue_with(mode, &[]);
        for tag in ["first", "second"] {
            node.consumer.consume_with("q", tag, false, &[]);
        }
        node.publisher.publish("q", &["a", "b"], Kind::Transient);
        assert_eq!(node.consumer.heard(), ["deliver a", "deliver b"]);
        let heard = node.consumer.ask(Op::ReleaseUnsettled);
        assert_eq!(heard, ["done", "deliver a again", "deliver b again"]);
    }
}

#[test]
fn what_a_transaction_is_given_without_acknowledgement_is_settled_before_its_commit() {
    let mut node = queue_with("ack", &[]);
    node.consumer.ask(Op::EnableTransactions);
    node.consumer.consume("q", true);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.consumer.write_out();
    assert_eq!(node.told(), ["ack 1..=1"]);
}

#[test]
fn a_transaction_that_cannot_be_carried_out_gives_back_what_it_has_acknowledged() {
    for mode in ["ack", "ack-direct"] {
        let mut node = queue_with(mode, &[]);
        node.consumer.ask(Op::EnableTransactions);
        node.consumer.consume("q", false);
        node.publisher.publish("q", &["a", "b"], Kind::Transient);
        node.consumer.settle(1, Outcome::Accepted);
        node.publisher.declare_exchange("gone", "fanout", &[]);
        node.consumer.publish_to("gone", "", &["c"], Kind::Transient);
        node.publisher.ask(Op::DeleteExchange { exchange: short("gone"), if_unused: false });
        let heard = node.consumer.ask(Op::Commit).concat();
        assert!(heard.contains("channel failed NotFound"), "{heard}");
        let mut other = Client::connect(&node.broker);
        assert_eq!(other.consume("q", false), ["consuming", "deliver a again", "deliver b again"]);
        other.settle(2, Outcome::Accepted);
        assert_eq!(node.told(), ["ack 1..=2"]);
    }
}

#[test]
fn acknowledgements_behind_what_ends_their_channel_are_not_heard() {
    for mode in ["ack", "ack-direct"] {
        let mut node = queue_with(mode, &[]);
        node.publisher.publish("q", &["a", "b"], Kind::Transient);
        node.consumer.consume("q", false);
        let heard = node.consumer.ask_and_settle(Op::Get { queue: short("none"), no_ack: true });
        assert_eq!(heard, ["channel failed NotFound: no queue 'none' in vhost '/'"]);
        assert_eq!(node.told(), [""; 0]);
        let mut other = Client::connect(&node.broker);
        assert_eq!(other.consume("q", false), ["consuming", "deliver a again", "deliver b again"]);
        // Others behind what does not end it are.
        other.ask_and_settle(Op::Get { queue: short("q"), no_ack: true });
        assert_eq!(node.told(), ["ack 1..=2"]);
        assert_eq!(node.n_pending(), 0);
    }
}

#[test]
fn acknowledgements_behind_credit_are_not_heard_if_one_before_ends_their_channel() {
    let mut node = queue_with("ack-direct", &[]);
    node.publisher.publish("q", &["a", "b", "c"], Kind::Transient);
    node.consumer.consume("q", false);
    let heard = node.consumer.settle_around_credit(Outcome::Rejected);
    assert!(heard[0].starts_with("channel failed NotImplementedByMode"), "{heard:?}");
    assert_eq!(node.told(), [""; 0]);
    let mut other = Client::connect(&node.broker);
    let again = ["consuming", "deliver a again", "deliver b again", "deliver c again"];
    assert_eq!(other.consume("q", false), again);
    other.settle(3, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=3"]);
}

#[test]
fn all_queues_of_a_message_have_a_say() {
    let mut node = queue_with("ack", &[]);
    node.publisher.declare_with("other", false, &[on("ack-direct")]);
    node.publisher.declare("plain", false);
    node.publisher.declare("durable", true);
    for queue in ["q", "other", "plain", "durable"] {
        node.publisher.bind("amq.fanout", queue, "");
    }
    let publish = |node: &mut Node, bodies: &[&str]| {
        node.publisher.publish_to("amq.fanout", "", bodies, Kind::Persistent)
    };
    assert_eq!(publish(&mut node, &["a"]), [""; 0]);
    node.consumer.consume("q", false);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), [""; 0]);
    node.consumer.consume("other", false);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.publisher.wait_for(Vec::new(), 1), ["ack 1..=1"]);
    // One that refuses does so for all, once.
    publish(&mut node, &["b", "c"]);
    node.consumer.settle(1, Outcome::Rejected);
    assert_eq!(node.told(), ["nack 2..=2"]);
    node.consumer.settle(3, Outcome::Accepted);
    assert_eq!(node.publisher.wait_for(Vec::new(), 1), ["ack 3..=3"]);
}

#[test]
fn a_dead_letter_is_confirmed_at_the_end_of_its_way() {
    let to = to_dead();
    let mut node = queue_with("ack", &to);
    node.publisher.declare_with("dead", true, &[on("ack")]);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a", "b"], Kind::Transient);
    node.consumer.settle(2, Outcome::Rejected);
    let mut other = Client::connect(&node.broker);
    assert_eq!(other.get_soon("dead"), "got a left 1");
    assert_eq!(node.told(), [""; 0]);
    other.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=1"]);
    other.get("dead");
    other.settle(1, Outcome::Rejected);
    assert_eq!(node.told(), ["nack 2..=2"]);

    // Into an ordinary queue: once it is there, on disk if need be; nowhere: it is refused.
    let mut node = queue_with("ack", &to);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.consumer.settle(1, Outcome::Rejected);
    assert_eq!(node.publisher.wait_for(Vec::new(), 1), ["nack 1..=1"]);
    node.publisher.declare("dead", true);
    node.publisher.publish("q", &["b", "c"], Kind::Persistent);
    node.consumer.settle(2, Outcome::Rejected);
    assert_eq!(node.publisher.wait_for(Vec::new(), 2), ["ack 2..=2", "ack 3..=3"]);
}

#[test]
fn a_policy_changes_the_rule_for_what_comes_after_it() {
    let mut node = node();
    node.publisher.declare("q", false);
    assert_eq!(node.publisher.publish("q", &["a"], Kind::Transient), ["ack 1..=1"]);
    node.set_policy(r#"{"confirm-on":"ack"}"#);
    node.publisher.publish("q", &["b"], Kind::Transient);
    node.consumer.consume("q", false);
    node.set_policy(r#"{"confirm-on":"ack-direct"}"#);
    node.publisher.publish("q", &["c"], Kind::Transient);
    node.set_policy(r#"{"confirm-on":"enqueue"}"#);
    assert_eq!(node.publisher.publish("q", &["d"], Kind::Transient), ["ack 4..=4"]);
    // All are in flight, each under the rule it came in with.
    let heard = node.consumer.settle_newest(Outcome::Rejected);
    assert_eq!(heard, ["deliver c", "deliver d"]);
    assert_eq!(node.told(), [""; 0]);
    node.consumer.settle(3, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 2..=3"]);
    assert_eq!(node.n_pending(), 0);
    node.consumer.consume("q", true);
    assert_eq!(node.publisher.publish("q", &["e"], Kind::Transient), ["ack 5..=5"]);
}

#[test]
fn a_closed_channel_is_told_nothing_and_its_number_may_be_used_again() {
    let mut node = queue_with("ack", &[]);
    node.publisher.publish("q", &["a"], Kind::Transient);
    assert_eq!(node.publisher.ask(Op::CloseChannel), ["closed"]);
    assert_eq!(node.publisher.ask(Op::OpenChannel), ["opened"]);
    node.publisher.ask(Op::EnableConfirms);
    node.publisher.publish("q", &["b"], Kind::Transient);
    node.consumer.consume("q", false);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), [""; 0], "the message goes its way all the same");
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.told(), ["ack 1..=1"]);
    node.publisher.publish("q", &["c"], Kind::Transient);
    node.publisher.disconnect();
    assert_eq!(node.consumer.heard(), ["deliver c"]);
    node.consumer.settle(1, Outcome::Accepted);
}

#[test]
fn small_messages_are_not_kept_for_a_restart_and_large_ones_are() {
    let large = "x".repeat(5_000);
    let mut node = queue_with("ack", &[]);
    node.publisher.publish("q", &["small", &large], Kind::Persistent);
    node.publisher.publish("q", &["small too"], Kind::Persistent);
    assert_eq!(node.told(), [""; 0]);
    node.publisher.disconnect();
    node.consumer.disconnect();
    node.broker.stop().unwrap();
    drop(node.broker);
    let broker = start(&node.disk);
    let mut client = Client::connect(&broker);
    client.ask(Op::EnableConfirms);
    assert_eq!(client.ask_ready("q"), 1);
    client.publish("q", &["small"], Kind::Persistent);
    let heard = client.consume("q", false);
    assert_eq!(
        heard,
        ["consuming".to_owned(), format!("deliver {large}"), "deliver small".to_owned()]
    );
    assert_eq!(client.settle(2, Outcome::Accepted), ["ack 1..=1"]);
}

/// A message rejected before its queue went is dead-lettered all the same.
#[test]
fn dead_letters_outlive_their_queue() {
    for _ in 0..20 {
        let to = to_dead();
        let mut node = queue_with("ack", &to);
        node.publisher.declare_with("dead", true, &[on("ack")]);
        node.consumer.consume("q", false);
        node.publisher.publish("q", &["a", "b", "c"], Kind::Transient);
        node.consumer.settle(2, Outcome::Rejected);
        let heard = node.consumer.ask(delete("q"));
        assert_eq!(heard, ["consumer lost", "deleted 0"]);
        assert_eq!(node.publisher.wait_for(Vec::new(), 1), ["nack 3..=3"]);
        let mut other = Client::connect(&node.broker);
        let heard = [other.get_soon("dead"), other.get_soon("dead")];
        let mut bodies: Vec<&str> = heard.iter().filter_map(|it| it.split(' ').nth(1)).collect();
        bodies.sort_unstable();
        assert_eq!(bodies, ["a", "b"]);
        other.settle(2, Outcome::Accepted);
        let confirmed = node.publisher.heard().join(" ");
        assert!(["ack 1..=2", "ack 1..=1 ack 2..=2"].contains(&confirmed.as_str()), "{confirmed}");
    }
}
