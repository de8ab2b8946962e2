//! Tables over two parameters whose cells are the darker, the greater their value: one per column,
//! and one per ratio.

use crate::report::axis::Axis;

use crate::report::figure::{Figure, Ratio, Row};
use crate::report::markup::Markup;
use crate::report::number::{compact, percent, ratio};
use crate::report::sweep::{Panel, Sweep, label};

/// Share of the broker's colour in the darkest cell.
const STRENGTH_MAX: f64 = 0.62;

/// Values of a parameter up to which two tables stand beside each other.
const WIDE_STOPS: usize = 8;

/// Draws the tables.
pub(crate) fn draw(out: &mut Markup, figure: &Figure<'_>, sweep: &Sweep<'_>) {
    let is_wide = sweep.stops.len() > WIDE_STOPS;
    out.element("div").class(if is_wide { "heats wide" } else { "heats" }).with(|out| {
        for (at, column) in figure.columns.iter().enumerate() {
            let medians = figure.rows.iter().filter_map(|row| row.values.get(at)?.spread);
            let axis = Axis::of(medians.map(|it| it.median), figure.metric.unit(), true);
            let caption = format!("{}: {}", column.text, figure.metric.noun());
            draw_table(out, figure, sweep, &caption, &column.class, |row| {
                let spread = row.values.get(at)?.spread?;
                Some((axis.at(spread.median), compact(spread.median, figure.metric.unit())))
            });
        }
        for of_column in figure.ratios() {
            let class = format!("{} is-ratio", of_column.other.class);
            let greatest = of_column.total.high.max(1.0 / of_column.total.low).ln();
            draw_table(out, figure, sweep, &of_column.title, &class, |row| {
                cell_of_ratio(&of_column, row, greatest)
            });
        }
    });
}

fn cell_of_ratio(of_column: &Ratio<'_>, row: &Row<'_>, greatest: f64) -> Option<(f64, String)> {
    let value = of_column.of(row)?;
    let share = if greatest > 0.0 { (value.ln() / greatest).clamp(0.0, 1.0) } else { 0.0 };
    Some((share, ratio(value)))
}

fn draw_table(
    out: &mut Markup,
    figure: &Figure<'_>,
    sweep: &Sweep<'_>,
    caption: &str,
    class: &str,
    cell: impl Fn(&Row<'_>) -> Option<(f64, String)>,
) {
    out.element("div").class("scroll").with(|out| {
        out.element("table").class(format_args!("heat {class}")).with(|out| {
            out.element("caption").text(caption);
            out.element("thead").with(|out| draw_head(out, sweep));
            out.element("tbody").with(|out| {
                for panel in &sweep.panels {
                    out.element("tr").with(|out| {
                        let value = panel.value.map(label).unwrap_or_default();
                        out.element("th").attr("scope", "row").text(value);
                        for stop in &sweep.stops {
                            draw_cell(out, figure, row_at(figure, panel, stop.share), &cell);
                        }
                    });
                }
            });
        });
    });
}

fn draw_head(out: &mut Markup, sweep: &Sweep<'_>) {
    out.element("tr").with(|out| {
        let names = format!("{} \\ {}", sweep.panel_name.unwrap_or_default(), sweep.x_name);
        out.element("th").attr("scope", "col").text(names);
        for stop in &sweep.stops {
            out.element("th").attr("scope", "col").text(&stop.label);
        }
    });
}

fn row_at<'a, 'b>(figure: &'b Figure<'a>, panel: &Panel<'_>, share: f64) -> Option<&'b Row<'a>> {
    let (_, at) = panel.rows.iter().find(|(other, _)| *other == share)?;
    figure.rows.get(*at)
}

fn draw_cell(
    out: &mut Markup,
    figure: &Figure<'_>,
    row: Option<&Row<'_>>,
    cell: impl Fn(&Row<'_>) -> Option<(f64, String)>,
) {
    let Some((row, (share, text))) = row.and_then(|row| Some((row, cell(row)?))) else {
        return out.element("td").text("–");
    };
    let style = format!("--v:{}", percent(share * STRENGTH_MAX));
    out.element("td").attr("style", style).attr("title", figure.tip(row)).text(text);
}
