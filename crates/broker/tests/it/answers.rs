//! Answers to publishes beyond ack and nack: the queue that refused a message, and its reason.

use crate::client::{Client, Kind, at, short, start};
use message::Refusal;
use session::{Flag, Op, Outcome, Value};
use std::sync::Arc;
use testing::MemoryDisk;
use testing::outbox::OwnedConfirmation;

const TYPES: [&str; 2] = ["classic", "quorum"];

fn refused(why: Refusal) -> OwnedConfirmation {
    OwnedConfirmation::Refused("q".to_owned(), why)
}

/// A client that confirms, and another.
struct Pair {
    broker: Arc<broker::Broker>,
    publisher: Client,
    consumer: Client,
}

fn pair() -> Pair {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut publisher = Client::connect(&broker);
    assert_eq!(publisher.ask(Op::EnableConfirms), ["done"]);
    let consumer = Client::connect(&broker);
    Pair { broker, publisher, consumer }
}

/// A pair with a queue whose confirms wait for consumers.
fn on_ack(kind: &str, more: &[(&'static str, Value)]) -> Pair {
    let mut pair = pair();
    let mut arguments = vec![("x-queue-type", kind.into()), ("x-confirm-on", Value::from("ack"))];
    arguments.extend_from_slice(more);
    assert_eq!(pair.publisher.declare_with("q", true, &arguments), ["declared 0 0"]);
    pair
}

impl Pair {
    /// The answers to a message that is published and comes to nothing by what `end` does.
    fn ends_by(mut self, end: impl FnOnce(&mut Self)) -> Vec<OwnedConfirmation> {
        let heard = self.publisher.publish("q", &["a"], Kind::Persistent);
        end(&mut self);
        self.publisher.wait_for(heard, 1);
        self.publisher.answers().into_iter().map(|(_, answer)| answer).collect()
    }
}

#[test]
fn messages_without_a_queue_are_unroutable_and_between_others() {
    let mut pair = pair();
    pair.publisher.declare("q", false);
    for key in ["q", "nowhere", "q"] {
        pair.publisher.publish(key, &["a"], Kind::Transient);
    }
    let told = [
        (1, OwnedConfirmation::Accepted),
        (2, OwnedConfirmation::Unroutable),
        (3, OwnedConfirmation::Accepted),
    ];
    assert_eq!(pair.publisher.answers(), told);
}

#[test]
fn full_queues_name_themselves_and_the_rest_is_accepted() {
    for kind in TYPES {
        let mut pair = pair();
        let full = [
            ("x-queue-type", Value::from(kind)),
            ("x-max-length", Value::I32(2)),
            ("x-overflow", Value::from("reject-publish")),
        ];
        pair.publisher.declare_with("q", true, &full);
        pair.publisher.publish("q", &["a", "b", "c", "d"], Kind::Transient);
        let refused_at: Vec<_> =
            pair.publisher.answers().into_iter().filter(|(_, answer)| !answer.is_ack()).collect();
        assert_eq!(refused_at, [(3, refused(Refusal::MaxLen))], "{kind}");
    }
}

#[test]
fn queues_that_wait_for_consumers_say_why_none_will_have_a_message() {
    for kind in TYPES {
        let ends = on_ack(kind, &[]).ends_by(|pair| {
            pair.consumer.consume("q", false);
            pair.consumer.settle(1, Outcome::Rejected);
        });
        assert_eq!(ends, [refused(Refusal::Rejected)], "{kind}");
        let ends = on_ack(kind, &[]).ends_by(|pair| {
            pair.consumer.ask(Op::PurgeQueue { queue: short("q") });
        });
        assert_eq!(ends, [refused(Refusal::Purged)], "{kind}");
        let ends = on_ack(kind, &[]).ends_by(|pair| {
            let (if_unused, if_empty) = (Flag::No, Flag::No);
            pair.consumer.ask(Op::DeleteQueue { queue: short("q"), if_unused, if_empty });
        });
        assert_eq!(ends, [refused(Refusal::Deleted)], "{kind}");
        let ttl = [("x-message-ttl", Value::I32(50))];
        let ends = on_ack(kind, &ttl).ends_by(|pair| at(&pair.broker, 100));
        assert_eq!(ends, [refused(Refusal::Expired)], "{kind}");
        let timeout = [("x-confirm-timeout", Value::I32(50))];
        let ends = on_ack(kind, &timeout).ends_by(|pair| at(&pair.broker, 100));
        assert_eq!(ends, [refused(Refusal::Timeout)], "{kind}");
    }
}

#[test]
fn queues_that_wait_for_consumers_say_why_they_take_no_more() {
    for kind in TYPES {
        let none = [("x-confirm-on-no-consumer", Value::from("nack"))];
        assert_eq!(on_ack(kind, &none).ends_by(|_| {}), [refused(Refusal::NoConsumer)], "{kind}");
        let mut pair = on_ack(kind, &[("x-confirm-on-max-pending", Value::I32(1))]);
        pair.publisher.publish("q", &["a", "b"], Kind::Persistent);
        assert_eq!(pair.publisher.answers(), [(2, refused(Refusal::MaxPending))], "{kind}");
    }
}

#[test]
fn a_dead_letter_without_a_queue_is_refused_by_the_queue_that_it_left() {
    let nowhere = [
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("nowhere")),
    ];
    let ends = on_ack("classic", &nowhere).ends_by(|pair| {
        pair.consumer.consume("q", false);
        pair.consumer.settle(1, Outcome::Rejected);
    });
    assert_eq!(ends, [refused(Refusal::Rejected)]);
}
