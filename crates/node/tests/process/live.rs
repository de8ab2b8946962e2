//! Answers that are sent anew as they change.

use super::http_api::{Api, ask};
use super::support::wait_until;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use testing::client::DEADLINE;

/// Streams that a user has at most.
const STREAMS_MAX: usize = 64;

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Begins one; the status if it is refused.
    fn begin(address: SocketAddr, login: &str, topics: &[&str]) -> Result<Self, u16> {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let topics: Vec<String> = topics
            .iter()
            .map(|topic| format!("topics={}", topic.replace('%', "%25").replace('&', "%26")))
            .collect();
        let (topics, login) = (topics.join("&"), STANDARD.encode(login));
        let head = format!("host: here\r\nauthorization: Basic {login}\r\n\r\n");
        socket.write_all(format!("GET /api/live?{topics} HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        let mut events = Self(BufReader::new(socket));
        let status = events.line().split(' ').nth(1).unwrap().parse().unwrap();
        while !events.line().is_empty() {}
        if status == 200 { Ok(events) } else { Err(status) }
    }

    /// The next line; all that ends the stream is an empty one.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads on to a line with a text.
    fn expect(&mut self, text: &str) -> String {
        let mut n_empty = 0;
        while n_empty < 10 {
            let line = self.line();
            if line.contains(text) {
                return line;
            }
            n_empty = if line.is_empty() { n_empty + 1 } else { 0 };
        }
        panic!("the stream ends without '{text}'");
    }
}

#[test]
fn what_changes_is_sent_and_rights_are_looked_at_each_time() {
    let api = Api::start();
    let at = api.0.http_address();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    api.expect(201, "PUT /users/ann", r#"{"password":"ann","tags":"monitoring"}"#);
    api.expect(201, "PUT /permissions/%2F/ann", r#"{"configure":"","write":"","read":".*"}"#);
    let topics = ["/queues/%2F/q?columns=name,messages_ready&disable_stats=false", "/whoami"];
    let mut events = Events::begin(at, "ann:ann", &topics).unwrap();
    // Both come; what is seen of a user's own is nobody else's.
    let mut own = Events::begin(at, "guest:guest", &["/whoami"]).unwrap();
    own.expect(r#""name":"guest""#);
    events.expect(r#"data: {"messages_ready":0,"name":"q"}"#);
    let message =
        r#"{"routing_key":"q","properties":{},"payload":"x","payload_encoding":"string"}"#;
    api.expect(200, "POST /exchanges/%2F/amq.default/publish", message);
    events.expect(r#""messages_ready":1"#);
    api.expect(204, "DELETE /queues/%2F/q", "");
    events.expect(r#""status":404"#);
    let mut watched = Events::begin(at, "ann:ann", &["/nodes"]).unwrap();
    watched.expect("event: shown");
    api.expect(204, "PUT /users/ann", r#"{"password":"ann","tags":"management"}"#);
    watched.expect(r#""error":"not_authorised""#);
    api.expect(204, "DELETE /users/ann", "");
    let mut rest = String::new();
    wait_until("the stream of who is no more ends", || {
        rest = events.line();
        rest == "0"
    });
}

#[test]
fn streams_are_so_many_and_of_answers_alone() {
    let api = Api::start();
    let at = api.0.http_address();
    let begin = || Events::begin(at, "guest:guest", &["/overview"]);
    let mut all: Vec<Events> = (0..STREAMS_MAX).map(|_| begin().ok().unwrap()).collect();
    assert_eq!(begin().err(), Some(429));
    assert_eq!(ask(at, "guest:guest", "GET /overview", "").status, 200);
    api.expect(201, "PUT /users/other", r#"{"password":"other","tags":"monitoring"}"#);
    Events::begin(at, "other:other", &["/overview"]).ok().unwrap().expect("event: shown");
    all.pop();
    wait_until("there is room for another one", || begin().is_ok());
    drop(all);
    for wrong in ["", "overview", "/live?topics=/overview", "/a\tb", &"/x".repeat(4_000)] {
        let topics: Vec<&str> = vec![wrong];
        wait_until("it is refused for what it is", || {
            Events::begin(at, "guest:guest", &topics).err() == Some(400)
        });
    }
    assert_eq!(Events::begin(at, "guest:guest", &["/overview"; 33]).err(), Some(400));
    let search = "/queues/%2F/q/search";
    api.expect(201, "PUT /queues/%2F/q", "{}");
    Events::begin(at, "guest:guest", &[search]).ok().unwrap().expect("413");
    assert_eq!(Events::begin(at, "guest:wrong", &["/overview"]).err(), Some(401));
}
