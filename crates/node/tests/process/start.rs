//! The binary from outside: what it prints, how it ends, and that a failed start leaves no trace.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testing::client::DEADLINE;

fn leveret() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret"));
    command.env_remove("LEVERET_DATA_DIR").stdin(Stdio::null());
    // Its nodes are not found by those who work on this machine.
    command.env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn server(data_dir: &Path) -> Command {
    let mut command = leveret();
    command.arg("server").arg("--data-dir").arg(data_dir);
    command.args(["--set", "listeners.tcp.1=127.0.0.1:0", "--set", "stream.listeners.tcp=none"]);
    command.args(["--set", "management.enabled=false", "--set", "prometheus.enabled=false"]);
    command
}

/// A running node, killed when the test ends.
struct Node {
    child: Child,
    stdout: BufReader<ChildStdout>,
    ready: String,
}

impl Node {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        Self { child, stdout, ready }
    }

    fn address(&self) -> SocketAddr {
        let (_, rest) = self.ready.split_once(" ready on ").expect("a ready line");
        rest.split_once(", ").unwrap().0.parse().unwrap()
    }

    /// Sends the signal and waits. The exit code, and the rest of stdout and stderr.
    fn stop(mut self, signal: Signal) -> (Option<i32>, String, String) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
        let code = wait(&mut self.child);
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (code, out, err)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn wait(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(started.elapsed() < DEADLINE, "the node does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs to the end. Exit code, stdout, stderr.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A start that fails says why in one line, and nothing else.
fn refused(command: &mut Command) -> String {
    let (code, out, err) = ended(command);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    err.trim_end().to_owned()
}

fn entries(dir: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_node_starts_says_so_and_stops_on_a_signal() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::start(&mut server(&dir.path().join("new/data")));
        assert!(node.ready.starts_with("leveret 0.1.0 ready on 127.0.0.1:"), "{}", node.ready);
        assert!(node.ready.contains("new/data, "), "{}", node.ready);
        assert!(node.ready.ends_with(" ms\n"), "{}", node.ready);
        TcpStream::connect(node.address()).unwrap();
        let address = node.address();
        let (code, out, err) = node.stop(signal);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.starts_with("This data directory is new.\n"), "{out}");
        assert!(out.contains(&format!(" amqp://guest:guest@{address}  (from this")), "{out}");
        assert!(err.ends_with("[info] stopped\n"), "{err}");
        assert!(err.contains(&format!("[info] {name} received - shutting down\n")), "{err}");
        assert!(!err.contains(" ready on "), "said on stdout already: {err}");
        let again = Node::start(&mut server(&dir.path().join("new/data")));
        assert_eq!(again.stop(signal).1, "", "only the first start says how to connect");
    }
}

#[test]
fn other_signals_open_the_log_again_or_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = server(dir.path());
    command.args(["--set", "log.file=node.log", "--set", "log.console=false"]);
    let node = Node::start(&mut command);
    let (log, moved) = (dir.path().join("node.log"), dir.path().join("node.log.1"));
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "more than the owner and the group read it: {mode:o}");
    std::fs::rename(&log, &moved).unwrap();
    let pid = Pid::from_child(&node.child);
    for signal in [Signal::USR1, Signal::USR2, Signal::HUP] {
        kill_process(pid, signal).unwrap();
    }
    let started = Instant::now();
    while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SIGHUP received")) {
        assert!(started.elapsed() < DEADLINE, "the log is not opened again");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    assert!(std::fs::read_to_string(&moved).unwrap().contains(" ready on "));
    assert!(std::fs::read_to_string(&log).unwrap().ends_with("[info] stopped\n"));
}

#[test]
fn bare_leveret_says_how_to_start_and_starts_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = ended(leveret().current_dir(home.path()).env("HOME", home.path()));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("\nStart a broker:        leveret server\n"), "{err}");
    assert!(err.contains("/var/lib/leveret"), "{err}");
    assert_eq!(entries(&home), [""; 0]);
}

#[test]
fn the_configuration_is_checked_without_a_start() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("a.conf");
    let check = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let mut command = server(&home.path().join("data"));
        command.args(["--set", "management.enabled=true", "--check-config"]);
        ended(command.arg("--config").arg(&config))
    };
    let (code, out, err) = check("heartbeat = 5\nmqtt.prefetch = 5\n");
    assert_eq!((code, out.as_str()), (Some(0), "the configuration is valid\n"), "{err}");
    assert!(err.contains("a.conf:2: `mqtt.prefetch` has no effect yet"), "{err}");
    let (code, out, err) = check("haertbeat = 5\nframe_max = x\n");
    assert_eq!((code, out.as_str()), (Some(78), ""), "{err}");
    assert_eq!(err.lines().count(), 2, "{err}");
    // Files that it names are tried, as at a start: each that is wrong has its line.
    let definitions = home.path().join("definitions.json");
    std::fs::write(
        &definitions,
        r#"{"queues": [{"name": "q", "vhost": "a"}, {"name": "r", "vhost": "b"}]}"#,
    )
    .unwrap();
    let (code, out, err) = check(&format!(
        "ssl_options.certfile = /nowhere/cert.pem\nssl_options.keyfile = /nowhere/key.pem\n\
         management.ssl.port = 1\nmanagement.ssl.certfile = {0}\nmanagement.ssl.keyfile = {0}\n\
         management.ssl.ip = localhost\nload_definitions = {0}\nlog.dir = {0}\nlog.file = a.log\n",
        definitions.display()
    ));
    assert_eq!((code, out.as_str()), (Some(78), ""), "{err}");
    for told in [
        "certificate of the AMQP and stream listeners, `ssl_options.certfile` /nowhere/cert.pem: cannot be \
         read: No such file or directory\n",
        "private key of the AMQP and stream listeners, `ssl_options.keyfile` /nowhere/key.pem",
        "certificate of the HTTP API, `management.ssl.certfile`",
        "private key of the HTTP API, `management.ssl.keyfile`",
        "`management.ssl.ip = localhost` is no IP address",
        "cannot open the log",
        "queue 'q' in vhost 'a': virtual host 'a' does not exist",
        "queue 'r' in vhost 'b': virtual host 'b' does not exist",
    ] {
        assert!(err.contains(told), "{told}: {err}");
    }
    // Beside errors of the configuration too.
    let (_, _, err) = check("haertbeat = 5\nssl_options.certfile = /c\nssl_options.keyfile = /k\n");
    assert!(
        err.contains("haertbeat") && err.contains("/c: cannot") && err.contains("/k: cannot"),
        "{err}"
    );
    let of_version_1 = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/tls/v1");
    let (code, out, err) = check(&format!(
        "ssl_options.certfile = {of_version_1}_certificate.pem\n\
         ssl_options.keyfile = {of_version_1}_key.pem\n"
    ));
    assert_eq!((code, out.as_str()), (Some(0), "the configuration is valid\n"), "{err}");
    assert!(
        err.contains("warning: certificate of") && err.contains("'openssl x509 -req -in"),
        "{err}"
    );
    let mut left = entries(&home);
    left.sort_unstable();
    assert_eq!(left, ["a.conf", "definitions.json"]);
}

#[test]
fn the_doctor_says_what_is_wrong_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let doctor = |port: u16| {
        let mut command = leveret();
        command.arg("doctor").arg("--data-dir").arg(home.path().join("data"));
        command.args(["--set", "disk_free_limit.absolute=1", "--set"]);
        ended(command.arg(format!("listeners.tcp.1=127.0.0.1:{port}")))
    };
    let (code, out, err) = doctor(0);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for expected in
        ["configuration: valid", "file descriptors: ", "memory: ", "data will be created"]
    {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let port = taken.local_addr().unwrap().port();
    let (code, out, _) = doctor(port);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("PROBLEM  127.0.0.1:"), "{out}");
    assert!(out.contains(&format!("'sport = :{port}'")), "{out}");
    assert!(out.contains("\nproblems: 1, "), "{out}");
    assert_eq!(entries(&home), [""; 0]);
}

#[test]
fn a_service_manager_hears_of_ready_alive_reloading_and_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(DEADLINE)).unwrap();
    let heard = || {
        let mut message = [0; 1000];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let mut command = server(&dir.path().join("data"));
    let node = Node::start(command.env("NOTIFY_SOCKET", dir.path().join("notify")));
    // The first of them comes with the first second, which may be before the node is ready.
    let mut all = [heard(), heard(), heard()];
    all.sort();
    assert!(all[0].starts_with("READY=1\nSTATUS=leveret 0.1.0 ready on 127.0.0.1:"), "{all:?}");
    assert_eq!(all[1..], ["WATCHDOG=1\n", "WATCHDOG=1\n"]);
    let next = || std::iter::repeat_with(heard).find(|message| message != "WATCHDOG=1\n").unwrap();
    kill_process(Pid::from_child(&node.child), Signal::HUP).unwrap();
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next(), "READY=1\n");
    assert_eq!(heard(), "WATCHDOG=1\n", "it goes on after a reload");
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    assert_eq!(next(), "STOPPING=1\nSTATUS=stopping\n");
}

#[test]
fn completions_and_the_manual_are_written() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "fish", "zsh"] {
        let (code, out, _) = ended(leveret().args(["completions", shell]));
        assert_eq!(code, Some(0), "{shell}");
        assert!(out.contains("check-config"), "{shell}");
    }
    let pages = dir.path().join("man");
    assert_eq!(ended(leveret().arg("manual").arg(&pages)).0, Some(0));
    let page = std::fs::read_to_string(pages.join("leveret-server.1")).unwrap();
    assert!(page.contains("check\\-config"), "{page}");
}

#[test]
fn a_node_takes_its_directory_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("from-env");
    let mut command = leveret();
    command.env("LEVERET_DATA_DIR", &data).args(["server", "--set", "listeners.tcp.x=[::1]:0"]);
    let node = Node::start(&mut command);
    assert!(node.address().is_ipv6());
    assert!(data.is_dir());
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
}

#[test]
fn an_empty_variable_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("from-rabbitmq");
    let mut command = leveret();
    for name in ["LEVERET_DATA_DIR", "RABBITMQ_NODENAME", "RABBITMQ_NODE_PORT", "RABBITMQ_LOGS"] {
        command.env(name, "");
    }
    command.env("RABBITMQ_DATA_DIR", &data).args(["server", "--set", "listeners.tcp.x=[::1]:0"]);
    let node = Node::start(&mut command);
    assert!(data.is_dir());
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    let ended = leveret().env("LEVERET_DATA_DIR", "").args(["repair", "--help"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn a_port_in_use_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut command = server(&dir.path().join("data"));
    command.arg("--set").arg(format!("listeners.tcp.1={address}"));
    let line = refused(&mut command);
    assert!(line.starts_with(&format!("leveret: cannot listen on {address}: Address")), "{line}");
}

#[test]
fn the_usual_port_of_streams_is_not_worth_failing_for() {
    // Somebody has it: this test, or a node beside it.
    let taken = TcpListener::bind("[::]:5552");
    let dir = tempfile::tempdir().unwrap();
    let mut command = leveret();
    command.arg("server").arg("--data-dir").arg(dir.path().join("data"));
    command.args(["--set", "listeners.tcp.1=127.0.0.1:0"]);
    let (code, _out, err) = Node::start(&mut command).stop(Signal::TERM);
    assert_eq!(code, Some(0));
    if taken.is_ok() {
        let why = "stream protocol is off: cannot listen on port 5552: Address already in use";
        assert!(err.contains(why), "{err}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_made_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let line = refused(&mut server(&file.join("data")));
    assert!(line.starts_with("leveret: cannot make the data directory "), "{line}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}

#[test]
fn a_foreign_directory_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("photo.jpg"), "x").unwrap();
    let line = refused(&mut server(dir.path()));
    assert!(line.ends_with("is not empty and is not a Leveret data directory"), "{line}");
    assert!(line.contains(dir.path().to_str().unwrap()), "{line}");
    assert_eq!(entries(&dir), ["photo.jpg"]);
}

#[test]
fn a_directory_of_a_newer_leveret_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Node::start(&mut server(dir.path())).stop(Signal::TERM).0, Some(0));
    let format = dir.path().join("leveret-format");
    std::fs::write(&format, "leveret 77\n").unwrap();
    let line = refused(&mut server(dir.path()));
    let told = "leveret-format has format version 77; this Leveret reads up to version 10";
    assert!(line.ends_with(told), "{line}");
    assert!(line.contains(dir.path().to_str().unwrap()), "{line}");
    assert_eq!(std::fs::read_to_string(&format).unwrap(), "leveret 77\n");
}

#[test]
fn a_second_node_on_the_same_directory_is_refused_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let first = Node::start(&mut server(dir.path()));
    let line = refused(&mut server(dir.path()));
    assert!(line.starts_with("leveret: another node is running on this data"), "{line}");
    TcpStream::connect(first.address()).unwrap();
    assert_eq!(first.stop(Signal::TERM).0, Some(0));
    let third = Node::start(&mut server(dir.path()));
    assert_eq!(third.stop(Signal::TERM).0, Some(0));
}

#[test]
fn a_killed_node_leaves_a_directory_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    let first = Node::start(&mut server(dir.path()));
    assert_eq!(first.stop(Signal::KILL).0, None);
    let second = Node::start(&mut server(dir.path()));
    assert_eq!(second.stop(Signal::TERM).0, Some(0));
}

#[test]
fn a_wrong_configuration_is_one_line_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "heartbeat = 10\n\nframe_maxx = 1\n").unwrap();
    let mut command = server(&dir.path().join("data"));
    let line = refused(command.arg("--config").arg(config.path()));
    let place = format!("leveret: {}:3: ", config.path().display());
    assert_eq!(line, format!("{place}unknown key `frame_maxx`; did you mean `frame_max`?"));
    assert_eq!(entries(&dir), Vec::<String>::new());
}

/// A node that let in other users than its configuration says would be worse than none.
#[test]
fn a_node_that_should_ask_others_who_somebody_is_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = server(&dir.path().join("data"));
    command.args(["--set", "auth_backends.1=internal", "--set", "auth_backends.2=ldap"]);
    let line = refused(&mut command);
    assert!(line.contains("`auth_backends.2` cannot be `ldap`: expected `internal`"), "{line}");
    assert_eq!(entries(&dir), Vec::<String>::new());
}

#[test]
fn keys_not_built_warn_in_the_log_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = server(dir.path());
    command.args(["--set", "mqtt.prefetch=5", "--set", "log.file=node.log"]);
    command.args(["--set", "log.console=false"]);
    let (code, _, err) = Node::start(&mut command).stop(Signal::TERM);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let log = std::fs::read_to_string(dir.path().join("node.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let warning = " [warning] --set: `mqtt.prefetch` has no effect yet";
    assert_eq!(lines.iter().filter(|line| line.contains(warning)).count(), 1, "{log}");
    assert!(lines.iter().any(|line| line.contains(" [info] leveret 0.1.0 ready on ")), "{log}");
    assert!(lines.iter().all(|line| line.get(26..33) == Some("+00:00 ")), "{log}");
}

#[test]
fn usage_errors_exit_with_two_and_information_with_zero() {
    for args in
        [&["sevrer"][..], &["server", "--set", "heartbeat"][..], &["server", "--port", "1"][..]]
    {
        let (code, out, err) = ended(leveret().args(args));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {err}");
    }
    assert_eq!(ended(leveret().arg("--version")), (Some(0), "leveret 0.1.0\n".into(), "".into()));
    let (code, out, _) = ended(leveret().args(["server", "--help-config"]));
    assert_eq!(code, Some(0));
    assert!(out.contains("max_message_size = 16777216\n"), "{out}");
}

#[test]
fn under_rabbitmqctls_name_it_is_the_command_line_tool() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("rabbitmqctl");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_leveret"), &link).unwrap();
    let by_name = ended(Command::new(link).arg("version").stdin(Stdio::null()));
    let by_command = ended(leveret().args(["ctl", "version"]));
    // Scripts choose RabbitMQ's commands by this version; under its own name the tool has its own.
    assert_eq!(by_name, (Some(0), "4.4.0\n".into(), "".into()));
    assert_eq!(by_command, (Some(0), "0.1.0\n".into(), "".into()));
}

#[cfg(feature = "jemalloc")]
#[test]
fn jemalloc_returns_memory_within_a_second() {
    let mut command = leveret();
    let (_, _, stats) =
        ended(command.arg("--version").env("_RJEM_MALLOC_CONF", "stats_print:true"));
    for option in ["background_thread: true", "dirty_decay_ms: 1000", "muzzy_decay_ms: 1000"] {
        assert!(stats.contains(&format!("opt.{option} ")), "{option} not in {stats}");
    }
}

#[test]
fn variables_of_rabbitmq_are_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("mnesia");
    let config = dir.path().join("rabbitmq");
    std::fs::write(config.with_extension("conf"), "listeners.tcp.x = 1\nheartbeat = 17\n").unwrap();
    let mut command = leveret();
    command.arg("server").env("RABBITMQ_NODENAME", "hare@box").env("RABBITMQ_MNESIA_BASE", &base);
    command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1").env("RABBITMQ_NODE_PORT", "0");
    command.env("RABBITMQ_DEFAULT_USER", "bugs").env("RABBITMQ_DEFAULT_PASS", "carrot");
    command.env("RABBITMQ_DEFAULT_VHOST", "burrow").env("RABBITMQ_CONFIG_FILE", &config);
    command.env("RABBITMQ_LOG_BASE", dir.path().join("log")).env("RABBITMQ_LOG", "warning");
    command.env("RABBITMQ_STREAM_DIR", "secret");
    let node = Node::start(&mut command);
    assert!(node.address().ip().is_loopback());
    assert!(base.join("hare@box").is_dir());
    let ctl = |args: &[&str]| {
        let mut command = leveret();
        command.env("RABBITMQ_NODENAME", "hare@box").env("RABBITMQ_MNESIA_BASE", &base);
        String::from_utf8(command.arg("ctl").args(args).output().unwrap().stdout).unwrap()
    };
    assert_eq!(ctl(&["-s", "list_users"]), "bugs\t[administrator]\n");
    assert_eq!(ctl(&["-s", "list_permissions", "-p", "burrow"]), "bugs\t.*\t.*\t.*\n");
    assert!(ctl(&["authenticate_user", "bugs", "carrot"]).contains("Success"));
    assert!(ctl(&["environment"]).contains("17"));
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    let log = std::fs::read_to_string(dir.path().join("log/hare@box.log")).unwrap();
    assert!(!log.contains("[info]"), "{log}");
    assert!(log.contains("[warning] RABBITMQ_STREAM_DIR has no effect: "), "{log}");
    assert!(!log.contains("secret") && !log.contains("carrot"), "{log}");
}

/// A command in the tree of the image as far as it is of this repository, in namespaces of its own. Before,
/// `mounts` runs there: `/var/lib` is empty, and can be filled.
fn in_image(mounts: &str, command: &[&str]) -> Command {
    let script = r#"
        set -e
        image=$1 program=$2 mounts=$3; shift 3
        mount -t tmpfs image /var/lib
        mkdir -p /var/lib/rabbitmq /var/lib/bin
        ln -s "$program" /var/lib/bin/leveret
        ln -s "$program" /var/lib/bin/rabbitmqctl
        cp "$image/docker-entrypoint.sh" "$image/bash" /var/lib/bin/
        eval "$mounts"
        export PATH=/var/lib/bin:$PATH
        exec docker-entrypoint.sh "$@""#;
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/image");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    unshare.arg(image).arg(env!("CARGO_BIN_EXE_leveret")).arg(mounts).args(command);
    unshare.env_remove("LEVERET_DATA_DIR").env("RABBITMQ_NODENAME", "hare@box");
    unshare.env("LEVERET_DEFAULT_DATA_DIR", "/var/lib/rabbitmq/leveret");
    unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    unshare
}

/// Data is where orchestrators mount a volume for RabbitMQ, and otherwise where the image has its own, unless
/// it is there already or a variable says where.
#[test]
fn the_image_keeps_data_on_the_volume_that_is_mounted() {
    let mnesia = "mkdir /var/lib/rabbitmq/mnesia; mount -t tmpfs volume /var/lib/rabbitmq/mnesia";
    let node_alone = "mkdir -p /var/lib/rabbitmq/mnesia/hare@box; mount -t tmpfs volume \
                      /var/lib/rabbitmq/mnesia/hare@box";
    // As what a file system has of itself, which no node minds.
    let used = format!("{mnesia}; mkdir -p /var/lib/rabbitmq/leveret/lost+found");
    let no_mount = "mkdir -p /var/lib/rabbitmq/mnesia/hare@box";
    for (mounts, variable, data) in [
        ("mount -t tmpfs volume /var/lib/rabbitmq", None, "/var/lib/rabbitmq/leveret"),
        (mnesia, None, "/var/lib/rabbitmq/mnesia/hare@box"),
        (node_alone, None, "/var/lib/rabbitmq/mnesia/hare@box"),
        (no_mount, None, "/var/lib/rabbitmq/leveret"),
        (used.as_str(), None, "/var/lib/rabbitmq/leveret"),
        (mnesia, Some("RABBITMQ_MNESIA_DIR"), "/var/lib/given"),
        (mnesia, Some("RABBITMQ_DATA_DIR"), "/var/lib/given"),
        (mnesia, Some("RABBITMQ_MNESIA_BASE"), "/var/lib/given/hare@box"),
        (used.as_str(), Some("LEVERET_DATA_DIR"), "/var/lib/given"),
    ] {
        let ports = ["--set", "listeners.tcp.1=127.0.0.1:0", "--set", "stream.listeners.tcp=none"];
        let others = ["--set", "management.enabled=false", "--set", "prometheus.enabled=false"];
        // Options alone are the broker's.
        let mut command = in_image(mounts, &[ports, others].concat());
        if let Some(variable) = variable {
            command.env(variable, "/var/lib/given");
        }
        let node = Node::start(&mut command);
        assert!(node.ready.contains(&format!(", data in {data}, ")), "{mounts}: {}", node.ready);
        assert_eq!(node.stop(Signal::TERM).0, Some(0));
    }
}

/// Commands of charts and probes run, those of `/bin/bash` too.
#[test]
fn the_image_runs_commands_and_bash() {
    let run = |command: &[&str]| ended(&mut in_image("true", command));
    let version = format!("{}\n", stdx::RABBITMQ_VERSION);
    assert_eq!(run(&["rabbitmqctl", "version"]), (Some(0), version.clone(), String::new()));
    let script = ["bash", "-ec", "rabbitmqctl \"$1\"; false; echo on", "name", "version"];
    assert_eq!(run(&script), (Some(1), version, String::new()));
}

/// As provisioning scripts wait for a node; and a tool elsewhere finds the one of its name.
#[test]
fn the_process_id_is_written_while_the_node_can_be_used() {
    let home = tempfile::tempdir().unwrap();
    let (data, pid) = (home.path().join("data"), home.path().join("run/rabbit.pid"));
    let name = format!("pid{}@box", std::process::id());
    let mut command = server(&data);
    command.env("RABBITMQ_PID_FILE", &pid).env("RABBITMQ_NODENAME", &name);
    let node = Node::start(&mut command);
    let ctl = |args: &[&str]| {
        let mut command = leveret();
        command.env("RABBITMQ_NODENAME", &name).env("HOME", home.path()).current_dir("/");
        ended(command.arg("rabbitmqctl").args(args))
    };
    let (code, _, err) = ctl(&["wait", pid.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(std::fs::read_to_string(&pid).unwrap().trim(), node.child.id().to_string());
    let (code, out, err) = ctl(&["-s", "list_users"]);
    assert_eq!((code, out.as_str()), (Some(0), "guest\t[administrator]\n"), "{err}");
    assert_eq!(ctl(&["-n", "another@box", "list_users"]).0, Some(69));
    let (code, _, err) = ctl(&["delete_user", "nobody"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(ctl(&["eval", "node()."]).1, format!("{name}\n"));
    let mut client = testing::client::Client::guest(node.address());
    assert_eq!(ctl(&["stop_app"]).0, Some(0));
    assert!(client.next().show().starts_with("connection.close 320"));
    assert!(TcpStream::connect(node.address()).is_err());
    assert_eq!(ctl(&["start_app"]).0, Some(0));
    testing::client::Client::guest(node.address()).close();
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    assert!(!pid.exists());
}

/// COMPAT: a consumer whose channel says nothing gets no more than the configuration says.
#[test]
fn consumers_have_the_default_prefetch() {
    let home = tempfile::tempdir().unwrap();
    let advanced = home.path().join("advanced.config");
    std::fs::write(&advanced, "[{rabbit, [{default_consumer_prefetch, {false, 3}}]}].").unwrap();
    let mut command = server(&home.path().join("data"));
    let node = Node::start(command.env("RABBITMQ_ADVANCED_CONFIG_FILE", &advanced));
    let mut client = testing::client::Client::guest(node.address());
    client.declare("q");
    client.select_confirms();
    (0..5).for_each(|_| client.put_publish("q", true, b"x"));
    client.wait_for_confirms();
    client.consume("q", false);
    (0..3).for_each(|_| assert!(client.message().is_some()));
    assert_eq!(client.ask(1, amqp091::method::BasicQos::default()), "basic.qos-ok");
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    // All consumers of a channel together, where that is allowed.
    let terms = "[{rabbit, [{default_consumer_prefetch, {true, 3}},
                            {permit_deprecated_features, #{global_qos => true}}]}].";
    std::fs::write(&advanced, terms).unwrap();
    let mut command = server(&home.path().join("data"));
    let node = Node::start(command.env("RABBITMQ_ADVANCED_CONFIG_FILE", &advanced));
    let mut client = testing::client::Client::guest(node.address());
    client.consume("q", false);
    let held: Vec<_> = (0..3).map(|_| client.message().unwrap().tag).collect();
    client.consume("q", false);
    client.round_trip();
    let first = amqp091::method::BasicAck { delivery_tag: held[0], multiple: false };
    client.say(1, first);
    assert!(client.message().is_some());
    assert_eq!(client.ask(1, amqp091::method::BasicQos::default()), "basic.qos-ok");
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
}

#[test]
fn retired_variables_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = server(&data);
    command.env("RABBITMQ_DEFAULT_PASS_FILE", "/run/secrets/pass");
    command.env("RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "0.5");
    let line = refused(&mut command);
    let text = "leveret: RABBITMQ_DEFAULT_PASS_FILE, RABBITMQ_VM_MEMORY_HIGH_WATERMARK are set but \
                deprecated: deprecated environment variables detected. Please use a configuration \
                file instead";
    assert_eq!(line.trim_end(), text);
    assert!(!data.exists());
    let node = Node::start(server(&data).env("RABBITMQ_DEFAULT_PASS_FILE", ""));
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
}
