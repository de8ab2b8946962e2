//! Limits of connections that are set, and the log of requests.

use super::*;

#[test]
fn connections_have_the_limits_that_are_set() {
    let others = [
        "management.tcp.max_keepalive=2",
        "management.tcp.compress=false",
        "management.tcp.idle_timeout=500",
        "management.tcp.max_connections=1",
        "management.http.hide_allow_header=true",
        "management.restrictions.quorum_queue_replica_operations.disabled=true",
        "management.definitions.require_json_extension=true",
    ];
    let settings: Vec<&str> = HTTP.into_iter().chain(others).collect();
    let api = Api(Node::start(&settings));
    let address = api.0.http_address();
    let head = "HTTP/1.1\r\nhost: here\r\naccept-encoding: gzip\r\n\
                authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
    let told = exchanged(address, &format!("GET /api/overview {head}\r\n").repeat(2));
    assert_eq!(told.matches("HTTP/1.1 200").count(), 2, "{told}");
    assert_eq!(told.matches("connection: close").count(), 1, "{told}");
    assert!(!told.contains("content-encoding") && !told.contains("allow: "), "{told}");
    let half = format!("PUT /api/vhosts/v {head}content-length: 10\r\n\r\n{{");
    assert!(exchanged(address, &half).starts_with("HTTP/1.1 408"));
    assert!(api.ask("POST /overview", "").head.contains("allow: HEAD, GET, OPTIONS"));
    api.expect(405, "POST /queues/quorum/%2F/q/replicas/add", r#"{"node": "x"}"#);
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d.txt\"\r\n\r\n\
                {}\r\n--x--\r\n";
    let kind = "content-type: multipart/form-data; boundary=x\r\n";
    let refused = ask_with(address, "guest:guest", "POST /definitions", (kind, form));
    assert_eq!(refused.body["reason"], "unsupported_file_extension", "{}", refused.head);
    api.0.stop();
}

#[test]
fn requests_are_logged_where_that_is_wanted() {
    let settings: Vec<&str> = HTTP.into_iter().chain(["management.http_log_dir=access"]).collect();
    let api = Api(Node::start(&settings));
    let agent = ("user-agent: a \"b\"\r\nreferer: https://x/\r\n", "");
    ask_with(
        api.0.http_address(),
        "guest:guest",
        "GET /vhosts/%2F/permissions?columns=user",
        agent,
    );
    ask(api.0.http_address(), "", "GET /whoami", "");
    api.expect(404, "GET /nonsense", "");
    // Whatever else is logged.
    api.0.ctl(&["set_log_level", "error"]);
    api.expect(201, "PUT /vhosts/v", "");
    let file = api.0.data_dir().join("access/access.log");
    let log = || std::fs::read_to_string(&file).unwrap();
    wait_until("four lines", || log().lines().count() == 4);
    for (line, (user, rest)) in log().lines().zip([
        (
            "guest",
            "] \"GET /api/vhosts/%2F/permissions HTTP/1.1\" 200 18 \"https://x/\" \"a \\\"b\\\"\"",
        ),
        ("-", "] \"GET /api/whoami HTTP/1.1\" 401 0 \"\" \"\""),
        ("-", "] \"GET /api/nonsense HTTP/1.1\" 404 "),
        ("guest", "] \"PUT /api/vhosts/v HTTP/1.1\" 201 0 \"\" \"\""),
    ]) {
        let start = format!("127.0.0.1 - {user} [");
        assert!(line.starts_with(&start) && line.contains(rest), "{line}: {user} {rest}");
    }
    assert!(!api.0.log().contains("GET /api"), "{}", api.0.log());
    api.0.stop();
}

#[test]
fn requests_of_strangers_are_summed_up_in_the_log_and_those_of_users_are_not() {
    let settings: Vec<&str> = HTTP.into_iter().chain(["management.http_log_dir=access"]).collect();
    let api = Api(Node::start(&settings));
    let (n_strangers, n_users) = (60, 25);
    for address in ["GET /whoami", "GET /nonsense"].iter().cycle().take(n_strangers) {
        ask(api.0.http_address(), "", address, "");
    }
    for _ in 0..n_users {
        api.expect(200, "GET /whoami", "");
    }
    let file = api.0.data_dir().join("access/access.log");
    let count = |what: &str| std::fs::read_to_string(&file).unwrap().matches(what).count();
    wait_until("the lines of a user", || count(" - guest [") == n_users);
    let n_lines = count(" - - [");
    assert!((20..n_strangers).contains(&n_lines), "{n_lines}");
    wait_until("their sum", || {
        api.0.log().contains("more anonymous HTTP connections of 127.0.0.1")
    });
    api.0.stop();
}
