//! Answers about TLS.

use super::health::{failed, shown};
use crate::failure::Failure;
use crate::output::Answer;
use crate::verb::Invocation;
use api::PeriodUnit;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Fails with the certificates that expire within so many of the units.
pub(crate) fn check_certificate_expiration(
    invocation: &Invocation,
    certificates: &Value,
    within: i64,
    unit: PeriodUnit,
) -> Result<Answer, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let period = within.saturating_mul(i64::from(unit.days()) * 24 * 3600);
    let end = i64::try_from(now).unwrap_or(i64::MAX).saturating_add(period);
    let expires = |it: &&Value| it.get("not_after").and_then(Value::as_i64) <= Some(end);
    let expiring: Vec<&Value> =
        certificates.as_array().into_iter().flatten().filter(expires).collect();
    if expiring.is_empty() {
        let unit = unit.as_str();
        let unit = if within == 1 { unit.trim_end_matches('s') } else { unit };
        let text = format!("No certificates are expiring within {within} {unit}.");
        return shown(invocation, json!({"result": "ok"}), text);
    }
    let text = |name: &str, it: &Value| {
        it.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let line = |it: &&Value| {
        format!("{} ({}): {}", text("file", it), text("subject", it), text("validity", it))
    };
    let lines: Vec<String> = expiring.iter().map(line).collect();
    let object = json!({"result": "error", "expired": expiring});
    failed(invocation, &object, Failure::check(lines.join("\n")))
}

/// Shows one name per line, or in JSON an object that has the names under `key`.
pub(crate) fn lines(invocation: &Invocation, key: &str, names: &Value) -> Result<Answer, Failure> {
    let all: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = all.join("\n");
    shown(invocation, json!({key: names}), text)
}
