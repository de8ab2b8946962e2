//! The command line tool against a running node: what scripts and health checks rely on.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::wait_until;
use amqp091::method::BasicConsume;
use tempfile::TempDir;
use testing::client::{Client, DEADLINE};

/// A running node, killed when the test ends.
struct Node {
    child: Child,
    address: SocketAddr,
    data_dir: TempDir,
}

/// The exit code and output of a run of the tool.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    code: i32,
    output: String,
    error: String,
}

impl Node {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    fn start_with(settings: &[&str]) -> Self {
        Self::start_in_with(tempfile::tempdir().unwrap(), settings)
    }

    fn start_in(data_dir: TempDir) -> Self {
        Self::start_in_with(data_dir, &[])
    }

    fn start_in_with(data_dir: TempDir, settings: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
        command.arg("server").arg("--data-dir").arg(data_dir.path());
        let no_http = ["management.enabled=false", "prometheus.enabled=false"];
        let listeners = ["listeners.tcp.1=127.0.0.1:0", "stream.listeners.tcp=none"];
        for setting in listeners.into_iter().chain(no_http) {
            command.args(["--set", setting]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.env("RABBITMQ_NODENAME", "rabbit@box");
        command.env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let (_, rest) = ready.split_once(" ready on ").expect("a ready line");
        let address = rest.split_once(", ").unwrap().0.parse().unwrap();
        Self { child, address, data_dir }
    }

    fn ctl(&self, args: &[&str]) -> Ran {
        ctl(self.data_dir.path(), args)
    }

    /// The output of a run that succeeds.
    fn told(&self, args: &[&str]) -> String {
        let ran = self.ctl(args);
        assert_eq!((ran.code, ran.error.as_str()), (0, ""), "{args:?}");
        ran.output
    }

    fn wait(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < DEADLINE, "the node does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn ctl(data_dir: &Path, args: &[&str]) -> Ran {
    ran(Command::new(env!("CARGO_BIN_EXE_leveret")).arg("ctl").args(args), data_dir)
}

fn ran(command: &mut Command, data_dir: &Path) -> Ran {
    command.stdin(Stdio::null());
    command.env("LEVERET_DATA_DIR", data_dir).env("RABBITMQ_NODENAME", "rabbit@box");
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        output: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the binary under another name, by a link.
fn called(name: &str, data_dir: &Path, args: &[&str]) -> Ran {
    let links = tempfile::tempdir().unwrap();
    let link = links.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_leveret"), &link).unwrap();
    ran(Command::new(link).args(args), data_dir)
}

#[test]
fn health_checks_pass_on_a_node_that_is_up() {
    let node = Node::start();
    assert_eq!(node.told(&["await_startup"]), "");
    assert_eq!(node.told(&["-q", "ping"]), "Ping succeeded\n");
    assert_eq!(
        node.told(&["check_running"]),
        "Checking if RabbitMQ is running on node rabbit@box ...\n\
         RabbitMQ on node rabbit@box is fully booted and running\n"
    );
    let port = node.address.port().to_string();
    assert_eq!(
        node.told(&["-q", "check_port_connectivity"]),
        format!(
            "Successfully connected to ports {port} on node rabbit@box \
             (using node hostname resolution)\n"
        )
    );
    assert_eq!(
        node.told(&["-q", "check_port_listener", &port]),
        format!("A listener for port {port} is running on node rabbit@box.\n")
    );
    node.told(&["-q", "check_local_alarms"]);
    node.told(&["-q", "check_virtual_hosts"]);
    let status = node.told(&["status"]);
    assert!(status.contains("Virtual host count: 1\n"), "{status}");
    assert!(node.told(&["cluster_status"]).contains("\nRunning Nodes\n\nrabbit@box\n"));
}

/// COMPAT: what RabbitMQ's tools tell of memory, of the environment, of definitions and of logs.
#[test]
fn operators_see_memory_variables_definitions_and_places_of_the_log() {
    let node = Node::start_with(&["log.file=node.log"]);
    let memory = node.told(&["-q", "memory_breakdown", "--unit", "bytes"]);
    let lines: Vec<&str> = memory.lines().collect();
    assert!(lines[0].starts_with("other_proc: ") && lines[0].contains(" bytes ("), "{memory}");
    assert!(lines[1].starts_with("queue_procs: ") && lines[1].ends_with("%)"), "{memory}");
    let memory = node.told(&["-q", "--formatter", "json", "memory_breakdown"]);
    let memory: serde_json::Value = serde_json::from_str(&memory).unwrap();
    assert!(memory["other_proc"]["bytes"].as_u64().unwrap() > 1_000_000, "{memory}");
    assert!(memory["other_proc"]["percentage"].as_f64().unwrap() > 50.0, "{memory}");
    assert_eq!(node.ctl(&["memory_breakdown", "--unit", "ells"]).code, 64);
    let variables = node.told(&["-q", "os_env"]);
    assert!(variables.contains("RABBITMQ_NODENAME=rabbit@box\n"), "{variables}");
    let variables = node.told(&["-q", "--formatter", "json", "os_env"]);
    let variables: serde_json::Value = serde_json::from_str(&variables).unwrap();
    assert_eq!(variables["variables"]["RABBITMQ_NODENAME"], "rabbit@box");
    let store = node.told(&["-q", "metadata_store_status"]);
    assert!(store.contains("rabbit@box") && store.contains("leader"), "{store}");
    let first = node.told(&["-q", "log_location"]);
    assert!(first.ends_with("/node.log\n"), "{first}");
    let all = node.told(&["-q", "log_location", "--all"]);
    assert!(all.starts_with(first.trim_end()), "{all}");
    let told = node.told(&["-q", "--formatter", "json", "log_location"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["paths"][0], first.trim_end());
    assert_eq!(told["node_name"], "rabbit@box");
}

#[test]
fn limits_of_alarms_can_be_changed() {
    let node = Node::start();
    let banner = "Setting memory threshold on rabbit@box to 0.000000001 ...\n";
    assert_eq!(node.told(&["set_vm_memory_high_watermark", "0.000000001"]), banner);
    let until_alarms = |n: usize| {
        let begun = Instant::now();
        while node.ctl(&["-q", "check_local_alarms"]).code != i32::from(n > 0) * 69 {
            assert!(begun.elapsed() < DEADLINE, "{n} alarms");
        }
    };
    until_alarms(1);
    node.told(&["set_vm_memory_high_watermark", "absolute", "8GiB"]);
    until_alarms(0);
    let status = node.told(&["status", "--unit", "gib"]);
    assert!(status.contains("computed to: 8.0 gib"), "{status}");
    assert_eq!(
        node.told(&["set_disk_free_limit", "mem_relative", "1000000"]),
        "Setting disk free limit on rabbit@box to 1000000 times the total RAM ...\n"
    );
    until_alarms(1);
    node.told(&["set_disk_free_limit", "50MB"]);
    until_alarms(0);
    for wrong in [&["set_vm_memory_high_watermark", "1.1"][..], &["set_disk_free_limit", "5parsec"]]
    {
        assert_eq!(node.ctl(wrong).code, 65, "{wrong:?}");
    }
    assert_eq!(node.ctl(&["set_disk_free_limit", "mem_relative"]).code, 64);
}

#[test]
fn the_log_is_more_or_less_and_its_file_may_be_moved() {
    let node = Node::start_with(&["log.file=node.log"]);
    let path = node.data_dir.path().join("node.log");
    let log = || std::fs::read_to_string(&path).unwrap();
    drop(Client::guest(node.address));
    assert!(!log().contains("[debug]"), "{}", log());
    assert_eq!(node.told(&["set_log_level", "debug"]), "Setting log level to \"debug\" ...\n");
    drop(Client::guest(node.address));
    wait_until("details in the log", || log().contains("[debug] accepted"));
    node.told(&["set_log_level", "none"]);
    // What was said before is written.
    node.told(&["rotate_logs"]);
    let n_lines = log().lines().count();
    drop(Client::guest(node.address));
    node.told(&["add_vhost", "silent"]);
    node.told(&["rotate_logs"]);
    assert_eq!(log().lines().count(), n_lines);
    let wrong = node.ctl(&["set_log_level", "loud"]);
    assert_ne!(wrong.code, 0);
    assert!(wrong.error.contains("level loud is not supported"), "{wrong:?}");

    node.told(&["set_log_level", "info"]);
    let moved = node.data_dir.path().join("node.log.1");
    std::fs::rename(&path, &moved).unwrap();
    node.told(&["rotate_logs"]);
    node.told(&["add_vhost", "loud"]);
    let change = ": POST /leveret/vhosts/{vhost} vhost=\"loud\"";
    wait_until("the change in the log", || log().contains(change));
    assert!(!std::fs::read_to_string(moved).unwrap().contains("/vhosts/"));
}

#[test]
fn listeners_are_suspended_and_resumed() {
    let node = Node::start();
    node.told(&["suspend_listeners"]);
    let until = |open: bool| {
        let started = Instant::now();
        while TcpStream::connect(node.address).is_ok() != open {
            assert!(started.elapsed() < DEADLINE, "connections are accepted: {}", !open);
        }
    };
    until(false);
    let port = node.address.port().to_string();
    assert_ne!(node.ctl(&["check_port_listener", &port]).code, 0);
    node.told(&["resume_listeners"]);
    until(true);
    node.told(&["check_port_listener", &port]);
    Client::guest(node.address).declare("q");
}

#[test]
fn what_cannot_fail_alone_needs_no_help() {
    let node = Node::start();
    assert_eq!(
        node.told(&["restart_vhost"]),
        "Trying to restart vhost '/' on node 'rabbit@box' ...\n\
         Vhost '/' is already running on node 'rabbit@box'\n"
    );
    assert_ne!(node.ctl(&["restart_vhost", "--vhost", "nope"]).code, 0);
    assert_eq!(node.told(&["-q", "list_unresponsive_queues"]).trim(), "");
}

#[test]
fn users_and_permissions_survive_a_restart() {
    let mut node = Node::start();
    node.told(&["add_user", "ada", "Lovelace"]);
    node.told(&["set_user_tags", "ada", "management", "policymaker"]);
    node.told(&["add_vhost", "v1"]);
    node.told(&["set_permissions", "-p", "v1", "ada", "^a", ".*", ""]);
    node.told(&["set_policy", "-p", "v1", "p", "^q", r#"{"max-length":5}"#]);
    assert_eq!(
        node.ctl(&["-q", "add_user", "ada", "x"]),
        Ran {
            code: 70,
            output: String::new(),
            error: "Error:\nUser \"ada\" already exists\n".to_owned()
        }
    );
    assert_eq!(node.ctl(&["-q", "authenticate_user", "ada", "wrong"]).code, 65);
    let started = Instant::now();
    node.told(&["stop"]);
    assert_eq!(node.wait(), Some(0));
    assert!(started.elapsed() < DEADLINE);
    assert_eq!(node.ctl(&["list_users"]).code, 69);
    let data_dir = std::mem::replace(&mut node.data_dir, tempfile::tempdir().unwrap());

    let node = Node::start_in(data_dir);
    assert_eq!(node.told(&["-q", "authenticate_user", "ada", "Lovelace"]), "Success\n");
    assert_eq!(
        node.told(&["list_users"]),
        "Listing users ...\nuser\ttags\nada\t[management, policymaker]\nguest\t[administrator]\n"
    );
    assert_eq!(
        node.told(&["-q", "list_permissions", "-p", "v1"]),
        "user\tconfigure\twrite\tread\nada\t^a\t.*\t\n"
    );
    assert_eq!(
        node.told(&["-s", "list_policies", "-p", "v1"]),
        "v1\tp\t^q\tall\t{\"max-length\":5}\t0\n"
    );
}

#[test]
fn what_clients_do_is_listed() {
    let node = Node::start();
    let mut client = Client::guest(node.address);
    client.declare("q1");
    let consume = BasicConsume { queue: b"q1", consumer_tag: b"tag1", ..BasicConsume::default() };
    assert_eq!(client.ask(1, consume), "basic.consume-ok");
    assert_eq!(
        node.told(&["list_queues", "name", "messages", "consumers", "durable", "state"]),
        "Timeout: 60.0 seconds ...\nListing queues for vhost / ...\n\
         name\tmessages\tconsumers\tdurable\tstate\nq1\t0\t1\ttrue\trunning\n"
    );
    assert_eq!(
        node.told(&["-q", "list_bindings"]),
        "source_name\tsource_kind\tdestination_name\tdestination_kind\trouting_key\targuments\n\
         \texchange\tq1\tqueue\tq1\t[]\n"
    );
    let port = client.local_port();
    assert_eq!(
        node.told(&["list_connections"]),
        format!(
            "Listing connections ...\nuser\tpeer_host\tpeer_port\tstate\n\
             guest\t127.0.0.1\t{port}\trunning\n"
        )
    );
    assert_eq!(
        node.told(&["-q", "list_consumers", "queue_name", "consumer_tag", "ack_required"]),
        "queue_name\tconsumer_tag\tack_required\nq1\ttag1\ttrue\n"
    );
    assert_eq!(
        node.told(&["-s", "list_channels", "number", "user", "vhost", "consumer_count"]),
        "1\tguest\t/\t1\n"
    );
    let exchanges = node.told(&["list_exchanges", "--formatter", "json"]);
    assert!(exchanges.contains("{\"name\":\"amq.topic\",\"type\":\"topic\"}"), "{exchanges}");
    let refused = node.ctl(&["-q", "delete_queue", "q1", "--if-unused"]);
    assert_eq!((refused.code, refused.error.as_str()), (64, "Error:\nThe queue is in use\n"));
    assert_eq!(node.told(&["-q", "purge_queue", "q1"]), "");
    assert_eq!(
        node.told(&["delete_queue", "q1"]),
        "Deleting queue 'q1' on vhost '/' ...\n\
         Queue was successfully deleted with 0 ready messages\n"
    );
}

#[test]
fn top_shows_queues_connections_and_alarms() {
    let node = Node::start();
    let mut client = Client::guest(node.address);
    client.declare("q1");
    client.select_confirms();
    client.put_publish("q1", false, b"hello");
    client.flush();
    client.wait_for_confirms();
    node.told(&["set_vm_memory_high_watermark", "0.000000001"]);
    let shown = node.told(&["top", "--once", "--interval", "1", "--rows", "5"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("Memory alarm on node "), "{shown}");
    assert!(shown.contains("Heaviest: queue 'q1' in vhost '/' holds 1 messages"), "{shown}");
    let queue = lines.iter().find(|line| line.ends_with("  'q1' in '/'")).unwrap();
    let cells: Vec<&str> = queue.split_whitespace().collect();
    assert_eq!(&cells[2..4], ["1", "0"], "{shown}");
    let connection = lines.iter().find(|line| line.ends_with(" of 'guest'")).unwrap();
    assert!(connection.contains(&client.local_port().to_string()), "{shown}");
}

#[test]
fn connections_are_closed_with_the_operators_words() {
    let node = Node::start();
    let mut clients = [Client::guest(node.address), Client::guest(node.address)];
    let pids = node.told(&["-s", "list_connections", "pid", "peer_port"]);
    let port = clients[0].local_port().to_string();
    let line = pids.lines().find(|line| line.ends_with(&port)).unwrap();
    let pid = line.split('\t').next().unwrap();
    node.told(&["close_connection", pid, "go away"]);
    let close = clients[0].next().show();
    assert!(close.starts_with("connection.close 320") && close.contains("go away"), "{close}");
    assert_eq!(
        node.told(&["close_all_connections", "-p", "nowhere", "bye"]),
        "Closing all connections in vhost nowhere, reason: bye...\nClosed 0 connections\n"
    );
    node.told(&["close_all_connections", "bye"]);
    let close = clients[1].next().show();
    assert!(close.starts_with("connection.close") && close.contains("bye"), "{close}");
}

#[test]
fn the_node_shuts_down_when_told_to() {
    let mut node = Node::start();
    let pid = node.child.id();
    let mut client = Client::guest(node.address);
    let data_dir = node.data_dir.path().to_owned();
    let shutdown = std::thread::spawn(move || ctl(&data_dir, &["shutdown"]));
    let close = client.next().show();
    assert!(close.starts_with("connection.close 320"), "{close}");
    drop(client);
    assert_eq!(node.wait(), Some(0));
    let ran = shutdown.join().unwrap();
    assert_eq!(
        ran.output,
        format!(
            "Shutting down RabbitMQ node rabbit@box running at PID {pid}\n\
             Waiting for PID {pid} to terminate\n\
             RabbitMQ node rabbit@box running at PID {pid} successfully shut down\n"
        )
    );
    assert!(!node.data_dir.path().join("ctl.sock").exists());
}

#[test]
fn the_tool_answers_to_rabbitmqs_names() {
    let node = Node::start();
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("rabbitmq-diagnostics");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_leveret"), &link).unwrap();
    let mut command = Command::new(&link);
    command.args(["-q", "check_running", "--data-dir"]).arg(node.data_dir.path());
    assert!(command.output().unwrap().status.success());
    let output = Command::new(&link).arg("nonsense_it_is").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("rabbitmq-diagnostics [--node <node>]"), "{told}");
}

#[test]
fn the_node_tells_its_settings_and_all_about_itself() {
    let node = Node::start();
    node.told(&["set_policy", "low", "^q", r#"{"max-length":5}"#]);
    node.told(&["set_policy", "--priority", "2", "high", "q", r#"{"max-length":7}"#]);
    Client::guest(node.address).declare("q");
    let settings = node.told(&["-q", "environment"]);
    assert!(settings.contains("\nheartbeat = 60\n"), "{settings}");
    assert!(settings.contains("\ndefault_pass = ***\n"), "{settings}");
    assert_eq!(
        node.told(&["-q", "list_policies_that_match", "q"]),
        "vhost\tname\tpattern\tapply-to\tdefinition\tpriority\n\
         /\thigh\tq\tall\t{\"max-length\":7}\t2\n/\tlow\t^q\tall\t{\"max-length\":5}\t0\n"
    );
    assert_eq!(
        node.told(&["-q", "list_queues", "name", "--formatter", "erlang"]),
        "[[{name,<<\"q\">>}]]\n"
    );
    let report = node.told(&["report"]);
    for part in [
        "Reporting server status of node rabbit@box ...",
        "Status of node rabbit@box ...",
        "Application environment of node rabbit@box ...",
        "Listing queues for vhost / ...",
        "Listing policies for vhost \"/\" ...",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    node.told(&["check_if_any_deprecated_features_are_used"]);
}

#[test]
fn only_the_node_that_is_meant_does_what_is_asked() {
    let node = Node::start();
    for (name, verb) in [
        ("rabbit@elsewhere", &["delete_user", "guest"][..]),
        ("hare", &["add_vhost", "v"]),
        ("hare@box", &["stop"]),
        ("hare@box", &["set_disk_free_limit", "1GB"]),
        ("hare@box", &["report"]),
        ("rabbit@localhost", &["ping"]),
    ] {
        for option in ["-n", "--node"] {
            let ran = node.ctl(&[&[option, name], verb].concat());
            assert_eq!(ran.code, 69, "{name} {verb:?}: {ran:?}");
            let socket = node.data_dir.path().join("ctl.sock").display().to_string();
            assert!(ran.error.contains(&socket) && ran.error.contains("rabbit@box"), "{ran:?}");
        }
    }
    let ran = node.ctl(&["-n", "rabbit@elsewhere", "list_users"]);
    let head = "Error: unable to perform an operation on node 'rabbit@elsewhere'. \
                Please see diagnostics information and suggestions below.\n";
    assert!(ran.error.starts_with(head), "{}", ran.error);
    assert_eq!(node.told(&["-q", "-n", "rabbit@box", "ping"]), "Ping succeeded\n");
    assert_eq!(node.told(&["-q", "--node=rabbit@box.example.org", "ping"]), "Ping succeeded\n");
    assert_eq!(node.told(&["-s", "list_users"]), "guest\t[administrator]\n");
    assert_eq!(node.told(&["-s", "list_vhosts"]), "/\n");
}

#[test]
fn ping_names_the_socket_and_the_true_reason() {
    let data_dir = tempfile::tempdir().unwrap();
    let socket = data_dir.path().join("ctl.sock");
    let ran = ctl(data_dir.path(), &["ping"]);
    assert_eq!(ran.code, 69);
    assert!(
        ran.output.contains(&format!("control socket {}. Timeout: 60000 ms", socket.display()))
    );
    assert!(ran.error.contains("No such file"), "{ran:?}");
    assert!(!ran.error.contains(" ms"), "{ran:?}");
    let _deaf = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let ran = ctl(data_dir.path(), &["ping", "-t", "1"]);
    let text = format!("control socket {}: no answer in 1000 ms", socket.display());
    assert_eq!(ran.code, 69);
    assert!(ran.error.contains(&text), "{ran:?}");
}

#[test]
fn names_of_rabbitmq_are_answered_and_none_starts_a_node_by_mistake() {
    let node = Node::start();
    let data_dir = node.data_dir.path();
    for name in [
        "rabbitmqctl",
        "rabbitmq-diagnostics",
        "rabbitmq-queues",
        "rabbitmq-streams",
        "rabbitmq-upgrade",
    ] {
        assert_eq!(called(name, data_dir, &["-q", "ping"]).output, "Ping succeeded\n", "{name}");
    }
    let bin = env!("CARGO_BIN_EXE_leveret");
    let ran_as_argument = ran(Command::new(bin).args(["rabbitmqctl", "-q", "ping"]), data_dir);
    assert_eq!(ran_as_argument.output, "Ping succeeded\n");
    for (name, args, code) in [
        ("rabbitmq-collect-env", &[][..], 64),
        ("rabbitmq", &["server"], 64),
        ("rabbitmqadmin", &["list", "queues"], 69),
        ("rabbitmq-server", &["-detached"], 69),
        ("rabbitmq-queues", &["grow", "rabbit@box"], 64),
        ("rabbitmq-streams", &["add_replica", "s", "rabbit@box"], 65),
        ("rabbitmqctl", &["join_cluster", "rabbit@other"], 69),
        ("rabbitmqctl", &["bogus"], 64),
        ("rabbitmqctl", &["list"], 64),
        ("rabbitmq-plugins", &["list_queues"], 64),
    ] {
        let ran = called(name, data_dir, args);
        assert_eq!(ran.code, code, "{name} {args:?}: {ran:?}");
        assert!(!ran.error.is_empty(), "{name} {args:?}");
    }
}

#[test]
fn plugins_are_built_in_or_refused() {
    let node = Node::start();
    let plugins = |args: &[&str]| called("rabbitmq-plugins", node.data_dir.path(), args);
    let built_in = "rabbitmq_amqp1_0\n\
                    rabbitmq_auth_mechanism_ssl\nrabbitmq_consistent_hash_exchange\n\
                    rabbitmq_delayed_message_exchange\nrabbitmq_event_exchange\n\
                    rabbitmq_jms_topic_exchange\nrabbitmq_management\nrabbitmq_management_agent\n\
                    rabbitmq_message_deduplication\nrabbitmq_prometheus\nrabbitmq_random_exchange\n\
                    rabbitmq_recent_history_exchange\nrabbitmq_sharding\nrabbitmq_stream\n\
                    rabbitmq_stream_management\nrabbitmq_tracing\nrabbitmq_web_dispatch\n";
    for options in [&["-E", "-m", "-q"][..], &["--enabled", "--minimal", "--quiet"], &["-Em", "-s"]]
    {
        let ran = plugins(&[&["list"], options].concat());
        assert_eq!((ran.code, ran.output.as_str()), (0, built_in), "{options:?}");
    }
    let ran = plugins(&["list", "-m", "-e", "-q", "rabbitmq_mqtt"]);
    assert_eq!((ran.code, ran.output.as_str()), (0, ""));
    let ran = plugins(&["list", "^rabbitmq_(random|event)"]);
    assert_eq!(
        ran.output,
        "Listing plugins with pattern \"^rabbitmq_(random|event)\" ...\n \
         Configured: E = explicitly enabled; e = implicitly enabled\n \
         | Status: * = running on rabbit@box\n |/\n\
         [E*] rabbitmq_event_exchange  4.4.0\n[E*] rabbitmq_random_exchange 4.4.0\n"
    );
    for verb in [&["is_enabled"][..], &["enable", "--online"], &["disable", "--online"]] {
        let ran = plugins(&[verb, &["-n", "hare@box", "rabbitmq_event_exchange"]].concat());
        assert_eq!(ran.code, 69, "of another node: {ran:?}");
    }
    for mode in ["--online", "--offline"] {
        let ran = plugins(&["enable", mode, "rabbitmq_delayed_message_exchange"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.output.ends_with("Plugin configuration unchanged.\n"), "{ran:?}");
        let ran = plugins(&["disable", mode, "rabbitmq_event_exchange"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.output.contains("stays enabled"), "{ran:?}");
        for verb in ["enable", "set"] {
            let ran = plugins(&[
                verb,
                mode,
                "rabbitmq_mqtt",
                "rabbitmq_peer_discovery_k8s",
                "rabbitmq_top",
            ]);
            assert_eq!(ran.code, 0, "{ran:?}");
            assert!(
                ran.output.contains("warning: rabbitmq_mqtt is not enabled: not supported yet"),
                "{ran:?}"
            );
        }
        let ran = plugins(&["enable", mode, "rabbitmq_mqtt", "rabbitmq_bogus"]);
        assert_eq!(ran.code, 70);
        assert!(ran.error.starts_with("Error:\n{:plugins_not_found, [:rabbitmq_bogus]}"));
    }
    // AMQP 1.0 needs no plugin.
    let ran = plugins(&["-q", "is_enabled", "rabbitmq_amqp1_0"]);
    assert_eq!(ran.output, "Plugin rabbitmq_amqp1_0 is enabled on node rabbit@box\n");
    let ran = plugins(&["-q", "is_enabled", "rabbitmq_event_exchange"]);
    let text = "Plugin rabbitmq_event_exchange is enabled on node rabbit@box\n";
    assert_eq!((ran.code, ran.output.as_str()), (0, text));
    let ran = plugins(&["-q", "is_enabled", "rabbitmq_shovel", "--offline"]);
    assert_eq!(ran.code, 69);
    assert!(
        ran.error.contains("Plugin rabbitmq_shovel is not enabled. Enabled plugins"),
        "{ran:?}"
    );
    let nowhere = tempfile::tempdir().unwrap();
    let ran = called("rabbitmq-plugins", nowhere.path(), &["-q", "list", "-E", "-m"]);
    assert_eq!((ran.code, ran.output.as_str()), (0, built_in));
    let online = ["is_enabled", "rabbitmq_event_exchange"];
    assert_eq!(called("rabbitmq-plugins", nowhere.path(), &online).code, 69);
}

#[test]
fn a_node_is_drained_and_revived() {
    let node = Node::start();
    let _client = Client::guest(node.address);
    assert_eq!(called("rabbitmq-upgrade", node.data_dir.path(), &["drain"]).code, 0);
    let status = node.told(&["status", "--formatter", "json"]);
    assert!(status.contains("\"is_under_maintenance\":true"), "{status}");
    let started = Instant::now();
    while !node.told(&["-s", "list_connections", "user"]).trim().is_empty() {
        assert!(started.elapsed() < DEADLINE, "the connection stays");
    }
    assert_eq!(node.ctl(&["-q", "check_protocol_listener", "amqp"]).code, 69);
    assert_eq!(called("rabbitmq-upgrade", node.data_dir.path(), &["revive"]).code, 0);
    assert!(node.told(&["status"]).contains("Is under maintenance?: false"));
    node.told(&["-q", "check_protocol_listener", "amqp"]);
}

#[test]
fn what_would_have_no_effect_is_refused() {
    let node = Node::start();
    for component in ["shovel", "federation-upstream", "federation-upstream-set"] {
        let ran = node.ctl(&["set_parameter", component, "s", "{}"]);
        assert_eq!(ran.code, 69);
        assert!(ran.error.contains(&format!("component {component} not found")), "{ran:?}");
    }
    let ran = node.ctl(&["set_policy", "f", ".*", r#"{"federation-upstream-set": "all"}"#]);
    assert_eq!(ran.code, 69);
    assert!(ran.error.contains("are not recognised policy settings"), "{ran:?}");
    let ran = node.ctl(&["add_vhost", "v", "--default-queue-type", "mirrored"]);
    assert_eq!(ran.code, 65);
    assert!(ran.error.contains("efault queue type"), "{ran:?}");
    assert_eq!(node.told(&["-s", "list_vhosts"]), "/\n");
    node.told(&["set_parameter", "vhost-limits", "limits", r#"{"max-queues": 7}"#]);
    let limits = "component\tname\tvalue\nvhost-limits\tlimits\t{\"max-queues\":7}\n";
    assert_eq!(node.told(&["-q", "list_parameters"]), limits);

    let file = node.data_dir.path().join("definitions.json");
    let file = file.to_str().unwrap();
    let policy = r#"{"vhost": "/", "name": "f", "pattern": ".*", "definition":
                    {"federation-upstream": "x", "max-length": 3}}"#;
    let parameter = r#"{"vhost": "/", "component": "shovel", "name": "s", "value": {}}"#;
    let text = format!("{{\"policies\": [{policy}], \"parameters\": [{parameter}]}}");
    std::fs::write(file, text).unwrap();
    let report = "Warning: parameter 's' of 'shovel' in vhost '/': skipped: component shovel not \
                  found\n\
                  Warning: policy 'f' in vhost '/': skipped unknown setting \
                  `federation-upstream`";
    let ran = node.ctl(&["-q", "import_definitions", "--strict", file]);
    assert_eq!((ran.code, ran.output.as_str(), ran.error.trim_end()), (1, "", report));
    assert_eq!(node.told(&["-q", "import_definitions", file]).trim_end(), report);
    assert!(node.told(&["-s", "list_policies"]).contains("{\"max-length\":3}"));
    std::fs::write(file, r#"{"vhosts": [{"name": "/"}]}"#).unwrap();
    assert_eq!(node.told(&["-q", "import_definitions", "--strict", file]), "");
}

#[test]
fn listeners_claim_both_versions_of_amqp() {
    let node = Node::start();
    let listeners = node.told(&["-q", "listeners"]);
    assert!(
        listeners.ends_with("protocol: amqp, purpose: AMQP 0-9-1 and AMQP 1.0\n"),
        "{listeners}"
    );
    node.told(&["-q", "check_protocol_listener", "amqp0-9-1"]);
    node.told(&["-q", "check_protocol_listener", "amqp1.0"]);
}

#[test]
fn the_log_says_who_changed_what_and_no_secret() {
    let node = Node::start_with(&["log.file=node.log"]);
    for change in [
        &["add_user", "alice", "geheim1"][..],
        &["change_password", "alice", "geheim2"],
        &["set_permissions", "-p", "/", "alice", "^a", ".*", ".*"],
        &["set_policy", "limits", "^q", r#"{"max-length": 7}"#],
        &["set_global_parameter", "note", r#""geheim3""#],
        &["authenticate_user", "alice", "geheim2"],
        &["list_users"],
        &["delete_user", "alice"],
        &["stop"],
    ] {
        node.told(change);
    }
    let log = std::fs::read_to_string(node.data_dir.path().join("node.log")).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("management: user ")).collect();
    let told: Vec<&str> = lines.iter().map(|line| line.split_once("): ").unwrap().1).collect();
    assert_eq!(
        told,
        [
            r#"POST /leveret/users/{user} user="alice""#,
            r#"PUT /leveret/users/{user}/password user="alice""#,
            r#"PUT /permissions/{vhost}/{user} vhost="/" user="alice""#,
            r#"PUT /policies/{vhost}/{name} vhost="/" name="limits" pattern="^q""#,
            r#"PUT /global-parameters/{name} name="note""#,
            r#"DELETE /users/{user} user="alice""#,
            "POST /leveret/stop",
        ]
    );
    let uid = std::os::unix::fs::MetadataExt::uid(&node.data_dir.path().metadata().unwrap());
    assert!(lines.iter().all(|line| line.contains(&format!("(uid {uid}, pid "))), "{lines:?}");
    assert!(!log.contains("geheim"), "{log}");
}
