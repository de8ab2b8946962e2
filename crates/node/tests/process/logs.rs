//! The log's places and forms.

use super::http_api::{Api, HTTP, ask};
use super::support::node::Node;
use super::support::wait_until;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use testing::Random;
use testing::client::{Client, DEADLINE, Login};

#[test]
fn lines_are_objects_and_categories_have_levels() {
    let node = Node::start(&[
        "log.file.formatter=json",
        "log.default.level=error",
        "log.connection.level=debug",
    ]);
    Client::guest(node.address()).close();
    node.expect_logged(1, "\"msg\":\"user 'guest' authenticated and granted access to vhost '/'\"");
    node.ctl(&["add_vhost", "silent"]);
    let log = node.stop();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        assert_eq!(line["domain"], "rabbitmq.connection", "{line}");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with("+00:00")), "{line}");
    }
    assert!(lines.iter().any(|line| line["level"] == "debug"), "{log}");
}

#[test]
fn a_large_file_moves_itself_away_and_two_stay() {
    let node = Node::start(&[
        "log.default.level=debug",
        "log.file.rotation.size=4000",
        "log.file.rotation.count=2",
        "log.file.rotation.compress=true",
    ]);
    let old = |at: u32| node.data_dir().join(format!("node.log.{at}.gz"));
    wait_until("two old files", || {
        drop(Client::guest(node.address()));
        old(1).exists()
    });
    assert!(!old(2).exists());
    node.stop();
}

#[test]
fn a_syslog_server_is_told_in_both_forms() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(DEADLINE)).unwrap();
    let port = format!("log.syslog.port={}", server.local_addr().unwrap().port());
    let node = Node::start(&["log.syslog=true", "log.syslog.ip=127.0.0.1", &port]);
    let mut line = [0; 4096];
    let n_bytes = server.recv(&mut line).unwrap();
    let text = std::str::from_utf8(&line[..n_bytes]).unwrap();
    assert!(text.starts_with("<30>") && text.contains(" rabbitmq-server["), "{text}");
    node.stop();

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("log.syslog.port={}", server.local_addr().unwrap().port());
    let node = Node::start(&[
        "log.syslog=true",
        "log.syslog.host=127.0.0.1",
        &port,
        "log.syslog.transport=tcp",
        "log.syslog.protocol=rfc5424",
        "log.syslog.facility=local0",
        "log.syslog.identity=hare",
        "log.syslog.formatter=json",
    ]);
    let (mut socket, _) = server.accept().unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(" ready on ") {
        let n_bytes = socket.read(&mut line).unwrap();
        assert_ne!(n_bytes, 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&line[..n_bytes]);
    }
    let text = String::from_utf8(text).unwrap();
    let (length, rest) = text.split_once(' ').unwrap();
    let first = &rest[..length.parse().unwrap()];
    assert!(first.starts_with("<134>1 20") && first.contains(" hare "), "{first}");
    let object: Value = serde_json::from_str(first.split_once(" - - ").unwrap().1).unwrap();
    assert_eq!(object["level"], "info", "{object}");
    node.stop();
}

/// A server of syslog over TLS, with its certificates in `dir`: what it is told until a line is among it, or
/// until the node gives up.
fn told_over_tls(server: &TcpListener, dir: &Path) -> String {
    let read = |file: &str| std::fs::read(dir.join(file)).unwrap();
    let certificate = CertificateDer::from_pem_slice(&read("server_certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("server_key.pem")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], key).unwrap();
    let session = ServerConnection::new(Arc::new(config)).unwrap();
    let (socket, _) = server.accept().unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let (mut stream, mut text) = (StreamOwned::new(session, socket), Vec::new());
    let mut bytes = [0; 4096];
    while !String::from_utf8_lossy(&text).contains(" ready on ") {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(n_bytes) => text.extend_from_slice(&bytes[..n_bytes]),
        }
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_syslog_server_is_told_over_tls_if_it_is_the_right_one() {
    let dir = tempfile::tempdir().unwrap();
    let names = tls::Names { hosts: vec!["127.0.0.1".to_owned()], user: "guest".to_owned() };
    for (file, text) in tls::generate(&names).unwrap() {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("log.syslog.port={}", server.local_addr().unwrap().port());
    let of_server =
        ["log.syslog=true", "log.syslog.transport=tls", &port, "log.syslog.protocol=rfc5424"];
    let path = dir.path().join("ca_certificate.pem");
    let trusted = format!("log.syslog.ssl_options.cacertfile={}", path.display());
    for (settings, is_right) in [
        ([&trusted, "log.syslog.host=127.0.0.1"], true),
        ([&trusted, "log.syslog.host=localhost"], false),
        (["log.syslog.ssl_options.verify=verify_none", "log.syslog.host=localhost"], true),
    ] {
        let node = Node::start(&[&of_server[..], &settings].concat());
        let text = told_over_tls(&server, dir.path());
        assert_eq!(text.contains(" ready on "), is_right, "{settings:?}: {text}");
        node.stop();
    }
    let refused = Node::try_start(&of_server).err().unwrap();
    assert!(refused.contains("`log.syslog.ssl_options.cacertfile`"), "{refused}");
}

/// The texts of lines.
fn texts(answer: &Value) -> Vec<&str> {
    answer["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect()
}

#[test]
fn the_last_lines_are_shown_to_administrators() {
    let api = Api::start();
    let login = Login { password: "wrong", ..Login::default() };
    drop(Client::introduced(api.0.address(), login));
    let mut refused = Value::Null;
    wait_until("the login that was refused is shown", || {
        refused = api.expect(200, "GET /leveret/log?level=warning", "");
        !texts(&refused).is_empty()
    });
    assert!(texts(&refused)[0].contains("invalid credentials"), "{refused}");
    assert_eq!(refused["lines"][0]["category"], "rabbitmq.connection", "{refused}");
    // From the first line on, which the console does not show twice.
    let all = api.expect(200, "GET /leveret/log", "");
    assert_eq!((&all["lines"][0]["n"], &all["level"]), (&json!(1), &json!("info")), "{all}");
    assert!(texts(&all).iter().any(|text| text.contains(" ready on ")), "{all}");
    api.expect(201, "PUT /users/ann", r#"{"password":"ann","tags":"monitoring"}"#);
    let asked = ask(api.0.http_address(), "ann:ann", "GET /leveret/log", "");
    assert_eq!(asked.status, 401, "{}", asked.text);
    api.0.ctl(&["set_log_level", "error"]);
    assert_eq!(api.expect(200, "GET /leveret/log", "")["level"], "error");
    api.0.stop();
}

#[test]
fn lines_are_kept_that_go_nowhere_else_and_those_of_requests_are_not() {
    let nowhere = ["log.console=false", "log.file=false", "management.http_log_dir=access"];
    let node = Node::start(&[&HTTP[..], &nowhere].concat());
    let all = || ask(node.http_address(), "guest:guest", "GET /leveret/log", "").body;
    drop(Client::guest(node.address()));
    wait_until("a line is kept", || !texts(&all()).is_empty());
    let all = all();
    assert_eq!(all["level"], "info", "{all}");
    assert!(!all.to_string().contains("/leveret/log"), "{all}");
    let requests = node.data_dir().join("access/access.log");
    wait_until("requests are told elsewhere", || {
        std::fs::read_to_string(&requests).unwrap().contains("/leveret/log")
    });
}

/// The tool as it follows the log or events, and its lines as they come.
fn follow(node: &Node, args: &[&str]) -> (Child, Receiver<String>) {
    let mut command = node.ctl_command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, told) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (child, told)
}

#[test]
fn the_tool_shows_the_log_and_events_as_they_come() {
    let node = Node::start(&[]);
    for _ in 0..3 {
        let login = Login { password: "wrong", ..Login::default() };
        drop(Client::introduced(node.address(), login));
    }
    wait_until("the last three lines are of refused logins", || {
        let tail = node.ctl(&["-q", "log_tail", "-N", "3"]);
        let is_one = |line: &str| line.contains(" [warning] ") && line.contains("invalid cred");
        tail.lines().count() == 3 && tail.lines().all(is_one)
    });
    assert!(node.ctl(&["log_tail"]).starts_with("Last 50 log lines on node "));

    let (mut log, lines) = follow(&node, &["-q", "log_tail_stream"]);
    let mut line = None;
    wait_until("a line comes", || {
        drop(Client::guest(node.address()));
        line = lines.try_recv().ok();
        line.is_some()
    });
    assert!(line.as_ref().unwrap().contains("] "), "{line:?}");
    let (mut events, objects) = follow(&node, &["consume_event_stream", "--pattern", "^queue[.]"]);
    let (mut client, mut object, mut n) = (Client::guest(node.address()), None, 0);
    wait_until("an event comes", || {
        n += 1;
        client.declare(&format!("q{n}"));
        object = objects.try_recv().ok();
        object.is_some()
    });
    let object: Value = serde_json::from_str(&object.unwrap()).unwrap();
    assert_eq!((&object["event"], &object["vhost"]), (&json!("queue.created"), &json!("/")));
    assert!(object["timestamp_in_ms"].as_u64() > Some(1_700_000_000_000), "{object}");
    // They end with their time, or with the node.
    node.ctl(&["log_tail_stream", "-d", "1"]);
    assert_eq!(node.ctl(&["consume_event_stream", "-d", "1", "--pattern", "no such event"]), "");
    drop(client);
    node.stop();
    assert!(!log.wait().unwrap().success() && !events.wait().unwrap().success());
}

/// A secret nobody has thought of.
fn secret(random: &mut Random) -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    let letter = |_| char::from(LETTERS[random.below(LETTERS.len())]);
    (0..20).map(letter).collect()
}

/// Whoever logs in, rightly or not, by whatever protocol, and whatever is changed: no line of any level has a
/// password, nor its form in the headers of HTTP.
#[test]
fn no_line_has_a_secret() {
    let node = Node::start(&[&HTTP[..], &["log.default.level=debug"]].concat());
    let mut random = Random::new(7);
    let mut secrets = Vec::new();
    for n in 0..5 {
        let (user, right, wrong) = (format!("user{n}"), secret(&mut random), secret(&mut random));
        let next = secret(&mut random);
        node.ctl(&["add_user", &user, &right]);
        node.ctl(&["set_permissions", &user, ".*", ".*", ".*"]);
        for password in [&right, &wrong] {
            let login = Login { user: &user, password, ..Login::default() };
            drop(Client::introduced(node.address(), login).try_next());
            let basic = BASE64_STANDARD.encode(format!("{user}:{password}"));
            let body = format!("{{\"password\": \"{next}\", \"tags\": \"administrator\"");
            for (method, path) in
                [("GET", "/api/whoami"), ("PUT", "/api/users/other"), ("GET", "/api/%zz")]
            {
                let mut socket = TcpStream::connect(node.http_address()).unwrap();
                let request = format!(
                    "{method} {path}?password={next} HTTP/1.1\r\nhost: here\r\nauthorization: Basic {basic}\r\n\
                     connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                socket.write_all(request.as_bytes()).unwrap();
                let mut answer = Vec::new();
                socket.read_to_end(&mut answer).unwrap();
            }
            secrets.push(basic);
        }
        node.ctl(&["change_password", &user, &next]);
        let uri = format!("\"amqp://ann:{next}@host\"");
        node.ctl(&["set_global_parameter", "uri", &uri]);
        secrets.extend([right, wrong, next]);
    }
    let of = |what: &str| {
        ask(node.http_address(), "guest:guest", &format!("GET /leveret/{what}=2000"), "").text
    };
    let kept = of("log?lines") + &of("events?count");
    for told in ["'user4' - invalid", "\"debug\"", "\"parameter.set\"", "\"user.password.changed\""]
    {
        assert!(kept.contains(told), "{kept}");
    }
    let log = node.stop();
    assert!(log.contains("[debug]"), "{log}");
    let is_told = |line: &&str| secrets.iter().any(|secret| line.contains(secret));
    let told: Vec<&str> = log.lines().chain(kept.split("},{")).filter(is_told).collect();
    assert!(told.is_empty(), "{told:#?}");
}
