mod quorum;
mod streams;

use super::*;
use crate::options::Switch;
use crate::verb::Banner;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// The effects of one run.
#[derive(Debug)]
struct Ran {
    code: u8,
    output: String,
    error: String,
    /// Question and request, when the node was asked.
    asked: Option<(String, Value)>,
}

/// A data directory with a node in it that gives one canned answer.
struct Node {
    data_dir: PathBuf,
    thread: JoinHandle<(String, Value)>,
}

fn data_dir() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("ctl-test-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn node(answer: &Value) -> Node {
    let data_dir = data_dir();
    let listener = UnixListener::bind(data_dir.join("ctl.sock")).unwrap();
    let (status, body) = match answer.get("error") {
        None => (200, answer["ok"].to_string()),
        Some(error) => (400, json!({"error": error["kind"], "reason": error["text"]}).to_string()),
    };
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let question = line.trim_end_matches(" HTTP/1.0\r\n").replacen("/api", "", 1);
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut request = vec![0; length];
        reader.read_exact(&mut request).unwrap();
        // A tool that may wait no time at all can be gone.
        let _has_gone = write!(
            &stream,
            "HTTP/1.0 {status} x\r\ncontent-type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .is_err();
        (question, serde_json::from_slice(&request).unwrap_or_default())
    });
    Node { data_dir, thread }
}

fn rabbitmqctl() -> Tool {
    Tool::new("rabbitmqctl", verbs::TABLES)
}

fn run_in(data_dir: &Path, line: &[&str], typed: &str) -> Ran {
    let mut given: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
    given.extend(["-n".to_owned(), "rabbit@box".to_owned(), "--data-dir".to_owned()]);
    given.push(data_dir.display().to_string());
    let mut output = Vec::new();
    let mut input = typed.as_bytes();
    let mut terminal = Terminal { input: &mut input, output: &mut output };
    let result = run_with(&rabbitmqctl(), given, &mut terminal);
    let (code, error) = match result {
        Ok(()) => (0, String::new()),
        Err(failure) => (failure.code, failure.text.unwrap_or_default()),
    };
    Ran { code, output: String::from_utf8(output).unwrap(), error, asked: None }
}

fn told(line: &[&str], answer: &Value) -> Ran {
    let node = node(answer);
    let mut ran = run_in(&node.data_dir, line, "");
    ran.asked = Some(node.thread.join().unwrap());
    std::fs::remove_dir_all(node.data_dir).unwrap();
    ran
}

fn alone(line: &[&str]) -> Ran {
    let data_dir = data_dir();
    let ran = run_in(&data_dir, line, "");
    std::fs::remove_dir_all(data_dir).unwrap();
    ran
}

fn refusal(kind: &str, text: &str) -> Value {
    json!({"error": {"kind": kind, "text": text}})
}

#[test]
fn a_user_is_added() {
    let ran = told(&["add_user", "alice", "secret"], &json!({"ok": null}));
    assert_eq!(
        ran.output,
        "Adding user \"alice\" ...\nDone. Don't forget to grant the user permissions to some \
         virtual hosts! See 'rabbitmqctl help set_permissions' to learn more.\n"
    );
    let (question, request) = ran.asked.unwrap();
    assert_eq!(question, "POST /leveret/users/%61lice");
    assert_eq!(request, json!({"password": "secret"}));
    let quiet = told(&["add_user", "-q", "alice", "secret"], &json!({"ok": null}));
    assert_eq!((quiet.code, quiet.output.as_str()), (0, ""));
    let ran = told(&["add_user", "alice", "secret"], &refusal("user_exists", "alice"));
    assert_eq!((ran.code, ran.error.as_str()), (70, "Error:\nUser \"alice\" already exists"));
}

#[test]
fn a_password_may_be_typed() {
    let node = node(&json!({"ok": null}));
    let ran = run_in(&node.data_dir, &["change_password", "bob"], "new one\n");
    assert_eq!(ran.output, "Changing password for user \"bob\" ...\nPassword: \n");
    let (_, request) = node.thread.join().unwrap();
    assert_eq!(request["password"], json!("new one"));
    std::fs::remove_dir_all(&node.data_dir).unwrap();
}

#[test]
fn without_a_password_nothing_is_asked() {
    let data_dir = data_dir();
    let _listener = UnixListener::bind(data_dir.join("ctl.sock")).unwrap();
    let ran = run_in(&data_dir, &["add_user", "bob"], "");
    assert_eq!(ran.output, "Adding user \"bob\" ...\nPassword: \n");
    assert_eq!(
        (ran.code, ran.error.as_str()),
        (65, "Error:\nPassword is not provided via argument or stdin")
    );
    std::fs::remove_dir_all(data_dir).unwrap();
}

#[test]
fn listings_have_a_banner_and_names_of_columns() {
    let queues = json!({"ok": [{"name": "q", "messages": 3}]});
    let ran = told(&["list_queues"], &queues);
    assert_eq!(
        ran.output,
        "Timeout: 60.0 seconds ...\nListing queues for vhost / ...\nname\tmessages\nq\t3\n"
    );
    assert_eq!(ran.asked.unwrap().0, "GET /queues/%2F?typed=true&columns=name,messages");
    assert_eq!(told(&["-q", "list_queues"], &queues).output, "name\tmessages\nq\t3\n");
    assert_eq!(told(&["-s", "list_queues"], &queues).output, "q\t3\n");
    assert_eq!(
        told(&["list_queues", "--formatter", "json"], &queues).output,
        "[\n{\"name\":\"q\",\"messages\":3}\n]\n"
    );
    assert_eq!(
        told(&["list_queues", "messages", "name", "--formatter=csv"], &queues).output,
        "\"messages\",\"name\"\n\"3\",\"q\"\n"
    );
}

#[test]
fn topic_permissions_of_a_user_have_no_names_of_columns() {
    let rows = json!({"ok": [{"vhost": "v", "exchange": "e", "write": "w", "read": "r"}]});
    let plain = told(&["-q", "list_user_topic_permissions", "alice"], &rows);
    assert_eq!(plain.output, "v\te\tw\tr\n");
    let line = ["-q", "list_user_topic_permissions", "alice", "--table-headers"];
    assert_eq!(told(&line, &rows).output, "vhost\texchange\twrite\tread\nv\te\tw\tr\n");
}

#[test]
fn refusals_are_worded_as_by_rabbitmq() {
    let user = refusal("no_such_user", "bob");
    let vhost = refusal("no_such_vhost", "v9");
    let cases: [(&[&str], &Value, u8, &str); 10] = [
        (&["set_permissions", "bob", "", "", ""], &user, 67, "Error:\nUser bob does not exist"),
        (&["list_user_permissions", "bob"], &user, 69, "Error:\n{:no_such_user, \"bob\"}"),
        (&["delete_vhost", "v9"], &vhost, 65, "Virtual host 'v9' does not exist"),
        (&["clear_permissions", "x"], &vhost, 69, "Error:\nVirtual host v9 does not exist"),
        (&["set_vhost_tags", "v9"], &vhost, 65, "Error:\nVirtual host \"v9\" does not exist"),
        (
            &["clear_policy", "p"],
            &refusal("parameter_not_found", ""),
            69,
            "Error:\nParameter does not exist",
        ),
        (&["delete_queue", "q"], &refusal("not_empty", ""), 64, "Error:\nThe queue is not empty"),
        (&["delete_queue", "q"], &refusal("not_found", ""), 64, "Error:\nNo such queue was found"),
        (
            &["authenticate_user", "bob", "x"],
            &refusal("refused", "user 'bob' - invalid credentials"),
            65,
            "Error:\nError: failed to authenticate user \"bob\"\nuser 'bob' - invalid credentials",
        ),
        (
            &["set_policy", "p", "^", "{}"],
            &refusal("invalid", "Validation failed\n\nno policy provided\n"),
            69,
            "Error:\nValidation failed\n\nno policy provided\n",
        ),
    ];
    for (line, answer, code, error) in cases {
        let ran = told(line, answer);
        assert_eq!((ran.code, ran.error.as_str()), (code, error), "{line:?}");
    }
    let line = ["set_user_tags", "bob", "--formatter", "json"];
    assert_eq!(
        told(&line, &user).error,
        "{\"message\":\"User bob does not exists\",\"node\":\"rabbit@box\",\"result\":\"error\"}"
    );
    // COMPAT: nobody is deleted without a word.
    assert_eq!(told(&["delete_user", "bob"], &user).code, 0);
}

#[test]
fn expressions_of_tools_are_evaluated() {
    let evaluated = |expression: &str, answer: &Value| told(&["-q", "eval", expression], answer);
    let check = "rabbit_access_control:check_user_pass_login(list_to_binary(\"ann\"), list_to_binary(\"pw\")).";
    let ran = evaluated(check, &json!({"ok": null}));
    assert!(ran.code == 0 && ran.output.starts_with("{ok,{user,<<\"ann\">>"), "{ran:?}");
    assert_eq!(ran.asked.unwrap().0, "POST /leveret/users/%61nn/authentication");
    let ran = evaluated(check, &refusal("refused", "user 'ann' - invalid credentials"));
    assert!(ran.code == 0 && ran.output.starts_with("{refused,<<\"ann\">>"), "{ran:?}");
    let ran = evaluated("rabbit_nodes:cluster_name().", &json!({"ok": {"name": "hutch"}}));
    assert_eq!(ran.output, "<<\"hutch\">>\n");
    assert_eq!(alone(&["-q", "eval", "node()."]).output, "rabbit@box\n");
    assert_eq!(alone(&["eval", "os:cmd(\"reboot\")."]).code, 69);
}

#[test]
fn deleting_a_queue_tells_the_conditions_and_the_messages() {
    let line = ["delete_queue", "q", "--if-empty", "-u", "-p", "v"];
    let ran = told(&line, &json!({"ok": {"messages": 7}}));
    assert_eq!(
        ran.output,
        "Deleting queue 'q' on vhost 'v' if queue is empty and if queue is unused ...\n\
         Queue was successfully deleted with 7 ready messages\n"
    );
}

#[test]
fn closing_connections() {
    let closed = json!({"ok": {"closed": 2}});
    assert_eq!(
        told(&["close_all_connections", "why"], &closed).output,
        "Closing all connections in vhost /, reason: why...\nClosed 2 connections\n"
    );
    assert_eq!(
        told(&["close_all_connections", "--global", "why"], &closed).output,
        "Closing all connections to node rabbit@box (across all vhosts), reason: why...\n\
         Closed 2 connections\n"
    );
    assert_eq!(
        told(&["close_connection", "<1.2.3>", "why"], &refusal("not_found", "")).error,
        "Error:\nError:\n{:invalid_pid_syntax, \"<1.2.3>\"}"
    );
}

#[test]
fn limits_are_shown_as_text_or_listed() {
    let limits = json!({"ok": [{"vhost": "v1", "value": {"max-queues": 2}}]});
    assert_eq!(
        told(&["list_vhost_limits", "-p", "v1"], &limits).output,
        "Listing limits for vhost \"v1\" ...\n{\"max-queues\":2}\n"
    );
    assert_eq!(
        told(&["list_vhost_limits", "-p", "v1", "--formatter", "json"], &limits).output,
        "{\"node\":\"rabbit@box\",\"result\":\"ok\",\"value\":\"{\\\"max-queues\\\":2}\"}\n"
    );
    assert_eq!(
        told(&["list_vhost_limits"], &json!({"ok": []})).output,
        "Listing limits for vhost \"/\" ...\n\n"
    );
    let all = json!({"ok": [{"user": "alice", "value": {}}]});
    assert_eq!(
        told(&["list_user_limits", "--global"], &all).output,
        "Listing limits for all users ...\nuser\tlimits\nalice\t{}\n"
    );
}

#[test]
fn health_checks() {
    let up = json!({"ok": {"running": true}});
    let booting = json!({"ok": {"running": false}});
    assert_eq!(
        told(&["check_running"], &up).output,
        "Checking if RabbitMQ is running on node rabbit@box ...\n\
         RabbitMQ on node rabbit@box is fully booted and running\n"
    );
    let ran = told(&["-q", "check_running"], &booting);
    assert_eq!((ran.code, ran.output.as_str()), (69, ""));
    assert_eq!(told(&["-q", "ping"], &up).output, "Ping succeeded\n");
    assert_eq!(told(&["await_startup"], &up).output, "");
    let alarm = json!({"ok": [{"resource": "memory", "node": "rabbit@box"}]});
    let ran = told(&["-q", "check_alarms"], &alarm);
    assert_eq!((ran.code, ran.error.as_str()), (69, "Memory alarm on node rabbit@box"));
    let alarm = json!({"ok": [{
        "resource": "memory", "node": "rabbit@box",
        "heaviest": {"sentences": [
            "queue 'q' in vhost '/' holds 2 messages of 20 bytes",
            "connection 'c' of user 'u' has sent 9 bytes",
        ]},
    }]});
    assert_eq!(
        told(&["-q", "alarms"], &alarm).output,
        "Memory alarm on node rabbit@box\n\
         Heaviest: queue 'q' in vhost '/' holds 2 messages of 20 bytes\n\
         Heaviest: connection 'c' of user 'u' has sent 9 bytes\n"
    );
    assert_eq!(told(&["-s", "check_local_alarms"], &json!({"ok": []})).output, "");
    let line = ["check_virtual_hosts", "--formatter", "json"];
    assert_eq!(told(&line, &json!({"ok": []})).output, "{\"result\":\"ok\"}\n");
}

#[test]
fn waiting_for_a_process() {
    let up = json!({"ok": {"running": true}});
    let own_pid = std::process::id().to_string();
    let ran = told(&["wait", "--pid", &own_pid], &up);
    assert_eq!((ran.code, ran.error.as_str()), (0, ""));
    let ran = alone(&["wait", "-P", &i32::MAX.to_string()]);
    assert_eq!((ran.code, ran.error.as_str()), (70, "Error:\nError: process is not running."));
    assert_eq!(alone(&["wait", "/no/such/file", "-t", "0"]).code, 75);
    assert_eq!(alone(&["wait"]).code, 64);
    let two = json!({"ok": {"running": true, "n_running": 2}});
    assert_eq!(told(&["-q", "await_online_nodes", "2"], &two).code, 0);
    assert_eq!(told(&["-q", "await_online_nodes", "3", "-t", "0"], &two).code, 75);
    assert_eq!(alone(&["await_online_nodes", "2", "-t", "0"]).code, 75);
}

#[test]
fn cluster_formation() {
    let formation = |n_running: u64, peers: Value| {
        json!({"ok": {
            "n_running": n_running, "target_size": 3, "has_reached_target_size": n_running >= 3,
            "discovered_peers": peers,
        }})
    };
    let [whole, part] = [formation(3, json!(["rabbit@a", "rabbit@b"])), formation(2, json!([]))];
    assert_eq!(told(&["-q", "discover_peers"], &whole).output, "rabbit@a\nrabbit@b\n");
    assert_eq!(told(&["-q", "discover_peers"], &part).output, "No peers discovered\n");
    let ran = told(&["-q", "has_reached_target_cluster_size"], &whole);
    assert_eq!(
        (ran.code, ran.output.as_str()),
        (0, "Target cluster size has been reached on node rabbit@box\n")
    );
    let ran = told(&["-q", "has_reached_target_cluster_size"], &part);
    let text =
        "Target cluster size on node rabbit@box has not been reached: 2 of 3 nodes are online";
    assert_eq!((ran.code, ran.error.as_str()), (69, text));
    let refused = alone(&["rename_cluster_node", "a", "b"]);
    assert!(refused.code == 69 && refused.error.contains("keeps its name"), "{}", refused.error);
}

#[test]
fn feature_flags() {
    let flags = json!({"ok": [{"name": "quorum_queue", "state": "enabled"}]});
    assert_eq!(
        told(&["list_feature_flags"], &flags).output,
        "Listing feature flags ...\nname\tstate\nquorum_queue\tenabled\n"
    );
    let output = told(&["enable_feature_flag", "all"], &flags).output;
    assert_eq!(output, "Enabling all feature flags ...\n");
    for name in ["quorum_queue", "khepri_db"] {
        assert_eq!(told(&["-q", "enable_feature_flag", name], &flags).code, 0, "{name}");
    }
    let ran = told(&["enable_feature_flag", "nonsense"], &flags);
    let text = "Error:\nThis feature flag is not supported by node rabbit@box";
    assert_eq!((ran.code, ran.error.as_str()), (64, text));
    assert_eq!(alone(&["enable_feature_flag", ""]).code, 65);
}

#[test]
fn listeners_are_found() {
    let listener = json!({"ok": [{
        "node": "rabbit@box", "interface": "127.0.0.1", "port": 5777, "protocol": "amqp",
        "purpose": "AMQP 0-9-1",
    }]});
    assert_eq!(
        told(&["-q", "check_port_listener", "5777"], &listener).output,
        "A listener for port 5777 is running on node rabbit@box.\n"
    );
    let ran = told(&["-q", "check_port_listener", "5778"], &listener);
    assert_eq!(
        (ran.code, ran.error.as_str()),
        (
            69,
            "No listener for port 5778 is active on node rabbit@box. \
             Found listeners that use the following ports: 5777"
        )
    );
    assert_eq!(
        told(&["-q", "listeners"], &listener).output,
        "Interface: 127.0.0.1, port: 5777, protocol: amqp, purpose: AMQP 0-9-1\n"
    );
    let line = ["-q", "check_protocol_listener", "amqp0-9-1"];
    assert_eq!(told(&line, &listener).code, 0);
}

#[test]
fn ports_are_connected_to() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = json!({"ok": [{"interface": "127.0.0.1", "port": port, "protocol": "amqp"}]});
    assert_eq!(
        told(&["-q", "check_port_connectivity"], &answer).output,
        format!(
            "Successfully connected to ports {port} on node rabbit@box \
             (using node hostname resolution)\n"
        )
    );
    drop(listener);
    let ran = told(&["-q", "check_port_connectivity"], &answer);
    assert_eq!(ran.code, 69);
    assert!(ran.error.contains(&format!("port: {port}")), "{}", ran.error);
}

#[test]
fn status_shows_sections() {
    let answer = json!({"ok": {
        "pid": 7, "os": "Linux", "uptime": 12, "product_name": "Leveret", "version": "0.1.0",
        "rabbitmq_version": "4.4.0", "node": "rabbit@box", "data_directory": "/d",
        "config_files": ["/c"], "log_files": [], "alarms": [],
        "memory": {"total": {"rss": 129_200_000}},
        "vm_memory_high_watermark_setting": {"relative": 0.6},
        "vm_memory_high_watermark_limit": 10_110_600_000_u64,
        "disk_free_limit": 50_000_000, "disk_free": null,
        "totals": {"connection_count": 1, "queue_count": 2, "virtual_host_count": 3},
        "listeners": [],
    }});
    let output = told(&["status"], &answer).output;
    for part in [
        "Status of node rabbit@box ...\nRuntime\n\nOS PID: 7\n",
        "\n\nAlarms\n\n(none)\n\nMemory\n\nTotal memory used: 0.1292 gb\n",
        "setting: 0.6 of available memory, computed to: 10.1106 gb\n",
        "Low free disk space watermark: 0.05 gb\nFree disk space: (not available)\n",
        "\nVirtual host count: 3\n",
    ] {
        assert!(output.contains(part), "{part:?} is not in {output}");
    }
    assert!(!output.contains("Data loss"), "{output}");
    let mut lossy = answer.clone();
    lossy["ok"]["losses"] = json!({
        "messages": 2, "unreadable_places": 1, "unreadable_bytes": 72, "log_bytes_cut_off": 0,
    });
    assert!(told(&["status"], &lossy).output.contains(
        "\n\nData loss since the start\n\nLost messages: 2\nUnreadable blocks of version 1 queues: 1 of 72 bytes\n\nTotals"
    ));
    assert!(!output.contains("Disk I/O"), "{output}");
    let mut busy = answer.clone();
    let io = |read: u64, write: u64| json!({"read_bytes": read, "write_bytes": write});
    busy["ok"]["file_io"] = json!({"log": io(0, 67_000_000), "total": io(1_000_000, 70_000_000)});
    assert!(told(&["status", "--unit", "mb"], &busy).output.contains(
        "\n\nDisk I/O since the start\n\nLog: read 0.0 mb, written 67.0 mb\n\
         Total: read 1.0 mb, written 70.0 mb\n\nTotals"
    ));
    let ran = told(&["status", "--unit", "bytes"], &answer);
    assert!(ran.output.contains("Total memory used: 129200000 bytes\n"));
    assert_eq!(alone(&["status", "--unit", "acres"]).code, 64);
}

#[test]
fn a_node_that_is_down_is_reported_before_anything_is_printed() {
    let ran = alone(&["list_queues"]);
    assert_eq!((ran.code, ran.output.as_str()), (69, ""));
    assert!(ran.error.starts_with("Error: unable to perform an operation on node 'rabbit@box'."));
    let ran = alone(&["await_startup", "-t", "0"]);
    assert_eq!(ran.code, 75);
    assert_eq!(
        ran.error,
        "Error: operation await_startup on node rabbit@box timed out. Timeout value used: 0"
    );
    assert_eq!(alone(&["stop", "--idempotent"]).code, 0);
    let data_dir = data_dir();
    drop(UnixListener::bind(data_dir.join("ctl.sock")).unwrap());
    let ran = run_in(&data_dir, &["-q", "stop", "--idempotent"], "");
    assert_eq!(
        (ran.code, ran.output.as_str()),
        (0, "Node rabbit@box is no longer running\n"),
        "a socket that was left behind"
    );
    std::fs::remove_dir_all(data_dir).unwrap();
    assert_eq!(alone(&["stop"]).code, 69);
}

#[test]
fn a_node_that_does_not_answer_is_given_up_on() {
    let data_dir = data_dir();
    let _listener = UnixListener::bind(data_dir.join("ctl.sock")).unwrap();
    let ran = run_in(&data_dir, &["list_users", "-t", "0"], "");
    assert_eq!(
        (ran.code, ran.error.as_str()),
        (75, "Error: operation list_users on node rabbit@box timed out. Timeout value used: 0")
    );
    std::fs::remove_dir_all(data_dir).unwrap();
}

#[test]
fn a_data_directory_may_lie_deep() {
    let data_dir = data_dir();
    let deep = data_dir.join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let directory = std::fs::File::open(&deep).unwrap();
    let short = format!("/proc/self/fd/{}/ctl.sock", directory.as_raw_fd());
    let _listener = UnixListener::bind(short).unwrap();
    let ran = run_in(&deep, &["list_users", "-t", "0"], "");
    assert_eq!(ran.code, 75, "connected, but not answered: {}", ran.error);
    std::fs::remove_dir_all(data_dir).unwrap();
}

#[test]
fn wrong_usage() {
    let ran = alone(&["list_queue"]);
    assert_eq!(
        (ran.code, ran.error.as_str()),
        (64, "\nCommand 'list_queue' not found. \nDid you mean 'list_queues'? \n")
    );
    assert_eq!(alone(&["zzz"]).code, 64);
    let ran = alone(&["list_users", "extra"]);
    assert_eq!(ran.code, 64);
    assert!(ran.error.starts_with(
        "Error (argument validation): too many arguments.\nArguments given:\n\tlist_users extra -n"
    ));
    assert!(ran.error.ends_with(
        "\n\nUsage\n\nrabbitmqctl [--node <node>] [--longnames] [--quiet] list_users \
         [--no-table-headers] [--timeout <timeout>]"
    ));
}

#[test]
fn help_knows_every_verb() {
    let ran = alone(&["help"]);
    assert_eq!(ran.code, 0);
    for verb in rabbitmqctl().verbs() {
        assert!(ran.output.contains(&format!("   {} ", verb.name())), "{}", verb.name());
        let line = ["help", verb.name()];
        assert!(alone(&line).output.contains(verb.usage), "{}", verb.name());
    }
    assert!(alone(&["list_users", "--help"]).output.contains("--data-dir"));
    assert_eq!(alone(&["help", "zzz"]).code, 64);
}

#[test]
fn banners_have_no_holes() {
    for verb in verbs::TABLES.iter().flat_map(|table| table.iter()) {
        let mut given = vec![verb.name().to_owned()];
        let value = |param: &&str| match *param {
            "strategy" | "type" => "all",
            "file?" => "-",
            _ => "7",
        };
        given.extend(verb.params.iter().map(value).map(str::to_owned));
        if verb.name() == "update_vhost_metadata" {
            given.push("--tags=a".to_owned());
        }
        let names = |switch: &&Switch| matches!(switch.name, "stream" | "reference");
        let named = verb.switches.iter().filter(names);
        given.extend(named.map(|switch| format!("--{}=7", switch.name)));
        let Banner::Lines(banner) = verb.banner else { continue };
        if banner.is_empty() {
            continue;
        }
        let invocation = Invocation::new(&rabbitmqctl(), verb, &given).unwrap();
        for hole in banner.split('{').skip(1) {
            let name = hole.split('}').next().unwrap();
            let filled = render::filled(&format!("{{{name}}}"), &invocation, &Value::Null);
            assert!(!filled.is_empty(), "{}: {name}", verb.name());
        }
    }
}

#[test]
fn the_version_is_known_without_a_node() {
    assert_eq!(alone(&["version"]).output, "4.4.0\n");
    assert_eq!(alone(&["version", "--formatter", "json"]).output, "{\"version\":\"4.4.0\"}\n");
    let mut output = Vec::new();
    let mut terminal = Terminal { input: &mut &b""[..], output: &mut output };
    run_with(&Tool::new("leveret ctl", verbs::TABLES), vec!["version".to_owned()], &mut terminal)
        .unwrap();
    assert_eq!(output, format!("{}\n", env!("CARGO_PKG_VERSION")).as_bytes());
    assert_eq!(alone(&["hash_password", "x"]).output.lines().count(), 2);
    assert_eq!(alone(&["hash_password", ""]).code, 65);
}

#[test]
fn delayed_messages_are_listed_and_dropped() {
    let row = json!({"id": 7, "due_ms": 1_700_000_000_000_u64, "exchange": "x",
        "routing_key": "k", "body_bytes": 3, "persistent": true});
    let ran = told(&["list_delayed_messages", "x", "--limit", "5"], &json!({"ok": [row]}));
    assert_eq!(
        ran.output,
        "Listing messages delayed by exchange 'x' in vhost '/' ...\n\
         id\tdue_ms\texchange\trouting_key\tbody_bytes\tpersistent\n\
         7\t1700000000000\tx\tk\t3\ttrue\n"
    );
    assert_eq!(ran.asked.unwrap().0, "GET /leveret/exchanges/%2F/%78/delayed?limit=5");
    let ran = told(&["cancel_delayed_message", "-p", "v", "x", "7"], &json!({"ok": null}));
    assert_eq!(ran.output, "Dropping message 7 delayed by exchange 'x' in vhost 'v' ...\n");
    assert_eq!(ran.asked.unwrap().0, "DELETE /leveret/exchanges/%76/%78/delayed/%37");
    let gone = refusal("not_found", "exchange 'x' delays no message 7");
    let ran = told(&["cancel_delayed_message", "x", "7"], &gone);
    assert_eq!((ran.code, ran.error.as_str()), (69, "Error:\nexchange 'x' delays no message 7"));
}

#[test]
fn tracing_is_switched() {
    let ran = told(&["trace_on", "-p", "v", "-u", "ada"], &json!({"ok": null}));
    assert_eq!(ran.output, "Starting tracing of user \"ada\" for vhost \"v\" ...\n");
    let on = "PUT /leveret/vhosts/%76/tracing".to_owned();
    assert_eq!(ran.asked.unwrap(), (on, json!({"user": "ada"})));
    let ran = told(&["trace_off"], &json!({"ok": null}));
    assert_eq!(ran.output, "Stopping tracing for vhost \"/\" ...\n");
    let off = "DELETE /leveret/vhosts/%2F/tracing".to_owned();
    assert_eq!(ran.asked.unwrap(), (off, json!({})));
}

#[test]
fn definitions_are_printed_or_written() {
    let document = json!({"users": [], "vhosts": [{"name": "/"}]});
    let ran = told(&["export_definitions", "-"], &json!({"ok": document}));
    assert_eq!(serde_json::from_str::<Value>(&ran.output).unwrap(), document);
    assert_eq!(ran.asked.unwrap().0, "GET /definitions");
    let dir = data_dir();
    let path = dir.join("out.json").display().to_string();
    let ran = told(&["export_definitions", &path, "-p", "v"], &json!({"ok": document}));
    assert_eq!(ran.output, format!("Exporting definitions in JSON to a file at \"{path}\" ...\n"));
    assert_eq!(ran.asked.unwrap().0, "GET /definitions/%76");
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), document);
    assert!(written.ends_with("}\n"));
    std::fs::remove_dir_all(dir).unwrap();
    let ran = alone(&["export_definitions", "/no/such/place/out.json"]);
    assert_eq!(ran.code, 65);
    assert!(ran.error.contains("Directory /no/such/place does not exist"), "{}", ran.error);
}

#[test]
fn definitions_are_read_from_a_file_or_typed() {
    let answer = json!({"ok": {"changes": 2, "warnings": ["queue 'q' is left out"]}});
    let node = node(&answer);
    let ran = run_in(&node.data_dir, &["import_definitions", "--skip-if-unchanged"], "{\"a\":1}");
    assert_eq!(
        ran.output,
        "Importing definitions in JSON from standard input ...\n\
         Warning: queue 'q' is left out\nSuccessfully imported definitions: 2 changes\n"
    );
    let question = "POST /definitions?skip_if_unchanged=true".to_owned();
    assert_eq!(node.thread.join().unwrap(), (question, json!({"a": 1})));
    let path = node.data_dir.join("in.json");
    std::fs::write(&path, "{}").unwrap();
    let ran = told(&["import_definitions", "-q", &path.display().to_string()], &answer);
    assert_eq!(ran.output, "Warning: queue 'q' is left out\n");
    assert_eq!(ran.asked.unwrap(), ("POST /definitions".to_owned(), json!({})));
    std::fs::remove_dir_all(node.data_dir).unwrap();
    let ran = alone(&["import_definitions", "gone.json"]);
    assert_eq!(ran.code, 65);
    assert!(ran.error.contains("File gone.json does not exist"), "{}", ran.error);
    let ran = alone(&["import_definitions", "--format", "erlang"]);
    assert!(ran.error.contains("Format should be json"), "{}", ran.error);
}

#[test]
fn terms_are_shown_to_those_who_ask() {
    let rows = json!({"ok": [{"name": "ada", "tags": ["a"]}]});
    let ran = told(&["-q", "list_users", "--formatter", "erlang"], &rows);
    assert_eq!(ran.output, "[[{user,<<\"ada\">>},{tags,[<<\"a\">>]}]]\n");
    let settings = json!({"ok": {"rabbit": {"heartbeat": "60"}}});
    let ran = told(&["-q", "environment"], &settings);
    assert_eq!(ran.output, "heartbeat = 60\n");
    let ran = told(&["-q", "environment", "--formatter", "erlang"], &settings);
    assert_eq!(ran.output, "[{rabbit,[{heartbeat,<<\"60\">>}]}]\n");
    let ran = told(&["-q", "environment", "--formatter", "json"], &settings);
    assert_eq!(ran.output, "{\"rabbit\":{\"heartbeat\":\"60\"}}\n");
    let check = "check_if_any_deprecated_features_are_used";
    let ran = told(&["-q", check], &json!({"ok": []}));
    assert_eq!(ran.output, "Cluster reported no deprecated features in use\n");
    let ran = told(&["-q", check], &json!({"ok": [{"name": "global_qos"}]}));
    assert_eq!(ran.code, 69);
    assert_eq!(ran.error, "Cluster reported deprecated features in use: global_qos");
}

#[test]
fn verbs_are_completed() {
    let ran = alone(&["autocomplete", "list_vh"]);
    assert_eq!(ran.output, "list_vhost_limits\nlist_vhosts\n");
    assert_eq!(alone(&["autocomplete", "nothing like it"]).output, "");
    let ran = alone(&["autocomplete"]);
    assert!(ran.output.lines().any(|line| line == "trace_on"), "{}", ran.output);
    assert!(ran.output.lines().is_sorted());
}

#[test]
fn what_there_is_no_need_for_asks_only_whether_the_node_is_there() {
    for verb in ["force_gc", "reconcile_vhosts"] {
        let ran = told(&["-q", verb], &json!({"ok": {"running": true}}));
        assert_eq!((ran.code, ran.asked.unwrap().0.as_str()), (0, "GET /leveret/state"), "{verb}");
        assert_ne!(alone(&[verb]).code, 0, "{verb} without a node");
    }
}
