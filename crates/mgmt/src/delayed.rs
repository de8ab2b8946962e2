//! Messages that an exchange holds back.

use crate::api_error::{ApiError, Kind};
use crate::{Management, Request, Told};
use broker::Delayed;
use serde_json::{Value, json};
use std::sync::Arc;

/// Rows when nothing is said about how many.
const ROWS: usize = 1_000;
/// The most rows there are, whatever is said.
const ROWS_MAX: usize = 100_000;

/// The messages that an exchange delays. What is on disk only is read on a thread that may wait.
pub async fn list(management: &Management, request: &Request) -> Told {
    let (vhost, exchange) = (request.vhost()?, request.name("exchange")?);
    let limit = request.number("limit").and_then(|limit| usize::try_from(limit).ok());
    let n_max = limit.unwrap_or(ROWS).min(ROWS_MAX);
    management.broker.operations().held_back_is_known(&vhost, &exchange).await;
    let broker = Arc::clone(&management.broker);
    let held = tokio::task::spawn_blocking(move || {
        broker.operations().held_back(&vhost, &exchange, n_max)
    })
    .await;
    let held = held.ok().flatten().ok_or_else(|| {
        ApiError::new(Kind::NotFound, "there is no exchange of that name that delays messages")
    })?;
    Ok(held.iter().map(object).collect())
}

/// A delayed message as an object; unknown fields are null.
fn object(held: &Delayed) -> Value {
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

/// Drops one of them.
pub async fn cancel(management: &Management, request: &Request) -> Told {
    let (vhost, exchange) = (request.vhost()?, request.text("exchange")?);
    let id = request.text("id")?;
    let cancelled = match id.parse() {
        Ok(id) => management.broker.operations().cancel_held_back(&vhost, exchange, id).await,
        Err(_) => false,
    };
    if cancelled {
        return Ok(Value::Null);
    }
    Err(ApiError::new(Kind::NotFound, format!("exchange '{exchange}' delays no message {id}")))
}
