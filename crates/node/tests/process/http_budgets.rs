//! Requests of small users that would make the node compute, or keep, without bound. Others do not notice.

use super::http_api::{Api, HTTP, ask};
use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::wait_until;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testing::client::{Client, DEADLINE};

const MIB: u64 = 1024 * 1024;
/// No request of another user takes longer, on a machine as busy as tests make it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Ends the loops of other threads, also when an assertion fails: a scope waits for all of them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends the head of a request, whose body follows in chunks or, with a length, as it is.
fn begin(at: SocketAddr, user: &str, request: &str, length: Option<usize>) -> TcpStream {
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.set_write_timeout(Some(DEADLINE)).unwrap();
    let (method, path) = request.split_once(' ').unwrap();
    let login = STANDARD.encode(format!("{user}:{user}"));
    let length = length.map_or_else(
        || "transfer-encoding: chunked".to_owned(),
        |it| format!("content-length: {it}"),
    );
    let head = format!(
        "{method} /api{path} HTTP/1.1\r\nhost: here\r\nauthorization: Basic {login}\r\n{length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket
}

/// The status of an answer; none if the connection ends without.
fn status(mut socket: TcpStream) -> Option<u16> {
    let mut head = [0; 12];
    socket.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head).unwrap().rsplit(' ').next().unwrap().parse().ok()
}

fn add_user(api: &Api, user: &str, rights: &str) {
    let body = json!({"password": user, "tags": "management"}).to_string();
    api.expect(201, &format!("PUT /users/{user}"), &body);
    let body = json!({"configure": rights, "write": rights, "read": rights}).to_string();
    api.expect(201, &format!("PUT /permissions/%2F/{user}"), &body);
}

/// Makes queues with names such as `q17`.
fn declare_queues(api: &Api, n: usize) {
    let queue =
        |n| json!({"name": format!("q{n}"), "vhost": "/", "durable": true, "arguments": {}});
    let document = json!({"queues": (0..n).map(queue).collect::<Value>()}).to_string();
    api.expect(204, "POST /definitions", &document);
}

fn n_queues(api: &Api) -> u64 {
    let page = api.expect(200, "GET /queues?page=1&page_size=1&columns=name", "");
    page["total_count"].as_u64().unwrap()
}

/// Asks as another user, again and again, until `until`; fails if that takes long.
fn ask_beside(api: &Api, until: &AtomicBool) {
    let (mut n_asked, watch) = (0, Stopwatch::of(&api.0));
    while n_asked == 0 || !until.load(Ordering::Relaxed) {
        for request in ["GET /overview", "GET /queues?page=1", "GET /health/checks/alarms"] {
            let took = watch.time(|| drop(api.expect(200, request, "")));
            assert!(took < WAIT_MAX, "{request} took {took:?}");
        }
        n_asked += 1;
    }
}

/// Imports are few for each user, must be allowed before anything is read, and must come to something.
#[test]
fn imports_that_bring_nothing_hold_nobody_up() {
    const N_IMPORTS: usize = 560;
    let api = Api(Node::start(&[&HTTP[..], &["management.tcp.idle_timeout=3000"]].concat()));
    api.expect(201, "PUT /queues/%2F/q", "{}");
    add_user(&api, "none", "^$");
    add_user(&api, "some", ".*");
    let at = api.0.http_address();
    let import = "POST /queues/%2F/q/import";
    assert_eq!(status(begin(at, "none", import, None)), Some(401), "before the body");
    let bystander = Bystander::watch(&api.0);
    let mut sockets: Vec<_> = (0..N_IMPORTS).map(|_| begin(at, "some", import, None)).collect();
    let until = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&until);
        scope.spawn(|| ask_beside(&api, &until));
        let mut statuses = Vec::new();
        wait_until("imports that bring a blank line now and then end", || {
            for socket in &mut sockets {
                // It may be over already.
                let _sent = socket.write_all(b"1\r\n\n\r\n");
            }
            let is_over = |socket: &TcpStream| {
                socket.set_nonblocking(true).unwrap();
                let is_over = socket.peek(&mut [0]).is_ok();
                socket.set_nonblocking(false).unwrap();
                is_over
            };
            let over: Vec<_> = sockets.extract_if(.., |it| is_over(it)).collect();
            statuses.extend(over.into_iter().filter_map(status));
            sockets.is_empty()
        });
        let n_of = |wanted| statuses.iter().filter(|it| **it == wanted).count();
        // Some come so late that they find a place again.
        assert!(n_of(408) >= 1 && n_of(429) > N_IMPORTS / 2, "{statuses:?}");
        assert_eq!(n_of(408) + n_of(429), statuses.len(), "{statuses:?}");
    });
    bystander.expect_no_wait("imports that bring nothing");
    let line = json!({"payload": "x"}).to_string();
    let told = ask(at, "some:some", import, &line);
    assert_eq!((told.status, &told.body["published"]), (200, &json!(1)), "{}", told.body);
    api.0.stop();
}

/// An upload over a slow line is taken as long as it goes on.
#[test]
fn a_slow_upload_that_goes_on_is_taken() {
    const PIECE: &[u8] = &[b' '; 20_000];
    const N_PIECES: usize = 6;
    let api = Api(Node::start(&[&HTTP[..], &["management.tcp.idle_timeout=4000"]].concat()));
    let document = json!({"queues": [{"name": "late", "vhost": "/"}]}).to_string();
    let n_bytes = document.len() + N_PIECES * PIECE.len();
    let at = api.0.http_address();
    let mut socket = begin(at, "guest", "POST /definitions", Some(n_bytes));
    let began = Instant::now();
    for _ in 0..N_PIECES {
        let (sent, next) = (Instant::now(), Duration::from_millis(1_000));
        wait_until("the line takes more", || sent.elapsed() >= next);
        socket.write_all(PIECE).unwrap();
    }
    socket.write_all(document.as_bytes()).unwrap();
    assert!(began.elapsed() > Duration::from_millis(4_000));
    assert_eq!(status(socket), Some(204));
    api.expect(200, "GET /queues/%2F/late", "");
    let mut slow = begin(at, "guest", "POST /definitions", Some(n_bytes));
    wait_until("a byte now and then is not enough", || {
        slow.write_all(b" ").is_err() || {
            slow.set_nonblocking(true).unwrap();
            let is_over = slow.peek(&mut [0]).is_ok();
            slow.set_nonblocking(false).unwrap();
            is_over
        }
    });
    assert_eq!(status(slow), Some(408));
    api.0.stop();
}

/// Sends a body as fast as it is taken, on connections of their own; the statuses of the answers.
fn send_all(
    at: SocketAddr,
    user: &str,
    request: &str,
    (n, body): (usize, &[u8]),
) -> Vec<Option<u16>> {
    let send = || {
        let mut socket = begin(at, user, request, Some(body.len()));
        // It may be refused before its end.
        let _sent = socket.write_all(body);
        let _ended = socket.shutdown(Shutdown::Write);
        status(socket)
    };
    std::thread::scope(|scope| {
        let sending: Vec<_> = (0..n).map(|_| scope.spawn(send)).collect();
        sending.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// A tree of very many values is never made, on whichever way it comes.
#[test]
fn bodies_of_many_values_take_little_memory() {
    const N_BYTES: usize = 19_000_000;
    let api = Api::start();
    add_user(&api, "small", "^$");
    api.expect(201, "PUT /users/admin", r#"{"password":"admin","tags":"administrator"}"#);
    let at = api.0.http_address();
    let many = |head: &str, value: &str, tail: &str| {
        let n = (N_BYTES - head.len() - tail.len()) / value.len();
        format!("{head}{}{tail}", value.repeat(n)).into_bytes()
    };
    let in_arguments = r#"{"queues":[{"name":"q","vhost":"/","arguments":{"a":["#;
    let bodies = [
        ("small", "PUT /queues/%2F/nope", many(r#"{"a":["#, "[],", "0]}")),
        ("small", "PUT /queues/%2F/nope", many("[", r#"{"":0},"#, "0]")),
        ("small", "POST /exchanges/%2F/amq.topic/publish", many("{", r#""":0,"#, r#""":0}"#)),
        ("small", "POST /queues/%2F/nope/browse", many(r#"{"a":"#, "[[],0],", "")),
        ("small", "POST /login", many("username=", "a,", "")),
        ("admin", "POST /definitions", many(r#"{"queues":["#, "[],", "0]}")),
        ("admin", "POST /definitions", many("{", r#""":0,"#, r#""":0}"#)),
        ("admin", "POST /explain/definitions", many(in_arguments, "{},", "0]}}]}")),
        ("admin", "POST /definitions/%2F", many(in_arguments, "[],", "0]}}]}")),
    ];
    let before = api.0.rss();
    let peak = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let bystander = Bystander::watch(&api.0);
    std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(api.0.rss(), Ordering::Relaxed);
                std::thread::yield_now();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        scope.spawn(|| ask_beside(&api, &is_over));
        for (user, request, body) in &bodies {
            let statuses = send_all(at, user, request, (12, body));
            let refused = [None, Some(400), Some(401), Some(413), Some(415), Some(429)];
            assert!(statuses.iter().all(|it| refused.contains(it)), "{request}: {statuses:?}");
        }
    });
    bystander.expect_no_wait("bodies of many values");
    let grown = peak.into_inner().saturating_sub(before);
    eprintln!("bodies of many values: {} MiB", grown / MIB);
    assert!(grown < 500 * MIB, "{} MiB", grown / MIB);
    api.0.stop();
}

/// Bodies that are in memory count for their user, whose heaviest goes first. Others are not refused.
#[test]
fn unfinished_bodies_of_a_user_are_limited() {
    const N: usize = 10;
    const N_BYTES: usize = 19_000_000;
    let api = Api::start();
    add_user(&api, "small", "^$");
    let at = api.0.http_address();
    let before = api.0.rss();
    let bystander = Bystander::watch(&api.0);
    let part = [b"{\"a\":\"".to_vec(), vec![b'x'; N_BYTES - 1_000]].concat();
    let sockets: Vec<TcpStream> = std::thread::scope(|scope| {
        let send = || {
            let mut socket = begin(at, "small", "PUT /queues/%2F/nope", Some(N_BYTES));
            let _sent = socket.write_all(&part);
            socket
        };
        let sending: Vec<_> = (0..N).map(|_| scope.spawn(send)).collect();
        sending.into_iter().map(|it| it.join().unwrap()).collect()
    });
    // What was let go is given back a little later.
    wait_until("a user's bodies hold no more than their share", || {
        api.0.rss().saturating_sub(before) < 120 * MIB
    });
    let payload = "y".repeat(10_000_000);
    let message = json!({
        "routing_key": "none", "payload": payload, "payload_encoding": "string", "properties": {},
    });
    let publish = "POST /exchanges/%2F/amq.default/publish";
    api.expect(200, publish, &message.to_string());
    bystander.expect_no_wait("unfinished bodies");
    drop(sockets);
    wait_until("what has gone counts no more", || {
        send_all(at, "small", "PUT /queues/%2F/nope", (1, &part[..1_000])) != [Some(429)]
    });
    api.0.stop();
}

/// A client that sends a long body sees why it is refused, also when the answer comes before the body's end.
#[test]
fn a_long_body_that_is_refused_at_once_sees_the_reason() {
    const N_BYTES: usize = 5_000_000;
    let api = Api::start();
    let at = api.0.http_address();
    let refused = [
        ("nobody", "PUT /queues/%2F/q", 401),
        ("guest", "PUT /nonesuch", 404),
        ("guest", "PUT /queues/nope/q", 404),
    ];
    for (user, request, expected) in refused {
        let mut socket = begin(at, user, request, Some(N_BYTES));
        socket.write_all(&vec![b'x'; N_BYTES]).unwrap();
        assert_eq!(status(socket), Some(expected), "{user}: {request}");
    }
    api.0.stop();
}

/// A client that goes on sending after its answer is closed in the end, however slowly it sends.
#[test]
fn a_client_that_sends_on_after_its_refusal_is_closed() {
    let api = Api::start();
    let mut socket = begin(api.0.http_address(), "nobody", "PUT /queues/%2F/q", Some(50_000_000));
    let pause = socket.try_clone().unwrap();
    pause.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut answer = Vec::new();
    wait_until("the node closes the connection", || {
        // Reads until there is nothing for now, so that the client sends a byte now and then.
        let _is_nothing_there = (&pause).take(1_000).read_to_end(&mut answer);
        socket.write_all(b"x").is_err()
    });
    assert!(answer.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&answer));
    api.0.stop();
}

/// An action on very many ends when its client goes, and at a stop of the node, and tells how far it came.
#[test]
fn bulk_actions_end_when_nobody_waits_for_them() {
    const N: usize = 4_000;
    let api = Api::start();
    declare_queues(&api, N);
    let at = api.0.http_address();
    let bystander = Bystander::watch(&api.0);
    let delete = |n: u64| {
        let body = json!({"pattern": "^q", "expected": n}).to_string();
        let request = "POST /bulk/queues/%2F/delete";
        let mut socket = begin(at, "guest", request, Some(body.len()));
        socket.write_all(body.as_bytes()).unwrap();
        wait_until("queues are deleted", || n_queues(&api) <= n);
        socket
    };
    drop(delete(N as u64));
    let ended = "a bulk action stopped after";
    wait_until("it ends", || api.0.log().contains(ended));
    // One is the bystander's.
    let n_left = n_queues(&api) - 1;
    assert!(n_left > 0);
    api.0.expect_logged(1, "the client has disconnected");
    bystander.expect_no_wait("a bulk action");
    let socket = delete(n_left);
    let began = Instant::now();
    let log = api.0.stop();
    eprintln!("a stop beside a bulk action: {:?}", began.elapsed());
    assert!(log.contains("the node is stopping"), "how far it came is told");
    drop(socket);
}

/// An import of definitions too: it says how many changes it has made.
#[test]
fn imports_of_definitions_end_when_nobody_waits_for_them() {
    const N: usize = 8_000;
    const ENDED: &str = "changes applied: the client has disconnected";
    let api = Api::start();
    let at = api.0.http_address();
    let has_ended = || api.0.log().contains(ENDED);
    // A fast node may have made all before it sees that the client goes: then there are more to make.
    let ends_early = [N, 4 * N, 16 * N].into_iter().any(|n| {
        let queue = |nth| json!({"name": format!("q{nth} of {n}"), "vhost": "/"});
        let document = json!({"queues": (0..n).map(queue).collect::<Value>()}).to_string();
        let bystander = Bystander::watch(&api.0);
        let before = n_queues(&api);
        let all = before + n as u64;
        let mut socket = begin(at, "guest", "POST /definitions", Some(document.len()));
        socket.write_all(document.as_bytes()).unwrap();
        wait_until("queues are made", || n_queues(&api) > before);
        drop(socket);
        wait_until("the import ends", || has_ended() || n_queues(&api) == all);
        bystander.expect_no_wait("an import");
        has_ended() && n_queues(&api) < all
    });
    assert!(ends_early, "an import goes on without its client");
    api.0.expect_logged(1, ENDED);
    api.0.stop();
}

/// A virtual host with very many queues goes in slices. Whatever ends that, the rest can be deleted later.
#[test]
fn a_virtual_host_of_many_queues_is_deleted_beside_others() {
    const N: usize = 10_000;
    const ENDED: &str = "remain: the client has disconnected";
    let mut api = Api::start();
    let queue = |n| json!({"name": format!("q{n}"), "durable": true});
    let exchange = |n| json!({"name": format!("x{n}"), "type": "fanout", "durable": true});
    let binding = |n| json!({"source": "x1", "destination": format!("q{n}"), "destination_type": "queue", "routing_key": ""});
    let make = |api: &Api, n: usize| {
        let document = json!({
            "queues": (0..n).map(queue).collect::<Value>(),
            "exchanges": (0..50).map(exchange).collect::<Value>(),
            "bindings": (0..n / 2).map(binding).collect::<Value>(),
        });
        api.expect(204, "POST /definitions/much", &document.to_string());
    };
    // None are, once the virtual host is gone.
    let n_left = |api: &Api| {
        let page = api.ask("GET /queues/much?page=1&page_size=1&columns=name", "");
        assert!([200, 404].contains(&page.status), "{} {}", page.head, page.body);
        if page.status == 404 { 0 } else { page.body["total_count"].as_u64().unwrap() }
    };
    let delete = |api: &Api, n: u64| {
        let socket = begin(api.0.http_address(), "guest", "DELETE /vhosts/much", Some(0));
        wait_until("queues are deleted", || n_left(api) < n);
        socket
    };
    // A fast node may have deleted all before it sees that the client goes: then there is more to delete.
    let n_made = [N, 4 * N, 16 * N].into_iter().find(|n| {
        api.expect(201, "PUT /vhosts/much", "{}");
        make(&api, *n);
        let bystander = Bystander::watch(&api.0);
        drop(delete(&api, *n as u64));
        let has_ended = || api.0.log().contains(ENDED);
        let is_gone = || api.ask("GET /vhosts/much", "").status == 404;
        wait_until("the deletion ends", || has_ended() || is_gone());
        bystander.expect_no_wait("a virtual host that is half deleted");
        has_ended()
    });
    let n_made = n_made.expect("a deletion ends with its client");
    api.0.expect_logged(1, ENDED);
    assert!(n_left(&api) > 0, "it ended before its end");
    // As much as was enough just now.
    make(&api, n_made);
    let n = n_left(&api);
    let socket = delete(&api, n);
    api.0.end_well();
    assert!(api.0.log().contains("remain: the node is stopping"), "how far it came is told");
    drop(socket);
    api.0.start_again();
    let left = n_left(&api);
    assert!(left > 0 && left < n, "{left} of {n}");
    let bystander = Bystander::watch(&api.0);
    api.expect(204, "DELETE /vhosts/much", "");
    bystander.expect_no_wait("the deletion of a virtual host");
    api.expect(404, "GET /vhosts/much", "");
    api.0.stop();
}

fn add_users(api: &Api, n: usize) {
    (0..n).for_each(|n| add_user(api, &format!("u{n}"), ".*"));
}

/// Lists that are asked for and not read take few turns, and others' requests are answered.
#[test]
fn unread_lists_keep_nobody_waiting() {
    const N: usize = 200;
    let api = Api::start();
    declare_queues(&api, 2_000);
    add_users(&api, 10);
    let at = api.0.http_address();
    let bystander = Bystander::watch(&api.0);
    let ask = |n| begin(at, &format!("u{}", n % 10), "GET /queues/detailed", Some(0));
    let sockets: Vec<_> = (0..N).map(ask).collect();
    ask_beside(&api, &AtomicBool::new(true));
    bystander.expect_no_wait("lists that nobody reads");
    let statuses: Vec<_> = sockets.into_iter().map(status).collect();
    assert!(statuses.iter().all(|it| [Some(200), Some(429)].contains(it)), "{statuses:?}");
    assert!(statuses.contains(&Some(200)), "{statuses:?}");
    api.0.stop();
}

/// Streams of many topics, by many accounts of one address: they have not all the places there are.
#[test]
fn streams_of_many_topics_keep_nobody_waiting() {
    const N: usize = 200;
    const N_TOPICS: usize = 32;
    let api = Api::start();
    declare_queues(&api, 1_000);
    add_users(&api, 10);
    let at = api.0.http_address();
    let topic = |n| format!("topics=%2Fqueues%3Fpage%3D1%26page_size%3D100%26salt%3D{n}");
    let request = format!("GET /live?{}", (0..N_TOPICS).map(topic).collect::<Vec<_>>().join("&"));
    let bystander = Bystander::watch(&api.0);
    let mut refused = 0;
    let mut sockets = Vec::new();
    for n in 0..N {
        let mut socket = begin(at, &format!("u{}", n % 10), &request, Some(0));
        let status = status(socket.try_clone().unwrap());
        assert!([Some(200), Some(429)].contains(&status), "{status:?}");
        refused += usize::from(status == Some(429));
        if status == Some(200) {
            // Its first answer has come.
            assert!(socket.read(&mut [0; 1024]).unwrap() > 0);
            sockets.push(socket);
        }
    }
    assert!(refused > 0 && sockets.len() > N / 2, "{refused} are refused");
    ask_beside(&api, &AtomicBool::new(true));
    bystander.expect_no_wait("streams of many topics");
    drop(sockets);
    wait_until("their places are free", || status(begin(at, "u1", &request, Some(0))) == Some(200));
    api.0.stop();
}

/// Who lists without end waits for itself.
#[test]
fn loops_of_lists_take_turns_with_others() {
    const N_LOOPS: usize = 16;
    let api = Api::start();
    declare_queues(&api, 1_000);
    add_user(&api, "loops", ".*");
    let at = api.0.http_address();
    let bystander = Bystander::watch(&api.0);
    let until = AtomicBool::new(false);
    let n_answers = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _ends = Ends(&until);
        for nth in 0..N_LOOPS {
            let (until, n_answers) = (&until, &n_answers);
            scope.spawn(move || {
                while !until.load(Ordering::Relaxed) {
                    let sort = ["name", "messages", "consumer_details", "message_stats.publish"];
                    let sort = sort[nth % sort.len()];
                    let list = format!("GET /queues?sort={sort}&sort_reverse=true&salt={nth}");
                    // On a slow machine one of them waits longer for the others than it may.
                    let status = ask(at, "loops:loops", &list, "").status;
                    assert!([200, 429].contains(&status), "{status}");
                    n_answers.fetch_add(u64::from(status == 200), Ordering::Relaxed);
                }
            });
        }
        for _ in 0..5 {
            ask_beside(&api, &AtomicBool::new(true));
        }
        wait_until("each loop is answered", || n_answers.load(Ordering::Relaxed) >= N_LOOPS as u64);
    });
    bystander.expect_no_wait("loops of lists");
    api.0.stop();
}

/// A look through messages ends with its client, also where it finds nothing to send.
#[test]
fn looks_that_find_nothing_end_with_their_client() {
    const N_PLACES: usize = 4;
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.declare("q");
    client.select_confirms();
    (0..30_000).for_each(|_| client.put_publish("q", false, b"x"));
    client.wait_for_confirms();
    let at = api.0.http_address();
    let request = "GET /queues/%2F/q/export?filter=body%20%3D%20%27nothing%27";
    for _ in 0..3 {
        let sockets: Vec<_> = (0..N_PLACES).map(|_| begin(at, "guest", request, Some(0))).collect();
        drop(sockets);
    }
    wait_until("there is a place", || {
        ask(at, "guest:guest", "GET /queues/%2F/q/export?limit=1", "").status == 200
    });
    api.0.stop();
}
