//! Comma-separated values.

use super::{Rows, table};

/// A listing as CSV. COMPAT: RabbitMQ's tools put every value in quotes.
pub(super) fn rows(rows: &Rows) -> String {
    if rows.rows.is_empty() {
        return String::new();
    }
    let mut text = line(rows.columns.iter().map(|&name| name.to_owned()));
    for row in &rows.rows {
        let cells = row.iter().map(table::cell);
        text.push_str(&line(cells));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> =
        cells.map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
    format!("{}\n", cells.join(","))
}
