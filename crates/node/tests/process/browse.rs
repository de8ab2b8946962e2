//! Messages that are looked at over HTTP: each once, wherever it is, and nobody feels it.

use super::http_api::{Api, ask};
use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{BasicAck, BasicNack, QueueDeclare};
use amqp091::{Properties, ShortString, Table, Value as Field};
use serde_json::{Value, json};
use testing::client::Client;

const N: u64 = 3_000;
const BODY_BYTES: usize = 2_000;

fn start(settings: &[&str]) -> Api {
    let http = ["management.enabled=true", "management.tcp.ip=127.0.0.1", "management.tcp.port=0"];
    Api(Node::start(&[&http, settings].concat()))
}

fn declare(client: &mut Client, queue: &str, arguments: &[(&str, Field)]) {
    let table: Table = (arguments.iter().cloned())
        .map(|(name, value)| (ShortString::new(name).unwrap(), value))
        .collect();
    let arguments = table.to_bytes();
    let declare = QueueDeclare {
        queue: queue.as_bytes(),
        durable: true,
        arguments: amqp091::TableRef::parse(&arguments).unwrap(),
        ..QueueDeclare::default()
    };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

fn fill(client: &mut Client, queue: &str) {
    let mut body = [b'x'; BODY_BYTES];
    for n in 0..N {
        let number = format!("{n:08}");
        body[..8].copy_from_slice(number.as_bytes());
        let properties = Properties {
            delivery_mode: Some(2),
            priority: Some((n % 3) as u8),
            timestamp: Some(1_000 + n),
            ..Properties::default()
        };
        client.put_message("", queue, &properties, &body);
        if n % 500 == 499 {
            client.wait_for_confirms();
        }
    }
    client.wait_for_confirms();
}

/// The numbers of the messages of all pages, from there on.
fn all_pages(api: &Api, queue: &str, from: Value) -> Vec<u64> {
    let (mut from, mut numbers) = (from, Vec::new());
    while !from.is_null() {
        let wanted = json!({"from": from, "limit": 499, "which": "all", "payload_bytes": 8});
        let page =
            api.expect(200, &format!("POST /queues/%2F/{queue}/browse"), &wanted.to_string());
        let messages = page["messages"].as_array().unwrap();
        numbers.extend(messages.iter().map(|it| {
            assert_eq!(
                (&it["payload_truncated"], &it["payload_bytes"]),
                (&json!(true), &json!(BODY_BYTES))
            );
            it["payload"].as_str().unwrap().parse::<u64>().unwrap()
        }));
        from = page["next"].clone();
        assert_eq!(from.is_null(), page["complete"] == true);
    }
    numbers
}

#[test]
fn each_message_is_seen_once_in_queues_of_all_types() {
    let api = start(&["backlog_memory=1MB"]);
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    let kinds: [(&str, &[(&str, Field)]); 5] = [
        ("classic", &[]),
        ("one", &[("x-queue-version", Field::I32(1))]),
        ("ordered", &[("x-max-priority", Field::I32(5))]),
        ("quorum", &[("x-queue-type", Field::from("quorum"))]),
        ("stream", &[("x-queue-type", Field::from("stream"))]),
    ];
    for (queue, arguments) in kinds {
        declare(&mut client, queue, arguments);
        fill(&mut client, queue);
        let rising: Vec<u64> = (0..N).collect();
        let falling: Vec<u64> = (0..N).rev().collect();
        assert_eq!(all_pages(&api, queue, json!("head")), rising, "{queue}");
        assert_eq!(all_pages(&api, queue, json!("tail")), falling, "{queue}");
        let behind = all_pages(&api, queue, json!({"position": N / 2}));
        assert!(behind == rising[rising.len() / 2..], "{queue}");
        if queue != "stream" {
            let late = all_pages(&api, queue, json!({"timestamp": (1_000 + N - 10) * 1_000}));
            assert!(late == rising[rising.len() - 10..], "{queue}");
            // A look that ends before it has come so far goes on to the same time.
            let since_ms = (1_000 + N - 10) * 1_000;
            let search = format!(
                "GET /queues/%2F/{queue}/search?timeout_ms=0&which=all&from=timestamp:{since_ms}"
            );
            let told = ask(api.0.http_address(), "guest:guest", &search, "").text;
            let end: Value =
                serde_json::from_str(told.split_once("event: end\ndata: ").unwrap().1).unwrap();
            assert_eq!((&end["matched"], &end["next"]["timestamp"]), (&json!(0), &json!(since_ms)));
            let late = all_pages(&api, queue, end["next"].clone());
            assert!(late == rising[rising.len() - 10..], "{queue}");
            // Nothing has changed: a consumer is given all of them as if nobody had looked.
            let first = client.get(queue).unwrap();
            assert!(!first.redelivered, "{queue}");
            let stat = api.expect(200, &format!("GET /queues/%2F/{queue}"), "");
            assert_eq!(stat["messages_ready"], N - 1, "{queue}");
            assert_eq!(stat["message_stats"]["deliver_get"], 1, "{queue}");
        }
    }
}

#[test]
fn who_holds_a_message_is_told() {
    let api = start(&[]);
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for (queue, arguments) in
        [("classic", &[][..]), ("quorum", &[("x-queue-type", Field::from("quorum"))])]
    {
        declare(&mut client, queue, arguments);
        for _ in 0..3 {
            client.put_publish(queue, true, b"x");
        }
        client.wait_for_confirms();
        let held = client.get_to_ack(queue).unwrap();
        let browse = format!("POST /queues/%2F/{queue}/browse");
        let page = api.expect(200, &browse, r#"{"which":"unacked"}"#);
        let [message] = &page["messages"].as_array().unwrap()[..] else { panic!("{page}") };
        assert_eq!((&message["state"], &message["deliveries"]), (&json!("unacked"), &json!(1)));
        assert_eq!(message["holder"]["number"], 1);
        assert_eq!(message["holder"]["user"], "guest");
        assert!(message["holder"]["since"].is_u64(), "{message}");
        let page = api.expect(200, &browse, "");
        assert_eq!((&page["matched"], &page["scanned"]), (&json!(2), &json!(3)));
        client.say(1, BasicAck { delivery_tag: held.tag, multiple: false });
        client.flush();
        wait_until("the message is gone", || {
            api.expect(200, &browse, r#"{"which":"all"}"#)["scanned"] == 2
        });
    }
}

#[test]
fn messages_are_shown_to_who_may_read_them() {
    let api = start(&["management.message_access=headers"]);
    let at = api.0.http_address();
    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let may = |read: &str| json!({"configure": "", "write": ".*", "read": read}).to_string();
    api.expect(201, "PUT /permissions/%2F/u", &may("^other"));
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let publish =
        r#"{"routing_key":"q","properties":{},"payload":"secret","payload_encoding":"string"}"#;
    api.expect(200, "POST /exchanges/%2F/amq.default/publish", publish);
    for request in
        ["POST /queues/%2F/q/browse", "POST /queues/%2F/q/search", "GET /queues/%2F/q/export"]
    {
        assert_eq!(ask(at, "u:p", request, "").status, 401, "{request}");
    }
    api.expect(204, "PUT /permissions/%2F/u", &may("^q"));
    let page = ask(at, "u:p", "POST /queues/%2F/q/browse", "");
    let message = &page.body["messages"][0];
    assert_eq!((&message["payload"], &message["payload_bytes"]), (&Value::Null, &json!(6)));
    assert_eq!(ask(at, "u:p", "POST /queues/%2F/none/browse", "").status, 404);
    for wrong in [
        r#"{"limit":501}"#,
        r#"{"from":"middle"}"#,
        r#"{"from":{"position":-1}}"#,
        r#"{"which":"some"}"#,
        r#"{"payload_bytes":"many"}"#,
        r#"{"headers_only":7}"#,
        r#"[]"#,
    ] {
        api.expect(400, "POST /queues/%2F/q/browse", wrong);
    }
    let api = start(&["management.message_access=none"]);
    api.expect(201, "PUT /queues/%2F/q", "{}");
    api.expect(403, "POST /queues/%2F/q/browse", "");
    api.expect(403, "GET /queues/%2F/q/export", "");
}

#[test]
fn a_search_tells_matches_as_events_and_a_wrong_filter_its_column() {
    let api = start(&[]);
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    declare(&mut client, "q", &[]);
    for n in 0..20 {
        client.put_publish("q", true, format!("{{\"order\":{{\"id\":{n}}}}}").as_bytes());
    }
    client.wait_for_confirms();
    let filtered = json!({"filter": "$.order.id BETWEEN 5 AND 6 AND NOT redelivered"}).to_string();
    let page = api.expect(200, "POST /queues/%2F/q/browse", &filtered);
    assert_eq!(
        (&page["matched"], &page["scanned"], &page["complete"]),
        (&json!(2), &json!(20), &json!(true))
    );
    let at = api.0.http_address();
    let search = |more: Value| {
        let mut wanted = json!({"filter": "$.order.id >= 17"});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(at, "guest:guest", "POST /queues/%2F/q/search", &wanted.to_string()).text
    };
    let told = search(json!({}));
    assert_eq!(told.matches("event: match\n").count(), 3, "{told}");
    let end = told.split_once("event: end\ndata: ").unwrap().1;
    let end: Value = serde_json::from_str(end.trim_end()).unwrap();
    assert_eq!((&end["complete"], &end["scanned"]), (&json!(true), &json!(20)));
    let told = search(json!({"scan_max": 18}));
    assert_eq!(told.matches("event: match\n").count(), 1, "{told}");
    assert!(
        told.contains("\"reason\":\"scan_max\"") && told.contains("{\"position\":18}"),
        "{told}"
    );
    let lines = ask(at, "guest:guest", "GET /queues/%2F/q/export?filter=%24.order.id%3C2", "").text;
    let numbers: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(numbers.len(), 2, "{lines}");
    assert_eq!(numbers[1]["payload"], "{\"order\":{\"id\":1}}");
    let wrong = api.expect(400, "POST /queues/%2F/q/search", r#"{"filter":"a = = 1"}"#);
    assert_eq!(wrong["column"], 5, "{wrong}");
}

#[test]
fn removed_messages_are_those_that_were_counted_and_stay_away() {
    let mut api = start(&["backlog_memory=1MB"]);
    let kinds: [(&str, &[(&str, Field)]); 4] = [
        ("classic", &[]),
        ("one", &[("x-queue-version", Field::I32(1))]),
        (
            "bounded",
            &[("x-max-priority", Field::I32(5)), ("x-max-length-bytes", Field::I64(1 << 30))],
        ),
        ("quorum", &[("x-queue-type", Field::from("quorum"))]),
    ];
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    let mut named_ones = Vec::new();
    for (queue, arguments) in kinds {
        declare(&mut client, queue, arguments);
        fill(&mut client, queue);
        let held = client.get_to_ack(queue).unwrap();
        let remove = format!("POST /queues/%2F/{queue}/remove");
        let select = |more: Value| {
            let mut wanted = json!({"select": {"filter": "priority = 1 AND timestamp >= 2000"}});
            wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            wanted.to_string()
        };
        let counted = api.expect(200, &remove, &select(json!({"dry_run": true})));
        let n = counted["matched"].as_u64().unwrap();
        assert_eq!(n, (1_000..N).filter(|n| n % 3 == 1).count() as u64, "{queue}");
        assert_eq!(counted["first"].as_array().unwrap().len(), 20);
        api.expect(400, &remove, &select(json!({})));
        let fewer = api.expect(409, &remove, &select(json!({"expected": n - 1})));
        assert_eq!(fewer["matched"], n);
        let removed = api.expect(200, &remove, &select(json!({"expected": n})));
        assert_eq!(removed["removed"], n, "{queue}");
        // What a consumer holds is the consumer's.
        let position = all_pages(&api, queue, json!("head"));
        assert_eq!(position.len() as u64, N - n, "{queue}");
        let of_held: u64 = std::str::from_utf8(&held.body[..8]).unwrap().parse().unwrap();
        let named = json!({"select": {"positions": [of_held, of_held + 3]}, "expected": 2});
        assert_eq!(api.expect(200, &remove, &named.to_string())["removed"], 1, "{queue}");
        named_ones.push(of_held + 3);
    }
    drop(client);
    api.0.kill_and_start();
    let at = api.0.http_address();
    for ((queue, _), named) in kinds.into_iter().zip(named_ones) {
        let browse = format!("POST /queues/%2F/{queue}/browse");
        wait_until("it is read", || ask(at, "guest:guest", &browse, "").status == 200);
        let left = all_pages(&api, queue, json!("head"));
        assert!(left.iter().all(|n| (*n < 1_000 || n % 3 != 1) && *n != named), "{queue}");
    }
    api.expect(
        201,
        "PUT /queues/%2F/s",
        r#"{"durable":true,"arguments":{"x-queue-type":"stream"}}"#,
    );
    api.expect(400, "POST /queues/%2F/s/remove", r#"{"select":"all","expected":0}"#);
    api.expect(400, "POST /queues/%2F/classic/remove", r#"{"select":"some","expected":0}"#);
    api.expect(
        400,
        "POST /queues/%2F/classic/remove",
        r#"{"select":{"filter":"a ="},"expected":0}"#,
    );
}

/// Messages of a quorum queue that wait an hour before they are tried again.
#[test]
fn messages_that_wait_to_be_tried_again_are_sent_now_or_at_another_time() {
    let mut api = start(&[]);
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    let hour = Field::I32(3_600_000);
    let arguments = [
        ("x-queue-type", Field::from("quorum")),
        ("x-delayed-retry-type", Field::from("all")),
        ("x-delayed-retry-min", hour.clone()),
        ("x-delayed-retry-max", hour),
    ];
    declare(&mut client, "q", &arguments);
    for n in 0..6 {
        let properties = Properties { priority: Some(n % 2), ..Properties::default() };
        client.put_message("", "q", &properties, n.to_string().as_bytes());
    }
    client.wait_for_confirms();
    // The last one stays ready.
    for _ in 0..5 {
        client.get_to_ack("q").unwrap();
    }
    client.say(1, BasicNack { delivery_tag: 0, multiple: true, requeue: true });
    let browse = |api: &Api, which: &str| -> Vec<(String, u64, Value)> {
        let wanted = json!({"which": which}).to_string();
        let page = api.expect(200, "POST /queues/%2F/q/browse", &wanted);
        let of = |it: &Value| {
            let position = it["position"].as_u64().unwrap();
            (it["payload"].as_str().unwrap().to_owned(), position, it["due_at"].clone())
        };
        page["messages"].as_array().unwrap().iter().map(of).collect()
    };
    wait_until("they wait", || browse(&api, "delayed").len() == 5);
    let waiting = browse(&api, "delayed");
    let position = |payload: &str| waiting.iter().find(|it| it.0 == payload).unwrap().1;
    let due = |api: &Api, payload: &str| {
        let waiting = browse(api, "delayed");
        waiting.into_iter().find(|it| it.0 == payload).unwrap().2.as_u64().unwrap()
    };
    let put = |api: &Api, status: u16, of: &str, body: &str| {
        api.expect(status, &format!("PUT /leveret/queues/%2F/{of}"), body)
    };
    let before = due(&api, "2");
    put(&api, 200, &format!("q/delayed/{}", position("2")), r#"{"delay_ms":36000000}"#);
    assert!(due(&api, "2") > before + 30_000_000);
    put(&api, 200, &format!("q/delayed/{}", position("0")), "");
    api.0.ctl_refused(&["reschedule_retry", "q", &position("0").to_string()]);
    let said = api.0.ctl(&["-s", "reschedule_retries", "q", "--filter", "priority = 1"]);
    assert_eq!(said, "Rescheduled 3 messages\n");
    put(&api, 404, "q/delayed/999", "");
    put(&api, 404, "none/delayed/1", "");
    put(&api, 400, "q/delayed", "");
    api.expect(201, "PUT /queues/%2F/classic", r#"{"durable":true}"#);
    put(&api, 404, "classic/delayed/1", "");
    let names = |all: Vec<(String, u64, Value)>| -> Vec<String> {
        all.into_iter().map(|it| it.0).collect()
    };
    let until = due(&api, "2");
    for is_killed in [false, true] {
        if is_killed {
            api.0.kill_and_start();
            wait_until("the queue is read", || {
                ask(api.0.http_address(), "guest:guest", "POST /queues/%2F/q/browse", "").status
                    == 200
            });
        }
        assert_eq!(names(browse(&api, "ready")), ["0", "1", "3", "4", "5"]);
        assert_eq!((names(browse(&api, "delayed")), due(&api, "2")), (vec!["2".to_owned()], until));
    }
    // Those that came back go first, as they came back.
    let mut client = Client::guest(api.0.address());
    let order: Vec<Vec<u8>> = std::iter::from_fn(|| client.get("q")).map(|it| it.body).collect();
    assert_eq!(order, [b"0", b"1", b"3", b"5", b"4"]);
}
