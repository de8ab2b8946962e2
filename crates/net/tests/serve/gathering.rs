//! Clients that send each message, or each acknowledgement, by itself and fast: their input gathers.

use crate::site::{Site, confirmed, delivery};
use amqp091::method::{BasicAck, BasicConsume, BasicGet, BasicPublish, QueueDeclare};
use amqp091::{ShortString, Table, TableRef, Value};
use front_amqp091::Settings;
use std::time::{Duration, Instant};
use testing::client::{Client, DEADLINE};

/// Long enough for input to gather.
const FLOOD: Duration = Duration::from_millis(60);
/// A client that takes so long for each message is read many times a millisecond, and has not sent all of
/// them before it is read.
const GAP: Duration = Duration::from_micros(50);

/// A broker whose sockets hold what the system likes: small ones are readable whatever they hold.
fn site() -> Site {
    Site::start_with(Settings::default(), |settings| settings.receive_buffer_bytes = None)
}

fn declare(publisher: &mut Client) {
    let queue = QueueDeclare { queue: b"q", ..QueueDeclare::default() };
    assert_eq!(publisher.ask(1, queue), "queue.declare-ok");
}

fn pause() {
    let begin = Instant::now();
    while begin.elapsed() < GAP {
        std::hint::spin_loop();
    }
}

/// Publishes one by one for a while; the number of messages.
fn publish_one_by_one(publisher: &mut Client) -> u64 {
    let begin = Instant::now();
    let mut n = 0;
    while begin.elapsed() < FLOOD {
        pause();
        publisher.put_publish("q", false, b"a message");
        publisher.flush();
        n += 1;
    }
    n
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_published_before_a_pause_within_a_frame_arrives() {
    let site = site();
    let (mut publisher, mut consumer) = (Client::guest(site.address), Client::guest(site.address));
    declare(&mut publisher);
    consumer.consume("q", true);
    let n = publish_one_by_one(&mut publisher);
    publisher.write(&[1, 0, 1]);
    for tag in 1..=n {
        assert_eq!(delivery(&mut consumer).0, tag);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_that_stops_publishing_is_confirmed_and_answered() {
    let site = site();
    let mut publisher = Client::guest(site.address);
    declare(&mut publisher);
    publisher.select_confirms();
    publish_one_by_one(&mut publisher);
    publisher.wait_for_confirms();
    publish_one_by_one(&mut publisher);
    let passive = QueueDeclare { queue: b"q", passive: true, ..QueueDeclare::default() };
    publisher.wait_for_confirms();
    assert_eq!(publisher.ask(1, passive), "queue.declare-ok");
}

/// The publisher's confirms wait for the last of the acknowledgements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_before_a_pause_are_read() {
    let site = site();
    let (mut publisher, mut consumer) = (Client::guest(site.address), Client::guest(site.address));
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static("x-confirm-on"), Value::from("ack"));
    let queue = QueueDeclare { queue: b"q", ..QueueDeclare::default() };
    let arguments = arguments.to_bytes();
    let queue = QueueDeclare { arguments: TableRef::trusted(&arguments), ..queue };
    assert_eq!(publisher.ask(1, queue), "queue.declare-ok");
    publisher.select_confirms();
    let n = publish_one_by_one(&mut publisher);
    let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
    assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
    for tag in 1..=n {
        assert_eq!(delivery(&mut consumer).0, tag);
        pause();
        consumer.say(1, BasicAck { delivery_tag: tag, multiple: false });
    }
    while confirmed(&mut publisher) < n {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_count_though_their_consumer_vanishes_after_them() {
    let site = site();
    let (mut publisher, mut consumer) = (Client::guest(site.address), Client::guest(site.address));
    declare(&mut publisher);
    let n = publish_one_by_one(&mut publisher);
    let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
    assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
    for tag in 1..=n {
        assert_eq!(delivery(&mut consumer).0, tag);
        pause();
        consumer.say(1, BasicAck { delivery_tag: tag, multiple: false });
    }
    consumer.close();
    let gone = async {
        while site.server.n_connections() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("the consumer is left behind");
    let get = BasicGet { queue: b"q", ..BasicGet::default() };
    assert_eq!(publisher.ask(1, get), "basic.get-empty");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_for_nobody_is_returned_in_a_flood_of_others() {
    let site = site();
    let mut publisher = Client::guest(site.address);
    declare(&mut publisher);
    publish_one_by_one(&mut publisher);
    let nowhere =
        BasicPublish { routing_key: b"nowhere", mandatory: true, ..BasicPublish::default() };
    publisher.put_whole(nowhere, &amqp091::Properties::default(), b"a message");
    publisher.flush();
    assert_eq!(publisher.next().show(), "basic.return");
}
