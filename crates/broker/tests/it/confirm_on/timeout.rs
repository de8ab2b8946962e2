//! A bound on how long a publish waits for consumers (`x-confirm-timeout`).

use super::*;
use crate::client::at;

const NOTHING: [&str; 0] = [];

fn timeout(ms: i32) -> (&'static str, Value) {
    ("x-confirm-timeout", Value::I32(ms))
}

/// A queue on which a publish waits until the time is a second: it begins at one millisecond.
fn bounded(mode: &str, more: &[(&'static str, Value)]) -> Node {
    let mut arguments = vec![timeout(999)];
    arguments.extend_from_slice(more);
    queue_with(mode, &arguments)
}

impl Node {
    fn tick(&self, ms: u64) {
        at(&self.broker, ms);
    }

    /// The publisher is told as much as of `ms`, and hears no more.
    fn told_at(&self, ms: u64, told: &str) {
        self.tick(ms);
        assert_eq!(self.publisher.wait_for(Vec::new(), 1), [told]);
    }

    fn n_timed_out(&self) -> u64 {
        self.stat().n_confirm_timeouts
    }

    fn n_messages(&self) -> (u64, u64) {
        let stat = self.stat();
        (stat.n_ready, stat.n_unacked)
    }
}

#[test]
fn a_confirm_timeout_removes_a_ready_message() {
    let large = "x".repeat(5_000);
    for mode in ["ack", "ack-direct"] {
        for kind in [Kind::Transient, Kind::Persistent] {
            let mut node = bounded(mode, &to_dead());
            node.publisher.declare("dead", true);
            node.publisher.publish("q", &["a", &large], kind);
            node.tick(999);
            node.publisher.publish("q", &["b"], kind);
            assert_eq!(node.told(), NOTHING);
            node.told_at(1_000, "nack 1..=2");
            assert_eq!((node.n_messages(), node.n_pending(), node.n_timed_out()), ((1, 0), 1, 2));
            assert_eq!(node.consumer.consume("q", false), ["consuming", "deliver b"]);
            node.consumer.settle(1, Outcome::Accepted);
            assert_eq!(node.told(), ["ack 3..=3"]);
            assert_eq!(node.consumer.ask_ready("dead"), 0, "it is no dead letter");
        }
    }
}

#[test]
fn a_confirm_timeout_keeps_an_unacked_message_with_its_consumer() {
    for mode in ["ack", "ack-direct"] {
        let mut node = bounded(mode, &[]);
        node.consumer.consume("q", false);
        node.publisher.publish("q", &["a", "b"], Kind::Persistent);
        assert_eq!(node.consumer.heard(), ["deliver a", "deliver b"]);
        node.told_at(1_000, "nack 1..=2");
        assert_eq!((node.n_messages(), node.n_timed_out()), ((0, 2), 2));
        node.publisher.publish("q", &["again"], Kind::Persistent);
        node.consumer.settle(3, Outcome::Accepted);
        assert_eq!(node.told(), ["ack 3..=3"], "of the first two nobody hears");
        assert_eq!((node.n_messages(), node.n_pending()), ((0, 0), 0));
    }
}

#[test]
fn a_message_requeued_after_its_confirm_timeout_is_removed() {
    let gives_back: [fn(&mut Client); 4] = [
        // With ack-direct the channel fails, and gives back what it holds.
        |consumer| drop(consumer.settle(2, Outcome::Modified)),
        |consumer| drop(consumer.settle(2, Outcome::Released)),
        |consumer| drop(consumer.recover()),
        |consumer| drop(consumer.ask(Op::CloseChannel)),
    ];
    for give_back in gives_back {
        for mode in ["ack", "ack-direct"] {
            let mut node = bounded(mode, &to_dead());
            node.publisher.declare("dead", true);
            node.consumer.consume("q", false);
            node.publisher.publish("q", &["a", "b"], Kind::Persistent);
            node.told_at(1_000, "nack 1..=2");
            node.publisher.publish("q", &["c"], Kind::Persistent);
            give_back(&mut node.consumer);
            let (n_ready, n_unacked) = node.n_messages();
            assert_eq!(n_ready + n_unacked, 1);
            node.consumer.disconnect();
            let mut other = Client::connect(&node.broker);
            assert_eq!(other.get("q"), ["got c again left 0"]);
            assert_eq!(other.ask_ready("dead"), 0);
        }
    }
}

#[test]
fn a_consumer_may_still_reject_it() {
    let mut node = bounded("ack", &to_dead());
    node.publisher.declare("dead", true);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.told_at(1_000, "nack 1..=1");
    node.consumer.settle(1, Outcome::Rejected);
    assert_eq!(node.consumer.get_soon("dead"), "got a left 0");
    assert_eq!(node.told(), NOTHING);
}

#[test]
fn what_would_be_tried_again_after_that_is_gone() {
    let retry = [
        ("x-delayed-retry-type", Value::from("all")),
        ("x-delayed-retry-min", Value::I32(5_000)),
        ("x-delayed-retry-max", Value::I32(5_000)),
    ];
    let mut node = bounded("ack", &retry);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a"], Kind::Transient);
    assert_eq!(node.consumer.settle(1, Outcome::Modified), ["deliver a"]);
    node.told_at(1_000, "nack 1..=1");
    let mut other = Client::connect(&node.broker);
    other.publish("q", &["b"], Kind::Transient);
    assert_eq!(node.consumer.settle(1, Outcome::Modified), ["deliver b"]);
    node.tick(6_000);
    assert_eq!(node.consumer.wait_for(Vec::new(), 1), ["deliver b again"]);
    assert_eq!(node.n_messages(), (0, 1));
}

#[test]
fn a_policy_binds_those_that_wait_already() {
    for confirm_on in ["ack", "enqueue"] {
        let mut node = node();
        node.publisher.declare("q", false);
        node.set_policy(r#"{"confirm-on":"ack"}"#);
        node.publisher.publish("q", &["a"], Kind::Transient);
        node.tick(3_000);
        node.publisher.publish("q", &["b"], Kind::Transient);
        let policy = format!(r#"{{"confirm-on":"{confirm_on}","confirm-timeout":2000}}"#);
        node.set_policy(&policy);
        assert_eq!(node.publisher.wait_for(Vec::new(), 1), ["nack 1..=1"]);
        node.told_at(5_000, "nack 2..=2");
        assert_eq!(node.n_messages(), (0, 0));
    }
}

#[test]
fn a_longer_bound_counts_too_and_the_smaller_of_two() {
    let mut node = bounded("ack", &[]);
    node.set_policy(r#"{"confirm-timeout":600000}"#);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.told_at(1_000, "nack 1..=1");

    let mut node = queue_with("ack", &[]);
    node.set_policy(r#"{"confirm-timeout":2000}"#);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.set_policy(r#"{"confirm-timeout":60000}"#);
    node.tick(60_000);
    node.publisher.publish("q", &["b"], Kind::Transient);
    node.told_at(60_001, "nack 1..=1");
    assert_eq!(node.n_pending(), 1);
    node.set_policy(r#"{"confirm-on":"ack"}"#);
    node.tick(10_000_000);
    node.publisher.publish("q", &["c"], Kind::Transient);
    assert_eq!((node.n_pending(), node.n_timed_out()), (2, 1), "without it there is no bound");
}

#[test]
fn it_is_without_effect_where_confirms_wait_for_no_consumer() {
    let mut node = queue_with("enqueue", &[timeout(1_000)]);
    assert_eq!(node.publisher.publish("q", &["a"], Kind::Transient), ["ack 1..=1"]);
    // Nor on what nobody waits for, or on transactions: they are committed when queues have the messages.
    node.set_policy(r#"{"confirm-on":"ack"}"#);
    let mut other = Client::connect(&node.broker);
    other.publish("q", &["b"], Kind::Transient);
    let mut tx = Client::connect(&node.broker);
    tx.ask(Op::EnableTransactions);
    tx.publish("q", &["c"], Kind::Transient);
    assert_eq!(tx.ask(Op::Commit), ["done"]);
    node.tick(100_000);
    assert_eq!(node.consumer.get("q"), ["got a left 2"]);
    assert_eq!((node.n_messages(), node.n_timed_out()), ((2, 1), 0));
}

#[test]
fn it_counts_from_the_arrival_in_each_queue() {
    let mut node = bounded("ack", &to_dead());
    node.publisher.declare_with("dead", true, &[on("ack"), timeout(1_000)]);
    node.consumer.consume("q", false);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.tick(900);
    node.consumer.settle(1, Outcome::Rejected);
    let mut other = Client::connect(&node.broker);
    assert_eq!(other.get_soon("dead"), "got a left 0");
    node.tick(1_500);
    assert_eq!(node.told(), NOTHING);
    node.told_at(1_999, "nack 1..=1");
    assert_eq!(node.n_timed_out(), 0, "the other queue's");
}

#[test]
fn one_of_several_queues_refuses_for_all() {
    let mut node = bounded("ack", &[]);
    node.publisher.declare_with("other", false, &[on("ack")]);
    node.publisher.declare("plain", false);
    for queue in ["q", "other", "plain"] {
        node.publisher.bind("amq.fanout", queue, "");
    }
    node.publisher.publish_to("amq.fanout", "", &["a"], Kind::Persistent);
    node.told_at(1_000, "nack 1..=1");
    assert_eq!(node.n_messages(), (0, 0));
    assert_eq!(node.consumer.get("other"), ["got a left 0"]);
    node.consumer.settle(1, Outcome::Accepted);
    assert_eq!(node.consumer.get("plain"), ["got a left 0"]);
    assert_eq!(node.told(), NOTHING);
}

#[test]
fn what_is_gone_counts_for_no_limit_any_more() {
    let limits = [
        ("x-max-length-bytes", Value::I32(6)),
        ("x-overflow", Value::from("reject-publish")),
        ("x-max-priority", Value::I32(3)),
        ("x-confirm-on-max-pending", Value::I32(3)),
    ];
    let mut node = bounded("ack", &limits);
    assert_eq!(node.publisher.publish("q", &["123", "456", "7"], Kind::Transient), ["nack 3..=3"]);
    node.told_at(1_000, "nack 1..=2");
    assert_eq!(node.publisher.publish("q", &["123", "456"], Kind::Transient), NOTHING);
    assert_eq!(node.publisher.publish("q", &["7"], Kind::Transient), ["nack 6..=6"]);
}

#[test]
fn what_is_being_written_is_refused_too() {
    for mode in ["ack", "ack-direct"] {
        let mut node = bounded(mode, &[]);
        node.consumer.consume("q", true);
        node.publisher.publish("q", &["a", "b"], Kind::Persistent);
        node.told_at(1_000, "nack 1..=2");
        node.consumer.write_out();
        assert_eq!((node.told(), node.n_messages()), (Vec::new(), (0, 0)));
    }
}

#[test]
fn it_holds_when_the_publisher_is_gone() {
    let mut node = bounded("ack", &[]);
    node.publisher.publish("q", &["a"], Kind::Transient);
    node.publisher.disconnect();
    node.publisher = Client::connect(&node.broker);
    node.publisher.ask(Op::EnableConfirms);
    node.publisher.publish("q", &["b"], Kind::Transient);
    node.told_at(1_000, "nack 1..=1");
    assert_eq!((node.n_messages(), node.n_timed_out()), ((0, 0), 2));
}

#[test]
fn a_crowd_is_refused_in_order() {
    let mut node = bounded("ack", &[]);
    let bodies = vec!["m"; 10_000];
    node.publisher.publish("q", &bodies, Kind::Transient);
    node.tick(1_000);
    let told = ["nack 1..=4096", "nack 4097..=8192", "nack 8193..=10000"];
    assert_eq!(node.publisher.wait_for(Vec::new(), told.len()), told);
    assert_eq!((node.n_messages(), node.n_pending()), ((0, 0), 0));
}
