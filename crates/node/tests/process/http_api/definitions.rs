//! Where the HTTP API listens, and what it takes: names and documents.

use super::{HTTP, ask};
use crate::support::node::Node;
use crate::support::wait_until;
use amqp091::method::{BasicConsume, ExchangeDeclare, QueueBind, QueueDeclare};
use amqp091::{Properties, ShortString, Table, TableRef, Value as Field};
use serde_json::{Value, json};
use testing::client::Client;

/// COMPAT: the older keys of the HTTP API's listener count as the newer ones do.
#[test]
fn older_keys_say_where_the_http_api_listens() {
    let node = Node::start(&[
        "management.enabled=true",
        "management.listener.ip=127.0.0.1",
        "management.listener.port=0",
        "management.disable_basic_auth=true",
    ]);
    let address = node.http_address();
    assert!(address.ip().is_loopback() && address.port() != 15_672, "{address}");
    let answer = ask(address, "guest:guest", "GET /overview", "");
    assert_eq!(answer.status, 401, "{}", answer.text);
    assert!(answer.text.contains("basic auth disabled"), "{}", answer.text);
    assert!(node.ctl(&["list_users"]).contains("guest"));
    node.stop();
}

/// COMPAT: as over AMQP 0-9-1, line ends do not stay in names, whoever asks.
#[test]
fn line_ends_do_not_stay_in_names() {
    let node = Node::start(&HTTP);
    let address = node.http_address();
    let done = |request: &str, body: &str| {
        let answer = ask(address, "guest:guest", request, body);
        assert!(answer.status < 300, "{request}: {} {}", answer.status, answer.text);
    };
    done("PUT /queues/%2F/n%0Al", r#"{"durable":true}"#);
    done("PUT /exchanges/%2F/x%0D%0A", r#"{"type":"fanout","durable":true}"#);
    done("POST /bindings/%2F/e/x%0A/q/nl%0A", "{}");
    done("POST /bindings/%2F/e/x%0A/e/amq.fanout%0D", "{}");
    let document = json!({
        "queues": [{"vhost": "/", "name": "of\nfile", "durable": true, "auto_delete": false, "arguments": {}}],
        "bindings": [{"vhost": "/", "source": "x\n", "destination": "offile\r", "destination_type": "queue",
                      "routing_key": "k\n", "arguments": {}}],
    });
    done("POST /definitions", &document.to_string());
    let mut client = Client::guest(node.address());
    let queue = b"am\nqp".as_slice();
    assert_eq!(
        client.ask(1, QueueDeclare { queue, ..QueueDeclare::default() }),
        "queue.declare-ok"
    );
    let names: Vec<Value> = ask(address, "guest:guest", "GET /queues", "")
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| queue["name"].clone())
        .collect();
    assert_eq!(names, ["amqp", "nl", "offile"]);
    let bound = ask(address, "guest:guest", "GET /exchanges/%2F/x/bindings/source", "").body;
    let mut bound: Vec<(&str, &str)> = bound
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["destination"].as_str().unwrap(), it["routing_key"].as_str().unwrap()))
        .collect();
    bound.sort_unstable();
    assert_eq!(bound, [("amq.fanout", ""), ("nl", ""), ("offile", "k\n")]);
    node.stop();
}

/// COMPAT: there is no null in what is shown of arguments and headers.
#[test]
fn void_values_show_as_undefined() {
    let node = Node::start(&HTTP);
    let mut inner = Table::new();
    inner.push(ShortString::from_static("in"), Field::Array(vec![Field::Void]));
    let mut fields = Table::new();
    fields.push(ShortString::from_static("void"), Field::Void);
    fields.push(ShortString::from_static("table"), Field::Table(inner));
    let bytes = fields.to_bytes();
    let arguments = TableRef::trusted(&bytes);
    let mut client = Client::guest(node.address());
    let (queue, exchange) = (&b"q"[..], &b"x"[..]);
    assert_eq!(
        client.ask(1, QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() }),
        "queue.declare-ok"
    );
    let declare = ExchangeDeclare {
        exchange,
        kind: b"fanout",
        durable: true,
        arguments,
        ..Default::default()
    };
    assert_eq!(client.ask(1, declare), "exchange.declare-ok");
    let bind = QueueBind { queue, exchange, routing_key: b"k", arguments, ..QueueBind::default() };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
    let properties = Properties { headers: Some(fields), ..Properties::default() };
    client.put_message("", "q", &properties, b"m");
    client.flush();
    let asked = |request: &str, body: &str| ask(node.http_address(), "guest:guest", request, body);
    let shown = json!({"void": "undefined", "table": {"in": ["undefined"]}});
    let is_there = |found: &Value| {
        let of_void = |(key, value): (&String, &Value)| found.get(key) == Some(value);
        shown.as_object().unwrap().iter().all(of_void)
    };
    wait_until("the message is there", || {
        let get = r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}"#;
        let got = asked("POST /queues/%2F/q/get", get).body;
        got.get(0).is_some_and(|message| is_there(&message["properties"]["headers"]))
    });
    let consume = BasicConsume { queue, arguments, ..BasicConsume::default() };
    client.ask(1, consume);
    for (request, place) in [
        ("GET /queues/%2F/q", "/arguments"),
        ("GET /queues", "/0/arguments"),
        ("GET /exchanges/%2F/x", "/arguments"),
        ("GET /queues/%2F/q/bindings", "/1/arguments"),
        ("GET /consumers", "/0/arguments"),
        ("GET /definitions", "/queues/0/arguments"),
        ("GET /definitions", "/bindings/0/arguments"),
        ("GET /definitions/%2F", "/exchanges/0/arguments"),
    ] {
        let answer = asked(request, "");
        let found = answer.body.pointer(place);
        assert!(found.is_some_and(is_there), "{request}: {}", answer.text);
    }
    node.stop();
}

/// Go's and Terraform's clients always send the field `type`, empty if it was left open.
#[test]
fn an_empty_queue_type_over_http_is_the_default_type() {
    let node = Node::start(&HTTP);
    let asked = |request: &str, body: &str| ask(node.http_address(), "guest:guest", request, body);
    assert_eq!(asked("PUT /vhosts/quorums", r#"{"default_queue_type":"quorum"}"#).status, 201);
    for silent in [r#""undefined""#, "null"] {
        let answer = asked("PUT /vhosts/silent", &format!(r#"{{"default_queue_type":{silent}}}"#));
        assert!(matches!(answer.status, 201 | 204), "{silent}: {}", answer.text);
        assert_eq!(asked("GET /vhosts/silent", "").body["default_queue_type"], "classic");
    }
    for (vhost, default) in [("%2F", "classic"), ("quorums", "quorum")] {
        for (fields, kind) in [
            (r#""type":"""#, default),
            (r#""type":null"#, default),
            (r#""type":"undefined""#, default),
            (r#""arguments":{"x-queue-type":""}"#, default),
            (r#""type":"","arguments":{"x-queue-type":"stream"}"#, "stream"),
            (r#""type":"stream","arguments":{}"#, "stream"),
        ] {
            let request = format!("PUT /queues/{vhost}/q");
            let answer = asked(&request, &format!(r#"{{"durable":true,{fields}}}"#));
            assert_eq!(answer.status, 201, "{fields}: {}", answer.text);
            let shown = asked(&format!("GET /queues/{vhost}/q"), "").body;
            assert_eq!(shown["type"], kind, "{fields}: {shown}");
            assert_eq!(shown["arguments"], json!({"x-queue-type": kind}), "{fields}");
            assert_eq!(asked(&format!("DELETE /queues/{vhost}/q"), "").status, 204);
        }
    }
    node.stop();
}

/// COMPAT: what RabbitMQ refuses is refused, every object by its name; what is left out on purpose is told.
#[test]
fn definitions_are_not_dropped_in_silence() {
    let node = Node::start(&HTTP);
    let address = node.http_address();
    let policy = |name: &str, definition: Value| json!({"vhost": "/", "name": name, "pattern": ".*", "apply-to": "all", "definition": definition, "priority": 0});
    let document = json!({
        "policies": [policy("ha", json!({"ha-mode": "all"})), policy("good", json!({"max-length": 5}))],
        "parameters": [{"vhost": "/", "component": "nonsense", "name": "n", "value": {}}],
    });
    let answer = ask(address, "guest:guest", "POST /definitions", &document.to_string());
    assert_eq!(answer.status, 400, "{}", answer.text);
    for named in ["policy 'ha'", "ha-mode", "component nonsense not found"] {
        assert!(answer.text.contains(named), "{named}: {}", answer.text);
    }
    assert_eq!(ask(address, "guest:guest", "GET /policies", "").body, json!([]));
    let answer =
        ask(address, "guest:guest", "POST /definitions?lenient=true", &document.to_string());
    assert_eq!(
        (answer.status, answer.head.matches("x-leveret-warning: ").count()),
        (204, 3),
        "{}",
        answer.head
    );
    let document = json!({
        "vhosts": [{"name": "new"}],
        "parameters": [{"vhost": "new", "component": "shovel", "name": "s", "value": {}}],
    });
    let answer = ask(address, "guest:guest", "POST /definitions", &document.to_string());
    assert_eq!(answer.status, 204, "{}", answer.text);
    let told = "x-leveret-warning: parameter 's' of 'shovel' in vhost 'new': skipped: component shovel not found";
    assert!(answer.head.contains(told), "{}", answer.head);
    let permissions = ask(address, "guest:guest", "GET /permissions/new/guest", "").body;
    assert_eq!(permissions["configure"], ".*");
    node.stop();
}
