//! Columns with tabs between them, values as RabbitMQ's tools write them, but for maps: those are JSON. AMQP
//! tables, such as arguments, are Erlang's lists of pairs, since scripts parse them.

use super::{Form, Rows};
use serde_json::Value;
use std::fmt::Write as _;

pub(super) fn rows(rows: &Rows, headers: bool) -> String {
    let mut text = String::new();
    if rows.rows.is_empty() {
        if rows.form != Form::Streamed {
            text.push('\n');
        }
        return text;
    }
    if headers {
        text.push_str(&rows.columns.join("\t"));
        text.push('\n');
    }
    for row in &rows.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

/// A value as the text of a cell.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) if is_table(items) => table(items),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(cell).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(_) => value.to_string(),
    }
}

/// Whether an array is an AMQP table. COMPAT: fields come as lists of `[key, type, value]`, as RabbitMQ's
/// JSON has them.
fn is_table(items: &[Value]) -> bool {
    let is_field = |item: &Value| match item.as_array().map(Vec::as_slice) {
        Some([Value::String(_), Value::String(_), _]) => true,
        Some(_) | None => false,
    };
    !items.is_empty() && items.iter().all(is_field)
}

fn table(fields: &[Value]) -> String {
    let mut text = String::from("[");
    for (i, field) in fields.iter().enumerate() {
        let Some([Value::String(key), Value::String(kind), value]) =
            field.as_array().map(Vec::as_slice)
        else {
            continue;
        };
        let comma = if i == 0 { "" } else { "," };
        write!(text, "{comma}{{{},{}}}", quoted(key), typed(kind, value))
            .expect("writing to a string cannot fail");
    }
    text.push(']');
    text
}

fn typed(kind: &str, value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(fields) if kind == "table" => table(fields),
        Value::Array(items) => {
            // An array's items are pairs of type and value.
            let items: Vec<String> = items
                .iter()
                .map(|item| match item.as_array().map(Vec::as_slice) {
                    Some([Value::String(kind), value]) => typed(kind, value),
                    Some(_) | None => cell(item),
                })
                .collect();
            format!("[{}]", items.join(","))
        }
        Value::Null => "undefined".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => cell(value),
    }
}

/// A text in quotes. COMPAT: Erlang writes the empty string as the empty list.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        return "[]".to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
