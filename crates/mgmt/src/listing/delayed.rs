//! The listing of messages that an exchange holds back.

use crate::Management;
use crate::api_error::{ApiError, Kind};
use crate::request::Request;
use broker::Delayed;
use serde_json::{Value, json};
use std::sync::Arc;

/// Rows when nothing is said about how many.
const ROWS: usize = 1_000;
/// The most rows there are, whatever is said.
const ROWS_MAX: usize = 100_000;

/// Lists them; `None` for other questions. What is on disk only is read on a thread that may wait.
pub(crate) async fn rows(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    if endpoint != "list_delayed_messages" {
        return None;
    }
    Some(messages(management, request).await)
}

async fn messages(management: &Management, request: &Request) -> Result<Value, ApiError> {
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
