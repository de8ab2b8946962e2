//! A run: every scenario, every case of it, every target in turn.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use perf::{Unreachable, process};
use stdx::UnixMs;

use crate::baseline;
use crate::broker::{Broker, Failure};
use crate::clients;
use crate::execute::Place;
use crate::load::Tools;
use crate::machine::{load, machine};
use crate::measurement::Measurement;
use crate::options::Options;
use crate::plan::{
    Baseline, Case, Goal, Mean, Plan, RowPlan, Scale, Variant, Variants, Work, names,
};
use crate::progress::{Now, Progress};
use crate::report;
use crate::result::{
    self, Cell, Column, Metric, Outcome, Parameter, Row, Run, SCHEMA, Sample, Scenario,
};
use crate::scenarios::{self, Settings};
use crate::schedule::{Turn, turns};
use crate::stats;

/// Time for which fdatasync is timed before each measurement that is compared with it.
const SYNC_TIME: Duration = Duration::from_millis(500);
/// The column of what the machine itself needs.
const BASELINE: &str = "floor";
/// A machine is busy when more processes per core than this want to run before a run begins.
const BUSY_LOAD_PER_CORE: f64 = 0.3;
/// Below this scale start-up and warm-up are a large part of what is measured.
const SHORT_SCALE: f64 = 0.05;

/// Measures everything that was asked for. `command` is what was typed. Gives back whether nothing
/// failed; refusals are no failures.
///
/// # Errors
/// [`Unreachable`] if a target is; files that cannot be written.
pub(crate) fn run(options: &Options, tools: &Tools, command: String) -> anyhow::Result<bool> {
    // Every connection is a file; with as many as there may be, most scenarios do well.
    process::allow_files(0)?;
    let brokers = probe(options)?;
    let (plans, left_out) = plans(options);
    if let Some(folder) = &options.out {
        let problem = || format!("no folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(problem)?;
    }
    let began = Instant::now();
    let run = Run {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: started_at(),
        seconds: 0.0,
        command,
        scale: options.scale,
        repeats: options.repeats,
        baseline: brokers.first().map(|broker| broker.target.name.clone()).unwrap_or_default(),
        machine: machine(),
        warnings: [warnings(load(), machine().n_cores, options.scale), uncounted(&plans)].concat(),
        targets: brokers.iter().map(|broker| broker.target.clone()).collect(),
        scenarios: Vec::new(),
    };
    let sites = plans.iter().map(|plan| sites(plan, &brokers)).collect::<Vec<_>>();
    let n_turns = plans.iter().zip(&sites).map(|(plan, sites)| plan.cases.len() * sites.len());
    let n_turns = n_turns.sum::<usize>() * usize::try_from(options.repeats)?;
    let progress = Progress::new(n_turns, began);
    let mut bench = Bench { options, tools, began, progress, run };
    bench.introduce();
    for ((plan, sites), left_out) in plans.iter().zip(&sites).zip(left_out) {
        bench.scenario(plan, sites, left_out)?;
    }
    bench.conclude()
}

/// The time now, as in `2026-01-31T12:00:00Z`.
fn started_at() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let text = stdx::date_time(UnixMs::from_raw(now * 1000), 'T');
    text.split_once('.').map_or_else(String::new, |(seconds, _)| format!("{seconds}Z"))
}

fn probe(options: &Options) -> anyhow::Result<Vec<Broker>> {
    let probed = options.targets.iter().cloned().map(|target| {
        let name = target.name.clone();
        Broker::probe(target)
            .map_err(|error| Unreachable(format!("target {name}: {error:#}")).into())
    });
    probed.collect()
}

/// Reasons to distrust the figures of a run, as far as they are known before it.
fn warnings(load: Option<f64>, n_cores: u32, scale: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(load) = load.filter(|load| *load > f64::from(n_cores) * BUSY_LOAD_PER_CORE) {
        warnings.push(format!(
            "The machine was busy before the run began: load {load:.1} on {n_cores} cores. Rates and \
             latencies are worse than on an idle machine."
        ));
    }
    if scale < SHORT_SCALE {
        warnings.push(format!(
            "The measurements are short (scale {scale}): start and warm-up weigh more than in a \
             longer run. Use --scale 0.1 or more for figures to be quoted."
        ));
    }
    warnings
}

/// The figures that cannot be counted on this machine, though a plan has it.
fn uncounted(plans: &[Plan]) -> Vec<String> {
    let steps = plans.iter().flat_map(|plan| &plan.cases).flat_map(|case| &case.steps);
    let mut clients = steps.filter(|step| matches!(step.work, Work::Client(_)));
    let is_uncounted = clients.next().is_some() && !clients::can_count_calls();
    let why =
        "System calls are not counted: perf stat -e raw_syscalls:sys_enter cannot be run here.";
    is_uncounted.then(|| why.to_owned()).into_iter().collect()
}

/// The plans, and the names of the rows of each that `--rows` leaves out.
fn plans(options: &Options) -> (Vec<Plan>, Vec<Vec<String>>) {
    let known = options.scenarios.iter().filter_map(|name| scenarios::by_name(name));
    let settings = Settings { scale: Scale(options.scale), seconds: options.seconds };
    let mut plans: Vec<Plan> = known.map(|known| known.plan(settings)).collect();
    let left_out = plans.iter_mut().map(|plan| {
        let all = names(&plan.cases);
        keep_rows(plan, &options.rows);
        let kept = names(&plan.cases);
        all.into_iter().filter(|name| !kept.contains(name)).collect()
    });
    let left_out = left_out.collect();
    (plans, left_out)
}

/// Keeps the cases with a wanted row, by name or a part of it, and those that others are relative to.
pub(crate) fn keep_rows(plan: &mut Plan, wanted: &[String]) {
    if wanted.is_empty() {
        return;
    }
    let names = names(&plan.cases);
    // A whole name stands for itself: not for others that have it in them.
    let is_wanted = |name: &str| {
        wanted.iter().any(|part| name == part || (name.contains(part) && !names.contains(part)))
    };
    let rows = plan.cases.iter().flat_map(|case| &case.rows);
    let references: Vec<String> =
        rows.filter(|row| is_wanted(&row.name)).filter_map(|row| row.relative_to.clone()).collect();
    plan.cases.retain(|case| {
        case.rows.iter().any(|row| is_wanted(&row.name) || references.contains(&row.name))
    });
    let mut kept = crate::plan::names(&plan.cases);
    for mean in &mut plan.means {
        mean.of.retain(|row| kept.contains(row));
    }
    plan.means.retain(|mean| !mean.of.is_empty());
    kept.extend(plan.means.iter().map(|mean| mean.row.name.clone()));
    for chart in &mut plan.charts {
        let had_rows = !chart.rows.is_empty();
        chart.rows.retain(|row| kept.contains(row));
        // An empty list would mean all.
        if had_rows && chart.rows.is_empty() {
            chart.title.clear();
        }
    }
    plan.charts.retain(|chart| !chart.title.is_empty());
}

/// The site of a column's measurements; without a broker it is the machine itself.
#[derive(Debug)]
struct Site<'a> {
    column: Column,
    broker: Option<&'a Broker>,
    variant: Option<Variant>,
}

fn sites<'a>(plan: &Plan, brokers: &'a [Broker]) -> Vec<Site<'a>> {
    let mut sites = Vec::new();
    for broker in brokers {
        let target = broker.target.name.clone();
        let variants = variants(&plan.variants, broker).into_iter().map(Some);
        let variants: Vec<Option<Variant>> = variants.collect();
        let variants = if variants.is_empty() { vec![None] } else { variants };
        sites.extend(variants.into_iter().map(|variant| {
            let name = variant.as_ref().map(|variant| variant.name.clone());
            let column = Column { target: target.clone(), variant: name, is_baseline: false };
            Site { column, broker: Some(broker), variant }
        }));
    }
    if plan.has_floor {
        let column = Column { target: BASELINE.to_owned(), variant: None, is_baseline: true };
        sites.push(Site { column, broker: None, variant: None });
    }
    sites
}

/// The variants measured on a target; none if it is measured as it is.
fn variants(variants: &Variants, broker: &Broker) -> Vec<Variant> {
    match variants {
        Variants::QueueVersions => {
            let version = |version: &u8| Variant {
                name: format!("v{version}"),
                queue_arguments: format!("x-queue-version={version}"),
                is_base: false,
            };
            broker.option.versions.iter().map(version).collect()
        }
        Variants::Leveret(variants) if broker.is_leveret() => variants.clone(),
        Variants::Leveret(_) | Variants::None => Vec::new(),
    }
}

/// A run in progress.
struct Bench<'a> {
    options: &'a Options,
    tools: &'a Tools,
    began: Instant,
    progress: Progress,
    run: Run,
}

impl Bench<'_> {
    fn introduce(&mut self) {
        for target in self.run.targets.clone() {
            let process = match target.pid {
                Some(pid) => format!("pid {pid}"),
                None => "no process here: no CPU and memory figures".to_owned(),
            };
            let result::Target { name, uri, product, version, .. } = target;
            self.progress.say(&format!("{name}: {product} {version} at {uri} ({process})"));
        }
        for warning in self.run.warnings.clone() {
            self.progress.say(&format!("warning: {warning}"));
        }
    }

    fn scenario(
        &mut self,
        plan: &Plan,
        sites: &[Site<'_>],
        left_out: Vec<String>,
    ) -> anyhow::Result<()> {
        self.progress.say(&format!("\n{}: {}", plan.name, plan.title));
        self.run.scenarios.push(Scenario {
            name: plan.name.to_owned(),
            title: plan.title.clone(),
            about: plan.about.clone(),
            source: plan.source.clone(),
            columns: sites.iter().map(|site| site.column.clone()).collect(),
            metrics: plan.metrics.clone(),
            charts: plan.charts.clone(),
            rows: Vec::new(),
            left_out,
        });
        let is_base = |site: &Site<'_>| site.variant.as_ref().is_some_and(|it| it.is_base);
        let base = sites.iter().position(is_base);
        let mut rows = Vec::new();
        for case in &plan.cases {
            let mut measured = self.case(plan.name, case, sites);
            if let Some(base) = base {
                for row in &mut measured {
                    let Some(of_base) = row.cells.get(base).cloned() else { continue };
                    stats::compare(row, std::iter::repeat(&of_base), Metric::Gain);
                }
            }
            rows.extend(measured);
            relate(&mut rows);
            set_shares(&mut rows, plan);
            let means = plan.means.iter().map(|it| mean(it, &rows, sites.len()));
            let means: Vec<Row> = means.collect();
            if let Some(scenario) = self.run.scenarios.last_mut() {
                scenario.rows = rows.iter().cloned().chain(means).collect();
            }
            self.write()?;
        }
        Ok(())
    }

    /// All repeats of a case on all columns.
    fn case(&mut self, scenario: &str, case: &Case, sites: &[Site<'_>]) -> Vec<Row> {
        let columns: Vec<Column> = sites.iter().map(|site| site.column.clone()).collect();
        let mut rows = empty_rows(case, columns.len());
        let repeats = self.options.repeats;
        let mut syncs_us = Vec::new();
        for turn in turns(sites.len(), repeats) {
            let Some(site) = sites.get(turn.column) else { continue };
            if case.rows.iter().any(RowPlan::needs_sync) {
                // A disk that cannot be timed leaves the row without an aim.
                syncs_us.extend(baseline::sync_us(&self.options.disk, SYNC_TIME));
            }
            if is_open(&rows, turn) {
                let at_seconds = self.began.elapsed().as_secs_f64();
                let before = now(scenario, &rows, &columns, turn, repeats);
                let found = self.turn(case, site, before);
                for (row, found) in rows.iter_mut().zip(found) {
                    take(row, turn, found, at_seconds);
                }
                self.progress.show_turn(now(scenario, &rows, &columns, turn, repeats));
            }
            self.progress.count_turn();
        }
        set_goals(&mut rows, case, stats::median(&syncs_us));
        let last = Turn { repeat: repeats, column: 0 };
        self.progress.case_done(now(scenario, &rows, &columns, last, repeats));
        rows
    }

    fn turn(
        &mut self,
        case: &Case,
        site: &Site<'_>,
        now: Now<'_>,
    ) -> Vec<Result<Measurement, Failure>> {
        self.progress.update(now, None);
        let Some(broker) = site.broker else {
            let found = match case.client() {
                Some(load) => clients::measure_floor(self.tools, load, &mut |point| {
                    self.progress.update(now, Some(point));
                }),
                None => self.baseline(case.baseline),
            };
            return case.rows.iter().map(|_| found.clone()).collect();
        };
        let progress = &mut self.progress;
        let queue_arguments = site.variant.as_ref().map(|it| it.queue_arguments.as_str());
        let place = Place { tools: self.tools, broker, queue_arguments };
        place.run(case, &mut |point| progress.update(now, Some(point)))
    }

    fn baseline(&self, baseline: Option<Baseline>) -> Result<Measurement, Failure> {
        match baseline {
            Some(baseline) => {
                baseline::measure(self.tools, baseline, &self.options.disk).map_err(Into::into)
            }
            None => Err(Failure::NotOffered("nothing to compare with".to_owned())),
        }
    }

    /// Writes what is known so far: a run that is broken off leaves its results.
    fn write(&mut self) -> anyhow::Result<()> {
        self.run.seconds = self.began.elapsed().as_secs_f64();
        let Some(folder) = &self.options.out else { return Ok(()) };
        write(folder, "result.json", &serde_json::to_string_pretty(&self.run)?)?;
        write(folder, "report.html", &report::html(&self.run)?)
    }

    fn conclude(mut self) -> anyhow::Result<bool> {
        self.write()?;
        if let Some(folder) = &self.options.out {
            let folder = folder.display();
            self.progress.say(&format!("\nwritten: {folder}/result.json, {folder}/report.html"));
        }
        let rows = self.run.scenarios.iter().flat_map(|scenario| &scenario.rows);
        let mut cells = rows.flat_map(|row| &row.cells);
        Ok(!cells.any(|cell| matches!(cell.outcome, Outcome::Failed { .. })))
    }
}

fn now<'a>(
    scenario: &'a str,
    rows: &'a [Row],
    columns: &'a [Column],
    turn: Turn,
    repeats: u32,
) -> Now<'a> {
    Now { scenario, rows, columns, column: turn.column, repeat: turn.repeat, repeats }
}

fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn empty_rows(case: &Case, n_columns: usize) -> Vec<Row> {
    let row = |(at, plan): (usize, &RowPlan)| {
        let cell =
            Cell { outcome: Outcome::Measured, figures: Default::default(), samples: Vec::new() };
        empty_row(plan, case.commands(at), vec![cell; n_columns])
    };
    case.rows.iter().enumerate().map(row).collect()
}

fn empty_row(plan: &RowPlan, commands: Vec<String>, cells: Vec<Cell>) -> Row {
    Row {
        name: plan.name.clone(),
        note: None,
        parameters: plan.parameters.clone(),
        commands,
        metric: plan.metric,
        relative_to: plan.relative_to.clone(),
        goal: None,
        published: plan.published.clone(),
        cells,
    }
}

/// A row that is worked out from others.
fn mean(mean: &Mean, rows: &[Row], n_columns: usize) -> Row {
    let metric = mean.row.metric;
    let is_measured = |row: &Row| {
        row.cells.iter().flat_map(|cell| &cell.samples).any(|it| it.values.contains_key(&metric))
    };
    let parts = rows.iter().filter(|row| mean.of.contains(&row.name) && is_measured(row));
    let parts: Vec<&Row> = parts.collect();
    let cells = (0..n_columns).map(|at| {
        let cells = parts.iter().filter_map(|row| row.cells.get(at));
        let samples = stats::means(metric, &cells.collect::<Vec<_>>());
        Cell { outcome: Outcome::Measured, figures: Default::default(), samples }
    });
    let mut row = empty_row(&mean.row, Vec::new(), cells.collect());
    row.note = Some(format!("{} of {} rows", parts.len(), mean.n_all));
    stats::sum_up(&mut row.cells);
    row
}

/// Aims, some of which depend on how long one fdatasync took.
fn set_goals(rows: &mut [Row], case: &Case, sync_us: Option<f64>) {
    for (row, plan) in rows.iter_mut().zip(&case.rows) {
        let value = match plan.goal {
            Some(Goal::Value(value)) => Some(value),
            Some(Goal::Syncs(times)) => sync_us.map(|sync_us| times * sync_us),
            // The row it is a part of may be in another case.
            Some(Goal::Share(_)) | None => None,
            Some(Goal::Floor(times)) => floor(row).map(|floor| times * floor),
        };
        row.goal = value.map(|value| result::Goal { metric: row.metric, value });
        if let Some(sync_us) = sync_us.filter(|_| plan.needs_sync()) {
            row.parameters.insert("fdatasync_us".to_owned(), Parameter::Number(sync_us));
        }
    }
}

/// The need of the machine itself, which is the last column.
fn floor(row: &Row) -> Option<f64> {
    Some(row.cells.last()?.figures.get(&row.metric)?.median)
}

/// Aims that are parts of other rows.
fn set_shares(rows: &mut [Row], plan: &Plan) {
    for of in plan.cases.iter().flat_map(|case| &case.rows) {
        let Some(Goal::Share(share)) = of.goal else { continue };
        let reference = rows.iter().find(|row| Some(&row.name) == of.relative_to.as_ref());
        let figures = reference.and_then(|row| row.cells.first()).map(|cell| &cell.figures);
        let base = figures.and_then(|figures| figures.get(&of.metric)).map(|figure| figure.median);
        if let Some(row) = rows.iter_mut().find(|row| row.name == of.name) {
            row.goal = base.map(|base| result::Goal { metric: of.metric, value: share * base });
        }
    }
}

/// Whether there is something left to find out: what was refused once is not asked for again.
fn is_open(rows: &[Row], turn: Turn) -> bool {
    let mut cells = rows.iter().filter_map(|row| row.cells.get(turn.column));
    cells.any(|cell| cell.outcome == Outcome::Measured)
}

/// Puts what was found into its cell.
fn take(row: &mut Row, turn: Turn, found: Result<Measurement, Failure>, at_seconds: f64) {
    if let Some(cell) = row.cells.get_mut(turn.column) {
        match found {
            Ok(Measurement { seconds, values, series }) => {
                let repeat = turn.repeat;
                cell.samples.push(Sample { repeat, at_seconds, seconds, values, series });
            }
            Err(Failure::Refused(reason)) => cell.outcome = Outcome::Refused { reason },
            Err(Failure::NotOffered(reason)) => cell.outcome = Outcome::NotOffered { reason },
            Err(Failure::Failed(reason)) => cell.outcome = Outcome::Failed { reason },
        }
    }
    stats::sum_up(&mut row.cells);
}

/// Rows as parts of those they are relative to.
fn relate(rows: &mut [Row]) {
    for at in 0..rows.len() {
        let name = rows.get(at).and_then(|row| row.relative_to.clone());
        let reference = rows.iter().find(|row| Some(&row.name) == name.as_ref());
        let Some(cells) = reference.map(|row| row.cells.clone()) else { continue };
        if let Some(row) = rows.get_mut(at) {
            stats::compare(row, &cells, Metric::Relative);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::warnings;

    #[test]
    fn a_busy_machine_and_a_short_run_are_told() {
        assert_eq!(warnings(Some(0.5), 2, 1.0), Vec::<String>::new());
        assert_eq!(warnings(None, 2, 0.05), Vec::<String>::new());
        let both = warnings(Some(1.86), 2, 0.01);
        assert_eq!(both.len(), 2);
        assert!(both[0].contains("load 1.9 on 2 cores"), "{both:?}");
        assert!(both[1].contains("scale 0.01"), "{both:?}");
    }
}
