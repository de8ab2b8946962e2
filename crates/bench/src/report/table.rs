//! The numbers under a chart.

use crate::report::figure::{Figure, Row, Value};
use crate::report::markup::Markup;
use crate::report::number;

/// Draws medians with their spread, and ratios.
pub(crate) fn draw(out: &mut Markup, figure: &Figure<'_>) {
    let ratios = figure.ratios();
    let has_goals = figure.rows.iter().any(|row| row.goal(figure.metric).is_some());
    out.element("div").class("scroll").with(|out| {
        out.element("table").class("numbers").with(|out| {
            out.element("caption").text(caption(figure));
            out.element("thead").with(|out| {
                out.element("tr").with(|out| {
                    out.element("th").attr("scope", "col").text("");
                    for column in figure.columns {
                        let head = out.element("th").attr("scope", "col");
                        head.class(&column.class).text(&column.text);
                    }
                    for ratio in &ratios {
                        out.element("th").attr("scope", "col").text(&ratio.title);
                    }
                    if has_goals {
                        out.element("th").attr("scope", "col").text("aim");
                    }
                });
            });
            out.element("tbody").with(|out| {
                for row in &figure.rows {
                    out.element("tr").with(|out| {
                        out.element("th").attr("scope", "row").with(|out| {
                            out.text(&row.source.name);
                            if let Some(note) = &row.source.note {
                                out.element("small").text(note);
                            }
                        });
                        for (value, column) in row.values.iter().zip(figure.columns) {
                            let is_best = is_best(figure, row, value);
                            draw_value(out, figure, value, &column.text, is_best);
                        }
                        for ratio in &ratios {
                            let text = ratio.of(row).map_or_else(|| "–".to_owned(), number::ratio);
                            let cell = out.element("td").class("ratio");
                            cell.attr("data-head", &ratio.title).text(text);
                        }
                        if has_goals {
                            let goal = figure.goal_text(row).unwrap_or_default();
                            out.element("td").attr("data-head", "aim").text(goal);
                        }
                    });
                }
            });
        });
    });
}

fn caption(figure: &Figure<'_>) -> String {
    let p99 = if figure.has_p99() { "; p99: 99th percentile" } else { "" };
    let noun = figure.metric.noun();
    format!("{noun}: median of the repeats, below it the least and the greatest{p99}")
}

fn is_best(figure: &Figure<'_>, row: &Row<'_>, value: &Value<'_>) -> bool {
    let medians = || row.values.iter().filter_map(|value| value.spread).map(|it| it.median);
    let best = match figure.metric.is_higher_better() {
        true => medians().reduce(f64::max),
        false => medians().reduce(f64::min),
    };
    medians().count() > 1 && value.spread.map(|spread| spread.median) == best
}

/// `head` stands in front of the value on a screen too narrow for columns.
fn draw_value(out: &mut Markup, figure: &Figure<'_>, value: &Value<'_>, head: &str, is_best: bool) {
    let Some(spread) = &value.spread else {
        let (word, reason) = value.missing.unwrap_or_else(|| (figure.metric.absent(), ""));
        let cell = out.element("td").class("none").attr("data-head", head);
        return cell.attr("title", reason).text(word);
    };
    out.element("td").attr("data-head", head).with(|out| {
        let median = out.element(if is_best { "b" } else { "span" });
        median.text(figure.text(spread.median));
        if let Some(range) = figure.range(spread) {
            out.element("small").text(range);
        }
        if let Some(p99) = value.p99 {
            out.element("small").text(format_args!("p99 {}", figure.text(p99)));
        }
    });
}
