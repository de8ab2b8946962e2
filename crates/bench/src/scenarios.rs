//! The scenarios by name: data in `scenarios/`, with the parameters their sources give. Each file is a
//! [`Plan`] whose texts are templates (`template`), since lengths and counts depend on the scale.

mod expression;
mod template;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use crate::conversion::Queues;
use crate::plan::{Baseline, Case, Mean, Plan, RowPlan, Scale, Step, Variants, Work, names};
use crate::result::{Chart, Metric};
use template::Scope;

/// The settings a scenario is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) scale: Scale,
    /// Seconds of a row, for scenarios whose time does not come from a source.
    pub(crate) seconds: Option<f64>,
}

/// A scenario's file, or a part of it.
type Table = serde_json::Map<String, Value>;

/// A scenario to choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    text: &'static str,
}

/// Scenarios with the texts of their files, which the build has made JSON.
macro_rules! known {
    ($($name:literal)*) => {
        &[$(Known {
            name: $name,
            text: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json")),
        }),*]
    };
}

/// All of them, in the order of `--list`.
pub(crate) const ALL: &[Known] = known! {
    "real-clients" "latency" "hot-path" "limit" "bystander" "features" "sizes" "producers-x-sizes"
    "prefetch-x-consumers" "fan-out-x-prefetch" "load-drain" "classic-queues" "confirm-on" "sharding"
    "stream-chunks" "streams" "many-queues" "many-connections" "churn"
};

/// Cases that several scenarios begin with.
const SHARED: &[Known] = known! { "nine" };

/// The scenario of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static Known> {
    ALL.iter().find(|known| known.name == name)
}

impl Known {
    /// The plan with these settings.
    pub(crate) fn plan(&self, settings: Settings) -> Plan {
        let text = PlanText::read(self.text, settings);
        text.expect("a test reads all files").plan(self.name)
    }
}

/// A file of a scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    title: String,
    about: String,
    source: String,
    metrics: Vec<Metric>,
    /// `*` in a row's name stands for any text.
    charts: Vec<Chart>,
    cases: Vec<CaseText>,
    #[serde(default)]
    means: Vec<Mean>,
    #[serde(default)]
    variants: Variants,
    #[serde(default)]
    has_floor: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    rows: Vec<RowText>,
    /// Work before the first row.
    #[serde(default)]
    first: Vec<Work>,
    #[serde(default)]
    queues: Vec<String>,
    /// Queues besides, with numbers behind their prefix.
    numbered: Option<Queues>,
    baseline: Option<Baseline>,
}

#[derive(Deserialize)]
struct RowText {
    #[serde(flatten)]
    plan: RowPlan,
    work: Work,
}

impl PlanText {
    fn read(text: &str, settings: Settings) -> anyhow::Result<Self> {
        let mut table: Table = serde_json::from_str(text)?;
        if let Some(Value::String(name)) = table.remove("cases_of") {
            let shared = SHARED.iter().find(|known| known.name == name).context(name)?;
            let shared: Table = serde_json::from_str(shared.text)?;
            let mut cases =
                Scope::new(settings, &shared).expand(shared.get("cases").context("no cases")?)?;
            let own = table.entry("cases").or_insert(Value::Array(Vec::new()));
            if let (Some(cases), Some(own)) = (cases.as_array_mut(), own.as_array_mut()) {
                own.splice(..0, cases.drain(..));
            }
        }
        let scope = Scope::new(settings, &table);
        table.remove("let");
        Ok(serde_json::from_value(scope.expand(&Value::Object(table))?)?)
    }

    fn plan(self, name: &'static str) -> Plan {
        let Self {
            title, about, source, metrics, mut charts, mut means, variants, has_floor, ..
        } = self;
        let mut cases: Vec<Case> = self.cases.into_iter().map(Into::into).collect();
        // Counts that are scaled down to the least are the same.
        cases.dedup_by_key(|case| names(std::slice::from_ref(case)));
        let rows = names(&cases);
        charts.iter_mut().for_each(|chart| chart.rows = shown(&chart.rows, &rows));
        means.iter_mut().for_each(|mean| mean.n_all = mean.of.len());
        Plan { name, title, about, source, metrics, charts, cases, means, variants, has_floor }
    }
}

impl From<CaseText> for Case {
    fn from(text: CaseText) -> Self {
        let first = text.first.into_iter().map(|work| Step { row: None, work });
        let (rows, works): (Vec<_>, Vec<_>) =
            text.rows.into_iter().map(|row| (row.plan, row.work)).unzip();
        let measured = works.into_iter().enumerate().map(|(at, work)| Step { row: Some(at), work });
        let numbered = text.numbered.iter().flat_map(Queues::names);
        let queues = text.queues.into_iter().chain(numbered).collect();
        Self { rows, steps: first.chain(measured).collect(), queues, baseline: text.baseline }
    }
}

/// The names of the rows that a chart shows, in their order; then those that are no rows of cases.
fn shown(patterns: &[String], rows: &[String]) -> Vec<String> {
    let fits = |row: &&String| patterns.iter().any(|pattern| is_like(pattern, row));
    let others = patterns.iter().filter(|name| !name.contains('*') && !rows.contains(name));
    rows.iter().filter(fits).chain(others).cloned().collect()
}

/// Whether a text is one in which `*` stands for any.
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| is_like(after, rest)))
        }),
    }
}

#[cfg(test)]
mod tests;
