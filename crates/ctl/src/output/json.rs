//! JSON, with a listing as one array and a row per line.

use super::{Form, Rows};
use serde_json::Value;

pub(super) fn line(value: &Value) -> String {
    format!("{}\n", shown(value))
}

/// A value as JSON. COMPAT: a void value of a typed table is the text `undefined`. No text of a value looks
/// like a void: quotes have a backslash there.
fn shown(value: &Value) -> String {
    value.to_string().replace(r#""void",null]"#, r#""void","undefined"]"#)
}

pub(super) fn rows(rows: &Rows) -> String {
    if rows.rows.is_empty() && rows.form != Form::Streamed {
        return "[]\n".to_owned();
    }
    let mut text = String::from("[\n");
    for (i, row) in rows.rows.iter().enumerate() {
        let fields: Vec<String> = rows
            .columns
            .iter()
            .zip(row)
            .map(|(name, value)| format!("{}:{}", Value::from(*name), shown(value)))
            .collect();
        let comma = if i == 0 { "" } else { "," };
        text.push_str(&format!("{comma}{{{}}}\n", fields.join(",")));
    }
    text.push_str("]\n");
    text
}
