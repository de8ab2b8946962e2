//! The display of a run's progress: on a terminal a block that is drawn over and over, below the rows
//! that are done; otherwise plain lines.

mod format;

use std::io::{IsTerminal as _, Stdout, Write as _};
use std::time::Instant;

use rustix::termios::tcgetwinsize;

pub(crate) use format::value;

use crate::result::{Cell, Column, Metric, Outcome, Point, Row};

/// The width of the bar, characters.
const BAR: usize = 20;
/// The width of a terminal that does not tell.
const WIDTH: usize = 100;

/// The progress of a run, and the terminal it is shown on.
pub(crate) struct Progress {
    out: Stdout,
    is_terminal: bool,
    began: Instant,
    n_turns: usize,
    n_done: usize,
    /// Lines of the block that is to be drawn over.
    n_drawn: usize,
}

/// The turn that runs at the moment.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) scenario: &'a str,
    /// The rows of the case, with what is known of them so far.
    pub(crate) rows: &'a [Row],
    pub(crate) columns: &'a [Column],
    pub(crate) column: usize,
    pub(crate) repeat: u32,
    pub(crate) repeats: u32,
}

impl Progress {
    /// Of a run of so many turns.
    pub(crate) fn new(n_turns: usize, began: Instant) -> Self {
        let out = std::io::stdout();
        let is_terminal = out.is_terminal();
        Self { out, is_terminal, began, n_turns, n_done: 0, n_drawn: 0 }
    }

    /// A line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        self.clear();
        self.print(line);
    }

    /// A turn is under way; `point` is what came last.
    pub(crate) fn update(&mut self, now: Now<'_>, point: Option<&Point>) {
        if !self.is_terminal {
            return;
        }
        self.clear();
        let mut lines = vec![self.headline(now, point)];
        lines.extend(now.rows.iter().map(|row| format!("  {}", summary(row, now.columns))));
        let width = tcgetwinsize(&self.out).map_or(WIDTH, |size| usize::from(size.ws_col)).max(20);
        for line in &lines {
            let cut: String = line.chars().take(width - 1).collect();
            self.print(&cut);
        }
        self.n_drawn = lines.len();
    }

    /// A turn is over, or left out.
    pub(crate) fn count_turn(&mut self) {
        self.n_done += 1;
    }

    /// Prints a turn's figures, where there is no terminal.
    pub(crate) fn show_turn(&mut self, now: Now<'_>) {
        if self.is_terminal {
            return;
        }
        let (Some(column), repeat) = (now.columns.get(now.column), now.repeat) else { return };
        for row in now.rows {
            let Some(cell) = row.cells.get(now.column) else { continue };
            let what = cell_text(row.metric, cell, repeat);
            let of = now.repeats;
            self.print(&format!("  {} {repeat}/{of} {}: {what}", row.name, column.label()));
        }
    }

    /// A case is over: its rows stay.
    pub(crate) fn case_done(&mut self, now: Now<'_>) {
        self.clear();
        for row in now.rows {
            self.print(&summary(row, now.columns));
        }
    }

    fn headline(&self, now: Now<'_>, point: Option<&Point>) -> String {
        let filled = (self.n_done * BAR).checked_div(self.n_turns).unwrap_or(0).min(BAR);
        let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR - filled));
        let label = now.columns.get(now.column).map(Column::label).unwrap_or_default();
        let [scenario, repeat, repeats] =
            [now.scenario, &now.repeat.to_string(), &now.repeats.to_string()];
        let (done, all) = (self.n_done, self.n_turns);
        let live = point.map(|point| format!("  {}", live(point))).unwrap_or_default();
        format!("{bar} {done}/{all}{}  {scenario}, {repeat}/{repeats} {label}{live}", self.left())
    }

    /// About how long it will go on, if enough is done to say.
    fn left(&self) -> String {
        if self.n_done == 0 {
            return String::new();
        }
        let each = self.began.elapsed().as_secs_f64() / self.n_done as f64;
        let seconds = each * self.n_turns.saturating_sub(self.n_done) as f64;
        format!(", {} left", format::duration(seconds))
    }

    fn clear(&mut self) {
        if self.n_drawn > 0 {
            // Up to the first line of the block, then erase to the end of the screen.
            drop(write!(self.out, "\x1b[{}A\x1b[J", self.n_drawn));
            self.n_drawn = 0;
        }
    }

    /// Prints a line; a failure to print does not end the run.
    fn print(&mut self, line: &str) {
        drop(writeln!(self.out, "{line}"));
        drop(self.out.flush());
    }
}

/// The rates of this moment.
fn live(point: &Point) -> String {
    let parts = [
        ("out", point.received_per_second.map(|rate| value(Metric::ReceiveRate, rate))),
        ("in", point.sent_per_second.map(|rate| value(Metric::SendRate, rate))),
        ("memory", point.rss_bytes.map(|bytes| value(Metric::Memory, bytes))),
    ];
    let parts = parts.into_iter().filter_map(|(name, text)| Some(format!("{name} {}", text?)));
    parts.collect::<Vec<_>>().join(", ")
}

/// A row with what each column has so far.
pub(crate) fn summary(row: &Row, columns: &[Column]) -> String {
    let cells = columns
        .iter()
        .zip(&row.cells)
        .map(|(column, cell)| format!("{} {}", column.label(), figure_text(row.metric, cell)));
    let note = row.note.as_deref().map(|note| format!(" ({note})")).unwrap_or_default();
    let mut text = format!("{}{note}: {}", row.name, cells.collect::<Vec<_>>().join(" | "));
    if let Some(goal) = &row.goal {
        text.push_str(&format!(" | aim {}", value(goal.metric, goal.value)));
    }
    text
}

/// The metric that can be told: the row's own, or a rate if there is none.
fn told(metric: Metric, has: impl Fn(Metric) -> bool) -> Option<Metric> {
    [metric, Metric::Rate].into_iter().find(|metric| has(*metric))
}

/// The median, its spread and its ratio.
fn figure_text(metric: Metric, cell: &Cell) -> String {
    let Some(metric) = told(metric, |metric| cell.figures.contains_key(&metric)) else {
        return outcome_text(&cell.outcome);
    };
    let Some(figure) = cell.figures.get(&metric) else { return String::new() };
    let mut text = value(metric, figure.median);
    if cell.samples.len() > 1 {
        let [min, max] = [value(metric, figure.min), value(metric, figure.max)];
        text.push_str(&format!(" ({min} .. {max})"));
    }
    if let Some(ratio) = figure.ratio {
        text.push_str(&format!(" {}", value(Metric::Relative, ratio)));
    }
    text
}

/// One repeat.
fn cell_text(metric: Metric, cell: &Cell, repeat: u32) -> String {
    let Some(sample) = cell.samples.iter().find(|sample| sample.repeat == repeat) else {
        return outcome_text(&cell.outcome);
    };
    let shown = told(metric, |metric| sample.values.contains_key(&metric));
    let shown = shown.and_then(|metric| Some(value(metric, *sample.values.get(&metric)?)));
    shown.unwrap_or_else(|| "too little to tell".to_owned())
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured => "-".to_owned(),
        Outcome::Refused { reason } => format!("refused: {reason}"),
        Outcome::NotOffered { reason } => format!("not offered: {reason}"),
        Outcome::Failed { reason } => format!("FAILED: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::result::Figure;

    fn cell(outcome: Outcome, figure: Option<Figure>) -> Cell {
        let figures = figure.map(|figure| (Metric::Rate, figure));
        Cell { outcome, figures: figures.into_iter().collect(), samples: Vec::new() }
    }

    #[test]
    fn a_row_tells_medians_ratios_and_refusals() {
        let figure = |median, ratio| Figure { median, min: median, max: median, ratio };
        let refused = Outcome::Refused { reason: "540".to_owned() };
        let row = Row {
            name: "baseline".to_owned(),
            note: None,
            parameters: BTreeMap::new(),
            commands: Vec::new(),
            metric: Metric::Rate,
            relative_to: None,
            goal: None,
            published: Vec::new(),
            cells: vec![
                cell(Outcome::Measured, Some(figure(2e6, None))),
                cell(Outcome::Measured, Some(figure(1e6, Some(0.5)))),
                cell(refused, None),
            ],
        };
        let column =
            |name: &str| Column { target: name.to_owned(), variant: None, is_baseline: false };
        let columns = ["a", "b", "c"].map(column);
        assert_eq!(
            summary(&row, &columns),
            "baseline: a 2.00 M/s | b 1.00 M/s x0.500 | c refused: 540"
        );
    }
}
