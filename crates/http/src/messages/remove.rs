//! Messages that an operator removes: counted first, and only if no more than that are to go.

use super::look::number;
use super::select::Selection;
use crate::call::{Answer, Call, Outcome};
use crate::objects::{flag, undo};
use crate::refusal::Refusal;
use ::undo::Taking;
use axum::http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Removes messages, or tells which they would be.
pub(crate) async fn messages(call: &Call) -> Outcome {
    let fields = call.object()?;
    let is_dry = flag(&fields, "dry_run")?;
    let expected = number(&fields, "expected")?;
    let selection = Selection::of(call, &fields)?;
    let queue = selection.wanted.queue.clone();
    let (api, _turn) = (Arc::clone(&call.api), call.api.turns.search(&call.asker())?);
    let picked = spawn_blocking(move || selection.pick(&api)).await;
    let (picked, first) = picked.unwrap_or_else(|_| Err(Refusal::internal()))?;
    let n_matched = picked.len() as u64;
    if is_dry {
        let bytes = picked.iter().map(|it| it.body_bytes).sum();
        let mut out = told(n_matched, &first);
        out.pop();
        out.extend_from_slice(
            format!(",\"undo\":{}}}", undo::offer(call, n_matched, bytes)).as_bytes(),
        );
        return Ok(Answer::Raw(out));
    }
    match expected {
        None => {
            let text = "expected must be the number of messages that a dry run returned (dry_run)";
            return Err(Refusal::bad_request(text));
        }
        Some(expected) if n_matched > expected => {
            let reason = format!("{n_matched} messages match, not {expected}");
            let conflict = json!({"error": "conflict", "reason": reason, "matched": n_matched});
            return Ok(Answer::Status(StatusCode::CONFLICT, conflict));
        }
        Some(_) => {}
    }
    let taken = undo::take_out(call, queue, Taking::Remove(picked)).await?;
    let (n_removed, undo) = (taken.n_messages, taken.undo.map(|entry| undo::shown(&entry)));
    Ok(Answer::Json(json!({"matched": n_matched, "removed": n_removed, "undo": undo})))
}

/// The number of messages that are picked, and the first of them.
pub(super) fn told(n_matched: u64, first: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("{{\"matched\":{n_matched},\"first\":[").into_bytes();
    out.extend_from_slice(&first.join(&b","[..]));
    out.extend_from_slice(b"]}");
    out
}
