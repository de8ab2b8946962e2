//! Health checks: what they show and when they fail.

use crate::failure::{Failure, code};
use crate::output::{Answer, Format};
use crate::verb::Invocation;
use serde_json::{Value, json};

fn is_json(invocation: &Invocation) -> bool {
    invocation.format == Format::Json
}

fn running(state: &Value) -> bool {
    state.get("running").and_then(Value::as_bool).unwrap_or_default()
}

fn running_text(invocation: &Invocation, running: bool) -> String {
    let node = invocation.node();
    if running {
        format!("RabbitMQ on node {node} is fully booted and running")
    } else {
        format!(
            "RabbitMQ on node {node} is not running or has not fully booted yet \
             (check with is_booting)"
        )
    }
}

/// A passed check: quiet with `--silent`, and an object in JSON.
fn passed(invocation: &Invocation, text: String) -> Answer {
    if is_json(invocation) {
        Answer::Object(json!({"result": "ok"}))
    } else if invocation.flag("silent") {
        Answer::Silent
    } else {
        Answer::Text(text)
    }
}

/// As [`passed`], with the text in JSON too.
pub(crate) fn passed_with(invocation: &Invocation, text: String) -> Answer {
    if is_json(invocation) {
        return Answer::Object(json!({"result": "ok", "message": text}));
    }
    passed(invocation, text)
}

pub(crate) fn check_running(invocation: &Invocation, state: Value) -> Result<Answer, Failure> {
    let running = running(&state);
    let text = running_text(invocation, running);
    if running { Ok(Answer::Text(text)) } else { Err(Failure::error(code::UNAVAILABLE, text)) }
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn is_running(invocation: &Invocation, state: Value) -> Result<Answer, Failure> {
    let running = running(&state);
    let text = running_text(invocation, running);
    Ok(if is_json(invocation) {
        Answer::Object(json!({"result": running, "message": text}))
    } else {
        Answer::Text(text)
    })
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn is_booting(invocation: &Invocation, state: Value) -> Result<Answer, Failure> {
    let booting = !running(&state);
    let node = invocation.node();
    let text = if booting {
        format!("RabbitMQ on node {node} is booting")
    } else {
        format!(
            "RabbitMQ on node {node} is fully booted (check with is_running), stopped or has \
             not started booting yet"
        )
    };
    Ok(if is_json(invocation) {
        Answer::Object(json!({"result": booting, "message": text}))
    } else {
        Answer::Text(text)
    })
}

/// A line for each alarm.
pub(super) fn alarm_lines(alarms: &Value) -> Vec<String> {
    let field = |alarm: &Value, name: &str| {
        alarm.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let line = |alarm: &Value| {
        let node = field(alarm, "node");
        match field(alarm, "resource").as_str() {
            "memory" => format!("Memory alarm on node {node}"),
            "disk" => format!("Free disk space alarm on node {node}"),
            "file_descriptor_limit" => format!("File descriptor limit alarm on node {node}"),
            other => format!("{other} alarm on node {node}"),
        }
    };
    alarms.as_array().into_iter().flatten().map(line).collect()
}

/// The heaviest users of the node, once however many alarms are on.
fn heaviest_lines(alarms: &Value) -> Vec<String> {
    let sentences = alarms.pointer("/0/heaviest/sentences").and_then(Value::as_array);
    let sentences = sentences.into_iter().flatten().filter_map(Value::as_str);
    sentences.map(|sentence| format!("Heaviest: {sentence}")).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn alarms(invocation: &Invocation, alarms: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    let lines = alarm_lines(&alarms);
    let heaviest = heaviest_lines(&alarms);
    Ok(match (lines.is_empty(), is_json(invocation)) {
        (true, true) => Answer::Object(json!({"result": "ok", "node": node, "alarms": []})),
        (true, false) => {
            Answer::Text(format!("Node {node} reported no alarms, local or clusterwide"))
        }
        (false, true) => Answer::Object(json!({
            "result": "ok", "local": lines, "global": [], "heaviest": heaviest,
            "message": format!("Node {node} reported alarms"),
        })),
        (false, false) => Answer::Text([lines, heaviest].concat().join("\n")),
    })
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
        return Ok(passed(invocation, format!("Node {node} {all_clear}")));
    }
    if is_json(invocation) {
        let object = json!({
            "result": "error", "local": lines, "global": [],
            "message": format!("Node {node} reported alarms"),
        });
        return Err(Failure::check(object.to_string()));
    }
    if invocation.flag("silent") {
        return Err(Failure { code: code::UNAVAILABLE, text: None });
    }
    Err(Failure::check(lines.join("\n")))
}

/// The ports listened on, sorted.
pub(crate) fn ports(listeners: &Value) -> Vec<u64> {
    let port = |listener: &Value| listener.get("port").and_then(Value::as_u64);
    let mut ports: Vec<u64> = listeners.as_array().into_iter().flatten().filter_map(port).collect();
    ports.sort_unstable();
    ports
}

fn joined(ports: &[u64]) -> String {
    ports.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// A line for each listener, after `prefix`.
pub(crate) fn interface_lines(listeners: &Value, prefix: &str) -> Vec<String> {
    let line = |listener: &Value| {
        let field =
            |name: &str| listener.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!(
            "{prefix}nterface: {}, port: {}, protocol: {}, purpose: {}",
            field("interface"),
            listener.get("port").and_then(Value::as_u64).unwrap_or_default(),
            field("protocol"),
            field("purpose")
        )
    };
    listeners.as_array().into_iter().flatten().map(line).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn listeners(invocation: &Invocation, listeners: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    if is_json(invocation) {
        return Ok(Answer::Object(json!({"result": "ok", "node": node, "listeners": listeners})));
    }
    let lines = interface_lines(&listeners, "I");
    Ok(Answer::Text(if lines.is_empty() {
        format!("Node {node} reported no enabled listeners.")
    } else {
        lines.join("\n")
    }))
}

pub(crate) fn check_port_listener(
    invocation: &Invocation,
    listeners: Value,
) -> Result<Answer, Failure> {
    let node = invocation.node();
    let port = invocation.param("port");
    let ports = ports(&listeners);
    if ports.iter().any(|found| found.to_string() == port) {
        return Ok(if is_json(invocation) {
            Answer::Object(json!({"result": "ok", "node": node, "port": port}))
        } else {
            Answer::Text(format!("A listener for port {port} is running on node {node}."))
        });
    }
    Err(Failure::check(if is_json(invocation) {
        json!({"result": "error", "missing": port, "ports": ports, "listeners": listeners})
            .to_string()
    } else {
        format!(
            "No listener for port {port} is active on node {node}. \
             Found listeners that use the following ports: {}",
            joined(&ports)
        )
    }))
}

pub(crate) fn check_protocol_listener(
    invocation: &Invocation,
    listeners: Value,
) -> Result<Answer, Failure> {
    let node = invocation.node();
    let protocol = known_protocol(invocation.param("protocol"));
    let name = |listener: &Value| {
        listener.get("protocol").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut found: Vec<String> = listeners.as_array().into_iter().flatten().map(name).collect();
    if found.contains(&protocol) {
        return Ok(if is_json(invocation) {
            Answer::Object(json!({"result": "ok", "node": node, "protocol": protocol}))
        } else {
            Answer::Text(format!("A listener for protocol {protocol} is running on node {node}."))
        });
    }
    if is_json(invocation) {
        let object = json!({
            "result": "error", "missing": protocol, "protocols": found, "listeners": listeners,
        });
        return Err(Failure::check(object.to_string()));
    }
    found.sort_unstable();
    Err(Failure::error(
        code::UNAVAILABLE,
        format!(
            "No listener for protocol {protocol} is active on node {node}. \
             Found listeners for the following protocols: {}",
            found.join(", ")
        ),
    ))
}

/// The names people give to protocols, brought to those that listeners have.
fn known_protocol(given: &str) -> String {
    let given = given.to_ascii_lowercase();
    let plain: String = given.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.as_str() {
        "amqp" | "amqp091" if !given.contains('/') => "amqp".to_owned(),
        "amqps" | "amqpssl" | "amqptls" => "amqp/ssl".to_owned(),
        "mqtt" | "mqtt31" | "mqtt311" | "mqtt5" | "mqtt50" => "mqtt".to_owned(),
        "mqtts" | "mqttssl" | "mqtttls" => "mqtt/ssl".to_owned(),
        "stomp" | "stomp10" | "stomp11" | "stomp12" => "stomp".to_owned(),
        "stomps" | "stompssl" | "stomptls" => "stomp/ssl".to_owned(),
        "http" | "http1" | "http11" | "httpapi" | "management" | "managementui" | "ui" => {
            "http".to_owned()
        }
        _ => given,
    }
}

pub(crate) fn check_virtual_hosts(invocation: &Invocation, down: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    let down: Vec<&str> = down.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if down.is_empty() {
        let text = format!("Node {node} reported all vhosts as running");
        return Ok(passed(invocation, text));
    }
    if is_json(invocation) {
        let object = json!({"result": "error", "down_vhosts": down});
        return Err(Failure::check(object.to_string()));
    }
    if invocation.flag("silent") {
        return Err(Failure { code: code::UNAVAILABLE, text: None });
    }
    Err(Failure::error(
        code::UNAVAILABLE,
        format!("Some virtual hosts on node {node} are down:\n{}", down.join("\n")),
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn server_version(invocation: &Invocation, version: Value) -> Result<Answer, Failure> {
    Ok(if is_json(invocation) {
        Answer::Object(json!({"result": "ok", "value": version}))
    } else {
        Answer::Text(version.as_str().unwrap_or_default().to_owned())
    })
}

/// The names of those in use.
pub(crate) fn check_deprecated_features(
    invocation: &Invocation,
    used: Value,
) -> Result<Answer, Failure> {
    let is_json = invocation.format == Format::Json;
    let names: Vec<&str> =
        used.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() {
        return Ok(if is_json {
            Answer::Object(json!({"result": "ok"}))
        } else {
            Answer::Text("Cluster reported no deprecated features in use".to_owned())
        });
    }
    let message = "Cluster reported deprecated features in use";
    Err(Failure::check(if is_json {
        json!({"result": "error", "deprecated_features": names, "message": message}).to_string()
    } else {
        format!("{message}: {}", names.join(", "))
    }))
}
