//! The command line tool against a running node: what scripts and health checks rely on.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::indexing_slicing, reason = "tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// A running node, killed when the test ends.
struct Node {
    child: Child,
    address: SocketAddr,
    data_dir: TempDir,
}

/// What a run of the tool gave.
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
        command.args(["--set", "listeners.tcp.1=127.0.0.1:0"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.env("RABBITMQ_NODENAME", "rabbit@box");
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.arg("ctl").args(args).stdin(Stdio::null());
    command.env("LEVERET_DATA_DIR", data_dir).env("RABBITMQ_NODENAME", "rabbit@box");
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        output: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A client that has opened a connection and a channel, by hand.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let mut client = Self(TcpStream::connect(address).unwrap());
        client.0.set_read_timeout(Some(DEADLINE)).unwrap();
        client.0.write_all(b"AMQP\0\0\x09\x01").unwrap();
        client.expect((10, 10));
        let mut start_ok = Vec::from(0_u32.to_be_bytes());
        start_ok.extend(b"\x05PLAIN");
        start_ok.extend(12_u32.to_be_bytes());
        start_ok.extend(b"\0guest\0guest");
        start_ok.extend(b"\x05en_US");
        client.send(0, (10, 11), &start_ok);
        client.expect((10, 30));
        client.send(0, (10, 31), &[0x07, 0xff, 0, 2, 0, 0, 0, 60]);
        client.send(0, (10, 40), b"\x01/\0\0");
        client.expect((10, 41));
        client.send(1, (20, 10), b"\0");
        client.expect((20, 11));
        client
    }

    fn send(&mut self, channel: u16, method: (u16, u16), arguments: &[u8]) {
        let length = u32::try_from(arguments.len() + 4).unwrap();
        let mut frame = vec![1];
        frame.extend(channel.to_be_bytes());
        frame.extend(length.to_be_bytes());
        frame.extend(method.0.to_be_bytes());
        frame.extend(method.1.to_be_bytes());
        frame.extend(arguments);
        frame.push(0xce);
        self.0.write_all(&frame).unwrap();
    }

    /// The payload of the next frame, which must be this method.
    fn expect(&mut self, method: (u16, u16)) -> Vec<u8> {
        let mut head = [0; 7];
        self.0.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        let mut payload = vec![0; usize::try_from(length).unwrap() + 1];
        self.0.read_exact(&mut payload).unwrap();
        let found = (
            u16::from_be_bytes([payload[0], payload[1]]),
            u16::from_be_bytes([payload[2], payload[3]]),
        );
        assert_eq!(found, method, "{}", String::from_utf8_lossy(&payload));
        payload
    }

    fn declare(&mut self, queue: &str) {
        let mut declare = vec![0, 0, u8::try_from(queue.len()).unwrap()];
        declare.extend(queue.as_bytes());
        declare.extend([2, 0, 0, 0, 0]);
        self.send(1, (50, 10), &declare);
        self.expect((50, 11));
    }

    fn consume(&mut self, queue: &str, tag: &str) {
        let mut consume = vec![0, 0, u8::try_from(queue.len()).unwrap()];
        consume.extend(queue.as_bytes());
        consume.push(u8::try_from(tag.len()).unwrap());
        consume.extend(tag.as_bytes());
        consume.extend([0, 0, 0, 0, 0]);
        self.send(1, (60, 20), &consume);
        self.expect((60, 21));
    }
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
    drop(Client::connect(node.address));
    assert!(!log().contains("[debug]"), "{}", log());
    assert_eq!(node.told(&["set_log_level", "debug"]), "Setting log level to \"debug\" ...\n");
    drop(Client::connect(node.address));
    assert!(log().contains("[debug] accepted"), "{}", log());
    node.told(&["set_log_level", "none"]);
    let n_lines = log().lines().count();
    drop(Client::connect(node.address));
    node.told(&["add_vhost", "silent"]);
    assert_eq!(log().lines().count(), n_lines);
    let wrong = node.ctl(&["set_log_level", "loud"]);
    assert_ne!(wrong.code, 0);
    assert!(wrong.error.contains("level loud is not supported"), "{wrong:?}");

    node.told(&["set_log_level", "info"]);
    let moved = node.data_dir.path().join("node.log.1");
    std::fs::rename(&path, &moved).unwrap();
    node.told(&["rotate_logs"]);
    node.told(&["add_vhost", "loud"]);
    assert!(log().contains("management: add_vhost"), "{}", log());
    assert!(!std::fs::read_to_string(moved).unwrap().contains("add_vhost"));
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
    Client::connect(node.address).declare("q");
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
    let mut client = Client::connect(node.address);
    client.declare("q1");
    client.consume("q1", "tag1");
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
    let port = client.0.local_addr().unwrap().port();
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
fn connections_are_closed_with_the_operators_words() {
    let node = Node::start();
    let mut clients = [Client::connect(node.address), Client::connect(node.address)];
    let pids = node.told(&["-s", "list_connections", "pid", "peer_port"]);
    let port = clients[0].0.local_addr().unwrap().port().to_string();
    let line = pids.lines().find(|line| line.ends_with(&port)).unwrap();
    let pid = line.split('\t').next().unwrap();
    node.told(&["close_connection", pid, "go away"]);
    let close = clients[0].expect((10, 50));
    assert_eq!(u16::from_be_bytes([close[4], close[5]]), 320);
    assert!(String::from_utf8_lossy(&close).contains("go away"), "{close:?}");
    assert_eq!(
        node.told(&["close_all_connections", "-p", "nowhere", "bye"]),
        "Closing all connections in vhost nowhere, reason: bye...\nClosed 0 connections\n"
    );
    node.told(&["close_all_connections", "bye"]);
    let close = clients[1].expect((10, 50));
    assert!(String::from_utf8_lossy(&close).contains("bye"), "{close:?}");
}

#[test]
fn the_node_shuts_down_when_told_to() {
    let mut node = Node::start();
    let pid = node.child.id();
    let mut client = Client::connect(node.address);
    let data_dir = node.data_dir.path().to_owned();
    let shutdown = std::thread::spawn(move || ctl(&data_dir, &["shutdown"]));
    let close = client.expect((10, 50));
    assert_eq!(u16::from_be_bytes([close[4], close[5]]), 320);
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
    Client::connect(node.address).declare("q");
    let settings = node.told(&["-q", "environment"]);
    assert!(settings.starts_with("[{rabbit,["), "{settings}");
    assert!(settings.contains("{heartbeat,<<\"60\">>}"), "{settings}");
    assert!(settings.contains("{default_pass,<<\"***\">>}"), "{settings}");
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
