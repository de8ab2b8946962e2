mod live;
mod logs;
mod quorum;
mod remote;
mod streams;

use super::*;
use crate::Settings;
use auth::{Authenticator, Rules};
use broker::{Alarm, Broker, BrokerOptions, Identity, Interrupt, Session};
use log::WalOptions;
use meta::{Command, NamedBy, QueueDeclare, QueueHome};
use mgmt::{
    FileDescriptors, ListenerInfo, LogLine, Management, NodeEnd, NodeInfo, NotedControl,
    ResourceLimits, Resources, Threshold,
};
use segments::FileTraffic;
use serde_json::{Value, json};
use session::{
    Attachment, ChannelId, Control, MethodTag, Op, Outbox, Request, ShortString, Sink, Table,
};
use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Instant;
use stdx::{Now, Ring};
use testing::MemoryDisk;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// Longest body of a request.
const BODY_BYTES_MAX: usize = 100_000;

/// A client that hears nothing.
struct NullOutbox;

impl Outbox for NullOutbox {
    fn batch(&self, _: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        None
    }
}

/// A node with a control socket.
struct Node {
    dir: tempfile::TempDir,
    management: Arc<Management>,
    control: Arc<NotedControl>,
}

/// Resources of a node that uses one byte of memory.
#[derive(Debug)]
struct OneByte(ResourceLimits);

impl Resources for OneByte {
    fn limits(&self) -> &ResourceLimits {
        &self.0
    }

    fn look(&self, broker: &Broker) {
        broker.alarms.set(Alarm::Memory, self.0.memory_high_bytes() < 1);
    }

    fn descriptors(&self) -> FileDescriptors {
        FileDescriptors { total_used: Some(7), total_limit: 1024, is_alarm_on: false }
    }

    fn traffic(&self) -> Vec<FileTraffic> {
        let of = |kind, read_bytes, write_bytes| FileTraffic { kind, read_bytes, write_bytes };
        vec![of("log", 1, 20), of("other", 2, 300)]
    }
}

/// A log that knows one level, and has no file.
#[derive(Debug)]
struct Levels(Ring<LogLine>);

impl mgmt::Log for Levels {
    fn set_level(&self, level: &str) -> bool {
        level == "debug"
    }

    fn reopen(&self) -> io::Result<()> {
        Err(io::Error::other("full"))
    }

    fn n_dropped(&self) -> u64 {
        0
    }

    fn last_lines(&self) -> &Ring<LogLine> {
        &self.0
    }

    fn level(&self) -> &'static str {
        "info"
    }
}

async fn start() -> Node {
    start_with(BrokerOptions::default()).await
}

async fn start_with(settings: BrokerOptions) -> Node {
    let options = WalOptions { segment_bytes: 1 << 20, ..WalOptions::default() };
    let broker = Broker::open_with(Arc::new(MemoryDisk::new()), options, settings).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let control = Arc::new(NotedControl::default());
    let management = Arc::new(Management {
        broker,
        authenticator: Authenticator::new(Rules { loopback_users: Vec::new(), anonymous: None }),
        password_rule: mgmt::PasswordRule::Anything,
        hashing: meta::HashAlgorithm::default(),
        node_info: node_info(dir.path()),
        resources: Arc::new(OneByte(ResourceLimits::new(
            1 << 30,
            Threshold::Bytes(1 << 30),
            Threshold::Bytes(50_000_000),
        ))),
        client_totals: session::ClientTotals::default(),
        log: Arc::new(Levels(logs::log_lines())),
        tls: Vec::new(),
        suspended: watch::Sender::new(false),
        running: AtomicBool::new(true),
        control: Arc::<NotedControl>::clone(&control),
    });
    let socket = ControlSocket::bind(dir.path()).unwrap();
    let mut settings = Settings::default();
    settings.body_bytes_max = BODY_BYTES_MAX;
    let clock = Box::new(Now::default);
    let api = Api::new(Arc::clone(&management), Arc::default(), settings, None, clock);
    tokio::spawn(serve_local(socket, api, std::future::pending()));
    let node = Node { dir, management, control };
    node.ok("POST /leveret/vhosts/{vhost}", json!({"vhost": "/"})).await;
    node.ok("POST /leveret/users/{user}", json!({"user": "ada", "password": "x"})).await;
    let everything = json!({"vhost": "/", "user": "ada", "configure": ".*", "write": ".*",
        "read": ".*"});
    node.ok("PUT /permissions/{vhost}/{user}", everything).await;
    node
}

#[expect(clippy::disallowed_methods, reason = "a node has a start")]
fn node_info(data_dir: &FilePath) -> NodeInfo {
    NodeInfo {
        name: "rabbit@box".to_owned(),
        cluster_id: "rabbitmq-cluster-id-x".to_owned(),
        version: "0.1.0".to_owned(),
        rabbitmq_version: "4.3.6".to_owned(),
        data_dir: data_dir.to_owned(),
        trace_dir: data_dir.join("traces"),
        config_files: Vec::new(),
        log_files: Vec::new(),
        listeners: vec![
            ListenerInfo {
                protocol: "amqp",
                purpose: "AMQP 0-9-1".to_owned(),
                address: "127.0.0.1:5672".parse().unwrap(),
            },
            ListenerInfo {
                protocol: "amqp",
                purpose: "AMQP 0-9-1".to_owned(),
                address: "[::]:5672".parse().unwrap(),
            },
        ],
        settings: vec![("heartbeat".to_owned(), "60".to_owned())],
        permits: BTreeMap::new(),
        started: Instant::now(),
    }
}

impl Node {
    /// Asks by a route, as the command line tool does: its parts, the query and the body are of the fields.
    async fn post(&self, route: &str, mut fields: Value) -> String {
        let (method, template) = route.split_once(' ').unwrap();
        let (template, query) = template.split_once('?').unwrap_or((template, ""));
        let text = |value: &Value| match value {
            Value::String(text) => text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            Value::Array(items) => {
                items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(",")
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
        };
        let (mut address, mut body) = (String::new(), String::new());
        for part in template.split('/').skip(1) {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let taken = name.map(|name| fields.as_object_mut().unwrap().remove(name));
            match taken {
                None => address.push_str(&format!("/{part}")),
                Some(None) if name == Some("node") => address.push_str("/rabbit@box"),
                Some(None) => {}
                Some(Some(value)) => address.push_str(&format!("/{}", text(&value))),
            }
        }
        let document = fields.get("definitions").map(|it| it.as_str().unwrap().to_owned());
        if method == "GET" || document.is_some() {
            let fields =
                fields.as_object().unwrap().iter().filter(|(name, _)| *name != "definitions");
            let fields = fields.map(|(name, value)| format!("{name}={}", text(value)));
            let query: Vec<String> = [query.to_owned()].into_iter().chain(fields).collect();
            address.push_str(&format!("?{}", query.join("&")));
            body.push_str(&document.unwrap_or_default());
        } else {
            body = fields.to_string();
        }
        self.send(&format!("{method} /api{address}"), body.as_bytes()).await
    }

    async fn send(&self, request: &str, body: &[u8]) -> String {
        let path = self.dir.path().join(api::SOCKET_FILE);
        let mut stream = UnixStream::connect(path).await.unwrap();
        let head = format!("{request} HTTP/1.0\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        // A request that is too long is refused before it has been read.
        drop(stream.write_all(body).await);
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        String::from_utf8(answer).unwrap()
    }

    async fn ask(&self, route: &str, fields: Value) -> Value {
        let answer = self.post(route, fields).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!body.is_empty() || head.starts_with("HTTP/1.0 2"), "{route}: {head}");
        if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() }
    }

    async fn ok(&self, route: &str, fields: Value) -> Value {
        let answer = self.ask(route, fields).await;
        assert!(answer.get("error").is_none(), "{route}: {answer}");
        answer
    }

    /// The kind of the error.
    async fn refused(&self, endpoint: &str, request: Value) -> String {
        let answer = self.ask(endpoint, request).await;
        answer["error"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    async fn declare(&self, queue: &str) {
        self.declare_with(queue, &[]).await;
    }

    async fn declare_with(&self, queue: &str, arguments: &[(&'static str, &str)]) {
        let argument = |(name, value): &(&'static str, &str)| {
            (ShortString::from_static(name), session::Value::from(*value))
        };
        let declare = QueueDeclare {
            vhost: "/".into(),
            name: queue.into(),
            named_by: NamedBy::Client,
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments: arguments.iter().map(argument).collect(),
            id: None,
            home: QueueHome::default(),
        };
        self.management.broker.apply_definition(Command::DeclareQueue(declare)).await.unwrap();
    }

    fn connect(&self, port: u16) -> Session {
        let identity = Identity {
            user: "ada".to_owned(),
            vhost: "/".to_owned(),
            name: format!("127.0.0.1:{port} -> 127.0.0.1:5672"),
            peer_host: "127.0.0.1".to_owned(),
            peer_port: port,
            ..Identity::default()
        };
        Session::open(Arc::clone(&self.management.broker), identity, Arc::new(NullOutbox)).unwrap()
    }

    async fn connections(&self) -> Vec<Value> {
        let columns = ["pid", "name", "user", "peer_port", "state", "protocol"];
        let rows = self.ok("GET /connections?typed=true", json!({"columns": columns})).await;
        rows.as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn definitions_are_changed_and_listed() {
    let node = start().await;
    assert_eq!(
        node.ok("GET /users?columns=name,tags", json!({})).await,
        json!([{"name": "ada", "tags": []}])
    );
    assert_eq!(
        node.refused("POST /leveret/users/{user}", json!({"user": "ada", "password": "x"})).await,
        "user_exists"
    );
    assert_eq!(
        node.refused("DELETE /vhosts/{vhost}", json!({"vhost": "x"})).await,
        "no_such_vhost"
    );
    assert_eq!(
        node.ok("GET /vhosts/{vhost}/permissions", json!({"vhost": "/"})).await,
        json!([{"user": "ada", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}])
    );
}

#[tokio::test]
async fn passwords_are_tried() {
    let node = start().await;
    let request = |password: &str| json!({"user": "ada", "password": password});
    node.ok("POST /leveret/users/{user}/authentication", request("x")).await;
    assert_eq!(
        node.refused("POST /leveret/users/{user}/authentication", request("y")).await,
        "refused"
    );
    let answer = node.ask("POST /leveret/users/{user}/authentication", request("y")).await;
    assert_eq!(answer["reason"], json!("user 'ada' - invalid credentials"));
}

#[tokio::test]
async fn queues_are_listed_purged_and_deleted() {
    let node = start().await;
    node.declare("q1").await;
    let definition = json!({"vhost": "/", "name": "p", "pattern": "^q",
        "definition": {"max-length": 10}});
    node.ok("PUT /policies/{vhost}/{name}", definition).await;
    let overriding = json!({"vhost": "/", "name": "o", "pattern": "^q",
        "definition": {"max-length": 7, "expires": 1000}});
    node.ok("PUT /operator-policies/{vhost}/{name}", overriding).await;
    let columns = [
        "name",
        "messages",
        "consumers",
        "durable",
        "policy",
        "owner_pid",
        "state",
        "effective_policy_definition",
        "members",
    ];
    assert_eq!(
        node.ok("GET /queues/{vhost}?typed=true", json!({"vhost": "/", "columns": columns})).await,
        json!([{"name": "q1", "messages": 0, "consumers": 0, "durable": true, "policy": "p",
            "owner_pid": null, "state": "running",
            "effective_policy_definition": {"max-length": 7, "expires": 1000}}])
    );
    let nowhere = json!({"vhost": "x", "columns": []});
    assert_eq!(node.refused("GET /queues/{vhost}?typed=true", nowhere).await, "no_such_vhost");
    let offline = json!({"vhost": "/", "columns": ["name"], "offline": true});
    assert_eq!(node.ok("GET /queues/{vhost}?typed=true", offline).await, json!([]));
    assert_eq!(
        node.ok("DELETE /queues/{vhost}/{name}/contents", json!({"vhost": "/", "name": "q1"}))
            .await,
        json!({"messages": 0})
    );
    let delete = json!({"vhost": "/", "name": "q1", "if_empty": true, "if_unused": true});
    assert_eq!(
        node.ok("DELETE /queues/{vhost}/{name}", delete.clone()).await,
        json!({"messages": 0})
    );
    assert_eq!(node.refused("DELETE /queues/{vhost}/{name}", delete).await, "not_found");
    assert_eq!(
        node.refused("DELETE /queues/{vhost}/{name}/contents", json!({"vhost": "/", "name": "q"}))
            .await,
        "not_found"
    );
}

#[tokio::test]
async fn connections_are_listed_and_closed() {
    let node = start().await;
    let _sessions = [node.connect(1001), node.connect(1002), node.connect(1003)];
    let rows = node.connections().await;
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["user"], json!("ada"));
    assert_eq!(rows[0]["peer_port"], json!(1001));
    assert_eq!(rows[0]["protocol"], json!("{0,9,1}"));
    assert_eq!(rows[0]["state"], json!("running"));
    let connections = node.management.broker.connections.list();
    let close = |pid: &Value| json!({"pid": pid, "explanation": "because"});
    node.ok("DELETE /connections/{pid}", close(&rows[0]["pid"])).await;
    assert_eq!(connections[0].kicked().await, Interrupt::Close("because".to_owned()));
    node.ok("DELETE /connections/{pid}", close(&rows[1]["name"])).await;
    assert_eq!(connections[1].kicked().await, Interrupt::Close("because".to_owned()));
    assert_eq!(
        node.refused("DELETE /connections/{pid}", close(&json!("<0.0.0>"))).await,
        "not_found"
    );
    let none = json!({"vhost": "other", "explanation": "x"});
    assert_eq!(node.ok("DELETE /leveret/connections", none).await, json!({"closed": 0}));
    let limited = json!({"vhost": "/", "explanation": "x", "limit": 2});
    assert_eq!(node.ok("DELETE /leveret/connections", limited).await, json!({"closed": 2}));
    let all = json!({"explanation": "x"});
    assert_eq!(node.ok("DELETE /leveret/connections", all).await, json!({"closed": 3}));
    assert_eq!(connections[2].kicked().await, Interrupt::Close("x".to_owned()));
    let user = json!({"user": "bob", "explanation": "x"});
    assert_eq!(node.ok("DELETE /connections/username/{user}", user).await, Value::Null);
}

#[tokio::test]
async fn the_node_tells_about_itself() {
    let node = start().await;
    assert_eq!(node.ok("GET /leveret/state", json!({})).await, json!({"running": true}));
    node.management.running.store(false, Ordering::Relaxed);
    assert_eq!(node.ok("GET /leveret/state", json!({})).await, json!({"running": false}));
    assert_eq!(node.ok("GET /leveret/alarms", json!({})).await, json!([]));
    node.management.broker.alarms.set(Alarm::Disk, true);
    let alarms = node.ok("GET /leveret/alarms", json!({})).await;
    assert_eq!(alarms[0]["resource"], json!("disk"));
    assert_eq!(alarms[0]["heaviest"]["queues"], json!([]));
    let listeners = node.ok("GET /leveret/listeners", json!({})).await;
    assert_eq!(listeners[0]["interface"], json!("127.0.0.1"));
    assert_eq!(listeners[1]["interface"], json!("[::]"));
    let status = node.ok("GET /leveret/status", json!({})).await;
    assert_eq!(status["totals"]["virtual_host_count"], json!(1));
    assert!(status["memory"]["total"]["rss"].as_u64().unwrap() > 0);
    assert!(status["disk_free"].as_u64().unwrap() > 0);
    assert_eq!(
        status["file_io"],
        json!({
            "log": {"read_bytes": 1, "write_bytes": 20},
            "other": {"read_bytes": 2, "write_bytes": 300},
            "total": {"read_bytes": 3, "write_bytes": 320},
        })
    );
    assert_eq!(status["storage"]["log"]["files"], json!(1));
    let nothing = json!({"files": 0, "bytes": 0, "needed_bytes": 0});
    assert_eq!(
        (&status["storage"]["pages"], &status["storage"]["message_store"]),
        (&nothing, &nothing)
    );
    let nothing_read =
        json!({"file_reads": 0, "file_read_bytes": 0, "chunks_read": 0, "chunks_read_ahead": 0});
    assert_eq!((&status["stream_reads"], &status["socket_writes"]), (&nothing_read, &json!(0)));
    node.ok("PUT /cluster-name", json!({"name": "c1"})).await;
    assert_eq!(node.ok("GET /leveret/cluster", json!({})).await["cluster_name"], json!("c1"));
    assert_eq!(node.ok("GET /version", json!({})).await, json!("4.3.6"));
}

#[tokio::test]
async fn a_new_limit_counts_at_once() {
    let node = start().await;
    node.ok("PUT /leveret/limits/memory", json!({"bytes": 0})).await;
    assert_eq!(node.ok("GET /leveret/alarms", json!({})).await[0]["resource"], json!("memory"));
    node.ok("PUT /leveret/limits/memory", json!({"of_memory": 0.5})).await;
    assert_eq!(node.ok("GET /leveret/alarms", json!({})).await, json!([]));
}

#[tokio::test]
async fn stopping_is_the_nodes_own_business() {
    let node = start().await;
    let answer = node.ok("POST /leveret/stop", json!({})).await;
    assert_eq!(answer, json!({"pid": std::process::id()}));
    assert_eq!(node.control.noted(), Some(NodeEnd::Stop));
}

#[tokio::test]
async fn bad_requests_are_refused() {
    let node = start().await;
    assert!(node.send("GET /api/no/such/question", b"").await.starts_with("HTTP/1.0 404"));
    assert!(node.send("GET /nothing", b"").await.starts_with("HTTP/1.0 404"));
    let add = "POST /leveret/users/{user}";
    assert_eq!(node.refused(add, json!({"user": "bob"})).await, "bad_request");
    let add = "POST /api/leveret/users/bob";
    for wrong in ["{", "[1]"] {
        assert!(node.send(add, wrong.as_bytes()).await.contains("\"bad_request\""));
    }
    let long = vec![b' '; BODY_BYTES_MAX + 1];
    assert!(node.send("POST /api/leveret/users/bob", &long).await.starts_with("HTTP/1.0 413"));
    assert_eq!(node.ok("GET /users", json!({})).await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn delayed_messages_are_listed_and_cancelled() {
    let node = start().await;
    let x = meta::ExchangeDeclare {
        vhost: "/".into(),
        name: "x".into(),
        kind: meta::ExchangeKind::Fanout,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: [(ShortString::from_static("x-delayed-exchange"), true.into())]
            .into_iter()
            .collect(),
    };
    node.management.broker.apply_definition(Command::DeclareExchange(x)).await.unwrap();
    let exchange = |name: &str| json!({"vhost": "/", "exchange": name});
    assert_eq!(
        node.ok("GET /leveret/exchanges/{vhost}/{exchange}/delayed", exchange("x")).await,
        json!([])
    );
    assert_eq!(
        node.refused("GET /leveret/exchanges/{vhost}/{exchange}/delayed", exchange("amq.direct"))
            .await,
        "not_found"
    );
    for id in ["0", "-1", "one"] {
        let cancel = json!({"vhost": "/", "exchange": "x", "id": id});
        assert_eq!(
            node.refused("DELETE /leveret/exchanges/{vhost}/{exchange}/delayed/{id}", cancel).await,
            "not_found"
        );
    }
    // The queue behind it is nobody else's business.
    let columns = json!({"vhost": "/", "columns": ["name"]});
    assert_eq!(node.ok("GET /queues/{vhost}?typed=true", columns).await, json!([]));
    let own = json!({"vhost": "/", "name": "amq.delayed.x"});
    assert_eq!(
        node.refused("DELETE /queues/{vhost}/{name}/contents", own.clone()).await,
        "not_found"
    );
    assert_eq!(node.refused("DELETE /queues/{vhost}/{name}", own).await, "not_found");
}

#[tokio::test]
async fn virtual_hosts_are_traced() {
    let node = start().await;
    let columns = json!({"columns": ["name", "tracing"]});
    node.ok("PUT /leveret/vhosts/{vhost}/tracing", json!({"vhost": "/", "user": "ada"})).await;
    let traced = node.ok("GET /vhosts", columns.clone()).await;
    assert_eq!(traced, json!([{"name": "/", "tracing": true}]));
    node.ok("DELETE /leveret/vhosts/{vhost}/tracing", json!({"vhost": "/"})).await;
    let traced = node.ok("GET /vhosts", columns).await;
    assert_eq!(traced, json!([{"name": "/", "tracing": false}]));
    for endpoint in
        ["PUT /leveret/vhosts/{vhost}/tracing", "DELETE /leveret/vhosts/{vhost}/tracing"]
    {
        assert_eq!(node.refused(endpoint, json!({"vhost": "x"})).await, "no_such_vhost");
    }
}

#[tokio::test]
async fn definitions_go_out_and_come_in() {
    let node = start().await;
    node.declare("q").await;
    let document = node.ok("GET /definitions/{vhost}", json!({})).await;
    assert_eq!(document["rabbitmq_version"], json!("4.3.6"));
    assert_eq!(document["original_cluster_name"], json!("rabbit@box"));
    assert_eq!(document["queues"][0]["name"], json!("q"));
    let import = |document: &Value| json!({"definitions": document.to_string()});
    let nothing = json!({"changes": 0, "warnings": []});
    assert_eq!(node.ok("POST /definitions/{vhost}", import(&document)).await, nothing);
    let broken = json!({"vhosts": [{"name": "new"}], "queues": [{"vhost": "gone", "name": "q"}]});
    let answer = node.ask("POST /definitions/{vhost}", import(&broken)).await;
    assert_eq!(
        answer["reason"],
        json!("queue 'q' in vhost 'gone': virtual host 'gone' does not exist")
    );
    assert_eq!(
        node.refused("GET /definitions/{vhost}", json!({"vhost": "new"})).await,
        "no_such_vhost"
    );
    // The one request that may be longer than others.
    let long = json!({"definitions": format!("{{{}}}", " ".repeat(BODY_BYTES_MAX))});
    assert_eq!(node.ok("POST /definitions/{vhost}", long).await, nothing);
    let once =
        json!({"definitions": "{\"vhosts\":[{\"name\":\"new\"}]}", "skip_if_unchanged": true});
    assert_eq!(node.ok("POST /definitions/{vhost}", once.clone()).await["changes"], json!(1));
    node.ok("DELETE /vhosts/{vhost}", json!({"vhost": "new"})).await;
    assert_eq!(node.ok("POST /definitions/{vhost}", once).await, nothing);
}

#[tokio::test]
async fn deprecated_features_are_told_apart() {
    let node = start().await;
    let columns = json!({"columns": ["name", "state"]});
    let all = node.ok("GET /deprecated-features", columns).await;
    assert_eq!(all.as_array().unwrap().len(), 8);
    let used = json!({"columns": ["name", "deprecation_phase"], "used": true});
    assert_eq!(node.ok("GET /deprecated-features", used.clone()).await, json!([]));
    let declare = QueueDeclare {
        vhost: "/".into(),
        name: "t".into(),
        named_by: NamedBy::Client,
        durable: false,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Table::new(),
        id: None,
        home: QueueHome::default(),
    };
    node.management.broker.apply_definition(Command::DeclareQueue(declare)).await.unwrap();
    assert_eq!(
        node.ok("GET /deprecated-features", used).await,
        json!([{"name": "transient_nonexcl_queues", "deprecation_phase": "permitted_by_default"}])
    );
    let names = node.ok("GET /deprecated-features/used", json!({})).await;
    assert_eq!(names[0]["name"], "transient_nonexcl_queues");
}

#[tokio::test]
async fn consumers_tell_whether_they_are_active() {
    let node = start().await;
    let arguments = [(ShortString::from_static("x-single-active-consumer"), true.into())];
    let declare = QueueDeclare {
        vhost: "/".into(),
        name: "single".into(),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: arguments.into_iter().collect(),
        id: None,
        home: QueueHome::default(),
    };
    node.management.broker.apply_definition(Command::DeclareQueue(declare)).await.unwrap();
    node.declare("shared").await;
    let mut sessions = [node.connect(1), node.connect(2)];
    for session in &mut sessions {
        let consume = |queue: &'static str| {
            Op::Attach(Attachment {
                queue: ShortString::from_static(queue),
                consumer_tag: ShortString::from_static(queue),
                no_ack: true,
                source: None,
                exclusive: false,
                arguments: Table::new(),
            })
        };
        for op in [Op::OpenChannel, consume("single"), consume("shared")] {
            let control = Control {
                channel: ChannelId(1),
                origin: MethodTag::default(),
                nowait: false,
                refusal: session::RefusalScope::Channel,
                op,
            };
            let mut requests = vec![Request::Control(Box::new(control))];
            session.submit(&session::ReadInput::NONE, &mut requests).await.unwrap();
        }
    }
    let columns = json!({"vhost": "/", "columns": ["queue.name", "active", "activity_status"]});
    let rows = node.ok("GET /consumers/{vhost}?typed=true", columns).await;
    let of = |queue: &str| -> Vec<Value> {
        let rows = rows.as_array().unwrap().iter().filter(|row| row["queue"]["name"] == queue);
        rows.map(|row| json!([row["active"], row["activity_status"]])).collect()
    };
    assert_eq!(of("single"), [json!([true, "single_active"]), json!([false, "waiting"])]);
    assert_eq!(of("shared"), [json!([true, "up"]), json!([true, "up"])]);
}

#[tokio::test]
async fn the_log_and_the_listeners_do_as_they_are_told() {
    let node = start().await;
    let level = |level: &str| json!({"level": level});
    assert_eq!(node.ok("PUT /leveret/log/level/{level}", level("debug")).await, Value::Null);
    let answer = node.ask("PUT /leveret/log/level/{level}", level("loud")).await;
    assert!(answer.to_string().contains("unknown log level 'loud'"), "{answer}");
    let answer = node.ask("POST /leveret/log/rotation", json!({})).await;
    assert!(answer.to_string().contains("cannot reopen the log: full"), "{answer}");

    let mut suspended = node.management.suspended.subscribe();
    assert_ne!(node.ok("GET /leveret/listeners", json!({})).await, json!([]));
    for (endpoint, is_suspended) in
        [("DELETE /leveret/listeners", true), ("POST /leveret/listeners", false)]
    {
        node.ok(endpoint, json!({})).await;
        assert_eq!(*suspended.borrow_and_update(), is_suspended);
        assert_eq!(node.ok("GET /leveret/listeners", json!({})).await == json!([]), is_suspended);
        node.ok(endpoint, json!({})).await;
        assert!(!suspended.has_changed().unwrap(), "told once");
    }

    node.ok("POST /vhosts/{vhost}/start/{node}", json!({"vhost": "/"})).await;
    let answer = node.ask("POST /vhosts/{vhost}/start/{node}", json!({"vhost": "nope"})).await;
    assert!(answer.to_string().contains("nope"), "{answer}");
    assert_eq!(node.ok("GET /queues/{vhost}?offline=true", json!({"vhost": "/"})).await, json!([]));
}
