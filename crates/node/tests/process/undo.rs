//! Messages that operators take away come back: as they were, from wherever a crash leaves them.

use super::http_api::{Api, HTTP, ask};
use super::support::node::Node;
use super::support::stream_client::{Client as StreamClient, code};
use super::support::wait_until;
use amqp091::{Properties, PropertiesRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use streamproto::command::{DeclarePublisher, QueryOffset, QueryPublisherSequence, StoreOffset};
use streamproto::{Chunk, Key, OffsetSpec, ResponseCode, ToClient};
use testing::client::Client;

const N: u64 = 300;

fn start(settings: &[&str]) -> Api {
    Api(Node::start(&[&HTTP, settings].concat()))
}

/// A queue with numbered messages, bound to an exchange.
fn filled(api: &Api, arguments: Value) -> Client {
    let declare = json!({"durable": true, "arguments": arguments}).to_string();
    api.expect(201, "PUT /queues/%2F/q", &declare);
    api.expect(201, "POST /bindings/%2F/e/amq.topic/q/q", r#"{"routing_key":"a.*"}"#);
    let mut client = Client::guest(api.0.address());
    client.select_confirms();
    for n in 0..N {
        let properties = Properties {
            delivery_mode: Some(2),
            priority: Some((n % 3) as u8),
            timestamp: Some(n),
            ..Properties::default()
        };
        client.put_message("amq.topic", "a.b", &properties, format!("{n:04}").as_bytes());
    }
    client.wait_for_confirms();
    client
}

fn n_ready(api: &Api) -> u64 {
    let page = r#"{"limit":1,"from":"tail"}"#;
    wait_until("the queue is read", || {
        ask(api.0.http_address(), "guest:guest", "POST /queues/%2F/q/browse", page).status == 200
    });
    api.expect(200, "GET /queues/%2F/q", "")["messages_ready"].as_u64().unwrap()
}

/// Does what can be undone; its number.
fn undoable(api: &Api, request: &str) -> u64 {
    let answer = api.ask(request, "");
    assert_eq!(answer.status, 204, "{answer:?}");
    let header = answer.head.lines().find_map(|line| line.strip_prefix("x-leveret-undo: "));
    header.unwrap().trim().parse().unwrap()
}

/// Brings it back: the job when it is over.
fn undo(api: &Api, id: u64) -> Value {
    let begun = api.expect(202, &format!("POST /undo/{id}"), "");
    let job = format!("GET /jobs/{}", begun["job"]);
    wait_until("the job has ended", || api.expect(200, &job, "")["state"] != "running");
    let job = api.expect(200, &job, "");
    assert_eq!(job["state"], "done", "{job}");
    job
}

/// The numbers of all messages, as they come; each is as it was published.
fn numbers(client: &mut Client) -> Vec<u64> {
    let all = std::iter::from_fn(|| client.get("q"));
    all.map(|it| {
        let number = std::str::from_utf8(&it.body).unwrap().parse().unwrap();
        let properties = PropertiesRef::parse(&it.properties).unwrap();
        assert_eq!(properties.timestamp(), Some(number));
        assert_eq!((&*it.exchange, &*it.routing_key), (&b"amq.topic"[..], &b"a.b"[..]));
        number
    })
    .collect()
}

fn by_priority(kind: &str) -> bool {
    ["ordered", "quorum"].contains(&kind)
}

/// The numbers of messages in the order in which a queue of that kind gives them out.
fn in_order(kind: &str, is_there: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut all: Vec<u64> = (0..N).filter(|n| is_there(*n)).collect();
    if by_priority(kind) {
        all.sort_by_key(|n| 2 - n % 3);
    }
    all
}

#[test]
fn what_was_purged_comes_back_as_it_was() {
    for (kind, arguments) in [
        ("classic", json!({})),
        ("quorum", json!({"x-queue-type": "quorum"})),
        ("one", json!({"x-queue-version": 1})),
        ("ordered", json!({"x-max-priority": 5})),
    ] {
        let api = start(&[]);
        let mut client = filled(&api, arguments);
        let told = api.expect(200, "DELETE /queues/%2F/q/contents?dry_run=true", "");
        assert_eq!((&told["undo"]["seconds"], &told["undo"]["all"]), (&json!(600), &json!(true)));
        let held = client.get_to_ack("q").unwrap();
        let id = undoable(&api, "DELETE /queues/%2F/q/contents");
        assert_eq!(
            (n_ready(&api), api.expect(200, "GET /queues/%2F/q", "")["messages"].as_u64()),
            (0, Some(1))
        );
        let entry = api.expect(200, &format!("GET /undo/{id}"), "");
        assert_eq!(
            (&entry["what"], &entry["messages"], &entry["left_out"]),
            (&json!("purge"), &json!(N - 1), &json!(0)),
            "{kind}"
        );
        assert_eq!(
            (&entry["queue"], &entry["user"], &entry["state"]),
            (&json!("q"), &json!("guest"), &json!("kept"))
        );
        assert_eq!(undo(&api, id)["done"], N - 1);
        api.expect(404, &format!("POST /undo/{id}"), "");
        assert_eq!(api.expect(200, "GET /undo", ""), json!([]));
        assert_eq!(held.routing_key, b"a.b");
        let first = if by_priority(kind) { 2 } else { 0 };
        assert_eq!(numbers(&mut client), in_order(kind, |n| n != first), "{kind}");
    }
}

#[test]
fn a_deleted_queue_comes_back_with_its_bindings() {
    for kind in ["classic", "quorum"] {
        let api = start(&[]);
        let arguments = json!({"x-queue-type": kind, "x-max-length": 100_000});
        let mut client = filled(&api, arguments.clone());
        let _held = client.get_to_ack("q").unwrap();
        let told = api.expect(200, "DELETE /queues/%2F/q?dry_run=true", "");
        assert_eq!(told["undo"]["all"], true);
        let id = undoable(&api, "DELETE /queues/%2F/q");
        api.expect(404, "GET /queues/%2F/q", "");
        // Another one of the name stands in the way.
        api.expect(201, "PUT /queues/%2F/q", r#"{"durable":true,"arguments":{"x-max-length":7}}"#);
        api.expect(409, &format!("POST /undo/{id}"), "");
        let other = undoable(&api, "DELETE /queues/%2F/q");
        api.expect(204, &format!("DELETE /undo/{other}"), "");
        api.expect(404, &format!("GET /undo/{other}"), "");
        assert_eq!(undo(&api, id)["done"], N, "{kind}");
        let queue = api.expect(200, "GET /queues/%2F/q", "");
        assert_eq!((&queue["arguments"], &queue["durable"]), (&arguments, &json!(true)));
        let bindings = api.expect(200, "GET /queues/%2F/q/bindings", "");
        assert_eq!(bindings[1]["routing_key"], "a.*", "{bindings}");
        client = Client::guest(api.0.address());
        assert_eq!(numbers(&mut client), in_order(kind, |_| true), "{kind}");
    }
}

#[test]
fn what_was_removed_comes_back() {
    let api = start(&[]);
    let mut client = filled(&api, json!({}));
    let remove = |body: Value| api.expect(200, "POST /queues/%2F/q/remove", &body.to_string());
    let select = json!({"filter": "body LIKE '00%'"});
    let told = remove(json!({"select": select, "dry_run": true}));
    assert_eq!((&told["matched"], &told["undo"]["all"]), (&json!(100), &json!(true)));
    let told = remove(json!({"select": select, "expected": 100}));
    assert_eq!((&told["removed"], &told["undo"]["messages"]), (&json!(100), &json!(100)));
    let other = remove(json!({"select": {"positions": [150, 299]}, "expected": 2}));
    assert_eq!((n_ready(&api), &other["undo"]["what"]), (N - 102, &json!("remove")));
    assert_eq!(undo(&api, told["undo"]["id"].as_u64().unwrap())["done"], 100);
    assert_eq!(undo(&api, other["undo"]["id"].as_u64().unwrap())["done"], 2);
    let expected = (100..N).filter(|n| ![150, 299].contains(n)).chain(0..100).chain([150, 299]);
    assert_eq!(numbers(&mut client), expected.collect::<Vec<_>>());
}

#[test]
fn queues_in_bulk_are_brought_back_one_by_one() {
    let api = start(&[]);
    let mut client = filled(&api, json!({}));
    let bulk = |body: &str| api.expect(200, "POST /bulk/queues/%2F/purge", body);
    assert_eq!(bulk(r#"{"pattern":"^q$"}"#)["figures"]["undo"]["all"], true);
    let told = bulk(r#"{"pattern":"^q$","expected":1}"#);
    assert_eq!((n_ready(&api), &told["undo"][0]["messages"]), (0, &json!(N)), "{told}");
    undo(&api, told["undo"][0]["id"].as_u64().unwrap());
    assert_eq!(numbers(&mut client).len() as u64, N);
}

#[test]
fn an_operator_of_the_machine_undoes_too() {
    let api = start(&[]);
    let mut client = filled(&api, json!({}));
    api.0.ctl(&["purge_queue", "q"]);
    let listed = api.0.ctl(&["-s", "list_undo"]);
    let row: Vec<&str> = listed.trim().split('\t').collect();
    assert_eq!(row[1..7], ["purge", "/", "q", "", "300", "0"], "{listed}");
    let said = api.0.ctl(&["undo", row[0]]);
    assert!(said.contains("Job 1 restores 300 messages"), "{said}");
    wait_until("they are back", || api.0.ctl(&["-s", "list_undo"]).trim().is_empty());
    assert_eq!(numbers(&mut client), (0..N).collect::<Vec<_>>());
    let said = api.0.ctl(&["-q", "delete_queue", "q"]);
    assert!(said.contains("successfully deleted with 0 ready messages"), "{said}");
    let listed = api.0.ctl(&["-s", "list_undo"]);
    api.0.ctl(&["forget_undo", listed.split('\t').next().unwrap()]);
    assert_eq!(api.0.ctl(&["-s", "list_undo"]).trim(), "");
    api.0.ctl_refused(&["undo", "7"]);
}

#[test]
fn what_a_full_queue_refuses_can_be_brought_back_later() {
    let api = start(&[]);
    let mut client = filled(&api, json!({}));
    let id = undoable(&api, "DELETE /queues/%2F/q/contents");
    let full = r#"{"pattern":"^q$","definition":{"max-length":100,"overflow":"reject-publish"}}"#;
    api.expect(201, "PUT /policies/%2F/full", full);
    let job = undo(&api, id);
    assert_eq!((&job["done"], &job["stayed"]["rejected by the queue"]), (&json!(100), &json!(200)));
    assert_eq!(api.expect(200, &format!("GET /undo/{id}"), "")["messages"], 200);
    api.expect(204, "DELETE /policies/%2F/full", "");
    assert_eq!(undo(&api, id)["done"], 200);
    assert_eq!(numbers(&mut client), (0..N).collect::<Vec<_>>());
}

#[test]
fn what_is_not_kept_is_told() {
    let api = start(&["management.undo_window=0"]);
    let _client = filled(&api, json!({}));
    let told = api.expect(200, "DELETE /queues/%2F/q/contents?dry_run=true", "");
    assert_eq!(told["undo"], Value::Null);
    let answer = api.ask("DELETE /queues/%2F/q/contents", "");
    assert!(answer.status == 204 && !answer.head.contains("x-leveret-undo"), "{answer:?}");
    let told = api.expect(200, "POST /queues/%2F/q/remove", r#"{"select":"all","expected":0}"#);
    assert_eq!((&told["undo"], n_ready(&api)), (&Value::Null, 0));
    assert_eq!(api.expect(200, "GET /undo", ""), json!([]));

    let api = start(&["management.undo_window=1"]);
    let _client = filled(&api, json!({}));
    let id = undoable(&api, "DELETE /queues/%2F/q/contents");
    wait_until("it is too late", || api.expect(200, "GET /undo", "") == json!([]));
    api.expect(404, &format!("POST /undo/{id}"), "");
    let dir = api.0.data_dir().join("undo");
    wait_until("its file is gone", || std::fs::read_dir(&dir).unwrap().next().is_none());
}

#[test]
fn who_may_not_do_it_may_not_undo_it() {
    let api = start(&[]);
    let _client = filled(&api, json!({}));
    let id = undoable(&api, "DELETE /queues/%2F/q/contents");
    for (user, read, write) in [("reader", ".*", ""), ("writer", "", ".*"), ("both", ".*", ".*")] {
        api.expect(201, &format!("PUT /users/{user}"), r#"{"password":"p","tags":"management"}"#);
        let rights = json!({"configure": "", "write": write, "read": read}).to_string();
        api.expect(201, &format!("PUT /permissions/%2F/{user}"), &rights);
    }
    api.expect(201, "PUT /users/stranger", r#"{"password":"p","tags":"management"}"#);
    let as_user = |user: &str, request: &str| {
        ask(api.0.http_address(), &format!("{user}:p"), &format!("{request}/{id}"), "").status
    };
    assert_eq!((as_user("stranger", "GET /undo"), as_user("reader", "GET /undo")), (404, 200));
    assert_eq!((as_user("reader", "POST /undo"), as_user("writer", "POST /undo")), (401, 401));
    assert_eq!((as_user("stranger", "POST /undo"), as_user("writer", "DELETE /undo")), (404, 401));
    assert_eq!(as_user("both", "POST /undo"), 202);
    wait_until("they are back", || n_ready(&api) == N);
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let mut api = start(&[]);
    drop(filled(&api, json!({})));
    let whole = undoable(&api, "DELETE /queues/%2F/q/contents");
    let dir = api.0.data_dir().join("undo");
    api.0.kill();
    let bytes = std::fs::read(dir.join(format!("{whole}.undo"))).unwrap();
    std::fs::write(dir.join("1.undo"), "garbage").unwrap();
    std::fs::write(dir.join("2.undo"), "").unwrap();
    let until = |n: usize| bytes[..n].to_vec();
    std::fs::write(dir.join("3.undo"), until(bytes.len() - 5)).unwrap();
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    std::fs::write(dir.join("4.undo"), changed).unwrap();
    std::fs::write(dir.join("5.undo"), until(bytes.len() / 2)).unwrap();
    std::fs::write(dir.join("readme.txt"), "not ours").unwrap();
    api.0.start_again();
    let all = api.expect(200, "GET /undo", "");
    let shown = |id: u64| all.as_array().unwrap().iter().find(|it| it["id"] == id).unwrap().clone();
    assert_eq!(all.as_array().unwrap().len(), 4, "{all}");
    assert_eq!(
        (&shown(3)["state"], &shown(3)["is_damaged"]),
        (&json!("interrupted"), &json!(true))
    );
    assert_eq!((&shown(3)["messages"], &shown(4)["is_damaged"]), (&json!(N), &json!(false)));
    assert_eq!((&shown(5)["messages"], &shown(5)["is_damaged"]), (&json!(0), &json!(true)));
    assert_eq!(n_ready(&api), 0);
    let job = undo(&api, 4);
    assert_eq!(job["stayed"], json!({"unreadable undo data": 1}), "{job}");
    assert_eq!(api.expect(200, "GET /undo/4", "")["is_damaged"], true);
    assert_eq!(undo(&api, 5)["done"], 0);
    assert_eq!(undo(&api, 3)["done"], N);
    let mut client = Client::guest(api.0.address());
    assert_eq!(numbers(&mut client), (0..N).collect::<Vec<_>>());
    assert_eq!(undo(&api, whole)["done"], N);
}

#[test]
fn no_message_is_lost_when_the_node_is_killed_in_a_purge_and_in_its_undo() {
    const MANY: u64 = 100_000;
    for kind in ["classic", "quorum"] {
        let mut api = start(&["backlog_memory=8MB"]);
        let declare = json!({"durable": true, "arguments": {"x-queue-type": kind}}).to_string();
        api.expect(201, "PUT /queues/%2F/q", &declare);
        let mut client = Client::guest(api.0.address());
        client.select_confirms();
        for n in 0..MANY {
            client.put_content("", "q", 2, format!("{n:0300}").as_bytes());
            if n % 1_000 == 999 {
                client.wait_for_confirms();
            }
        }
        // Nobody waits for the answer.
        let login = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
        let request =
            format!("DELETE /api/queues/%2F/q/contents HTTP/1.1\r\nhost: here\r\n{login}\r\n\r\n");
        let mut socket = TcpStream::connect(api.0.http_address()).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        wait_until("some are gone", || n_ready(&api) < MANY);
        api.0.kill_and_start();
        let n_left = n_ready(&api);
        let entry = api.expect(200, "GET /undo", "")[0].clone();
        assert!(n_left + entry["messages"].as_u64().unwrap() >= MANY, "{kind}: {n_left} {entry}");
        let id = entry["id"].as_u64().unwrap();
        api.expect(202, &format!("POST /undo/{id}"), "");
        wait_until("some are back", || n_ready(&api) > n_left);
        api.0.kill_and_start();
        n_ready(&api);
        let is_left = api.ask(&format!("GET /undo/{id}"), "").status == 200;
        if is_left {
            undo(&api, id);
        }
        let n = n_ready(&api);
        let mut client = Client::guest(api.0.address());
        client.consume("q", true);
        let bodies: BTreeSet<Vec<u8>> = (0..n).map(|_| client.message().unwrap().body).collect();
        assert_eq!(bodies.len() as u64, MANY, "{kind}");
    }
}

/// A client that publishes to the stream as 1, by a name.
fn publisher(api: &Api) -> StreamClient {
    let mut client = StreamClient::open(api.0.stream_address(), "/");
    let (publisher_id, reference, stream) = (1, "app", "s");
    client.says(&DeclarePublisher { correlation_id: 8, publisher_id, reference, stream });
    assert_eq!(client.hears(), code(Key::DeclarePublisher, 8, ResponseCode::OK));
    client
}

/// Publishes messages with these ids, each confirmed.
fn publish(client: &mut StreamClient, ids: std::ops::Range<u64>) {
    for id in ids {
        client.publish(1, id);
        let heard = client.hears();
        assert!(heard.contains("PublishConfirm"), "{heard}");
    }
}

/// The offsets of the messages from `first` on, up to `upto`.
fn offsets(api: &Api, first: u64, upto: u64) -> Vec<u64> {
    let mut client = StreamClient::open(api.0.stream_address(), "/");
    client.subscribe(0, "s", OffsetSpec::Offset(first), 1_000);
    let mut all = Vec::new();
    while all.last() != Some(&upto) {
        let frame = client.try_frame().unwrap();
        let ToClient::Deliver(deliver) = ToClient::decode(&frame).unwrap() else {
            panic!("{frame:?}")
        };
        let chunk = Chunk::decode_delivered(deliver.chunk.0).unwrap();
        all.extend(chunk.entries().map(|entry| entry.unwrap().0).filter(|it| *it >= first));
    }
    all
}

fn number_of(client: &mut StreamClient, command: &str) -> u64 {
    let (reference, stream) = ("app", "s");
    match command {
        "offset" => client.says(&QueryOffset { correlation_id: 9, reference, stream }),
        _ => client.says(&QueryPublisherSequence { correlation_id: 9, reference, stream }),
    }
    let frame = client.try_frame().unwrap();
    match ToClient::decode(&frame).unwrap() {
        ToClient::QueryPublisherSequenceResponse(last) => last.sequence,
        ToClient::QueryOffsetResponse(last) => last.offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deleted_stream_comes_back_as_it_was() {
    /// A stored offset takes one.
    const N_OFFSETS: u64 = 101;
    for is_killed in [false, true] {
        let mut api = start(&[]);
        let declare = r#"{"durable":true,"arguments":{"x-queue-type":"stream","x-max-age":"7D"}}"#;
        api.expect(201, "PUT /queues/%2F/s", declare);
        api.expect(201, "POST /bindings/%2F/e/amq.topic/q/s", r#"{"routing_key":"a.*"}"#);
        let mut client = publisher(&api);
        publish(&mut client, 1..101);
        client.says(&StoreOffset { reference: "app", stream: "s", offset: 40 });
        wait_until("it is stored", || number_of(&mut client, "offset") == 40);
        let told = api.expect(200, "DELETE /queues/%2F/s?dry_run=true", "");
        assert_eq!(
            (&told["undo"]["all"], &told["messages_ready"]),
            (&json!(true), &json!(N_OFFSETS))
        );
        let bulk = |request: &str| api.expect(200, "POST /bulk/queues/%2F/delete", request);
        let told = bulk(r#"{"pattern":"^s$"}"#);
        assert_eq!(told["figures"]["undo"]["all"], true, "{told}");
        let id = match is_killed {
            true => undoable(&api, "DELETE /queues/%2F/s"),
            false => {
                let told = bulk(r#"{"pattern":"^s$","expected":1}"#);
                told["undo"][0]["id"].as_u64().unwrap()
            }
        };
        api.expect(404, "GET /queues/%2F/s", "");
        if is_killed {
            api.0.kill_and_start();
        }
        let entry = api.expect(200, &format!("GET /undo/{id}"), "");
        assert_eq!(
            (&entry["what"], &entry["messages"]),
            (&json!("delete"), &json!(N_OFFSETS)),
            "{entry}"
        );
        api.expect(201, "PUT /queues/%2F/s", declare);
        let refused = api.expect(409, &format!("POST /undo/{id}"), "");
        assert_eq!(refused["reason"], "another stream of this name exists");
        let other = undoable(&api, "DELETE /queues/%2F/s");
        api.expect(204, &format!("DELETE /undo/{other}"), "");
        let job = undo(&api, id);
        assert_eq!((&job["done"], &job["total"]), (&json!(N_OFFSETS), &json!(N_OFFSETS)));
        if is_killed {
            api.0.kill_and_start();
        }
        assert_eq!(api.expect(200, "GET /undo", ""), json!([]));
        let bindings = api.expect(200, "GET /queues/%2F/s/bindings", "");
        assert_eq!(bindings[1]["routing_key"], "a.*", "{bindings}");
        let queue = api.expect(200, "GET /queues/%2F/s", "");
        assert_eq!(queue["arguments"]["x-max-age"], "7D");
        // What was sent before is known, and offsets go on.
        let mut client = publisher(&api);
        assert_eq!(number_of(&mut client, "sequence"), 100);
        assert_eq!(number_of(&mut client, "offset"), 40);
        publish(&mut client, 91..106);
        let expected = |first: u64| (first..106).filter(|at| *at != 100).collect::<Vec<_>>();
        assert_eq!(offsets(&api, 90, 105), expected(90));
        if is_killed {
            api.0.kill_and_start();
            assert_eq!(offsets(&api, 0, 105), expected(0));
        }
        let dirs = std::fs::read_dir(api.0.data_dir().join("streams")).unwrap();
        assert_eq!(dirs.count(), 1, "files of other streams are gone");
    }
}
