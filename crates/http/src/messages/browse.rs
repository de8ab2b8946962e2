//! A page of messages.

use super::look::{Wanted, fields, number};
use super::shown::Rows;
use crate::call::{Answer, Call, Outcome};
use crate::refusal::Refusal;
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Messages of a page when nothing is said, and the most of them.
const LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 500;
/// Bytes of a page, but for the last message.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Time for a page: with a filter it may not be full by then, and the next page goes on.
const TIME_MAX_MS: u64 = 1_000;

/// A page of messages.
pub(crate) fn page(call: &Call) -> Outcome {
    let fields = fields(call)?;
    let limit = match number(&fields, "limit")?.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT_MAX => usize::try_from(limit).unwrap_or(usize::MAX),
        _ => return Err(Refusal::bad_request(format!("limit must be 1 to {LIMIT_MAX}"))),
    };
    let wanted = Wanted::with_beginnings(call, &fields)?;
    let (mut look, mut rows) = (wanted.look(u64::MAX), Rows::default());
    let until_ms = call.api.now().monotonic_ms.get() + TIME_MAX_MS;
    let (mut goes_on, mut is_full) = (true, false);
    while goes_on
        && !is_full
        && call.course.end().is_none()
        && call.api.now().monotonic_ms.get() < until_ms
    {
        goes_on = look.step(&mut |at| {
            rows.push(at, wanted.sight.shown);
            is_full = rows.len() >= limit || rows.n_bytes >= PAGE_BYTES_MAX;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    let mut out = b"{\"messages\":[".to_vec();
    for (nth, row) in rows.take(&call.api, &wanted.queue).into_iter().enumerate() {
        out.extend_from_slice(if nth > 0 { b"," } else { b"" });
        out.extend_from_slice(&row);
    }
    let rest = json!({
        "next": if goes_on { look.place() } else { Value::Null },
        "scanned": look.n_scanned,
        "matched": look.n_matched,
        "complete": !goes_on,
    });
    out.extend_from_slice(b"],");
    out.extend_from_slice(rest.to_string().strip_prefix('{').unwrap_or_default().as_bytes());
    Ok(Answer::Raw(out))
}
