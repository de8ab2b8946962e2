//! Load generators as child processes: started, followed line by line, ended.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::broker::{Broker, Failure};
use crate::clients::ClientCommands;
use crate::external::{self, ExternalTools, Output};
use crate::measurement::{Measurement, Summary, join, point};
use crate::plan::{Fill, Load, number};
use crate::result::{Metric, Point, WrittenBy};

/// The longest wait for a line of a generator, which sets up thousands of connections before its first.
pub(crate) const SILENCE: Duration = Duration::from_secs(180);
/// The longest time in which no message may move, seconds. Pauses of five minutes have been published.
const STANDSTILL_SECONDS: f64 = 600.0;
/// Points a measured course has at most, unless the generator is told otherwise.
const POINTS: f64 = 30.0;
/// The time between points, seconds: the least, and that of runs with no fixed length.
const INTERVAL: [f64; 2] = [0.1, 1.0];
/// The option of generators that end when nothing moves any more, a while later.
const UNTIL_STILL: &str = "-ew";
/// The generator's exit code for what it cannot be asked for.
const EXIT_USAGE: i32 = 2;
/// That of a client's program for what is not installed.
const EXIT_LEFT_OUT: i32 = 77;
/// The same for a broker that is not there, or no longer.
const EXIT_UNREACHABLE: i32 = 3;

/// The commands that start the tools of this program again.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) program: PathBuf,
    /// Words before the options of the load generator.
    pub(crate) perf: Vec<OsString>,
    /// Words before the options of this tool.
    pub(crate) bench: Vec<OsString>,
    pub(crate) external: ExternalTools,
    pub(crate) clients: ClientCommands,
}

impl Tools {
    /// The command that makes a load, but for where it is told of, and whether it is one of ours.
    fn command(&self, broker: &Broker, load: &Load) -> (Command, bool) {
        let external = self.external.command(load);
        let mut command = if let Some((program, words)) = external {
            let mut command = Command::new(program);
            command.args(words).args(external::options(load));
            command
        } else {
            let mut command = Command::new(&self.program);
            command.args(&self.perf).args(&load.0).arg("--json");
            if let Some(pid) = broker.target.pid {
                command.args(["--broker-pid", &pid.to_string()]);
            }
            if load.is_stream() || load.is_amqp10() {
                command.args(["--interval", &number(interval(load))]);
            } else if !load.0.iter().any(|word| word == "-i") {
                command.args(["-i", &number(interval(load))]);
            }
            command
        };
        command.arg(load.place());
        match load.is_stream() {
            true => command.arg(broker.option.stream_uri()),
            false => command.arg(&broker.option.address),
        };
        (command, external.is_none())
    }
}

/// A running generator. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Generator {
    child: Child,
    complaints: Option<JoinHandle<String>>,
}

/// A line of the generator with this number, or its end.
pub(crate) type Line = (usize, Option<Value>);

impl Generator {
    fn start(
        tools: &Tools,
        broker: &Broker,
        load: &Load,
        lines: (usize, Sender<Line>),
    ) -> anyhow::Result<Self> {
        let (command, is_ours) = tools.command(broker, load);
        let of_others = (!is_ours).then(|| Output::of(load, broker.target.pid));
        Self::spawn(command, of_others, lines)
    }

    /// Starts a command that prints our lines, or those of others.
    pub(crate) fn spawn(
        mut command: Command,
        mut of_others: Option<Output>,
        (number, lines): (usize, Sender<Line>),
    ) -> anyhow::Result<Self> {
        // What is measured is said by arguments alone.
        command.env("RABBITMQ_PERF_TEST_ENV_PREFIX", "LEVERET_BENCH_NONE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the load generator does not start")?;
        let stdout = child.stdout.take().context("no output")?;
        let mut stderr = child.stderr.take().context("no complaints")?;
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // All is read even if nobody listens: a generator that cannot write ends.
                let value = match &mut of_others {
                    Some(output) => output.line(&line),
                    None => serde_json::from_str(&line).ok(),
                };
                if value.is_some() {
                    drop(lines.send((number, value)));
                }
            }
            // Nobody may be listening any more.
            drop(lines.send((number, None)));
        });
        let complaints = std::thread::spawn(move || {
            let mut text = Vec::new();
            // What was read before an error is as good as nothing.
            drop(stderr.read_to_end(&mut text));
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        Ok(Self { child, complaints: Some(complaints) })
    }

    /// Waits for the end of one whose output has ended. `refusal` is what the broker has said.
    pub(crate) fn finish(mut self, refusal: Option<String>) -> Result<(), Failure> {
        let status = self.child.wait().map_err(|error| Failure::Failed(error.to_string()))?;
        self.verdict(status, refusal)
    }

    /// Whether it has ended on its own before its time.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(Some(status)) => self.verdict(status, None),
            Ok(None) => Ok(()),
            Err(error) => Err(Failure::Failed(error.to_string())),
        }
    }

    fn verdict(&mut self, status: ExitStatus, refusal: Option<String>) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        // A broker that goes away may say so: that refuses nothing.
        if let Some(refusal) = refusal.filter(|_| status.code() != Some(EXIT_UNREACHABLE)) {
            return Err(Failure::Refused(refusal));
        }
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok());
        Err(judge(status.code(), &complaints.unwrap_or_default()))
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The failure of a generator, by its exit code and its last words.
fn judge(code: Option<i32>, complaints: &str) -> Failure {
    let last = complaints.lines().last().unwrap_or_default();
    let last = last.strip_prefix("leveret perf: ").unwrap_or(last);
    match code {
        Some(EXIT_USAGE | EXIT_LEFT_OUT) => Failure::NotOffered(last.to_owned()),
        Some(_) if !last.is_empty() => Failure::Failed(last.to_owned()),
        Some(code) => Failure::Failed(format!("the load generator ends with code {code}")),
        None => Failure::Failed("the load generator was killed".to_owned()),
    }
}

/// The broker's refusal in a generator's last line: code and words.
fn refusal(line: &Value) -> Option<String> {
    let listed = line.get("errors").and_then(Value::as_array).into_iter().flatten();
    let refused = |error: &Value| {
        let code = error.get("code")?.as_u64()?;
        let reason = error.get("reason").and_then(Value::as_str).unwrap_or_default();
        // The words may have the code in front.
        let reason = reason.strip_prefix(&format!("{code} ")).unwrap_or(reason);
        Some(format!("{code} {reason}"))
    };
    line.get("error").into_iter().chain(listed).find_map(refused)
}

/// Seconds between the points of a course.
fn interval(load: &Load) -> f64 {
    let [least, default] = INTERVAL;
    let mut words = load.0.iter().skip_while(|word| *word != "-z").skip(1);
    let seconds = words.next().and_then(|seconds| seconds.parse::<f64>().ok());
    seconds.map_or(default, |seconds| (seconds / POINTS).clamp(least, seconds.max(least)))
}

/// Runs generators until all have ended.
fn run_all(
    tools: &Tools,
    broker: &Broker,
    loads: &[Load],
    progress: &mut dyn FnMut(&Point),
) -> Result<Course, Failure> {
    let (lines, news) = channel();
    let started: anyhow::Result<Vec<Generator>> = loads
        .iter()
        .enumerate()
        .map(|(number, load)| Generator::start(tools, broker, load, (number, lines.clone())))
        .collect();
    drop(lines);
    let generators = started?;
    let mut course = Course::new(loads.len());
    course.follow(&news, progress)?;
    for (generator, refusal) in generators.into_iter().zip(&mut course.refusals) {
        generator.finish(refusal.take())?;
    }
    Ok(course)
}

fn nothing_said() -> Failure {
    Failure::Failed("the load generator says nothing at its end".to_owned())
}

/// Runs a generator and one beside it; the measurement of the first, with latencies of the second.
pub(crate) fn run_beside(
    tools: &Tools,
    broker: &Broker,
    loads: &[Load; 2],
    progress: &mut dyn FnMut(&Point),
) -> Result<Measurement, Failure> {
    let mut course = run_all(tools, broker, loads, progress)?;
    let [load, beside] = course.summaries.as_slice() else { return Err(nothing_said()) };
    let (load, beside) = (load.as_ref(), beside.as_ref().and_then(|it| it.latency));
    let points = course.points.first_mut().map(std::mem::take).unwrap_or_default();
    let mut measurement = load.ok_or_else(nothing_said)?.measurement(points);
    measurement.set_known(Metric::BystanderP99, beside.map(|it| it.p99));
    measurement.set_known(Metric::BystanderMax, beside.map(|it| it.max));
    Ok(measurement)
}

/// Runs generators until all have ended, and adds up what they found.
pub(crate) fn run(
    tools: &Tools,
    broker: &Broker,
    loads: &[Load],
    progress: &mut dyn FnMut(&Point),
) -> Result<Measurement, Failure> {
    let counts_before = broker.own_counts();
    let course = run_all(tools, broker, loads, progress)?;
    let summaries: Vec<Summary> = course.summaries.into_iter().flatten().collect();
    let mut sum = Summary::sum(&summaries).ok_or_else(nothing_said)?;
    if broker.target.written_by == Some(WrittenBy::Broker) {
        let counts = broker.own_counts().zip(counts_before);
        sum.own = counts.map(|(after, before)| after.since(before));
        sum.written_bytes = sum.own.map(|own| own.written_bytes);
    }
    let mut series = join(&course.points);
    if loads.iter().all(|load| load.0.iter().any(|word| word == UNTIL_STILL)) {
        sum.end_with(&mut series);
    }
    Ok(sum.measurement(series))
}

/// Fills a stream, and sees that its chunks are as they were asked for.
pub(crate) fn fill(tools: &Tools, broker: &Broker, fill: &Fill) -> Result<(), Failure> {
    let mut command = Command::new(&tools.program);
    command.args(&tools.perf).args([
        "stream-fill",
        "--json",
        "--uris",
        &broker.option.stream_uri(),
    ]);
    let options = fill.options();
    let done = command.args(options.split_whitespace()).stdin(Stdio::null()).output();
    let done = done.map_err(|error| Failure::Failed(error.to_string()))?;
    if !done.status.success() {
        return Err(judge(done.status.code(), String::from_utf8_lossy(&done.stderr).trim()));
    }
    let line = serde_json::from_slice(&done.stdout).unwrap_or_default();
    match wrong_chunks(&line, fill) {
        Some(why) => Err(Failure::NotOffered(why)),
        None => Ok(()),
    }
}

/// Why the chunks that a filler found are not those that were asked for: more than one in a hundred
/// holds another number of messages.
fn wrong_chunks(line: &Value, fill: &Fill) -> Option<String> {
    let found = line.pointer("/streams/0/found");
    let number = |name: &str| found.and_then(|found| found.get(name)?.as_f64()).unwrap_or(0.0);
    let sizes = found.and_then(|found| found.get("chunk_sizes")?.as_array()).into_iter().flatten();
    let right = sizes.filter(|pair| pair.get(0) == Some(&fill.chunk.into()));
    let n_right: f64 = right.filter_map(|pair| pair.get(1)?.as_f64()).sum();
    // The last chunk may hold what is left.
    let is_right = n_right >= (number("chunks") - 1.0) * 0.99;
    let mean = number("messages") / number("chunks").max(1.0);
    (!is_right).then(|| format!("the broker makes chunks of {mean:.1} messages of {}", fill.chunk))
}

/// Starts a generator that goes on, once it is under way.
pub(crate) fn start(tools: &Tools, broker: &Broker, load: &Load) -> Result<Generator, Failure> {
    let (lines, news) = channel();
    let generator = Generator::start(tools, broker, load, (0, lines))?;
    let mut refused = None;
    loop {
        match news.recv_timeout(SILENCE) {
            Ok((_, Some(line))) if point(&line).is_some() => return Ok(generator),
            Ok((_, Some(line))) => refused = refusal(&line),
            Ok((_, None)) => {
                generator.finish(refused)?;
                return Err(Failure::Failed("the load beside ended before it began".to_owned()));
            }
            Err(_) => return Err(Failure::Failed("the load beside does not begin".to_owned())),
        }
    }
}

/// The samples and summaries of load generators while they run.
struct Course {
    points: Vec<Vec<Point>>,
    /// One of each generator, at its end.
    summaries: Vec<Option<Summary>>,
    /// The broker's refusal of each generator, if any.
    refusals: Vec<Option<String>>,
    n_running: usize,
    /// Time of the last message, seconds after the start.
    moved_at: f64,
}

impl Course {
    fn new(n: usize) -> Self {
        Self {
            points: vec![Vec::new(); n],
            summaries: vec![None; n],
            refusals: vec![None; n],
            n_running: n,
            moved_at: 0.0,
        }
    }

    fn follow(
        &mut self,
        news: &Receiver<Line>,
        progress: &mut dyn FnMut(&Point),
    ) -> Result<(), Failure> {
        while self.n_running > 0 {
            match news.recv_timeout(SILENCE) {
                Ok((_, None)) => self.n_running -= 1,
                Ok((number, Some(line))) => {
                    if let Some(point) = self.take(number, &line) {
                        progress(&point);
                        self.check_movement(&point)?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Failure::Failed("the load generator is silent".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, number: usize, line: &Value) -> Option<Point> {
        if let Some(point) = point(line) {
            self.points.get_mut(number)?.push(point);
            return Some(point);
        }
        if let Some(summary) = Summary::read(line) {
            *self.summaries.get_mut(number)? = Some(summary);
        }
        *self.refusals.get_mut(number)? = refusal(line);
        None
    }

    fn check_movement(&mut self, point: &Point) -> Result<(), Failure> {
        let rates = [point.sent_per_second, point.received_per_second];
        if rates.iter().flatten().any(|rate| *rate > 0.0) {
            self.moved_at = point.seconds;
        }
        if point.seconds - self.moved_at > STANDSTILL_SECONDS {
            let seconds = number(STANDSTILL_SECONDS);
            return Err(Failure::Failed(format!("nothing has moved for {seconds} s")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_are_told_from_failures() {
        let line = json!({"type": "error", "error": {"code": 540, "reason": "NOT_IMPLEMENTED"}});
        assert_eq!(refusal(&line), Some("540 NOT_IMPLEMENTED".to_owned()));
        let errors =
            json!([{"code": null, "reason": "x"}, {"code": 404, "reason": "404 NOT_FOUND"}]);
        let line = json!({"type": "summary", "errors": errors});
        assert_eq!(refusal(&line), Some("404 NOT_FOUND".to_owned()));
        assert_eq!(refusal(&json!({"type": "start", "schema": 1})), None);
        let usage = "leveret perf: invalid value 'x' for --flag (see --help)";
        let expected = "invalid value 'x' for --flag (see --help)".to_owned();
        assert_eq!(judge(Some(2), usage), Failure::NotOffered(expected));
        assert_eq!(judge(Some(1), "a\nb"), Failure::Failed("b".to_owned()));
        assert!(matches!(judge(Some(1), ""), Failure::Failed(_)));
        assert!(matches!(judge(None, ""), Failure::Failed(_)));
    }

    #[test]
    fn points_are_dense_enough_but_not_denser() {
        assert_eq!(interval(&Load::new("-x 1")), 1.0);
        assert_eq!(interval(&Load::new("-x 1 -z 30")), 1.0);
        assert_eq!(interval(&Load::new("-x 1 -z 300")), 10.0);
        assert_eq!(interval(&Load::new("-x 1 -z 0.5")), 0.1);
    }

    #[test]
    fn a_standstill_ends_the_measurement() {
        let mut course = Course::new(1);
        let still = |seconds| Point { seconds, sent_per_second: Some(0.0), ..Point::default() };
        let moving = Point { seconds: 5.0, sent_per_second: Some(1.0), ..Point::default() };
        assert!(course.check_movement(&moving).is_ok());
        assert!(course.check_movement(&still(600.0)).is_ok());
        assert!(course.check_movement(&still(606.0)).is_err());
    }
}
