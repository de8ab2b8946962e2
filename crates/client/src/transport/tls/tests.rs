use std::net::TcpListener;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

use super::*;

/// A session, and what the broker has of it.
fn pair() -> (Session, ServerConnection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    // So that nothing is on its way when a test begins.
    config.send_tls13_tickets = 0;
    let broker = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).unwrap();
        }
        (tls, socket)
    });
    let session =
        Session::open(socket, "localhost", &Encryption::new(Trust::Everyone, None)).unwrap();
    let (tls, socket) = broker.join().unwrap();
    session.socket.set_nonblocking(true).unwrap();
    (session, tls, socket)
}

/// Sends what the broker has written; the client has all of it when this returns.
fn deliver(session: &Session, tls: &mut ServerConnection, socket: &mut TcpStream) {
    let mut encrypted = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut encrypted).unwrap();
    }
    let mut there = vec![0; 256 * 1024];
    socket.write_all(&encrypted).unwrap();
    while session.socket.peek(&mut there).unwrap_or(0) < encrypted.len() {
        std::thread::yield_now();
    }
}

/// Reads until nothing more is promised, in pieces of a size.
fn receive_all(session: &mut Session, piece_bytes: usize) -> Vec<u8> {
    let (mut all, mut into) = (Vec::new(), vec![0; piece_bytes]);
    loop {
        match session.receive(&mut into) {
            Ok(Received { n, may_be_more }) => {
                all.extend_from_slice(&into[..n]);
                if !may_be_more {
                    return all;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn what_was_read_but_has_no_room_is_announced_by_nobody_else() {
    let (mut session, mut tls, mut socket) = pair();
    let sent = bytes(60_000);
    for piece_bytes in [1, 1000, 16 * 1024, ENCRYPTED_BYTES, 1024 * 1024] {
        tls.writer().write_all(&sent).unwrap();
        deliver(&session, &mut tls, &mut socket);
        assert!(receive_all(&mut session, piece_bytes) == sent, "pieces of {piece_bytes}");
    }
}

#[test]
fn half_a_record_gives_nothing_yet_and_its_rest_all_of_it() {
    let (mut session, mut tls, mut socket) = pair();
    tls.writer().write_all(&bytes(1000)).unwrap();
    let mut encrypted = Vec::new();
    tls.write_tls(&mut encrypted).unwrap();
    let mut received = Vec::new();
    for piece in encrypted.chunks(3) {
        socket.write_all(piece).unwrap();
        while session.socket.peek(&mut [0; 3]).unwrap_or(0) < piece.len() {
            std::thread::yield_now();
        }
        received.extend(receive_all(&mut session, 100));
    }
    assert!(received == bytes(1000));
}

#[test]
fn the_end_is_seen_behind_what_came_last() {
    let (mut session, mut tls, mut socket) = pair();
    tls.writer().write_all(&bytes(10)).unwrap();
    tls.send_close_notify();
    deliver(&session, &mut tls, &mut socket);
    let mut into = [0; 100];
    assert_eq!(session.receive(&mut into).unwrap(), Received { n: 10, may_be_more: true });
    assert_eq!(session.receive(&mut into).unwrap(), Received { n: 0, may_be_more: false });
}

#[test]
fn what_the_socket_does_not_take_is_owed_and_bounded() {
    let (mut session, mut tls, mut socket) = pair();
    let sent = bytes(100_000);
    let mut n_taken = 0;
    let mut is_blocked = false;
    while !is_blocked {
        let Sent { n, is_blocked: blocked } = session.send(&sent).unwrap();
        (n_taken, is_blocked) = (n_taken + n, blocked);
    }
    assert!(session.owes_bytes());
    // Nothing more is encrypted before that is out.
    assert_eq!(session.send(&sent).unwrap(), Sent { n: 0, is_blocked: true });

    let broker = std::thread::spawn(move || {
        let mut n_received = 0;
        while n_received < n_taken {
            assert!(tls.read_tls(&mut socket).unwrap() > 0);
            let state = tls.process_new_packets().unwrap();
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut plain).unwrap();
            n_received += plain.len();
        }
        n_received
    });
    session.socket.set_nonblocking(false).unwrap();
    // Without anything of the caller's, what is owed goes out.
    assert_eq!(session.send(&[]).unwrap(), Sent { n: 0, is_blocked: false });
    assert!(!session.owes_bytes());
    assert_eq!(broker.join().unwrap(), n_taken);
}
