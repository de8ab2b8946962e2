//! Quorum queues that confirm once a consumer has acknowledged (`x-confirm-on`).

use super::{after_crash, declare, node};
use crate::client::{Client, Kind, at, set_policy, short, wait_until};
use broker::{Broker, Diagnosis};
use meta::PolicyScope;
use session::{Flag, LinkOp, Op, Outcome, Value};
use std::sync::Arc;

/// A publisher that waits for confirms, and somebody else.
fn clients(broker: &Arc<Broker>, arguments: &[(&'static str, Value)]) -> (Client, Client) {
    let (mut publisher, mut other) = (Client::connect(broker), Client::connect(broker));
    let mut all = vec![("x-confirm-on", Value::from("ack"))];
    all.extend_from_slice(arguments);
    assert_eq!(declare(&mut other, "q", &all), ["declared 0 0"]);
    publisher.ask(Op::EnableConfirms);
    (publisher, other)
}

fn n_pending(broker: &Arc<Broker>) -> u64 {
    Diagnosis(&broker.view().queue("/", "q").unwrap()).pending_confirms().n
}

#[test]
fn a_transaction_fails_if_a_queue_that_answers_itself_refuses() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let limits = [("x-max-length", Value::I32(1)), ("x-overflow", Value::from("reject-publish"))];
    let on = [("x-confirm-on", Value::from("ack"))];
    declare(&mut client, "q", &[&limits[..], &on[..]].concat());
    client.ask(Op::Link(LinkOp::AttachPublisher(None)));
    client.ask(Op::EnableTransactions);
    client.publish("q", &["a"], Kind::Persistent);
    assert_eq!(client.ask(Op::Commit), ["done"]);
    client.publish("q", &["b"], Kind::Persistent);
    let heard = client.ask(Op::Commit).concat();
    assert!(heard.contains("a queue has refused a message"), "{heard}");
}

#[test]
fn acknowledgements_confirm_and_rejects_refuse() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = clients(&broker, &[]);
    assert!(publisher.publish("q", &["a", "b", "c", "d"], Kind::Transient).is_empty());
    consumer.consume("q", false);
    assert!(publisher.heard().is_empty());
    assert_eq!(n_pending(&broker), 4);
    consumer.settle(2, Outcome::Accepted);
    assert_eq!(publisher.heard(), ["ack 1..=2"]);
    assert_eq!(consumer.settle(1, Outcome::Modified), ["deliver c again"]);
    assert!(publisher.heard().is_empty());
    consumer.settle(1, Outcome::Rejected);
    assert_eq!(publisher.heard(), ["nack 4..=4"]);
    consumer.settle(1, Outcome::Accepted);
    assert_eq!(publisher.heard(), ["ack 3..=3"]);
    assert_eq!(n_pending(&broker), 0);
}

#[test]
fn an_automatic_acknowledgement_confirms_once_it_is_written() {
    let (_disk, broker) = node();
    let (mut publisher, mut consumer) = clients(&broker, &[]);
    consumer.consume("q", true);
    publisher.publish("q", &["a"], Kind::Transient);
    assert!(publisher.heard().is_empty());
    consumer.write_out();
    assert_eq!(publisher.heard(), ["ack 1..=1"]);
}

#[test]
fn whatever_takes_a_message_away_refuses_it() {
    let (_disk, broker) = node();
    let (mut publisher, mut other) = clients(&broker, &[("x-max-length", Value::I64(1))]);
    let heard = publisher.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(heard, ["nack 1..=1"], "dropped");
    assert_eq!(other.ask(Op::PurgeQueue { queue: short("q") }), ["purged 1"]);
    assert_eq!(publisher.heard(), ["nack 2..=2"], "purged");
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"message-ttl": 5}"#);
    publisher.publish("q", &["c"], Kind::Transient);
    at(&broker, 10);
    assert_eq!(publisher.wait_for(Vec::new(), 1), ["nack 3..=3"], "expired");
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit": 0}"#);
    publisher.publish("q", &["d"], Kind::Transient);
    other.get("q");
    other.settle(1, Outcome::Modified);
    assert_eq!(publisher.heard(), ["nack 4..=4"], "tried too often");
    publisher.publish("q", &["e"], Kind::Transient);
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    other.ask(Op::DeleteQueue { queue: short("q"), if_unused, if_empty });
    assert_eq!(publisher.heard(), ["nack 5..=5"], "deleted");
}

#[test]
fn those_that_may_not_wait_are_refused() {
    let (_disk, broker) = node();
    let limit = ("x-confirm-on-max-pending", Value::I64(2));
    let (mut publisher, mut other) = clients(&broker, &[limit]);
    assert_eq!(publisher.publish("q", &["a", "b", "c"], Kind::Transient), ["nack 3..=3"]);
    // Who waits for nothing does not count.
    other.publish("q", &["d"], Kind::Transient);
    assert_eq!(other.ask_ready("q"), 3);
    let wants = r#"{"confirm-on-no-consumer": "nack"}"#;
    set_policy(&broker, PolicyScope::User, "^q$", wants);
    other.ask(Op::PurgeQueue { queue: short("q") });
    assert_eq!(publisher.heard(), ["nack 1..=2"]);
    assert_eq!(publisher.publish("q", &["e"], Kind::Transient), ["nack 4..=4"]);
}

#[test]
fn a_publish_waits_no_longer_than_it_may() {
    let (_disk, broker) = node();
    let (mut publisher, mut other) = clients(&broker, &[("x-confirm-timeout", Value::I64(50))]);
    publisher.publish("q", &["held", "ready"], Kind::Transient);
    assert_eq!(other.get("q"), ["got held left 1"]);
    at(&broker, 100);
    assert_eq!(publisher.wait_for(Vec::new(), 1), ["nack 1..=2"]);
    assert_eq!(other.ask_ready("q"), 0);
    other.settle(1, Outcome::Modified);
    assert_eq!(other.get("q"), ["get empty"]);
    let stat = broker.view().queue("/", "q").unwrap().local_stat();
    assert_eq!((stat.n_pending_confirms, stat.n_confirm_timeouts), (0, 2));
}

#[test]
fn queues_of_all_types_confirm_together_each_by_its_own_rule() {
    let (_disk, broker) = node();
    let (mut publisher, mut other) = clients(&broker, &[]);
    other.declare_exchange("x", "fanout", &[]);
    other.declare_with("classic", true, &[("x-confirm-on", Value::from("ack"))]);
    other.declare("plain", true);
    other.declare_with("stream", true, &[("x-queue-type", Value::from("stream"))]);
    declare(&mut other, "quorum", &[]);
    for queue in ["q", "classic", "plain", "stream", "quorum"] {
        other.bind("x", queue, "");
    }
    publisher.publish_to("x", "", &["a", "b"], Kind::Persistent);
    for queue in ["q", "classic"] {
        assert!(publisher.heard().is_empty());
        other.get(queue);
        other.settle_newest(Outcome::Accepted);
    }
    assert_eq!(publisher.wait_for(Vec::new(), 1), ["ack 1..=1"]);
    other.get("q");
    other.settle_newest(Outcome::Rejected);
    assert_eq!(publisher.heard(), ["nack 2..=2"]);
    other.get("classic");
    other.settle_newest(Outcome::Accepted);
    assert!(publisher.heard().is_empty());
}

fn dead_letters_to(queue: &'static str) -> [(&'static str, Value); 2] {
    let key = ("x-dead-letter-routing-key", Value::from(queue));
    [("x-dead-letter-exchange", Value::from("")), key]
}

#[test]
fn a_dead_letter_takes_its_publisher_along() {
    let (_disk, broker) = node();
    let (mut publisher, mut other) = clients(&broker, &dead_letters_to("dead"));
    declare(&mut other, "dead", &[("x-confirm-on", Value::from("ack"))]);
    publisher.publish("q", &["a", "b"], Kind::Transient);
    for _ in 0..2 {
        other.get("q");
        other.settle_newest(Outcome::Rejected);
    }
    wait_until("they are there", || other.ask_ready("dead") == 2);
    assert!(publisher.heard().is_empty());
    other.get("dead");
    other.settle_newest(Outcome::Accepted);
    assert_eq!(publisher.heard(), ["ack 1..=1"]);
    other.get("dead");
    other.settle_newest(Outcome::Rejected);
    assert_eq!(publisher.heard(), ["nack 2..=2"]);
    publisher.publish("q", &["c"], Kind::Transient);
    other.ask(Op::DeleteQueue { queue: short("dead"), if_unused: Flag::No, if_empty: Flag::No });
    other.get("q");
    other.settle_newest(Outcome::Rejected);
    assert_eq!(publisher.wait_for(Vec::new(), 1), ["nack 3..=3"], "it has nowhere to go");
}

/// Such a letter counts once it is where it should be.
#[test]
fn a_dead_letter_that_arrives_in_any_case_is_confirmed_when_it_has() {
    let (_disk, broker) = node();
    let [to, key] = dead_letters_to("dead");
    let strategy = ("x-dead-letter-strategy", Value::from("at-least-once"));
    let overflow = ("x-overflow", Value::from("reject-publish"));
    let (mut publisher, mut other) = clients(&broker, &[to, key, strategy, overflow]);
    publisher.publish("q", &["a", "b"], Kind::Transient);
    other.get("q");
    other.settle_newest(Outcome::Rejected);
    wait_until("it is told of", || {
        broker.view().queue("/", "q").unwrap().local_stat().n_departing == 1
    });
    assert!(publisher.heard().is_empty());
    declare(&mut other, "dead", &[("x-confirm-on", Value::from("ack"))]);
    // The first try may still be under way: its failure counts from when it is noticed.
    let (mut unix_ms, mut heard) = (0, Vec::new());
    wait_until("the letter is sent again", || {
        unix_ms += 200_000;
        at(&broker, unix_ms);
        heard.extend(publisher.heard());
        !heard.is_empty()
    });
    assert_eq!(heard, ["ack 1..=1"]);
    other.ask(Op::DeleteQueue { queue: short("dead"), if_unused: Flag::No, if_empty: Flag::No });
    other.get("q");
    other.settle_newest(Outcome::Rejected);
    other.ask(Op::PurgeQueue { queue: short("q") });
    assert_eq!(publisher.wait_for(Vec::new(), 1), ["nack 2..=2"]);
}

/// Unlike in a classic queue they are kept, but nobody waits for them any more.
#[test]
fn messages_survive_a_crash_and_their_confirms_do_not() {
    let (disk, broker) = node();
    let (mut publisher, mut other) = clients(&broker, &[]);
    publisher.publish("q", &["a"], Kind::Transient);
    declare(&mut other, "plain", &[]);
    other.ask(Op::EnableConfirms);
    super::confirmed(&mut other, "plain", &["sync"], Kind::Persistent);
    let (_disk, broker) = after_crash(&disk);
    let (mut publisher, mut other) = (Client::connect(&broker), Client::connect(&broker));
    publisher.ask(Op::EnableConfirms);
    publisher.publish("q", &["b"], Kind::Transient);
    assert_eq!(n_pending(&broker), 1);
    assert_eq!(other.consume("q", false), ["consuming", "deliver a again", "deliver b"]);
    other.settle(1, Outcome::Accepted);
    assert!(publisher.heard().is_empty());
    other.settle(1, Outcome::Accepted);
    assert_eq!(publisher.heard(), ["ack 1..=1"]);
}

#[test]
fn a_policy_changes_what_is_waited_for() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[]);
    client.ask(Op::EnableConfirms);
    for on in ["ack", "ack-direct"] {
        set_policy(&broker, PolicyScope::User, "^q$", &format!(r#"{{"confirm-on": "{on}"}}"#));
        assert!(client.publish("q", &["a"], Kind::Persistent).is_empty());
        client.get("q");
        assert_eq!(client.settle_newest(Outcome::Accepted).len(), 1);
    }
    client.publish("q", &["b"], Kind::Persistent);
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"confirm-on": "enqueue"}"#);
    let heard = client.publish("q", &["c"], Kind::Persistent);
    assert_eq!(client.wait_for(heard, 1), ["ack 4..=4"]);
    client.get("q");
    assert_eq!(client.settle_newest(Outcome::Accepted), ["ack 3..=3"]);
}

#[test]
fn queues_without_a_record_of_deliveries_are_refused() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let refused =
        declare(&mut client, "q", &[("x-confirm-on", Value::from("ack-direct"))]).concat();
    let text = "PreconditionFailed: invalid arg 'x-confirm-on' for queue 'q' in vhost '/': \
                \"quorum queues confirm on enqueue or ack, not on 'ack-direct'\"";
    assert!(refused.contains(text), "{refused}");
}
