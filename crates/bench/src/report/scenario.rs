//! A scenario's part of the page: its pictures, each with buttons for the metrics it can show.

use crate::report::details::{self, folded};
use crate::report::figure::{Figure, tail};
use crate::report::lines::{Style, ValueAxis};
use crate::report::markup::Markup;
use crate::report::names::{self, Name};
use crate::report::sweep::Sweep;
use crate::report::{bars, captions, heat, lines, table, timeline};
use crate::result::{Chart, ChartKind, Column, Metric, Row, Run, Sample, Scenario};

/// Metrics one picture can be switched between; the style has rules for as many.
const TABS_MAX: usize = 10;

/// Charts beside each other that are still seen at a glance; of more, a table of colours is.
const PANELS_MAX: usize = 6;

/// Rows whose course over time is drawn where nobody asked for it; `result.json` has all of them.
const COURSES_MAX: usize = 12;

/// Draws scenario number `at`.
pub(crate) fn draw(out: &mut Markup, run: &Run, at: usize, scenario: &Scenario) {
    let columns = names::columns(run, &scenario.columns);
    let section = out.element("section").class("scenario");
    section.attr("id", format_args!("scenario-{at}")).with(|out| {
        out.element("h2").with(|out| {
            out.text(&scenario.title);
            out.element("code").text(&scenario.name);
        });
        out.element("p").class("about").with(|out| draw_prose(out, &scenario.about));
        if !scenario.source.is_empty() {
            out.element("p").class("source").text(format_args!("Source: {}", scenario.source));
        }
        draw_legend(out, &columns);
        for (number, picture) in pictures(scenario).iter().enumerate() {
            let id = format!("s{at}p{number}");
            match picture.variants {
                [] => draw_picture(out, scenario, &columns, picture, &id),
                variants => {
                    let (scenario, columns) = of_variants(scenario, &columns, variants);
                    draw_picture(out, &scenario, &columns, picture, &id);
                }
            }
        }
        draw_courses(out, scenario, &columns, at);
        details::draw_scenario(out, scenario, &columns);
    });
}

/// A scenario with the columns of some variants alone, and their names.
fn of_variants(
    scenario: &Scenario,
    columns: &[Name],
    variants: &[String],
) -> (Scenario, Vec<Name>) {
    let is_wanted =
        |column: &Column| column.variant.as_ref().is_some_and(|it| variants.contains(it));
    let keep: Vec<bool> = scenario.columns.iter().map(is_wanted).collect();
    let mut part = scenario.clone();
    for row in &mut part.rows {
        row.cells = kept(&row.cells, &keep);
    }
    part.columns = kept(&scenario.columns, &keep);
    (part, kept(columns, &keep))
}

fn kept<T: Clone>(all: &[T], keep: &[bool]) -> Vec<T> {
    all.iter().zip(keep).filter(|(_, keep)| **keep).map(|(one, _)| one.clone()).collect()
}

/// Text in which words between backticks are code.
fn draw_prose(out: &mut Markup, text: &str) {
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 1 {
            out.element("code").text(part);
        } else {
            out.text(part);
        }
    }
}

/// Timelines of the measurements, where the scenario has no picture of its own for that.
fn draw_courses(out: &mut Markup, scenario: &Scenario, columns: &[Name], at: usize) {
    if scenario.charts.iter().any(|chart| chart.kind == ChartKind::OverTime) {
        return;
    }
    let is_course = |row: &&Row| row.cells.iter().flat_map(|cell| &cell.samples).any(has_course);
    let with_course = scenario.rows.iter().filter(is_course).map(|row| row.name.clone());
    let rows: Vec<String> = with_course.take(COURSES_MAX).collect();
    if rows.is_empty() {
        return;
    }
    let picture = Picture::of_all(&ChartKind::OverTime, &rows);
    folded(out, "Over time", false, |out| {
        draw_picture(out, scenario, columns, &picture, &format!("s{at}time"));
    });
}

fn has_course(sample: &Sample) -> bool {
    sample.series.len() > 1
}

fn draw_legend(out: &mut Markup, columns: &[Name]) {
    out.element("ul").class("legend").with(|out| {
        for column in columns {
            out.element("li").class(&column.class).text(&column.text);
        }
    });
}

/// The same rows and columns drawn the same way, for several metrics.
struct Picture<'a> {
    charts: Vec<&'a Chart>,
    kind: &'a ChartKind,
    rows: &'a [String],
    variants: &'a [String],
    beside: Option<&'a str>,
}

impl<'a> Picture<'a> {
    /// All rows and columns.
    fn of_all(kind: &'a ChartKind, rows: &'a [String]) -> Self {
        Self { charts: Vec::new(), kind, rows, variants: &[], beside: None }
    }

    fn of(chart: &'a Chart) -> Self {
        let Chart { kind, rows, variants, beside, .. } = chart;
        Self { charts: vec![chart], kind, rows, variants, beside: beside.as_deref() }
    }

    fn holds(&self, chart: &Chart) -> bool {
        *self.kind == chart.kind
            && self.rows == chart.rows
            && self.variants == chart.variants
            && self.beside == chart.beside.as_deref()
    }
}

/// Charts that differ in nothing but the metric are one picture. What has no chart but those over
/// time has bars as well, for its figures.
fn pictures(scenario: &Scenario) -> Vec<Picture<'_>> {
    let mut pictures: Vec<Picture<'_>> = Vec::new();
    for chart in &scenario.charts {
        match pictures.iter_mut().find(|picture| picture.holds(chart)) {
            Some(picture) => picture.charts.push(chart),
            None => pictures.push(Picture::of(chart)),
        }
    }
    if pictures.iter().all(|picture| *picture.kind == ChartKind::OverTime) {
        pictures.push(Picture::of_all(&ChartKind::Bars, &[]));
    }
    pictures
}

impl Picture<'_> {
    /// The metrics of its charts, then the scenario's others, as far as there is something to show.
    fn metrics(&self, scenario: &Scenario, columns: &[Name]) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        let of_charts = self.charts.iter().map(|chart| chart.metric);
        for metric in of_charts.chain(scenario.metrics.iter().copied()) {
            let figure = Figure::of(scenario, columns, metric, self.rows);
            let has_values = match self.kind {
                ChartKind::OverTime => timeline::has_values(&figure),
                ChartKind::Bars | ChartKind::Lines { .. } => figure.has_values(),
            };
            let is_shown = metrics.iter().any(|it| *it == metric || tail(*it) == Some(metric));
            if has_values && !is_shown && metrics.len() < TABS_MAX {
                metrics.push(metric);
            }
        }
        let keep = |metric: &Metric| !metrics.iter().any(|it| tail(*it) == Some(*metric));
        metrics.iter().copied().filter(keep).collect()
    }

    fn chart(&self, metric: Metric) -> Option<&Chart> {
        self.charts.iter().copied().find(|chart| chart.metric == metric)
    }
}

fn draw_picture(
    out: &mut Markup,
    scenario: &Scenario,
    columns: &[Name],
    picture: &Picture<'_>,
    id: &str,
) {
    let metrics = picture.metrics(scenario, columns);
    if metrics.is_empty() {
        return;
    }
    out.element("div").class("picture").with(|out| {
        for (at, metric) in metrics.iter().enumerate() {
            let radio = out.element("input").attr("type", "radio").attr("name", id);
            let radio = radio.attr("id", format_args!("{id}-{at}")).class("pick");
            let radio = radio.attr("data-metric", metric.button());
            let radio = if at == 0 { radio.attr("checked", "checked") } else { radio };
            radio.void();
        }
        out.element("div").class("tabs").with(|out| {
            for (at, metric) in metrics.iter().enumerate() {
                let label = out.element("label").attr("for", format_args!("{id}-{at}"));
                label.text(metric.button());
            }
        });
        out.element("div").class("sheets").with(|out| {
            for metric in &metrics {
                let figure = Figure::of(scenario, columns, *metric, picture.rows);
                let (figure, others) = match picture.kind {
                    ChartKind::OverTime => (figure, Vec::new()),
                    ChartKind::Bars | ChartKind::Lines { .. } => figure.applicable(),
                };
                out.element("div").class("sheet").with(|out| {
                    draw_sheet(out, &figure, picture);
                    if !others.is_empty() {
                        let (why, rows) = (metric.absent(), others.join(", "));
                        let line = out.element("p").class("what");
                        line.text(format_args!("Not shown ({why}): {rows}"));
                    }
                });
            }
        });
    });
}

fn draw_sheet(out: &mut Markup, figure: &Figure<'_>, picture: &Picture<'_>) {
    let chart = picture.chart(figure.metric);
    let title = chart.map_or_else(|| figure.metric.noun(), |chart| chart.title.as_str());
    match captions::finding(figure) {
        Some(finding) => {
            out.element("h3").text(finding);
            out.element("p").class("what").text(title);
        }
        None => out.element("h3").text(title),
    }
    if let Some(what) = captions::counted(figure) {
        out.element("p").class("what").text(what);
    }
    let is_log = chart.is_some_and(|chart| chart.is_log);
    match picture.kind {
        ChartKind::OverTime => timeline::draw(out, figure, is_log),
        ChartKind::Bars => bars::draw(out, figure, is_log),
        ChartKind::Lines { x, is_x_log, lines: second } => {
            // Sources draw their gains and rates from zero.
            let axis = match (picture.variants, is_log) {
                ([_, ..], _) => ValueAxis::FromZero,
                ([], true) => ValueAxis::Log,
                ([], false) => ValueAxis::AsNeeded,
            };
            let style = Style { axis, beside: picture.beside };
            match Sweep::of(figure, x, second.as_deref(), *is_x_log) {
                None => bars::draw(out, figure, is_log),
                Some(sweep) => draw_sweep(out, figure, &sweep, style),
            }
        }
    }
    if figure.has_values() {
        folded(out, "Table", *picture.kind == ChartKind::Bars, |out| table::draw(out, figure));
    }
}

fn draw_sweep(out: &mut Markup, figure: &Figure<'_>, sweep: &Sweep<'_>, style: Style<'_>) {
    match sweep.panels.len() {
        0 | 1 => lines::draw(out, figure, sweep, style),
        2..=PANELS_MAX => {
            lines::draw(out, figure, sweep, style);
            heat::draw(out, figure, sweep);
        }
        _ => {
            heat::draw(out, figure, sweep);
            folded(out, "As lines", false, |out| lines::draw(out, figure, sweep, style));
        }
    }
}
