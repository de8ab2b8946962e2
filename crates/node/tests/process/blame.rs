//! Clients that have the node keep much in memory: they go, and nobody else is blocked for them.

use super::support::bystander::Bystander;
use super::support::node::Node;
use amqp091::method::{BasicGet, BasicPublish, TxSelect};
use amqp091::{FrameKind, Method, PropertiesRef, content};
use testing::client::{Client, Login};

const MIB: usize = 1024 * 1024;
/// So many times that which one connection may hold is less than the watermark: also where those that are
/// refused take their time to go.
const N_CLIENTS: usize = 3;
/// Three times what one of them tries to have kept is more.
const WATERMARK: &str = "vm_memory_high_watermark.absolute=256MiB";
/// A quarter of the watermark: what one connection may hold.
const SHARE_BYTES: usize = 64 * MIB;
/// Bytes that each of them tries to have kept.
const EACH_BYTES: usize = 3 * SHARE_BYTES / 2;
/// Just below the largest message.
const BODY_BYTES: usize = 15 * MIB;
const FRAME_MAX: u32 = 131_072;
/// In every reason for which they go.
const REASON: &str = "bytes of uncommitted, unfinished, unread or unacknowledged messages";
const REFUSED: &str = "connection.close 506 RESOURCE_ERROR - ";

/// Has the node look at its memory now, and fails when it has ever blocked anybody.
fn expect_no_alarm(node: &Node) {
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "256MiB"]);
    let log = node.log();
    assert!(!log.contains("alarm set"), "others were blocked: {log}");
    eprintln!("resident in the end: {} MiB", node.rss() / MIB as u64);
}

/// The text of the `connection.close` that ends the connection, unless a reset ends it.
fn last_words(client: &mut Client) -> Option<String> {
    while let Ok(frame) = client.try_next() {
        if frame.kind == FrameKind::Method && matches!(frame.method(), Method::ConnectionClose(_)) {
            return Some(frame.show());
        }
    }
    None
}

/// Publishes in a transaction that is never committed, until it has sent what it wants or is thrown out: why.
fn hoard(mut client: Client) -> Option<String> {
    let body = vec![b'x'; MIB];
    for _ in 0..EACH_BYTES / MIB {
        client.put_publish("hoard", false, &body);
        if client.try_flush().is_err() {
            break;
        }
    }
    last_words(&mut client)
}

#[test]
fn transactions_that_hold_too_much_go_before_others_are_blocked() {
    let node = Node::start(&[WATERMARK]);
    let bystander = Bystander::watch(&node);
    let mut modest = Client::guest(node.address());
    assert_eq!(modest.ask(1, TxSelect {}), "tx.select-ok");
    modest.declare("modest");
    modest.put_publish("modest", false, b"kept");
    modest.flush();
    let hoards: Vec<_> = (0..N_CLIENTS)
        .map(|_| {
            let mut client = Client::guest(node.address());
            assert_eq!(client.ask(1, TxSelect {}), "tx.select-ok");
            std::thread::spawn(move || hoard(client))
        })
        .collect();
    let refused: Vec<_> = hoards.into_iter().filter_map(|hoard| hoard.join().unwrap()).collect();
    eprintln!("{refused:#?}");
    // A reset may swallow the words of some; the log has all of them.
    for reason in refused {
        assert!(reason.starts_with(REFUSED) && reason.contains(REASON), "{reason}");
    }
    node.expect_logged(N_CLIENTS, REASON);
    expect_no_alarm(&node);
    // Whoever holds little goes on.
    assert_eq!(modest.ask(1, amqp091::method::TxCommit {}), "tx.commit-ok");
    assert_eq!(modest.declare("modest"), 1);
    bystander.expect_no_wait("transactions that hold too much");
    node.stop();
}

#[test]
fn an_alarm_names_who_holds_most() {
    let node = Node::start(&[]);
    let mut busy = Client::guest(node.address());
    busy.declare("q");
    busy.put_publish("q", false, &vec![b'x'; 8 * MIB]);
    busy.put_publish("q", false, &vec![b'x'; 8 * MIB]);
    busy.round_trip();
    let mut holder = Client::guest(node.address());
    assert_eq!(holder.ask(1, TxSelect {}), "tx.select-ok");
    holder.put_publish("q", false, &vec![b'x'; MIB]);
    // An answer comes once what was before it is kept, and the next one once that is told.
    holder.declare("q");
    holder.declare("q");
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "1"]);
    node.expect_logged(1, "memory resource limit alarm set");
    node.expect_logged(1, REASON);
    let log = node.stop();
    let first =
        log.lines().find(|line| line.contains("largest user at the alarm: connection")).unwrap();
    assert!(first.contains(REASON), "{first}");
}

/// One body after the other is begun, on channels of their own, and none is finished.
#[test]
fn messages_that_are_never_finished_go_before_others_are_blocked() {
    let node = Node::start(&[WATERMARK]);
    let bystander = Bystander::watch(&node);
    let mut client = Client::login(node.address(), Login::default());
    let body = vec![b'x'; BODY_BYTES];
    let last_frame_bytes = BODY_BYTES % (FRAME_MAX as usize - 8) + 8;
    let n_channels = u16::try_from(EACH_BYTES / BODY_BYTES).unwrap();
    (1..=n_channels).for_each(|channel| client.open_channel(channel));
    for channel in 1..=n_channels {
        BasicPublish::default().encode_frame(channel, &mut client.out);
        content::encode_content(channel, PropertiesRef::EMPTY, &body, FRAME_MAX, &mut client.out);
        client.out.truncate(client.out.len() - last_frame_bytes);
        if client.try_flush().is_err() {
            break;
        }
    }
    let reason = last_words(&mut client);
    eprintln!("{reason:?}");
    assert!(reason.is_none_or(|reason| reason.starts_with(REFUSED) && reason.contains(REASON)));
    node.expect_logged(1, REASON);
    expect_no_alarm(&node);
    bystander.expect_no_wait("messages that are never finished");
    node.stop();
}

/// A message is asked for that is larger than what a connection may hold, and is not read.
#[test]
fn answers_that_are_not_read_go_before_others_are_blocked() {
    // Who publishes it holds it until it is whole: a node that has just started holds nothing.
    let watermark = "vm_memory_high_watermark.absolute=1GiB";
    let mut node = Node::start(&[watermark, "max_message_size=134217728"]);
    let mut publisher = Client::guest(node.address());
    publisher.declare("large");
    publisher.select_confirms();
    publisher.put_publish("large", true, &vec![b'x'; SHARE_BYTES + 8 * MIB]);
    publisher.wait_for_confirms();
    node.stop_and_start();
    let bystander = Bystander::watch(&node);
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "256MiB"]);
    let mut client = Client::guest(node.address());
    client.say(1, BasicGet { queue: b"large", ..BasicGet::default() });
    node.expect_logged(1, REASON);
    // What it was given is there for others.
    let mut other = Client::guest(node.address());
    super::support::wait_until("the message is back", || other.declare("large") == 1);
    expect_no_alarm(&node);
    bystander.expect_no_wait("answers that are not read");
    node.stop();
}

/// Together more than all connections may hold, had it not been read.
#[test]
fn answers_that_were_read_are_not_held() {
    let node = Node::start(&[WATERMARK]);
    let mut publisher = Client::guest(node.address());
    publisher.declare("large");
    publisher.select_confirms();
    let body = vec![b'x'; BODY_BYTES];
    let mut clients: Vec<Client> = (0..=2 * SHARE_BYTES / BODY_BYTES)
        .map(|_| {
            publisher.put_publish("large", false, &body);
            publisher.wait_for_confirms();
            let mut client = Client::guest(node.address());
            assert_eq!(client.get("large").unwrap().body.len(), BODY_BYTES);
            client
        })
        .collect();
    clients.iter_mut().for_each(Client::round_trip);
    assert!(!node.log().contains(REASON));
    node.stop();
}
