//! Plans of measurements: scenarios as cases of steps. Plain data, the same on every target.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::churn::Churn;
use crate::clients::ClientLoad;
use crate::conversion::Queues;
use crate::result::{Chart, Metric, Parameter, PublishedFigure};
use crate::sharding::Shards;

/// A scenario, ready to be run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) source: String,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) cases: Vec<Case>,
    /// Rows that are worked out from others.
    pub(crate) means: Vec<Mean>,
    pub(crate) variants: Variants,
    /// Whether what the machine itself needs is measured beside the brokers.
    pub(crate) has_floor: bool,
}

/// Variants of a target, each a column of its own, on targets that have them.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Variants {
    /// Nothing.
    #[default]
    None,
    /// The queue versions a target was given with.
    QueueVersions,
    /// Those that Leveret has. Other brokers are left as they are.
    Leveret(Vec<Variant>),
}

/// A column's queue arguments, and its name.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) queue_arguments: String,
    /// Whether gains refer to it.
    #[serde(default)]
    pub(crate) is_base: bool,
}

/// A row with the means of others: of its metric, over those of them that have it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mean {
    pub(crate) row: RowPlan,
    /// Names of rows.
    pub(crate) of: Vec<String>,
    /// The number of rows there are, with those that were not asked for.
    #[serde(skip)]
    pub(crate) n_all: usize,
}

/// Rows that are measured in one go, since a later one needs what an earlier one leaves.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) rows: Vec<RowPlan>,
    pub(crate) steps: Vec<Step>,
    /// Queues that are deleted before and after.
    pub(crate) queues: Vec<String>,
    /// The machine's own limit for the same work, for the first row.
    pub(crate) baseline: Option<Baseline>,
}

/// A row before it is measured.
#[derive(Debug, Deserialize)]
pub(crate) struct RowPlan {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Parameter>,
    pub(crate) metric: Metric,
    pub(crate) relative_to: Option<String>,
    pub(crate) goal: Option<Goal>,
    #[serde(default)]
    pub(crate) published: Vec<PublishedFigure>,
    /// The line of Leveret's configuration without which it refuses, if there is one.
    pub(crate) configured: Option<String>,
}

/// Leveret's goal for the row's metric.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// A fixed value.
    Value(f64),
    /// A multiple of one fdatasync's time, measured meanwhile in microseconds.
    Syncs(f64),
    /// A share of the first column's value in the row that this one is relative to.
    Share(f64),
    /// A multiple of what the machine itself needs, measured beside.
    Floor(f64),
}

/// Something done on a target, for the row of the case with this number if it is measured.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) row: Option<usize>,
    pub(crate) work: Work,
}

/// The work of a step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// Load generators, all at once, until the last has ended.
    Load(Vec<Load>),
    /// A load generator that goes on until the case ends.
    Background(Load),
    /// A load generator at so much of the rate that the case's first row has found, and beside it somebody
    /// who sends little.
    Share { percent: u32, n_producers: u32, load: Load, bystander: Load },
    /// A load by a client that people have.
    Client(ClientLoad),
    /// Durable queues, declared one after the other.
    Queues(Queues),
    /// Connections with a channel, opened one after the other and kept until the case ends.
    Connections(u32),
    /// A sharded exchange, until the case ends.
    Shards(Shards),
    /// Queues that a policy converts: to the version of the column, or, for no row, to the other one.
    Convert(Queues),
    /// A stream with chunks of one size.
    Fill(Fill),
    /// One message at a time through a stream.
    OneByOne { stream: String, seconds: f64 },
    /// Making and unmaking, over and over.
    Churn(Churn),
}

/// A stream with chunks of so many messages, made anew.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fill {
    pub(crate) stream: String,
    pub(crate) n_messages: u64,
    /// Bytes of a body.
    pub(crate) size: u32,
    /// Messages per chunk.
    pub(crate) chunk: u32,
}

impl Fill {
    /// The options of the filler, those for the place of the broker aside.
    pub(crate) fn options(&self) -> String {
        let Self { stream, n_messages, size, chunk } = self;
        format!("--replace --stream {stream} --messages {n_messages} --size {size} --chunk {chunk}")
    }
}

/// The names of the rows of cases.
pub(crate) fn names(cases: &[Case]) -> Vec<String> {
    cases.iter().flat_map(|case| &case.rows).map(|row| row.name.clone()).collect()
}

/// Options of a load generator, those for the place of the broker aside.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(from = "String")]
pub(crate) struct Load(pub(crate) Vec<String>);

impl Load {
    /// Whether the stream protocol is spoken.
    pub(crate) fn is_stream(&self) -> bool {
        self.0.first().is_some_and(|word| word == "stream")
    }

    /// Whether AMQP 1.0 is spoken, on one side at least.
    pub(crate) fn is_amqp10(&self) -> bool {
        self.0.first().is_some_and(|word| word == "amqp10")
    }

    /// The option that tells where the broker is, of the load's tool.
    pub(crate) fn place(&self) -> &'static str {
        match (self.is_stream(), self.is_amqp10()) {
            (true, _) => "--uris",
            (_, true) => "--uri",
            (false, false) => "-h",
        }
    }

    /// From a line of options.
    pub(crate) fn new(line: &str) -> Self {
        Self(line.split_whitespace().map(str::to_owned).collect())
    }

    /// One more option.
    pub(crate) fn with(mut self, option: &str, value: &str) -> Self {
        self.0.extend([option.to_owned(), value.to_owned()]);
        self
    }
}

impl From<String> for Load {
    fn from(line: String) -> Self {
        Self::new(&line)
    }
}

/// A measurement of the machine itself, and its duration.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    pub(crate) kind: BaselineKind,
    pub(crate) seconds: f64,
}

/// The kinds of measurement without a broker.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BaselineKind {
    /// Publishes of bodies of that many bytes through a process that only passes them on.
    Relay { n_pairs: u32, size: u32 },
    /// The same into a process that drops them.
    Sink { size: u32 },
    /// Messages of so many bytes on the wire through a process that only passes them on.
    Bytes { of_message: u32 },
    /// The same, one at a time: the next one follows once the one before has come.
    OneByOne { of_message: u32 },
    /// Messages of so many bytes on the wire from a process that sends one for each frame of credit, of which
    /// so many are on their way.
    Window { of_message: u32, credits: u32 },
    /// Messages of so many bytes on the wire from a process that sends a file, over and over.
    SendFile { of_message: u32 },
    /// One fdatasync after the other.
    Sync,
}

/// The factor of durations and message counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale(pub(crate) f64);

impl Scale {
    /// The shortest measurement, seconds.
    const SECONDS_MIN: f64 = 0.2;
    /// The fewest messages.
    const COUNT_MIN: f64 = 100.0;

    /// A duration of the source.
    pub(crate) fn seconds(self, seconds: f64) -> f64 {
        (seconds * self.0).max(Self::SECONDS_MIN)
    }

    /// A wait within a measurement, seconds: there is none too short.
    pub(crate) fn wait(self, seconds: f64) -> f64 {
        seconds * self.0
    }

    /// A message count of the source.
    pub(crate) fn count(self, n: f64) -> f64 {
        (n * self.0).max(Self::COUNT_MIN).round()
    }
}

impl RowPlan {
    /// Whether its goal depends on how long one fdatasync takes.
    pub(crate) fn needs_sync(&self) -> bool {
        matches!(self.goal, Some(Goal::Syncs(_)))
    }
}

impl Case {
    /// The client's load, of a case that is nothing else.
    pub(crate) fn client(&self) -> Option<&ClientLoad> {
        match self.steps.as_slice() {
            [Step { work: Work::Client(load), .. }] => Some(load),
            _ => None,
        }
    }

    /// The commands that repeat a row by hand.
    pub(crate) fn commands(&self, row: usize) -> Vec<String> {
        let configured = self.rows.get(row).and_then(|row| row.configured.as_ref());
        let server = configured.map(|line| vec![format!("# Leveret's configuration: {line}")]);
        let steps = self.steps.iter().filter_map(|step| step.command(row));
        server.into_iter().chain(steps).flatten().collect()
    }
}

impl Step {
    /// The command line of this step; `None` if the step is measured for a later row.
    fn command(&self, of: usize) -> Option<Vec<String>> {
        if self.row.is_some_and(|row| row > of) {
            return None;
        }
        let perf = |load: &Load| {
            let (place, options) = (load.place(), load.0.join(" "));
            match (load.is_stream(), load.is_amqp10()) {
                (true, _) => format!("leveret perf {options} {place} STREAM-URI"),
                (_, true) => format!("leveret perf {options} {place} URI"),
                (false, false) => format!("leveret perf {place} URI {options}"),
            }
        };
        Some(match &self.work {
            Work::Load(loads) => loads.iter().map(perf).collect(),
            Work::Background(load) => vec![format!("{} &", perf(load))],
            Work::Share { percent, load, bystander, .. } => {
                let rate = format!("# with -r RATE: {percent} % of the first row's, by producer");
                vec![rate, format!("{} &", perf(bystander)), perf(load)]
            }
            Work::Client(load) => vec![load.shown()],
            Work::Queues(Queues { prefix, n }) => {
                vec![format!("# declare the durable queues {prefix}1 to {prefix}{n}")]
            }
            Work::Connections(n) => {
                vec![format!("# open {n} connections with a channel each, keep them")]
            }
            Work::Churn(Churn { what, n_clients, seconds, .. }) => {
                let seconds = number(*seconds);
                vec![format!("# {n_clients} clients: {what} for {seconds} s")]
            }
            Work::OneByOne { stream, seconds } => {
                let seconds = number(*seconds);
                vec![format!("# for {seconds} s: publish to {stream}, wait until it is delivered")]
            }
            Work::Shards(shards) => {
                let set = |line: Vec<String>| format!("CTL '{}'", line.join("' '"));
                let set = shards.set_policies().into_iter().map(set);
                let declare = format!("# declare {}, durable, x-modulus-hash", shards.exchange);
                set.chain([declare]).collect()
            }
            Work::Convert(queues) => {
                let version = if self.row.is_some() { "VERSION" } else { "OTHER" };
                let words = queues.set_policy(version).join("' '");
                let wait = format!("# until list_queues shows {version} as storage_version");
                vec![format!("CTL '{words}'"), wait]
            }
            Work::Fill(fill) => {
                vec![format!("leveret perf stream-fill --uris STREAM-URI {}", fill.options())]
            }
        })
    }
}

/// A number as one types it: no more than three digits behind the point.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
