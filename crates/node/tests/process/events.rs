//! A node's events and message stamps, switched on by its configuration or an operator.

use super::http_api::{Api, ask};
use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::QueueBind;
use amqp091::{Properties, PropertiesRef, Value as Field};
use serde_json::Value;
use testing::client::{Client, Login, Message};

/// A queue that gets all that an exchange is told.
fn listen(client: &mut Client, exchange: &str, queue: &str) {
    client.declare(queue);
    let (queue, exchange) = (queue.as_bytes(), exchange.as_bytes());
    let bind = QueueBind { queue, exchange, routing_key: b"#", ..QueueBind::default() };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
}

fn next(client: &mut Client, queue: &str) -> Message {
    let mut found = None;
    wait_until(&format!("a message in {queue}"), || {
        found = client.get(queue);
        found.is_some()
    });
    found.unwrap()
}

fn header(message: &Message, name: &str) -> String {
    let headers = PropertiesRef::parse(&message.properties).unwrap().headers().unwrap();
    let headers = headers.to_owned().unwrap();
    let value = headers.get(name.as_bytes()).and_then(Field::as_bytes);
    String::from_utf8_lossy(value.unwrap_or(b"(none)")).into_owned()
}

#[test]
fn events_are_told_where_the_configuration_says_so() {
    let node = Node::start(&["event_exchange.vhost=/"]);
    let mut client = Client::guest(node.address());
    listen(&mut client, "amq.rabbitmq.event", "events");
    assert_eq!(next(&mut client, "events").routing_key, b"binding.created");
    let login = Login { password: "wrong", ..Login::default() };
    let _intruder = Client::introduced(node.address(), login);
    let event = next(&mut client, "events");
    assert_eq!(event.routing_key, b"user.authentication.failure");
    assert_eq!(header(&event, "name"), "guest");
    node.ctl(&["add_user", "ada", "x"]);
    let event = next(&mut client, "events");
    assert_eq!(
        (event.routing_key.as_slice(), header(&event, "name").as_str()),
        (&b"user.created"[..], "ada")
    );
    drop(client);
    node.stop();
}

#[test]
fn the_last_events_are_shown_to_administrators() {
    let api = Api::start();
    let login = Login { password: "wrong", ..Login::default() };
    drop(Client::introduced(api.0.address(), login));
    Client::guest(api.0.address()).declare("q");
    for (query, header, value) in [
        ("name=queue.*", "name", "q"),
        ("name=user.authentication.failure", "connection_type", "network"),
        ("name=%23.created&text=client_properties", "user", "guest"),
    ] {
        let mut told = Value::Null;
        wait_until(query, || {
            told = api.expect(200, &format!("GET /leveret/events?{query}"), "");
            told["events"][0]["headers"][header] == value
        });
        assert!(told["events"][0]["timestamp"].as_u64() > Some(1_700_000_000_000), "{told}");
    }
    api.expect(201, "PUT /users/ann", r#"{"password":"ann","tags":"monitoring"}"#);
    let asked = ask(api.0.http_address(), "ann:ann", "GET /leveret/events", "");
    assert_eq!(asked.status, 401, "{}", asked.text);
    api.0.stop();
}

#[test]
fn the_log_is_published_where_the_configuration_says_so() {
    let settings = ["log.exchange=true", "log.exchange.level=debug"];
    let mut node = Node::start(&settings);
    let mut client = Client::guest(node.address());
    listen(&mut client, "amq.rabbitmq.log", "everything");
    client.declare("warnings");
    let (exchange, routing_key) = (&b"amq.rabbitmq.log"[..], &b"warning"[..]);
    let bind = QueueBind { queue: b"warnings", exchange, routing_key, ..QueueBind::default() };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
    let login = Login { password: "wrong", ..Login::default() };
    drop(Client::introduced(node.address(), login));
    let line = next(&mut client, "warnings");
    assert_eq!(line.routing_key, b"warning");
    let text = String::from_utf8(line.body.clone()).unwrap();
    assert!(text.contains(" [warning] ") && text.contains("invalid credentials"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let (_, said) = text.trim_end().split_once(" [warning] ").unwrap();
    node.expect_logged(1, said);
    let properties = PropertiesRef::parse(&line.properties).unwrap().to_owned().unwrap();
    assert_eq!(properties.content_type.unwrap().to_text(), "text/plain");
    assert!(properties.timestamp.unwrap() > 1_700_000_000);
    assert!(header(&line, "node").contains('@'));

    // What is published leads to no line of its own: there comes an end.
    let mut n_before = 0;
    wait_until("the log says nothing more", || {
        let n_now = client.declare("everything");
        std::mem::replace(&mut n_before, n_now) == n_now && n_now > 0
    });
    let declared = node.ctl(&["-q", "list_exchanges", "name", "type", "durable", "internal"]);
    assert!(declared.contains("amq.rabbitmq.log\ttopic\ttrue\ttrue\n"), "{declared}");
    client.close();
    // The exchange and its bindings are still there.
    node.stop_and_start();
    let mut client = Client::guest(node.address());
    drop(Client::introduced(node.address(), login));
    assert!(String::from_utf8(next(&mut client, "warnings").body).unwrap().contains("[warning]"));
    client.close();
    node.stop();
}

#[test]
fn messages_are_stamped_and_traced() {
    let node = Node::start(&[
        "message_interceptors.incoming.set_header_routing_node.overwrite=true",
        "message_interceptors.incoming.set_header_timestamp.overwrite=true",
    ]);
    let mut client = Client::guest(node.address());
    client.declare("q");
    listen(&mut client, "amq.rabbitmq.trace", "traces");
    node.ctl(&["trace_on"]);
    client.put_message("", "q", &Properties::default(), b"hello");
    client.flush();
    let column = |name: &str| {
        let listed = node.ctl(&["list_queues", "-s", "name", name]);
        listed.lines().find_map(|line| line.strip_prefix("q\t")).unwrap().to_owned()
    };
    wait_until("the message is there", || column("messages") == "1");
    assert!(column("head_message_timestamp").parse::<u64>().unwrap() > 1_700_000_000);
    let listed = node.ctl(&["list_connections", "-s", "recv_cnt", "send_cnt"]);
    let n_calls: Vec<u64> = listed.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(n_calls.len() == 2 && n_calls.iter().all(|n| (2..100).contains(n)), "{n_calls:?}");
    let message = next(&mut client, "q");
    assert_eq!(column("head_message_timestamp"), "");
    assert!(header(&message, "x-routed-by").contains('@'));
    let properties = PropertiesRef::parse(&message.properties).unwrap().to_owned().unwrap();
    assert!(properties.timestamp.unwrap() > 1_700_000_000);
    for (key, body) in [("publish.", "hello"), ("deliver.q", "hello")] {
        let trace = next(&mut client, "traces");
        assert_eq!(
            (trace.routing_key.as_slice(), trace.body.as_slice()),
            (key.as_bytes(), body.as_bytes())
        );
        assert_eq!(
            (header(&trace, "user"), header(&trace, "vhost")),
            ("guest".to_owned(), "/".to_owned())
        );
        assert!(header(&trace, "connection").contains(" -> "));
    }
    node.ctl(&["trace_off"]);
    drop(client);
    node.stop();
}
