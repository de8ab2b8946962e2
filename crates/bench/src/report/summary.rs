//! The top of the page: a ratio per scenario and broker.

use crate::report::axis::Axis;
use crate::report::bars::{draw_foot, stop, upright};

use crate::report::figure::{Figure, Quotient};
use crate::report::markup::Markup;
use crate::report::names::{self, Name};
use crate::report::number::{percent, ratio, short};
use crate::result::{Metric, Run, Scenario};

const LINE_PX: usize = 24;

/// One scenario's comparison of a pair of brokers.
struct Line {
    /// The one that is spoken of, and the one it is compared with.
    subject: String,
    other: Name,
    /// The ratio by which the subject is better.
    gain: Quotient,
}

/// Draws the summary; nothing if there is nothing to compare.
pub(crate) fn draw(out: &mut Markup, run: &Run) {
    let lines: Vec<(usize, &Scenario, Metric, Vec<Line>)> = run
        .scenarios
        .iter()
        .enumerate()
        .filter_map(|(at, scenario)| {
            let metric = headline_metric(run, scenario)?;
            Some((at, scenario, metric, lines(run, scenario, metric)))
        })
        .filter(|(_, _, _, lines)| !lines.is_empty())
        .collect();
    let ends = lines.iter().flat_map(|(_, _, _, lines)| lines);
    let ends: Vec<f64> =
        ends.flat_map(|line| [line.gain.low, line.gain.high]).chain([1.0]).collect();
    if lines.is_empty() {
        return;
    }
    let axis = Axis::ratios(&ends);
    out.element("section").class("summary").attr("id", "summary").with(|out| {
        out.element("h2").text(heading(&lines));
        out.element("p").class("about").text(
            "How many times better, per scenario: the dot is the geometric mean over its rows, the line \
             goes from the least to the greatest row. Left of 1× the other one is better.",
        );
        let chart = out.element("div").class("bars").attr("data-stops", "");
        chart.attr("role", "group").attr("aria-label", "summary").with(|out| {
            for (at, scenario, metric, lines) in &lines {
                draw_scenario(out, *at, scenario, *metric, lines, &axis);
            }
            draw_axis(out, &axis);
        });
    });
}

/// The heading: the broker that all lines are about, if it is the same one.
fn heading(lines: &[(usize, &Scenario, Metric, Vec<Line>)]) -> String {
    let mut subjects = lines.iter().flat_map(|(_, _, _, lines)| lines).map(|line| &line.subject);
    match subjects.next() {
        Some(first) if subjects.all(|other| other == first) => format!("{first} at a glance"),
        _ => "At a glance".to_owned(),
    }
}

/// The first metric that says what the broker costs rather than what the machine had left, else the
/// scenario's first that two brokers have.
fn headline_metric(run: &Run, scenario: &Scenario) -> Option<Metric> {
    let first = [Metric::PerCpuSecond, Metric::CpuPerOperation];
    let wanted = first.into_iter().filter(|metric| scenario.metrics.contains(metric));
    let others = scenario.metrics.iter().copied();
    let others = others.filter(|metric| !matches!(metric, Metric::Relative | Metric::Gain));
    wanted.chain(others).find(|metric| !lines(run, scenario, *metric).is_empty())
}

fn lines(run: &Run, scenario: &Scenario, metric: Metric) -> Vec<Line> {
    let columns = names::columns(run, &scenario.columns);
    let figure = Figure::of(scenario, &columns, metric, &[]);
    let Some(first) = columns.first().filter(|first| !first.is_baseline) else { return Vec::new() };
    let line = |(at, other): (usize, &Name)| {
        let quotient = figure.quotient(at)?;
        let gain = if metric.is_higher_better() { quotient } else { quotient.inverse() };
        // With RabbitMQ as the baseline the others are spoken of, not RabbitMQ.
        match is_about_others(run) {
            false => Some(Line { subject: first.text.clone(), other: other.clone(), gain }),
            true => {
                let (subject, other) =
                    (other.text.clone(), Name { class: other.class.clone(), ..first.clone() });
                Some(Line { subject, other, gain: gain.inverse() })
            }
        }
    };
    figure.others().filter(|(_, other)| !other.is_baseline).filter_map(line).collect()
}

/// Whether the baseline is not the first target, but one that others are measured against.
fn is_about_others(run: &Run) -> bool {
    run.targets.first().is_some_and(|first| first.name != run.baseline)
}

fn draw_scenario(
    out: &mut Markup,
    at: usize,
    scenario: &Scenario,
    metric: Metric,
    lines: &[Line],
    axis: &Axis,
) {
    out.element("div").class("bar-row").with(|out| {
        out.element("div").class("bar-label").with(|out| {
            let link = out.element("a").attr("href", format_args!("#scenario-{at}"));
            link.text(&scenario.title);
            out.element("small").text(metric.noun());
        });
        let svg = out.element("svg").class("bar-plot").attr("height", lines.len() * LINE_PX + 12);
        svg.with(|out| {
            for tick in &axis.ticks {
                let class = if *tick == 1.0 { "grid even" } else { "grid" };
                upright(out, class, axis.at(*tick), "0", "100%");
            }
            for (at, line) in lines.iter().enumerate() {
                draw_line(out, line, axis, 6 + at * LINE_PX + LINE_PX / 2);
            }
            let tips: Vec<String> = lines.iter().map(Line::tip).collect();
            stop(out, "0", "100%", &format!("{}\n{}", scenario.title, tips.join("\n")));
        });
        out.element("div").class("bar-ratios verdicts").with(|out| {
            for line in lines {
                out.element("span").with(|out| {
                    out.element("b").text(ratio(line.gain.mean));
                    out.text(format_args!(" {}", line.other.text));
                });
            }
        });
    });
}

fn draw_line(out: &mut Markup, line: &Line, axis: &Axis, y: usize) {
    out.element("g").class(&line.other.class).with(|out| {
        let [low, high] = [line.gain.low, line.gain.high].map(|it| percent(axis.at(it)));
        let reach = out.element("line").class("reach").attr("x1", low).attr("x2", high);
        reach.attr("y1", y).attr("y2", y).void();
        let dot = out.element("circle").class("dot").attr("cx", percent(axis.at(line.gain.mean)));
        dot.attr("cy", y).attr("r", 6).void();
    });
}

impl Line {
    fn tip(&self) -> String {
        let range = self.gain.range().map(|range| format!(" ({range})")).unwrap_or_default();
        format!("{}: {} {}{range}", self.subject, ratio(self.gain.mean), self.other.text)
    }
}

fn draw_axis(out: &mut Markup, axis: &Axis) {
    out.element("div").class("bar-row bar-axis").with(|out| {
        out.element("div").class("bar-label").text("");
        let ticks = axis.ticks.iter().map(|tick| (axis.at(*tick), format!("{}×", short(*tick))));
        draw_foot(out, ticks, "times better, logarithmic");
        out.element("div").class("bar-ratios").text("");
    });
}
