//! Looks through all of a queue: found messages as they come, and the export of a queue.

use super::look::{Look, Wanted, fields, number};
use super::pace::Pace;
use super::shown::Rows;
use crate::Api;
use crate::call::{Answer, Call, Outcome, Take};
use crate::refusal::Refusal;
use axum::body::Bytes;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bounds of a search when nothing is said, and the most that may be.
const SCAN_MAX: u64 = 1_000_000;
const SCAN_MOST: u64 = 1_000_000_000;
const TIMEOUT_MS: u64 = 30_000;
const TIMEOUT_MOST_MS: u64 = 3_600_000;
/// Found messages that are sent together take so many bytes, but for the last.
const BATCH_BYTES: usize = 64 * 1024;
/// Time between words of progress.
const PROGRESS_EVERY_MS: u64 = 500;

stdx::named! {
    /// The reason why a look ended.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum End {
        /// The queue has no more messages.
        Complete = "complete",
        Scanned = "scan_max",
        TimeOver = "timeout_ms",
        Limit = "limit",
        /// The client has gone, or the node stops.
        Gone = "gone",
    }
}

/// Bounds of a look.
struct Bounds {
    scan_max: u64,
    /// Time on the monotonic clock, milliseconds.
    until_ms: u64,
    limit: u64,
}

/// Looks on until something ends it; `send` gets what was found, and is asked now and then with nothing.
fn look_through(
    api: &Api,
    wanted: &Wanted,
    look: &mut Look<'_>,
    bounds: &Bounds,
    send: &mut dyn FnMut(&Look<'_>, Vec<Vec<u8>>) -> bool,
) -> Result<End, Refusal> {
    let (mut rows, mut pace) = (Rows::default(), Pace::new());
    loop {
        let before = look.n_matched;
        let limit = bounds.limit - before;
        let mut n = 0;
        let goes_on = look.step(&mut |at| {
            n += 1;
            rows.push(at, wanted.sight.shown);
            let is_enough = n >= limit || rows.n_bytes >= BATCH_BYTES;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let found = rows.take(api, &wanted.queue);
        if !send(look, found) || api.turns.is_stopping.load(Ordering::Relaxed) {
            return Ok(End::Gone);
        }
        if !goes_on {
            return Ok(End::Complete);
        } else if look.n_matched >= bounds.limit {
            return Ok(End::Limit);
        } else if look.n_scanned >= bounds.scan_max {
            return Ok(End::Scanned);
        } else if api.now().monotonic_ms.get() >= bounds.until_ms {
            return Ok(End::TimeOver);
        }
        pace.rest();
    }
}

/// An event of a stream (`text/event-stream`).
pub(super) fn event(name: &str, data: &[u8]) -> Bytes {
    [b"event: ", name.as_bytes(), b"\ndata: ", data, b"\n\n"].concat().into()
}

/// Found messages as they come, with progress, as events of a stream (`text/event-stream`).
pub(crate) fn stream(call: &Call) -> Outcome {
    let fields = fields(call)?;
    let scan_max = number(&fields, "scan_max")?.unwrap_or(SCAN_MAX).min(SCAN_MOST);
    let timeout_ms = number(&fields, "timeout_ms")?.unwrap_or(TIMEOUT_MS).min(TIMEOUT_MOST_MS);
    let limit = number(&fields, "limit")?.unwrap_or(u64::MAX);
    let wanted = Wanted::with_beginnings(call, &fields)?;
    let (api, turn) = (Arc::clone(&call.api), call.api.turns.search(&call.asker())?);
    let write = move |take: &mut Take<'_>| {
        let _turn = turn;
        let mut told_ms = api.now().monotonic_ms.get();
        let bounds = Bounds { scan_max, until_ms: told_ms + timeout_ms, limit };
        let mut look = wanted.look(scan_max);
        let ended = look_through(&api, &wanted, &mut look, &bounds, &mut |look, found| {
            let mut is_there = take(Bytes::new());
            is_there &= found.iter().all(|row| take(event("match", row)));
            let now_ms = api.now().monotonic_ms.get();
            if now_ms >= told_ms + PROGRESS_EVERY_MS {
                told_ms = now_ms;
                is_there &= take(event("progress", progress(look).to_string().as_bytes()));
            }
            is_there
        });
        let last = match ended {
            Ok(end) => {
                let mut last = progress(&look);
                let is_complete = end == End::Complete;
                crate::objects::put_field(&mut last, "complete", is_complete.into());
                crate::objects::put_field(&mut last, "reason", end.as_str().into());
                let next = if is_complete { Value::Null } else { look.place() };
                crate::objects::put_field(&mut last, "next", next);
                event("end", last.to_string().as_bytes())
            }
            Err(refusal) => event("error", refusal.to_json(false).to_string().as_bytes()),
        };
        take(last);
    };
    Ok(Answer::Written { content_type: "text/event-stream", tag: None, write: Box::new(write) })
}

fn progress(look: &Look<'_>) -> Value {
    json!({"scanned": look.n_scanned, "matched": look.n_matched, "place": look.place()})
}

/// All messages of a queue, an object a line.
pub(crate) fn export(call: &Call) -> Outcome {
    let fields = fields(call)?;
    let limit = number(&fields, "limit")?.unwrap_or(u64::MAX);
    let wanted = Wanted::of(call, &fields, None)?;
    let (api, turn) = (Arc::clone(&call.api), call.api.turns.search(&call.asker())?);
    let write = move |take: &mut Take<'_>| {
        let _turn = turn;
        let bounds = Bounds { scan_max: u64::MAX, until_ms: u64::MAX, limit };
        let mut look = wanted.look(u64::MAX);
        let ended = look_through(&api, &wanted, &mut look, &bounds, &mut |_, found| {
            let mut lines = Vec::new();
            for row in found {
                lines.extend_from_slice(&row);
                lines.push(b'\n');
            }
            take(lines.into())
        });
        // The last line says why the export is cut off.
        if let Err(refusal) = ended {
            take(format!("{}\n", refusal.to_json(false)).into());
        }
    };
    Ok(Answer::Written { content_type: "application/x-ndjson", tag: None, write: Box::new(write) })
}
