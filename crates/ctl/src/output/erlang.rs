//! Erlang terms, as `~p` prints them: what is read from JSON knows texts only, so they are binaries.

use super::Rows;
use serde_json::Value;

pub(super) fn line(value: &Value) -> String {
    format!("{}\n", term(value))
}

/// A list with a property list for each row.
pub(super) fn rows(rows: &Rows) -> String {
    let row = |row: &Vec<Value>| {
        let pair =
            |(column, value): (&&str, &Value)| format!("{{{},{}}}", atom(column), term(value));
        format!("[{}]", rows.columns.iter().zip(row).map(pair).collect::<Vec<_>>().join(","))
    };
    format!("[{}]\n", rows.rows.iter().map(row).collect::<Vec<_>>().join(",\n "))
}

fn term(value: &Value) -> String {
    match value {
        Value::Null => "undefined".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => binary(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(term).collect::<Vec<_>>().join(","))
        }
        Value::Object(fields) => {
            let pair =
                |(key, value): (&String, &Value)| format!("{{{},{}}}", atom(key), term(value));
            format!("[{}]", fields.iter().map(pair).collect::<Vec<_>>().join(","))
        }
    }
}

fn binary(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let kind = if text.is_ascii() { "" } else { "/utf8" };
    format!("<<\"{escaped}\"{kind}>>")
}

/// An atom, in quotes unless it begins with a small letter and has only letters, digits, `_` and `@`.
pub(crate) fn atom(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '@'));
    if is_plain {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_terms() {
        assert_eq!(
            term(&json!({"a": 1, "max-length": [true, null]})),
            "[{a,1},{'max-length',[true,undefined]}]"
        );
        assert_eq!(term(&json!("say \"hi\"")), r#"<<"say \"hi\"">>"#);
        assert_eq!(term(&json!("é")), "<<\"é\"/utf8>>");
        let rows_of = |list: &Value| rows(&Rows::of("name, messages", list, Form::Whole));
        assert_eq!(rows_of(&json!([])), "[]\n");
        assert_eq!(
            rows_of(&json!([{"name": "q", "messages": 2}, {"name": "r", "messages": 0}])),
            "[[{name,<<\"q\">>},{messages,2}],\n [{name,<<\"r\">>},{messages,0}]]\n"
        );
    }
}
