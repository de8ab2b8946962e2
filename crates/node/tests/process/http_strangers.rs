//! Clients of the HTTP API and of Prometheus that nobody knows, and that want everything at once.

use super::descriptors::publish_segments;
use super::http_api::ask;
use super::support::bystander::{Bystander, LAGS, pause};
use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::wait_until;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use testing::client::{Client, DEADLINE};

const LISTENERS: [&str; 6] = [
    "management.enabled=true",
    "management.tcp.ip=127.0.0.1",
    "management.tcp.port=0",
    "prometheus.enabled=true",
    "prometheus.tcp.ip=127.0.0.1",
    "prometheus.tcp.port=0",
];
/// No client of HTTP beside an attack waits for longer, but for what its own thread is late.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A client of the API with a login and one of Prometheus, which ask on new connections without end.
struct HttpBystander {
    stop: Arc<AtomicBool>,
    /// The longest wait, and what the longest pause was too long.
    watching: JoinHandle<(Duration, Duration)>,
}

impl HttpBystander {
    fn watch(node: &Node) -> Self {
        let (api, metrics) = (node.first_address(), node.http_address());
        let (stop, clock) = (Arc::new(AtomicBool::new(false)), Stopwatch::of(node));
        let stopped = Arc::clone(&stop);
        let watching = std::thread::spawn(move || {
            let (mut worst, mut lag) = (Duration::ZERO, Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                for (address, request) in [
                    (api, "GET /health/checks/node-is-quorum-critical"),
                    (api, "GET /overview"),
                    (metrics, ""),
                ] {
                    clock.longest(&mut worst, || match request {
                        "" => assert!(status(address, "/metrics") == Some(200), "a scrape"),
                        _ => assert_eq!(ask(address, "guest:guest", request, "").status, 200),
                    });
                }
                lag = lag.max(pause());
            }
            (worst, lag)
        });
        Self { stop, watching }
    }

    fn expect_no_wait(self, attack: &str) {
        self.stop.store(true, Ordering::Relaxed);
        let (worst, lag) = self.watching.join().unwrap();
        eprintln!("beside {attack} HTTP: {worst:?}, lag: {lag:?}");
        let wait_max = WAIT_MAX + LAGS * lag;
        assert!(worst < wait_max, "beside {attack} a client of HTTP waited for {worst:?}");
    }
}

/// The status of an answer that comes whole.
fn status(address: SocketAddr, path: &str) -> Option<u16> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok()?;
    let head = String::from_utf8_lossy(answer.get(..12)?).into_owned();
    head.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// A socket that takes little before it is read.
fn small(address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

#[test]
fn answers_that_are_not_read_are_not_made_and_disturb_nobody() {
    const N_SOCKETS: usize = 500;
    const N_REQUESTS: usize = 300;
    let node = Node::start(&LISTENERS);
    let (bystander, of_http) = (Bystander::watch(&node), HttpBystander::watch(&node));
    let before = node.rss();
    let asked: Vec<(SocketAddr, &str)> = vec![
        (node.first_address(), "GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
        (node.first_address(), "GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n"),
        (node.first_address(), "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n"),
        (node.first_address(), "GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n"),
        (node.first_address(), "OPTIONS /api/overview HTTP/1.1\r\nhost: a\r\n\r\n"),
        (node.first_address(), "GET /api/overview HTTP/1.1\r\nhost: a\r\n\r\n"),
        (node.http_address(), "GET /metrics/nothing HTTP/1.1\r\nhost: a\r\n\r\n"),
        (node.http_address(), "GET /metrics/memory-breakdown HTTP/1.1\r\nhost: a\r\n\r\n"),
    ];
    let sockets: Vec<TcpStream> = (0..N_SOCKETS)
        .map(|n| {
            let (address, request) = asked[n % asked.len()];
            let mut socket = small(address);
            socket.set_nonblocking(true).unwrap();
            // What does not go in one piece is not sent.
            let _n_sent = socket.write(request.repeat(N_REQUESTS).as_bytes());
            socket
        })
        .collect();
    // Those that are not read are let go in the end.
    let is_over = |mut socket: &TcpStream| {
        let mut sink = [0];
        !matches!(socket.read(&mut sink), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    };
    wait_until("all have been answered, as far as they read", || sockets.iter().all(is_over));
    bystander.expect_no_wait("requests whose answers nobody reads");
    of_http.expect_no_wait("requests whose answers nobody reads");
    let grown = node.rss().saturating_sub(before) >> 20;
    assert!(grown < 400, "{grown} MiB");
    drop(sockets);
    node.stop();
}

#[test]
fn who_asks_and_reads_nothing_holds_no_memory() {
    let node = Node::start(&LISTENERS);
    let before = node.rss();
    for request in [
        "OPTIONS /api/overview HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /api/overview HTTP/1.1\r\nhost: a\r\n\r\n",
        "HEAD /api/queues HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /x HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let mut socket = small(node.first_address());
        socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let requests = request.repeat(10_000);
        let mut n_bytes = 0;
        // Until it is no more read, or closed.
        while let Ok(n) = socket.write(requests.as_bytes()) {
            n_bytes += n;
            assert!(n_bytes < 32 << 20, "{request} is answered without end");
        }
    }
    let grown = node.rss().saturating_sub(before) >> 20;
    assert!(grown < 64, "{grown} MiB");
    node.stop();
}

#[test]
fn sockets_of_http_take_no_descriptors_from_storage_nor_from_clients() {
    const N_SOCKETS: usize = 1_020;
    for is_api in [true, false] {
        let node = Node::start_with_ulimit("-n 1024", &LISTENERS);
        let address = if is_api { node.first_address() } else { node.http_address() };
        let mut publisher = Client::guest(node.address());
        let bystander = Bystander::watch(&node);
        let idle: Vec<_> = (0..N_SOCKETS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let of_http = HttpBystander::watch(&node);
        publish_segments(&mut publisher);
        bystander.expect_no_wait("1,020 idle sockets of HTTP under a limit of 1,024 descriptors");
        of_http.expect_no_wait("1,020 idle sockets of HTTP under a limit of 1,024 descriptors");
        assert!(node.n_descriptors() < 1_024 - 128, "the reserve is free");
        drop(idle);
        publisher.close();
        node.stop();
    }
}

/// A connection on which somebody has logged in, which stays.
fn logged_in(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    whoami(&mut socket);
    socket
}

fn whoami(socket: &mut TcpStream) {
    let login = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
    write!(socket, "GET /api/whoami HTTP/1.1\r\nhost: a\r\n{login}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut byte = [0];
        assert_eq!(socket.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&answer));
        answer.extend(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_new_stranger_takes_the_place_of_the_oldest_and_never_that_of_a_user() {
    const N_STRANGERS: usize = 50;
    let limited = ["management.tcp.max_connections=20", "management.tcp.request_timeout=60000"];
    let settings: Vec<&str> = LISTENERS.into_iter().chain(limited).collect();
    let node = Node::start(&settings);
    let address = node.first_address();
    let mut user = logged_in(address);
    let mut strangers: Vec<_> =
        (0..N_STRANGERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut sink = [0];
    strangers[0].set_read_timeout(Some(DEADLINE)).unwrap();
    assert_eq!(strangers[0].read(&mut sink).unwrap_or(0), 0, "the oldest has to go");
    assert_eq!(ask(address, "guest:guest", "GET /whoami", "").status, 200);
    whoami(&mut user);
    drop(strangers);
    node.stop();
}

#[test]
fn slow_readers_keep_nobody_from_long_answers() {
    const N_QUEUES: usize = 1_000;
    const N_READERS: usize = 40;
    let node = Node::start(&LISTENERS);
    let mut client = Client::guest(node.address());
    for n in 0..N_QUEUES {
        client.declare(&format!("a queue with quite a long name to make lists long {n}"));
    }
    let (api, metrics) = (node.first_address(), node.http_address());
    let mut readers = Vec::new();
    for path in ["/metrics/per-object", "/metrics/detailed?family=queue_coarse_metrics"] {
        for _ in 0..N_READERS / 2 {
            let mut socket = small(metrics);
            write!(socket, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            readers.push(socket);
        }
    }
    let slow_user = |n: usize| {
        let mut socket = small(api);
        let login = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
        let path = ["/api/queues", "/api/definitions"][n % 2];
        write!(socket, "GET {path} HTTP/1.1\r\nhost: a\r\n{login}\r\n\r\n").unwrap();
        socket
    };
    node.ctl(&["add_user", "ann", "ann"]);
    node.ctl(&["set_user_tags", "ann", "administrator"]);
    node.ctl(&["set_permissions", "-p", "/", "ann", ".*", ".*", ".*"]);
    let of_user: Vec<_> = (0..10).map(slow_user).collect();
    let bystander = Bystander::watch(&node);
    for path in ["/queues", "/definitions", "/overview"] {
        assert_eq!(ask(api, "ann:ann", &format!("GET {path}"), "").status, 200, "{path}");
    }
    assert!(node.ctl(&["list_queues", "-q"]).lines().count() > N_QUEUES / 2);
    assert!(node.ctl(&["export_definitions", "-"]).len() > 50_000);
    assert_eq!(status(metrics, "/metrics"), Some(200));
    assert_eq!(status(metrics, "/metrics/per-object"), Some(200));
    let scrapes = [(); 4].map(|()| std::thread::spawn(move || status(metrics, "/metrics")));
    for scrape in scrapes {
        assert_eq!(scrape.join().unwrap(), Some(200));
    }
    bystander.expect_no_wait("slow readers of long answers");
    drop((readers, of_user));
    node.stop();
}

#[test]
fn a_reader_that_takes_too_little_is_let_go_whatever_it_reads() {
    let settings: Vec<&str> = LISTENERS
        .into_iter()
        .chain(["management.tcp.idle_timeout=1000", "prometheus.tcp.idle_timeout=1000"])
        .collect();
    let node = Node::start(&settings);
    let mut client = Client::guest(node.address());
    for n in 0..1_000 {
        client.declare(&format!("a queue with quite a long name to make lists long {n}"));
    }
    let login = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
    for (address, requests) in [
        (node.first_address(), "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2_000)),
        (node.first_address(), format!("GET /api/queues HTTP/1.1\r\nhost: a\r\n{login}\r\n")),
        (node.http_address(), "GET /metrics/per-object HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()),
    ] {
        let mut still = small(address);
        still.set_nonblocking(true).unwrap();
        let _n_sent = still.write(requests.as_bytes());
        let mut sink = [0];
        // Little by little it takes something, and too little.
        wait_until("it is let go", || match still.read(&mut sink) {
            Ok(n) => n == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        });
    }
    node.stop();
}

#[test]
fn a_request_says_for_which_host_it_is() {
    let node = Node::start(&LISTENERS);
    for address in [node.first_address(), node.http_address()] {
        let path = if address == node.first_address() { "/" } else { "/metrics" };
        for (version, host, answered) in [
            ("1.1", "", "400"),
            ("1.1", "host: a\r\nhost: a\r\n", "400"),
            ("1.1", "host: a\r\nHost: b\r\n", "400"),
            ("1.1", "host: a, b\r\n", "400"),
            ("1.1", "host: a\r\n", "200"),
            ("1.0", "host: a\r\nhost: a\r\n", "400"),
            ("1.0", "", "200"),
        ] {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            write!(socket, "GET {path} HTTP/{version}\r\n{host}connection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            let begins = format!("HTTP/{version} {answered}");
            assert!(answer.starts_with(&begins), "{host:?} {answer}");
        }
    }
    node.stop();
}
