//! Which settings a policy may have.

use super::{json_text, not_valid};
use crate::refusal::Refusal;
use meta::{Json, PolicyScope};
use serde_json::Value;

/// Settings that operators may override.
const OPERATOR: &[&str] = &[
    "expires",
    "message-ttl",
    "max-length",
    "max-length-bytes",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delivery-limit",
    "queue-version",
    "overflow",
    "target-group-size",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
];

/// Settings of users' policies only.
const USER: &[&str] = &[
    "alternate-exchange",
    "consumer-disconnected-timeout",
    "consumer-timeout",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "queue-mode",
    "max-age",
    "stream-max-segment-size-bytes",
    "stream-filter-size-bytes",
    "queue-leader-locator",
    "queue-master-locator",
    "initial-cluster-size",
    "federation-upstream",
    "federation-upstream-set",
    "federation-upstream-pattern",
    "shards-per-node",
    "routing-key",
];

/// The definition as JSON, unless it sets something unknown. The values are checked where they are
/// applied.
pub(super) fn checked(text: &str, scope: PolicyScope) -> Result<Json, Refusal> {
    let json = json_text(text)?;
    let Value::Object(settings) = json.value() else { return Ok(json) };
    let is_known = |name: &str| {
        OPERATOR.contains(&name)
            || match scope {
                PolicyScope::User => USER.contains(&name),
                PolicyScope::Operator => false,
            }
    };
    // COMPAT: the Erlang terms.
    let unknown: Vec<String> = settings
        .iter()
        .filter(|(name, _)| !is_known(name))
        .map(|(name, value)| format!("{{<<\"{name}\">>,{}}}", term(value)))
        .collect();
    if unknown.is_empty() {
        return Ok(json);
    }
    Err(not_valid(&format!("[{}] are not recognised policy settings\n", unknown.join(","))))
}

fn term(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<<\"{text}\">>"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
