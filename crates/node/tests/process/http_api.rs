//! The HTTP API, over sockets.

mod compatibility;
mod definitions;
mod limits;

mod traces;

use super::support::node::Node;
use super::support::wait_until;
use amqp10::{Role, Section, ValueRef, put_message_annotations};
use amqp091::method::{BasicAck, BasicReject, QueueDeclare};
use amqp091::{Properties, ShortString, Table, TableRef, Value as Field};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use testing::amqp10_peer::Peer;
use testing::client::{Client, DEADLINE};

pub(super) const HTTP: [&str; 3] =
    ["management.enabled=true", "management.tcp.ip=127.0.0.1", "management.tcp.port=0"];

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Value,
    /// The same as it came.
    pub(super) text: String,
}

/// One request on a connection of its own.
pub(super) fn ask(address: SocketAddr, login: &str, request: &str, body: &str) -> Answer {
    ask_with(address, login, request, ("", body))
}

/// As [`ask`], with more headers.
fn ask_with(address: SocketAddr, login: &str, request: &str, more: (&str, &str)) -> Answer {
    ask_at(address, login, &request.replacen(' ', " /api", 1), more)
}

/// As [`ask_with`], with the whole path.
fn ask_at(
    address: SocketAddr,
    login: &str,
    request: &str,
    (headers, body): (&str, &str),
) -> Answer {
    let (method, path) = request.split_once(' ').unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let login = match login {
        "" => String::new(),
        login => format!("authorization: Basic {}\r\n", STANDARD.encode(login)),
    };
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{login}{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body =
        if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    let value = serde_json::from_str(&body).unwrap_or(Value::Null);
    Answer { status, head: head.to_owned(), body: value, text: body }
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&rest[..size]);
        text = rest[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    body
}

/// A node, and what guest asks of it.
pub(super) struct Api(pub(super) Node);

impl Api {
    pub(super) fn start() -> Self {
        Self(Node::start(&HTTP))
    }

    pub(super) fn ask(&self, request: &str, body: &str) -> Answer {
        ask(self.0.http_address(), "guest:guest", request, body)
    }

    pub(super) fn expect(&self, status: u16, request: &str, body: &str) -> Value {
        let answer = self.ask(request, body);
        assert_eq!(answer.status, status, "{request}: {} {}", answer.head, answer.body);
        answer.body
    }
}

#[test]
fn names_that_browsers_take_for_steps_are_in_the_query() {
    let api = Api::start();
    for (name, other) in [(".", ".."), ("..", ".")] {
        let at = format!("/queues/%2F/-?:2={name}");
        api.expect(201, &format!("PUT {at}"), "{}");
        assert_eq!(api.expect(200, &format!("GET {at}&columns=name"), ""), json!({"name": name}));
        api.expect(404, &format!("GET /queues/%2F/-?:2={other}"), "");
        api.expect(204, &format!("DELETE {at}"), "");
    }
    api.expect(404, "GET /queues/%2F/-?:2=q", "");
}

/// Every line of the table, with parameters that name what is there.
#[test]
fn every_route_answers() {
    let api = Api::start();
    let node = api.expect(200, "GET /overview", "")["node"].as_str().unwrap().to_owned();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let table = api.expect(200, "GET /openapi.json", "");
    let paths = table["paths"].as_object().unwrap();
    let n_routes: usize = paths.values().map(|methods| methods.as_object().unwrap().len()).sum();
    assert!(n_routes >= 152, "{n_routes}");
    for (path, methods) in paths {
        let template = path.strip_prefix("/api").unwrap();
        let mut address = template.replace("{vhost}", "%2F").replace("{node}", &node);
        for (name, value) in [
            ("{user}", "guest"),
            ("{queue}", "q"),
            ("{kind}", "q"),
            ("{source}", "amq.direct"),
            ("{within}", "1"),
            ("{unit}", "days"),
            ("{port}", "1"),
            ("{exchange}", "amq.topic"),
        ] {
            address = address.replace(name, value);
        }
        while let Some((before, rest)) = address.split_once('{') {
            address = format!("{before}q{}", rest.split_once('}').unwrap().1);
        }
        for method in methods.as_object().unwrap().keys() {
            // What would end the node, or the rights to ask on.
            if [
                "/reset",
                "/leveret/stop",
                "/leveret/cluster",
                "/leveret/users/guest/password",
                "/leveret/users/guest/tags",
                "/users/guest",
                "/vhosts/%2F",
                "/permissions/%2F/guest",
            ]
            .contains(&&*address)
                // It has no end.
                || template.ends_with("/tail")
            {
                continue;
            }
            let request = format!("{} {address}", method.to_uppercase());
            let answer = api.ask(&request, "");
            assert!(answer.status < 500 || answer.status == 503, "{request}: {}", answer.head);
            assert_ne!(answer.status, 405, "{request}");
            assert!(answer.head.contains("allow: "), "{request}: no route: {}", answer.head);
        }
    }
    api.expect(200, "GET /users/guest", "");
    api.expect(404, "GET /nonsense", "");
    api.0.stop();
}

#[test]
fn a_queue_lives_its_life() {
    let api = Api::start();
    api.expect(
        201,
        "PUT /queues/%2F/a%2Fb",
        r#"{"durable": true, "arguments": {"x-max-length": 5}}"#,
    );
    api.expect(
        204,
        "PUT /queues/%2F/a%2Fb/",
        r#"{"durable": true, "arguments": {"x-max-length": 5}}"#,
    );
    let refused = api.expect(400, "PUT /queues/%2F/a%2Fb", r#"{"durable": true}"#);
    // More levels could not be read from the log again.
    let deep = format!(r#"{{"arguments": {{"x": {}{}}}}}"#, "[".repeat(40), "]".repeat(40));
    api.expect(400, "PUT /queues/%2F/deep", &deep);
    assert!(refused["reason"].as_str().unwrap().starts_with("inequivalent arg"), "{refused}");
    let place = api.ask("POST /bindings/%2F/e/amq.topic/q/a%2Fb", r##"{"routing_key": "x.#"}"##);
    assert_eq!(place.status, 201, "{}", place.head);
    assert!(place.head.contains("location: "), "{}", place.head);
    let message = json!({
        "properties": {"headers": {"n": 1}, "delivery_mode": 2}, "routing_key": "x.y",
        "payload": "aGVsbG8=", "payload_encoding": "base64",
    });
    let publish = "POST /exchanges/%2F/amq.topic/publish";
    assert_eq!(api.expect(200, publish, &message.to_string())["routed"], true);
    // The connection that has published is gone, and what it did is counted all the same.
    let stats = &api.expect(200, "GET /exchanges/%2F/amq.topic", "")["message_stats"];
    assert_eq!((&stats["publish_in"], &stats["publish_out"]), (&json!(1), &json!(1)));
    let get = r#"{"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    let got = api.expect(200, "POST /queues/%2F/a%2Fb/get", get);
    assert_eq!(got[0]["payload"], "hello");
    assert_eq!(got[0]["properties"], json!({"headers": {"n": 1}, "delivery_mode": 2}));
    let queue = api.expect(200, "GET /queues/%2F/a%2Fb", "");
    assert_eq!((&queue["messages"], &queue["message_stats"]["publish"]), (&json!(1), &json!(1)));
    assert_eq!(
        api.expect(200, "GET /bindings/%2F/e/amq.topic/q/a%2Fb/x.%23", "")["routing_key"],
        "x.#"
    );
    api.expect(400, "DELETE /queues/%2F/a%2Fb?if-empty=true", "");
    api.expect(204, "DELETE /queues/%2F/a%2Fb/contents", "");
    api.expect(204, "DELETE /queues/%2F/a%2Fb?if-empty=true", "");
    api.expect(404, "GET /queues/%2F/a%2Fb", "");
    api.0.stop();
}

/// As they are, with escapes, as bytes; long ones and such that are cut.
#[test]
fn messages_come_back_as_they_went() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let long = "é".repeat(200_000);
    for (payload, encoding) in
        [("plain", "string"), ("a\"b\\\n", "string"), (&long, "string"), ("/w==", "base64")]
    {
        let message = json!({
            "properties": {}, "routing_key": "q", "payload": payload, "payload_encoding": encoding,
        });
        api.expect(200, "POST /exchanges/%2F/amq.default/publish", &message.to_string());
    }
    let ask = |count: u64, truncate: u64| {
        let asked = json!({
            "count": count, "truncate": truncate, "ackmode": "ack_requeue_true", "encoding": "auto",
        });
        api.expect(200, "POST /queues/%2F/q/get", &asked.to_string())
    };
    let payloads = |got: &Value| -> Vec<Value> {
        got.as_array().unwrap().iter().map(|it| it["payload"].clone()).collect()
    };
    let got = ask(9, 1_000_000);
    assert_eq!(payloads(&got), ["plain", "a\"b\\\n", &long, "/w=="]);
    assert_eq!(
        (&got[3]["payload_encoding"], &got[2]["payload_bytes"]),
        (&json!("base64"), &json!(400_000))
    );
    assert_eq!(payloads(&ask(9, 2)), ["pl", "a\"", "é", "/w=="]);
    assert_eq!(ask(0, 1), json!([]));
    let number =
        r#"{"properties": {}, "routing_key": "q", "payload": 1, "payload_encoding": "string"}"#;
    api.expect(400, "POST /exchanges/%2F/amq.default/publish", number);
    api.0.stop();
}

#[test]
fn messages_of_amqp_10_are_fetched_with_their_sections() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", r#"{"durable": true}"#);
    let mut peer = Peer::begun(api.0.address(), b"\0guest\0guest", "/");
    peer.attaches(Role::Sender, "/queues/q");
    peer.transfers_sections(0, false, |out| {
        put_message_annotations(out, |items| items.put_symbol("x-a", ValueRef::U8(3)));
        Section::Value(ValueRef::U64(1 << 40)).encode(out);
    });
    assert_eq!(peer.hears(), "attach Receiver");
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    let plain = json!({
        "properties": {}, "routing_key": "q", "payload": "plain", "payload_encoding": "string",
    });
    api.expect(200, "POST /exchanges/%2F/amq.default/publish", &plain.to_string());
    let get = r#"{"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    let got = api.expect(200, "POST /queues/%2F/q/get", get);
    assert_eq!(got[0]["sections"]["message_annotations"], json!({"x-a": 3}), "{got}");
    assert_eq!(got[0]["sections"]["amqp_value"], json!(1_u64 << 40), "{got}");
    assert_eq!(got[0]["properties"]["type"], "amqp-1.0", "{got}");
    assert_eq!((&got[1]["payload"], &got[1]["sections"]), (&json!("plain"), &Value::Null));
    api.0.stop();
}

#[test]
fn quorum_queues_tell_their_members_and_their_tries() {
    let api = Api::start();
    let node = api.expect(200, "GET /overview", "")["node"].as_str().unwrap().to_owned();
    api.expect(201, "PUT /queues/%2F/c", "{}");
    api.expect(400, "PUT /queues/%2F/n", r#"{"node": "nobody@here"}"#);
    let quorum = json!({"arguments": {"x-queue-type": "quorum"}});
    api.expect(201, "PUT /queues/%2F/q", &quorum.to_string());
    let patient = json!({"arguments": {
        "x-queue-type": "quorum", "x-delivery-limit": -1, "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 10, "x-delayed-retry-max": 20,
    }});
    api.expect(201, "PUT /queues/%2F/patient", &patient.to_string());
    for (queue, limit, retry) in [
        ("q", json!(20), json!("disabled")),
        ("patient", json!("unlimited"), json!("all (min: 10ms, max: 20ms)")),
        ("c", Value::Null, Value::Null),
    ] {
        let shown = api.expect(200, &format!("GET /queues/%2F/{queue}"), "");
        assert_eq!(
            (&shown["delivery_limit"], &shown["delayed_retry"]),
            (&limit, &retry),
            "{queue}"
        );
    }
    assert_eq!(api.expect(200, "GET /queues/quorum/%2F/q/status", "")[0]["Node Name"], *node);
    let here = json!({"node": node}).to_string();
    let (grow, all) = (
        format!("POST /queues/quorum/replicas/on/{node}/grow"),
        r#"{"strategy": "all", "vhost_pattern": ".*", "queue_pattern": ".*"}"#,
    );
    for (status, request, body) in [
        (503, "GET /queues/quorum/%2F/c/status", ""),
        (404, "GET /queues/quorum/%2F/none/status", ""),
        (503, "POST /queues/quorum/%2F/c/replicas/add", &*here),
        (503, "POST /queues/quorum/%2F/none/replicas/add", &here),
        (204, "POST /queues/quorum/%2F/q/replicas/add", &here),
        (503, "DELETE /queues/quorum/%2F/q/replicas/delete", &here),
        (404, "DELETE /queues/quorum/replicas/on/nobody@here/shrink", ""),
        (400, &grow, "{}"),
        (204, &grow, all),
        (400, "POST /vhosts/%2F/start/nobody@here", ""),
        (400, "PUT /topic-permissions/%2F/guest", r#"{"exchange": "x", "write": "", "read": ""}"#),
        (400, "PUT /user-limits/nobody/max-channels", r#"{"value": 1}"#),
        (404, "DELETE /user-limits/nobody/max-channels", ""),
        (401, "PUT /stream/super-streams/none/s", r#"{"partitions": 1}"#),
        (400, "GET /definitions/none", ""),
        (404, "POST /definitions/none", "{}"),
    ] {
        api.expect(status, request, body);
    }
    api.0.stop();
}

#[test]
fn each_tag_sees_its_own() {
    let api = Api::start();
    let address = api.0.http_address();
    for (user, tags) in [("nobody", ""), ("ann", "management"), ("mon", "monitoring")] {
        let body = json!({"password": "p", "tags": tags}).to_string();
        api.expect(201, &format!("PUT /users/{user}"), &body);
    }
    api.expect(201, "PUT /vhosts/other", "{}");
    let all = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
    api.expect(201, "PUT /permissions/other/ann", all);
    let status = |login: &str, request: &str| ask(address, login, request, "").status;
    assert_eq!(status("", "GET /whoami"), 401);
    assert_eq!(status("guest:wrong", "GET /whoami"), 401);
    assert_eq!(status("nobody:p", "GET /whoami"), 401);
    assert_eq!(status("ann:p", "GET /whoami"), 200);
    assert_eq!(status("ann:p", "GET /nodes"), 401);
    assert_eq!(status("mon:p", "GET /nodes"), 200);
    assert_eq!(status("mon:p", "GET /users"), 401);
    assert_eq!(status("ann:p", "GET /queues/%2F"), 401);
    assert_eq!(ask(address, "ann:p", "GET /vhosts", "").body.as_array().unwrap().len(), 1);
    assert_eq!(ask(address, "ann:p", "PUT /queues/other/q", "{}").status, 201);
    // What is taken away is gone from the next request on.
    api.expect(204, "DELETE /users/ann", "");
    assert_eq!(status("ann:p", "GET /whoami"), 401);
    api.0.stop();
}

#[test]
fn a_connection_is_closed_with_a_reason_and_counted() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.declare("q");
    for body in [b"a", b"b"] {
        client.put_publish("q", true, body);
    }
    client.flush();
    client.consume("q", false);
    let delivery_tag = [client.message(), client.message()].map(Option::unwrap)[0].tag;
    client.say(1, BasicAck { delivery_tag, multiple: false });
    let mut stats = Value::Null;
    wait_until("the acknowledgement is counted", || {
        stats = api.expect(200, "GET /channels", "")[0]["message_stats"].take();
        stats["ack"] == 1
    });
    assert_eq!((&stats["publish"], &stats["deliver_get"]), (&json!(2), &json!(2)), "{stats}");
    let mut list = Value::Null;
    wait_until("a connection in the list", || {
        list = api.expect(200, "GET /connections", "");
        list.as_array().unwrap().len() == 1
    });
    let name = list[0]["name"].as_str().unwrap().replace(' ', "%20").replace('>', "%3E");
    api.expect(204, &format!("DELETE /connections/{name}"), "");
    let closed = client.next().show();
    assert!(closed.contains("CONNECTION_FORCED - Closed via management plugin"), "{closed}");
    api.0.expect_logged(1, "management: user \"guest\" from 127.0.0.1: DELETE /connections");
    api.0.stop();
}

/// Requests that make no sense, one by one.
#[test]
fn bad_requests_are_told_what_is_wrong() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let deep = format!("{{\"arguments\": {}1{}}}", "{\"a\": ".repeat(65), "}".repeat(65));
    let message = |more: &str| format!("{{\"routing_key\": \"q\", \"payload\": \"x\", {more}}}");
    let properties =
        |it: &str| message(&format!("\"properties\": {it}, \"payload_encoding\": \"string\""));
    let long = "n".repeat(256);
    let bodies: &[(&str, &str, &str)] = &[
        (
            "PUT /queues/%2F/x",
            "{\"durable\": tru",
            "not_json: EOF while parsing a value at line 1 column 15",
        ),
        ("PUT /queues/%2F/x", "[1]", "body must be a JSON object"),
        ("PUT /queues/%2F/x", &deep, "more than 64 levels"),
        ("PUT /queues/%2F/x", r#"{"durable": "maybe"}"#, "durable must be true or false"),
        ("PUT /queues/%2F/x", r#"{"arguments": 5}"#, "arguments must be an object"),
        ("PUT /queues/%2F/%FF", "{}", "Invalid UTF-8"),
        ("PUT /users/u", r#"{"password": 5, "tags": ""}"#, "password must be a string"),
        ("POST /users/bulk-delete", r#"{"users": 5}"#, "users must be a list"),
        (
            "PUT /policies/%2F/p",
            r#"{"pattern": "", "definition": {"max-length": 1}, "priority": "x"}"#,
            "priority must be a number",
        ),
        (
            "POST /bindings/%2F/e/amq.direct/q/q",
            r#"{"routing_key": 5}"#,
            "routing_key must be a string",
        ),
        (
            "POST /queues/%2F/q/get",
            r#"{"count": -1, "ackmode": "ack_requeue_true", "encoding": "auto"}"#,
            "count must be a number",
        ),
        (
            "POST /exchanges/%2F/amq.default/publish",
            &properties("5"),
            "properties must be an object",
        ),
        (
            "POST /exchanges/%2F/amq.default/publish",
            &properties(r#"{"priority": 300}"#),
            "invalid property: priority",
        ),
        ("PUT /stream/super-streams/%2F/s", r#"{"partitions": 0}"#, "must be greater than 0"),
        ("GET /queues?page=0", "", "Invalid pagination parameters"),
        ("GET /queues?page=2", "", "Page out of range"),
        ("GET /queues?page=1&page_size=501", "", "Invalid pagination parameters"),
        ("GET /queues?page=1&use_regex=true&name=(", "", "unclosed group"),
        ("GET /queues?lengths_age=60&lengths_incr=0", "", "at most 1000 times"),
    ];
    for (request, body, reason) in bodies {
        let told = api.expect(400, request, body);
        assert!(told["reason"].as_str().unwrap().contains(reason), "{request}: {told}");
    }
    api.expect(400, &format!("PUT /queues/%2F/{long}"), "{}");
    api.expect(404, "DELETE /bindings/%2F/e/amq.direct/q/q/~~", "");
    api.expect(405, "PATCH /queues/%2F/q", "");
    api.0.stop();
}

/// Clients that go in the middle of a fetch leave the queue as it was, and nobody who fetches.
#[test]
fn clients_that_go_leave_nothing_behind() {
    const MESSAGES: usize = 50;
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let message = json!({
        "properties": {}, "routing_key": "q", "payload": "x".repeat(1_000),
        "payload_encoding": "string",
    });
    for _ in 0..MESSAGES {
        api.expect(200, "POST /exchanges/%2F/amq.default/publish", &message.to_string());
    }
    let get = r#"{"count": 50, "ackmode": "ack_requeue_true", "encoding": "auto"}"#;
    for _ in 0..20 {
        let mut socket = TcpStream::connect(api.0.http_address()).unwrap();
        let head = format!(
            "POST /api/queues/%2F/q/get HTTP/1.1\r\nhost: here\r\nauthorization: Basic {}\r\n\
             content-length: {}\r\n\r\n{get}",
            STANDARD.encode("guest:guest"),
            get.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
    }
    wait_until("everything is as it was", || {
        let queue = api.expect(200, "GET /queues/%2F/q", "");
        let connections = api.expect(200, "GET /connections", "");
        (&queue["messages_ready"], &queue["messages_unacknowledged"], connections)
            == (&json!(MESSAGES), &json!(0), json!([]))
    });
    wait_until("all can be fetched", || {
        api.expect(200, "POST /queues/%2F/q/get", get).as_array().unwrap().len() == MESSAGES
    });
    api.0.stop();
}

/// More rows than fit into a piece come in several.
#[test]
fn long_lists_come_whole() {
    let api = Api::start();
    let queue = |n: usize| json!({"name": format!("q{n:04}"), "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    let queues: Vec<Value> = (0..2_000).map(queue).collect();
    api.expect(204, "POST /definitions", &json!({"queues": queues}).to_string());
    let all = api.expect(200, "GET /queues", "");
    assert_eq!(all.as_array().unwrap().len(), 2_000);
    let page = api.expect(200, "GET /queues?page=20&sort=name&sort_reverse=true&columns=name", "");
    assert_eq!(page["items"][99], json!({"name": "q0000"}));
    let answer = api.ask("GET /queues?page=21", "");
    assert_eq!((answer.status, &answer.body["error"]), (400, &json!("page_out_of_range")));
    api.0.stop();
}

/// A page elsewhere cannot have a browser change something.
#[test]
fn changes_come_from_here() {
    let api = Api::start();
    let status = |method: &str, origin: &str| {
        let request = format!("{method} /queues/%2F/q");
        let headers = format!("origin: {origin}\r\n");
        ask_with(api.0.http_address(), "guest:guest", &request, (&headers, "{}")).status
    };
    assert_eq!(status("PUT", "http://elsewhere.example"), 403);
    assert_eq!(status("PUT", "null"), 403);
    assert_eq!(status("PUT", "http://here"), 201);
    assert_eq!(status("GET", "http://elsewhere.example"), 200);
    api.0.stop();
}

/// A cookie is as good as a password until it is given back, or the password changes; with it only pages of
/// the node's own change something.
#[test]
fn a_login_with_a_cookie_holds_for_own_pages() {
    let api = Api::start();
    let address = api.0.http_address();
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    api.expect(201, "PUT /users/ann", r#"{"password": "p%40=", "tags": "administrator"}"#);
    let log_in = |body: &str| ask_with(address, "", "POST /login", (form, body));
    let cookie = || {
        let begun = log_in("username=ann&password=p%2540%3D");
        let cookie = begun.head.split("set-cookie: ").nth(1).unwrap().lines().next().unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        format!("cookie: a=b; {}\r\n", cookie.split(';').next().unwrap())
    };
    assert_eq!(log_in("username=ann&password=wrong").status, 401);
    assert_eq!(ask(address, "", "POST /login", "username=ann").status, 415);
    let first = cookie();
    let status =
        |request: &str, headers: &str| ask_with(address, "", request, (headers, "{}")).status;
    let own = format!("{first}origin: http://here\r\n");
    assert_eq!(status("GET /whoami", &first), 200);
    assert_eq!(status("PUT /vhosts/v", &first), 403);
    assert_eq!(status("PUT /vhosts/v", &format!("{first}origin: http://there\r\n")), 403);
    assert_eq!(status("PUT /vhosts/v", &own), 201);
    assert_eq!(status("DELETE /login", &own), 204);
    assert_eq!(status("GET /whoami", &first), 401);
    let second = cookie();
    api.expect(204, "PUT /users/ann", r#"{"password": "other", "tags": "administrator"}"#);
    assert_eq!(status("GET /whoami", &second), 401);
    let node = api.expect(200, "GET /overview", "")["node"].as_str().unwrap().to_owned();
    let tried = &api.expect(200, &format!("GET /auth/attempts/{node}"), "")[0];
    assert_eq!((&tried["protocol"], &tried["auth_attempts_failed"]), (&json!("http"), &json!(1)));
    api.0.stop();
}

/// A client that has an answer is not sent it again until it changes.
#[test]
fn what_a_client_has_is_not_sent_again() {
    let api = Api::start();
    let ask = |request: &str, headers: &str| {
        ask_with(api.0.http_address(), "guest:guest", request, (headers, ""))
    };
    let first = ask("GET /definitions", "");
    assert_eq!(first.status, 200, "{} {}", first.head, first.body);
    let tag = first.head.split("etag: ").nth(1).unwrap().lines().next().unwrap();
    let known = format!("if-none-match: \"other\", {tag}\r\n");
    let second = ask("GET /definitions", &known);
    assert_eq!((second.status, &second.body), (304, &Value::Null), "{}", second.head);
    api.expect(201, "PUT /vhosts/v", "{}");
    assert_eq!(ask("GET /definitions", &known).status, 200);
    let head = ask("HEAD /whoami", "");
    assert!(head.head.contains("content-length: ") && head.body == Value::Null, "{}", head.head);
    assert_eq!(ask("GET /whoami", "accept: text/html, application/xml\r\n").status, 406);
    assert_eq!(ask("GET /whoami", "accept: text/html, */*;q=0.5\r\n").status, 200);
    assert_eq!(ask("POST /definitions", "content-type: text/plain\r\n").status, 415);
    let form = "--x y\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d.json\"\r\n\r\n\
                {\"vhosts\": [{\"name\": \"of a form\"}]}\r\n--x y--\r\n";
    let kind = "content-type: multipart/form-data; boundary=\"x y\"\r\n";
    let taken = ask_with(api.0.http_address(), "guest:guest", "POST /definitions", (kind, form));
    assert_eq!(taken.status, 204, "{}", taken.body);
    api.expect(200, "GET /vhosts/of%20a%20form", "");
    api.0.stop();
}

/// Behind a prefix, with a place whose pages may ask.
#[test]
fn answers_are_for_those_who_may_read_them() {
    let others = [
        "management.path_prefix=a/",
        "management.cors.allow_origins.1=https://tools.example",
        "management.headers.frame_options=DENY",
        "management.csp.policy=default-src 'self'",
    ];
    let settings: Vec<&str> = HTTP.into_iter().chain(others).collect();
    let node = Node::start(&settings);
    let ask = |request: &str, origin: &str| {
        let headers = format!("origin: {origin}\r\naccess-control-request-headers: x\r\n");
        ask_at(node.http_address(), "guest:guest", request, (&headers, ""))
    };
    assert_eq!(ask("GET /api/whoami", "https://tools.example").status, 404);
    let told = ask("OPTIONS /a/api/queues/%2F/q", "https://tools.example");
    for header in [
        "access-control-allow-origin: https://tools.example",
        "access-control-allow-headers: x",
        "access-control-allow-methods: HEAD, GET, PUT, DELETE, OPTIONS",
        "access-control-max-age: 1800",
        "x-frame-options: DENY",
        "content-security-policy: default-src 'self'",
    ] {
        assert!(told.head.contains(header), "{header} is not in {}", told.head);
    }
    assert_eq!(ask("PUT /a/api/vhosts/v", "https://tools.example").status, 201);
    let other = ask("GET /a/api/whoami", "https://elsewhere.example");
    assert!(other.status == 200 && !other.head.contains("access-control"), "{}", other.head);
    node.stop();
}

#[test]
fn a_request_that_does_not_come_is_not_waited_for() {
    let api = Api::start();
    exchanged(api.0.http_address(), "GET /api/overview HTTP/1.1\r\nhost: he");
    api.expect(200, "GET /whoami", "");
    api.0.stop();
}

/// The node's answers until it closes the connection.
fn exchanged(address: SocketAddr, sent: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.write_all(sent.as_bytes()).unwrap();
    let mut told = Vec::new();
    // Closed by the node, with or without a word.
    drop(socket.read_to_end(&mut told));
    String::from_utf8_lossy(&told).into_owned()
}

/// At another address, and for users alone.
#[test]
fn metrics_may_need_a_login() {
    let node = Node::start(&[
        "prometheus.enabled=true",
        "prometheus.tcp.ip=127.0.0.1",
        "prometheus.tcp.port=0",
        "prometheus.path=/figures",
        "prometheus.authentication.enabled=true",
    ]);
    let status = |login: &str, path: &str| {
        ask_at(node.http_address(), login, &format!("GET {path}"), ("", "")).status
    };
    assert_eq!(status("", "/figures"), 401);
    assert_eq!(status("guest:wrong", "/figures/per-object"), 401);
    assert_eq!(status("guest:guest", "/figures"), 200);
    assert_eq!(status("guest:guest", "/figures/per-object"), 200);
    assert_eq!(status("guest:guest", "/metrics"), 404);
    node.stop();
}

const SCRAPED: [&str; 3] =
    ["prometheus.enabled=true", "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0"];

/// The head and the body of a scrape.
pub(super) fn scrape(node: &Node, path: &str) -> (String, String) {
    let mut socket = TcpStream::connect(node.http_address()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let chunked = head.contains("transfer-encoding: chunked");
    (head.to_owned(), if chunked { unchunked(body) } else { body.to_owned() })
}

/// Messages that die are counted by their queue's type, their reason, and where they go.
#[test]
fn deaths_are_counted() {
    let node = Node::start(&SCRAPED);
    let mut client = Client::guest(node.address());
    let mut arguments = Table::new();
    let kind = Field::LongString("quorum".into());
    arguments.push(ShortString::from_static("x-queue-type"), kind);
    let arguments = arguments.to_bytes();
    let (durable, arguments) = (true, TableRef::trusted(&arguments));
    let quorum = QueueDeclare { queue: b"quorum", durable, arguments, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, quorum), "queue.declare-ok");
    assert_eq!(["classic", "letters"].map(|it| client.declare(it)), [0, 0]);
    let reject = |client: &mut Client, queue: &str| {
        client.put_publish(queue, true, b"refused");
        let delivery_tag = client.get_to_ack(queue).unwrap().tag;
        client.say(1, BasicReject { delivery_tag, requeue: false });
    };
    ["classic", "quorum"].into_iter().for_each(|it| reject(&mut client, it));
    client.round_trip();
    let to = r#""dead-letter-exchange":"","dead-letter-routing-key":"letters""#;
    let classic = format!(r#"{{{to},"max-length":1}}"#);
    let quorum =
        format!(r#"{{{to},"dead-letter-strategy":"at-least-once","overflow":"reject-publish"}}"#);
    node.ctl(&["set_policy", "classic", "^classic$", &classic]);
    node.ctl(&["set_policy", "quorum", "^quorum$", &quorum]);
    ["classic", "quorum"].into_iter().for_each(|it| reject(&mut client, it));
    let expiration = Some(ShortString::from_static("0"));
    let at_once = Properties { expiration, ..Properties::default() };
    client.put_message("", "classic", &at_once, b"expired");
    client.round_trip();
    (0..3).for_each(|_| client.put_publish("classic", true, b"too many"));
    client.round_trip();
    for (reason, kind, strategy, n) in [
        ("rejected", "classic", "disabled", 1),
        ("rejected", "quorum", "disabled", 1),
        ("rejected", "classic", "at_most_once", 1),
        ("rejected", "quorum", "at_least_once", 1),
        ("confirmed", "quorum", "at_least_once", 1),
        ("expired", "classic", "at_most_once", 1),
        ("maxlen", "classic", "at_most_once", 2),
        ("delivery_limit", "quorum", "at_least_once", 0),
    ] {
        let line = format!(
            "\nrabbitmq_global_messages_dead_lettered_{reason}_total{{queue_type=\"rabbit_{kind}_queue\",\
             dead_letter_strategy=\"{strategy}\"}} {n}\n"
        );
        wait_until(&line, || scrape(&node, "/metrics").1.contains(&line));
    }
    client.close();
    node.stop();
}

/// Figures are there with their types, and none is told twice.
#[test]
fn metrics_are_scraped() {
    let node = Node::start(&SCRAPED);
    let mut client = Client::guest(node.address());
    client.round_trip();
    let scrape = |path: &str| scrape(&node, path);
    for path in [
        "/metrics",
        "/metrics/per-object",
        "/metrics/memory-breakdown",
        "/metrics/detailed?family=queue_metrics&family=queue_coarse_metrics&family=vhost_status",
    ] {
        let (head, body) = scrape(path);
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"),
            "{head}"
        );
        let types: Vec<&str> =
            body.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut once = types.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), types.len(), "{path}");
        assert_eq!(body.matches("\nrabbitmq_identity_info{").count(), 1, "{path}");
    }
    let (_, body) = scrape("/metrics");
    for line in [
        "# TYPE rabbitmq_connections_opened_total counter",
        "rabbitmq_connections 1\n",
        "rabbitmq_channels 1\n",
        "# TYPE rabbitmq_queue_messages_ready gauge",
        "rabbitmq_global_messages_received_total{protocol=\"amqp091\"} ",
        "rabbitmq_global_messages_acknowledged_total{protocol=\"amqp091\",queue_type=\"rabbit_quorum_queue\"} 0\n",
        "rabbitmq_global_messages_received_total{protocol=\"stream\"} 0\n",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"1000000\"} ",
        "rabbitmq_message_size_bytes_bucket{protocol=\"amqp091\",le=\"+Inf\"} ",
        "rabbitmq_auth_attempts_succeeded_total{protocol=\"amqp091\"} 1\n",
        "rabbitmq_global_stream_error_unknown_frame_total{protocol=\"stream\"} 0\n",
        "# TYPE leveret_wal_fsync_seconds histogram",
    ] {
        assert!(body.contains(line), "{line} is not in\n{body}");
    }
    let bindings = "/metrics/detailed?family=exchange_bindings&family=exchange_names";
    let direct = "{vhost=\"/\",exchange=\"amq.direct\",type=\"direct\"}";
    let (_, body) = scrape(bindings);
    for (name, n) in [("bindings", 0), ("name", 1)] {
        let line = format!("rabbitmq_cluster_exchange_{name}{direct} {n}\n");
        assert!(body.contains(&line), "{line} is not in\n{body}");
    }
    for (accept, status) in [("application/json", 406), ("text/html, text/*;q=0.1", 200)] {
        let accept = format!("accept: {accept}\r\n");
        let request = "GET /metrics";
        assert_eq!(ask_at(node.http_address(), "", request, (&accept, "")).status, status);
    }
    assert!(scrape("/metrics/nonsense").0.starts_with("HTTP/1.1 404"));
    assert!(scrape("/metrics/detailed?queue=(").0.starts_with("HTTP/1.1 400"));
    client.close();
    node.stop();
}
