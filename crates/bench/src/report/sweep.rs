//! The rows of a sweep in order: which lie along an axis, and which are told apart by a second
//! parameter.

use crate::report::figure::{Figure, Row};
use crate::report::number::short;
use crate::result::Parameter;

/// Rows along a parameter.
#[derive(Debug, PartialEq)]
pub(crate) struct Sweep<'a> {
    pub(crate) x_name: &'a str,
    /// Every value of the parameter.
    pub(crate) stops: Vec<Stop>,
    /// The name of the second parameter.
    pub(crate) panel_name: Option<&'a str>,
    /// One per value of the second parameter.
    pub(crate) panels: Vec<Panel<'a>>,
}

/// A value of the parameter.
#[derive(Debug, PartialEq)]
pub(crate) struct Stop {
    /// Its place: 0 is the left end, 1 the right one.
    pub(crate) share: f64,
    pub(crate) label: String,
}

/// The rows with one value of the second parameter.
#[derive(Debug, PartialEq)]
pub(crate) struct Panel<'a> {
    /// Parameter and value, for a heading.
    pub(crate) name: Option<String>,
    /// The value alone.
    pub(crate) value: Option<&'a Parameter>,
    /// The place of each along the axis, and its number among the figure's rows; from left to right.
    pub(crate) rows: Vec<(f64, usize)>,
}

impl<'a> Sweep<'a> {
    /// `None` if fewer than two rows have the parameter `x`.
    pub(crate) fn of(
        figure: &Figure<'a>,
        x: &'a str,
        lines: Option<&'a str>,
        is_log: bool,
    ) -> Option<Self> {
        let values = distinct(figure.rows.iter().filter_map(|row| parameter(row, x)));
        if values.len() < 2 {
            return None;
        }
        let shares = shares(&values, is_log);
        let stop =
            |(value, share): (&&Parameter, &f64)| Stop { share: *share, label: label(value) };
        let stops = values.iter().zip(&shares).map(stop).collect();
        let share_of = |row: &Row<'a>| {
            let value = parameter(row, x)?;
            let at = values.iter().position(|other| *other == value)?;
            shares.get(at).copied()
        };
        let panel = |value: Option<&'a Parameter>| {
            let is_here = |row: &Row<'a>| {
                value.is_none() || lines.and_then(|name| parameter(row, name)) == value
            };
            let place = |(at, row): (usize, &Row<'a>)| {
                is_here(row).then(|| share_of(row)).flatten().map(|share| (share, at))
            };
            let mut rows: Vec<(f64, usize)> =
                figure.rows.iter().enumerate().filter_map(place).collect();
            rows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = lines.zip(value).map(|(name, value)| format!("{name} {}", label(value)));
            Panel { name, value, rows }
        };
        let second = |row| lines.and_then(|name| parameter(row, name));
        let seconds = distinct(figure.rows.iter().filter_map(second));
        let panels = match seconds.is_empty() {
            true => vec![panel(None)],
            false => seconds.into_iter().map(|value| panel(Some(value))).collect(),
        };
        Some(Self { x_name: x, stops, panel_name: lines, panels })
    }
}

fn parameter<'a>(row: &Row<'a>, name: &str) -> Option<&'a Parameter> {
    row.source.parameters.get(name)
}

/// A parameter's value as text.
pub(crate) fn label(value: &Parameter) -> String {
    match value {
        Parameter::Number(number) => short(*number),
        Parameter::Text(text) => text.clone(),
    }
}

/// Numbers rising, then texts in the order in which they come.
fn distinct<'a>(values: impl Iterator<Item = &'a Parameter>) -> Vec<&'a Parameter> {
    let mut distinct: Vec<&Parameter> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    let key = |value: &Parameter| match value {
        Parameter::Number(number) => *number,
        Parameter::Text(_) => f64::INFINITY,
    };
    distinct.sort_by(|a, b| key(a).total_cmp(&key(b)));
    distinct
}

/// The places of the values between 0 and 1. A logarithmic axis has no place for zero, and no axis one
/// for text: then all lie at equal distances.
fn shares(values: &[&Parameter], is_log: bool) -> Vec<f64> {
    let number = |value: &&Parameter| match value {
        Parameter::Number(number) if is_log => (*number > 0.0).then(|| number.ln()),
        Parameter::Number(number) => Some(*number),
        Parameter::Text(_) => None,
    };
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    let numbers = numbers.unwrap_or_else(|| {
        std::iter::successors(Some(0.0), |at| Some(at + 1.0)).take(values.len()).collect()
    });
    let low = numbers.first().copied().unwrap_or(0.0);
    let high = numbers.last().copied().unwrap_or(1.0);
    numbers.iter().map(|number| (number - low) / (high - low)).collect()
}
