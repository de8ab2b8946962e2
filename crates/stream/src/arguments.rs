//! The arguments of an AMQP 0-9-1 consumer of a stream. Never what is in the stream.

use chunk_log::{FilterMatcher, Start};
use session::{Table, Value};

/// Where to begin: `x-stream-offset`. COMPAT: the next message where nothing is said; a text is a time that
/// has passed since, in the form of `x-max-age`.
///
/// # Errors
/// The value, in Erlang's form.
pub(crate) fn start_at(arguments: &Table, next_offset: u64, now_ms: u64) -> Result<Start, String> {
    let Some(value) = arguments.get(b"x-stream-offset") else { return Ok(Start::Next) };
    if let Value::Timestamp(seconds) = value {
        let at_ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        return Ok(Start::Timestamp(at_ms));
    }
    match value.as_bytes() {
        Some(text) => match text {
            b"first" => Ok(Start::First),
            b"last" => Ok(Start::Last),
            b"next" => Ok(Start::Next),
            interval => {
                let age_ms = age(interval).ok_or_else(|| {
                    format!("{{longstr,<<\"{}\">>}}", String::from_utf8_lossy(interval))
                })?;
                Ok(Start::Timestamp(i64::try_from(now_ms.saturating_sub(age_ms)).unwrap_or(0)))
            }
        },
        None => match value.as_i64() {
            Some(offset) => Ok(Start::Offset(match u64::try_from(offset) {
                Ok(offset) => offset,
                Err(_) => next_offset.saturating_sub(offset.unsigned_abs()),
            })),
            None => Err(value.type_name().to_owned()),
        },
    }
}

/// Which messages to read: `x-stream-filter`, `x-stream-match-unfiltered`. COMPAT: values that are no texts
/// are passed over.
pub(crate) fn filter(arguments: &Table) -> Option<FilterMatcher> {
    let given = arguments.get(b"x-stream-filter")?;
    let values = if let Value::Array(values) = given {
        values.as_slice()
    } else {
        std::slice::from_ref(given)
    };
    let matcher = FilterMatcher::new(values.iter().filter_map(Value::as_bytes));
    let unfiltered = arguments.get(b"x-stream-match-unfiltered");
    let with_unfiltered = matches!(unfiltered, Some(Value::Bool(true)));
    Some(if with_unfiltered { matcher.with_unfiltered() } else { matcher })
}

fn age(text: &[u8]) -> Option<u64> {
    meta::age_ms(std::str::from_utf8(text).ok()?)
}
