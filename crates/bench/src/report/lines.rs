//! Line charts of a sweep: a line per column along one parameter. A second parameter makes several
//! such charts beside each other, with the same axes.

use crate::report::axis::Axis;
use crate::report::bars::{axis_name, stop};
use crate::report::figure::{Figure, Row};
use crate::report::frame::{self, End, Frame, y_px};
use crate::report::markup::Markup;
use crate::report::number::percent;
use crate::report::sweep::{Panel, Sweep};
use crate::result::{Figure as Spread, Metric};

/// Share of the width left free before the first and behind the last point.
const MARGIN: f64 = 0.03;

/// The class of figures that a source has published.
const PUBLISHED: &str = "floor variant-1";

/// How lines are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'a> {
    pub(crate) axis: ValueAxis,
    /// The source whose published figures are drawn beside the lines.
    pub(crate) beside: Option<&'a str>,
}

/// The axis of measured values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueAxis {
    /// Logarithmic if values differ at all.
    Log,
    /// Logarithmic if values span more than a decade.
    AsNeeded,
    /// Linear, whatever they span.
    FromZero,
}

/// Draws the charts.
pub(crate) fn draw(out: &mut Markup, figure: &Figure<'_>, sweep: &Sweep<'_>, style: Style<'_>) {
    let published =
        figure.rows.iter().filter_map(|row| published(row, figure.metric, style.beside));
    let numbers = figure.numbers().chain(published);
    let y = match style.axis {
        ValueAxis::FromZero => Axis::from_zero(numbers, figure.metric.unit()),
        ValueAxis::Log | ValueAxis::AsNeeded => {
            Axis::of(numbers, figure.metric.unit(), style.axis == ValueAxis::Log)
        }
    };
    let ticks: Vec<(f64, String)> =
        sweep.stops.iter().map(|stop| (inset(stop.share), stop.label.clone())).collect();
    let is_only = sweep.panels.len() == 1;
    frame::draw_panels(out, sweep.panels.len(), &axis_name(figure, &y), |out| {
        for panel in &sweep.panels {
            let mut lines: Vec<Line<'_>> = lines(figure, panel, &y);
            lines.extend(style.beside.and_then(|by| published_line(figure, panel, &y, by)));
            let frame = Frame {
                heading: panel.name.clone(),
                y: &y,
                y_unit: figure.metric.unit(),
                x_ticks: &ticks,
                x_name: sweep.x_name,
                ends: lines.iter().filter(|_| is_only).filter_map(Line::end).collect(),
            };
            let stretched = |out: &mut Markup| lines.iter().for_each(|line| line.draw(out));
            frame.draw(out, stretched, |out| {
                lines.iter().for_each(|line| line.draw_points(out, &y));
                draw_stops(out, figure, panel);
            });
        }
    });
}

/// One column's way through a chart.
struct Line<'a> {
    class: &'a str,
    name: &'a str,
    /// The measured values, and their places along the lower axis.
    points: Vec<(f64, Spread)>,
    /// The distance of the last one from the upper edge.
    last_px: Option<f64>,
    axis: &'a Axis,
    shape: usize,
    /// Whether its points are joined.
    is_joined: bool,
}

/// The figure that a source has published for a row under a name.
fn published(row: &Row<'_>, metric: Metric, by: Option<&str>) -> Option<f64> {
    let mut published = row.source.published.iter();
    published.find(|it| it.metric == metric && Some(it.by.as_str()) == by).map(|it| it.value)
}

/// The published points, of which there are too few for a line.
fn published_line<'a>(
    figure: &Figure<'_>,
    panel: &Panel<'_>,
    axis: &'a Axis,
    by: &str,
) -> Option<Line<'a>> {
    let point = |(share, row): &(f64, usize)| {
        let value = published(figure.rows.get(*row)?, figure.metric, Some(by))?;
        Some((inset(*share), Spread { median: value, min: value, max: value, ratio: None }))
    };
    let points: Vec<(f64, Spread)> = panel.rows.iter().filter_map(point).collect();
    let last_px = Some(y_px(axis, points.last()?.1.median));
    let shape = figure.columns.len();
    let (class, name) = (PUBLISHED, "published");
    Some(Line { class, name, points, last_px, axis, shape, is_joined: false })
}

fn lines<'a>(figure: &Figure<'a>, panel: &Panel<'_>, axis: &'a Axis) -> Vec<Line<'a>> {
    let line = |(at, column): (usize, &'a crate::report::names::Name)| {
        let point = |(share, row): &(f64, usize)| {
            let spread = figure.rows.get(*row)?.values.get(at)?.spread?;
            Some((inset(*share), spread))
        };
        let points: Vec<(f64, Spread)> = panel.rows.iter().filter_map(point).collect();
        let last_px = points.last().map(|(_, spread)| y_px(axis, spread.median));
        let (class, name) = (&column.class, &column.text);
        Line { class, name, points, last_px, axis, shape: at, is_joined: true }
    };
    figure.columns.iter().enumerate().map(line).collect()
}

impl<'a> Line<'a> {
    fn end(&self) -> Option<End<'a>> {
        Some(End { text: self.name, class: self.class, y_px: self.last_px? })
    }

    fn draw(&self, out: &mut Markup) {
        if !self.is_joined {
            return;
        }
        let point = |(x, spread): &(f64, Spread)| {
            format!("{:.2},{}", x * 100.0, y_px(self.axis, spread.median))
        };
        let points: Vec<String> = self.points.iter().map(point).collect();
        let line = out.element("polyline").class(format_args!("line {}", self.class));
        line.attr("points", points.join(" ")).void();
    }

    fn draw_points(&self, out: &mut Markup, axis: &Axis) {
        out.element("g").class(self.class).with(|out| {
            for (x, spread) in &self.points {
                if spread.min < spread.max {
                    let [top, bottom] = [spread.max, spread.min].map(|it| y_px(axis, it));
                    crate::report::bars::upright(out, "range", *x, top, bottom);
                }
                draw_marker(out, self.shape, *x, y_px(axis, spread.median));
            }
        });
    }
}

/// A dot whose shape tells columns apart where colours do not.
fn draw_marker(out: &mut Markup, shape: usize, x: f64, y: f64) {
    let shapes = [
        "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
        "M-4,-4h8v8h-8z",
        "M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z",
        "M0,-5l5,9h-10z",
    ];
    let path = shapes.iter().cycle().nth(shape).copied().unwrap_or("");
    let place = out.element("svg").class("marker").attr("x", percent(x)).attr("y", y);
    place.with(|out| out.element("path").class("dot").attr("d", path).void());
}

/// One stop per value of the parameter, as wide as halfway to the next ones.
fn draw_stops(out: &mut Markup, figure: &Figure<'_>, panel: &Panel<'_>) {
    let places: Vec<f64> = panel.rows.iter().map(|(share, _)| inset(*share)).collect();
    for (at, (share, row)) in panel.rows.iter().enumerate() {
        let Some(row): Option<&Row<'_>> = figure.rows.get(*row) else { continue };
        let here = inset(*share);
        let before = at.checked_sub(1).and_then(|at| places.get(at)).copied();
        let left = before.map_or(0.0, |before| f64::midpoint(before, here));
        let right = places.get(at + 1).map_or(1.0, |after| f64::midpoint(*after, here));
        stop(out, &percent(left), &percent(right - left), &figure.tip(row));
    }
}

fn inset(share: f64) -> f64 {
    MARGIN + share * (1.0 - 2.0 * MARGIN)
}
