//! The soak: minutes of mixed load on a node that is killed over and over. By hand, before a release.
//! Knows the binary's command lines. Never what it does inside.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::repository;
use crate::steps::{cargo, say};

/// How long it takes if nothing else is asked for.
pub(crate) const MINUTES: u64 = 10;
/// How long a node lives until it is killed.
const LIFE: Duration = Duration::from_secs(20);
/// How often it is looked whether load and node are alive.
const LOOK: Duration = Duration::from_millis(200);
/// A node that has not said by then that it is ready will not.
const START_MAX: Duration = Duration::from_secs(30);
/// What the node may hold in memory under this load.
const RSS_BYTES_MAX: u64 = 1 << 30;
/// The kinds of load, all at once. Every one verifies what arrives, and finds its queues empty at the end.
const LOADS: [&str; 4] = [
    "-x 2 -y 2 -c 200 -q 200 -s 64 -r 2000 -u soak-small",
    "-x 2 -y 2 -c 50 -q 50 -s 20000 -r 100 -u soak-large",
    "-x 4 -y 4 -c 100 -q 100 -s 1000 -r 200 -qp soak-%d -qpf 1 -qpt 4",
    "-x 2 -y 4 -c 100 -q 100 -s 2000 -r 200 -e soak-fanout -t fanout -qp soak-copy-%d -qpf 1 -qpt 4",
];

/// Runs it. Whether nothing was lost, and the node stayed small.
pub(crate) fn run(minutes: u64) -> anyhow::Result<bool> {
    ensure!(cargo(&["build", "--release", "--locked"]).status()?.success(), "the build failed");
    let dir = std::env::temp_dir().join(format!("leveret-soak-{}", std::process::id()));
    let seconds = minutes * 60;
    let mut node = Node::start(&dir)?;
    let mut loads = Vec::new();
    for options in LOADS {
        loads.push((options, load(node.port, options, seconds)?));
    }
    let began = Instant::now();
    let (mut n_kills, mut rss_most) = (0, 0);
    while loads.iter_mut().any(|(_, load)| matches!(load.try_wait(), Ok(None))) {
        std::thread::sleep(LOOK);
        rss_most = rss_most.max(node.rss_bytes());
        let is_time = began.elapsed() < Duration::from_secs(seconds).saturating_sub(LIFE);
        if is_time && node.since.elapsed() > LIFE {
            node.kill_and_start()?;
            n_kills += 1;
        }
    }
    let mut is_good = rss_most < RSS_BYTES_MAX;
    for (options, mut load) in loads {
        let passed = load.wait()?.success();
        say(&format!("{} {options}", if passed { "passed" } else { "FAILED" }));
        is_good &= passed;
    }
    say(&format!("{minutes} min, {n_kills} times killed, at most {} MiB", rss_most >> 20));
    drop(node);
    std::fs::remove_dir_all(&dir).context("cannot remove the data")?;
    Ok(is_good)
}

fn leveret() -> Command {
    Command::new(repository::target().join("release/leveret"))
}

/// A generator that connects again whenever the node was killed.
fn load(port: u16, options: &str, seconds: u64) -> anyhow::Result<Child> {
    let uri = format!("amqp://127.0.0.1:{port}");
    let mut perf = leveret();
    perf.args(["perf", "--verify", "-f", "persistent", "-ad", "false", "-cri", "1", "-h", &uri]);
    perf.args(["-z", &seconds.to_string()]).args(options.split(' '));
    perf.stdout(Stdio::null()).spawn().context("cannot start leveret perf")
}

/// A node that goes with this value.
struct Node {
    process: Child,
    dir: PathBuf,
    port: u16,
    since: Instant,
}

impl Node {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        // Free a moment ago: nobody else is expected to take it.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(Self { process: start(dir, port)?, dir: dir.to_owned(), port, since: Instant::now() })
    }

    fn kill_and_start(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.process.try_wait()? {
            bail!("the node has ended by itself: {status}");
        }
        self.process.kill()?;
        self.process.wait()?;
        self.process = start(&self.dir, self.port)?;
        self.since = Instant::now();
        Ok(())
    }

    fn rss_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.process.id());
        let statm = std::fs::read_to_string(path).unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or_default() * 4096
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A node that is ready.
fn start(dir: &Path, port: u16) -> anyhow::Result<Child> {
    let mut server = leveret();
    server.args(["server", "--set", &format!("listeners.tcp.default=127.0.0.1:{port}")]);
    server.arg("--data-dir").arg(dir).stdout(Stdio::null()).stderr(Stdio::null());
    let process = server.spawn().context("cannot start leveret server")?;
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(began.elapsed() < START_MAX, "the node does not start");
        std::thread::sleep(LOOK);
    }
    Ok(process)
}
