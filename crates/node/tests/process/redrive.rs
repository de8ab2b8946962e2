//! Messages that are sent on: at the new place before they leave the old one.

use super::http_api::{Api, ask};
use super::support::wait_until;
use amqp091::method::BasicReject;
use amqp091::{PropertiesRef, ValueRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testing::client::Client;

const N: u64 = 500;

/// A queue whose rejected messages are in another one, by an exchange.
fn with_dead_letters(api: &Api, kind: &str) -> Client {
    let durable = |arguments: Value| json!({"durable": true, "arguments": arguments}).to_string();
    api.expect(201, "PUT /exchanges/%2F/orders", r#"{"type":"direct","durable":true}"#);
    let work = json!({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"});
    api.expect(201, "PUT /queues/%2F/work", &durable(work));
    api.expect(201, "PUT /queues/%2F/dead", &durable(json!({"x-queue-type": kind})));
    api.expect(201, "POST /bindings/%2F/e/orders/q/work", r#"{"routing_key":"new"}"#);
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for n in 0..N {
        client.put_content("orders", "new", 2, format!("{n:04}").as_bytes());
    }
    client.wait_for_confirms();
    while let Some(message) = client.get_to_ack("work") {
        client.say(1, BasicReject { delivery_tag: message.tag, requeue: false });
    }
    wait_until("all are dead", || n_ready(api, "dead") == N);
    client
}

fn n_ready(api: &Api, queue: &str) -> u64 {
    let page = json!({"limit": 1, "from": "tail"}).to_string();
    api.expect(200, &format!("POST /queues/%2F/{queue}/browse"), &page);
    api.expect(200, &format!("GET /queues/%2F/{queue}"), "")["messages_ready"].as_u64().unwrap()
}

fn redrive(api: &Api, wanted: &Value) -> Value {
    let begun = api.expect(202, "POST /queues/%2F/dead/redrive", &wanted.to_string());
    let job = format!("GET /jobs/{}", begun["job"]);
    let mut now = api.expect(200, &job, "");
    while now["state"] == "running" {
        let before = std::mem::take(&mut now);
        wait_until("the job goes on", || {
            now = api.expect(200, &job, "");
            now != before
        });
    }
    now
}

#[test]
fn dead_letters_go_back_to_where_they_came_from() {
    for kind in ["classic", "quorum"] {
        let api = Api::start();
        let mut client = with_dead_letters(&api, kind);
        let wanted = json!({"select": "all", "to": "origin", "dry_run": true});
        let told = api.expect(200, "POST /queues/%2F/dead/redrive", &wanted.to_string());
        assert_eq!((&told["matched"], n_ready(&api, "dead")), (&json!(N), N));
        let target =
            json!({"messages": N, "exchange": "orders", "routing_key": "new", "problem": null});
        assert_eq!(told["targets"], json!([target]));
        let job = redrive(&api, &json!({"select": {"filter": "body LIKE '00%'"}, "to": "origin"}));
        assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(100)), "{job}");
        assert_eq!((n_ready(&api, "dead"), n_ready(&api, "work")), (N - 100, 100));
        let job =
            redrive(&api, &json!({"select": "all", "to": "origin", "limit": 300, "rate": 100_000}));
        assert_eq!(job["done"], 300, "{job}");
        let first = client.get("work").unwrap();
        assert_eq!((&*first.body, &*first.exchange), (&b"0000"[..], &b"orders"[..]));
        let headers = PropertiesRef::parse(&first.properties).unwrap().headers().unwrap();
        assert!(matches!(headers.get(b"x-redriven"), Some(ValueRef::I64(1))));
        assert!(headers.get(b"x-death").is_some());
        let job =
            redrive(&api, &json!({"select": "all", "to": {"queue": "work"}, "clear_deaths": true}));
        assert_eq!((&job["done"], &job["total"]), (&json!(100), &json!(100)), "{job}");
        let numbers: BTreeSet<Vec<u8>> =
            std::iter::from_fn(|| client.get("work")).map(|it| it.body).collect();
        assert_eq!((numbers.len() as u64, n_ready(&api, "dead")), (N - 1, 0));
    }
}

#[test]
fn messages_that_find_no_place_stay() {
    let api = Api::start();
    let _client = with_dead_letters(&api, "classic");
    let full = r#"{"arguments":{"x-max-length":10,"x-overflow":"reject-publish"}}"#;
    api.expect(201, "PUT /queues/%2F/full", full);
    let job = redrive(&api, &json!({"select": "all", "to": {"queue": "full"}, "limit": 30}));
    assert_eq!((&job["done"], &job["stayed"]), (&json!(10), &json!({"rejected by a queue": 20})));
    let job = redrive(&api, &json!({"select": "all", "to": {"queue": "none"}, "limit": 3}));
    assert_eq!((&job["done"], &job["stayed"]), (&json!(0), &json!({"unroutable": 3})));
    let to = json!({"exchange": "none", "routing_key": "k"});
    let job = redrive(&api, &json!({"select": "all", "to": to, "limit": 3}));
    assert_eq!(job["stayed"], json!({"the exchange does not exist": 3}));
    assert_eq!(n_ready(&api, "dead"), N - 10);
    api.expect(400, "POST /queues/%2F/dead/redrive", r#"{"select":"all"}"#);
    api.expect(400, "POST /queues/%2F/dead/redrive", r#"{"select":"all","to":{"exchange":"x"}}"#);
    api.expect(404, "POST /queues/%2F/none/redrive", r#"{"select":"all","to":"origin"}"#);
    // Rates and pauses: a job that is slow enough to be met.
    let slow = json!({"select": "all", "to": {"queue": "work"}, "rate": 1}).to_string();
    let begun = api.expect(202, "POST /queues/%2F/dead/redrive", &slow);
    let job = format!("/jobs/{}", begun["job"]);
    assert_eq!(api.expect(200, &format!("PUT {job}"), r#"{"state":"paused"}"#)["state"], "paused");
    assert_eq!(api.expect(200, &format!("DELETE {job}"), "")["state"], "cancelled");
    api.expect(400, &format!("PUT {job}"), r#"{"state":"running"}"#);
    assert_eq!(api.expect(200, "GET /jobs", "")[0]["state"], "cancelled");
    api.expect(404, "GET /jobs/77", "");
}

/// A queue with so many persistent messages.
fn filled(api: &Api, kind: &str, n: u64) {
    let durable =
        |kind: &str| json!({"durable": true, "arguments": {"x-queue-type": kind}}).to_string();
    api.expect(201, "PUT /queues/%2F/dead", &durable(kind));
    api.expect(201, "PUT /queues/%2F/work", &durable("classic"));
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for n in 0..n {
        client.put_content("", "dead", 2, format!("{n:06}").as_bytes());
    }
    client.wait_for_confirms();
}

/// The bodies of a queue's messages, as an export tells them.
fn bodies(at: std::net::SocketAddr, queue: &str) -> Vec<String> {
    let exported = ask(at, "guest:guest", &format!("POST /queues/%2F/{queue}/export"), "");
    assert_eq!(exported.status, 200, "{}", exported.text);
    let body = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["payload"].as_str().unwrap().to_owned()
    };
    exported.text.lines().map(body).collect()
}

#[test]
fn no_message_is_lost_when_the_node_is_killed_while_they_are_sent_on() {
    const N: usize = 100_000;
    for kind in ["classic", "quorum"] {
        let mut api = Api::start();
        filled(&api, kind, N as u64);
        let all = json!({"select": "all", "to": {"queue": "work"}}).to_string();
        let begun = api.expect(202, "POST /queues/%2F/dead/redrive", &all);
        let job = format!("GET /jobs/{}", begun["job"]);
        wait_until("some are sent on", || api.expect(200, &job, "")["done"].as_u64() > Some(0));
        api.0.kill_and_start();
        let at = api.0.http_address();
        let is_read = |queue| {
            let browse = format!("POST /queues/%2F/{queue}/browse");
            ask(at, "guest:guest", &browse, "").status == 200
        };
        wait_until("queues are read", || is_read("dead") && is_read("work"));
        let (dead, work) = (bodies(at, "dead"), bodies(at, "work"));
        assert!(!work.is_empty() && dead.len() + work.len() >= N);
        let all: BTreeSet<&String> = dead.iter().chain(&work).collect();
        assert_eq!(all.len(), N, "{kind}");
        let job = redrive(&api, &json!({"select": "all", "to": {"queue": "work"}}));
        assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(dead.len())), "{job}");
        let work: BTreeSet<String> = bodies(at, "work").into_iter().collect();
        assert_eq!((work.len(), n_ready(&api, "dead")), (N, 0), "{kind}");
    }
}

#[test]
fn messages_go_to_another_broker_and_leave_once_it_has_confirmed_them() {
    const N: u64 = 300;
    let (here, mut there) = (Api::start(), Api::start());
    filled(&here, "quorum", N);
    there.expect(201, "PUT /queues/%2F/there", r#"{"durable":true}"#);
    let full = r#"{"arguments":{"x-max-length":0,"x-overflow":"reject-publish"}}"#;
    there.expect(201, "PUT /queues/%2F/full", full);
    let uri = |password: &str| format!("amqp://guest:{password}@{}/%2F", there.0.address());
    let to = |uri: &str, queue: &str| json!({"uri": uri, "queue": queue});
    let job =
        |to: Value, limit: u64| redrive(&here, &json!({"select": "all", "to": to, "limit": limit}));
    let sent = job(to(&uri("guest"), "there"), 200);
    assert_eq!((&sent["state"], &sent["done"]), (&json!("done"), &json!(200)), "{sent}");
    assert!(!sent.to_string().contains("guest:guest@"), "{sent}");
    assert_eq!((n_ready(&here, "dead"), n_ready(&there, "there")), (N - 200, 200));
    for (queue, reason) in
        [("none", "unroutable on the other broker"), ("full", "rejected by the other broker")]
    {
        assert_eq!(job(to(&uri("guest"), queue), 10)["stayed"], json!({reason: 10}));
    }
    let exchange = json!({"uri": uri("guest"), "exchange": "none", "routing_key": ""});
    let stayed = json!({"the exchange does not exist on the other broker": 10});
    assert_eq!(job(exchange, 10)["stayed"], stayed);
    let refused = job(to(&uri("wrong"), "there"), 10);
    assert_eq!((&refused["state"], &refused["done"]), (&json!("failed"), &json!(0)), "{refused}");
    assert_eq!(refused["stayed"], json!({"not sent": 10}));
    assert_eq!(n_ready(&here, "dead"), N - 200);
    let one = ["redrive_messages", "dead", "--all", "--limit", "1", "--to-queue", "there"];
    here.0.ctl(&[&one[..], &["--to-uri", &uri("guest")]].concat());
    wait_until("one more is there", || n_ready(&there, "there") == 201);
    // A broker that goes away costs nothing.
    let slow = json!({"select": "all", "to": to(&uri("guest"), "there"), "rate": 20}).to_string();
    let begun = here.expect(202, "POST /queues/%2F/dead/redrive", &slow);
    let job = format!("GET /jobs/{}", begun["job"]);
    wait_until("some are sent", || here.expect(200, &job, "")["done"].as_u64() > Some(0));
    there.0.kill_and_start();
    wait_until("it fails", || here.expect(200, &job, "")["state"] == "failed");
    let at = there.0.http_address();
    let browse = "POST /queues/%2F/there/browse";
    wait_until("it is read", || ask(at, "guest:guest", browse, "").status == 200);
    let (dead, arrived) = (bodies(here.0.http_address(), "dead"), bodies(at, "there"));
    let all: BTreeSet<&String> = dead.iter().chain(&arrived).collect();
    assert_eq!(all.len() as u64, N);
}

#[test]
fn messages_are_sent_to_other_brokers_by_policymakers_alone() {
    let api = Api::start();
    filled(&api, "classic", 1);
    api.expect(201, "PUT /users/reader", r#"{"password":"reader","tags":"management"}"#);
    let all = r#"{"configure":".*","write":".*","read":".*"}"#;
    api.expect(201, "PUT /permissions/%2F/reader", all);
    let wanted = r#"{"select":"all","to":{"uri":"amqp://127.0.0.1:1"},"dry_run":true}"#;
    let ask_as = |login: &str| {
        ask(api.0.http_address(), login, "POST /queues/%2F/dead/redrive", wanted).status
    };
    assert_eq!((ask_as("reader:reader"), ask_as("guest:guest")), (401, 200));
    let wrong = r#"{"select":"all","to":{"uri":"http://x"}}"#;
    api.expect(400, "POST /queues/%2F/dead/redrive", wrong);
}
