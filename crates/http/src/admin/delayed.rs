//! Messages that an exchange holds back, or that wait in a quorum queue to be tried again.

use super::Reply;
use crate::request::Request;
use api::ErrorCode;
use classic::Delayed;
use conversion::to_amqp091;
use inspect::LookedAt;
use meta::{Candidate, Filter};
use mgmt::{ApiError, Management, off_sockets};
use queue::Standing;
use queues::QueueRef;
use serde_json::{Value, json};
use std::sync::Arc;

/// Rows when nothing is said about how many.
const ROWS: usize = 1_000;
/// The most rows there are, whatever is said.
const ROWS_MAX: usize = 100_000;

/// The messages that an exchange delays. What is on disk only is read on a thread that may wait.
pub(crate) async fn list(management: &Management, request: &Request) -> Reply {
    let (vhost, exchange) = (request.vhost()?, request.name("exchange")?);
    let limit = request.number("limit").and_then(|limit| usize::try_from(limit).ok());
    let n_max = limit.unwrap_or(ROWS).min(ROWS_MAX);
    management.broker.operations().held_back_is_known(&vhost, &exchange).await;
    let broker = Arc::clone(&management.broker);
    let held = tokio::task::spawn_blocking(move || {
        broker.operations().held_back(&vhost, &exchange, n_max)
    })
    .await;
    let held = held.ok().flatten().ok_or_else(no_delays)?;
    Ok(held.iter().map(object).collect())
}

/// A delayed message as an object; unknown fields are null.
fn object(held: &Delayed) -> Value {
    let message = held.message.as_ref();
    json!({
        "id": held.id,
        "due_ms": held.due_ms.get(),
        "exchange": message.map(|message| &message.exchange),
        "routing_key": message.map(|message| &message.routing_key),
        "body_bytes": message.map(|message| message.body_bytes),
        "persistent": message.map(|message| message.persistent),
    })
}

/// Drops one of them.
pub(crate) async fn cancel(management: &Management, request: &Request) -> Reply {
    let (vhost, exchange) = (request.vhost()?, request.text("exchange")?);
    let id = request.text("id")?;
    let cancelled = match id.parse() {
        Ok(id) => management.broker.operations().cancel_held_back(&vhost, exchange, id).await,
        Err(_) => false,
    };
    if cancelled {
        return Ok(Value::Null);
    }
    Err(lacking("exchange", exchange, id))
}

fn no_delays() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "no delayed message exchange of this name")
}

fn lacking(kind: &str, name: &str, id: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("{kind} '{name}' has no delayed message {id}"))
}

/// The quorum queue of that name.
fn quorum_queue(management: &Management, vhost: &str, name: &str) -> Result<QueueRef, ApiError> {
    let queue = management.broker.queue(vhost, name);
    queue
        .filter(|queue| queue.as_quorum().is_some())
        .ok_or_else(|| ApiError::new(ErrorCode::NotFound, "no quorum queue of this name"))
}

/// Reschedules a delayed message of an exchange or of a queue, or those that match a filter: they go on
/// `delay_ms` from now, or at once without it.
pub(crate) async fn reschedule(management: &Management, request: &Request) -> Reply {
    let (vhost, exchange) = (request.vhost()?, request.optional("exchange"));
    let (kind, name) = match exchange {
        Some(exchange) => ("exchange", exchange),
        None => ("queue", request.text("queue")?),
    };
    let invalid = |text: String| ApiError::new(ErrorCode::BadRequest, text);
    let delay_ms = u32::try_from(request.integer("delay_ms")?.unwrap_or_default());
    let delay_ms = delay_ms.map_err(|_| invalid(format!("delay_ms must be 0 to {}", u32::MAX)))?;
    let id =
        request.optional("id").map(|id| id.parse::<u64>().map_err(|_| lacking(kind, name, id)));
    let id = id.transpose()?;
    let filter = request.optional_text("filter")?;
    let filter = filter.map(|text| off_sockets(|| Filter::parse(text))).transpose();
    let filter = filter.map_err(|error| invalid(format!("filter, {error}")))?;
    if id.is_some() == filter.is_some() {
        return Err(invalid("an id or a filter is required".to_owned()));
    }
    let queue = match exchange {
        Some(name) => management.broker.operations().delayed_queue(&vhost, name),
        None => Some(quorum_queue(management, &vhost, name)?),
    };
    let queue = queue.ok_or_else(no_delays)?;
    queue.loaded().await;
    let filter = Arc::new(filter);
    let mut place = Some(id.map_or((0, None), |id| (id, Some(id.saturating_add(1)))));
    let mut n = 0;
    while let Some(from) = place {
        if let Some(why) = request.course.end() {
            tracing::warn!("only {n} delayed messages of {kind} '{name}' were rescheduled: {why}");
            return Err(ApiError::new(
                ErrorCode::Ended,
                format!("only {n} messages were rescheduled: {why}"),
            ));
        }
        let (broker, queue_of) = (Arc::clone(&management.broker), queue.clone());
        let filter = Arc::clone(&filter);
        let picked = tokio::task::spawn_blocking(move || {
            let waits = |at: &LookedAt<'_>| matches!(at.seen.standing, Standing::Delayed(_));
            let is_quorum = queue_of.as_quorum().is_some();
            let is_picked = |at: &LookedAt<'_>| {
                (!is_quorum || waits(at)) && is_match(filter.as_ref().as_ref(), at)
            };
            broker.operations().pick_held_back(&queue_of, from, &is_picked)
        });
        let (picked, next) = picked.await.ok().and_then(Result::ok).ok_or_else(unreadable)?;
        let operations = management.broker.operations();
        let done = operations.reschedule_held_back(&queue, &picked, delay_ms).await;
        n += done.map_err(|_| unreadable())?;
        place = next;
    }
    match id {
        Some(id) if n == 0 => Err(lacking(kind, name, &id.to_string())),
        _ => Ok(json!({"rescheduled": n})),
    }
}

fn is_match(filter: Option<&Filter>, at: &LookedAt<'_>) -> bool {
    let mut converted = Vec::new();
    let message = &to_amqp091(&at.seen.message, &mut converted);
    let candidate = Candidate { message, body: Some(message.body.bytes()), redelivered: false };
    filter.is_none_or(|filter| filter.matches(&candidate))
}

fn unreadable() -> ApiError {
    ApiError::new(ErrorCode::Refused, "the messages could not be read or stored")
}
