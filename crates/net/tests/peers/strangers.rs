//! Peers that are none, or that break the rules.

use crate::lines;
use crate::node::{DEADLINE, LIMITS, PeerNode};
use log::NodeNumber;
use peer::{
    ConnectionKind, FrameKind, HandshakeRole, PeerCookie, PeerHandshake, PeerRefusal, put_frame,
};
use std::net::SocketAddr;
use stdx::MonotonicMs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A socket behind a handshake that was done by hand, as the member 1.
async fn connect(node: &PeerNode, kind: ConnectionKind, name: &str) -> TcpStream {
    let peer = PeerNode::new(1, name, |_, _| {});
    node.knows(&peer, peer.address);
    let mut socket = TcpStream::connect(node.address).await.unwrap();
    let (hello, cookie) = (peer.membership.hello(kind, 77), PeerCookie::new(b"crumb").unwrap());
    let now = MonotonicMs::from_raw(0);
    let mut handshake = PeerHandshake::new(HandshakeRole::Dialler, hello, cookie, now);
    socket.write_all(&handshake.opening()).await.unwrap();
    loop {
        let byte = [socket.read_u8().await.unwrap()];
        let mut out = Vec::new();
        let done = handshake.receive(&mut byte.as_slice(), |_| Ok(()), &mut out).unwrap();
        socket.write_all(&out).await.unwrap();
        if done.is_some() {
            return socket;
        }
    }
}

async fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = socket.read_to_end(&mut bytes);
    let _may_be_reset = tokio::time::timeout(DEADLINE, reading).await.expect("the end").is_ok();
    bytes
}

/// Writes what is no handshake until the node does not take more; returns how much it took.
async fn flood(address: SocketAddr, first: &[u8], n_bytes_max: usize) -> usize {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let (mut n, piece) = (0, vec![b'x'; 64 * 1024]);
    if socket.write_all(first).await.is_err() {
        return n;
    }
    while n < n_bytes_max && socket.write_all(&piece).await.is_ok() {
        n += piece.len();
    }
    n
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_closed_however_much_it_sends() {
    let mut node = PeerNode::new(2, "rabbit@flooded", |_, _| {});
    node.start();
    let gigabyte = 1 << 30;
    // The second one announces a hello of 16 MiB.
    for first in [&b"GET / HTTP/1.1"[..], b"LVPR\xff\xff\xff\x08"] {
        let n = flood(node.address, first, gigabyte).await;
        assert!(n < 64 << 20, "the system's buffers take some of it: {n} bytes");
    }
    let mut member = connect(&node, ConnectionKind::Work, "rabbit@orderly").await;
    node.ask(1, 5, 10);
    assert_eq!(member.read_u8().await.unwrap(), 18);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_sends_nothing_or_a_part_is_closed() {
    let mut node = PeerNode::new(2, "rabbit@patient", |_, _| {});
    node.start();
    for part in [&b""[..], b"LVPR", b"LVPR\x40\0\0\x08abc"] {
        let mut socket = TcpStream::connect(node.address).await.unwrap();
        socket.write_all(part).await.unwrap();
        assert_eq!(read_to_end(&mut socket).await, b"");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_strangers_do_not_keep_a_member_out() {
    let mut node = PeerNode::new(2, "rabbit@crowded", |_, _| {});
    node.start();
    let mut strangers = Vec::new();
    for _ in 0..400 {
        strangers.push(TcpStream::connect(node.address).await.unwrap());
    }
    connect(&node, ConnectionKind::Raft, "rabbit@crowd-member").await;
    node.host.wait("the member", |host| host.n_made(1, ConnectionKind::Raft) == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_does_not_read_ends_at_the_limit_of_its_link() {
    lines::keep();
    let mut node = PeerNode::new(2, "rabbit@unread2", |_, _| {});
    node.start();
    let mut member = connect(&node, ConnectionKind::Work, "rabbit@unread1").await;
    node.host.wait("the member", |host| host.n_made(1, ConnectionKind::Work) == 1).await;
    let link = node.membership.link(NodeNumber(1), ConnectionKind::Work).unwrap();
    let mut n_bytes = 0;
    while link.connection().is_some() {
        node.ask(1, 1, 256 * 1024);
        n_bytes += 256 * 1024;
        tokio::task::yield_now().await;
    }
    assert!(n_bytes >= LIMITS.bytes_max);
    lines::wait_for(1, &["work with rabbit@unread1 has ended: the peer does not read"]).await;
    let n_read = read_to_end(&mut member).await.len();
    assert!(n_read < n_bytes);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_breaks_the_rules_is_told_so() {
    lines::keep();
    let mut node = PeerNode::new(2, "rabbit@rules2", |_, _| {});
    node.start();
    let wrong = |kind: u8, body: &[u8]| {
        let mut frame = Vec::new();
        put_frame(&mut frame, FrameKind(kind), body);
        frame
    };
    // A kind of another connection, and a message of a group that cannot be read.
    for (frame, text) in
        [(wrong(17, &[0; 8]), "kind 17 are unknown"), (wrong(32, &[1]), "kind 32 cannot be read")]
    {
        let mut member = connect(&node, ConnectionKind::Raft, "rabbit@rules1").await;
        member.write_all(&frame).await.unwrap();
        let told = read_to_end(&mut member).await;
        assert_eq!(told.get(3), Some(&FrameKind::REFUSED.0));
        let refusal = PeerRefusal::decode(&told[4..]);
        assert!(refusal.text.contains(text), "{refusal}");
        lines::wait_for(1, &["WARN connection raft with rabbit@rules1 has ended", text]).await;
    }
    // What a member says that does not go on itself is told here.
    let mut member = connect(&node, ConnectionKind::Raft, "rabbit@rules1").await;
    let mut farewell = Vec::new();
    PeerRefusal::new(peer::PeerRefusalReason::Protocol, "enough").encode(&mut farewell);
    member.write_all(&farewell).await.unwrap();
    lines::wait_for(1, &["raft with rabbit@rules1 has ended: the peer does not go on: enough"])
        .await;
    node.stop().await;
}
