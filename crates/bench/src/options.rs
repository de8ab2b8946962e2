//! The command line.

use std::path::PathBuf;

use command_help::{ArgumentHelp, CommandHelp, OptionHelp};
use perf::Uri;

use crate::baseline::Floor;
use crate::external::ExternalTools;
use crate::plan::Scale;
use crate::scenarios::{self, Settings};

/// An error of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage(pub(crate) String);

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum Request {
    /// Show the options.
    Help,
    /// Show the version.
    Version,
    /// Show the scenarios, or all about those named.
    List(Vec<String>),
    /// Be the process that scenarios with a floor compare with.
    Relay(Floor),
    /// Measure.
    Run(Options),
}

/// A run.
#[derive(Debug)]
pub(crate) struct Options {
    /// Names, in the order they are to run.
    pub(crate) scenarios: Vec<String>,
    /// Parts of names of the rows to measure; all if empty.
    pub(crate) rows: Vec<String>,
    /// The baseline first.
    pub(crate) targets: Vec<TargetOption>,
    pub(crate) repeats: u32,
    pub(crate) scale: f64,
    /// The directory of the results.
    pub(crate) out: Option<PathBuf>,
    /// A directory on the disk that fdatasync is timed on.
    pub(crate) disk: PathBuf,
    /// RabbitMQ's load generators, where they are to be used instead of ours.
    pub(crate) external: ExternalTools,
    /// The folder of the small programs with other clients.
    pub(crate) clients: PathBuf,
    /// Seconds that the clients' loads and those of latency are measured.
    pub(crate) seconds: Option<f64>,
}

/// A broker to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetOption {
    pub(crate) name: String,
    /// As it was given.
    pub(crate) address: String,
    pub(crate) uri: Uri,
    pub(crate) pid: Option<u32>,
    /// Queue versions to tell apart.
    pub(crate) versions: Vec<u8>,
    /// The words of its command-line tool, if one is named.
    pub(crate) ctl: Vec<String>,
    /// Where it speaks the stream protocol, if that is said.
    pub(crate) stream: Option<String>,
}

impl TargetOption {
    /// Where it speaks the stream protocol: on the protocol's own port, if nothing else is said.
    pub(crate) fn stream_uri(&self) -> String {
        let host = &self.uri.host;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let login = self.address.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        let login = login.map_or_else(String::new, |(login, _)| format!("{login}@"));
        self.stream.clone().unwrap_or_else(|| format!("rabbitmq-stream://{login}{host}"))
    }
}

const REPEATS: u32 = 3;
const REPEATS_MAX: u32 = 1_000;

/// The options: the text of `--help`, with each name at the start of a line, and descriptions in a column.
const OPTIONS: &str = include_str!("options.txt");

const USAGE: &str = "leveret bench [option ...] SCENARIO ...";

/// The text of `--help`.
pub(crate) fn help() -> String {
    format!(
        "usage: {USAGE}\n{OPTIONS}\
         Exit codes: 0 success, 1 a measurement failed, 2 usage, 3 a target is unreachable.\n"
    )
}

/// An option of the table, without the dashes in front.
fn option(text: &'static str) -> OptionHelp {
    let (name, help) = text.split_once("  ").unwrap_or((text, ""));
    let mut words = name.split_whitespace();
    OptionHelp {
        long: words.next().unwrap_or_default(),
        short: None,
        value: words.next(),
        help: help
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// The tool with its options and scenarios.
pub(crate) fn command_help() -> CommandHelp {
    let values = scenarios::ALL.iter().map(|known| known.name).collect();
    let scenario = ArgumentHelp { name: "scenario", is_many: true, is_required: true, values };
    let options =
        OPTIONS.split("\n --").map(|text| option(text.trim_start_matches(" --"))).collect();
    let arguments = vec![scenario];
    let usage = Some(USAGE.to_owned());
    CommandHelp { name: "bench", usage, options, arguments, ..CommandHelp::default() }
}

fn words_of(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

/// Reads the words of a command line.
///
/// # Errors
/// Options and scenarios that do not exist, and values outside their domain.
pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Request, Usage> {
    let mut words = words.into_iter();
    let mut options = Options {
        scenarios: Vec::new(),
        rows: Vec::new(),
        targets: Vec::new(),
        repeats: REPEATS,
        scale: 1.0,
        out: None,
        disk: PathBuf::from("."),
        external: ExternalTools::default(),
        clients: PathBuf::from("bench/clients"),
        seconds: None,
    };
    let (mut is_list, mut baseline) = (false, None);
    while let Some(word) = words.next() {
        let Some(long) = word.strip_prefix("--") else {
            options.scenarios.push(scenario(word)?);
            continue;
        };
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let mut value = || {
            attached.clone().or_else(|| words.next()).ok_or_else(|| refuse(name, "needs a value"))
        };
        match name {
            "help" => return Ok(Request::Help),
            "version" => return Ok(Request::Version),
            "relay" => return relay(&value()?),
            "list" => is_list = true,
            "target" => options.targets.push(target(&value()?)?),
            "baseline" => baseline = Some(value()?),
            "repeats" => options.repeats = repeats(&value()?)?,
            "scale" => options.scale = positive("scale", &value()?)?,
            "seconds" => options.seconds = Some(positive("seconds", &value()?)?),
            "clients" => options.clients = value()?.into(),
            "rows" => options.rows.push(value()?),
            "out" => options.out = Some(value()?.into()),
            "disk" => options.disk = value()?.into(),
            "perf-test" => options.external.perf_test = words_of(&value()?),
            "stream-perf-test" => options.external.stream_perf_test = words_of(&value()?),
            _ => return Err(Usage(format!("unrecognized option: --{name}"))),
        }
    }
    if is_list {
        return Ok(Request::List(options.scenarios));
    }
    if options.scenarios.is_empty() {
        return Err(Usage("name a scenario (see --list)".to_owned()));
    }
    options.rows = rows(&options)?;
    order_targets(&mut options.targets, baseline)?;
    Ok(Request::Run(options))
}

/// The texts that choose rows. Each has to: a slip of the pen is not to measure nothing.
fn rows(options: &Options) -> Result<Vec<String>, Usage> {
    let settings = Settings { scale: Scale(options.scale), seconds: options.seconds };
    let known = options.scenarios.iter().filter_map(|name| scenarios::by_name(name));
    let cases = known.flat_map(|known| known.plan(settings).cases);
    let names: Vec<String> = cases.flat_map(|case| case.rows).map(|row| row.name).collect();
    let rows: Vec<String> = options.rows.iter().flat_map(|text| parts(text, &names)).collect();
    let is_known = |text: &&String| names.iter().any(|name| name.contains(text.as_str()));
    match rows.iter().find(|text| !is_known(text)) {
        Some(text) => Err(Usage(format!("no row has '{text}' in its name (see --list SCENARIO)"))),
        None => Ok(rows),
    }
}

/// The parts between commas, but for those within a row's whole name.
fn parts(text: &str, names: &[String]) -> Vec<String> {
    let all: Vec<&str> = text.split(',').collect();
    let (mut rest, mut parts) = (all.as_slice(), Vec::new());
    while !rest.is_empty() {
        let first = |n: usize| rest.split_at(n).0.join(",").trim().to_owned();
        let n = (1..=rest.len()).rev().find(|n| names.contains(&first(*n))).unwrap_or(1);
        parts.push(first(n));
        rest = rest.split_at(n).1;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn refuse(name: &str, why: &str) -> Usage {
    Usage(format!("option --{name} {why}"))
}

fn scenario(word: String) -> Result<String, Usage> {
    match scenarios::by_name(&word) {
        Some(_) => Ok(word),
        None => Err(Usage(format!("no scenario '{word}' (see --list)"))),
    }
}

fn relay(what: &str) -> Result<Request, Usage> {
    match what {
        "pass" => Ok(Request::Relay(Floor::Pass)),
        "drop" => Ok(Request::Relay(Floor::Drop)),
        "send-file" => Ok(Request::Relay(Floor::SendFile)),
        "window" => Ok(Request::Relay(Floor::Window)),
        "amqp" => Ok(Request::Relay(Floor::Amqp)),
        _ => Err(refuse("relay", "takes pass, drop, send-file, window or amqp")),
    }
}

fn repeats(text: &str) -> Result<u32, Usage> {
    let repeats = text.parse().ok().filter(|n| (1..=REPEATS_MAX).contains(n));
    repeats.ok_or_else(|| refuse("repeats", &format!("takes a number from 1 to {REPEATS_MAX}")))
}

fn positive(name: &str, text: &str) -> Result<f64, Usage> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| refuse(name, "takes a positive number"))
}

/// `NAME=URI[,key=value...]`.
fn target(text: &str) -> Result<TargetOption, Usage> {
    let wrong = |why: &str| Usage(format!("--target {text}: {why}"));
    let (name, rest) = text.split_once('=').ok_or_else(|| wrong("it has to be NAME=URI"))?;
    let mut parts = rest.split(',');
    let address = parts.next().unwrap_or_default().to_owned();
    let uri = Uri::parse(&address).map_err(|why| wrong(&why))?;
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err(wrong("the name is empty"));
    }
    let (versions, ctl) = (Vec::new(), Vec::new());
    let mut target = TargetOption { name, address, uri, pid: None, versions, ctl, stream: None };
    for part in parts {
        match part.split_once('=') {
            Some(("pid", pid)) => {
                target.pid = Some(pid.parse().map_err(|_| wrong("pid takes a number"))?);
            }
            Some(("ctl", command)) => {
                target.ctl = words_of(command);
            }
            Some(("stream", uri)) => {
                Uri::parse_stream(uri).map_err(|why| wrong(&why))?;
                target.stream = Some(uri.to_owned());
            }
            Some(("version", "1")) => target.versions = vec![1],
            Some(("version", "2")) => target.versions = vec![2],
            Some(("version", "both")) => target.versions = vec![2, 1],
            Some(_) | None => return Err(wrong(&format!("'{part}' is not understood"))),
        }
    }
    Ok(target)
}

/// Puts the baseline first; without targets there is the one on this machine.
fn order_targets(targets: &mut Vec<TargetOption>, baseline: Option<String>) -> Result<(), Usage> {
    if targets.is_empty() {
        targets.push(target("broker=amqp://localhost")?);
    }
    for (at, one) in targets.iter().enumerate() {
        if targets.iter().skip(at + 1).any(|other| other.name == one.name) {
            return Err(Usage(format!("two targets are called {}", one.name)));
        }
    }
    if let Some(name) = baseline {
        let at = targets.iter().position(|target| target.name == name);
        let at = at.ok_or_else(|| refuse("baseline", "names no target"))?;
        let first = targets.remove(at);
        targets.insert(0, first);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, Usage> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn options(line: &str) -> Options {
        let Request::Run(options) = parsed(line).unwrap() else { panic!("{line}") };
        options
    }

    #[test]
    fn everything_has_a_default() {
        let options = options("features");
        assert_eq!(options.scenarios, ["features"]);
        assert_eq!((options.repeats, options.scale), (3, 1.0));
        assert_eq!(options.targets.len(), 1);
        assert_eq!(options.targets[0].uri.host, "localhost");
        assert!(options.rows.is_empty() && options.out.is_none());
    }

    #[test]
    fn everything_can_be_said_in_both_spellings() {
        let options = options(
            "sizes --target a=amqp://h:1 --target=b=amqp://u:p@127.0.0.1:2,pid=7,version=both \
             --baseline b --repeats 5 --scale=0.1 --rows=500000,queues, --out d churn",
        );
        assert_eq!(options.scenarios, ["sizes", "churn"]);
        assert_eq!((options.repeats, options.scale), (5, 0.1));
        assert_eq!(options.rows, ["500000", "queues"]);
        assert_eq!(options.out, Some("d".into()));
        let [first, second] = &options.targets[..] else { panic!("{options:?}") };
        assert_eq!((first.name.as_str(), first.pid), ("b", Some(7)));
        assert_eq!(first.versions, [2, 1]);
        assert_eq!(first.address, "amqp://u:p@127.0.0.1:2");
        assert_eq!((second.name.as_str(), second.pid), ("a", None));
    }

    #[test]
    fn commas_part_rows_but_not_a_row_s_name() {
        let rows = ["classic-queues", "--rows", "multiack, 100 B,fanout10, 5000 B, nack,"];
        let Request::Run(options) = parse(rows.map(str::to_owned)).unwrap() else { panic!() };
        assert_eq!(options.rows, ["multiack, 100 B", "fanout10, 5000 B", "nack"]);
    }

    #[test]
    fn streams_are_on_a_port_of_their_own_or_where_it_is_said() {
        let uri = |line: &str| options(line).targets[0].stream_uri();
        assert_eq!(uri("stream-chunks"), "rabbitmq-stream://localhost");
        let named = "stream-chunks --target a=amqp://u:p@[::1]:1/v";
        assert_eq!(uri(named), "rabbitmq-stream://u:p@[::1]");
        let said = "stream-chunks --target a=amqp://h:1,stream=rabbitmq-stream://h:2";
        assert_eq!(uri(said), "rabbitmq-stream://h:2");
        assert!(parsed("stream-chunks --target a=amqp://h,stream=amqp://h").is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "",
            "nonsense",
            "sizes --nonsense",
            "sizes --repeats 0",
            "sizes --scale -1",
            "sizes --scale nan",
            "sizes --target amqp://localhost",
            "sizes --target =amqp://localhost",
            "sizes --target a=http://localhost",
            "sizes --target a=amqp://localhost,pid=x",
            "sizes --target a=amqp://localhost,version=3",
            "sizes --target a=amqp://h --target a=amqp://i",
            "sizes --target a=amqp://h --baseline b",
            "sizes --out",
            "sizes --rows 5000,nonsense",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lists_and_the_relay() {
        assert!(
            matches!(parsed("--list sizes").unwrap(), Request::List(names) if names == ["sizes"])
        );
        assert!(matches!(parsed("--relay drop").unwrap(), Request::Relay(Floor::Drop)));
        assert!(matches!(parsed("--help").unwrap(), Request::Help));
    }
}
