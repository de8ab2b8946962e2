//! A bar chart of rows that have no order: a row each, in it a bar per column. On a logarithmic axis,
//! where a bar's length would mean nothing, a thin stem with a dot takes its place.

use crate::report::axis::Axis;
use crate::report::figure::{Figure, Ratio, Row, Value, published_text};
use crate::report::markup::Markup;
use crate::report::number::{percent, ratio, rounded, tick_text};

/// Height of a bar and the space to the next one.
const BAR_PX: usize = 18;
const ROW_PADDING_PX: usize = 5;

/// Draws the chart.
pub(crate) fn draw(out: &mut Markup, figure: &Figure<'_>, is_log: bool) {
    let axis = Axis::of(figure.numbers(), figure.metric.unit(), is_log);
    let ratios = figure.ratios();
    let class = if figure.has_p99() { "bars with-p99" } else { "bars" };
    let chart = out.element("div").class(class).attr("data-stops", "").attr("role", "group");
    let chart = chart.attr("style", format_args!("--ratios:{}", ratios.len()));
    chart.attr("aria-label", figure.metric.noun()).with(|out| {
        if !ratios.is_empty() {
            draw_head(out, &ratios);
        }
        for row in &figure.rows {
            draw_row(out, figure, row, &axis, &ratios);
        }
        draw_axis(out, figure, &axis);
    });
}

fn draw_head(out: &mut Markup, ratios: &[Ratio<'_>]) {
    out.element("div").class("bar-row bar-head").with(|out| {
        out.element("div").class("bar-label").text("");
        out.element("div").class("bar-plot").text("");
        out.element("div").class("bar-ratios").with(|out| {
            for ratio in ratios {
                out.element("span").text(&ratio.title);
            }
        });
    });
}

fn draw_row(
    out: &mut Markup,
    figure: &Figure<'_>,
    row: &Row<'_>,
    axis: &Axis,
    ratios: &[Ratio<'_>],
) {
    let height = row.values.len() * BAR_PX + 2 * ROW_PADDING_PX;
    out.element("div").class("bar-row").with(|out| {
        out.element("div").class("bar-label").with(|out| {
            out.text(&row.source.name);
            if let Some(note) = &row.source.note {
                out.element("small").text(note);
            }
            for published in row.published_ratios(figure.metric) {
                let value = published_text(published);
                out.element("small").text(format_args!("{}: {value}", published.by));
            }
        });
        out.element("svg").class("bar-plot").attr("height", height).with(|out| {
            for tick in &axis.ticks {
                upright(out, "grid", axis.at(*tick), "0", "100%");
            }
            if let Some(goal) = row.goal(figure.metric) {
                upright(out, "aim", axis.at(goal), "2", height - 2);
            }
            for (at, (value, column)) in row.values.iter().zip(figure.columns).enumerate() {
                let y = ROW_PADDING_PX + at * BAR_PX + BAR_PX / 2;
                let group = out.element("g").class(&column.class);
                group.with(|out| draw_value(out, figure, value, axis, y));
            }
            stop(out, "0", "100%", &figure.tip(row));
        });
        out.element("div").class("bar-ratios").with(|out| {
            for of_column in ratios {
                let text = of_column.of(row).map_or_else(|| "–".to_owned(), ratio);
                out.element("span").text(text);
            }
        });
    });
}

fn draw_value(out: &mut Markup, figure: &Figure<'_>, value: &Value<'_>, axis: &Axis, y: usize) {
    let Some(spread) = value.spread else {
        let word = value.missing.map_or_else(|| figure.metric.absent(), |(word, _)| word);
        out.element("text").class("none").attr("x", 4).attr("y", y + 4).text(word);
        return;
    };
    let x = percent(axis.at(spread.median));
    if axis.is_log {
        if spread.min < spread.max {
            draw_range(out, axis.at(spread.min), axis.at(spread.max), y);
        }
        out.element("line").class("stem").attr("y1", y).attr("y2", y).attr("x2", &x).void();
        out.element("circle").class("dot").attr("cx", &x).attr("cy", y).attr("r", 5).void();
    } else {
        let (top, height) = (y - BAR_PX / 2 + 2, BAR_PX - 4);
        let bar = out.element("rect").class("bar").attr("width", &x);
        bar.attr("y", top).attr("height", height).attr("rx", 2).void();
    }
    if spread.min < spread.max && !axis.is_log {
        draw_range(out, axis.at(spread.min), axis.at(spread.max), y);
    }
    let mut end = spread.max;
    let mut label = figure.text(rounded(spread.median));
    if let Some(p99) = value.p99 {
        draw_tail(out, axis.at(spread.median), axis.at(p99), y);
        end = end.max(p99);
        label.push_str(&format!(" · {}", figure.text(rounded(p99))));
    }
    let text = out.element("text").class("value").attr("x", percent(axis.at(end)));
    text.attr("dx", 9).attr("y", y + 4).text(label);
}

/// A line from the least to the greatest repeat.
fn draw_range(out: &mut Markup, low: f64, high: f64, y: usize) {
    let [x1, x2] = [low, high].map(percent);
    let line = out.element("line").class("range").attr("x1", x1).attr("x2", x2);
    line.attr("y1", y).attr("y2", y).void();
    for end in [low, high] {
        upright(out, "range", end, y - 4, y + 4);
    }
}

/// A thin line from the median to a ring at the 99th percentile.
fn draw_tail(out: &mut Markup, from: f64, to: f64, y: usize) {
    let to = percent(to);
    let line = out.element("line").class("tail").attr("x1", percent(from)).attr("x2", &to);
    line.attr("y1", y).attr("y2", y).void();
    out.element("circle").class("ring").attr("cx", to).attr("cy", y).attr("r", 4).void();
}

/// An upright line at a share of the width.
pub(crate) fn upright(
    out: &mut Markup,
    class: &str,
    share: f64,
    top: impl std::fmt::Display,
    bottom: impl std::fmt::Display,
) {
    let x = percent(share);
    let line = out.element("line").class(class).attr("x1", &x).attr("x2", &x);
    line.attr("y1", top).attr("y2", bottom).void();
}

/// An area that tells something when it is pointed at or reached with the arrow keys.
pub(crate) fn stop(out: &mut Markup, x: &str, width: &str, tip: &str) {
    let area = out.element("rect").class("stop").attr("x", x).attr("width", width);
    area.attr("height", "100%").with(|out| out.element("title").text(tip));
}

fn draw_axis(out: &mut Markup, figure: &Figure<'_>, axis: &Axis) {
    out.element("div").class("bar-row bar-axis").with(|out| {
        out.element("div").class("bar-label").text("");
        let ticks = axis.ticks.iter();
        let ticks = ticks.map(|tick| (axis.at(*tick), tick_text(*tick, figure.metric.unit())));
        draw_foot(out, ticks, &axis_name(figure, axis));
        out.element("div").class("bar-ratios").text("");
    });
}

/// The values below an axis, and its name, which may take several lines.
pub(crate) fn draw_foot(out: &mut Markup, ticks: impl Iterator<Item = (f64, String)>, name: &str) {
    out.element("div").class("bar-foot").with(|out| {
        let svg = out.element("svg").class("bar-plot").attr("height", 20);
        svg.attr("aria-hidden", "true").with(|out| {
            for (share, label) in ticks {
                let text = out.element("text").class("tick").attr("x", percent(share));
                text.attr("y", 14).text(label);
            }
        });
        out.element("div").class("axis-name").text(name);
    });
}

/// The title of the axis of measured values.
pub(crate) fn axis_name(figure: &Figure<'_>, axis: &Axis) -> String {
    let scale = if axis.is_log { ", logarithmic" } else { "" };
    let better = if figure.metric.is_higher_better() { "more" } else { "less" };
    let has_goal = figure.rows.iter().any(|row| row.goal(figure.metric).is_some());
    let goal = if has_goal { "; dashed: aim" } else { "" };
    let p99 = if figure.has_p99() { "; ring: 99th percentile" } else { "" };
    format!("{}{scale} ({better} is better{goal}{p99})", figure.metric.noun())
}
