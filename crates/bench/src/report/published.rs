//! A table of figures that others have published for variants of a broker, beside those of this run: values
//! first, then of every broker its first variant divided by its last. Machines differ; ratios can be
//! compared.

use crate::report::markup::Markup;
use crate::report::names::Name;
use crate::report::number::{ratio, text};
use crate::result::{Metric, Row, Scenario};

/// A broker on some machine, in a variant: a column of values.
#[derive(Clone, Copy, PartialEq)]
struct Source<'a> {
    broker: &'a str,
    variant: &'a str,
    is_own: bool,
}

impl Source<'_> {
    fn is_variant_of_same(&self, other: &Self) -> bool {
        (self.broker, self.is_own) == (other.broker, other.is_own)
    }
}

/// Two columns of one broker, by their places.
struct Pair {
    title: String,
    above: usize,
    below: usize,
}

/// Whether a scenario has published figures of variants.
pub(crate) fn has_variants(scenario: &Scenario) -> bool {
    let mut published = scenario.rows.iter().flat_map(|row| &row.published);
    published.any(|it| it.variant.is_some())
}

/// Draws the table.
pub(crate) fn draw(out: &mut Markup, scenario: &Scenario, columns: &[Name]) {
    let published = published_sources(scenario);
    let own = columns.iter().map(|column| Source {
        broker: &column.target,
        variant: column.variant.as_deref().unwrap_or_default(),
        is_own: true,
    });
    let sources: Vec<Source<'_>> = published.iter().copied().chain(own).collect();
    let pairs = pairs(&sources);
    let heads = sources.iter().map(|it| format!("{} {}", it.broker, it.variant));
    let heads: Vec<String> = heads.collect();
    out.element("div").class("scroll").with(|out| {
        out.element("table").class("numbers").with(|out| {
            draw_head(out, heads.iter().chain(pairs.iter().map(|pair| &pair.title)));
            out.element("tbody").with(|out| {
                for row in &scenario.rows {
                    for metric in metrics(row) {
                        let values = values(row, metric, &published, columns.len());
                        let values: Vec<(&str, Option<f64>)> =
                            heads.iter().map(String::as_str).zip(values).collect();
                        draw_row(out, row, metric, &values, &pairs);
                    }
                }
            });
        });
    });
}

fn published_sources(scenario: &Scenario) -> Vec<Source<'_>> {
    let mut sources = Vec::new();
    for published in scenario.rows.iter().flat_map(|row| &row.published) {
        let variant = published.variant.as_deref().unwrap_or_default();
        let source = Source { broker: &published.by, variant, is_own: false };
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources
}

/// Of each broker with several variants the first and the last.
fn pairs(sources: &[Source<'_>]) -> Vec<Pair> {
    let pair = |(above, first): (usize, &Source<'_>)| {
        let is_same = |other: &Source<'_>| other.is_variant_of_same(first);
        let is_first = sources.iter().position(is_same) == Some(above);
        let below = sources.iter().rposition(is_same).filter(|below| is_first && *below > above)?;
        let last = sources.get(below)?;
        let title = format!("{} {} ÷ {}", first.broker, first.variant, last.variant);
        Some(Pair { title, above, below })
    };
    sources.iter().enumerate().filter_map(pair).collect()
}

/// The metrics that something is published of.
fn metrics(row: &Row) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for published in &row.published {
        if !metrics.contains(&published.metric) {
            metrics.push(published.metric);
        }
    }
    metrics
}

/// Published values in the order of the sources, then medians of the run.
fn values(
    row: &Row,
    metric: Metric,
    published: &[Source<'_>],
    n_columns: usize,
) -> Vec<Option<f64>> {
    let of_source = |source: &Source<'_>| {
        let is_it = |variant: Option<&str>| variant.unwrap_or_default() == source.variant;
        let mut figures = row.published.iter().filter(|it| it.metric == metric);
        let found = figures.find(|it| it.by == source.broker && is_it(it.variant.as_deref()));
        found.map(|it| it.value)
    };
    let own = (0..n_columns).map(|at| Some(row.cells.get(at)?.figures.get(&metric)?.median));
    published.iter().map(of_source).chain(own).collect()
}

fn draw_head<'a>(out: &mut Markup, heads: impl Iterator<Item = &'a String>) {
    out.element("thead").with(|out| {
        out.element("tr").with(|out| {
            out.element("th").attr("scope", "col").text("");
            for head in heads {
                out.element("th").attr("scope", "col").text(head);
            }
        });
    });
}

/// Each value comes with the head of its column.
fn draw_row(
    out: &mut Markup,
    row: &Row,
    metric: Metric,
    values: &[(&str, Option<f64>)],
    pairs: &[Pair],
) {
    let none = || "–".to_owned();
    let value = |at: usize| values.get(at).and_then(|(_, value)| *value);
    out.element("tr").with(|out| {
        out.element("th").attr("scope", "row").with(|out| {
            out.text(&row.name);
            out.element("small").text(metric.noun());
        });
        for (head, value) in values {
            let shown = value.map_or_else(none, |value| text(value, metric.unit()));
            out.element("td").attr("data-head", head).text(shown);
        }
        for pair in pairs {
            let quotient = value(pair.above).zip(value(pair.below)).map(|(a, b)| a / b);
            let quotient = quotient.filter(|it| it.is_finite()).map_or_else(none, ratio);
            out.element("td").class("ratio").attr("data-head", &pair.title).text(quotient);
        }
    });
}
