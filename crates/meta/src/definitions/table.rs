//! AMQP tables as plain JSON objects. COMPAT: as in RabbitMQ's documents the exact type of a number is
//! lost; it comes back as a 64-bit one, which counts as the same.

use amqp091::{ShortString, Table, Value};
use serde_json::{Map, Number, Value as Json};

/// Of several fields of one name the first counts, as everywhere.
pub fn to_json(table: &Table) -> Json {
    let mut fields = Map::new();
    for (key, value) in table {
        fields.entry(key.to_text()).or_insert_with(|| value_to_json(value));
    }
    Json::Object(fields)
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::Bool(flag) => Json::from(*flag),
        Value::I8(number) => Json::from(*number),
        Value::U8(number) => Json::from(*number),
        Value::I16(number) => Json::from(*number),
        Value::U16(number) => Json::from(*number),
        Value::I32(number) => Json::from(*number),
        Value::U32(number) => Json::from(*number),
        Value::I64(number) => Json::from(*number),
        Value::Timestamp(seconds) => Json::from(*seconds),
        Value::F32(number) => Json::from(*number),
        Value::F64(number) => Json::from(*number),
        Value::Decimal(decimal) => {
            Json::from(f64::from(decimal.value) / 10_f64.powi(i32::from(decimal.scale)))
        }
        Value::LongString(bytes) | Value::Bytes(bytes) => {
            Json::from(String::from_utf8_lossy(bytes).into_owned())
        }
        Value::Array(items) => items.iter().map(value_to_json).collect(),
        Value::Table(table) => to_json(table),
        Value::Void => Json::Null,
    }
}

/// The table an object stands for; an empty list or nothing at all is an empty one.
///
/// # Errors
/// A key is too long for AMQP, or it is no object.
pub fn from_json(arguments: Option<&Json>) -> Result<Table, String> {
    match arguments {
        None | Some(Json::Null) => Ok(Table::new()),
        Some(Json::Array(items)) if items.is_empty() => Ok(Table::new()),
        Some(Json::Object(fields)) => table(fields),
        Some(other) => Err(format!("arguments must be an object: {other}")),
    }
}

fn table(fields: &Map<String, Json>) -> Result<Table, String> {
    let field = |(key, value): (&String, &Json)| {
        let key = ShortString::new(key).map_err(|_| format!("the key {key} is too long"))?;
        Ok((key, self::value(value)?))
    };
    fields.iter().map(field).collect()
}

fn value(value: &Json) -> Result<Value, String> {
    Ok(match value {
        Json::Null => Value::Void,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => self::number(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            Value::Array(items.iter().map(self::value).collect::<Result<_, _>>()?)
        }
        Json::Object(fields) => Value::Table(table(fields)?),
    })
}

fn number(number: &Number) -> Value {
    let real = || Value::F64(number.as_f64().unwrap_or_default());
    number.as_i64().map_or_else(real, Value::I64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_fields_of_one_name_the_first_counts() {
        let key = || ShortString::from_static("x-max-length");
        let table: Table = [(key(), Value::I32(5)), (key(), Value::I32(-1))].into_iter().collect();
        assert_eq!(to_json(&table).to_string(), r#"{"x-max-length":5}"#);
    }
}
