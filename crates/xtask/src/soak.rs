//! The soak: minutes of mixed load, beside clients that mean harm, on a node that is killed over and over. By
//! hand, before a release.
//! Knows the binary's command lines. Never what it does inside.

mod enemies;

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::repository;
use crate::steps::{cargo, say};
use enemies::{Enemies, Ports};

/// The default duration.
pub(crate) const MINUTES: u64 = 10;
/// The life of a node until it is killed.
const LIFE: Duration = Duration::from_secs(20);
/// Interval at which load and node are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// A node that has not said by then that it is ready will not.
const START_MAX: Duration = Duration::from_secs(30);
/// Memory limit of the node under this load.
const RSS_BYTES_MAX: u64 = 1 << 30;
/// Longest wait for a health check beside load and enemies, milliseconds.
const WAIT_MS_MAX: u64 = 2_000;
/// The kinds of load, all at once. Every one verifies what arrives, and finds its queues empty at the end.
const LOADS: [&str; 4] = [
    "-x 2 -y 2 -c 200 -q 200 -s 64 -r 2000 -u soak-small",
    "-x 2 -y 2 -c 50 -q 50 -s 20000 -r 100 -u soak-large",
    "-x 4 -y 4 -c 100 -q 100 -s 1000 -r 200 -qp soak-%d -qpf 1 -qpt 4",
    "-x 2 -y 4 -c 100 -q 100 -s 2000 -r 200 -e soak-fanout -t fanout -qp soak-copy-%d -qpf 1 -qpt 4",
];

/// Runs it. Whether nothing was lost, and the node stayed small.
pub(crate) fn run(minutes: u64) -> anyhow::Result<bool> {
    let binary = binary()?;
    let dir = std::env::temp_dir().join(format!("leveret-soak-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    say(&format!("data, and what node and loads print: {}", dir.display()));
    let seconds = minutes * 60;
    let mut node = Node::start(binary, &dir)?;
    let mut loads = Vec::new();
    for (number, options) in LOADS.into_iter().enumerate() {
        let report = dir.join(format!("load-{number}.txt"));
        loads.push((options, load(&node, options, seconds, &report)?, report));
    }
    let enemies = Enemies::start(node.ports.attacked);
    let began = Instant::now();
    let (mut n_kills, mut rss_most) = (0, 0);
    while loads.iter_mut().any(|(_, load, _)| matches!(load.0.try_wait(), Ok(None))) {
        std::thread::sleep(LOOK);
        rss_most = rss_most.max(node.rss_bytes());
        let is_time = began.elapsed() < Duration::from_secs(seconds).saturating_sub(LIFE);
        if is_time && node.since.elapsed() > LIFE {
            node.kill_and_start()?;
            n_kills += 1;
        }
    }
    let worst_wait_ms = enemies.end();
    let mut is_good = rss_most < RSS_BYTES_MAX && worst_wait_ms < WAIT_MS_MAX;
    for (options, mut load, report) in loads {
        let verdict = verdict(&report)?;
        // What connections lost on the way must not be unknown.
        let passed = load.0.wait()?.success() && verdict.contains("verify: good, lost: 0,");
        say(&format!("{} {options}\n    {verdict}", if passed { "passed" } else { "FAILED" }));
        is_good &= passed;
    }
    say(&format!(
        "{minutes} min, {n_kills} times killed, at most {} MiB, a health check waited {worst_wait_ms} ms at worst",
        rss_most >> 20
    ));
    drop(node);
    if is_good {
        std::fs::remove_dir_all(&dir).context("cannot remove the data")?;
    }
    Ok(is_good)
}

/// The binary that `LEVERET_BINARY` names, or one built for release.
fn binary() -> anyhow::Result<PathBuf> {
    if let Some(binary) = std::env::var_os("LEVERET_BINARY") {
        return Ok(binary.into());
    }
    ensure!(cargo(&["build", "--release", "--locked"]).status()?.success(), "the build failed");
    Ok(repository::target().join("release/leveret"))
}

/// The line of a load's report that says what was lost.
fn verdict(report: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(report)?;
    let line = text.lines().find(|line| line.contains("verify: "));
    Ok(line.unwrap_or("no verdict").to_owned())
}

/// A generator that connects again whenever the node was killed.
fn load(node: &Node, options: &str, seconds: u64, report: &Path) -> anyhow::Result<Process> {
    let uri = format!("amqp://127.0.0.1:{}", node.ports.amqp);
    let mut perf = Command::new(&node.binary);
    perf.args(["perf", "--verify", "-f", "persistent", "-ad", "false", "-cri", "1", "-h", &uri]);
    perf.args(["-z", &seconds.to_string()]).args(options.split(' '));
    let report = File::create(report)?;
    perf.stderr(report.try_clone()?).stdout(report);
    Ok(Process(perf.spawn().context("cannot start leveret perf")?))
}

/// A process that goes with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A node that goes with this value.
struct Node {
    process: Process,
    binary: PathBuf,
    dir: PathBuf,
    ports: NodePorts,
    since: Instant,
}

/// The ports of a node.
#[derive(Clone, Copy)]
struct NodePorts {
    amqp: u16,
    attacked: Ports,
}

impl NodePorts {
    /// Ports that were free a moment ago: nobody else is expected to take them.
    fn free() -> std::io::Result<Self> {
        let sockets: Vec<TcpListener> =
            (0..4).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let mut ports = sockets.iter().map(|socket| socket.local_addr().map(|it| it.port()));
        let mut port = || ports.next().unwrap_or(Ok(0));
        let attacked = Ports { http: port()?, prometheus: port()?, stream: port()? };
        Ok(Self { amqp: port()?, attacked })
    }

    fn settings(&self) -> [String; 4] {
        let Self { amqp, attacked: Ports { http, prometheus, stream } } = self;
        [
            format!("listeners.tcp.default=127.0.0.1:{amqp}"),
            format!("management.tcp.port={http}"),
            format!("prometheus.tcp.port={prometheus}"),
            format!("stream.listeners.tcp.default=127.0.0.1:{stream}"),
        ]
    }
}

impl Node {
    fn start(binary: PathBuf, dir: &Path) -> anyhow::Result<Self> {
        let ports = NodePorts::free()?;
        let process = start(&binary, dir, ports)?;
        Ok(Self { process, binary, dir: dir.to_owned(), ports, since: Instant::now() })
    }

    fn kill_and_start(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.process.0.try_wait()? {
            bail!("the node has ended by itself: {status}");
        }
        self.process.0.kill()?;
        self.process.0.wait()?;
        self.process = start(&self.binary, &self.dir, self.ports)?;
        self.since = Instant::now();
        Ok(())
    }

    fn rss_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.process.0.id());
        let statm = std::fs::read_to_string(path).unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or_default() * 4096
    }
}

/// A node that is ready.
fn start(binary: &Path, dir: &Path, ports: NodePorts) -> anyhow::Result<Process> {
    let log = OpenOptions::new().create(true).append(true).open(dir.join("node.log"))?;
    let mut server = Command::new(binary);
    server.arg("server");
    for setting in ports.settings() {
        server.args(["--set", &setting]);
    }
    server.arg("--data-dir").arg(dir.join("data")).stderr(log.try_clone()?).stdout(log);
    let process = Process(server.spawn().context("cannot start leveret server")?);
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", ports.amqp)).is_err() {
        ensure!(began.elapsed() < START_MAX, "the node does not start");
        std::thread::sleep(LOOK);
    }
    Ok(process)
}
