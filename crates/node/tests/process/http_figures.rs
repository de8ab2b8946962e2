//! Figures of channels, exchanges and queues, by the HTTP API and by Prometheus.

use super::http_api::{ask, scrape};
use super::support::node::Node;
use super::support::wait_until;
use amqp091::Properties;
use amqp091::method::{BasicAck, BasicNack, BasicPublish};
use serde_json::{Value, json};
use testing::client::Client;

const LISTENERS: [&str; 6] = [
    "management.enabled=true",
    "management.tcp.ip=127.0.0.1",
    "management.tcp.port=0",
    "prometheus.enabled=true",
    "prometheus.tcp.ip=127.0.0.1",
    "prometheus.tcp.port=0",
];

/// The answer to a question about something that is there.
fn get(node: &Node, path: &str) -> Value {
    let answer = ask(node.first_address(), "guest:guest", &format!("GET {path}"), "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

/// The counts of an object, without their details and those that are 0.
fn counts(stats: &Value) -> Value {
    let fields = stats.as_object().unwrap().iter();
    fields
        .filter(|(name, value)| {
            let is_detail = name.ends_with("_details");
            assert_eq!(is_detail, value["rate"].is_f64(), "{name}: {value}");
            !is_detail && **value != 0
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Publishes, fetches and consumes in every way: on channel 1, by the default exchange and by `amq.fanout`.
fn use_queue(client: &mut Client) {
    client.declare("q");
    client.select_confirms();
    for body in [b"a", b"b", b"c"] {
        client.put_publish("q", false, body);
    }
    let mandatory = BasicPublish {
        exchange: b"",
        routing_key: b"none",
        mandatory: true,
        ..BasicPublish::default()
    };
    client.put_content("", "none", 1, b"dropped");
    client.wait_for_confirms();
    client.put_whole(mandatory, &Properties::default(), b"returned");
    client.flush();
    let returned = client.next().show();
    assert_eq!(returned, "basic.return");
    // Its content's header and body.
    let _content = [client.next(), client.next()];
    client.wait_for_confirms();
    assert!(client.get("q").is_some());
    client.consume("q", false);
    let tags = [client.message(), client.message()].map(|message| message.unwrap().tag);
    client.say(1, BasicAck { delivery_tag: tags[0], multiple: false });
    client.say(1, BasicNack { delivery_tag: tags[1], multiple: false, requeue: true });
    assert!(client.message().unwrap().redelivered);
    client.declare("empty");
    assert!(client.get_to_ack("empty").is_none());
}

const GIVEN: &str =
    r#"{"ack": 1, "deliver": 3, "deliver_get": 4, "get_no_ack": 1, "redeliver": 1}"#;
const PUBLISHED: &str =
    r#"{"publish": 5, "confirm": 5, "return_unroutable": 1, "drop_unroutable": 1}"#;

#[test]
fn what_went_between_channels_exchanges_and_queues_is_told() {
    let node = Node::start(&LISTENERS);
    let mut client = Client::guest(node.address());
    use_queue(&mut client);
    let (given, published): (Value, Value) =
        (serde_json::from_str(GIVEN).unwrap(), serde_json::from_str(PUBLISHED).unwrap());
    let mut name = String::new();
    wait_until("everything is counted", || {
        let channel = get(&node, "/channels")[0].take();
        name = channel["name"].as_str().unwrap().to_owned();
        counts(&channel["message_stats"])["confirm"] == 5
    });
    let escaped = name.replace(' ', "%20").replace('>', "%3E");
    let channel = get(&node, &format!("/channels/{escaped}"));
    let mut all = given.clone();
    all["get_empty"] = json!(1);
    published.as_object().unwrap().iter().for_each(|(k, v)| all[k] = v.clone());
    assert_eq!(counts(&channel["message_stats"]), all);
    let q = json!({"name": "q", "vhost": "/"});
    let of_q = |list: &Value| {
        list.as_array().unwrap().iter().find(|it| it["queue"] == q).unwrap()["stats"].clone()
    };
    assert_eq!(counts(&of_q(&channel["deliveries"])), given);
    assert_eq!(channel["publishes"][0]["exchange"], json!({"name": "", "vhost": "/"}));
    assert_eq!(counts(&channel["publishes"][0]["stats"]), published);
    let queue = get(&node, "/queues/%2F/q");
    assert_eq!(queue["deliveries"][0]["channel_details"]["name"], *name);
    assert_eq!(counts(&queue["deliveries"][0]["stats"]), given);
    assert_eq!(queue["incoming"][0]["exchange"]["name"], "");
    assert_eq!(counts(&queue["incoming"][0]["stats"]), json!({"publish": 3}));
    let exchange = get(&node, "/exchanges/%2F/amq.default");
    assert_eq!(exchange["incoming"][0]["channel_details"]["name"], *name);
    assert_eq!(counts(&exchange["incoming"][0]["stats"]), published);
    assert_eq!(counts(&of_q(&exchange["outgoing"])), json!({"publish": 3}));
    assert_eq!(counts(&exchange["message_stats"]), json!({"publish_in": 5, "publish_out": 3}));
    expect_families(&node, &name);
    client.close();
    expect_nothing_lost(&node);
    node.stop();
}

fn expect_families(node: &Node, channel: &str) {
    let (_, body) = scrape(
        node,
        "/metrics/detailed?family=channel_queue_metrics&family=channel_exchange_metrics\
         &family=queue_exchange_metrics&family=channel_queue_exchange_metrics&family=exchange_metrics",
    );
    let by_queue = format!("{{channel=\"{channel}\",vhost=\"/\",queue=\"q\"}}");
    let by_exchange = format!("{{channel=\"{channel}\",vhost=\"/\",exchange=\"\"}}");
    let by_both = format!(
        "{{channel=\"{channel}\",queue_vhost=\"/\",queue=\"q\",exchange_vhost=\"/\",exchange=\"\"}}"
    );
    let (pair, exchange) =
        ("{vhost=\"/\",exchange=\"\",queue=\"q\"}", "{vhost=\"/\",exchange=\"\"}");
    for (name, labels, n) in [
        ("channel_messages_delivered_ack_total", &*by_queue, 3),
        ("channel_messages_redelivered_total", &by_queue, 1),
        ("channel_messages_acked_total", &by_queue, 1),
        ("channel_get_total", &by_queue, 1),
        ("channel_messages_published_total", &by_exchange, 5),
        ("channel_messages_confirmed_total", &by_exchange, 5),
        ("channel_messages_unroutable_returned_total", &by_exchange, 1),
        ("queue_messages_published_total", &by_both, 3),
        ("queue_exchange_messages_published_total", pair, 3),
        ("exchange_messages_unroutable_dropped_total", exchange, 1),
    ] {
        let line = format!("\nrabbitmq_detailed_{name}{labels} {n}\n");
        assert!(body.contains(&line), "{line} is not in\n{body}");
    }
}

/// Figures of an ended connection are in those of what is left.
fn expect_nothing_lost(node: &Node) {
    wait_until("the channel is gone", || get(node, "/channels") == json!([]));
    let exchange = get(node, "/exchanges/%2F/amq.default");
    assert_eq!(counts(&exchange["message_stats"]), json!({"publish_in": 5, "publish_out": 3}));
    assert_eq!(exchange["incoming"], json!([]));
    assert_eq!(get(node, "/queues/%2F/q")["incoming"][0]["stats"]["publish"], 3);
    let (_, body) = scrape(node, "/metrics");
    for line in [
        "channel_messages_published_total 5",
        "channel_messages_confirmed_total 5",
        "channel_messages_delivered_ack_total 3",
        "channel_get_total 1",
        "channel_get_empty_total 1",
        "channel_messages_redelivered_total 1",
        "channel_messages_acked_total 1",
    ] {
        assert!(body.contains(&format!("\nrabbitmq_{line}\n")), "{line} is not in\n{body}");
    }
}

/// Whoever knocks is counted by address and name, if that is asked for.
#[test]
fn logins_are_counted_by_their_source() {
    let node = Node::start(&[&LISTENERS[..], &["track_auth_attempt_source=true"]].concat());
    Client::guest(node.address()).close();
    let status = ask(node.first_address(), "ann:wrong", "GET /whoami", "").status;
    assert_eq!(status, 401);
    let name = get(&node, "/overview")["node"].as_str().unwrap().to_owned();
    let path = format!("/auth/attempts/{name}/source");
    let of = |user: &str, protocol: &str, n_failed: u64, n_succeeded: u64| {
        json!({
            "remote_address": "127.0.0.1", "username": user, "protocol": protocol,
            "auth_attempts": n_failed + n_succeeded, "auth_attempts_failed": n_failed,
            "auth_attempts_succeeded": n_succeeded,
        })
    };
    let attempts = get(&node, &path);
    let attempts = attempts.as_array().unwrap();
    assert!(attempts.contains(&of("ann", "http", 1, 0)), "{attempts:?}");
    assert!(attempts.contains(&of("guest", "amqp091", 0, 1)), "{attempts:?}");
    let (_, body) = scrape(&node, "/metrics/detailed?family=auth_attempt_detailed_metrics");
    let line = "\nrabbitmq_detailed_auth_attempts_detailed_failed_total{remote_address=\"127.0.0.1\",\
                username=\"ann\",protocol=\"http\"} 1\n";
    assert!(body.contains(line), "{line} is not in\n{body}");
    assert!(!scrape(&node, "/metrics").1.contains("127.0.0.1"));
    let reset = ask(node.first_address(), "guest:guest", &format!("DELETE {path}"), "").status;
    assert_eq!((reset, get(&node, &path)), (204, json!([of("guest", "http", 0, 1)])));
    node.stop();
}

/// The sums of virtual hosts follow queues that change, and those that go.
#[test]
fn sums_follow_the_queues_that_change() {
    let node = Node::start(&LISTENERS);
    let mut client = Client::guest(node.address());
    let messages = |n: u64| {
        wait_until(&format!("{n} messages"), || {
            let overview = get(&node, "/overview");
            overview["queue_totals"]["messages"] == n && get(&node, "/vhosts/%2F")["messages"] == n
        });
    };
    messages(0);
    for queue in ["a", "b"] {
        client.declare(queue);
        (0..3).for_each(|_| client.put_publish(queue, true, b"x"));
    }
    client.flush();
    messages(6);
    assert!(client.get("a").is_some());
    messages(5);
    // What has changed once is looked at again.
    assert!(client.get("a").is_some());
    messages(4);
    let deleted = ask(node.first_address(), "guest:guest", "DELETE /queues/%2F/b", "").status;
    assert_eq!(deleted, 204);
    messages(1);
    let stats = get(&node, "/overview")["message_stats"].take();
    assert_eq!(counts(&stats), json!({"publish": 6, "get_no_ack": 2, "deliver_get": 2}));
    wait_until("the queue's past is known", || {
        let query = "?lengths_age=60&lengths_incr=5";
        let queue = get(&node, &format!("/queues/%2F/a{query}"));
        queue["messages_details"]["samples"][0]["sample"] == 1
    });
    client.close();
    node.stop();
}

/// A queue is used again, and one never: lists tell for how long, and are filtered by it.
#[test]
fn queues_that_nobody_uses_are_found() {
    let node = Node::start(&LISTENERS);
    let mut client = Client::guest(node.address());
    client.select_confirms();
    for queue in ["used", "unused"] {
        client.declare(queue);
    }
    let since = |queue| get(&node, &format!("/queues/%2F/{queue}"))["idle_since"].clone();
    let ages = || get(&node, "/queues?columns=name,idle_ms&sort=idle_ms&page=1&page_size=10");
    wait_until("they are seen", || ages()["items"][0]["idle_ms"] != 0);
    let (used, unused) = (since("used"), since("unused"));
    client.put_publish("used", false, b"x");
    client.wait_for_confirms();
    wait_until("its use is seen", || since("used") != used);
    assert_eq!(since("unused"), unused);
    let ages = ages();
    let [used, unused] = [0, 1].map(|at| ages["items"][at].clone());
    assert_eq!((&used["name"], &unused["name"]), (&json!("used"), &json!("unused")), "{ages}");
    let at_least = format!("/queues?page=1&page_size=10&where=idle_ms%3E={}", unused["idle_ms"]);
    let found = get(&node, &at_least);
    assert!(found["items"].as_array().unwrap().iter().any(|it| it["name"] == "unused"), "{found}");
    assert_eq!(
        get(&node, "/queues?page=1&page_size=10&where=idle_ms%3E=9000000")["filtered_count"],
        0
    );
    node.stop();
}
