//! The memory of connections that do nothing.

use crate::site::Site;
use amqp091::Method;
use amqp091::method::{ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use std::io::{Read, Write};
use std::net::TcpStream;
use testing::client::{DEADLINE, HEADER};

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

/// A connection of which everything is counted: its tasks, buffers, session and entries in lists. Most of it
/// is the task's future, which is as large as the largest that it awaits in place, and the task itself.
const IDLE_CONNECTION_BYTES: u64 = 6_800;

const N_CONNECTIONS: usize = 200;

/// The bytes with which a client logs in and opens the virtual host `/`.
fn login() -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    let response = b"\0guest\0guest";
    ConnectionStartOk { mechanism: b"PLAIN", response, ..ConnectionStartOk::default() }
        .encode_frame(0, &mut bytes);
    ConnectionTuneOk { channel_max: 9, frame_max: 131_072, heartbeat: 60 }
        .encode_frame(0, &mut bytes);
    ConnectionOpen { virtual_host: b"/", ..ConnectionOpen::default() }.encode_frame(0, &mut bytes);
    bytes
}

/// A client that is a socket and nothing else, so that it takes no memory of this process.
fn log_in(site: &Site, login: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(site.address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(login).unwrap();
    let (mut heard, mut n_heard) = ([0; 4096], 0);
    while !is_opened(&heard[..n_heard]) {
        let n = socket.read(&mut heard[n_heard..]).unwrap();
        assert!(n > 0, "the connection is refused");
        n_heard += n;
    }
    socket
}

fn is_opened(mut heard: &[u8]) -> bool {
    while let Ok(Some((frame, used))) = amqp091::decode_frame(heard, 131_072) {
        if matches!(Method::decode(frame.payload), Ok(Method::ConnectionOpenOk(_))) {
            return true;
        }
        heard = &heard[used..];
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_small() {
    let (site, login) = (Site::start_alone(), login());
    // As many bytes of events are kept from here on as ever are, whoever they are about.
    for _ in 0..1_200 {
        site.broker.events().login(&"x".repeat(800), "", "", None);
    }
    let mut sockets = Vec::with_capacity(2 * N_CONNECTIONS);
    let bytes_each = tokio::task::block_in_place(|| {
        sockets.extend((0..N_CONNECTIONS).map(|_| log_in(&site, &login)));
        let before = counting::live_bytes();
        sockets.extend((0..N_CONNECTIONS).map(|_| log_in(&site, &login)));
        counting::live_bytes().saturating_sub(before) / N_CONNECTIONS as u64
    });
    assert!(bytes_each > 0, "nothing is counted");
    assert!(bytes_each <= IDLE_CONNECTION_BYTES, "a connection takes {bytes_each} bytes");
}
