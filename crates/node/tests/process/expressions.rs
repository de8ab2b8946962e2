//! Regular expressions: what they may be, and what they may take, beside a bystander.

use super::http_api::{Answer, Api, HTTP, ask, scrape};
use super::support::bystander::Bystander;
use super::support::node::Node;
use serde_json::{Value, json};
use std::thread;

const AND_METRICS: [&str; 3] =
    ["prometheus.enabled=true", "prometheus.tcp.ip=127.0.0.1", "prometheus.tcp.port=0"];
/// Queues with long names.
const QUEUES: usize = 600;
/// Askers at a time, and how often each asks.
const ASKERS: usize = 6;
const ROUNDS: usize = 12;

/// Each byte of a text as an address has it.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// An expression that takes seconds to compile.
fn dear(n: usize) -> String {
    format!("(?i){}", "\\pL".repeat(n))
}

/// Asks from several threads at once, each with texts of its own.
fn ask_at_once(ask: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for asker in 0..ASKERS {
            let ask = &ask;
            scope.spawn(move || (0..ROUNDS).for_each(|round| ask(asker * ROUNDS + round)));
        }
    });
}

/// An answer with one of these statuses.
fn expect(node: &Node, statuses: &[u16], request: &str, body: &str) -> Answer {
    let answer = ask(node.first_address(), "guest:guest", request, body);
    assert!(statuses.contains(&answer.status), "{request}: {answer:?}");
    answer
}

fn names(listed: &Value) -> Vec<&str> {
    listed["items"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// Policies, permissions, definitions and lists take what RabbitMQ takes.
#[test]
fn patterns_in_perls_syntax_are_taken_everywhere() {
    let api = Api::start();
    for pattern in ["^(?!amq\\.).*", "^(.*(?<!error))?$", "^(?>ab)$", "^(a)\\1$", "^\\p{Ll}+$"] {
        let policy = json!({"pattern": pattern, "definition": {"max-length": 5}}).to_string();
        for scope in ["policies", "operator-policies"] {
            let answer = api.ask(&format!("PUT /{scope}/%2F/p"), &policy);
            assert!(answer.status < 300, "{pattern}: {answer:?}");
        }
    }
    api.expect(204, "DELETE /operator-policies/%2F/p", "");
    let queue = |name: &str| json!({"name": name, "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}});
    let document = json!({
        "queues": [queue("orders"), queue("orders.dlq")],
        "policies": [{
            "vhost": "/", "name": "p", "pattern": "^(?!amq\\.|.*\\.dlq$).*", "apply-to": "queues",
            "priority": 0, "definition": {"max-length": 7},
        }],
    });
    api.expect(204, "POST /definitions", &document.to_string());
    let policy =
        |name: &str| api.expect(200, &format!("GET /queues/%2F/{name}"), "")["policy"].clone();
    assert_eq!((policy("orders"), policy("orders.dlq")), (json!("p"), Value::Null));

    let only = encoded("^(?!.*dlq)ORD");
    let listed = api.expect(200, &format!("GET /queues?page=1&use_regex=true&name={only}"), "");
    assert_eq!(names(&listed), ["orders"]);

    api.expect(201, "PUT /users/u", r#"{"password":"p","tags":"management"}"#);
    let permissions = json!({"configure": "^(?!secret).*", "write": ".*", "read": "(?(?=a)a|b)"});
    api.expect(201, "PUT /permissions/%2F/u", &permissions.to_string());
    let put = |name: &str| {
        let request = format!("PUT /queues/%2F/{name}");
        ask(api.0.http_address(), "u:p", &request, "{}").status
    };
    assert_eq!((put("open"), put("secret-1")), (201, 401));
    // A match that takes too many steps is none: the permission denies, which is told once.
    let permissions = json!({"configure": "^(a+)+\\1b$", "write": "", "read": ""});
    api.expect(204, "PUT /permissions/%2F/u", &permissions.to_string());
    let long = "a".repeat(200);
    assert_eq!((put("aab"), put(&long), put(&long)), (201, 401, 401));
    api.0.expect_logged(1, "exceeds the step limit for a name");
}

/// Names that stand in topic permissions are no expressions.
#[test]
fn names_in_topic_permissions_mean_themselves() {
    let api = Api::start();
    for name in [".*", "a|b", "tom.y", "a+b", "x(", "{vhost}"] {
        let at = encoded(name);
        api.expect(201, &format!("PUT /users/{at}"), r#"{"password":"p","tags":""}"#);
        let all = r#"{"configure":".*","write":".*","read":".*"}"#;
        api.expect(201, &format!("PUT /permissions/%2F/{at}"), all);
        let topic = r#"{"exchange":"amq.topic","write":"^{username}\\.","read":".*"}"#;
        api.expect(201, &format!("PUT /topic-permissions/%2F/{at}"), topic);
        let may = |key: &str| {
            let key = encoded(key);
            let asked = format!(
                "GET /explain/permission/%2F/{at}?kind=exchange&name=amq.topic&operation=write&routing_key={key}"
            );
            let told = api.expect(200, &asked, "");
            told["allowed"].as_bool().unwrap_or_else(|| panic!("{told}"))
        };
        assert!(may(&format!("{name}.x")), "{name}");
        for key in ["victim.x", "tomzy.x", "a.x", "aab.x", "/.x"] {
            assert!(!may(key), "{name}: {key}");
        }
    }
}

/// Nobody waits for those who have expressions compiled that take long: strangers, users, operators.
#[test]
fn dear_expressions_are_refused_beside_a_bystander() {
    let node = Node::start(&[HTTP, AND_METRICS].concat());
    expect(&node, &[201], "PUT /queues/%2F/q", "{}");
    let bystander = Bystander::watch(&node);
    ask_at_once(|n| {
        let (names, filter) =
            (encoded(&dear(600 + n)), format!("body MATCHES '{}'", dear(5_000 + n)));
        let (head, _) = scrape(&node, &format!("/metrics/detailed?queue={names}"));
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        // Who asks for very much at a time may be told to ask later.
        let expect = |request: &str, body: &str| expect(&node, &[400, 429, 503], request, body);
        let short = encoded(&dear(300 + n));
        expect(&format!("GET /queues?page=1&use_regex=true&name={short}"), "");
        let check = "GET /health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/";
        expect(&format!("{check}{names}"), "");
        let filter = json!({"filter": filter});
        expect("POST /queues/%2F/q/browse", &filter.to_string());
        expect("POST /queues/%2F/q/search", &filter.to_string());
        for verb in ["redrive", "remove"] {
            let body = json!({"select": filter, "to": {"queue": "q"}, "dry_run": true});
            expect(&format!("POST /queues/%2F/q/{verb}"), &body.to_string());
        }
        let policy = json!({"pattern": dear(600 + n), "definition": {"max-length": 5}});
        expect("PUT /policies/%2F/p", &policy.to_string());
        expect("POST /bulk/queues/%2F/purge", &json!({"pattern": dear(600 + n)}).to_string());
    });
    bystander.expect_no_wait("expressions that take long to compile");
}

/// Nor for those whose expressions take long to match with many names: a request has a second of work.
#[test]
fn matches_over_many_names_end_beside_a_bystander() {
    let node = Node::start(&[HTTP, AND_METRICS].concat());
    let queues: Vec<Value> = (0..QUEUES)
        .map(|n| {
            json!({
                "name": format!("{}{n}", "ab".repeat(120)), "vhost": "/", "durable": true,
                "auto_delete": false, "arguments": {},
            })
        })
        .collect();
    expect(&node, &[204], "POST /definitions", &json!({"queues": queues}).to_string());
    let bystander = Bystander::watch(&node);
    let is_bounded = |status: u16, text: &str| {
        status == 200 || (status == 400 && text.contains("ms: simplify the regular expression"))
    };
    ask_at_once(|n| {
        if n % ROUNDS > 0 {
            return;
        }
        for pattern in
            [format!("(?:[^c]*a[^c]*b){{30}}c(?#{n})"), format!("^(?=(a|b|ab)*(?<x>c{n}))")]
        {
            let name = encoded(&pattern);
            let (head, text) = scrape(&node, &format!("/metrics/detailed?queue={name}"));
            assert!(is_bounded(head[9..12].parse().unwrap(), &text), "{head}");
            for (request, body) in [
                (format!("GET /queues?page=1&use_regex=true&name={name}"), String::new()),
                ("POST /bulk/queues/%2F/purge".to_owned(), json!({"pattern": pattern}).to_string()),
            ] {
                let answer = expect(&node, &[200, 400, 429, 503], &request, &body);
                let is_turned_away = matches!(answer.status, 429 | 503);
                assert!(is_turned_away || is_bounded(answer.status, &answer.text), "{answer:?}");
            }
        }
    });
    bystander.expect_no_wait("expressions that take long to match");
    // What is cheap goes on, over all names there are.
    let name = encoded("^(ab)+\\d+$");
    let cheap = format!("GET /queues?page=1&use_regex=true&name={name}");
    assert_eq!(expect(&node, &[200], &cheap, "").body["filtered_count"], QUEUES);
}
