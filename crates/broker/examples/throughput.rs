//! The cost of a message inside the broker, without protocol and sockets:
//! `cargo run --release -p broker --example throughput [ROUNDS]`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use broker::{Broker, Identity, Session};
use log::WalOptions;
use session::{
    Attachment, ChannelId, Confirmation, Content, Control, Delivery, Event, Flag, LinkId,
    MethodTag, Op, Outbox, Outcome, Position, Publish, QueueBinding, QueueDeclaration, Request,
    Room, Settle, ShortString, Sink, Span, Table, UnsettledSince,
};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use testing::MemoryDisk;

const BATCH: usize = 1_000;
const ROUNDS: usize = 2_000;

#[derive(Default)]
struct Counter(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    n_delivered: u64,
    unsettled: Vec<(LinkId, Position)>,
}

impl Outbox for Counter {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        fill(&mut *self.0.lock().unwrap());
        None
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        let counted = self.0.lock().unwrap();
        counted.unsettled.iter().filter(|(of, _)| links.contains(of)).copied().collect()
    }

    /// No time-out is measured.
    fn unsettled_since(&self, _: LinkId) -> Option<UnsettledSince> {
        None
    }
}

impl Sink for Counted {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        self.n_delivered += 1;
        self.unsettled.push((link, delivery.position));
        Room::Bytes(self.room_bytes())
    }

    fn room_bytes(&self) -> usize {
        1 << 20
    }

    fn event(&mut self, _: Event<'_>) {}

    fn confirm(&mut self, _: ChannelId, _: u64, _: u64, _: Confirmation<'_>) {}

    fn readable(&mut self, _: LinkId) {}
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

fn start() -> Arc<Broker> {
    let broker = Broker::open(Arc::new(MemoryDisk::new()), WalOptions::default()).unwrap();
    for command in testing::first_user() {
        block_on(broker.apply_definition(command)).unwrap();
    }
    broker
}

struct Client {
    session: Session,
    counter: Arc<Counter>,
}

impl Client {
    fn connect(broker: &Arc<Broker>) -> Self {
        let counter = Arc::new(Counter::default());
        let identity =
            Identity { user: "guest".to_owned(), vhost: "/".to_owned(), ..Identity::default() };
        let outbox: Arc<dyn Outbox> = counter.clone();
        let session = Session::open(Arc::clone(broker), identity, outbox).unwrap();
        let mut client = Self { session, counter };
        client.ask(Op::OpenChannel);
        client
    }

    fn submit(&mut self, input: &[u8], requests: &mut Vec<Request>) {
        block_on(self.session.submit(&session::ReadInput::of(input), requests)).unwrap();
    }

    fn ask(&mut self, op: Op) {
        let control = Control {
            channel: ChannelId(1),
            origin: MethodTag(0),
            nowait: false,
            refusal: session::RefusalScope::Channel,
            op,
        };
        self.submit(&[], &mut vec![Request::Control(Box::new(control))]);
    }
}

fn short(text: &str) -> ShortString {
    ShortString::new(text.as_bytes()).unwrap()
}

fn declaration(queue: &str) -> Op {
    Op::DeclareQueue(QueueDeclaration {
        queue: short(queue),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Table::default(),
    })
}

fn consume(no_ack: bool) -> Op {
    Op::Attach(Attachment {
        queue: short("q"),
        consumer_tag: short(""),
        no_ack,
        source: None,
        exclusive: false,
        arguments: Table::default(),
    })
}

fn publish(body: u32) -> Request {
    Request::Publish(Publish {
        channel: ChannelId(1),
        head: session::HeadPlace::Content,
        exchange: Span::default(),
        routing_key: Span { start: 0, len: 1 },
        properties: Span { start: 1, len: 2 },
        content: Content::Inline(Span { start: 3, len: body }),
        form: message::BodyForm::Plain,
        mandatory: false,
        persistent: false,
        immediate: false,
        inspect: false,
    })
}

fn run(name: &str, body: u32, no_ack: bool, consumers: usize) {
    let rounds = std::env::args().nth(1).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let broker = start();
    let mut publisher = Client::connect(&broker);
    publisher.ask(declaration("q"));
    let mut consumers: Vec<Client> = (0..consumers).map(|_| Client::connect(&broker)).collect();
    for consumer in &mut consumers {
        consumer.ask(consume(no_ack));
    }
    let input = [b"q\0\0".as_slice(), &vec![b'x'; body as usize]].concat();
    let mut requests = Vec::new();
    let started = Instant::now();
    for _ in 0..rounds {
        requests.extend((0..BATCH).map(|_| publish(body)));
        publisher.submit(&input, &mut requests);
        for consumer in &mut consumers {
            let unsettled = std::mem::take(&mut consumer.counter.0.lock().unwrap().unsettled);
            if !no_ack {
                requests.extend(unsettled.iter().map(|(link, position)| {
                    Request::Settle(Settle {
                        channel: ChannelId(1),
                        link: *link,
                        position: *position,
                        outcome: Outcome::Accepted,
                    })
                }));
                consumer.submit(&[], &mut requests);
            }
            let mut counted = consumer.counter.0.lock().unwrap();
            counted.unsettled = unsettled;
            counted.unsettled.clear();
        }
    }
    let nanos = started.elapsed().as_nanos() / (rounds * BATCH) as u128;
    println!("{name:40} {nanos:5} ns per message");
}

/// Messages with many keys, for one consumer, while somebody else declares a queue or deletes it before every
/// third batch: that time is not counted.
fn run_beside(name: &str, declares: bool) {
    const N_KEYS: u32 = 64;
    let rounds = std::env::args().nth(1).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let broker = start();
    let mut publisher = Client::connect(&broker);
    publisher.ask(declaration("q"));
    let mut input = b"amq.direct\0\0body".to_vec();
    let keys: Vec<Span> = (0..N_KEYS)
        .map(|n| {
            let key = format!("key {n}");
            publisher.ask(Op::BindQueue(QueueBinding {
                queue: short("q"),
                exchange: short("amq.direct"),
                routing_key: short(&key),
                arguments: Table::default(),
            }));
            let start = u32::try_from(input.len()).unwrap();
            input.extend_from_slice(key.as_bytes());
            Span { start, len: u32::try_from(key.len()).unwrap() }
        })
        .collect();
    let message = |key: &Span| {
        Request::Publish(Publish {
            channel: ChannelId(1),
            head: session::HeadPlace::Content,
            exchange: Span { start: 0, len: 10 },
            routing_key: *key,
            properties: Span { start: 10, len: 2 },
            content: Content::Inline(Span { start: 12, len: 4 }),
            form: message::BodyForm::Plain,
            mandatory: false,
            persistent: false,
            immediate: false,
            inspect: false,
        })
    };
    let mut consumer = Client::connect(&broker);
    consumer.ask(consume(true));
    let mut other = Client::connect(&broker);
    let (mut requests, mut elapsed) = (Vec::new(), Duration::ZERO);
    for round in 0..rounds {
        if declares && round % 6 == 0 {
            other.ask(declaration("other"));
        } else if declares && round % 6 == 3 {
            let (if_unused, if_empty) = (Flag::No, Flag::No);
            other.ask(Op::DeleteQueue { queue: short("other"), if_unused, if_empty });
        }
        requests.extend(keys.iter().cycle().take(BATCH).map(message));
        let started = Instant::now();
        publisher.submit(&input, &mut requests);
        elapsed += started.elapsed();
        consumer.counter.0.lock().unwrap().unsettled.clear();
    }
    let nanos = elapsed.as_nanos() / (rounds * BATCH) as u128;
    println!("{name:40} {nanos:5} ns per message");
}

fn main() {
    run("1 -> 1, 12 B, auto-ack", 12, true, 1);
    run("1 -> 1, 12 B, acks", 12, false, 1);
    run("1 -> 1, 1500 B, auto-ack", 1_500, true, 1);
    run("1 -> 1, 1500 B, acks", 1_500, false, 1);
    run("1 -> 5, 12 B, auto-ack", 12, true, 5);
    run("publish only, 12 B", 12, true, 0);
    run_beside("1 -> 1, 64 keys", false);
    run_beside("1 -> 1, 64 keys, beside declares", true);
}
