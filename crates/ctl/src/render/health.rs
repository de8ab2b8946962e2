//! Health checks: what they show and when they fail.

use crate::failure::{Failure, code};
use crate::fields::{number, text};
use crate::output::{Answer, Format};
use crate::verb::Invocation;
use serde_json::{Value, json};

/// An object in JSON, otherwise the text.
#[expect(clippy::unnecessary_wraps, reason = "the end of many functions of this type")]
pub(crate) fn shown(
    invocation: &Invocation,
    object: Value,
    text: impl Into<String>,
) -> Result<Answer, Failure> {
    let is_json = invocation.format == Format::Json;
    Ok(if is_json { Answer::Object(object) } else { Answer::Text(text.into()) })
}

/// The failure of a check: an object in JSON, otherwise as given.
pub(crate) fn failed<T>(
    invocation: &Invocation,
    object: &Value,
    otherwise: Failure,
) -> Result<T, Failure> {
    let is_json = invocation.format == Format::Json;
    Err(if is_json { Failure::check(object.to_string()) } else { otherwise })
}

/// A passed check: quiet with `--silent`, and an object in JSON.
pub(crate) fn passed(
    invocation: &Invocation,
    object: Value,
    text: String,
) -> Result<Answer, Failure> {
    if invocation.format != Format::Json && invocation.flag("silent") {
        return Ok(Answer::Silent);
    }
    shown(invocation, object, text)
}

/// A failed check that says nothing with `--silent`.
pub(super) fn not_passed(
    invocation: &Invocation,
    object: &Value,
    text: Failure,
) -> Result<Answer, Failure> {
    let silent = Failure { code: code::UNAVAILABLE, text: None };
    failed(invocation, object, if invocation.flag("silent") { silent } else { text })
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Whether the node runs, and the sentence that says so.
fn running(invocation: &Invocation, state: &Value) -> (bool, String) {
    let node = invocation.node();
    let running = state.get("running").and_then(Value::as_bool).unwrap_or_default();
    let text = if running {
        format!("RabbitMQ on node {node} is fully booted and running")
    } else {
        format!(
            "RabbitMQ on node {node} is not running or has not fully booted yet \
             (check with is_booting)"
        )
    };
    (running, text)
}

pub(crate) fn check_running(invocation: &Invocation, state: Value) -> Result<Answer, Failure> {
    let (running, text) = running(invocation, &state);
    if running { Ok(Answer::Text(text)) } else { Err(Failure::error(code::UNAVAILABLE, text)) }
}

pub(crate) fn is_running(invocation: &Invocation, state: Value) -> Result<Answer, Failure> {
    let (running, text) = running(invocation, &state);
    shown(invocation, json!({"result": running, "message": text}), text)
}

pub(crate) fn is_booting(invocation: &Invocation, state: Value) -> Result<Answer, Failure> {
    let (running, _) = running(invocation, &state);
    let node = invocation.node();
    let text = if running {
        format!(
            "RabbitMQ on node {node} is fully booted (check with is_running), stopped or has \
             not started booting yet"
        )
    } else {
        format!("RabbitMQ on node {node} is booting")
    };
    shown(invocation, json!({"result": !running, "message": text}), text)
}

/// A line for each alarm.
pub(crate) fn alarm_lines(alarms: &Value) -> Vec<String> {
    let line = |alarm: &Value| {
        let node = text(alarm, "node");
        match text(alarm, "resource") {
            "memory" => format!("Memory alarm on node {node}"),
            "disk" => format!("Free disk space alarm on node {node}"),
            "file_descriptor_limit" => format!("File descriptor limit alarm on node {node}"),
            other => format!("{other} alarm on node {node}"),
        }
    };
    items(alarms).map(line).collect()
}

/// The heaviest users of the node, once however many alarms are on.
pub(crate) fn heaviest_lines(alarms: &Value) -> Vec<String> {
    let sentences = alarms.pointer("/0/heaviest/sentences").and_then(Value::as_array);
    let sentences = sentences.into_iter().flatten().filter_map(Value::as_str);
    sentences.map(|sentence| format!("Heaviest: {sentence}")).collect()
}

pub(crate) fn alarms(invocation: &Invocation, alarms: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    let lines = alarm_lines(&alarms);
    if lines.is_empty() {
        let object = json!({"result": "ok", "node": node, "alarms": []});
        let text = format!("Node {node} reported no alarms, local or clusterwide");
        return shown(invocation, object, text);
    }
    let heaviest = heaviest_lines(&alarms);
    let object = json!({
        "result": "ok", "local": lines, "global": [], "heaviest": heaviest,
        "message": format!("Node {node} reported alarms"),
    });
    shown(invocation, object, [lines, heaviest].concat().join("\n"))
}

pub(crate) fn check_alarms(invocation: &Invocation, alarms: Value) -> Result<Answer, Failure> {
    let text = "reported no alarms, local or clusterwide";
    check_no_alarms(invocation, &alarms, text)
}

pub(crate) fn check_local_alarms(
    invocation: &Invocation,
    alarms: Value,
) -> Result<Answer, Failure> {
    check_no_alarms(invocation, &alarms, "reported no local alarms")
}

fn check_no_alarms(
    invocation: &Invocation,
    alarms: &Value,
    all_clear: &str,
) -> Result<Answer, Failure> {
    let node = invocation.node();
    let lines = alarm_lines(alarms);
    if lines.is_empty() {
        return passed(invocation, json!({"result": "ok"}), format!("Node {node} {all_clear}"));
    }
    let object = json!({
        "result": "error", "local": lines, "global": [],
        "message": format!("Node {node} reported alarms"),
    });
    not_passed(invocation, &object, Failure::check(lines.join("\n")))
}

/// The ports listened on, sorted.
pub(crate) fn ports(listeners: &Value) -> Vec<u64> {
    let mut ports: Vec<u64> =
        items(listeners).filter_map(|listener| listener.get("port")?.as_u64()).collect();
    ports.sort_unstable();
    ports
}

fn joined(ports: &[u64]) -> String {
    ports.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// A line for each listener, after `prefix`.
pub(crate) fn interface_lines(listeners: &Value, prefix: &str) -> Vec<String> {
    let line = |listener: &Value| {
        format!(
            "{prefix}nterface: {}, port: {}, protocol: {}, purpose: {}",
            text(listener, "interface"),
            number(listener, "port"),
            text(listener, "protocol"),
            text(listener, "purpose")
        )
    };
    items(listeners).map(line).collect()
}

pub(crate) fn listeners(invocation: &Invocation, listeners: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    let lines = interface_lines(&listeners, "I");
    let text = if lines.is_empty() {
        format!("Node {node} reported no enabled listeners.")
    } else {
        lines.join("\n")
    };
    shown(invocation, json!({"result": "ok", "node": node, "listeners": listeners}), text)
}

pub(crate) fn check_port_listener(
    invocation: &Invocation,
    listeners: Value,
) -> Result<Answer, Failure> {
    let (node, port) = (invocation.node(), invocation.param("port"));
    let ports = ports(&listeners);
    if ports.iter().any(|found| found.to_string() == port) {
        let text = format!("A listener for port {port} is running on node {node}.");
        return shown(invocation, json!({"result": "ok", "node": node, "port": port}), text);
    }
    let object =
        json!({"result": "error", "missing": port, "ports": ports, "listeners": listeners});
    let text = format!(
        "No listener for port {port} is active on node {node}. \
         Found listeners that use the following ports: {}",
        joined(&ports)
    );
    failed(invocation, &object, Failure::check(text))
}

pub(crate) fn check_protocol_listener(
    invocation: &Invocation,
    listeners: Value,
) -> Result<Answer, Failure> {
    let node = invocation.node();
    let protocol = api::protocol_name(invocation.param("protocol"));
    let mut found: Vec<&str> =
        items(&listeners).map(|listener| text(listener, "protocol")).collect();
    if found.contains(&protocol.as_str()) {
        let text = format!("A listener for protocol {protocol} is running on node {node}.");
        return shown(
            invocation,
            json!({"result": "ok", "node": node, "protocol": protocol}),
            text,
        );
    }
    let object = json!({
        "result": "error", "missing": protocol, "protocols": found, "listeners": listeners,
    });
    found.sort_unstable();
    let text = format!(
        "No listener for protocol {protocol} is active on node {node}. \
         Found listeners for the following protocols: {}",
        found.join(", ")
    );
    failed(invocation, &object, Failure::error(code::UNAVAILABLE, text))
}

pub(crate) fn check_virtual_hosts(invocation: &Invocation, down: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    let down: Vec<&str> = items(&down).filter_map(Value::as_str).collect();
    if down.is_empty() {
        return passed(
            invocation,
            json!({"result": "ok"}),
            format!("Node {node} reported all vhosts as running"),
        );
    }
    let text = format!("Some virtual hosts on node {node} are down:\n{}", down.join("\n"));
    let object = json!({"result": "error", "down_vhosts": down});
    not_passed(invocation, &object, Failure::error(code::UNAVAILABLE, text))
}

pub(crate) fn server_version(invocation: &Invocation, version: Value) -> Result<Answer, Failure> {
    let text = version.as_str().unwrap_or_default().to_owned();
    shown(invocation, json!({"result": "ok", "value": version}), text)
}

/// The names of those in use.
pub(crate) fn check_deprecated_features(
    invocation: &Invocation,
    used: Value,
) -> Result<Answer, Failure> {
    let names: Vec<&str> = items(&used).map(|feature| text(feature, "name")).collect();
    if names.is_empty() {
        let text = "Cluster reported no deprecated features in use";
        return shown(invocation, json!({"result": "ok"}), text);
    }
    let message = "Cluster reported deprecated features in use";
    let object = json!({"result": "error", "deprecated_features": names, "message": message});
    failed(invocation, &object, Failure::check(format!("{message}: {}", names.join(", "))))
}
