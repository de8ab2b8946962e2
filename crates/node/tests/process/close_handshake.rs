//! The ends of connections and channels, and the node's answers in between.

use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::wait_until;
use amqp091::frame::HEARTBEAT;
use amqp091::method::{
    BasicGet, BasicQos, ChannelClose, ConfirmSelect, ConnectionClose, ConnectionCloseOk,
    QueueDeclare, TxSelect,
};
use std::time::{Duration, Instant};
use testing::client::{Client, Login};
#[test]
fn an_exclusive_queue_is_gone_before_close_ok() {
    let node = Node::start(&[]);
    let declare = QueueDeclare { queue: b"mine", exclusive: true, ..QueueDeclare::default() };
    for _ in 0..50 {
        let mut client = Client::guest(node.address());
        assert_eq!(client.ask(1, declare), "queue.declare-ok");
        client.close();
    }
    node.stop();
}

#[test]
fn a_reused_channel_number_starts_anew() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    client.declare("q");
    client.select_confirms();
    let get = BasicGet { queue: b"q", ..BasicGet::default() };
    for _ in 0..3 {
        client.put_publish("q", false, b"x");
        client.flush();
        assert_eq!(client.next().show(), "basic.ack");
        client.say(1, get);
        assert_eq!(client.message().unwrap().tag, 1);
        assert_eq!(client.ask(1, ChannelClose::default()), "channel.close-ok");
        client.open_channel(1);
        // Confirms are off again, or this would be refused.
        assert_eq!(client.ask(1, TxSelect {}), "tx.select-ok");
        assert_eq!(client.ask(1, ChannelClose::default()), "channel.close-ok");
        client.open_channel(1);
        assert_eq!(client.ask(1, ConfirmSelect::default()), "confirm.select-ok");
        assert!(client.get("q").unwrap().redelivered);
        assert_eq!(client.ask(1, ChannelClose::default()), "channel.close-ok");
        client.open_channel(1);
        client.select_confirms();
    }
    client.close();
    node.stop();
}

#[test]
fn an_idle_connection_is_told_that_the_node_lives() {
    let node = Node::start(&[]);
    let login = Login { heartbeat_s: 1, ..Login::default() };
    let mut client = Client::login(node.address(), login);
    let started = Instant::now();
    // Two of them, and then the end, since this side says nothing.
    let heard = client.rest();
    assert!(heard.len() >= 2 * HEARTBEAT.len(), "{heard:?}");
    assert!(heard.chunks(HEARTBEAT.len()).all(|frame| frame == HEARTBEAT), "{heard:?}");
    assert!(started.elapsed().as_secs() >= 2);
    node.expect_logged(1, "missed heartbeats from client");
    node.stop();
}

/// A publisher that an alarm holds is not listened to, so its silence says nothing.
#[test]
fn a_blocked_publisher_does_not_miss_heartbeats() {
    let node = Node::start(&["vm_memory_high_watermark.absolute=1048576"]);
    node.expect_logged(1, "memory resource limit alarm set");
    let login = Login { heartbeat_s: 1, ..Login::default() };
    let mut publisher = Client::login(node.address(), login);
    publisher.open_channel(1);
    publisher.put_publish("q", false, b"x");
    publisher.flush();
    assert_eq!(publisher.next().show(), "connection.blocked low on memory");
    // Others who are as silent are given up, one after the other.
    for n_missed in 1..=2 {
        Client::login(node.address(), login).rest();
        node.expect_logged(n_missed, "missed heartbeats from client");
    }
    assert_eq!(node.n_connections(), 1);
    node.stop();
}

/// Lines about closed connections are RabbitMQ's, at RabbitMQ's levels.
#[test]
fn how_clients_go_is_logged_in_rabbitmqs_words() {
    let node = Node::start(&[]);
    Client::guest(node.address()).close();
    node.expect_logged(1, "vhost: '/', user: 'guest', duration: '");
    drop(Client::guest(node.address()));
    let abruptly = "): client unexpectedly closed TCP connection";
    node.expect_logged(1, abruptly);
    drop(Client::tuned(node.address(), Login::default()));
    node.expect_logged(2, abruptly);
    // Who only looks whether the port is open is not worth a line.
    drop(Client::raw(node.address()));
    Client::login(node.address(), Login { heartbeat_s: 1, ..Login::default() }).rest();
    let missed = "): missed heartbeats from client, timeout: 1s";
    node.expect_logged(1, missed);
    let log = node.stop();
    let lines = |text| log.lines().filter(move |line| line.contains(text));
    let closing = "closing AMQP connection (127.0.0.1:";
    assert_eq!(lines(closing).count(), 4, "{log}");
    assert_eq!(lines(closing).filter(|line| line.contains("[info]")).count(), 1, "{log}");
    assert!(lines(abruptly).all(|line| line.contains("[warning]")), "{log}");
    assert!(lines(missed).all(|line| line.contains("[error]")), "{log}");
}

#[test]
fn a_protocol_error_is_logged_once() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    let qos = BasicQos { prefetch_size: 1, ..BasicQos::default() };
    let refused = "connection.close 540 NOT_IMPLEMENTED - prefetch_size!=0 (1)";
    assert_eq!(client.ask(1, qos), refused);
    // It goes without an answer, as many clients do.
    drop(client);
    node.expect_logged(1, "closing the connection: ");
    let name_is_named = |line: &&str| line.contains(" -> ") && !line.contains("authenticated");
    let log = node.stop();
    let lines: Vec<&str> = log.lines().filter(name_is_named).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

/// RabbitMQ leaves the socket open for as long as the client's heartbeat, at most 30 s: clients that find
/// the end of the stream before they have closed it themselves report a failure.
#[test]
fn it_is_the_client_that_closes_the_socket() {
    let node = Node::start(&[]);
    let patient = Login { heartbeat_s: 2, ..Login::default() };
    let without_heartbeat = Client::guest(node.address()).say_goodbye();
    let started = Instant::now();
    let mut closed = Client::login(node.address(), patient).say_goodbye();
    let mut thrown_out = Client::login(node.address(), patient);
    assert_eq!(node.n_connections(), 1, "whoever said goodbye is no connection any more");
    node.ctl(&["close_all_connections", "maintenance"]);
    assert!(thrown_out.next().show().contains("maintenance"));
    for client in [&mut closed, &mut thrown_out] {
        assert_eq!(client.rest(), b"");
        let waited = started.elapsed();
        eprintln!("the end of the stream came after {waited:?}");
        assert!(waited >= Duration::from_secs(2), "closed after {waited:?}");
    }
    assert!(without_heartbeat.is_open());
    // Who closes is not waited for.
    let at_once = Stopwatch::of(&node).time(|| {
        let mut closes = Client::login(node.address(), Login::default()).say_goodbye();
        closes.shut_up();
        assert_eq!(closes.rest(), b"");
    });
    assert!(at_once < Duration::from_secs(20), "{at_once:?}");
    assert!(without_heartbeat.is_open());
    node.stop();
}

/// Clients that never close their sockets are no connections, and nothing waits for them.
#[test]
fn a_crowd_that_said_goodbye_and_stays_is_no_burden() {
    const N: usize = 500;
    let node = Node::start(&[]);
    let _warm = Client::guest(node.address());
    let n_before = node.n_descriptors();
    let rss_before = node.rss();
    let crowd: Vec<Client> = (0..N).map(|_| Client::guest(node.address())).collect();
    // The node keeps their sockets for half a minute from here on.
    let crowd: Vec<Client> = crowd.into_iter().map(Client::say_goodbye).collect();
    assert_eq!(node.n_connections(), 1);
    // The node may have closed a file of its own meanwhile.
    assert!(node.n_descriptors() >= N, "{} sockets", node.n_descriptors());
    let each = node.rss().saturating_sub(rss_before) / N as u64;
    eprintln!("{each} bytes each");
    let (gone, stays) = crowd.split_at(N / 2);
    assert!(gone.iter().chain(stays).all(Client::is_open));
    gone.iter().for_each(Client::shut_up);
    wait_until("half of them are gone", || node.n_descriptors() <= n_before + N / 2);
    let took = Stopwatch::of(&node).time_stop(&node);
    eprintln!("the node stopped in {took:?}");
    assert!(took < Duration::from_secs(15), "the node waited for those who stay: {took:?}");
    node.stop();
}

#[test]
fn a_forced_close_carries_its_reason() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    node.ctl(&["close_all_connections", "maintenance"]);
    let forced = "connection.close 320 CONNECTION_FORCED";
    assert_eq!(client.next().show(), format!("{forced} - maintenance"));
    client.say(0, ConnectionCloseOk {});
    assert_eq!(client.rest(), b"");

    let mut client = Client::guest(node.address());
    let mut crossing = Client::guest(node.address());
    node.tell_to_stop();
    let shutdown = "broker forced connection closure with reason 'shutdown'";
    assert_eq!(client.next().show(), format!("{forced} - {shutdown}"));
    client.say(0, ConnectionCloseOk {});
    assert_eq!(client.rest(), b"");
    // Both sides close at the same time: each answers the other.
    assert_eq!(crossing.next().show(), format!("{forced} - {shutdown}"));
    assert_eq!(crossing.ask(0, ConnectionClose::default()), "connection.close-ok");
    node.stop();
}
