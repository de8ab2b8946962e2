//! Values with an inner form: lists, keys with values, steps.

use std::str::FromStr;

use amqp091::{ShortString, Table, Value};

use crate::options::{Given, Usage};
use crate::pace::Schedule;

/// The number given for an option, or `default`.
pub(super) fn number<T: FromStr>(given: &Given, long: &str, default: T) -> Result<T, Usage> {
    Ok(optional(given, long)?.unwrap_or(default))
}

/// The number given for an option, if it was.
pub(super) fn optional<T: FromStr>(given: &Given, long: &str) -> Result<Option<T>, Usage> {
    given.last(long).map(|text| text.trim().parse().map_err(|_| invalid(long, text))).transpose()
}

/// Values separated by commas; none if the option was not given.
pub(super) fn list(given: &Given, long: &str) -> Vec<String> {
    given
        .last(long)
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `key=value,...`; numbers and truth values become such.
pub(super) fn table(given: &Given, long: &str) -> Result<Table, Usage> {
    let mut table = Table::new();
    for text in given.all(long) {
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| invalid(long, text))?;
            let key = ShortString::new(key).map_err(|_| invalid(long, text))?;
            table.insert(key, value_of(value));
        }
    }
    Ok(table)
}

/// What a word stands for.
pub(super) fn value_of(word: &str) -> Value {
    match (word.parse::<i64>(), word) {
        (Ok(number), _) => Value::I64(number),
        (Err(_), "true") => Value::Bool(true),
        (Err(_), "false") => Value::Bool(false),
        (Err(_), text) => Value::LongString(text.as_bytes().to_vec()),
    }
}

/// `value:seconds`, once per step.
pub(super) fn schedule(given: &Given, long: &str) -> Result<Option<Schedule>, Usage> {
    let mut steps = Vec::new();
    for text in given.all(long) {
        let step = text.split_once(':').and_then(|(value, seconds)| {
            Some((value.trim().parse().ok()?, seconds.trim().parse().ok()?))
        });
        steps.push(step.ok_or_else(|| invalid(long, text))?);
    }
    if steps.is_empty() {
        return Ok(None);
    }
    Schedule::of(&steps).map(Some).ok_or_else(|| Usage(format!("--{long}: a step has no length")))
}

/// A value that is not accepted.
pub(super) fn invalid(long: &str, value: &str) -> Usage {
    Usage(format!("invalid value '{value}' for --{long}"))
}
