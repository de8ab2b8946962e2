//! The binary as a process on a data directory of its own.

use super::faults::{self, Fault};
use super::stopwatch::cpu_ticks;
use super::volume::{self, Volume};
use super::{DEADLINE, wait_until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LOG: &str = "node.log";
const STDERR: &str = "stderr";
/// Holds options of `ulimit`, if the node is to run under such a limit.
const ULIMIT: &str = "ulimit";

/// The binary under test; `LEVERET_BINARY` names another one.
pub(crate) fn binary() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_leveret"));
    std::env::var_os("LEVERET_BINARY").map_or_else(built, PathBuf::from)
}

/// Runs the binary as the files in a node's home say.
fn command(home: &Path) -> Command {
    let Ok(options) = std::fs::read_to_string(home.join(ULIMIT)) else {
        return volume::command(home, &binary());
    };
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit $0 && exec \"$@\"", &options]).arg(binary());
    command
}

/// Runs `leveret repair` on a data directory: what it says, on stderr if it fails.
pub(crate) fn run_repair(data: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(binary());
    command.arg("repair").arg("--data-dir").arg(data).args(args).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let told = if status.success() { &stdout } else { &stderr };
    let told = String::from_utf8_lossy(told).into_owned();
    if status.success() { Ok(told) } else { Err(told) }
}

/// A running node, killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    /// Holds the data directory and what the node says.
    home: TempDir,
    settings: Vec<String>,
    address: SocketAddr,
    stream_address: Option<SocketAddr>,
    /// Where it listens besides.
    others: Vec<SocketAddr>,
}

impl Node {
    /// On an empty data directory, with these `key=value` settings.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::start_at(tempfile::tempdir().unwrap(), settings)
    }

    /// As [`Self::start`]; what the node says when it does not start.
    pub(crate) fn try_start(settings: &[&str]) -> Result<Self, String> {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::try_start_at(tempfile::tempdir().unwrap(), settings).map_err(|(_, told)| told)
    }

    /// As [`Self::start`], on a disk that fails on demand.
    pub(crate) fn start_on_faulty_disk(settings: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        faults::install(home.path());
        Self::start_at(home, settings.iter().map(|&setting| setting.to_owned()).collect())
    }

    /// As [`Self::start`], after `ulimit` with these options.
    pub(crate) fn start_with_ulimit(options: &str, settings: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(ULIMIT), options).unwrap();
        Self::start_at(home, settings.iter().map(|&setting| setting.to_owned()).collect())
    }

    /// As [`Self::start`], on a filesystem of so many bytes.
    ///
    /// # Errors
    /// Why this machine gives it none.
    pub(crate) fn start_on_volume(bytes: u64, settings: &[&str]) -> Result<(Self, Volume), String> {
        let home = tempfile::tempdir().unwrap();
        let volume = Volume::mount(home.path(), bytes)?;
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Ok((Self::start_at(home, settings), volume))
    }

    /// On the data directory `data` of `home`.
    pub(crate) fn start_in(home: TempDir) -> Self {
        Self::start_at(home, Vec::new())
    }

    /// As [`Self::start_in`], with settings.
    pub(crate) fn start_in_with(home: TempDir, settings: &[&str]) -> Self {
        Self::start_at(home, settings.iter().map(|&setting| setting.to_owned()).collect())
    }

    /// As [`Self::start_in`]; the directory and what the node says when it does not start.
    pub(crate) fn try_start_in(home: TempDir) -> Result<Self, (TempDir, String)> {
        Self::try_start_at(home, Vec::new())
    }

    fn start_at(home: TempDir, settings: Vec<String>) -> Self {
        match Self::try_start_at(home, settings) {
            Ok(node) => node,
            Err((_, told)) => panic!("the node does not start: {told}"),
        }
    }

    /// Its directory and what it says on stderr when it does not start.
    fn try_start_at(home: TempDir, settings: Vec<String>) -> Result<Self, (TempDir, String)> {
        let mut command = command(home.path());
        command.env_remove("LEVERET_DATA_DIR").stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("XDG_RUNTIME_DIR", home.path());
        let stderr = File::options().create(true).append(true).open(home.path().join(STDERR));
        command.stderr(stderr.unwrap());
        faults::load(home.path(), &mut command);
        command.arg("server").arg("--data-dir").arg(home.path().join("data"));
        for setting in ["listeners.tcp.1=127.0.0.1:0", "stream.listeners.tcp.1=127.0.0.1:0"] {
            command.args(["--set", setting]);
        }
        command.args(["--set", "management.enabled=false", "--set", "prometheus.enabled=false"]);
        command.args(["--set", "log.file=node.log", "--set", "log.console=false"]);
        for setting in &settings {
            command.args(["--set", setting]);
        }
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let Some((_, rest)) = ready.split_once(" ready on ") else {
            child.wait().unwrap();
            let stderr = std::fs::read_to_string(home.path().join(STDERR)).unwrap();
            return Err((home, stderr));
        };
        let mut addresses = rest.split(", ");
        let address = addresses.next().unwrap().parse().unwrap();
        let stream_address = addresses.next().unwrap().parse().ok();
        let others = addresses.map_while(|address| address.parse().ok()).collect();
        Ok(Self { child, home, settings, address, stream_address, others })
    }

    /// The address for clients of the stream protocol.
    pub(crate) fn stream_address(&self) -> SocketAddr {
        self.stream_address.expect("it listens for streams")
    }

    /// The address of the first listener beside those, with TLS if there are such.
    pub(crate) fn first_address(&self) -> SocketAddr {
        *self.others.first().expect("it has others")
    }

    /// The address of the HTTP API, or of the figures.
    pub(crate) fn http_address(&self) -> SocketAddr {
        *self.others.last().expect("it has an HTTP API")
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        volume::data_dir(self.home.path())
    }

    /// Bytes of the files in the directory `dir` of its data.
    pub(crate) fn bytes_in(&self, dir: &str) -> u64 {
        let files = std::fs::read_dir(self.data_dir().join(dir)).into_iter().flatten();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }

    /// Everything logged so far, over all starts.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data_dir().join(LOG)).unwrap()
    }

    /// Waits for exactly `n` lines of the log that contain the text.
    pub(crate) fn expect_logged(&self, n: usize, text: &str) {
        let count = || self.log().lines().filter(|line| line.contains(text)).count();
        wait_until(&format!("{n} times in the log: {text}"), || count() >= n);
        assert_eq!(count(), n, "times in the log: {text}");
    }

    /// Resident bytes.
    pub(crate) fn rss(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let statm = std::fs::read_to_string(path).unwrap();
        let pages: u64 = statm.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }

    /// Time of processors that it has taken, in the system's ticks.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        cpu_ticks(&format!("/proc/{}/stat", self.id()))
    }

    /// Open file descriptors.
    pub(crate) fn n_descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Whether it has a file open that is removed, with that in its name.
    pub(crate) fn holds_removed(&self, part: &str) -> bool {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let mut files = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        files.any(|it| {
            it.to_string_lossy().ends_with(" (deleted)") && it.to_string_lossy().contains(part)
        })
    }

    /// The number its next file descriptor would have.
    pub(crate) fn next_descriptor(&self) -> usize {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let numbers = fds.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse().unwrap());
        let used: BTreeSet<usize> = numbers.collect();
        (0..).find(|number| !used.contains(number)).unwrap()
    }

    /// Lets it have no more file descriptors than so many from now on, or as many as it likes. Those it has
    /// stay.
    pub(crate) fn limit_descriptors(&self, current: Option<u64>) {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: current.or(maximum), maximum };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit).unwrap();
    }

    /// Open connections.
    pub(crate) fn n_connections(&self) -> usize {
        let listed = self.ctl(&["list_connections", "name", "-q"]);
        listed.lines().filter(|line| line.contains(" -> ")).count()
    }

    /// Runs `leveret ctl`, which must succeed.
    pub(crate) fn ctl(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.ctl_command(args).output().unwrap();
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// Runs `leveret ctl`, which must fail: what it says on stderr.
    pub(crate) fn ctl_refused(&self, args: &[&str]) -> String {
        let Output { status, stderr, .. } = self.ctl_command(args).output().unwrap();
        assert!(!status.success(), "{args:?}");
        String::from_utf8(stderr).unwrap()
    }

    /// `leveret ctl`, yet to be run.
    pub(crate) fn ctl_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("ctl").args(args).arg("--data-dir").arg(self.data_dir()).stdin(Stdio::null());
        command
    }

    /// Tells it to stop, and does not wait.
    pub(crate) fn tell_to_stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Switches a fault of its disk on, for everything in the directory `dir` of its data.
    pub(crate) fn let_disk_fail(&self, fault: Fault, dir: &str) {
        faults::switch_on(self.home.path(), fault, &format!("/data/{dir}"));
    }

    /// Switches a fault of its disk off.
    pub(crate) fn mend_disk(&self, fault: Fault) {
        faults::switch_off(self.home.path(), fault);
    }

    /// Stops its process as `kill -STOP` does; it is not told.
    pub(crate) fn stand_still(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).unwrap();
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status"));
            status.is_ok_and(|status| status.contains("State:\tT"))
        };
        let threads = format!("/proc/{}/task", self.child.id());
        wait_until("the process stands still", || {
            std::fs::read_dir(&threads).unwrap().all(is_stopped)
        });
    }

    /// Lets its process go on after [`Self::stand_still`].
    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.wait_for_end()
    }

    /// Waits until it ends by itself, as a node does that cannot go on. What it says on stderr.
    pub(crate) fn expect_failure(&mut self) -> String {
        assert_eq!(self.wait_for_end(), Some(1));
        let stderr = self.home.path().join(STDERR);
        let told = std::fs::read_to_string(&stderr).unwrap();
        std::fs::remove_file(stderr).unwrap();
        told
    }

    fn wait_for_end(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < DEADLINE, "the node does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills it, which loses what it had not handed to the operating system.
    pub(crate) fn kill(&mut self) {
        assert_eq!(self.end(Signal::KILL), None);
        self.check_words();
    }

    /// Kills it if it still runs, whatever it has said.
    pub(crate) fn put_down(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As [`Self::end_well`]. Its home, with the data in `data`.
    pub(crate) fn stop_and_leave(mut self) -> TempDir {
        self.end_well();
        self.leave()
    }

    /// The home of a node that has ended, with the data in `data`.
    pub(crate) fn leave(mut self) -> TempDir {
        std::mem::replace(&mut self.home, tempfile::tempdir().unwrap())
    }

    /// Stops it in good order, and checks that it had nothing to say about itself.
    pub(crate) fn end_well(&mut self) {
        assert_eq!(self.end(Signal::TERM), Some(0));
        self.check_words();
    }

    /// Kills it and starts it again on the same data.
    pub(crate) fn kill_and_start(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Stops it in good order, and starts it again on the same data.
    pub(crate) fn stop_and_start(&mut self) {
        self.end_well();
        self.start_again();
    }

    /// Starts a node that has ended on its data.
    pub(crate) fn start_again(&mut self) {
        self.try_start_again().unwrap_or_else(|told| panic!("the node does not start: {told}"));
    }

    /// As [`Self::start_again`]; what the node says when it does not start.
    pub(crate) fn try_start_again(&mut self) -> Result<(), String> {
        let home = std::mem::replace(&mut self.home, tempfile::tempdir().unwrap());
        match Self::try_start_at(home, self.settings.clone()) {
            Ok(node) => *self = node,
            Err((home, told)) => {
                std::fs::remove_file(home.path().join(STDERR)).unwrap();
                self.home = home;
                return Err(told);
            }
        }
        Ok(())
    }

    /// As [`Self::end_well`]; everything it has logged.
    pub(crate) fn stop(mut self) -> String {
        self.end_well();
        self.log()
    }

    fn check_words(&self) {
        let log = self.log();
        // What ends a client's connection is an error with RabbitMQ too, and none of the node's.
        let is_error = |line: &&str| {
            let ends = ["AMQP", "stream"].map(|it| format!("[error] closing {it} connection ("));
            line.contains(" [error] ") && !ends.iter().any(|end| line.contains(end))
        };
        let errors: Vec<&str> = log.lines().filter(is_error).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let stderr = std::fs::read_to_string(self.home.path().join(STDERR)).unwrap();
        assert_eq!(stderr, "");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = std::fs::read(self.data_dir().join(LOG)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the end of the log, backwards: {tail:#?}");
        }
    }
}
