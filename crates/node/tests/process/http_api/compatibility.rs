//! Answers that clients of RabbitMQ's HTTP API rely on: places, columns, pages, and who need not log in.

use super::{Answer, Api, ask, ask_at, ask_with};
use crate::support::wait_until;
use serde_json::{Value, json};
use testing::client::Client;

fn location(answer: &Answer) -> &str {
    let place = answer.head.split("location: ").nth(1);
    place.unwrap_or_else(|| panic!("{}", answer.head)).lines().next().unwrap()
}

/// A text as a part of an address.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Terraform takes the last part of the place apart, and asks for the binding that it names.
#[test]
fn a_new_binding_is_where_its_answer_says() {
    let api = Api::start();
    for queue in ["q", "a%20b", "a%2Fb", "%C3%A9", "x~y"] {
        api.expect(201, &format!("PUT /queues/%2F/{queue}"), "{}");
        let answer = api.ask(&format!("POST /bindings/%2F/e/amq.topic/q/{queue}"), "{}");
        let shown = queue.replace("%20", "+");
        assert_eq!(location(&answer), format!("{shown}/~"), "{queue}");
    }
    api.expect(201, "PUT /exchanges/%2F/a%20b", r#"{"type": "fanout"}"#);
    let answer = api.ask("POST /bindings/%2f/e/a%20b/e/amq.fanout", r#"{"routing_key": "k"}"#);
    assert_eq!(location(&answer), "../../../../%2F/e/a+b/e/amq.fanout/k");
    for (key, shown, place) in [
        ("a b", "a+b", "a%2Bb"),
        ("a+b", "a%2Bb", "a%252Bb"),
        ("é", "%C3%A9", "%25C3%25A9"),
        ("~", "%7E", "%257E"),
        ("%", "%25", "%2525"),
        ("a/b", "a%2Fb", "a%252Fb"),
        ("k%20", "k%2520", "k%252520"),
        ("#.*", "%23.%2A", "%2523.%252A"),
        ("a=b&c?d", "a%3Db%26c%3Fd", "a%253Db%2526c%253Fd"),
    ] {
        let of = "/bindings/%2F/e/amq.direct/q/q";
        let answer = api.ask(&format!("POST {of}"), &json!({"routing_key": key}).to_string());
        assert_eq!((answer.status, location(&answer)), (201, &*format!("q/{place}")), "{key}");
        let rows = api.expect(200, &format!("GET {of}"), "");
        assert_eq!(rows[0]["properties_key"], shown, "{rows}");
        let found = api.expect(200, &format!("GET {of}/{place}"), "");
        assert_eq!(found["routing_key"], key);
        api.expect(204, &format!("DELETE {of}/{}", encoded(shown)), "");
    }
    // Of two of which the one is spelled as the other, it is the one that is meant.
    let of = "/bindings/%2F/e/amq.direct/q/q";
    for key in ["a+b", "a b"] {
        api.expect(201, &format!("POST {of}"), &json!({"routing_key": key}).to_string());
    }
    for (place, key) in [("a%2Bb", "a b"), ("a%252Bb", "a+b")] {
        assert_eq!(api.expect(200, &format!("GET {of}/{place}"), "")["routing_key"], key);
    }
    let body = r#"{"routing_key": "k l", "arguments": {"x": 1}}"#;
    let answer = api.ask(&format!("POST {of}"), body);
    let place = location(&answer).strip_prefix("q/").unwrap().to_owned();
    assert!(place.starts_with("k%2Bl~"), "{place}");
    assert_eq!(api.expect(200, &format!("GET {of}/{place}"), "")["arguments"], json!({"x": 1}));
    api.0.stop();
}

#[test]
fn a_form_says_what_is_shown_after_an_import() {
    let api = Api::start();
    let import = |place: &str| {
        let part = |name: &str, text: &str| {
            format!("--xy\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
        };
        let form = part("redirect", place)
            + &part("file", r#"{"vhosts": [{"name": "v"}]}"#)
            + "--xy--\r\n";
        let kind = "content-type: multipart/form-data; boundary=xy\r\n";
        ask_with(api.0.http_address(), "guest:guest", "POST /definitions", (kind, &form))
    };
    let shown = import("/#/import-succeeded");
    assert_eq!((shown.status, location(&shown)), (303, "/#/import-succeeded"));
    for elsewhere in ["//other/", "http://other/", "/\\other"] {
        assert_eq!(import(elsewhere).status, 204, "{elsewhere}");
    }
    api.expect(200, "GET /vhosts/v", "");
    api.0.stop();
}

/// A node with an object of each kind, and its name.
fn with_objects() -> (Api, String) {
    let api = Api::start();
    let node = api.expect(200, "GET /overview", "")["node"].as_str().unwrap().to_owned();
    for (request, body) in [
        ("PUT /queues/%2F/q", r#"{"durable": true, "arguments": {"x-queue-type": "quorum"}}"#),
        ("PUT /queues/%2F/s", r#"{"durable": true, "arguments": {"x-queue-type": "stream"}}"#),
        ("PUT /exchanges/%2F/q", "{}"),
        ("PUT /policies/%2F/q", r#"{"pattern": "none", "definition": {"max-length": 1}}"#),
        ("PUT /operator-policies/%2F/q", r#"{"pattern": "none", "definition": {"max-length": 1}}"#),
        ("PUT /global-parameters/q", r#"{"value": {"a": 1}}"#),
        ("PUT /topic-permissions/%2F/guest", r#"{"exchange": "q", "write": "", "read": ""}"#),
        ("POST /bindings/%2F/e/q/q/q", r#"{"routing_key": "q"}"#),
    ] {
        assert!(api.ask(request, body).status < 300, "{request}");
    }
    (api, node)
}

/// Whatever is an object, or a list of them, has the columns that are asked for, and no others.
#[test]
fn every_answer_has_the_columns_that_are_asked_for() {
    let (api, node) = with_objects();
    // Text for people, documents that are written as they are made, and checks are whole.
    let is_whole = |template: &str| {
        [
            "/definitions",
            "/config/effective",
            "/version",
            "/healthchecks",
            "/health/",
            "/live",
            "/aliveness-test",
        ]
        .iter()
        .chain(&["/all-configuration", "/trace-files", "/tail", "/search", "/export"])
        .any(|it| template.contains(it))
    };
    let table = api.expect(200, "GET /openapi.json", "");
    let mut n_reduced = 0;
    for (path, methods) in table["paths"].as_object().unwrap() {
        let template = path.strip_prefix("/api").unwrap();
        if methods.get("get").is_none() || is_whole(template) {
            continue;
        }
        let mut address = template.replace("{vhost}", "%2F").replace("{node}", &node);
        address = address.replace("{user}", "guest").replace("/stream/%2F/{name}", "/stream/%2F/s");
        address = address.replace("{destination}", "q").replace("{kind}", "q");
        while let Some((before, rest)) = address.split_once('{') {
            address = format!("{before}q{}", rest.split_once('}').unwrap().1);
        }
        let whole = api.ask(&format!("GET {address}"), "");
        let reduced = api.ask(&format!("GET {address}?columns=nonsense"), "");
        let is_empty = |row: &Value| row.as_array().is_some_and(Vec::is_empty);
        let is_reduced = match (&whole.body, &reduced.body) {
            (Value::Object(_), body) => is_empty(body),
            (Value::Array(_), Value::Array(rows)) => rows.iter().all(is_empty),
            (whole, body) => whole == body,
        };
        if whole.status == 200 {
            assert!(is_reduced, "{address}: {}", reduced.text);
            n_reduced += 1;
        }
    }
    assert!(n_reduced >= 80, "{n_reduced}");
    api.0.stop();
}

#[test]
fn columns_are_paths_into_answers() {
    let (api, node) = with_objects();
    for (request, body) in [
        (
            "/overview?columns=node,object_totals.queues",
            json!({"node": node, "object_totals": {"queues": 2}}),
        ),
        ("/vhosts/%2F?columns=name", json!({"name": "/"})),
        (
            "/exchanges/%2F/q?columns=type,arguments.none",
            json!({"type": "direct", "arguments": {}}),
        ),
        ("/users/guest?columns=name,tags", json!({"name": "guest", "tags": ["administrator"]})),
        ("/whoami?columns=name.first", json!({"name": "guest"})),
        (
            "/exchanges?columns=arguments.none,type.none&sort=type&page=1&page_size=1&name=q",
            json!({"arguments": {}, "type": "direct"}),
        ),
    ] {
        let answer = api.expect(200, &format!("GET {request}"), "");
        assert_eq!(answer.get("items").map_or(&answer, |it| &it[0]), &body, "{request}");
    }
    let body = r#"{"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}"#;
    api.expect(
        200,
        "POST /exchanges/%2F/q/publish",
        r#"{"routing_key": "q", "payload": "p", "payload_encoding": "string", "properties": {}}"#,
    );
    let got = api.expect(200, "POST /queues/%2F/q/get?columns=payload", body);
    assert_eq!(got, json!([{"payload": "p"}]));
    api.0.stop();
}

/// Scripts and bookmarks know the pages of RabbitMQ's web server.
#[test]
fn addresses_of_pages_lead_somewhere() {
    let api = Api::start();
    let address = api.0.http_address();
    let get = |path: &str| ask_at(address, "", &format!("GET {path}"), ("", ""));
    for (path, status, place) in [
        ("/api", 301, "/api/index.html"),
        ("/api/", 301, "/api/index.html"),
        ("/cli", 301, "/cli/index.html"),
        ("/cli/", 301, "/cli/index.html"),
        ("/mgmt/", 301, "/"),
        ("/stats", 301, "/api/index.html"),
        ("/doc/stats.html", 301, "/api/index.html"),
        ("/login", 302, "/"),
    ] {
        let answer = get(path);
        assert_eq!((answer.status, location(&answer)), (status, place), "{path}");
    }
    for (path, text) in [
        ("/", "<html"),
        ("/index.html", "<html"),
        ("/api/index.html", "<code>GET /api/overview</code>"),
        ("/cli/index.html", "rabbitmqadmin"),
    ] {
        let answer = get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text.contains(text), "{path}: {}", answer.text);
        assert!(answer.head.contains("content-type: text/html"), "{path}: {}", answer.head);
    }
    assert_eq!(ask_at(address, "", "POST /api/index.html", ("", "")).status, 405);
    assert_eq!(get("/api/nonsense").status, 404);
    api.0.stop();
}

/// The probes of an orchestrator have no password; nobody looks at one that they send all the same.
#[test]
fn probes_need_no_login() {
    let api = Api::start();
    let address = api.0.http_address();
    api.expect(201, "PUT /users/u", r#"{"password": "p", "tags": ""}"#);
    for login in ["", "nobody:wrong", "u:p"] {
        for check in [
            "reached-target-cluster-size",
            "ready-to-serve-clients",
            "is-in-service",
            "below-node-connection-limit",
        ] {
            let answer = ask(address, login, &format!("GET /health/checks/{check}"), "");
            assert_eq!((answer.status, &answer.body), (200, &json!({"status": "ok"})), "{check}");
        }
        assert!(ask(address, login, "GET /version", "").body.is_string());
        // Others tell what is not for strangers.
        for path in
            ["/health/checks/virtual-hosts", "/health/checks/alarms", "/overview", "/whoami"]
        {
            assert_eq!(ask(address, login, &format!("GET {path}"), "").status, 401, "{path}");
        }
    }
    let node = api.expect(200, "GET /overview", "")["node"].as_str().unwrap().to_owned();
    let tried = &api.expect(200, &format!("GET /auth/attempts/{node}"), "")[0];
    assert_eq!(tried["auth_attempts_failed"], 4, "{tried}");
    api.0.ctl(&["suspend_listeners"]);
    assert_eq!(ask(address, "", "GET /health/checks/ready-to-serve-clients", "").status, 503);
    api.0.stop();
}

#[test]
fn a_login_needs_a_tag() {
    let api = Api::start();
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    for (tags, status) in [("", 401), ("other", 401), ("management", 200), ("monitoring", 200)] {
        let user = json!({"password": "p", "tags": tags}).to_string();
        api.ask("PUT /users/u", &user);
        let login = (form, "username=u&password=p");
        let answer = ask_with(api.0.http_address(), "", "POST /login", login);
        assert_eq!(answer.status, status, "{tags}: {}", answer.text);
        if status == 401 {
            assert_eq!(answer.body["reason"], "Not management user");
            assert!(!answer.head.contains("set-cookie"), "{}", answer.head);
        }
    }
    api.0.stop();
}

#[test]
fn connections_name_their_protocol() {
    let api = Api::start();
    let client = Client::guest(api.0.address());
    let mut protocol = Value::Null;
    for list in ["/connections", "/vhosts/%2F/connections", "/connections/username/guest"] {
        wait_until("the connection in the list", || {
            let rows = api.expect(200, &format!("GET {list}?columns=name,protocol"), "");
            protocol = rows[0]["protocol"].clone();
            !protocol.is_null()
        });
        assert_eq!(protocol, "AMQP 0-9-1", "{list}");
    }
    let rows = api.expect(200, "GET /connections", "");
    let one = api.expect(
        200,
        &format!("GET /connections/{}", encoded(rows[0]["name"].as_str().unwrap())),
        "",
    );
    assert_eq!(one["protocol"], "AMQP 0-9-1");
    assert!(api.0.ctl(&["-q", "list_connections", "protocol"]).contains("{0,9,1}"));
    drop(client);
    api.0.stop();
}

/// Whoever lists, exports or asks for a queue sees the same type among its arguments.
#[test]
fn the_type_of_a_queue_is_the_same_everywhere() {
    let api = Api::start();
    let mut client = Client::guest(api.0.address());
    client.declare("amqp");
    api.expect(201, "PUT /queues/%2F/plain", r#"{"durable": true}"#);
    let body = r#"{"durable": true, "arguments": {"x-single-active-consumer": true, "x-queue-type": "quorum"}}"#;
    api.expect(201, "PUT /queues/%2F/quorum", body);
    api.expect(
        201,
        "PUT /queues/%2F/quick",
        "{\"durable\": false, \"arguments\": {\"x-max-length\": 5}}",
    );
    let listed = api.expect(200, "GET /queues?columns=name,arguments", "");
    let exported = api.expect(200, "GET /definitions", "");
    let of_vhost = api.expect(200, "GET /definitions/%2F", "");
    let told = api.0.ctl(&["-q", "list_queues", "name", "arguments"]);
    for (name, arguments, shown) in [
        ("amqp", json!({"x-queue-type": "classic"}), r#"[{"x-queue-type","classic"}]"#),
        ("plain", json!({"x-queue-type": "classic"}), r#"[{"x-queue-type","classic"}]"#),
        (
            "quick",
            json!({"x-max-length": 5, "x-queue-type": "classic"}),
            r#"[{"x-max-length",5}, {"x-queue-type","classic"}]"#,
        ),
        (
            "quorum",
            json!({"x-queue-type": "quorum", "x-single-active-consumer": true}),
            r#"[{"x-queue-type","quorum"}, {"x-single-active-consumer",true}]"#,
        ),
    ] {
        let of = |rows: &Value| {
            let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
            row.map_or(Value::Null, |row| row["arguments"].clone())
        };
        assert_eq!(of(&listed), arguments, "{name}");
        assert_eq!(of(&exported["queues"]), arguments, "{name}");
        assert_eq!(of(&of_vhost["queues"]), arguments, "{name}");
        let one = api.expect(200, &format!("GET /queues/%2F/{name}"), "");
        assert_eq!(one["arguments"], arguments, "{name}");
        let line = format!("{name}\t{shown}").replace(", ", ",");
        assert!(told.replace(", ", ",").contains(&line), "{line} is not in {told}");
    }
    // What was declared without a type is the same with it.
    api.expect(
        204,
        "PUT /queues/%2F/plain",
        r#"{"durable": true, "arguments": {"x-queue-type": "classic"}}"#,
    );
    assert_eq!(api.ask("POST /definitions", &exported.to_string()).status, 204);
    api.0.stop();
}

/// COMPAT: a cluster has an id that nobody has set; it stays with the data, and is no part of exports.
#[test]
fn a_cluster_has_an_id() {
    let mut api = Api::start();
    api.expect(201, "PUT /global-parameters/zz", r#"{"value": 1}"#);
    let rows = api.expect(200, "GET /global-parameters", "");
    let id = rows[0]["value"].as_str().unwrap().to_owned();
    assert_eq!((&rows[0]["name"], &rows[1]["name"]), (&json!("internal_cluster_id"), &json!("zz")));
    assert_eq!(id.strip_prefix("rabbitmq-cluster-id-").unwrap().len(), 16, "{id}");
    let one = api.expect(200, "GET /global-parameters/internal_cluster_id", "");
    assert_eq!(one, json!({"name": "internal_cluster_id", "value": id}));
    assert!(api.0.ctl(&["list_global_parameters"]).contains(&id));
    let exported = api.expect(200, "GET /definitions", "");
    assert_eq!(exported["global_parameters"], json!([{"name": "zz", "value": 1}]));
    api.0.stop_and_start();
    assert_eq!(api.expect(200, "GET /global-parameters", "")[0]["value"], id);
    api.0.stop();
}

/// A limit that is given as a number counts as one that is given as a text, with or without `x-`; one that
/// says nothing is refused: a stream without it fills the disk.
#[test]
fn super_streams_keep_their_limits() {
    let api = Api::start();
    let make = |name: &str, body: &Value| {
        api.ask(&format!("PUT /stream/super-streams/%2F/{name}"), &body.to_string())
    };
    for (nth, given) in [json!(1_000_000), json!("1000000")].into_iter().enumerate() {
        for prefix in ["", "x-"] {
            let name = format!("s{nth}{prefix}");
            let arguments = json!({
                format!("{prefix}max-length-bytes"): given,
                format!("{prefix}stream-max-segment-size-bytes"): given,
                format!("{prefix}max-age"): "7D",
            });
            let made = make(&name, &json!({"partitions": 2, "arguments": arguments}));
            assert_eq!(made.status, 204, "{}", made.text);
            for partition in 0..2 {
                let stream = api.expect(200, &format!("GET /queues/%2F/{name}-{partition}"), "");
                let kept = &stream["arguments"];
                for key in ["x-max-length-bytes", "x-stream-max-segment-size-bytes"] {
                    assert_eq!(kept[key], 1_000_000, "{name}: {kept}");
                }
                assert_eq!(kept["x-max-age"], "7D");
            }
        }
    }
    for arguments in [
        json!({"max-length-bytes": "much"}),
        json!({"max-length-bytes": 1.5}),
        json!({"x-max-length-bytes": true}),
        json!({"max-length-bytes": -1}),
        json!({"max-length-bytes": [1]}),
        json!({"max-age": 3600}),
        json!("max-length-bytes"),
        json!([1]),
    ] {
        let made = make("refused", &json!({"partitions": 1, "arguments": arguments}));
        assert_eq!(made.status, 400, "{arguments}: {}", made.text);
    }
    for (body, reason) in [
        (json!({"partitions": "x"}), "The partitions must be a number"),
        (
            json!({"partitions": 1, "node": "other@there"}),
            "Node other@there is not a cluster member",
        ),
    ] {
        assert_eq!(make("refused", &body).body["reason"], reason);
    }
    assert_eq!(make("none", &json!({"partitions": 1, "arguments": null})).status, 204);
    api.expect(404, "GET /queues/%2F/refused-0", "");
    api.0.stop();
}
