//! The result of a run: the shape of `result.json`, and all that a report is made from.
//!
//! A [`Run`] has scenarios, a [`Scenario`] has rows and says which charts show them, a [`Row`] has a
//! [`Cell`] per [`Column`] (a target, or one of its variants), and a cell has a [`Sample`] per repeat
//! and, over those, a [`Figure`] per [`Metric`]. Readers may rely on every name here as long as
//! [`SCHEMA`] stays the same; fields may be added without a new number.

mod metric;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use metric::{Metric, Unit};

/// The version of the shape; another one is not to be read by this code.
pub const SCHEMA: u32 = 1;

/// Everything about one call of the tool.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the tool.
    pub tool_version: String,
    /// Its start, UTC, as in `2026-01-31T12:00:00Z`.
    pub started_at: String,
    /// Its duration.
    pub seconds: f64,
    /// The command line as it was given, passwords left out.
    pub command: String,
    /// The factor of durations and message counts; 1 is the source's.
    pub scale: f64,
    /// The number of times each row was measured on each target.
    pub repeats: u32,
    /// The target that ratios refer to.
    pub baseline: String,
    /// The machine the load came from, which is also that of the local targets.
    pub machine: Machine,
    /// Reasons why its figures may be less certain than they look, in sentences.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The brokers, in the order given. The place in this list decides a broker's colour.
    pub targets: Vec<Target>,
    /// In the order they ran.
    pub scenarios: Vec<Scenario>,
}

/// A machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores this machine shows.
    pub n_cores: u32,
    /// System and version, as `uname` tells.
    pub kernel: String,
    /// The distribution, if it says.
    pub system: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The governor of the cores' frequency, if it can be seen.
    pub governor: Option<String>,
}

/// A broker under test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Target {
    /// Its name on the command line.
    pub name: String,
    /// Its URI, without the password.
    pub uri: String,
    /// The product name the broker announces.
    pub product: String,
    /// The version the broker announces.
    pub version: String,
    /// The platform the broker announces: `Erlang/OTP 25`, `Rust`.
    pub platform: String,
    /// Its process, if that is on this machine: without it there are no CPU and memory figures.
    pub pid: Option<u32>,
    /// Who counts the bytes it writes, if it has a process.
    #[serde(default)]
    pub written_by: Option<WrittenBy>,
}

/// Who counts the bytes that a broker writes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WrittenBy {
    /// The broker: what it has handed to the system for the files of its data directory.
    Broker,
    /// The system: `write_bytes` of the process, which is of pages made dirty. Since a page that is written
    /// little by little counts again and again, it may be many times what reaches the device.
    Process,
}

/// A named set of measurements.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: String,
    /// For a heading.
    pub title: String,
    /// The scenario's explanation and how to read its figures; plain text.
    pub about: String,
    /// The source of the parameters.
    pub source: String,
    /// The table's columns, the first being the baseline.
    pub columns: Vec<Column>,
    /// The metrics worth showing in the table, the most important first.
    pub metrics: Vec<Metric>,
    /// The pictures, the most important first.
    pub charts: Vec<Chart>,
    /// In the order they ran.
    pub rows: Vec<Row>,
    /// Names of the rows that were not asked for.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// A target, or one of its variants, that rows are measured on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Column {
    /// The name of a [`Target`]; of none if [`Self::is_baseline`].
    pub target: String,
    /// A variant of it, such as a queue version: `v2`.
    pub variant: Option<String>,
    /// No broker, but what the machine itself needs for the same bytes.
    #[serde(rename = "is_floor")]
    pub is_baseline: bool,
}

impl Column {
    /// For headings and legends.
    pub fn label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} {variant}", self.target),
            None => self.target.clone(),
        }
    }
}

/// A picture of rows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Chart {
    /// For its heading.
    pub title: String,
    /// The kind of drawing. Bars and lines stand for a column (a colour); whiskers go from min to max.
    #[serde(default)]
    pub kind: ChartKind,
    /// The metric that is drawn; over time, what a series has of it.
    pub metric: Metric,
    /// Whether the metric's axis is logarithmic.
    #[serde(default = "yes")]
    pub is_log: bool,
    /// Names of the rows it is made of; all of the scenario's if empty.
    #[serde(default)]
    pub rows: Vec<String>,
    /// Variants whose columns it shows; all columns if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<String>,
    /// The [`PublishedFigure::by`] of published figures that are drawn beside the lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

const fn yes() -> bool {
    true
}

/// The kinds of chart.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ChartKind {
    /// A group of bars per row, one for each column.
    #[default]
    Bars,
    /// A line per column, through the rows' values of a parameter.
    Lines {
        /// The parameter along the axis; numbers.
        x: String,
        /// Whether its axis is logarithmic.
        #[serde(default)]
        is_x_log: bool,
        /// A parameter that tells several lines of a column (or small pictures beside each other)
        /// apart.
        lines: Option<String>,
    },
    /// The metric of each row's first sample over time: a line per column, a picture per row.
    OverTime,
}

/// One thing that is measured on every column.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Unique in its scenario; short enough for a table.
    pub name: String,
    /// A few words that have to be read beside the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The parameters that tell this row from the others, and those it was measured with.
    pub parameters: BTreeMap<String, Parameter>,
    /// The commands that repeat it by hand, one a line, `URI` standing for the broker.
    pub commands: Vec<String>,
    /// The metric that matters most here.
    pub metric: Metric,
    /// The row of this scenario that [`Metric::Relative`] refers to, on the same column.
    pub relative_to: Option<String>,
    /// Leveret's goal; `aim` in JSON.
    #[serde(rename = "aim")]
    pub goal: Option<Goal>,
    /// Figures others have published for the same, on their machines.
    pub published: Vec<PublishedFigure>,
    /// In the order of the scenario's columns.
    pub cells: Vec<Cell>,
}

/// The value of a parameter.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A number: fit for an axis.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// A figure to reach.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Goal {
    /// The metric.
    pub metric: Metric,
    /// At least this, or at most, as [`Metric::is_higher_better`] says.
    pub value: f64,
}

/// A figure that others have published.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// Its source: broker, version and where it was published.
    pub by: String,
    /// The variant of the broker, where the scenario's columns have variants: `v2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The metric.
    pub metric: Metric,
    /// The value.
    pub value: f64,
    /// As the source prints it, where that is another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
}

/// A row on a column.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// The outcome.
    pub outcome: Outcome,
    /// The figures over all repeats; empty unless measured.
    pub figures: BTreeMap<Metric, Figure>,
    /// Each repeat.
    pub samples: Vec<Sample>,
}

/// The outcome of a measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Outcome {
    /// There are figures.
    Measured,
    /// The broker says no: its words. No fault of the run.
    Refused {
        /// The broker's words.
        reason: String,
    },
    /// The target, or the tool, has no such feature. No fault of the run.
    NotOffered {
        /// The missing feature.
        reason: String,
    },
    /// Something went wrong.
    Failed {
        /// The error.
        reason: String,
    },
}

/// A metric over the repeats.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Figure {
    /// The middle one; the mean of the two in the middle for an even number.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The median divided by that of the first column (so above 1 is more, not always better);
    /// none on the first column, or if that has no figure.
    pub ratio: Option<f64>,
}

/// One repeat.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// From 1.
    pub repeat: u32,
    /// Its start, seconds after that of the run.
    pub at_seconds: f64,
    /// The duration of the measured part.
    pub seconds: f64,
    /// The measured values.
    pub values: BTreeMap<Metric, f64>,
    /// The samples over time.
    pub series: Vec<Point>,
}

/// A stretch of a sample. What was not measured is left out.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Point {
    /// The end of the stretch, seconds after the sample began.
    pub seconds: f64,
    /// Messages published per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_per_second: Option<f64>,
    /// Messages delivered per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_per_second: Option<f64>,
    /// Mean latency from publisher to consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_mean_us: Option<f64>,
    /// Median latency from publisher to consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
    /// Mean latency from publish to confirm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_latency_mean_us: Option<f64>,
    /// Median latency from publish to confirm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_latency_us: Option<f64>,
    /// The broker's memory at the end of the stretch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<f64>,
}

impl Point {
    /// Messages per second, as [`Metric::Rate`] counts them.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.received_per_second.or(self.sent_per_second)
    }
}
