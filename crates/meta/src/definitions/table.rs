//! AMQP tables as plain JSON objects. COMPAT: as in RabbitMQ's documents the exact type of a number is
//! lost; it comes back as a 64-bit one, which counts as the same.

use amqp091::table::DEPTH_MAX;
use amqp091::{ShortString, Table, Value};
use serde_json::{Map, Number, Value as Json};

/// A table as JSON. Of several fields of one name the first counts, as everywhere.
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
        // COMPAT: as RabbitMQ shows it.
        Value::Void => Json::from("undefined"),
    }
}

/// The table an object stands for; an empty list or nothing at all is an empty one.
///
/// # Errors
/// A key is too long for AMQP, it has too many levels to be read again, or it is no object.
pub fn from_json(arguments: Option<&Json>) -> Result<Table, String> {
    match arguments {
        None | Some(Json::Null) => Ok(Table::new()),
        Some(Json::Array(items)) if items.is_empty() => Ok(Table::new()),
        Some(arguments @ Json::Object(fields)) => {
            let text = || format!("arguments are nested more than {DEPTH_MAX} levels deep");
            if is_flat(arguments, DEPTH_MAX) { table(fields) } else { Err(text()) }
        }
        Some(other) => Err(format!("arguments must be an object: {other}")),
    }
}

/// Whether lists and objects are at most so many levels deep in each other.
#[must_use]
pub fn is_flat(value: &Json, levels: usize) -> bool {
    let below = |value: &Json| levels.checked_sub(1).is_some_and(|below| is_flat(value, below));
    match value {
        Json::Array(items) => levels > 0 && items.iter().all(below),
        Json::Object(fields) => levels > 0 && fields.values().all(below),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
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
    use amqp091::TableRef;
    use serde_json::json;

    /// Arguments that are stored can be read again.
    #[test]
    fn tables_are_as_deep_as_they_may_be_and_no_deeper() {
        let nested = |levels| (1..levels).fold(json!({}), |inner, _| json!({"k": [inner]}));
        let deepest = from_json(Some(&nested(DEPTH_MAX / 2))).unwrap().to_bytes();
        assert!(TableRef::parse(&deepest).unwrap().to_owned().is_ok());
        assert!(from_json(Some(&nested(DEPTH_MAX / 2 + 1))).unwrap_err().contains("32 levels"));
        let texts = (2..DEPTH_MAX).fold(json!(["x"]), |inner, _| json!([inner]));
        let deepest = from_json(Some(&json!({"k": texts}))).unwrap().to_bytes();
        assert!(TableRef::parse(&deepest).unwrap().to_owned().is_ok());
        assert!(from_json(Some(&json!({"k": [texts]}))).is_err());
    }

    #[test]
    fn of_two_fields_of_one_name_the_first_counts() {
        let key = || ShortString::from_static("x-max-length");
        let table: Table = [(key(), Value::I32(5)), (key(), Value::I32(-1))].into_iter().collect();
        assert_eq!(to_json(&table).to_string(), r#"{"x-max-length":5}"#);
    }
}
