//! Dead letters that stay in their quorum queue until all queues they go to have them.

use super::{after_crash, confirmed, declare, node};
use crate::client::{Client, Kind, at, set_policy, wait_until};
use broker::Broker;
use meta::PolicyScope;
use session::{Outcome, Value};
use std::sync::Arc;

const RETRY_MS: u64 = 180_000;

fn declare_source(client: &mut Client, exchange: &str, more: &[(&'static str, Value)]) {
    let mut arguments = vec![
        ("x-dead-letter-exchange", Value::from(exchange)),
        ("x-dead-letter-strategy", Value::from("at-least-once")),
        ("x-overflow", Value::from("reject-publish")),
    ];
    arguments.extend_from_slice(more);
    assert_eq!(declare(client, "q", &arguments), ["declared 0 0"]);
}

fn n_letters(broker: &Arc<Broker>) -> u64 {
    let view = broker.view();
    let queue = view.queue("/", "q").unwrap();
    queue.local_stat().n_departing
}

fn reject(client: &mut Client, bodies: &[&str]) {
    client.publish("q", bodies, Kind::Persistent);
    for _ in bodies {
        assert!(client.get("q")[0].starts_with("got "));
        client.settle_newest(Outcome::Rejected);
    }
}

fn all_in(client: &mut Client, queue: &str) -> Vec<String> {
    let mut all = Vec::new();
    while client.ask_ready(queue) > 0 {
        all.push(client.get(queue).concat().split(' ').nth(1).unwrap().to_owned());
        client.settle_newest(Outcome::Accepted);
    }
    all
}

/// Here and in what follows each waits for what the thread of rules does.
#[test]
fn letters_wait_for_their_exchange_and_survive_a_crash() {
    let (disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare_source(&mut client, "x", &[]);
    reject(&mut client, &["a", "b"]);
    declare(&mut client, "other", &[]);
    client.ask(session::Op::EnableConfirms);
    confirmed(&mut client, "other", &["sync"], Kind::Persistent);
    let (disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    wait_until("they wait", || n_letters(&broker) == 2);
    assert_eq!(client.ask_ready("q"), 0);
    client.declare_exchange("x", "fanout", &[]);
    declare(&mut client, "dead", &[]);
    client.bind("x", "dead", "");
    at(&broker, 2 * RETRY_MS);
    wait_until("they are sent", || client.ask_ready("dead") == 2);
    wait_until("they have left", || n_letters(&broker) == 0);
    client.ask(session::Op::EnableConfirms);
    confirmed(&mut client, "other", &["sync"], Kind::Persistent);
    let (_disk, broker) = after_crash(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(n_letters(&broker), 0);
    assert_eq!(all_in(&mut client, "dead"), ["a", "b"]);
}

#[test]
fn a_queue_that_refuses_is_asked_again_and_the_others_get_nothing_twice() {
    for kind in ["classic", "quorum"] {
        check_refusing(kind);
    }
}

fn check_refusing(kind: &str) {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    client.declare_exchange("x", "fanout", &[]);
    let refuses = ("x-overflow", Value::from("reject-publish"));
    let of_kind = ("x-queue-type", Value::from(kind));
    client.declare_with("full", true, &[of_kind, ("x-max-length", Value::I64(1)), refuses]);
    declare(&mut client, "quorum", &[]);
    client.declare_with("stream", true, &[("x-queue-type", Value::from("stream"))]);
    for queue in ["full", "quorum", "stream"] {
        client.bind("x", queue, "");
    }
    declare_source(&mut client, "x", &[]);
    reject(&mut client, &["a", "b", "c"]);
    wait_until("the others have all", || client.ask_ready("quorum") == 3);
    wait_until("the first has left", || n_letters(&broker) == 2);
    assert_eq!(all_in(&mut client, "full"), ["a"]);
    // What comes now does not overtake.
    reject(&mut client, &["d"]);
    wait_until("the others have it", || client.ask_ready("quorum") == 4);
    assert_eq!((client.ask_ready("full"), n_letters(&broker)), (0, 3));
    for (round, body, n_left) in [(2, "b", 2), (4, "c", 1), (6, "d", 0)] {
        at(&broker, round * RETRY_MS);
        // The source knows of the refusals too: the next time is set from now on.
        wait_until("one more has left", || n_letters(&broker) == n_left);
        assert_eq!(all_in(&mut client, "full"), [body]);
    }
    assert_eq!(all_in(&mut client, "quorum"), ["a", "b", "c", "d"]);
}

/// A publisher is answered when the queues that have the letter have it for good.
#[test]
fn a_letter_that_has_arrived_is_durable_when_its_publisher_is_answered() {
    let (disk, broker) = node();
    let (mut client, mut publisher) = (Client::connect(&broker), Client::connect(&broker));
    client.declare_exchange("x", "fanout", &[]);
    declare(&mut client, "dead", &[]);
    client.bind("x", "dead", "");
    declare_source(&mut client, "x", &[("x-confirm-on", Value::from("ack"))]);
    publisher.ask(session::Op::EnableConfirms);
    assert!(publisher.publish("q", &["a"], Kind::Persistent).is_empty());
    assert_eq!(client.get("q"), ["got a left 0"]);
    client.settle_newest(Outcome::Rejected);
    assert_eq!(publisher.wait_for(Vec::new(), 1), ["ack 1..=1"]);
    let (_disk, broker) = after_crash(&disk);
    assert_eq!(all_in(&mut Client::connect(&broker), "dead"), ["a"]);
}

#[test]
fn letters_count_towards_the_length_and_are_bounded_in_flight() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare_source(&mut client, "x", &[("x-max-length", Value::I64(50))]);
    let bodies: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    reject(&mut client, &bodies);
    let mut publisher = Client::connect(&broker);
    publisher.ask(session::Op::EnableConfirms);
    let heard = publisher.publish("q", &["one more"], Kind::Persistent);
    assert_eq!(publisher.wait_for(heard, 1), ["nack 1..=1"]);
    client.declare_exchange("x", "fanout", &[]);
    declare(&mut client, "dead", &[]);
    client.bind("x", "dead", "");
    // Definitions that change have them tried again at once.
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit": 3}"#);
    wait_until("all have left", || n_letters(&broker) == 0);
    assert_eq!(all_in(&mut client, "dead"), bodies);
    let heard = publisher.publish("q", &["one more"], Kind::Persistent);
    assert_eq!(publisher.wait_for(heard, 1), ["ack 2..=2"]);
}

#[test]
fn purged_letters_are_gone_and_so_are_those_without_an_exchange() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", &[("x-overflow", Value::from("reject-publish"))]);
    let policy = r#"{"dead-letter-exchange": "x", "dead-letter-strategy": "at-least-once"}"#;
    set_policy(&broker, PolicyScope::User, "^q$", policy);
    reject(&mut client, &["a", "b"]);
    assert_eq!(n_letters(&broker), 2);
    assert_eq!(
        client.ask(session::Op::PurgeQueue { queue: crate::client::short("q") }),
        ["purged 2"]
    );
    assert_eq!(n_letters(&broker), 0);
    reject(&mut client, &["c"]);
    assert_eq!(n_letters(&broker), 1);
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit": 3}"#);
    wait_until("nobody wants it any more", || n_letters(&broker) == 0);
}

#[test]
fn a_queue_that_does_not_refuse_sends_letters_at_most_once() {
    let (_disk, broker) = node();
    let mut client = Client::connect(&broker);
    let to = ("x-dead-letter-exchange", Value::from("x"));
    let strategy = ("x-dead-letter-strategy", Value::from("at-least-once"));
    declare(&mut client, "q", &[to, strategy]);
    reject(&mut client, &["a"]);
    wait_until("it is dropped", || n_letters(&broker) == 0);
}
