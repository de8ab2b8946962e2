//! Values as Erlang prints them. COMPAT: RabbitMQ puts terms into its error texts, and clients and
//! operators search for these texts.

use std::fmt::Write;

use amqp091::{Table, Value};

/// A value as `~p` prints it: `<<"text">>`, `5`, `true`, `[{longstr,<<"a">>}]`.
#[must_use]
pub fn term(value: &Value) -> String {
    let mut out = String::new();
    put_value(&mut out, value);
    out
}

/// A value as the text between quotes in "received '...'": bytes as they are, else a term.
#[must_use]
pub fn plain(value: &Value) -> String {
    if let Value::LongString(bytes) | Value::Bytes(bytes) = value {
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        term(value)
    }
}

/// Bytes as a binary: `<<"text">>` where all is printable, `<<1,2,3>>` else.
#[must_use]
pub fn binary(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "<<>>".to_owned(),
        Ok(text) if !text.chars().any(char::is_control) => {
            format!("<<\"{}\">>", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Ok(_) | Err(_) => {
            let numbers: Vec<String> = bytes.iter().map(ToString::to_string).collect();
            format!("<<{}>>", numbers.join(","))
        }
    }
}

fn put_value(out: &mut String, value: &Value) {
    match value {
        Value::Bool(b) => put(out, b),
        Value::I8(n) => put(out, n),
        Value::U8(n) => put(out, n),
        Value::I16(n) => put(out, n),
        Value::U16(n) => put(out, n),
        Value::I32(n) => put(out, n),
        Value::U32(n) => put(out, n),
        Value::I64(n) => put(out, n),
        Value::F32(n) => out.push_str(&format!("{n:?}")),
        Value::F64(n) => out.push_str(&format!("{n:?}")),
        Value::Timestamp(n) => put(out, n),
        Value::Decimal(d) => out.push_str(&format!("{{{},{}}}", d.scale, d.value)),
        Value::LongString(bytes) | Value::Bytes(bytes) => out.push_str(&binary(bytes)),
        Value::Array(values) => put_array(out, values),
        Value::Table(table) => put_table(out, table),
        Value::Void => out.push_str("undefined"),
    }
}

fn put(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing to a String does not fail");
}

fn put_array(out: &mut String, values: &[Value]) {
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&format!("{{{},", value.type_name()));
        put_value(out, value);
        out.push('}');
    }
    out.push(']');
}

fn put_table(out: &mut String, table: &Table) {
    out.push('[');
    for (at, (name, value)) in table.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&format!("{{{},{},", binary(name), value.type_name()));
        put_value(out, value);
        out.push('}');
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use amqp091::ShortString;

    use super::*;

    #[test]
    fn values_print_as_terms() {
        let mut table = Table::new();
        table.insert(ShortString::from_static("k"), 1.5f64);
        let cases = [
            (Value::from("none"), "<<\"none\">>"),
            (Value::from(""), "<<>>"),
            (Value::LongString(vec![1, 255]), "<<1,255>>"),
            (Value::from("a\"b\\"), "<<\"a\\\"b\\\\\">>"),
            (Value::I32(-1), "-1"),
            (Value::F64(2.0), "2.0"),
            (Value::Bool(true), "true"),
            (Value::Void, "undefined"),
            (
                Value::Array(vec![Value::I32(1), Value::from("a")]),
                "[{signedint,1},{longstr,<<\"a\">>}]",
            ),
            (Value::Table(table), "[{<<\"k\">>,double,1.5}]"),
        ];
        for (value, text) in cases {
            assert_eq!(term(&value), text);
        }
        assert_eq!(plain(&Value::from("a\"b")), "a\"b");
        assert_eq!(plain(&Value::I64(7)), "7");
    }
}
