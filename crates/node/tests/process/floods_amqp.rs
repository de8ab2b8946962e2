//! Floods of requests of AMQP 0-9-1 that each cost little: nobody else waits, and memory is bounded.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stream_client::{Client as StreamClient, code};
use amqp091::method::{
    BasicConsume, BasicGet, ChannelClose, ChannelOpen, ConfirmSelect, ExchangeDeclare,
    ExchangeDelete, QueueBind, QueueDeclare,
};
use amqp091::{Method, ShortString, Table, TableRef, Value};
use std::thread::scope;
use std::time::Instant;
use streamproto::command::{Property, Subscribe, Unsubscribe};
use streamproto::list::Trailing;
use streamproto::{Command as _, Key, List, OffsetSpec, ResponseCode};
use testing::client::Client;

/// Memory that a node may take beside what it had before a flood.
const MEMORY_MAX: u64 = 192 << 20;
const CLIENTS: usize = 8;
/// The last channel, by which the clients say other things.
const CHANNELS: u16 = 2_047;

/// Requests of each channel in turn, but for the first and the last one.
fn by_channel(mut put: impl FnMut(u16, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    (2..CHANNELS).for_each(|channel| put(channel, &mut out));
    out
}

fn put<'m>(out: &mut Vec<u8>, channel: u16, method: impl Into<Method<'m>>) {
    method.into().encode_frame(channel, out);
}

/// Has several clients ask again and again, and read `n_answers` each time, beside a bystander.
fn flood(node: &Node, name: &str, rounds: usize, (requests, n_answers): (&[u8], usize)) {
    let before = node.rss();
    let bystander = Bystander::watch(node);
    let clients = [(); CLIENTS].map(|()| Client::guest(node.address()));
    scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                for _ in 0..rounds {
                    client.write(requests);
                    (0..n_answers).for_each(|_| drop(client.next()));
                    let taken = node.rss().saturating_sub(before);
                    assert!(taken < MEMORY_MAX, "{name}: {taken} bytes");
                }
            });
        }
    });
    bystander.expect_no_wait(name);
}

#[test]
fn channels_that_are_opened_and_closed_without_end_take_bounded_memory() {
    let node = Node::start(&[]);
    let mut owner = Client::guest(node.address());
    owner.declare("q");
    let (open, close) = (ChannelOpen::default(), ChannelClose::default());
    let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
    let n = usize::from(CHANNELS) - 2;
    let one_after_the_other = by_channel(|channel, out| {
        put(out, channel, open);
        put(out, channel, close);
    });
    let all_at_once = [
        by_channel(|channel, out| put(out, channel, open)),
        by_channel(|channel, out| {
            if channel.is_multiple_of(8) {
                put(out, channel, consume);
            }
        }),
        by_channel(|channel, out| put(out, channel, close)),
    ];
    let mut the_same = Vec::new();
    for _ in 0..n {
        put(&mut the_same, 2, open);
        put(&mut the_same, 2, ConfirmSelect::default());
        put(&mut the_same, 2, close);
    }
    flood(&node, "channels, one after the other", 4, (&one_after_the_other, 2 * n));
    flood(&node, "channels with consumers, all at once", 2, (&all_at_once.concat(), 2 * n + n / 8));
    flood(&node, "the same channel", 4, (&the_same, 3 * n));
    // Nobody reads the answers: then the requests are not read for ever.
    let (before, bystander) = (node.rss(), Bystander::watch(&node));
    let mut silent = Client::guest(node.address());
    silent.flood(&one_after_the_other, 1 << 30);
    let taken = node.rss().saturating_sub(before);
    assert!(taken < MEMORY_MAX, "answers that are not read: {taken} bytes");
    bystander.expect_no_wait("answers that are not read");
    node.stop();
}

#[test]
fn loops_of_gets_let_others_go_on() {
    let node = Node::start(&[]);
    Client::guest(node.address()).declare("q");
    let (mut gets, n) = (Vec::new(), 2_000);
    (0..n).for_each(|_| put(&mut gets, 1, BasicGet { queue: b"q", ..BasicGet::default() }));
    flood(&node, "loops of gets", 5, (&gets, n));
    node.stop();
}

#[test]
fn large_messages_to_very_many_queues_let_others_go_on() {
    const QUEUES: usize = 1_000;
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    let fanout =
        ExchangeDeclare { exchange: b"all", kind: b"fanout", ..ExchangeDeclare::default() };
    assert_eq!(client.ask(1, fanout), "exchange.declare-ok");
    for queue in 0..QUEUES {
        let (queue, nowait) = (format!("q{queue}"), true);
        let queue = queue.as_bytes();
        put(&mut client.out, 1, QueueDeclare { queue, no_wait: nowait, ..QueueDeclare::default() });
        let bind = QueueBind { queue, exchange: b"all", no_wait: nowait, ..QueueBind::default() };
        put(&mut client.out, 1, bind);
    }
    client.select_confirms();
    let (before, bystander) = (node.rss(), Bystander::watch(&node));
    for _ in 0..20 {
        client.put_content("all", "k", 1, &[b'x'; 50_000]);
    }
    client.wait_for_confirms();
    bystander.expect_no_wait("large messages to very many queues");
    let taken = node.rss().saturating_sub(before);
    assert!(taken < MEMORY_MAX, "{taken} bytes");
    node.stop();
}

#[test]
fn very_many_groups_of_single_active_consumers_let_others_go_on() {
    const GROUPS: u8 = 250;
    let node = Node::start(&[]);
    StreamClient::open(node.stream_address(), "/").create("s");
    let streams = Bystander::watch_streams(&node);
    let queues = Bystander::watch(&node);
    scope(|scope| {
        for client in 0..CLIENTS {
            let node = &node;
            scope.spawn(move || {
                let mut connection = StreamClient::open(node.stream_address(), "/");
                for subscription_id in 0..GROUPS {
                    let name = format!("group {} {subscription_id}", client / 2);
                    let properties = [("single-active-consumer", "true"), ("name", &*name)];
                    let properties = properties.map(|(key, value)| Property { key, value });
                    connection.says(&Subscribe {
                        correlation_id: 7,
                        subscription_id,
                        stream: "s",
                        offset: OffsetSpec::First,
                        credit: 1,
                        properties: Trailing(List::of(&properties)),
                    });
                }
                let mut n_subscribed = 0;
                while n_subscribed < GROUPS {
                    let heard = connection.hears();
                    n_subscribed += u8::from(heard == code(Key::Subscribe, 7, ResponseCode::OK));
                }
                // Half of them go one by one, the others with their connection.
                let mut out = Vec::new();
                for subscription_id in 0..GROUPS / 2 {
                    Unsubscribe { correlation_id: 8, subscription_id }.encode_frame(&mut out);
                }
                connection.try_send(&out).unwrap();
                let last = code(Key::Unsubscribe, 8, ResponseCode::OK);
                for _ in 0..GROUPS / 2 {
                    while connection.hears() != last {}
                }
            });
        }
    });
    queues.expect_no_wait("groups of single active consumers");
    streams.expect_no_wait("groups of single active consumers, streams");
    node.stop();
}

/// How a thing of a kind is declared.
type Declare = fn(usize, &mut Vec<u8>);

fn table<const N: usize>(entries: [(&'static str, Value); N]) -> Vec<u8> {
    let named = entries.into_iter().map(|(name, it)| (ShortString::from_static(name), it));
    named.collect::<Table>().to_bytes()
}

fn queue(n: usize, durable: bool, out: &mut Vec<u8>) {
    let name = format!("{durable}-{n}");
    let queue = name.as_bytes();
    put(out, 1, QueueDeclare { queue, durable, no_wait: true, ..QueueDeclare::default() });
}

fn exchange(kind: &str, n: usize, durable: bool, out: &mut Vec<u8>) {
    let (name, mut arguments) = (format!("{kind}-{n}"), table([]));
    if kind == "x-delayed-message" {
        arguments = table([("x-delayed-type", Value::from("fanout"))]);
    } else if kind == "x-message-deduplication" {
        arguments = table([("x-cache-size", Value::I64(10))]);
    }
    let arguments = TableRef::trusted(&arguments);
    let (exchange, kind, no_wait) = (name.as_bytes(), kind.as_bytes(), true);
    let rest = ExchangeDeclare::default();
    put(out, 1, ExchangeDeclare { exchange, kind, durable, no_wait, arguments, ..rest });
}

fn bind(kind: &str, key: &str, arguments: &[u8], out: &mut Vec<u8>) {
    let (exchange, arguments) = (format!("{kind}-0"), TableRef::trusted(arguments));
    let (queue, routing_key) = (b"q".as_slice(), key.as_bytes());
    let exchange = exchange.as_bytes();
    let rest = QueueBind::default();
    put(out, 1, QueueBind { queue, exchange, routing_key, no_wait: true, arguments, ..rest });
}

/// The cost of one thing is about the same however many there are: of each kind the last quarter takes no
/// more than three times the processor's time of the first, and half of its own time on the clock, in which
/// a busy machine does other things as well. `LEVERET_CROWD` asks for so many times as many.
#[test]
fn things_cost_no_more_the_more_there_are() {
    const THINGS: usize = 2_000;
    let times = std::env::var("LEVERET_CROWD").map_or(1, |times| times.parse().unwrap());
    let n_of_quarter = THINGS * times / 4;
    let kinds: [(&str, Declare); 16] = [
        ("durable queues", |n, out| queue(n, true, out)),
        ("transient queues", |n, out| queue(n, false, out)),
        ("durable exchanges", |n, out| exchange("direct", n, true, out)),
        ("exchanges with a history", |n, out| exchange("x-recent-history", n, false, out)),
        ("delaying exchanges", |n, out| exchange("x-delayed-message", n, false, out)),
        ("deduplicating exchanges", |n, out| exchange("x-message-deduplication", n, false, out)),
        ("bindings by key", |n, out| bind("direct", &n.to_string(), &[], out)),
        ("bindings of one key", |n, out| bind("direct", "k", &numbered("n", n, "all"), out)),
        ("fanout", |n, out| bind("fanout", &n.to_string(), &[], out)),
        ("topics", |n, out| bind("topic", &format!("a.{n}.*"), &[], out)),
        ("topics of one key", |n, out| bind("topic", "a.#", &numbered("n", n, "all"), out)),
        ("headers, all", |n, out| bind("headers", "", &numbered("a", n, "all"), out)),
        ("headers, any", |n, out| bind("headers", "", &numbered("a", n, "any"), out)),
        ("headers, one value", |n, out| bind("headers", "", &numbered("x-a", n, "all"), out)),
        ("hashes", |n, out| bind("x-consistent-hash", "1", &numbered("n", n, "all"), out)),
        ("random", |n, out| bind("x-random", &n.to_string(), &[], out)),
    ];
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    client.declare("q");
    for kind in ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random"] {
        exchange(kind, 0, kind == "direct", &mut client.out);
    }
    let bystander = Bystander::watch(&node);
    let ticks_per_s = u128::from(rustix::param::clock_ticks_per_second());
    for (kind, declare) in kinds {
        let mut wall_ticks = 0;
        let took = [0, 1, 2, 3].map(|quarter| {
            client.declare("q");
            let (before, began) = (node.cpu_ticks(), Instant::now());
            for n in 1..=n_of_quarter {
                declare(quarter * n_of_quarter + n, &mut client.out);
                if n % 500 == 0 {
                    client.flush();
                }
            }
            client.flush();
            client.declare("q");
            // Of the last one in the end.
            wall_ticks = began.elapsed().as_millis() * ticks_per_s / 1_000;
            u128::from(node.cpu_ticks() - before)
        });
        eprintln!("{kind}: {took:?}, the last of them in {wall_ticks}");
        // Some ticks are others' work.
        let ticks_max = 3 * took[0] + 20 + wall_ticks / 4;
        assert!(took[3] <= ticks_max, "{kind}: {took:?}, {ticks_max}");
    }
    for kind in ["headers", "topic", "x-consistent-hash"] {
        let exchange = format!("{kind}-0");
        let delete = ExchangeDelete { exchange: exchange.as_bytes(), ..ExchangeDelete::default() };
        assert_eq!(client.ask(1, delete), "exchange.delete-ok");
    }
    bystander.expect_no_wait("very many things");
    node.stop();
}

/// Arguments with a number; `x-match` says which of the fields count.
fn numbered(name: &'static str, n: usize, which: &'static str) -> Vec<u8> {
    let number = Value::I64(i64::try_from(n).unwrap());
    table([("x-match", Value::from(which)), (name, number), ("b", Value::from("same"))])
}
