//! Removals of queues and their messages: their kinds, figures, and whether a request confirms one.

use crate::refusal::Refusal;
use crate::request::Request;
use serde_json::{Value, json};

/// Way in which a queue's messages are removed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Removal {
    Purge,
    Delete { if_unused: bool, if_empty: bool },
}

impl Removal {
    pub(super) fn delete(request: &Request) -> Self {
        let wants = |dashed, plain| request.flag(dashed) || request.flag(plain);
        Self::Delete {
            if_unused: wants("if-unused", "if_unused"),
            if_empty: wants("if-empty", "if_empty"),
        }
    }
}

/// Figures of what is removed.
pub(super) fn removed(n_ready: u64, n_unacked: u64, n_consumers: u64) -> Value {
    json!({
        "messages_ready": n_ready, "messages_unacknowledged": n_unacked, "consumers": n_consumers,
    })
}

/// Whether a change is to be made now: if `expected` is there, and is how many there are.
pub(super) fn is_confirmed(request: &Request, n: u64) -> Result<bool, Refusal> {
    if request.value("expected").is_none() || request.flag("dry_run") {
        return Ok(false);
    }
    match request.number("expected") {
        Some(expected) if u64::try_from(expected) == Ok(n) => Ok(true),
        Some(expected) => Err(Refusal::conflict(format!("{n} found, not {expected}"))),
        None => Err(Refusal::bad_request("expected must be a number, 0 or more")),
    }
}
