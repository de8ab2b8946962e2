//! Traces to files.

use super::*;

/// Copies of messages are written to files, whole or in part; a trace whose file takes no more ends alone.
#[test]
fn messages_are_traced_to_files() {
    let api = Api::start();
    let dir = api.0.data_dir().join("traces");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.join("full.log")).unwrap();
    let json = r##"{"format": "json", "pattern": "#", "max_payload_bytes": 3}"##;
    let text = r##"{"format": "text", "pattern": "publish.#",
        "tracer_connection_username": "guest", "tracer_connection_password": "guest"}"##;
    for (status, request, body) in [
        (400, "PUT /traces/%2F/t", r#"{"format": "xml", "pattern": ""}"#),
        (400, "PUT /traces/%2F/t", r#"{"format": "json"}"#),
        (
            400,
            "PUT /traces/%2F/t",
            r#"{"format": "json", "pattern": "", "max_payload_bytes": "3"}"#,
        ),
        (400, "PUT /traces/%2F/..%2Ft", json),
        (401, "PUT /traces/%2F/t", &text.replace("\"guest\"}", "\"wrong\"}")),
        (404, "PUT /traces/none/t", json),
        (201, "PUT /traces/%2F/j", json),
        (400, "PUT /traces/%2F/j", json),
        (201, "PUT /traces/%2F/t", text),
        (201, "PUT /traces/%2F/full", json),
    ] {
        let answer = api.ask(request, body);
        assert_eq!(answer.status, status, "{request} {body}: {answer:?}");
    }
    let mut client = Client::guest(api.0.address());
    client.round_trip();
    let file = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    wait_until("a copy of the delivery", || file("j.log").lines().count() >= 2);
    wait_until("a copy for people", || file("t.log").contains("ping"));
    api.0.expect_logged(1, "trace 'full' stopped");
    let told: Vec<Value> =
        file("j.log").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [published, received] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(published["type"], "published");
    assert_eq!(published["routed_queues"], json!(["bystander"]));
    assert_eq!((&received["type"], &received["queue"]), (&json!("received"), &json!("bystander")));
    assert_eq!(received["payload"], STANDARD.encode("pin"));
    assert_eq!(received["properties"], json!({"delivery_mode": 1}));
    let text = file("t.log");
    let expected = "\nUser:         guest\nChannel:      1\nExchange:     \nRouting keys: [<<\"bystander\">>]\n\
                    Routed queues: [<<\"bystander\">>]\n\
                    Properties:   [{<<\"delivery_mode\">>,signedint,1}]\nPayload: \nping\n";
    assert!(text.contains(": Message published\n") && text.contains(expected), "{text}");
    let traces = api.expect(200, "GET /traces/%2F", "");
    let names: Vec<&Value> = traces.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["j", "t"]);
    assert!(!traces.to_string().contains("password"), "{traces}");
    for (status, request) in [
        (200, "GET /traces/%2F/j"),
        (204, "DELETE /traces/%2F/j"),
        (404, "GET /traces/%2F/j"),
        (404, "DELETE /traces/%2F/j"),
        (200, "GET /trace-files/j.log"),
        (404, "GET /trace-files/..%2Fnode.log"),
        (404, "GET /trace-files/full.log"),
        (204, "DELETE /trace-files/j.log"),
        (404, "DELETE /trace-files/j.log"),
    ] {
        assert_eq!(api.ask(request, "").status, status, "{request}");
    }
    assert_eq!(api.expect(200, "GET /vhosts/%2F", "")["tracing"], true);
    assert_eq!(api.ask("DELETE /traces/%2F/t", "").status, 204);
    assert_eq!(api.expect(200, "GET /vhosts/%2F", "")["tracing"], false);
    assert_eq!(api.ask("PUT /traces/%2F/again", json).status, 201);
    client.close();
    api.0.stop();
}
