//! A node with a name, a cookie and ports that stay the same, for clusters of several.

use crate::support::node::binary;
use crate::support::wait_until;
use amqp091::method::{ExchangeDeclare, QueueDeclare};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use tempfile::TempDir;
use testing::client::{Client, Login};

const LOG: &str = "node.log";
/// The first port of this process's nodes: below those that the system gives to clients.
const PORTS: u16 = 10_000;
/// Ports that a process of tests may use, and the number of processes that use others.
const PORTS_EACH: u16 = 200;
const PROCESSES: u32 = 100;

/// A node that may be a member of a cluster; killed when it is dropped.
pub(super) struct Member {
    child: Option<Child>,
    home: TempDir,
    pub(super) name: String,
    cookie: &'static str,
    settings: &'static [&'static str],
    /// The nodes that it forms a cluster with.
    peers: Vec<String>,
    port: u16,
    peer_port: u16,
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = PORTS + (std::process::id() % PROCESSES) as u16 * PORTS_EACH;
    let mut ports =
        std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS_EACH);
    ports.find(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok()).unwrap()
}

impl Member {
    /// A node alone, which is ready.
    pub(super) fn start(n: u32) -> Self {
        Self::start_with(n, "SECRET", &[])
    }

    /// As [`Self::start`], with another cookie and settings.
    pub(super) fn start_with(
        n: u32,
        cookie: &'static str,
        settings: &'static [&'static str],
    ) -> Self {
        let mut member = Self::fresh(n, cookie, settings);
        member.start_again();
        member
    }

    fn fresh(n: u32, cookie: &'static str, settings: &'static [&'static str]) -> Self {
        let (port, peer_port) = (free_port(), free_port());
        let (name, home) = (format!("rabbit{n}@127.0.0.1"), tempfile::tempdir().unwrap());
        let peers = Vec::new();
        Self { child: None, home, name, cookie, settings, peers, port, peer_port }
    }

    /// Three nodes that are to form a cluster and have not been started.
    pub(super) fn three_fresh(settings: &'static [&'static str]) -> [Self; 3] {
        let mut nodes = [1, 2, 3].map(|n| Self::fresh(n, "SECRET", settings));
        let peers: Vec<_> = nodes.iter().map(Self::contact).collect();
        nodes.iter_mut().for_each(|node| node.peers.clone_from(&peers));
        nodes
    }

    /// Starts the process, and waits until it is ready.
    pub(super) fn start_again(&mut self) {
        self.begin();
        self.await_ready();
    }

    /// Starts the process.
    pub(super) fn begin(&mut self) {
        assert!(self.child.is_none(), "{} runs", self.name);
        let mut command = Command::new(binary());
        command.arg("server").arg("--data-dir").arg(self.home.path().join("data"));
        let port = format!("listeners.tcp.1=127.0.0.1:{}", self.port);
        let others = ["stream.listeners.tcp=none", "management.enabled=false"];
        let log = ["prometheus.enabled=false", "log.file=node.log", "log.console=false"];
        let settings = [port.as_str()].into_iter().chain(others).chain(log);
        for setting in settings.chain(self.settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        for (n, peer) in self.peers.iter().enumerate() {
            command.args(["--set", &format!("cluster_formation.classic_config.nodes.{n}={peer}")]);
        }
        command.env_remove("LEVERET_DATA_DIR").env("XDG_RUNTIME_DIR", self.home.path());
        command.env("RABBITMQ_NODENAME", &self.name).env("RABBITMQ_ERLANG_COOKIE", self.cookie);
        command.env("RABBITMQ_DIST_PORT", self.peer_port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    pub(super) fn await_ready(&mut self) {
        let name = self.name.clone();
        wait_until(&format!("{name} is ready"), || {
            assert!(self.is_running(), "{name} has ended");
            self.ctl(&["await_startup", "--timeout", "1"]).is_ok()
        });
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Kills it, which loses what it had not handed to the operating system.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Has it stand still until it is killed.
    pub(super) fn freeze(&self) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), Signal::STOP).unwrap();
    }

    /// Stops the process, which goes on at [`Self::go_on`].
    pub(super) fn stand_still(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status"));
            status.is_ok_and(|status| status.contains("State:\tT"))
        };
        let threads = format!("/proc/{}/task", self.child.as_ref().expect("a process").id());
        wait_until("the process stands still", || {
            std::fs::read_dir(&threads).unwrap().all(is_stopped)
        });
    }

    pub(super) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("a process");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// The address that `join_cluster` takes.
    pub(super) fn contact(&self) -> String {
        format!("{}:{}", self.name, self.peer_port)
    }

    pub(super) fn join(&self, member: &Self) {
        self.done(&["join_cluster", &member.contact()]);
    }

    /// `leveret ctl`, yet to be run.
    pub(super) fn ctl_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("ctl").args(args).arg("--data-dir").arg(self.home.path().join("data"));
        command.env("RABBITMQ_NODENAME", &self.name).env("XDG_RUNTIME_DIR", self.home.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs `leveret ctl`: what it says, on stderr if it fails.
    pub(super) fn ctl(&self, args: &[&str]) -> Result<String, String> {
        let Output { status, stdout, stderr } = self.ctl_command(args).output().unwrap();
        let told = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if status.success() { Ok(told(stdout)) } else { Err(told(stderr)) }
    }

    /// Runs `leveret ctl`, which must succeed.
    pub(super) fn done(&self, args: &[&str]) -> String {
        self.ctl(args).unwrap_or_else(|told| panic!("{}: {args:?}: {told}", self.name))
    }

    /// Runs `leveret ctl`, which must fail.
    pub(super) fn refused(&self, args: &[&str]) -> String {
        self.ctl(args).expect_err("a refusal")
    }

    /// The lines of a listing, without titles.
    pub(super) fn list(&self, args: &[&str]) -> Vec<String> {
        let args = [args, &["-q", "--no-table-headers"]].concat();
        let mut lines: Vec<_> = self.done(&args).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// The names of the members.
    pub(super) fn members(&self) -> Vec<String> {
        self.cluster("disk_nodes")
    }

    /// The names of the members that run, as far as this one knows.
    pub(super) fn running(&self) -> Vec<String> {
        self.cluster("running_nodes")
    }

    fn cluster(&self, field: &str) -> Vec<String> {
        let status = self.done(&["cluster_status", "--formatter", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let names = status[field].as_array().unwrap().iter();
        let mut names: Vec<_> = names.map(|it| it.as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("data").join(LOG)).unwrap_or_default()
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A client with a channel.
    pub(super) fn client(&self) -> Client {
        Client::guest(self.address())
    }

    /// A client with a channel, of another user and virtual host.
    pub(super) fn client_of(&self, user: &str, vhost: &str) -> Client {
        let login = Login { user, password: user, vhost, ..Login::default() };
        let mut client = Client::login(self.address(), login);
        client.open_channel(1);
        client
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(25).collect();
            eprintln!("the end of the log of {}, backwards: {tail:#?}", self.name);
        }
    }
}

/// An exchange that stays.
pub(super) fn exchange(name: &str) -> ExchangeDeclare<'_> {
    let (exchange, kind) = (name.as_bytes(), &b"fanout"[..]);
    ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() }
}

/// An exclusive queue.
pub(super) fn exclusive(name: &str) -> QueueDeclare<'_> {
    QueueDeclare { queue: name.as_bytes(), exclusive: true, ..QueueDeclare::default() }
}
