//! AMQP tables as JSON: lists of `[key, type, value]`, RabbitMQ's tools' form.

use serde_json::{Value as Json, json};
use session::{Table, Value};

/// A table as a list of `[key, type, value]`.
#[must_use]
pub(crate) fn typed_table(table: &Table) -> Json {
    let field = |key: &session::ShortString, field: &Value| {
        json!([key.to_text(), field.type_name(), value(field)])
    };
    table.iter().map(|(key, value)| field(key, value)).collect()
}

pub(crate) fn value(field: &Value) -> Json {
    match field {
        Value::Bool(flag) => json!(flag),
        Value::I8(number) => json!(number),
        Value::U8(number) => json!(number),
        Value::I16(number) => json!(number),
        Value::U16(number) => json!(number),
        Value::I32(number) => json!(number),
        Value::U32(number) => json!(number),
        Value::I64(number) => json!(number),
        Value::F32(number) => json!(number),
        Value::F64(number) => json!(number),
        Value::Timestamp(seconds) => json!(seconds),
        Value::Decimal(decimal) => json!([decimal.scale, decimal.value]),
        Value::LongString(bytes) | Value::Bytes(bytes) => json!(String::from_utf8_lossy(bytes)),
        Value::Array(items) => {
            items.iter().map(|item| json!([item.type_name(), value(item)])).collect()
        }
        Value::Table(inner) => typed_table(inner),
        Value::Void => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::ShortString;

    #[test]
    fn types_are_named_at_every_level() {
        let mut inner = Table::new();
        inner.push(ShortString::from_static("k"), Value::I8(-1));
        let mut outer = Table::new();
        outer.push(ShortString::from_static("n"), Value::I32(5));
        outer.push(ShortString::from_static("s"), Value::LongString(b"v".to_vec()));
        outer.push(ShortString::from_static("t"), Value::Table(inner));
        outer.push(ShortString::from_static("a"), Value::Array(vec![Value::Bool(true)]));
        outer.push(ShortString::from_static("v"), Value::Void);
        assert_eq!(
            typed_table(&outer),
            json!([
                ["n", "signedint", 5],
                ["s", "longstr", "v"],
                ["t", "table", [["k", "byte", -1]]],
                ["a", "array", [["bool", true]]],
                ["v", "void", null],
            ])
        );
    }
}
