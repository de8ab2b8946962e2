//! The settings of a stream by its arguments and the policies in force, as values.

use amqp091::{ShortString, Table, Value};
use serde_json::{Map, Value as Json};

use crate::error::MetaError;
use crate::queue::QueueDef;
use crate::queue_type::STREAM;
use crate::setting::{self, Given, QUEUE_TYPE_ARGUMENT, argument};

/// Bytes of a segment where nothing else is asked for.
const SEGMENT_BYTES_DEFAULT: u64 = 500_000_000;
/// Bytes of a chunk's filter where nothing else is asked for.
const FILTER_BYTES_DEFAULT: u8 = 16;

/// The settings that count for a stream. COMPAT: a policy counts before an argument. Test:
/// `for_streams_a_policy_counts_before_an_argument`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// `x-max-length-bytes`: bytes above which the oldest segments go.
    pub max_bytes: Option<u64>,
    /// `x-max-age`: the age at which segments go, in milliseconds.
    pub max_age_ms: Option<u64>,
    /// `x-stream-max-segment-size-bytes`: bytes after which a new segment begins. It may be 0.
    pub segment_bytes: u64,
    /// `x-stream-filter-size-bytes`: bytes of the filter of a chunk that has one, 16 to 255.
    pub filter_bytes: u8,
    /// `x-stream-initial-offset`: the offset of the first message that is published to it.
    pub initial_offset: u64,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            max_bytes: None,
            max_age_ms: None,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            filter_bytes: FILTER_BYTES_DEFAULT,
            initial_offset: 0,
        }
    }
}

impl StreamSettings {
    /// Reads arguments that passed the checks of a declaration, and the settings of policies; what is out of
    /// its domain counts as missing.
    pub(crate) fn of(queue: &QueueDef, policy: &Map<String, Json>) -> Self {
        let given = Given { queues: &STREAM, arguments: &queue.arguments, policy };
        let default = Self::default();
        let filter_bytes = given.number(&setting::FILTER_BYTES).and_then(|n| u8::try_from(n).ok());
        Self {
            max_bytes: given.number(&setting::MAX_LENGTH_BYTES),
            max_age_ms: given.text(&setting::MAX_AGE).and_then(argument::age_ms),
            segment_bytes: (given.number(&setting::MAX_SEGMENT_BYTES))
                .unwrap_or(default.segment_bytes),
            filter_bytes: filter_bytes.unwrap_or(default.filter_bytes),
            initial_offset: given.number(&setting::INITIAL_OFFSET).unwrap_or(0),
        }
    }
}

/// The arguments of streams that clients of the stream protocol give as text, by their names there.
const NUMBERS: [&str; 5] = [
    "max-length-bytes",
    "stream-max-segment-size-bytes",
    "initial-cluster-size",
    "stream-filter-size-bytes",
    "stream-initial-offset",
];
const TEXTS: [&str; 2] = ["max-age", "queue-leader-locator"];

/// The arguments of a queue that is a stream, from those that a client of the stream protocol, or an
/// operator, gives as text. COMPAT: others are passed over.
///
/// # Errors
/// A number that is none; whether it is in its domain is checked when the queue is declared.
pub fn stream_arguments<'a>(
    given: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Table, MetaError> {
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static(QUEUE_TYPE_ARGUMENT), STREAM.kind.as_str());
    for (key, text) in given {
        let value = if NUMBERS.contains(&key) {
            let number: i64 = text
                .parse()
                .map_err(|_| MetaError::Invalid(format!("{key} is not a number: {text}")))?;
            Value::from(number)
        } else if TEXTS.contains(&key) {
            Value::from(text)
        } else {
            continue;
        };
        arguments.insert(ShortString::truncated(&format!("x-{key}")), value);
    }
    Ok(arguments)
}
