//! Turns what the node said into what is shown.

mod formation;
mod health;
mod refused;
mod status;
mod tls;

pub(crate) use formation::{check_quorum_critical, check_target_cluster_size, discovered_peers};
pub(crate) use health::{
    alarm_lines, alarms, check_alarms, check_deprecated_features, check_local_alarms,
    check_port_listener, check_protocol_listener, check_running, check_virtual_hosts, failed,
    heaviest_lines, interface_lines, is_booting, is_running, listeners, passed, ports,
    server_version, shown,
};
pub(crate) use refused::refused;
pub(crate) use status::{cluster_status, log_location, memory_breakdown, os_env, status};
pub(crate) use tls::{check_certificate_expiration, lines};

use crate::output::{Answer, Form, Rows};
use crate::verb::Invocation;
use serde_json::Value;

/// A listing that came in one piece.
pub(crate) fn rows(columns: &'static str, answer: &Value) -> Answer {
    Answer::Rows(Rows::of(columns, answer, Form::Whole))
}

/// The limits of one of those that have some, as JSON text.
pub(crate) fn limits_of(key: &str, name: &str, rows: &Value) -> Option<String> {
    let mut rows = rows.as_array().into_iter().flatten();
    let row = rows.find(|row| row.get(key).and_then(Value::as_str) == Some(name))?;
    row.get("value").map(Value::to_string)
}

/// Puts values into `{...}`: fields of the answer, parameters, `vhost`, `node` and `priority`.
pub(crate) fn filled(template: &str, invocation: &Invocation, answer: &Value) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(before);
        match answer.get(name) {
            Some(value) => text.push_str(&value.to_string()),
            None => text.push_str(&value_of(name, invocation)),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

fn value_of(name: &str, invocation: &Invocation) -> String {
    match invocation.params.get(name) {
        Some(Value::String(text)) => return text.clone(),
        Some(_) => return invocation.args(name).collect::<Vec<_>>().join(", "),
        None => {}
    }
    match name {
        "vhost" => invocation.vhost().to_owned(),
        "node" => invocation.node().to_owned(),
        "priority" => invocation.number("priority").unwrap_or_default().to_string(),
        _ => String::new(),
    }
}
