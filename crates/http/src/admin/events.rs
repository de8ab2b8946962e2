//! An operator's look at the last events.

use super::Reply;
use super::recent::{Last, last};
use crate::request::Request;
use api::ErrorCode;
use meta::TopicPattern;
use meta::definitions::table_to_json;
use mgmt::{ApiError, Management};
use serde_json::json;
use trace::events::Event;

/// The last events, with greater numbers than `after` and lesser ones than `before`, whose name matches the
/// topic pattern `name`, with `text` in their headers.
pub(crate) fn events(management: &Management, request: &Request) -> Reply {
    let pattern = request.optional_text("name")?.filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(TopicPattern::new).transpose();
    let pattern =
        pattern.map_err(|error| ApiError::new(ErrorCode::BadRequest, error.to_string()))?;
    let ring = management.broker.events().read();
    let Last { shown, first, next } = last(ring, request, "count", |number, event, text| {
        let Event { unix_ms, name, .. } = event;
        if pattern.as_ref().is_some_and(|pattern| !pattern.matches(name)) {
            return None;
        }
        let headers = table_to_json(&event.headers());
        (text.is_empty() || headers.to_string().to_lowercase().contains(text)).then(
            || json!({"n": number, "timestamp": unix_ms.get(), "event": name, "headers": headers}),
        )
    })?;
    Ok(json!({"events": shown, "first": first, "next": next}))
}
