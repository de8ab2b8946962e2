//! An operator's commands about the log while the node runs.

use crate::api_error::{ApiError, Kind};
use crate::{Management, Request, Told};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use stdx::{Ring, RingItems};

/// RabbitMQ's names of levels, the gravest first.
const LEVELS: [&str; 4] = ["error", "warning", "info", "debug"];
/// Lines, or events, of an answer where nothing is said, and at most.
const SHOWN: i64 = 200;
const SHOWN_MAX: usize = 2_000;

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The line's time, milliseconds since 1970.
    pub unix_ms: u64,
    /// RabbitMQ's name of the line's level.
    pub level: &'static str,
    /// RabbitMQ's name of the line's category.
    pub category: &'static str,
    /// The line's text, on one line.
    pub text: Arc<str>,
}

/// The node's log.
pub trait Log: std::fmt::Debug + Send + Sync {
    /// Changes what is logged, wherever the log goes, by RabbitMQ's name of the least level. False for a
    /// name that there is not.
    fn set_level(&self, level: &str) -> bool;

    /// Opens its file anew: whoever rotates logs has moved it away.
    ///
    /// # Errors
    /// It cannot be opened; what was open stays in use.
    fn reopen(&self) -> io::Result<()>;

    /// Lines that were dropped because too many waited to be written.
    fn n_dropped(&self) -> u64;

    /// The last lines of the log, wherever they were written.
    fn last_lines(&self) -> &Ring<LogLine>;

    /// RabbitMQ's name of the least level that is logged.
    fn level(&self) -> &'static str;
}

/// The last lines, with greater numbers than `after` and lesser ones than `before`, of at least `level`, with
/// `text` in them.
pub fn lines(management: &Management, request: &Request) -> Told {
    let least = request.optional_text("level")?.unwrap_or("debug");
    let least = LEVELS.iter().position(|level| *level == least).ok_or_else(|| {
        ApiError::new(Kind::BadRequest, format!("level must be one of {}", LEVELS.join(", ")))
    })?;
    let log = &management.log;
    let Last { shown, first, next } =
        last(log.last_lines(), request, "lines", |number, line, text| {
            let LogLine { unix_ms, level, category, text: said } = line;
            let is_wanted = LEVELS.iter().take(least + 1).any(|wanted| wanted == level)
                && said.to_lowercase().contains(text);
            is_wanted.then(|| {
                json!({
                    "n": number, "timestamp": unix_ms, "level": level, "category": category,
                    "text": **said,
                })
            })
        })?;
    Ok(json!({"lines": shown, "first": first, "next": next, "level": log.level()}))
}

/// The items of a ring that an answer shows, and the numbers of a [`RingItems`].
pub(crate) struct Last {
    pub(crate) shown: Vec<Value>,
    pub(crate) first: u64,
    pub(crate) next: u64,
}

/// The last items of a ring that are shown, the oldest first: as many as the field `name` says, with greater
/// numbers than `after` and lesser ones than `before`. `show` is told `text` in small letters.
pub(crate) fn last<T: Clone>(
    ring: &Ring<T>,
    request: &Request,
    name: &str,
    show: impl Fn(u64, &T, &str) -> Option<Value>,
) -> Result<Last, ApiError> {
    let natural = |field, default| {
        let number = request.integer(field)?.unwrap_or(default);
        u64::try_from(number)
            .map_err(|_| ApiError::new(Kind::BadRequest, format!("{field} must not be negative")))
    };
    let (count, after) = (natural(name, SHOWN)?, natural("after", 0)?);
    let before = natural("before", i64::MAX)?;
    let count = usize::try_from(count).map_or(SHOWN_MAX, |count| count.min(SHOWN_MAX));
    let text = request.optional_text("text")?.unwrap_or_default().to_lowercase();
    let RingItems { items, first, next } = ring.after(after);
    let wanted = items.iter().rev().filter(|(number, _)| *number < before);
    let shown = wanted.filter_map(|(number, item)| show(*number, item, &text));
    let mut shown: Vec<Value> = shown.take(count).collect();
    shown.reverse();
    Ok(Last { shown, first, next })
}

/// Sets the log's level until the next start, as RabbitMQ does; the configured level counts then.
pub fn set_level(management: &Management, request: &Request) -> Told {
    let level = request.text("level")?;
    if management.log.set_level(level) {
        tracing::info!("management: set the log level to {level}");
        return Ok(Value::Null);
    }
    Err(ApiError::new(Kind::Invalid, format!("unknown log level '{level}'")))
}

/// Opens the log anew.
pub fn reopen(management: &Management, _: &Request) -> Told {
    management
        .log
        .reopen()
        .map(|()| Value::Null)
        .map_err(|error| ApiError::new(Kind::Invalid, format!("cannot reopen the log: {error}")))
}
