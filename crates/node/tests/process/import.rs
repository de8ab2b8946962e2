//! Messages in NDJSON, imported over HTTP and by the command line tool.

use super::http_api::{Api, ask};
use amqp091::{Properties, ShortString, Value as Field};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const GET: &str = r#"{"count":10000,"ackmode":"ack_requeue_false","encoding":"auto"}"#;

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn messages_come_into_a_queue_in_their_order_and_as_they_were() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let text = lines(&[
        json!({"routing_key": "other", "payload": "first", "properties": {"priority": 4}, "position": 9}),
        json!({"payload": "/w==", "payload_encoding": "base64", "properties_base64": "EAAC"}),
    ]);
    let told = api.expect(
        200,
        "POST /queues/%2F/q/import",
        &format!("{text}\n{}", r#"{"payload":"no end"}"#),
    );
    assert_eq!(told, json!({"published": 3, "routed": 3, "not_routed": [], "refused": []}));
    let got = api.expect(200, "POST /queues/%2F/q/get", GET);
    let of = |n: usize, field: &str| got[n][field].clone();
    assert_eq!((of(0, "payload"), of(0, "properties")), (json!("first"), json!({"priority": 4})));
    assert_eq!(
        (of(1, "payload"), of(1, "properties")),
        (json!("/w=="), json!({"delivery_mode": 2}))
    );
    assert_eq!((of(2, "payload"), of(2, "routing_key")), (json!("no end"), json!("q")));

    let many: Vec<Value> = (0..3_000).map(|n| json!({"payload": n.to_string()})).collect();
    let told =
        api.expect(200, "POST /exchanges/%2F/amq.default/import?routing_key=q", &lines(&many));
    assert_eq!((&told["published"], &told["routed"]), (&json!(3_000), &json!(3_000)));
    let got = api.expect(200, "POST /queues/%2F/q/get", GET);
    let payloads = got.as_array().unwrap().iter().map(|it| it["payload"].clone());
    assert!(payloads.eq((0..3_000).map(|n| json!(n.to_string()))));
    api.expect(404, "POST /queues/%2F/none/import", "");
    api.expect(404, "POST /exchanges/%2F/none/import", "");
}

#[test]
fn what_was_exported_is_imported_as_it_was() {
    let api = Api::start();
    let headers =
        [("count", Field::I32(7)), ("raw", Field::Bytes(vec![0xff])), ("at", Field::Timestamp(9))];
    let headers = headers.into_iter().map(|(name, value)| (ShortString::from_static(name), value));
    let properties = Properties { headers: Some(headers.collect()), ..Properties::default() };
    let properties = STANDARD.encode(properties.to_bytes());
    for queue in ["a", "b"] {
        api.expect(201, &format!("PUT /queues/%2F/{queue}"), "{}");
    }
    let line =
        json!({"payload": "/w==", "payload_encoding": "base64", "properties_base64": properties});
    api.expect(200, "POST /queues/%2F/a/import", &lines(&[line]));
    let exported = api.expect(200, "GET /queues/%2F/a/export", "");
    assert_eq!(
        (&exported["properties_base64"], &exported["payload"]),
        (&json!(properties), &json!("/w=="))
    );
    api.expect(200, "POST /queues/%2F/b/import", &exported.to_string());
    let again = api.expect(200, "GET /queues/%2F/b/export", "");
    for field in ["properties_base64", "properties", "payload", "payload_encoding", "exchange"] {
        assert_eq!(again[field], exported[field], "{field}");
    }
}

#[test]
fn what_does_not_arrive_is_told() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let full = r#"{"arguments":{"x-max-length":2,"x-overflow":"reject-publish"}}"#;
    api.expect(201, "PUT /queues/%2F/full", full);
    let to = |key: &str| json!({"routing_key": key, "payload": "x"});
    let keys = ["q", "none", "full", "full", "full", "q"].map(to);
    let told = api.expect(200, "POST /exchanges/%2F/amq.default/import", &lines(&keys));
    let not_routed = json!([{"line": 2, "routing_key": "none"}]);
    let refused = json!([{"line": 5, "routing_key": "full"}]);
    let expected =
        json!({"published": 5, "routed": 4, "not_routed": not_routed, "refused": refused});
    assert_eq!(told, expected);

    let text =
        format!("{}{}", lines(&[to("q"), to("q")]), "{\"payload\":7}\n{\"payload\":\"behind\"}\n");
    let told = api.expect(400, "POST /queues/%2F/q/import", &text);
    assert_eq!((&told["line"], &told["published"]), (&json!(3), &json!(2)));
    assert_eq!(told["reason"], "line 3: payload is missing or not a string; 2 messages published");
    let got = api.expect(200, "POST /queues/%2F/q/get", GET);
    assert_eq!(got.as_array().unwrap().len(), 4, "nothing behind it came");

    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    api.expect(201, "PUT /permissions/%2F/u", r#"{"configure":"","write":"","read":".*"}"#);
    let told = ask(api.0.http_address(), "u:p", "POST /queues/%2F/q/import", &lines(&[to("q")]));
    assert_eq!(told.status, 401, "{}", told.body);
    let foreign = json!({"payload": "x", "properties": {"user_id": "somebody"}});
    let told = api.expect(400, "POST /queues/%2F/q/import", &lines(&[to("q"), foreign, to("q")]));
    assert_eq!(told["line"], 2, "{told}");
}

#[test]
fn the_tool_imports_files_in_the_name_of_a_user() {
    let api = Api::start();
    api.expect(201, "PUT /queues/%2F/q", "{}");
    let file = api.0.data_dir().join("messages.ndjson");
    std::fs::write(&file, lines(&[json!({"payload": "x"}), json!({"payload": "y"})])).unwrap();
    let file = file.to_str().unwrap();
    let said = api.0.ctl(&["import_messages", "--user", "guest", "q", file]);
    assert!(said.ends_with("Published 2 messages, routed 2\n"), "{said}");
    let to_none =
        ["import_messages_to_exchange", "--user", "guest", "amq.topic", file, "--routing-key", "k"];
    let said = api.0.ctl(&to_none);
    assert!(
        said.contains("Published 2 messages, routed 0\nNot routed: line 1, routing key k\n"),
        "{said}"
    );
    let said = api.0.ctl_refused(&["import_messages", "--user", "nobody", "q", file]);
    assert!(said.contains("'nobody' does not exist"), "{said}");
    assert_eq!(api.expect(200, "POST /queues/%2F/q/get", GET).as_array().unwrap().len(), 2);
}
