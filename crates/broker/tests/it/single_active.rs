//! Single active consumers of streams: who is told, and given, what.

use crate::client::{Client, Kind, at, block_on, start};
use broker::{Broker, Interrupt};
use session::{
    ChunkSelection, Op, Request, StreamCredit, StreamOffset, StreamOp, StreamSubscription,
    SubscriptionId, SuperStream,
};
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use stream::GroupRole::{self, Active, Deactivating, Waiting};
use testing::MemoryDisk;

/// A client with single active consumers.
struct Consumer {
    client: Client,
}

impl Consumer {
    fn connect(broker: &Arc<Broker>) -> Self {
        Self { client: Client::connect(broker) }
    }

    fn asks(&mut self, op: StreamOp) -> Vec<String> {
        shortened(self.client.ask(Op::Stream(op)))
    }

    fn heard(&self) -> Vec<String> {
        shortened(self.client.heard())
    }

    /// Subscribes as one of a group.
    fn joins(&mut self, id: u8, stream: &str, group: &str, credit: u16) -> Vec<String> {
        self.asks(join(id, stream, (Some(group), None), credit))
    }

    fn answers(&mut self, update: u32, offset: Option<StreamOffset>) -> Vec<String> {
        self.asks(StreamOp::ConsumerUpdated { update, offset })
    }

    fn credits(&mut self, id: u8, n_chunks: i16) -> Vec<String> {
        let credit = StreamCredit { subscription: SubscriptionId(id), n_chunks };
        shortened(self.client.submit(&[], vec![Request::Credit(credit)]))
    }

    fn leaves(&mut self, id: u8) -> Vec<String> {
        self.asks(StreamOp::Unsubscribe(SubscriptionId(id)))
    }
}

fn join(
    id: u8,
    stream: &str,
    (name, super_stream): (Option<&str>, Option<&str>),
    credit: u16,
) -> StreamOp {
    StreamOp::Subscribe(StreamSubscription {
        subscription: SubscriptionId(id),
        stream: stream.to_owned(),
        offset: StreamOffset::First,
        credit,
        selection: ChunkSelection::default(),
        name: name.map(str::to_owned),
        single_active: true,
        super_stream: super_stream.map(str::to_owned),
        properties: Vec::new(),
    })
}

/// A word for each thing that was heard.
fn shortened(heard: Vec<String>) -> Vec<String> {
    let short = |line: String| {
        let word = line.strip_prefix("Event(\"").unwrap_or(&line);
        match word.split([' ', '{']).next() {
            Some("ConsumerUpdate") => {
                let active = if line.contains("active: true") { "active" } else { "inactive" };
                format!("{active} {}", update(&line))
            }
            Some("Refused" | "CreditRefused") => {
                line.rsplit("why: ").next().unwrap().replace(" }\")", "")
            }
            Some(word) => word.to_owned(),
            None => line,
        }
    };
    heard.into_iter().map(short).collect()
}

/// The number of an update.
fn update(line: &str) -> u32 {
    let digits = line.split("update: ").nth(1).unwrap();
    digits.split(',').next().unwrap().parse().unwrap()
}

/// A stream with the chunks 0 to 2, of a message each.
fn broker_with_stream() -> Arc<Broker> {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    let create = StreamOp::Create { stream: "s".to_owned(), arguments: Vec::new() };
    assert_eq!(client.ask(Op::Stream(create)), ["done"]);
    for body in ["a", "b", "c"] {
        client.publish("s", &[body], Kind::Persistent);
    }
    broker
}

fn roles(broker: &Broker, stream: &str) -> Vec<(u8, GroupRole)> {
    let consumers = broker.view().stream("/", stream).unwrap().memberships.consumers("g").unwrap();
    consumers.iter().map(|it| (it.subscription.0, it.role)).collect()
}

/// The number that the heard update has, which is the last thing that was heard.
fn told(heard: &[String], active: &str) -> u32 {
    let last = heard.last().unwrap_or_else(|| panic!("nothing"));
    let number = last.strip_prefix(active).unwrap_or_else(|| panic!("{last} is not {active}"));
    number.trim().parse().unwrap()
}

#[test]
fn the_first_is_active_and_is_given_chunks_once_it_has_answered() {
    let broker = broker_with_stream();
    let mut first = Consumer::connect(&broker);
    let mut second = Consumer::connect(&broker);
    let heard = first.joins(1, "s", "g", 1);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0], "Subscribed");
    let update = told(&heard, "active");
    assert_eq!(second.joins(7, "s", "g", 10), ["Subscribed"]);
    assert_eq!(roles(&broker, "s"), [(1, Active), (7, Waiting)]);
    // Credit is kept until it is of use.
    assert_eq!(first.credits(1, 1), ["PreconditionFailed"]);
    assert_eq!(second.credits(7, 1), ["PreconditionFailed"]);
    for wrong in [update + 256, update + 1, u32::MAX] {
        assert_eq!(first.answers(wrong, None), [""; 0]);
    }
    assert_eq!(second.answers(update, None), [""; 0]);
    assert_eq!(first.answers(update, None), ["Chunk", "Chunk"]);
    assert_eq!(first.answers(update, None), [""; 0]);
    assert_eq!(first.credits(1, 5), ["Chunk"]);
    let mut heard = first.client.publish("s", &["d"], Kind::Persistent);
    heard.extend(first.client.resume());
    assert_eq!(shortened(heard), ["Chunk"]);
    // The next begins where its client says.
    assert_eq!(first.leaves(1), ["Unsubscribed"]);
    let update = told(&second.heard(), "active");
    assert_eq!(second.answers(update, Some(StreamOffset::Offset(2))), ["Chunk", "Chunk"]);
    assert_eq!(roles(&broker, "s"), [(7, Active)]);
    assert_eq!(second.leaves(7), ["Unsubscribed"]);
    assert!(broker.view().stream("/", "s").unwrap().memberships.list().is_empty());
}

#[test]
fn a_connection_that_ends_leaves_its_place_to_the_next() {
    let broker = broker_with_stream();
    let mut consumers: Vec<_> = (0..3).map(|_| Consumer::connect(&broker)).collect();
    let heard = consumers[0].joins(1, "s", "g", 1);
    told(&heard, "active");
    for consumer in &mut consumers[1..] {
        assert_eq!(consumer.joins(1, "s", "g", 1), ["Subscribed"]);
    }
    for _ in 0..2 {
        consumers.remove(0).client.disconnect();
        let update = told(&consumers[0].heard(), "active");
        assert_eq!(consumers[0].answers(update, Some(StreamOffset::Last)), ["Chunk"]);
    }
    consumers.remove(0).client.disconnect();
    assert!(broker.view().stream("/", "s").unwrap().memberships.list().is_empty());
}

fn broker_with_super_stream() -> Arc<Broker> {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    let partitions = ["s-0", "s-1"].map(str::to_owned);
    let create = StreamOp::CreateSuperStream(SuperStream {
        name: "s".to_owned(),
        binding_keys: partitions.to_vec(),
        partitions: partitions.to_vec(),
        arguments: Vec::new(),
    });
    assert_eq!(client.ask(Op::Stream(create)), ["done"]);
    for body in ["a", "b"] {
        client.publish("s-1", &[body], Kind::Persistent);
    }
    broker
}

fn of_partition(id: u8, stream: &str) -> StreamOp {
    join(id, stream, (Some("g"), Some("s")), 10)
}

#[test]
fn the_active_consumer_of_a_partition_steps_down_before_another_begins() {
    let broker = broker_with_super_stream();
    let mut first = Consumer::connect(&broker);
    let mut second = Consumer::connect(&broker);
    told(&first.asks(of_partition(0, "s-0")), "active");
    let update = told(&first.asks(of_partition(1, "s-1")), "active");
    assert_eq!(first.answers(update, None), ["Chunk", "Chunk"]);
    assert_eq!(second.asks(of_partition(0, "s-0")), ["Subscribed"]);
    assert_eq!(roles(&broker, "s-0"), [(0, Active), (0, Waiting)]);
    assert_eq!(second.asks(of_partition(1, "s-1")), ["Subscribed"]);
    assert_eq!(roles(&broker, "s-1"), [(1, Deactivating), (1, Waiting)]);
    let update = told(&first.heard(), "inactive");
    first.client.publish("s-1", &["c"], Kind::Persistent);
    assert_eq!(shortened(first.client.resume()), [""; 0]);
    assert_eq!(first.answers(update, None), [""; 0]);
    let update = told(&second.heard(), "active");
    assert_eq!(second.answers(update, Some(StreamOffset::Offset(2))), ["Chunk"]);
    assert_eq!(roles(&broker, "s-1"), [(1, Waiting), (1, Active)]);
    let view = broker.view();
    let groups = ["s-0", "s-1"].map(|it| view.stream("/", it).unwrap().memberships.list());
    assert_eq!(groups.map(|it| (it[0].partition, it[0].n_consumers)), [(Some(0), 2), (Some(1), 2)]);
    // The others of the group consume it as a partition.
    assert_eq!(second.joins(2, "s-1", "g", 1), ["PreconditionFailed"]);
    assert_eq!(roles(&broker, "s-1").len(), 2);
}

#[test]
fn who_is_gone_while_it_steps_down_is_not_waited_for() {
    let broker = broker_with_super_stream();
    let mut first = Consumer::connect(&broker);
    let mut second = Consumer::connect(&broker);
    told(&first.asks(of_partition(1, "s-1")), "active");
    assert_eq!(second.asks(of_partition(1, "s-1")), ["Subscribed"]);
    told(&first.heard(), "inactive");
    first.client.disconnect();
    let update = told(&second.heard(), "active");
    assert_eq!(second.answers(update, None), ["Chunk", "Chunk"]);
}

#[test]
fn an_operator_does_not_wait_for_who_steps_down() {
    let broker = broker_with_super_stream();
    let stream = broker.view().stream("/", "s-1").unwrap();
    assert!(stream.memberships.activate("g").is_err());
    let mut first = Consumer::connect(&broker);
    let mut second = Consumer::connect(&broker);
    let update = told(&first.asks(of_partition(1, "s-1")), "active");
    first.answers(update, None);
    stream.memberships.activate("g").unwrap();
    assert_eq!(first.heard(), [""; 0]);
    assert_eq!(second.asks(of_partition(1, "s-1")), ["Subscribed"]);
    let update = told(&first.heard(), "inactive");
    stream.memberships.activate("g").unwrap();
    told(&second.heard(), "active");
    assert_eq!(first.answers(update, None), [""; 0]);
    assert_eq!(second.heard(), [""; 0]);
    assert_eq!(roles(&broker, "s-1"), [(1, Waiting), (1, Active)]);
}

#[test]
fn a_stream_that_is_deleted_takes_its_groups_along() {
    let broker = broker_with_stream();
    let mut first = Consumer::connect(&broker);
    let mut second = Consumer::connect(&broker);
    let update = told(&first.joins(1, "s", "g", 1), "active");
    second.joins(1, "s", "g", 1);
    let stream = broker.view().stream("/", "s").unwrap();
    assert_eq!(first.asks(StreamOp::Delete { stream: "s".to_owned() }), ["done", "StreamGone"]);
    assert_eq!(second.heard(), ["StreamGone"]);
    assert!(stream.memberships.list().is_empty());
    assert_eq!(first.answers(update, None), [""; 0]);
    assert_eq!(first.joins(1, "s", "g", 1), ["StreamDoesNotExist"]);
    first.client.disconnect();
    assert_eq!(second.heard(), [""; 0]);
}

#[test]
fn a_single_active_consumer_has_a_name() {
    let broker = broker_with_stream();
    let mut client = Consumer::connect(&broker);
    assert_eq!(client.asks(join(1, "s", (None, None), 1)), ["PreconditionFailed"]);
    assert_eq!(client.asks(join(1, "none", (None, None), 1)), ["StreamDoesNotExist"]);
    told(&client.joins(1, "s", "", 1), "active");
    told(&client.joins(2, "s", "other", 1), "active");
    assert_eq!(client.joins(2, "s", "other", 1), ["SubscriptionIdAlreadyExists"]);
    assert_eq!(client.joins(3, "s", &"x".repeat(256), 1), ["PreconditionFailed"]);
    // One that is no super stream's is no partition.
    assert_eq!(client.asks(join(3, "s", (Some("other"), Some("none")), 1)), ["Subscribed"]);
}

#[test]
fn who_does_not_answer_in_time_is_closed_unless_an_alarm_holds_it() {
    let broker = broker_with_stream();
    let mut silent = Consumer::connect(&broker);
    let mut next = Consumer::connect(&broker);
    at(&broker, 1_000);
    told(&silent.joins(1, "s", "g", 1), "active");
    next.joins(1, "s", "g", 1);
    let connection = Arc::clone(silent.client.session().connection());
    let kicked = || {
        let mut context = Context::from_waker(Waker::noop());
        pin!(connection.kicked()).as_mut().poll(&mut context).is_ready()
    };
    connection.blocked.store(true, Ordering::Relaxed);
    at(&broker, 61_000);
    connection.blocked.store(false, Ordering::Relaxed);
    assert!(!kicked());
    at(&broker, 60_999);
    assert!(!kicked());
    at(&broker, 61_000);
    let Interrupt::Close(reason) = block_on(connection.kicked()) else { panic!("no close") };
    block_on(silent.client.session().obey(Interrupt::Close(reason)));
    assert!(silent.heard().iter().any(|line| line.contains("connection")));
    told(&next.heard(), "active");
}
