//! Messages that are watched as they come: to queues of all types, streams and exchanges.

use super::http_api::{Api, ask};
use super::support::wait_until;
use amqp091::Properties;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;
use testing::client::{Client, DEADLINE};

/// Events as they come.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(api: &Api, login: &str, path: &str) -> Result<Self, u16> {
        let mut socket = TcpStream::connect(api.0.http_address()).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let login = STANDARD.encode(login);
        let text = format!(
            "GET /api{path} HTTP/1.1\r\nhost: here\r\nauthorization: Basic {login}\r\n\r\n"
        );
        socket.write_all(text.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(socket));
        let status = events.line();
        while !events.line().is_empty() {}
        match status.split(' ').nth(1).unwrap().parse().unwrap() {
            200 => Ok(events),
            status => Err(status),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end().to_owned()
    }

    /// The name of the next event, and what it says.
    fn next(&mut self) -> (String, Value) {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < DEADLINE, "no event");
            if let Some(name) = self.line().strip_prefix("event: ") {
                let data = self.line();
                return (name.to_owned(), serde_json::from_str(&data["data: ".len()..]).unwrap());
            }
        }
    }

    fn message(&mut self) -> Value {
        let (name, message) = self.next();
        assert_eq!(name, "message", "{message}");
        message
    }
}

fn declare(api: &Api, queue: &str, arguments: Value) {
    let body = json!({"durable": true, "arguments": arguments}).to_string();
    api.expect(201, &format!("PUT /queues/%2F/{queue}"), &body);
}

/// Publishes messages with rising priorities.
fn publish(client: &mut Client, exchange: &str, key: &str) {
    for n in 0..4 {
        let properties = Properties { priority: Some(n), ..Properties::default() };
        client.put_message(exchange, key, &properties, format!("{key} {n}").as_bytes());
    }
    client.wait_for_confirms();
}

#[test]
fn what_comes_to_queues_of_all_types_is_shown() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for (queue, arguments) in [
        ("classic", json!({})),
        ("one", json!({"x-queue-version": 1})),
        ("quorum", json!({"x-queue-type": "quorum"})),
        ("stream", json!({"x-queue-type": "stream"})),
    ] {
        declare(&api, queue, arguments);
        publish(&mut client, "", queue);
        let path = format!("/queues/%2F/{queue}/tail?filter=priority%3E1");
        let mut tail = Events::open(&api, "guest:guest", &path).unwrap();
        // Those that a consumer takes at once are shown too.
        let mut consumer = Client::guest(api.0.address());
        if queue != "stream" {
            consumer.consume(queue, true);
        }
        publish(&mut client, "", queue);
        for n in 2..4 {
            let message = tail.message();
            assert_eq!(message["payload"], format!("{queue} {n}"));
            assert_eq!(message["properties"]["priority"], n);
            assert_eq!(
                message["offset"],
                if queue == "stream" { json!(n + 4) } else { json!(null) }
            );
        }
        api.expect(204, &format!("DELETE /queues/%2F/{queue}"), "");
        assert_eq!(tail.next(), ("end".to_owned(), json!({"reason": "deleted"})));
    }
}

#[test]
fn what_is_published_to_an_exchange_is_shown_with_or_without_queues() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let may = json!({"configure": "", "write": ".*", "read": "^amq.topic$"}).to_string();
    api.expect(201, "PUT /permissions/%2F/u", &may);
    let topics = json!({"exchange": "amq.topic", "write": ".*", "read": r"^b\."}).to_string();
    api.expect(201, "PUT /topic-permissions/%2F/u", &topics);
    let tail = |login: &str, path: &str| Events::open(&api, login, path);
    assert_eq!(tail("u:p", "/exchanges/%2F/amq.direct/tail").err(), Some(401));
    assert_eq!(tail("u:p", "/exchanges/%2F/none/tail").err(), Some(404));
    let wrong = tail("u:p", "/exchanges/%2F/amq.topic/tail?filter=a%3D");
    assert_eq!(wrong.err(), Some(400));
    let mut all = tail("guest:guest", "/exchanges/%2F/amq.topic/tail?headers_only=true").unwrap();
    let mut some = tail("u:p", "/exchanges/%2F/amq.topic/tail?limit=5").unwrap();
    let mut default = tail("guest:guest", "/exchanges/%2F/amq.default/tail").unwrap();
    for key in ["a.a", "b.b"] {
        publish(&mut client, "amq.topic", key);
    }
    publish(&mut client, "", "nowhere");
    for n in 0..8 {
        let message = all.message();
        assert_eq!(message["routing_key"], ["a.a", "b.b"][n / 4]);
        assert_eq!((&message["payload"], &message["payload_bytes"]), (&Value::Null, &json!(5)));
    }
    for n in 0..4 {
        assert_eq!(some.message()["payload"], format!("b.b {n}"));
        assert_eq!(default.message()["payload"], format!("nowhere {n}"));
    }
    publish(&mut client, "amq.topic", "b.c");
    assert_eq!(some.message()["payload"], "b.c 0");
    assert_eq!(some.next(), ("end".to_owned(), json!({"reason": "limit"})));
}

#[test]
fn dead_letters_are_shown_where_they_go() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    declare(&api, "dead", json!({}));
    let to_dead = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    declare(&api, "q", to_dead);
    let mut tail = Events::open(&api, "guest:guest", "/queues/%2F/dead/tail").unwrap();
    let properties = Properties {
        expiration: Some(amqp091::ShortString::from_static("1")),
        ..Properties::default()
    };
    client.put_message("", "q", &properties, b"x");
    client.wait_for_confirms();
    let message = tail.message();
    assert_eq!((&message["payload"], &message["deaths"][0]["queue"]), (&json!("x"), &json!("q")));
    // So is what is sent on.
    declare(&api, "new", json!({}));
    let mut tail = Events::open(&api, "guest:guest", "/queues/%2F/new/tail").unwrap();
    api.expect(202, "POST /queues/%2F/dead/redrive", r#"{"select":"all","to":{"queue":"new"}}"#);
    assert_eq!(tail.message()["properties"]["headers"]["x-redriven"], 1);
}

#[test]
fn what_a_full_queue_refuses_is_not_shown() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    declare(&api, "one", json!({"x-max-length": 1, "x-overflow": "reject-publish"}));
    declare(&api, "all", json!({}));
    for queue in ["one", "all"] {
        api.expect(201, &format!("POST /bindings/%2F/e/amq.fanout/q/{queue}"), "{}");
    }
    let open = |queue| Events::open(&api, "guest:guest", &format!("/queues/%2F/{queue}/tail"));
    let (mut one, mut all) = (open("one").unwrap(), open("all").unwrap());
    for body in [b"a", b"b"] {
        client.put_content("amq.fanout", "", 1, body);
        client.flush();
        let answer = client.next().show();
        assert!(
            answer.starts_with(if body == b"a" { "basic.ack" } else { "basic.nack" }),
            "{answer}"
        );
    }
    for (tail, bodies) in [(&mut one, &["a"][..]), (&mut all, &["a", "b"])] {
        for body in bodies {
            assert_eq!(tail.message()["payload"], *body);
        }
    }
    for (queue, tail) in [("one", &mut one), ("all", &mut all)] {
        api.expect(204, &format!("DELETE /queues/%2F/{queue}"), "");
        assert_eq!(tail.next().0, "end");
    }
}

/// Nothing that a queue takes is lost from the count.
#[test]
fn what_is_too_much_is_counted() {
    const N: u64 = 5_000;
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    declare(&api, "q", json!({}));
    let mut tail = Events::open(&api, "guest:guest", "/queues/%2F/q/tail").unwrap();
    for _ in 0..N {
        client.put_publish("q", false, b"x");
    }
    client.wait_for_confirms();
    let (mut n_shown, mut n_left_out) = (0, 0);
    while n_shown + n_left_out < N {
        match tail.next() {
            (name, _) if name == "message" => n_shown += 1,
            (name, told) if name == "left_out" => n_left_out += told["count"].as_u64().unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(n_shown + n_left_out, N);
    assert!(n_shown >= 50 && n_left_out >= 50, "{n_shown} {n_left_out}");
}

#[test]
fn a_user_has_a_few_tails_at_a_time_and_rights_that_go_end_them() {
    let api = Api::start();
    declare(&api, "q", json!({}));
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let may = |read: &str| json!({"configure": "", "write": "", "read": read}).to_string();
    api.expect(201, "PUT /permissions/%2F/u", &may("q"));
    let open = || Events::open(&api, "u:p", "/queues/%2F/q/tail");
    let mut all: Vec<_> = (0..4).map(|_| open().unwrap()).collect();
    assert_eq!(open().err(), Some(429));
    drop(all.pop());
    wait_until("one has gone", || open().is_ok());
    api.expect(204, "PUT /permissions/%2F/u", &may("other"));
    for tail in &mut all {
        assert_eq!(tail.next(), ("end".to_owned(), json!({"reason": "not_permitted"})));
    }
    assert_eq!(ask(api.0.http_address(), "u:p", "GET /queues/%2F/q/tail", "").status, 401);
}

#[test]
fn an_operator_of_the_machine_sees_removes_and_sends_messages_on() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for queue in ["a", "b"] {
        declare(&api, queue, json!({}));
    }
    let shown = thread::scope(|scope| {
        let tail = scope.spawn(|| {
            api.0.ctl(&["messages", "tail", "a", "--filter", "priority=3", "--limit", "2"])
        });
        while !tail.is_finished() {
            publish(&mut client, "", "a");
        }
        tail.join().unwrap()
    });
    let lines: Vec<Value> = shown.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((&lines[0]["payload"], &lines[1]["payload"]), (&json!("a 3"), &json!("a 3")));
    assert_eq!(lines.last().unwrap(), &json!({"end": {"reason": "limit"}}));
    let n = api.expect(200, "GET /queues/%2F/a", "")["messages"].as_u64().unwrap();
    let found = api.0.ctl(&["search_messages", "a", "--filter", "priority = 0"]);
    assert_eq!(found.lines().count() as u64, n / 4 + 1);
    let expected = (n / 2).to_string();
    let remove = ["remove_messages", "a", "--filter", "priority < 2", "--expected", &expected];
    assert_eq!(api.0.ctl(&remove).trim(), format!("Removed {expected} of {expected} messages"));
    let redrive = ["redrive_messages", "a", "--all", "--to-queue", "b", "--user", "guest"];
    assert_eq!(api.0.ctl(&redrive).trim(), format!("Job 1 moves {expected} messages"));
    wait_until("all are there", || api.expect(200, "GET /jobs/1", "")["state"] != "running");
    let jobs = api.0.ctl(&["-s", "list_jobs"]);
    let done = format!("1\t\tdone\t{expected}\t{expected}\t");
    assert!(jobs.starts_with(&done), "{jobs}");
    assert_eq!(api.0.ctl(&["export_messages", "b"]).lines().count() as u64, n / 2);
}
