//! Loads by the clients that people have: each goes on for a fixed time after a warm-up, in which what its
//! consumers receive and what the broker's process uses are read together. Knows where the clients are, and
//! how they are called. Never which loads there are.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use perf::process::{self, Usage};
use serde::Deserialize;
use serde_json::Value;

use crate::baseline::Relay;
use crate::broker::{Broker, Failure};
use crate::external::Output;
use crate::load::{Generator, Line, SILENCE, Tools};
use crate::measurement::{Measurement, Summary, point};
use crate::plan::{Load, number};
use crate::result::{Metric, Point};
use crate::stats::{median, ratio};

/// Seconds between the first message that is received and what is measured: a virtual machine gets warm.
const WARM_UP: f64 = 3.0;
/// A client's seconds are longer or shorter by that much.
const TOLERANCE: f64 = 0.2;
/// Seconds for which system calls are counted, after those that are measured: counting takes time.
const COUNTED: u32 = 2;
/// Seconds after which a client ends on its own, beyond those it is needed for: it may start slowly.
const SLACK: f64 = 60.0;
/// The queue argument that only Leveret knows.
const CONFIRM_ON: &str = "x-confirm-on";

/// A client.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Client {
    /// RabbitMQ's load generator, with its Java client.
    PerfTest,
    /// The same for the stream protocol.
    StreamPerfTest,
    /// A small program of ours with a client of this name.
    Program(String),
}

/// Where the clients are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientCommands {
    /// Word by word; empty where it is not to be found.
    pub(crate) perf_test: Vec<String>,
    pub(crate) stream_perf_test: Vec<String>,
    /// The folder of the small programs, with a file `run`.
    pub(crate) programs: PathBuf,
}

impl ClientCommands {
    /// As the options, then the environment, then `PATH` say. `perf_test` may also be where the
    /// interoperability suite has put it.
    pub(crate) fn find(options: &crate::options::Options) -> Self {
        let suite = || {
            let jars = std::fs::read_to_string("interop/perftest/target/classpath").ok()?;
            let words = ["java", "-cp", jars.trim(), "com.rabbitmq.perf.PerfTest"];
            Some(words.map(str::to_owned).to_vec())
        };
        let external = &options.external;
        let perf_test = found(&external.perf_test, "LEVERET_PERF_TEST", "perf-test").or_else(suite);
        let stream = (&external.stream_perf_test, "LEVERET_STREAM_PERF_TEST", "stream-perf-test");
        Self {
            perf_test: perf_test.unwrap_or_default(),
            stream_perf_test: found(stream.0, stream.1, stream.2).unwrap_or_default(),
            programs: options.clients.clone(),
        }
    }
}

fn found(option: &[String], variable: &str, program: &str) -> Option<Vec<String>> {
    if !option.is_empty() {
        return Some(option.to_vec());
    }
    if let Ok(command) = std::env::var(variable) {
        return Some(command.split_whitespace().map(str::to_owned).collect());
    }
    let path = std::env::var_os("PATH")?;
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    is_there.then(|| vec![program.to_owned()])
}

/// A load of a client.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientLoad {
    pub(crate) client: Client,
    /// Those for the place of the broker and the time aside.
    #[serde(default)]
    pub(crate) options: String,
    /// Seconds that are measured; `None` of a load that ends by itself, which is measured as a whole.
    pub(crate) seconds: Option<f64>,
}

impl ClientLoad {
    /// The command line that repeats it by hand.
    pub(crate) fn shown(&self) -> String {
        let time = self.time().map(|seconds| format!(" -z {seconds}")).unwrap_or_default();
        match &self.client {
            Client::PerfTest => format!("perf-test -h URI {}{time}", self.options),
            Client::StreamPerfTest => {
                format!("stream-perf-test --uris STREAM-URI {}{time}", self.options)
            }
            Client::Program(name) => {
                format!("bench/clients/run {name} --uri URI {}{time}", self.options)
            }
        }
    }

    /// Seconds after which it is to end, if something goes wrong here.
    fn time(&self) -> Option<String> {
        let seconds = self.seconds? + WARM_UP + f64::from(COUNTED) + SLACK;
        Some(number(seconds.ceil()))
    }

    fn command(&self, clients: &ClientCommands, peer: &Peer<'_>) -> Result<Command, Failure> {
        let run = clients.programs.join("run");
        let (words, uri, missing) = match &self.client {
            Client::PerfTest => {
                let missing = "PerfTest is not found: see --perf-test, LEVERET_PERF_TEST";
                (clients.perf_test.clone(), ["-h", peer.uri], missing)
            }
            Client::StreamPerfTest => {
                let missing = "stream-perf-test is not found: see --stream-perf-test, \
                    LEVERET_STREAM_PERF_TEST";
                let uri = ["--uris", peer.stream_uri.unwrap_or_default()];
                (clients.stream_perf_test.clone(), uri, missing)
            }
            Client::Program(name) => {
                let words = vec![run.display().to_string(), name.clone()];
                let words = if run.is_file() { words } else { Vec::new() };
                (words, ["--uri", peer.uri], "the programs are not found: see --clients")
            }
        };
        let missing = || Failure::NotOffered(missing.to_owned());
        let (program, words) = words.split_first().ok_or_else(missing)?;
        let mut command = Command::new(program);
        command.args(words).args(uri).args(self.options.split_whitespace());
        command.args(self.time().into_iter().flat_map(|time| ["-z".to_owned(), time]));
        Ok(command)
    }
}

/// The loaded side: a broker, or the process that stands for the machine itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) uri: &'a str,
    pub(crate) stream_uri: Option<&'a str>,
    pub(crate) pid: Option<u32>,
    pub(crate) is_leveret: bool,
}

impl<'a> Peer<'a> {
    pub(crate) fn of(broker: &'a Broker, stream_uri: &'a str) -> Self {
        Self {
            uri: &broker.option.address,
            stream_uri: Some(stream_uri),
            pid: broker.target.pid,
            is_leveret: broker.is_leveret(),
        }
    }

    fn used(&self) -> Option<Used> {
        let pid = self.pid?;
        Some(Used { usage: process::usage(pid)?, switches: process::switches(pid)? })
    }
}

/// The use of a process so far.
#[derive(Clone, Copy, Debug)]
struct Used {
    usage: Usage,
    switches: u64,
}

/// Has a client load the peer.
pub(crate) fn measure(
    clients: &ClientCommands,
    peer: &Peer<'_>,
    load: &ClientLoad,
    progress: &mut dyn FnMut(&Point),
) -> Result<Measurement, Failure> {
    if load.options.contains(CONFIRM_ON) && !peer.is_leveret {
        return Err(Failure::NotOffered(format!("{CONFIRM_ON} is Leveret's own")));
    }
    let command = load.command(clients, peer)?;
    let (lines, news) = channel();
    let at_start = peer.used();
    let output = Output::of(&Load::new(&load.options), peer.pid);
    let generator = Generator::spawn(command, Some(output), (0, lines))?;
    let (mut window, mut series) = (Window::new(load.seconds), Vec::new());
    loop {
        let line = match news.recv_timeout(SILENCE) {
            Ok((_, Some(line))) => line,
            Ok((_, None)) => {
                generator.finish(None)?;
                return Err(Failure::Failed("the client has ended before its time".to_owned()));
            }
            Err(_) => return Err(Failure::Failed("the client is silent".to_owned())),
        };
        if let Some(point) = point(&line) {
            progress(&point);
            series.push(point);
        } else if let Some(summary) = Summary::read(&line).filter(|_| load.seconds.is_none()) {
            let mut measurement = summary.measurement(series);
            set_switches(&mut measurement, at_start, peer.used(), summary.messages);
            return Ok(measurement);
        }
        if window.take(&line, || peer.used()) {
            break;
        }
    }
    let mut measurement = window.measurement(series);
    if let Some(calls) = peer.pid.and_then(calls_per_second) {
        let rate = received(&news).or_else(|| measurement.values.get(&Metric::Rate).copied());
        measurement.set_known(Metric::CallsPerMessage, rate.and_then(|rate| ratio(calls, rate)));
    }
    drop(generator);
    Ok(measurement)
}

/// Has a client load a process that answers it without queues.
pub(crate) fn measure_floor(
    tools: &Tools,
    load: &ClientLoad,
    progress: &mut dyn FnMut(&Point),
) -> Result<Measurement, Failure> {
    let floor = Relay::start(tools, "amqp")?;
    let uri = format!("amqp://127.0.0.1:{}", floor.port);
    let pid = Some(floor.pid());
    let peer = Peer { uri: &uri, stream_uri: None, pid, is_leveret: false };
    measure(&tools.clients, &peer, load, progress)
}

/// The mean of the rates in the lines that have come.
fn received(news: &Receiver<Line>) -> Option<f64> {
    let lines = news.try_iter().filter_map(|(_, line)| line);
    let rates: Vec<f64> = lines.filter_map(|line| point(&line)?.received_per_second).collect();
    ratio(rates.iter().sum(), rates.len() as f64)
}

/// System calls per second of a process, if the kernel lets them be counted.
fn calls_per_second(pid: u32) -> Option<f64> {
    Some(
        count_calls(&["-p", &pid.to_string(), "--", "sleep", &COUNTED.to_string()])?
            / f64::from(COUNTED),
    )
}

/// Whether the kernel lets system calls be counted.
pub(crate) fn can_count_calls() -> bool {
    count_calls(&["--", "true"]).is_some()
}

fn count_calls(of: &[&str]) -> Option<f64> {
    let mut command = Command::new("perf");
    let done =
        command.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter"]).args(of).output().ok()?;
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    text.lines().find(|line| line.contains("sys_enter"))?.split(',').next()?.parse().ok()
}

fn set_switches(
    measurement: &mut Measurement,
    before: Option<Used>,
    after: Option<Used>,
    messages: f64,
) {
    if let Some((before, after)) = before.zip(after) {
        let switches = after.switches.saturating_sub(before.switches);
        measurement.set_known(Metric::SwitchesPerMessage, ratio(switches as f64, messages));
    }
}

/// The stretch of a load that is measured, found in the lines of its client.
#[derive(Debug)]
struct Window {
    seconds: Option<f64>,
    /// Time of the line with the first message.
    first_at: Option<f64>,
    /// Time of the line it begins with.
    began_at: Option<f64>,
    /// Time of the last line.
    at: f64,
    before: Option<Used>,
    after: Option<Used>,
    received: f64,
    /// Of each line, by [`Self::LATENCIES`].
    latencies: [Vec<f64>; 4],
}

impl Window {
    const LATENCIES: [(Metric, &str, &str); 4] = [
        (Metric::LatencyMedian, "consumer_latency_us", "median"),
        (Metric::LatencyP99, "consumer_latency_us", "p99"),
        (Metric::ConfirmMedian, "confirm_latency_us", "median"),
        (Metric::ConfirmP99, "confirm_latency_us", "p99"),
    ];

    fn new(seconds: Option<f64>) -> Self {
        Self {
            seconds,
            first_at: None,
            began_at: None,
            at: 0.0,
            before: None,
            after: None,
            received: 0.0,
            latencies: Default::default(),
        }
    }

    /// Takes a line in. Gives back whether it was the last. `used` is called at both ends.
    fn take(&mut self, line: &Value, used: impl FnOnce() -> Option<Used>) -> bool {
        let Some((point, seconds)) = point(line).zip(self.seconds) else { return false };
        let rate = point.received_per_second.unwrap_or(0.0);
        let length = point.seconds - std::mem::replace(&mut self.at, point.seconds);
        if self.first_at.is_none() && rate > 0.0 {
            self.first_at = Some(point.seconds);
        }
        let Some(began_at) = self.began_at else {
            if self.first_at.is_some_and(|first| point.seconds - first >= WARM_UP - TOLERANCE) {
                (self.began_at, self.before) = (Some(point.seconds), used());
            }
            return false;
        };
        self.received += rate * length;
        for (values, (_, of, field)) in self.latencies.iter_mut().zip(Self::LATENCIES) {
            values.extend(line.get(of).and_then(|it| it.get(field)?.as_f64()));
        }
        let is_over = point.seconds - began_at >= seconds - TOLERANCE;
        if is_over {
            self.after = used();
        }
        is_over
    }

    fn measurement(&self, series: Vec<Point>) -> Measurement {
        let seconds = self.at - self.began_at.unwrap_or(self.at);
        let mut measurement = Measurement { seconds, series, ..Measurement::default() };
        measurement.set(Metric::Duration, seconds);
        measurement.set(Metric::Rate, ratio(self.received, seconds).unwrap_or(0.0));
        for (values, (metric, ..)) in self.latencies.iter().zip(Self::LATENCIES) {
            measurement.set_known(metric, median(values));
        }
        if let Some((before, after)) = self.before.zip(self.after) {
            measurement.set(Metric::Memory, after.usage.rss_bytes as f64);
            let cpu_s = after.usage.cpu_s - before.usage.cpu_s;
            measurement.set_cpu(Metric::CpuPerMessage, cpu_s, self.received);
        }
        set_switches(&mut measurement, self.before, self.after, self.received);
        measurement
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn used(cpu_s: f64, switches: u64) -> Option<Used> {
        Some(Used { usage: Usage { cpu_s, ..Usage::default() }, switches })
    }

    #[test]
    fn measures_the_seconds_after_the_warm_up() {
        let mut window = Window::new(Some(2.0));
        let mut take = |seconds: f64, rate: f64, p99: f64, used| {
            let latency = json!({"median": 1.0, "p99": p99});
            let line = json!({"type": "interval", "seconds": seconds,
                "received_per_second": rate, "consumer_latency_us": latency});
            window.take(&line, || used)
        };
        for (seconds, rate) in [(1.0, 0.0), (2.0, 9e9), (3.0, 9e9), (4.0, 9e9)] {
            assert!(!take(seconds, rate, 9.0, None), "the broker is not looked at before its time");
        }
        assert!(!take(5.0, 9e9, 9.0, used(10.0, 1000)));
        assert!(!take(6.0, 1000.0, 4.0, None));
        assert!(take(7.0, 3000.0, 6.0, used(10.4, 3000)));
        let measurement = window.measurement(Vec::new());
        let value = |metric| measurement.values.get(&metric).copied().unwrap();
        assert_eq!((measurement.seconds, value(Metric::Rate)), (2.0, 2000.0));
        assert!((value(Metric::CpuPerMessage) - 100.0).abs() < 1e-6);
        assert_eq!((value(Metric::SwitchesPerMessage), value(Metric::LatencyP99)), (0.5, 5.0));
        assert!(!measurement.values.contains_key(&Metric::ConfirmMedian));
    }

    #[test]
    fn a_client_that_is_nowhere_is_said() {
        let commands = ClientCommands { programs: "nowhere".into(), ..ClientCommands::default() };
        let peer = Peer { uri: "amqp://h", stream_uri: None, pid: None, is_leveret: false };
        for client in [Client::PerfTest, Client::StreamPerfTest, Client::Program("pika".to_owned())]
        {
            let load = ClientLoad { client, options: String::new(), seconds: Some(1.0) };
            let found = measure(&commands, &peer, &load, &mut |_| ());
            assert!(matches!(found, Err(Failure::NotOffered(_))), "{found:?}");
        }
    }
}
