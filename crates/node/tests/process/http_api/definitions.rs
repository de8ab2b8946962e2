//! Where the HTTP API listens, and what it takes: names and documents.

use super::{HTTP, ask};
use crate::support::node::Node;
use amqp091::method::QueueDeclare;
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
    let told = "x-leveret-warning: parameter 's' of 'shovel' in vhost 'new': left out: component shovel not found";
    assert!(answer.head.contains(told), "{}", answer.head);
    let permissions = ask(address, "guest:guest", "GET /permissions/new/guest", "").body;
    assert_eq!(permissions["configure"], ".*");
    node.stop();
}
