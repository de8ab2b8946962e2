//! Tables in boxes, for people.

use super::{Rows, emphasised, table};

pub(super) fn rows(rows: &Rows, bold: bool) -> String {
    if rows.rows.is_empty() {
        return String::new();
    }
    let cells = |row: &Vec<serde_json::Value>| row.iter().map(table::cell).collect();
    draw(&rows.columns, &rows.rows.iter().map(cells).collect::<Vec<Vec<String>>>(), bold)
}

/// A text in a box under the heading `Output`.
pub(super) fn boxed(text: &str, bold: bool) -> String {
    let width = text.lines().map(width).max().unwrap_or_default().max(width("Output"));
    let mut drawn = rule('┌', '┬', '┐', &[width]);
    drawn.push_str(&line(&["Output"], &[width], bold));
    drawn.push_str(&rule('├', '┼', '┤', &[width]));
    for text in text.lines() {
        drawn.push_str(&line(&[text], &[width], false));
    }
    drawn.push_str(&rule('└', '┴', '┘', &[width]));
    drawn
}

fn draw(columns: &[&str], rows: &[Vec<String>], bold: bool) -> String {
    let mut widths: Vec<usize> = columns.iter().map(|name| width(name)).collect();
    for row in rows {
        for (column, cell) in widths.iter_mut().zip(row) {
            *column = (*column).max(width(cell));
        }
    }
    let mut drawn = rule('┌', '┬', '┐', &widths);
    drawn.push_str(&line(columns, &widths, bold));
    for row in rows {
        drawn.push_str(&rule('├', '┼', '┤', &widths));
        drawn.push_str(&line(row, &widths, false));
    }
    drawn.push_str(&rule('└', '┴', '┘', &widths));
    drawn
}

fn rule(left: char, middle: char, right: char, widths: &[usize]) -> String {
    let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
    format!("{left}{}{right}\n", parts.join(&middle.to_string()))
}

fn line<T: AsRef<str>>(cells: &[T], widths: &[usize], bold: bool) -> String {
    let mut text = String::from("│");
    for (cell, &column) in cells.iter().zip(widths) {
        let cell = cell.as_ref();
        let padding = " ".repeat(column.saturating_sub(width(cell)));
        text.push_str(&format!(" {}{padding} │", emphasised(cell, bold)));
    }
    text.push('\n');
    text
}

fn width(text: &str) -> usize {
    text.chars().count()
}
