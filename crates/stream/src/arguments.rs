//! The arguments of an AMQP 0-9-1 consumer of a stream. Never what is in the stream.

use chunk_log::{FilterMatcher, Start};
use session::{Table, Value};
use stdx::UnixMs;

/// Where to begin: `x-stream-offset`. COMPAT: the next message where nothing is said; a text is a time that
/// has passed since, in the form of `x-max-age`.
///
/// # Errors
/// The value, in Erlang's form.
pub(crate) fn start_at(
    arguments: &Table,
    next_offset: u64,
    now_ms: UnixMs,
) -> Result<Start, String> {
    let Some(value) = arguments.get(b"x-stream-offset") else { return Ok(Start::Next) };
    if let Value::Timestamp(seconds) = value {
        let at_ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        return Ok(Start::Timestamp(at_ms));
    }
    // COMPAT: bytes are taken where they are one of the words.
    let bytes = if let Value::Bytes(bytes) = value { Some(&**bytes) } else { value.as_bytes() };
    match bytes {
        Some(text) => match text {
            b"first" => Ok(Start::First),
            b"last" => Ok(Start::Last),
            b"next" => Ok(Start::Next),
            interval => {
                let age_ms = age(interval).ok_or_else(|| {
                    format!("{{longstr,<<\"{}\">>}}", String::from_utf8_lossy(interval))
                })?;
                Ok(Start::Timestamp(i64::try_from(now_ms.minus(age_ms).get()).unwrap_or(0)))
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

/// Which messages to read: `x-stream-filter`, `x-stream-match-unfiltered`. COMPAT: a value that is neither a
/// text nor a list is passed over, as are elements of a list that are no texts.
///
/// # Errors
/// No text is left of a list. COMPAT: RabbitMQ ends the channel with 541 and says nothing.
pub(crate) fn filter(arguments: &Table) -> Result<Option<FilterMatcher>, &'static str> {
    let values = match arguments.get(b"x-stream-filter") {
        Some(Value::Array(values)) => values.as_slice(),
        Some(given @ Value::LongString(_)) => std::slice::from_ref(given),
        Some(_) | None => return Ok(None),
    };
    let texts = values.iter().filter_map(Value::as_bytes);
    if texts.clone().next().is_none() {
        return Err("a list without a text");
    }
    let matcher = FilterMatcher::new(texts);
    let unfiltered = arguments.get(b"x-stream-match-unfiltered");
    let with_unfiltered = matches!(unfiltered, Some(Value::Bool(true)));
    Ok(Some(if with_unfiltered { matcher.with_unfiltered() } else { matcher }))
}

fn age(text: &[u8]) -> Option<u64> {
    meta::age_ms(std::str::from_utf8(text).ok()?)
}
