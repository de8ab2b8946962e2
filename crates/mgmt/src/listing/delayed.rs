//! The listing of messages that an exchange holds back.

use crate::Management;
use crate::refusal::{Kind, Refusal};
use crate::request::Request;
use broker::HeldBack;
use serde_json::{Value, json};

/// Rows when nothing is said about how many.
const ROWS: usize = 1_000;
/// The most rows there are, whatever is said.
const ROWS_MAX: usize = 100_000;

pub(super) fn messages(management: &Management, request: &Request) -> Result<Value, Refusal> {
    let (vhost, exchange) = (request.vhost()?, request.name("exchange")?);
    let limit = request.number("limit").and_then(|limit| usize::try_from(limit).ok());
    let n_max = limit.unwrap_or(ROWS).min(ROWS_MAX);
    let held = management.broker.held_back(&vhost, &exchange, n_max);
    let held = held.ok_or_else(|| {
        Refusal::new(Kind::NotFound, "there is no exchange of that name that delays messages")
    })?;
    Ok(held.iter().map(object).collect())
}

/// What is not known of a message that is on disk only is null.
fn object(held: &HeldBack) -> Value {
    let message = held.message.as_ref();
    json!({
        "id": held.id,
        "due_ms": held.due_ms,
        "exchange": message.map(|message| &message.exchange),
        "routing_key": message.map(|message| &message.routing_key),
        "body_bytes": message.map(|message| message.body_bytes),
        "persistent": message.map(|message| message.persistent),
    })
}
