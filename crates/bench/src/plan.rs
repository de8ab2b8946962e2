//! Plans of measurements: scenarios as cases of steps. Plain data, the same on every target.

use std::collections::BTreeMap;

use crate::churn::Kind;
use crate::clients::ClientLoad;
use crate::conversion;
use crate::result::{Chart, ChartKind, Metric, Parameter, PublishedFigure};
use crate::sharding::Shards;

/// A scenario, ready to be run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) source: &'static str,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Variants {
    /// Nothing.
    #[default]
    None,
    /// The queue versions a target was given with.
    QueueVersions,
    /// The times at which Leveret confirms a message. Other brokers are left as they are.
    ConfirmModes,
}

/// A row with the means of others: of its metric, over those of them that have it.
#[derive(Debug)]
pub(crate) struct Mean {
    pub(crate) row: RowPlan,
    /// Names of rows.
    pub(crate) of: Vec<String>,
    /// The number of rows there are, with those that were not asked for.
    pub(crate) n_all: usize,
}

/// Rows that are measured in one go, since a later one needs what an earlier one leaves.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) rows: Vec<RowPlan>,
    pub(crate) steps: Vec<Step>,
    /// Queues that are deleted before and after.
    pub(crate) queues: Vec<String>,
    /// The machine's own limit for the same work, for the first row.
    pub(crate) baseline: Option<Baseline>,
}

/// A row before it is measured.
#[derive(Debug)]
pub(crate) struct RowPlan {
    pub(crate) name: String,
    pub(crate) parameters: BTreeMap<String, Parameter>,
    pub(crate) metric: Metric,
    pub(crate) relative_to: Option<String>,
    pub(crate) goal: Option<Goal>,
    pub(crate) published: Vec<PublishedFigure>,
    /// The line of Leveret's configuration without which it refuses, if there is one.
    pub(crate) configured: Option<&'static str>,
}

/// Leveret's goal for the row's metric.
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Debug)]
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
    Queues { prefix: &'static str, n: u32 },
    /// Connections with a channel, opened one after the other and kept until the case ends.
    Connections(u32),
    /// A sharded exchange, until the case ends.
    Shards(Shards),
    /// Queues that a policy converts: to the version of the column, or, for no row, to the other one.
    Convert(conversion::Queues),
    /// A stream with chunks of one size.
    Fill(Fill),
    /// One message at a time through a stream.
    OneByOne { stream: &'static str, seconds: f64 },
    /// Making and unmaking, over and over.
    Churn { kind: Kind, n_clients: u32, seconds: f64 },
}

/// A stream with chunks of so many messages, made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) stream: &'static str,
    pub(crate) n_messages: u64,
    /// Bytes of a body.
    pub(crate) size: u32,
    /// Messages per chunk.
    pub(crate) chunk: u32,
}

impl Fill {
    /// The options of the filler, those for the place of the broker aside.
    pub(crate) fn options(self) -> String {
        let Self { stream, n_messages, size, chunk } = self;
        format!("--replace --stream {stream} --messages {n_messages} --size {size} --chunk {chunk}")
    }
}

/// The names of the rows of cases.
pub(crate) fn names(cases: &[Case]) -> Vec<String> {
    cases.iter().flat_map(|case| &case.rows).map(|row| row.name.clone()).collect()
}

/// Options of a load generator, those for the place of the broker aside.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// Ends after that many seconds.
    pub(crate) fn seconds(self, seconds: f64) -> Self {
        self.with("-z", &number(seconds))
    }

    /// One more option.
    pub(crate) fn with(mut self, option: &str, value: &str) -> Self {
        self.0.extend([option.to_owned(), value.to_owned()]);
        self
    }
}

/// A measurement of the machine itself, and its duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) kind: BaselineKind,
    pub(crate) seconds: f64,
}

/// The kinds of measurement without a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are positive and far below 2^64"
    )]
    pub(crate) fn count(self, n: u32) -> u64 {
        (f64::from(n) * self.0).max(Self::COUNT_MIN).round() as u64
    }
}

impl RowPlan {
    /// A row without anything special.
    pub(crate) fn new(name: impl Into<String>, metric: Metric) -> Self {
        Self {
            name: name.into(),
            parameters: BTreeMap::new(),
            metric,
            relative_to: None,
            goal: None,
            published: Vec::new(),
            configured: None,
        }
    }

    /// One more parameter, fit for an axis.
    pub(crate) fn number(mut self, name: &str, value: impl Into<f64>) -> Self {
        self.parameters.insert(name.to_owned(), Parameter::Number(value.into()));
        self
    }

    /// One more parameter.
    pub(crate) fn text(mut self, name: &str, value: impl Into<String>) -> Self {
        self.parameters.insert(name.to_owned(), Parameter::Text(value.into()));
        self
    }

    /// Figures of this row are also told as parts of that row's.
    pub(crate) fn relative_to(mut self, row: &str) -> Self {
        self.relative_to = Some(row.to_owned());
        self
    }

    /// Sets Leveret's goal.
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Adds a published figure of the row's metric.
    pub(crate) fn published(self, by: &str, value: f64) -> Self {
        let metric = self.metric;
        self.published_of(metric, by, value)
    }

    /// Adds a published figure of any metric.
    pub(crate) fn published_of(mut self, metric: Metric, by: &str, value: f64) -> Self {
        let by = by.to_owned();
        let figure = PublishedFigure { by, variant: None, metric, value, printed: None };
        self.published.push(figure);
        self
    }

    /// The last published figure is of this variant of the broker.
    pub(crate) fn of_variant(mut self, variant: &str) -> Self {
        if let Some(last) = self.published.last_mut() {
            last.variant = Some(variant.to_owned());
        }
        self
    }

    /// The last published figure is printed in another form at its source.
    pub(crate) fn printed(mut self, text: &str) -> Self {
        if let Some(last) = self.published.last_mut() {
            last.printed = Some(text.to_owned());
        }
        self
    }

    /// Whether its goal depends on how long one fdatasync takes.
    pub(crate) fn needs_sync(&self) -> bool {
        matches!(self.goal, Some(Goal::Syncs(_)))
    }

    /// A case of this row alone, measured by one load generator.
    pub(crate) fn load(self, load: Load) -> Case {
        Case::of(self, Work::Load(vec![load]))
    }
}

impl Case {
    /// A case of one row.
    pub(crate) fn of(row: RowPlan, work: Work) -> Self {
        Self::default().row(row, work)
    }

    /// One more row, and the work that it is measured by.
    pub(crate) fn row(mut self, row: RowPlan, work: Work) -> Self {
        self.steps.push(Step { row: Some(self.rows.len()), work });
        self.rows.push(row);
        self
    }

    /// Work before the next row.
    pub(crate) fn first(mut self, work: Work) -> Self {
        self.steps.push(Step { row: None, work });
        self
    }

    /// Deletes the queue before and after.
    pub(crate) fn queue(mut self, name: &str) -> Self {
        self.queues.push(name.to_owned());
        self
    }

    /// Deletes the queues with these numbers after their prefix before and after.
    pub(crate) fn queues(mut self, prefix: &str, n: u32) -> Self {
        self.queues.extend((1..=n).map(|at| format!("{prefix}{at}")));
        self
    }

    /// With what the machine itself needs.
    pub(crate) fn baseline(mut self, baseline: Baseline) -> Self {
        self.baseline = Some(baseline);
        self
    }

    /// The client's load, of a case that is nothing else.
    pub(crate) fn client(&self) -> Option<&ClientLoad> {
        match self.steps.as_slice() {
            [Step { work: Work::Client(load), .. }] => Some(load),
            _ => None,
        }
    }

    /// The commands that repeat a row by hand.
    pub(crate) fn commands(&self, row: usize) -> Vec<String> {
        let configured = self.rows.get(row).and_then(|row| row.configured);
        let server = configured.map(|line| vec![format!("# Leveret's configuration: {line}")]);
        let steps = self.steps.iter().filter_map(|step| step.command(row));
        server.into_iter().chain(steps).flatten().collect()
    }
}

impl Work {
    /// Load generators with these options.
    pub(crate) fn load(options: &str) -> Self {
        Self::Load(vec![Load::new(options)])
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
            Work::Queues { prefix, n } => {
                vec![format!("# declare the durable queues {prefix}1 to {prefix}{n}")]
            }
            Work::Connections(n) => {
                vec![format!("# open {n} connections with a channel each, keep them")]
            }
            Work::Churn { kind, n_clients, seconds } => {
                let seconds = number(*seconds);
                vec![format!("# {n_clients} clients: {} for {seconds} s", kind.what())]
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

/// A list of metrics.
macro_rules! metrics {
    ($($name:ident)*) => { vec![$(crate::result::Metric::$name),*] };
}
pub(crate) use metrics;

/// Bars of all rows.
pub(crate) fn bars(title: &str, metric: Metric) -> Chart {
    chart(title, ChartKind::Bars, metric)
}

/// Lines along a parameter, told apart by another.
pub(crate) fn lines(title: &str, metric: Metric, x: &str, lines: Option<&str>) -> Chart {
    let kind =
        ChartKind::Lines { x: x.to_owned(), is_x_log: false, lines: lines.map(str::to_owned) };
    chart(title, kind, metric)
}

/// A metric over time.
pub(crate) fn over_time(title: &str, metric: Metric) -> Chart {
    chart(title, ChartKind::OverTime, metric).linear()
}

/// All rows and columns on a logarithmic axis.
fn chart(title: &str, kind: ChartKind, metric: Metric) -> Chart {
    Chart {
        title: title.to_owned(),
        kind,
        metric,
        is_log: true,
        rows: Vec::new(),
        variants: Vec::new(),
        beside: None,
    }
}

impl Chart {
    /// With a logarithmic axis along the parameter.
    pub(crate) fn x_log(mut self) -> Self {
        if let ChartKind::Lines { is_x_log, .. } = &mut self.kind {
            *is_x_log = true;
        }
        self
    }

    /// Of these rows only.
    pub(crate) fn rows(mut self, rows: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.rows = rows.into_iter().map(Into::into).collect();
        self
    }

    /// Of these variants' columns only.
    pub(crate) fn variants(mut self, variants: &[&str]) -> Self {
        self.variants = variants.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// With what the source has published under this name.
    pub(crate) fn beside(mut self, by: &str) -> Self {
        self.beside = Some(by.to_owned());
        self
    }

    /// With an axis that is not logarithmic.
    pub(crate) fn linear(mut self) -> Self {
        self.is_log = false;
        self
    }
}

/// A number as one types it: no more than three digits behind the point.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
