//! Health checks: 200, or 503 with what is wrong. Never from anything that was kept.

use crate::admin::certificates;
use crate::admin::node::endangered;
use crate::call::{Answer, Call, Outcome};
use crate::refusal::Refusal;
use api::PeriodUnit;
use axum::http::StatusCode;
use broker::Alarm;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// All is well.
fn ok() -> Outcome {
    Ok(Answer::Json(json!({"status": "ok"})))
}

pub(super) fn failed(reason: &str, more: Value) -> Outcome {
    let mut object = json!({"status": "failed", "reason": reason});
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    Ok(Answer::Status(StatusCode::SERVICE_UNAVAILABLE, object))
}

/// A check that only a cluster or a dying node could fail.
pub(crate) fn passes(_: &Call) -> Outcome {
    ok()
}

/// Passes the check that the definitions keep their quorum without this node. COMPAT: a single node always
/// passes.
pub(crate) fn quorum_critical(call: &Call) -> Outcome {
    let (is_alone, endangered) = endangered(&call.api.management);
    if is_alone {
        return Ok(Answer::Json(json!({"status": "ok", "reason": "single node cluster"})));
    }
    if endangered.is_empty() {
        return ok();
    }
    let text =
        "There are quorum queues that would lose their quorum if the target node is shut down";
    failed(text, json!({"queues": endangered}))
}

pub(crate) fn alarms(call: &Call) -> Outcome {
    if !call.param("node").is_empty() {
        call.check_node()?;
    }
    let management = &call.api.management;
    let node = &management.node_info.name;
    let object = |alarm: Alarm| json!({"node": node, "resource": alarm.as_str()});
    let alarms: Vec<Value> = management.alarms().map(object).collect();
    if alarms.is_empty() {
        return ok();
    }
    failed("There are alarms in effect in the cluster", json!({"alarms": alarms}))
}

pub(crate) fn port_listener(call: &Call) -> Outcome {
    let port: u32 = call.param("port").parse().map_err(|_| Refusal::bad_request("Invalid port"))?;
    let listeners = call.api.management.open_listeners();
    let ports: Vec<u32> = listeners.iter().map(|one| one.address.port().into()).collect();
    if ports.contains(&port) {
        return Ok(Answer::Json(json!({"status": "ok", "port": port})));
    }
    failed("No active listener", json!({"missing": port, "ports": ports}))
}

pub(crate) fn protocol_listener(call: &Call) -> Outcome {
    let listeners = call.api.management.open_listeners();
    let open: Vec<&str> = listeners.iter().map(|listener| listener.protocol).collect();
    let wanted = call.param("protocols").split(',').map(|word| word.trim().to_lowercase());
    let mut missing: Vec<String> = wanted.map(|protocol| protocol_name(&protocol)).collect();
    missing.retain(|protocol| !open.contains(&protocol.as_str()));
    if missing.is_empty() {
        return Ok(Answer::Json(json!({"status": "ok", "protocols": open})));
    }
    failed("No active listener", json!({"missing": missing, "protocols": open}))
}

/// RabbitMQ's name of a protocol. COMPAT: its listeners of AMQP serve version 1.0 too.
fn protocol_name(word: &str) -> String {
    match word {
        "amqp10" | "amqp1.0" | "amqp1-0" => "amqp".to_owned(),
        other => api::protocol_name(other),
    }
}

pub(crate) fn certificates(call: &Call) -> Outcome {
    let within: u64 = call
        .param("within")
        .parse()
        .map_err(|_| Refusal::bad_request("Invalid expiration value."))?;
    let days = PeriodUnit::of_name(call.param("unit")).map(PeriodUnit::days).ok_or_else(|| {
        let units = PeriodUnit::NAMES.join(", ");
        Refusal::bad_request(format!("Time unit not recognised. Supported units: {units}."))
    })?;
    let span = Duration::from_secs(within.saturating_mul(u64::from(days) * 24 * 3600));
    let expired = call.api.management.certificates_expiring_within(span);
    if expired.is_empty() {
        return ok();
    }
    failed(
        "Certificates expiring",
        json!({"expired": expired.iter().map(certificates::row).collect::<Value>()}),
    )
}

pub(crate) fn below_connection_limit(call: &Call) -> Outcome {
    let broker = &call.api.management.broker;
    let (current, limit) = (broker.connections.len() as u64, call.api.connections_max);
    if limit.is_none_or(|limit| current < limit) {
        return ok();
    }
    failed("node connection limit is reached", json!({"limit": limit, "connections": current}))
}

pub(crate) fn ready_to_serve(call: &Call) -> Outcome {
    let management = &call.api.management;
    if !management.running.load(Ordering::Relaxed) {
        return failed("the rabbit node is not running", json!({}));
    }
    if management.open_listeners().is_empty() {
        return failed("the rabbit node is in maintenance mode", json!({}));
    }
    ok()
}

pub(crate) fn in_service(call: &Call) -> Outcome {
    if call.api.management.broker.connections.in_maintenance.load(Ordering::Relaxed) {
        return failed("this rabbit node is in maintenance mode", json!({}));
    }
    ready_to_serve(call)
}

pub(crate) fn without_leaders(call: &Call) -> Outcome {
    let pattern = call.param("pattern");
    if !pattern.is_empty() {
        meta::Pattern::within_budget(pattern)?;
    }
    ok()
}
