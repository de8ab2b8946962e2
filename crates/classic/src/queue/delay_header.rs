//! The header by which a message says for how long it is to be held back.

use amqp091::{TableRef, ValueRef};

/// The header that says for how many milliseconds a message is held back.
pub const DELAY: &str = "x-delay";
/// COMPAT: a message with a longer delay is not held back at all, as with RabbitMQ's plugin.
const DELAY_MAX_MS: i64 = u32::MAX as i64;

/// For how many milliseconds a message is to be held back, if it is.
pub fn delay_ms_of(headers: Option<TableRef<'_>>) -> Option<u64> {
    let delay_ms = number(&headers?.get(DELAY.as_bytes())?)?;
    (1..=DELAY_MAX_MS).contains(&delay_ms).then(|| delay_ms.unsigned_abs())
}

/// COMPAT: as the plugin has it, a text counts as the number it shows, and a fraction is cut off.
fn number(value: &ValueRef<'_>) -> Option<i64> {
    if let ValueRef::LongString(text) | ValueRef::Bytes(text) = value {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    #[expect(clippy::cast_possible_truncation, reason = "what is too large saturates")]
    value.as_i64().or_else(|| value.as_f64().map(|n| n as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ShortString, Table, Value};

    fn with(value: impl Into<Value>) -> Table {
        let mut headers = Table::new();
        headers.push(ShortString::from_static(DELAY), value);
        headers
    }

    fn delay(value: impl Into<Value>) -> Option<u64> {
        let bytes = with(value).to_bytes();
        delay_ms_of(Some(TableRef::parse(&bytes).unwrap()))
    }

    #[test]
    fn numbers_of_all_sorts_are_delays() {
        for value in [
            Value::I8(5),
            Value::U8(5),
            Value::I16(5),
            Value::U16(5),
            Value::I32(5),
            Value::U32(5),
            Value::I64(5),
            Value::F32(5.9),
            Value::F64(5.9),
            Value::from("5"),
            Value::from("+5"),
            Value::Bytes(b"5".to_vec()),
        ] {
            assert_eq!(delay(value.clone()), Some(5), "{value:?}");
        }
        assert_eq!(delay(i64::from(u32::MAX)), Some(4_294_967_295));
    }

    #[test]
    fn what_is_no_delay_holds_nothing_back() {
        for value in [
            Value::I32(0),
            Value::I32(-5),
            Value::I64(i64::from(u32::MAX) + 1),
            Value::I64(i64::MAX),
            Value::F64(f64::NAN),
            Value::F64(1e300),
            Value::F32(0.9),
            Value::from("soon"),
            Value::from(""),
            Value::from("5.5"),
            Value::Bool(true),
            Value::Void,
            Value::Timestamp(5),
            Value::Array(vec![Value::I32(5)]),
            Value::Table(with(5)),
        ] {
            assert_eq!(delay(value.clone()), None, "{value:?}");
        }
        assert_eq!(delay_ms_of(None), None);
        assert_eq!(delay_ms_of(Some(TableRef::parse(&Table::new().to_bytes()).unwrap())), None);
    }
}
