//! The data of a chart and its table: one metric, in rows of measured values. Never how they are drawn.

use crate::report::names::Name;
use crate::report::number;
use crate::result::{self, Cell, Metric, Outcome, PublishedFigure, Scenario, Unit};

/// One metric over rows of a scenario.
#[derive(Debug)]
pub(crate) struct Figure<'a> {
    pub(crate) metric: Metric,
    /// The first is the baseline.
    pub(crate) columns: &'a [Name],
    pub(crate) rows: Vec<Row<'a>>,
}

/// The values measured under the same conditions.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) source: &'a result::Row,
    /// One per column.
    pub(crate) values: Vec<Value<'a>>,
}

/// A row's value in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value<'a> {
    pub(crate) spread: Option<result::Figure>,
    /// The metric's 99th percentile, if the metric is a median.
    pub(crate) p99: Option<f64>,
    /// The reason why there is none, in one word and in the words of whoever knows.
    pub(crate) missing: Option<(&'static str, &'a str)>,
}

impl<'a> Figure<'a> {
    /// The rows named in `rows`; all of them if none is.
    pub(crate) fn of(
        scenario: &'a Scenario,
        columns: &'a [Name],
        metric: Metric,
        rows: &[String],
    ) -> Self {
        let chosen = |row: &&result::Row| rows.is_empty() || rows.contains(&row.name);
        let row = |source: &'a result::Row| {
            let values = (0..columns.len()).map(|at| Value::of(source.cells.get(at), metric));
            Row { source, values: values.collect() }
        };
        Self { metric, columns, rows: scenario.rows.iter().filter(chosen).map(row).collect() }
    }

    /// Whether anything was measured.
    pub(crate) fn has_values(&self) -> bool {
        self.values().any(|value| value.spread.is_some())
    }

    /// Without the rows to which the metric does not apply, such as latency without a consumer;
    /// and the names of those.
    pub(crate) fn applicable(mut self) -> (Self, Vec<&'a str>) {
        let says_something = |value: &Value<'_>| value.spread.is_some() || value.missing.is_some();
        let applies = |row: &Row<'_>| row.values.iter().any(says_something);
        let others = self.rows.iter().filter(|row| !applies(row));
        let others = others.map(|row| row.source.name.as_str()).collect();
        self.rows.retain(applies);
        (self, others)
    }

    /// Whether a 99th percentile is shown beside the median.
    pub(crate) fn has_p99(&self) -> bool {
        self.values().any(|value| value.p99.is_some())
    }

    fn values(&self) -> impl Iterator<Item = &Value<'a>> {
        self.rows.iter().flat_map(|row| &row.values)
    }

    /// Every number a chart must have room for.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> {
        let of_value = |value: &Value<'_>| {
            let spread = value.spread.map(|spread| [spread.min, spread.max]);
            spread.into_iter().flatten().chain(value.p99)
        };
        self.values()
            .flat_map(of_value)
            .chain(self.rows.iter().filter_map(|row| row.goal(self.metric)))
    }

    /// The columns that are compared with the first one.
    pub(crate) fn others(&self) -> impl Iterator<Item = (usize, &'a Name)> + use<'a> {
        self.columns.iter().enumerate().skip(1)
    }

    /// The first column's medians divided by another one's, over all rows that have both; `None` for what is
    /// not counted alike.
    pub(crate) fn quotient(&self, other: usize) -> Option<Quotient> {
        let counter = |at: usize| self.columns.get(at).and_then(|column| column.written_by);
        if self.metric == Metric::WrittenEach && counter(0) != counter(other) {
            return None;
        }
        Quotient::of(self.rows.iter().filter_map(|row| row.quotient(other)))
    }

    /// The first column compared with each of the others.
    pub(crate) fn ratios(&self) -> Vec<Ratio<'a>> {
        let Some(first) = self.columns.first() else { return Vec::new() };
        let ratio = |(at, other): (usize, &'a Name)| {
            let total = self.quotient(at)?;
            let is_inverse = total.mean < 1.0;
            let [above, below] = if is_inverse { [other, first] } else { [first, other] };
            let title = format!("{} ÷ {}", above.text, below.text);
            let total = if is_inverse { total.inverse() } else { total };
            Some(Ratio { other, at, is_inverse, title, total })
        };
        self.others().filter_map(ratio).collect()
    }

    /// The text shown when a row is pointed at: its name, then a line per column.
    pub(crate) fn tip(&self, row: &Row<'_>) -> String {
        let note = row.source.note.as_deref().map(|note| format!(" ({note})"));
        let mut lines = vec![format!("{}{}", row.source.name, note.unwrap_or_default())];
        for (value, column) in row.values.iter().zip(self.columns) {
            lines.push(format!("{}: {}", column.text, self.in_words(value)));
        }
        for ratio in self.ratios() {
            if let Some(value) = ratio.of(row) {
                lines.push(format!("{}: {}", ratio.title, number::ratio(value)));
            }
        }
        if let Some(goal) = self.goal_text(row) {
            lines.push(format!("aim: {goal}"));
        }
        for published in row.published_ratios(self.metric) {
            lines.push(format!("{}: {}", published.by, published_text(published)));
        }
        lines.join("\n")
    }

    /// A row's aim, in the unit of what the first column has reached.
    pub(crate) fn goal_text(&self, row: &Row<'_>) -> Option<String> {
        let goal = row.goal(self.metric)?;
        let reached = row.values.first().and_then(|value| value.spread);
        let beside = reached.map_or(goal, |spread| spread.median);
        Some(number::text_beside(goal, beside, self.metric.unit()))
    }

    /// A value of this metric with its unit.
    pub(crate) fn text(&self, value: f64) -> String {
        number::text(value, self.metric.unit())
    }

    /// From the least to the greatest repeat, where they differ.
    pub(crate) fn range(&self, spread: &result::Figure) -> Option<String> {
        let [low, high] = [spread.min, spread.max].map(|value| self.text(value));
        (low != high).then(|| format!("{low} – {high}"))
    }

    fn in_words(&self, value: &Value<'_>) -> String {
        let Some(spread) = &value.spread else {
            let (word, reason) = value.missing.unwrap_or(("not measured", ""));
            let colon = if reason.is_empty() { "" } else { ": " };
            return format!("{word}{colon}{reason}");
        };
        let mut text = self.text(spread.median);
        if let Some(range) = self.range(spread) {
            text.push_str(&format!(" ({range})"));
        }
        if let Some(p99) = value.p99 {
            text.push_str(&format!(", 99th percentile {}", self.text(p99)));
        }
        text
    }
}

impl Row<'_> {
    /// The first column's median divided by that of column `other`.
    pub(crate) fn quotient(&self, other: usize) -> Option<f64> {
        let median = |at: usize| self.values.get(at)?.spread.map(|spread| spread.median);
        let quotient = median(0)? / median(other)?;
        (quotient.is_finite() && quotient > 0.0).then_some(quotient)
    }

    /// Published figures that can be put beside those of this machine: ratios.
    pub(crate) fn published_ratios(
        &self,
        metric: Metric,
    ) -> impl Iterator<Item = &PublishedFigure> {
        let published = self.source.published.iter();
        published.filter(move |it| it.metric == metric && is_ratio(metric))
    }

    /// The row's goal for a metric.
    pub(crate) fn goal(&self, metric: Metric) -> Option<f64> {
        self.source.goal.as_ref().filter(|goal| goal.metric == metric).map(|goal| goal.value)
    }
}

impl<'a> Value<'a> {
    fn of(cell: Option<&'a Cell>, metric: Metric) -> Self {
        let Some(cell) = cell else {
            return Self { spread: None, p99: None, missing: Some(("not measured", "")) };
        };
        let figure = |metric| cell.figures.get(&metric).copied();
        let p99 = tail(metric).and_then(figure).map(|figure| figure.median);
        let missing = match &cell.outcome {
            Outcome::Measured => None,
            Outcome::Refused { reason } => Some(("refused", reason.as_str())),
            Outcome::NotOffered { reason } => Some(("not offered", reason.as_str())),
            Outcome::Failed { reason } => Some(("failed", reason.as_str())),
        };
        Self { spread: figure(metric).filter(|figure| figure.median.is_finite()), p99, missing }
    }
}

/// A published figure as its source has printed it, and as a factor if that is something else.
pub(crate) fn published_text(published: &PublishedFigure) -> String {
    let value = number::text(published.value, published.metric.unit());
    match &published.printed {
        Some(printed) if printed.ends_with('×') => printed.clone(),
        Some(printed) => format!("{printed} ({value})"),
        None => value,
    }
}

fn is_ratio(metric: Metric) -> bool {
    metric.unit() == Unit::Times
}

/// The metric that is shown together with a median.
pub(crate) fn tail(metric: Metric) -> Option<Metric> {
    [
        (Metric::LatencyMedian, Metric::LatencyP99),
        (Metric::ConfirmMedian, Metric::ConfirmP99),
        (Metric::OperationMedian, Metric::OperationP99),
    ]
    .into_iter()
    .find_map(|(median, p99)| (median == metric).then_some(p99))
}

/// Two columns' medians divided, in the direction that is above 1 on the whole.
#[derive(Debug)]
pub(crate) struct Ratio<'a> {
    /// The column that is not the first one.
    pub(crate) other: &'a Name,
    at: usize,
    is_inverse: bool,
    /// `Leveret ÷ RabbitMQ`.
    pub(crate) title: String,
    /// Over all rows.
    pub(crate) total: Quotient,
}

impl Ratio<'_> {
    /// The ratio in one row.
    pub(crate) fn of(&self, row: &Row<'_>) -> Option<f64> {
        let quotient = row.quotient(self.at)?;
        Some(if self.is_inverse { 1.0 / quotient } else { quotient })
    }
}

/// Ratios of rows, taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quotient {
    /// The geometric mean.
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Quotient {
    /// `None` without ratios.
    pub(crate) fn of(ratios: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut sum, mut n) = (0.0, 0.0);
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for ratio in ratios {
            sum += ratio.ln();
            n += 1.0;
            (low, high) = (low.min(ratio), high.max(ratio));
        }
        (n > 0.0).then(|| Self { mean: f64::exp(sum / n), low, high })
    }

    /// The same the other way round.
    pub(crate) fn inverse(&self) -> Self {
        Self { mean: 1.0 / self.mean, low: 1.0 / self.high, high: 1.0 / self.low }
    }

    /// `48×`, with the range where the rows differ: `48× (12× to 84×)`.
    pub(crate) fn range(&self) -> Option<String> {
        let [low, high] = [self.low, self.high].map(number::ratio);
        (low != high).then(|| format!("{low} to {high}"))
    }
}
