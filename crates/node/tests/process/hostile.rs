//! Peers that say the wrong thing, too much of it, or nothing.

use super::support::node::Node;
use super::support::wait_until;
use amqp091::frame::frame_header;
use amqp091::method::{
    BasicPublish, ChannelClose, ChannelCloseOk, ChannelOpen, ConnectionTuneOk, ExchangeDeclare,
    QueueDeclare,
};
use amqp091::{FrameKind, Method};
use std::time::{Duration, Instant};
use testing::client::{Client, HEADER, Login};

/// RabbitMQ's delay before it closes the socket of a peer it does not trust.
const SILENCE: Duration = Duration::from_secs(3);

/// Sends bytes on channel 1 of an open connection, and shows what the server answers.
fn told(node: &Node, bytes: &[u8]) -> String {
    let mut client = Client::guest(node.address());
    client.write(bytes);
    let answer = client.next().show();
    client.shut_up();
    assert_eq!(client.rest(), b"", "nothing follows: {answer}");
    answer
}

#[test]
fn who_takes_too_long_to_shake_hands_is_dropped() {
    let node = Node::start(&["handshake_timeout=3000"]);
    let mut bystander = Client::guest(node.address());
    let mut silent = Client::raw(node.address());
    let mut greets = Client::raw(node.address());
    greets.write(&HEADER[..7]);
    let mut starts = Client::raw(node.address());
    starts.write(HEADER);
    assert_eq!(starts.next().show(), "connection.start");
    let mut tuned = Client::tuned(node.address(), Login::default());
    for client in [&mut silent, &mut greets, &mut starts, &mut tuned] {
        assert_eq!(client.rest(), b"");
    }
    node.expect_logged(4, "): handshake timeout");
    bystander.round_trip();
    bystander.close();
    node.stop();
}

#[test]
fn other_protocol_headers_get_the_supported_version() {
    let node = Node::start(&[]);
    let (amqp_0_9_1, amqp_1_0) = (HEADER.as_slice(), b"AMQP\x03\x01\0\0".as_slice());
    for (hello, answer) in [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".as_slice(), amqp_1_0),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and the rest of a hello", amqp_1_0),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0", amqp_1_0),
        (b"AMQP\0\0\x09\x02", amqp_0_9_1),
        (b"AMQP\0\0\x0a\0", amqp_0_9_1),
        (b"AMQP\0\x01\0\0", amqp_1_0),
        (b"AMQP\x02\x01\0\0", amqp_1_0),
        (b"AMQP\x01\x01\x08\0", amqp_0_9_1),
        (b"amqp\0\0\x09\x01", amqp_1_0),
    ] {
        let mut client = Client::raw(node.address());
        client.write(hello);
        assert_eq!(client.rest(), answer, "{hello:?}");
    }
    node.expect_logged(8, "refused: unsupported protocol header");
    node.expect_logged(1, "refused: TLS on a port without TLS");
    // COMPAT: 0-9 is taken for 0-9-1.
    let mut client = Client::raw(node.address());
    client.write(b"AMQP\x01\x01\0\x09");
    assert_eq!(client.next().show(), "connection.start");
    node.stop();
}

#[test]
fn frames_that_are_too_large_are_refused_at_their_header() {
    let node = Node::start(&[]);
    let mut client = Client::raw(node.address());
    client.write(HEADER);
    assert_eq!(client.next().show(), "connection.start");
    client.write(&frame_header(FrameKind::Method, 0, 8193));
    let answer = client.next().show();
    assert!(answer.starts_with("connection.close 501 FRAME_ERROR - type 1, "), "{answer}");
    assert!(answer.ends_with(": {frame_too_large,8193,8184}"), "{answer}");
    let answer = told(&node, &frame_header(FrameKind::Body, 1, u32::MAX));
    assert!(answer.starts_with("connection.close 501 FRAME_ERROR - type 3, "), "{answer}");
    assert!(answer.ends_with(": {frame_too_large,4294967295,131064}"), "{answer}");
    // The client's own limit is smaller than the server's.
    let login = Login { frame_max: 8192, ..Login::default() };
    let mut client = Client::login(node.address(), login);
    client.write(&frame_header(FrameKind::Method, 1, 8193));
    assert!(client.next().show().ends_with(": {frame_too_large,8193,8184}"));
    node.expect_logged(3, "frame_too_large");
    node.stop();
}

#[test]
fn malformed_frames_are_frame_errors() {
    let node = Node::start(&[]);
    let mut wrong_end = frame_header(FrameKind::Method, 1, 4).to_vec();
    wrong_end.extend_from_slice(&[0, 20, 0, 10, 0xCD]);
    let mut unknown_kind = wrong_end.clone();
    unknown_kind[0] = 9;
    let long_heartbeat = [8, 0, 0, 0, 0, 0, 1, 0, 0xCE];
    for bytes in [&wrong_end[..], &unknown_kind, &long_heartbeat] {
        let answer = told(&node, bytes);
        assert!(answer.starts_with("connection.close 501 FRAME_ERROR - "), "{answer}");
    }
    let elsewhere = told(&node, &[8, 0, 1, 0, 0, 0, 0, 0xCE]);
    assert_eq!(elsewhere, "connection.close 505 UNEXPECTED_FRAME - heartbeat on channel 1");
    node.expect_logged(4, "closing the connection: ");
    node.stop();
}

fn frames(methods: &[(u16, Method<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (channel, method) in methods {
        method.encode_frame(*channel, &mut bytes);
    }
    bytes
}

#[test]
fn channels_have_to_be_open_and_are_opened_once() {
    let node = Node::start(&[]);
    let declare = QueueDeclare::default();
    let cases = [
        (frames(&[(2, declare.into())]), "504 CHANNEL_ERROR - expected 'channel.open'"),
        (
            frames(&[(1, ChannelOpen::default().into())]),
            "504 CHANNEL_ERROR - second 'channel.open' seen",
        ),
        (frames(&[(2, BasicPublish::default().into())]), "504 CHANNEL_ERROR - expected"),
        (
            frames(&[(0, declare.into())]),
            "504 CHANNEL_ERROR - unexpected method in connection state running",
        ),
    ];
    for (bytes, expected) in cases {
        let answer = told(&node, &bytes);
        assert!(answer.starts_with(&format!("connection.close {expected}")), "{answer}");
    }
    let mut client = Client::guest(node.address());
    assert_eq!(client.ask(1, ChannelClose::default()), "channel.close-ok");
    // What was on its way to a channel that is closed counts for nothing.
    client.say(1, declare);
    client.open_channel(1);
    client.round_trip();
    client.close();
    node.stop();
}

#[test]
fn a_failed_channel_ignores_later_methods() {
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    let missing = ExchangeDeclare { exchange: b"nope", passive: true, ..Default::default() };
    missing.encode_frame(1, &mut client.out);
    for _ in 0..100 {
        client.put_publish("q", true, b"too late");
    }
    client.flush();
    let answer = client.next().show();
    assert_eq!(answer, "channel.close 404 NOT_FOUND - no exchange 'nope' in vhost '/'");
    client.say(1, ChannelCloseOk {});
    client.open_channel(1);
    client.round_trip();
    client.close();
    node.stop();
}

#[test]
fn content_frames_must_be_in_order() {
    let node = Node::start(&[]);
    let publish = || frames(&[(1, BasicPublish::default().into())]);
    let mut body = frame_header(FrameKind::Body, 1, 1).to_vec();
    body.extend_from_slice(&[b'x', 0xCE]);
    let header = |body_size: u64| {
        let mut bytes = frame_header(FrameKind::Header, 1, 14).to_vec();
        bytes.extend_from_slice(&[0, 60, 0, 0]);
        bytes.extend_from_slice(&body_size.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0xCE]);
        bytes
    };
    let mut wrong_class = header(1);
    wrong_class[8] = 50;
    let unexpected = "connection.close 505 UNEXPECTED_FRAME - expected";
    let cases = [
        (body.clone(), format!("{unexpected} method frame, got non method frame instead")),
        (header(1), format!("{unexpected} method frame, got non method frame instead")),
        (
            [publish(), body.clone()].concat(),
            format!(
                "{unexpected} content header for class 60, got non content header frame instead"
            ),
        ),
        (
            [publish(), publish()].concat(),
            format!(
                "{unexpected} content header for class 60, got non content header frame instead"
            ),
        ),
        (
            [publish(), header(9), publish()].concat(),
            format!("{unexpected} content body, got non content body frame instead"),
        ),
        (
            [publish(), header(9), header(9)].concat(),
            format!("{unexpected} content body, got non content body frame instead"),
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(told(&node, &bytes), expected);
    }
    let answer = told(&node, &[publish(), wrong_class].concat());
    assert!(answer.starts_with("connection.close 50"), "{answer}");
    let answer = told(&node, &[publish(), header(u64::MAX)].concat());
    assert!(answer.starts_with("connection.close 501 "), "{answer}");
    // A soft error: the body is dropped, the connection goes on.
    let mut client = Client::guest(node.address());
    client.put_publish("q", true, &vec![b'x'; 17 << 20]);
    client.flush();
    let expected = "channel.close 406 PRECONDITION_FAILED - message size 17825792 is larger than \
                    configured max size 16777216";
    assert_eq!(client.next().show(), expected);
    client.say(1, ChannelCloseOk {});
    client.open_channel(1);
    client.round_trip();
    node.stop();
}

#[test]
fn half_a_message_and_then_silence_costs_what_was_sent() {
    const N_CLIENTS: usize = 50;
    const HALF: usize = 64 * 1024;
    let node = Node::start(&[]);
    let mut bystander = Client::guest(node.address());
    bystander.round_trip();
    let before = node.rss();
    let login = Login { heartbeat_s: 3, ..Login::default() };
    let mut clients: Vec<Client> = (0..N_CLIENTS)
        .map(|_| {
            let mut client = Client::login(node.address(), login);
            client.open_channel(1);
            client.put_publish("q", true, &vec![b'x'; 15 << 20]);
            client.out.truncate(HALF);
            client.flush();
            client
        })
        .collect();
    bystander.round_trip();
    let grown = node.rss().saturating_sub(before);
    // Threads' read buffers, and twice what was sent.
    assert!(grown < (32 << 20), "{N_CLIENTS} x {HALF} bytes take {grown}");
    for client in &mut clients {
        client.rest();
    }
    node.expect_logged(N_CLIENTS, "): missed heartbeats from client, timeout: ");
    bystander.round_trip();
    node.stop();
}

#[test]
fn tune_ok_out_of_range_is_answered_by_silence() {
    let node = Node::start(&[]);
    let tune_ok =
        |channel_max, frame_max| ConnectionTuneOk { channel_max, frame_max, heartbeat: 0 };
    let cases = [
        (tune_ok(0, 131_072), "channel_max = 0 is higher than the maximum allowed value (2047)"),
        (tune_ok(2048, 8192), "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (tune_ok(1, 0), "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (tune_ok(1, 131_073), "frame_max = 131073 is higher than the maximum allowed value"),
        (tune_ok(1, 8191), "frame_max = 8191 is lower than the minimum allowed value (8192)"),
    ];
    let started = Instant::now();
    let mut clients: Vec<Client> = cases
        .iter()
        .map(|(tune_ok, _)| {
            let mut client = Client::introduced(node.address(), Login::default());
            assert_eq!(client.next().show(), "connection.tune");
            client.say(0, *tune_ok);
            client
        })
        .collect();
    for client in &mut clients {
        assert_eq!(client.rest(), b"");
    }
    assert!(started.elapsed() >= SILENCE);
    for (_, reason) in cases {
        node.expect_logged(1, &format!("refused: negotiated {reason}"));
    }
    node.stop();
}

#[test]
fn more_channels_than_agreed_and_more_connections_than_allowed() {
    let node = Node::start(&["connection_max=3", "channel_max=10"]);
    let login = Login { channel_max: 5, ..Login::default() };
    let mut client = Client::login(node.address(), login);
    for channel in 1..=5 {
        client.open_channel(channel * 1000);
    }
    let answer = client.ask(6, ChannelOpen::default());
    let expected = "connection.close 530 NOT_ALLOWED - number of channels opened (5) has reached \
                    the negotiated channel_max (5)";
    assert_eq!(answer, expected);
    drop(client);

    let login = Login { channel_max: 10, ..Login::default() };
    let open = || Client::login(node.address(), login);
    wait_until("the connection is gone", || node.n_connections() == 0);
    let open = [open(), open(), open()];
    let refused = Client::asking(node.address(), login).next().show();
    let expected = "connection.close 530 NOT_ALLOWED - connection refused: node connection limit \
                    (3) is reached";
    assert_eq!(refused, expected);
    node.expect_logged(1, "node connection limit (3) is reached");
    drop(open);
    wait_until("there is room again", || {
        Client::asking(node.address(), login).next().show() == "connection.open-ok"
    });
    node.stop();
}
