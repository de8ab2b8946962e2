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
    wait_until("the job is over", || api.expect(200, &job, "")["state"] != "running");
    api.expect(200, &job, "")
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
    assert_eq!(
        (&job["done"], &job["stayed"]),
        (&json!(10), &json!({"a queue has refused it": 20}))
    );
    let job = redrive(&api, &json!({"select": "all", "to": {"queue": "none"}, "limit": 3}));
    assert_eq!(
        (&job["done"], &job["stayed"]),
        (&json!(0), &json!({"no queue is bound for it": 3}))
    );
    let to = json!({"exchange": "none", "routing_key": "k"});
    let job = redrive(&api, &json!({"select": "all", "to": to, "limit": 3}));
    assert_eq!(job["stayed"], json!({"there is no such exchange": 3}));
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

#[test]
fn no_message_is_lost_when_the_node_is_killed_while_they_are_sent_on() {
    for kind in ["classic", "quorum"] {
        let mut api = Api::start();
        let client = with_dead_letters(&api, kind);
        let all = json!({"select": "all", "to": "origin", "rate": 5_000}).to_string();
        let begun = api.expect(202, "POST /queues/%2F/dead/redrive", &all);
        let job = format!("GET /jobs/{}", begun["job"]);
        wait_until("some are sent on", || api.expect(200, &job, "")["done"].as_u64() > Some(0));
        drop(client);
        api.0.kill_and_start();
        let at = api.0.http_address();
        let is_read = |queue| {
            let browse = format!("POST /queues/%2F/{queue}/browse");
            ask(at, "guest:guest", &browse, "").status == 200
        };
        wait_until("queues are read", || is_read("dead") && is_read("work"));
        assert!(n_ready(&api, "dead") + n_ready(&api, "work") >= N);
        let job = redrive(&api, &json!({"select": "all", "to": "origin"}));
        assert_eq!(job["state"], "done", "{job}");
        let mut client = Client::guest(api.0.address());
        let numbers: BTreeSet<Vec<u8>> =
            std::iter::from_fn(|| client.get("work")).map(|it| it.body).collect();
        assert_eq!((numbers.len() as u64, n_ready(&api, "dead")), (N, 0), "{kind}");
    }
}
