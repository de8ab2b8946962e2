//! Clients that come through a proxy, which says who they are in a header of the PROXY protocol.

use crate::site::Site;
use amqp091::ProtocolHeader;
use front_amqp091::Settings;
use std::time::Duration;
use testing::client::{Client, Login};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn site() -> Site {
    Site::start_with(Settings::default(), |settings| settings.proxy_protocol = true)
}

/// A header of version 2.
fn binary(version_and_command: u8, family_and_transport: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[version_and_command, family_and_transport], &len, rest].concat()
}

/// Of a client at 127.0.0.1:4660 that connected to 198.51.100.1:5672, with `n_more` bytes after it.
fn ipv4(n_more: usize) -> Vec<u8> {
    let addresses = [127, 0, 0, 1, 198, 51, 100, 1, 0x12, 0x34, 0x16, 0x28];
    binary(0x21, 0x11, &[&addresses[..], &vec![4; n_more]].concat())
}

fn ipv6() -> Vec<u8> {
    let mut addresses = [0; 36];
    (addresses[15], addresses[31], addresses[33], addresses[35]) = (1, 2, 3, 4);
    binary(0x21, 0x21, &addresses)
}

fn with_header(header: &[u8]) -> Vec<u8> {
    [header, &ProtocolHeader::encode_amqp([0, 0, 9, 1])].concat()
}

/// A client that has sent a header, and asks for an open connection.
fn opening(site: &Site, header: &[u8]) -> Client {
    Client::asking(site.address, Login { before: header, ..Login::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_have_the_addresses_of_the_header() {
    let site = site();
    for (header, name, peer_host, port) in [
        (
            b"PROXY TCP4 127.1.2.3 192.0.2.1 56324 5672\r\n".to_vec(),
            "127.1.2.3:56324 -> 192.0.2.1:5672",
            "127.1.2.3",
            5672,
        ),
        (b"PROXY TCP6 ::1 ::2 3 4\r\n".to_vec(), "[::1]:3 -> [::2]:4", "::1", 4),
        (
            b"PROXY TCP6 ::ffff:127.0.0.9 ::2 3 4\r\n".to_vec(),
            "127.0.0.9:3 -> [::2]:4",
            "127.0.0.9",
            4,
        ),
        (ipv4(0), "127.0.0.1:4660 -> 198.51.100.1:5672", "127.0.0.1", 5672),
        (ipv4(9000), "127.0.0.1:4660 -> 198.51.100.1:5672", "127.0.0.1", 5672),
        (ipv6(), "[::1]:3 -> [::2]:4", "::1", 4),
    ] {
        let mut client = opening(&site, &header);
        assert_eq!(client.next().show(), "connection.open-ok");
        let connections = site.broker.connections.list();
        let identity = &connections.first().unwrap().identity;
        assert_eq!(identity.name, name);
        assert_eq!((identity.peer_host.as_str(), identity.port), (peer_host, port));
        drop(client);
        site.wait_until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_may_come_byte_by_byte() {
    let site = site();
    for header in [b"PROXY TCP4 127.1.2.3 192.0.2.1 56324 5672\r\n".to_vec(), ipv4(300)] {
        let mut client = Client::raw(site.address);
        for byte in with_header(&header) {
            client.write(&[byte]);
            tokio::task::yield_now().await;
        }
        client.ask_to_open(Login::default());
        assert_eq!(client.next().show(), "connection.open-ok");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_users_are_local_where_the_header_says_so() {
    let site = site();
    for (header, is_local) in [
        (b"PROXY TCP4 127.0.0.1 192.0.2.1 1 2\r\n".to_vec(), true),
        (b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n".to_vec(), false),
        (b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n".to_vec(), false),
        // The proxy itself, which is on this machine.
        (binary(0x20, 0x00, &[]), true),
        // Nobody knows where these are.
        (b"PROXY UNKNOWN\r\n".to_vec(), false),
        (binary(0x21, 0x00, &[]), false),
    ] {
        let login = Login { before: &header, ..Login::default() };
        let said = Client::introduced(site.address, login).next().show();
        let expected = if is_local { "connection.tune" } else { "connection.close 403" };
        assert!(said.starts_with(expected), "{header:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_header_hears_nothing() {
    let site = site();
    for nonsense in [
        Vec::new(),
        b"PROXY TCP4 127.0.0.1 nowhere 1 2\r\n".to_vec(),
        vec![b'x'; 5000],
        [b"PROXY ".as_slice(), &[b'x'; 200]].concat(),
        binary(0x31, 0x11, &[0; 12]),
        binary(0x21, 0x11, &[0; 11]),
        // Too long, and not worth waiting for.
        [SIGNATURE, &[0x20, 0x00, 0xff, 0xff]].concat(),
    ] {
        let mut client = Client::raw(site.address);
        client.write(&with_header(&nonsense));
        assert!(client.try_next().is_err());
        site.wait_until_empty().await;
    }
    // A header that ends too early.
    drop(Client::raw(site.address));
    let mut client = Client::raw(site.address);
    client.write(&ipv4(100)[..60]);
    drop(client);
    site.wait_until_empty().await;
    assert!(site.broker.connections.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_has_the_time_of_the_handshake() {
    let front = Settings { handshake_timeout_ms: 100, ..Settings::default() };
    let site = Site::start_with(front, |settings| settings.proxy_protocol = true);
    for beginning in [&b"PROXY TCP4 127.0.0.1 "[..], SIGNATURE, &ipv4(100)[..30], b""] {
        let mut client = Client::raw(site.address);
        client.write(beginning);
        assert!(client.try_next().is_err());
        site.wait_until_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_waits_for_no_header() {
    let site = site();
    let mut client = Client::raw(site.address);
    client.write(b"PROXY ");
    while site.server.n_connections() == 0 {
        tokio::task::yield_now().await;
    }
    site.server.stop(Duration::from_secs(20)).await;
    assert!(client.try_next().is_err());
    assert_eq!(site.server.n_connections(), 0);
}
