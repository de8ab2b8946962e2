//! Timelines of samples: a picture per row, with the stretches shaded in which nothing moved.

use crate::report::axis::Axis;
use crate::report::bars::{axis_name, stop};
use crate::report::figure::Figure;
use crate::report::frame::{self, Frame, y_px};
use crate::report::markup::Markup;
use crate::report::names::Name;
use crate::report::number::{percent, text};
use crate::result::{Metric, Point, Unit};

/// Points a line is drawn with; of more, the mean of neighbours is.
const POINTS_MAX: usize = 300;
/// Places along the time that say their values when pointed at.
const STOPS: u32 = 60;
/// Columns whose times differ more have a picture each.
const SHARED_TIME_RATIO: f64 = 4.0;
/// Below this share of the usual rate nothing moves.
const PAUSE_SHARE: f64 = 0.02;

/// Draws a picture per row, or several where columns took very different times.
pub(crate) fn draw(out: &mut Markup, figure: &Figure<'_>, is_log: bool) {
    let rows: Vec<(&str, Vec<Trace<'_>>)> =
        figure.rows.iter().map(|row| (row.source.name.as_str(), traces(figure, row))).collect();
    let all = || rows.iter().flat_map(|(_, traces)| traces);
    let y = Axis::of(all().flat_map(Trace::extent), figure.metric.unit(), is_log);
    let pictures: Vec<(&str, &[Trace<'_>])> = rows
        .iter()
        .flat_map(|(name, traces)| pictures(traces).into_iter().map(|it| (*name, it)))
        .collect();
    let parts = pictures.iter().flat_map(|(_, traces)| *traces).any(|trace| trace.part.is_some());
    let parts = if parts { "; solid: published, dotted: delivered" } else { "" };
    let y_name = format!("{}{parts}; shaded: nothing moved", axis_name(figure, &y));
    frame::draw_panels(out, pictures.len(), &y_name, |out| {
        for (name, traces) in &pictures {
            draw_picture(out, figure, &y, name, traces);
        }
    });
}

/// Whether any column has this metric over time.
pub(crate) fn has_values(figure: &Figure<'_>) -> bool {
    figure.rows.iter().any(|row| !traces(figure, row).is_empty())
}

/// One line over time.
#[derive(Clone, Debug, PartialEq)]
struct Trace<'a> {
    column: &'a Name,
    /// The part of a column that this line shows, if the column has several lines.
    part: Option<&'static str>,
    /// Seconds and values, in order.
    points: Vec<(f64, f64)>,
    /// Seconds from and to which nothing moved.
    pauses: Vec<(f64, f64)>,
}

fn traces<'a>(figure: &Figure<'a>, row: &crate::report::figure::Row<'a>) -> Vec<Trace<'a>> {
    let mut traces = Vec::new();
    for (cell, column) in row.source.cells.iter().zip(figure.columns) {
        let Some(sample) = cell.samples.first() else { continue };
        let parts = parts(figure.metric, &sample.series);
        let pauses = pauses(&sample.series);
        for (at, (part, metric)) in parts.into_iter().enumerate() {
            let point = |it: &Point| Some((it.seconds, metric.of_point(it)?));
            let points: Vec<(f64, f64)> = sample.series.iter().filter_map(point).collect();
            if points.len() > 1 {
                let pauses = if at == 0 { pauses.clone() } else { Vec::new() };
                traces.push(Trace { column, part, points, pauses });
            }
        }
    }
    traces
}

/// The lines of a column: one, or two where messages go in and come out at different times.
fn parts(metric: Metric, series: &[Point]) -> Vec<(Option<&'static str>, Metric)> {
    let [sent, received] = [Metric::SendRate, Metric::ReceiveRate];
    match metric == Metric::Rate && series.iter().any(is_two_way) {
        true => vec![(Some("published"), sent), (Some("delivered"), received)],
        false => vec![(None, metric)],
    }
}

fn is_two_way(point: &Point) -> bool {
    let some = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    point.sent_per_second.is_some() && some(point.received_per_second)
}

/// The stretches in which next to nothing was published or delivered.
fn pauses(series: &[Point]) -> Vec<(f64, f64)> {
    let moved =
        |it: &Point| it.sent_per_second.unwrap_or(0.0).max(it.received_per_second.unwrap_or(0.0));
    let least = median(series.iter().map(moved)).unwrap_or(0.0) * PAUSE_SHARE;
    let mut pauses: Vec<(f64, f64)> = Vec::new();
    let mut start = 0.0;
    for point in series {
        if moved(point) < least {
            match pauses.last_mut().filter(|last| last.1 == start) {
                Some(last) => last.1 = point.seconds,
                None => pauses.push((start, point.seconds)),
            }
        }
        start = point.seconds;
    }
    pauses
}

/// Of the values above zero.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// All in one picture, or one per column.
fn pictures<'a, 'b>(traces: &'b [Trace<'a>]) -> Vec<&'b [Trace<'a>]> {
    let longest = traces.iter().map(Trace::seconds).fold(0.0, f64::max);
    let shortest = traces.iter().map(Trace::seconds).fold(f64::INFINITY, f64::min);
    let is_two_way = traces.iter().any(|trace| trace.part.is_some());
    match traces.is_empty() || (longest <= shortest * SHARED_TIME_RATIO && !is_two_way) {
        true => vec![traces],
        false => traces.chunk_by(|a, b| a.column == b.column).collect(),
    }
}

impl Trace<'_> {
    fn seconds(&self) -> f64 {
        self.points.last().map_or(0.0, |(seconds, _)| *seconds)
    }

    /// The values that the axis must show: the usual and the greatest one. Zeros lie at its lower end.
    fn extent(&self) -> impl Iterator<Item = f64> {
        let usual = median(self.points.iter().map(|(_, value)| *value));
        let greatest = self.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        usual.into_iter().chain([greatest])
    }

    /// The value at a time.
    fn at(&self, seconds: f64) -> Option<f64> {
        let next = self.points.iter().find(|(at, _)| *at >= seconds);
        next.map(|(_, value)| *value)
    }

    fn label(&self) -> String {
        match self.part {
            Some(part) => format!("{}, {part}", self.column.text),
            None => self.column.text.clone(),
        }
    }
}

fn draw_picture(out: &mut Markup, figure: &Figure<'_>, y: &Axis, row: &str, traces: &[Trace<'_>]) {
    let seconds = traces.iter().map(Trace::seconds).fold(0.0, f64::max);
    let x = Axis::from_zero([seconds], Unit::Seconds);
    let ticks: Vec<(f64, String)> =
        x.ticks.iter().map(|tick| (x.at(*tick), text(*tick, Unit::Seconds))).collect();
    let frame = Frame {
        heading: Some(heading(row, traces)),
        y,
        y_unit: figure.metric.unit(),
        x_ticks: &ticks,
        x_name: "time",
        ends: Vec::new(),
    };
    let stretched = |out: &mut Markup| {
        for trace in traces {
            draw_trace(out, trace, &x, y);
        }
    };
    frame.draw(out, stretched, |out| {
        for step in 0..STOPS {
            let [left, right] = [step, step + 1].map(|step| f64::from(step) / f64::from(STOPS));
            let at = x.end() * f64::midpoint(left, right);
            if at <= seconds {
                stop(out, &percent(left), &percent(right - left), &tip(figure, traces, at));
            }
        }
    });
}

/// The row; the column, if the picture has only one; and how long it stood still.
fn heading(row: &str, traces: &[Trace<'_>]) -> String {
    let mut parts = vec![row.to_owned()];
    let Some(first) = traces.first() else { return format!("{row} · not measured") };
    if traces.iter().all(|trace| trace.column == first.column) {
        parts.push(first.column.text.clone());
    }
    let paused = traces.iter().flat_map(|trace| &trace.pauses).map(|(from, to)| to - from);
    let (n, longest) = paused.fold((0, 0.0), |(n, longest), it| (n + 1, f64::max(longest, it)));
    match n {
        0 => parts.push("no pause".to_owned()),
        1 => parts.push(format!("pause of {}", text(longest, Unit::Seconds))),
        _ => parts.push(format!("{n} pauses, up to {}", text(longest, Unit::Seconds))),
    }
    parts.join(" · ")
}

fn draw_trace(out: &mut Markup, trace: &Trace<'_>, x: &Axis, y: &Axis) {
    for (from, to) in &trace.pauses {
        let [from, to] = [from, to].map(|at| x.at(*at) * 100.0);
        let area = out.element("rect").class(format_args!("pause {}", trace.column.class));
        let area = area.attr("x", format_args!("{from:.2}")).attr("height", "100%");
        area.attr("width", format_args!("{:.2}", to - from)).void();
    }
    let point =
        |(seconds, value): (f64, f64)| format!("{:.2},{}", x.at(seconds) * 100.0, y_px(y, value));
    let points: Vec<String> = thinned(&trace.points).into_iter().map(point).collect();
    let dashed = if trace.part == Some("delivered") { " second" } else { "" };
    let line = out.element("polyline").class(format_args!("line {}{dashed}", trace.column.class));
    line.attr("points", points.join(" ")).void();
}

fn tip(figure: &Figure<'_>, traces: &[Trace<'_>], at: f64) -> String {
    let mut lines = vec![text(at, Unit::Seconds)];
    for trace in traces {
        let value = trace.at(at).map_or_else(|| "over".to_owned(), |value| figure.text(value));
        lines.push(format!("{}: {value}", trace.label()));
    }
    lines.join("\n")
}

/// The means of neighbours, so that no more points remain than are drawn.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let n = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let sum = |of: fn(&(f64, f64)) -> f64| chunk.iter().map(of).sum::<f64>();
        let n = chunk.iter().fold(0.0, |n, _| n + 1.0);
        (sum(|it| it.0) / n, sum(|it| it.1) / n)
    };
    points.chunks(n).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(seconds: f64, sent: f64, received: f64) -> Point {
        Point {
            seconds,
            sent_per_second: Some(sent),
            received_per_second: Some(received),
            ..Point::default()
        }
    }

    #[test]
    fn a_pause_is_where_neither_side_moves() {
        let series = [
            point(1.0, 100.0, 0.0),
            point(2.0, 1.0, 0.0),
            point(3.0, 0.0, 0.0),
            point(4.0, 0.0, 90.0),
            point(5.0, 0.0, 0.0),
            point(6.0, 0.0, 95.0),
        ];
        assert_eq!(pauses(&series), [(1.0, 3.0), (4.0, 5.0)]);
        assert_eq!(pauses(&[]), []);
    }

    #[test]
    fn many_points_become_few() {
        let points: Vec<(f64, f64)> = (0..1000).map(|at| (f64::from(at), 2.0)).collect();
        let few = thinned(&points);
        assert_eq!((few.len(), few.first()), (250, Some(&(1.5, 2.0))));
        assert_eq!(thinned(&[(1.0, 2.0)]), [(1.0, 2.0)]);
    }
}
