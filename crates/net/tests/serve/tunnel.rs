//! TLS for clients that know nothing of it: whoever connects to a tunnel comes out at a node, encrypted.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tls::{AcceptAnyCert, Context, Names, Options, generate};

/// A node's certificates.
pub(crate) fn certificates() -> Arc<Context> {
    let dir = tempfile::tempdir().unwrap();
    let names = Names { hosts: vec!["localhost".to_owned()], user: "app".to_owned() };
    for (name, text) in generate(&names).unwrap() {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let [certificate, key] = ["server_certificate.pem", "server_key.pem"];
    let identity = Some((dir.path().join(certificate), dir.path().join(key)));
    Arc::new(Context::new(Options { identity, ..Options::new("ssl_options") }).unwrap())
}

/// The near end of a tunnel to that node; it lasts as long as the process.
pub(crate) fn to(node: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = listener.local_addr().unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let anyone = Arc::new(AcceptAnyCert::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().dangerous();
    let config = builder.with_custom_certificate_verifier(anyone).with_no_client_auth();
    let config = Arc::new(config);
    thread::spawn(move || {
        for plain in listener.incoming() {
            let name = ServerName::try_from("localhost").unwrap();
            let session = ClientConnection::new(Arc::clone(&config), name).unwrap();
            carry(plain.unwrap(), TcpStream::connect(node).unwrap(), session);
        }
    });
    near
}

/// Carries bytes both ways, each piece as it comes.
fn carry(plain: TcpStream, encrypted: TcpStream, mut session: ClientConnection) {
    plain.set_nodelay(true).unwrap();
    encrypted.set_nodelay(true).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut &encrypted).unwrap();
    }
    let session = Arc::new(Mutex::new(session));
    let there = (Arc::clone(&session), plain.try_clone().unwrap(), encrypted.try_clone().unwrap());
    thread::spawn(move || carry_there(&there.0, &there.1, &there.2));
    thread::spawn(move || carry_back(&session, &encrypted, &plain));
}

fn carry_there(session: &Mutex<ClientConnection>, mut plain: &TcpStream, mut to: &TcpStream) {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let n = plain.read(&mut piece).unwrap_or(0);
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        session.writer().write_all(&piece[..n]).unwrap();
        if n == 0 {
            session.send_close_notify();
        }
        while session.wants_write() {
            if session.write_tls(&mut to).is_err() {
                return;
            }
        }
        if n == 0 {
            return drop(to.shutdown(Shutdown::Write));
        }
    }
}

fn carry_back(session: &Mutex<ClientConnection>, mut from: &TcpStream, mut plain: &TcpStream) {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let n = from.read(&mut piece).unwrap_or(0);
        if n == 0 {
            return drop(plain.shutdown(Shutdown::Both));
        }
        let (mut rest, mut decrypted) = (&piece[..n], Vec::new());
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            session.read_tls(&mut rest).unwrap();
            session.process_new_packets().unwrap();
            if let Err(error) = session.reader().read_to_end(&mut decrypted) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
        }
        drop(session);
        if plain.write_all(&decrypted).is_err() {
            return;
        }
    }
}
