//! The node's log: its last lines, and changes of it while the node runs.

use super::Reply;
use super::recent::{Last, last};
use crate::request::Request;
use api::ErrorCode;
use mgmt::{ApiError, LogLine, Management};
use serde_json::{Value, json};

/// RabbitMQ's names of levels, the gravest first.
const LEVELS: [&str; 4] = ["error", "warning", "info", "debug"];

/// The last lines, with greater numbers than `after` and lesser ones than `before`, of at least `level`, with
/// `text` in them.
pub(crate) fn lines(management: &Management, request: &Request) -> Reply {
    let least = request.optional_text("level")?.unwrap_or("debug");
    let least = LEVELS.iter().position(|level| *level == least).ok_or_else(|| {
        ApiError::new(ErrorCode::BadRequest, format!("level must be one of {}", LEVELS.join(", ")))
    })?;
    let log = &management.log;
    let Last { shown, first, next } =
        last(log.last_lines(), request, "lines", |number, line, text| {
            let LogLine { unix_ms, level, category, text: said } = line;
            let is_wanted = LEVELS.iter().take(least + 1).any(|wanted| wanted == level)
                && said.to_lowercase().contains(text);
            is_wanted.then(|| {
                json!({
                    "n": number, "timestamp": unix_ms, "level": level, "category": category,
                    "text": **said,
                })
            })
        })?;
    Ok(json!({"lines": shown, "first": first, "next": next, "level": log.level()}))
}

/// Sets the log's level until the next start, as RabbitMQ does; the configured level counts then.
pub(crate) fn set_level(management: &Management, request: &Request) -> Reply {
    let level = request.text("level")?;
    if management.log.set_level(level) {
        tracing::info!("management: set the log level to {level}");
        return Ok(Value::Null);
    }
    Err(ApiError::new(ErrorCode::Invalid, format!("unknown log level '{level}'")))
}

/// Opens the log anew.
pub(crate) fn reopen(management: &Management, _: &Request) -> Reply {
    management.log.reopen().map(|()| Value::Null).map_err(|error| {
        ApiError::new(ErrorCode::Invalid, format!("cannot reopen the log: {error}"))
    })
}
