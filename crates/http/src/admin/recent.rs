//! The last items of a ring, as the log's lines and the events are asked for.

use crate::request::Request;
use api::ErrorCode;
use mgmt::ApiError;
use serde_json::Value;
use stdx::{Ring, RingItems};

/// Lines, or events, of an answer where nothing is said, and at most.
const SHOWN: i64 = 200;
const SHOWN_MAX: usize = 2_000;

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
        u64::try_from(number).map_err(|_| {
            ApiError::new(ErrorCode::BadRequest, format!("{field} must not be negative"))
        })
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
