//! Peers that discovery finds, and whether the cluster is complete.

use super::health::not_passed;
use super::{failed, passed};
use crate::failure::Failure;
use crate::fields::{items, number, text, texts};
use crate::output::Answer;
use crate::verb::Invocation;
use serde_json::{Value, json};

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn discovered_peers(_: &Invocation, formation: Value) -> Result<Answer, Failure> {
    let peers: Vec<&str> = texts(&formation, "discovered_peers").collect();
    let text = if peers.is_empty() { "No peers discovered".to_owned() } else { peers.join("\n") };
    Ok(Answer::Text(text))
}

/// COMPAT: RabbitMQ's texts.
pub(crate) fn check_target_cluster_size(
    invocation: &Invocation,
    formation: Value,
) -> Result<Answer, Failure> {
    let node = invocation.node();
    if formation.get("has_reached_target_size").and_then(Value::as_bool) == Some(true) {
        let text = format!("Target cluster size has been reached on node {node}");
        return passed(invocation, json!({"result": "ok"}), text);
    }
    let [online, target] = ["n_running", "target_size"].map(|field| number(&formation, field));
    let message = format!(
        "Target cluster size on node {node} has not been reached: {online} of {target} nodes are online"
    );
    let object = json!({"result": "error", "message": message, "online": online, "target": target});
    failed(invocation, &object, Failure::check(message))
}

/// COMPAT: RabbitMQ's texts.
pub(crate) fn check_quorum_critical(
    invocation: &Invocation,
    formation: Value,
) -> Result<Answer, Failure> {
    const ALONE: &str =
        "seems to be the only one in a single node cluster, the check does not apply";
    let node = invocation.node();
    let is = |field| formation.get(field).and_then(Value::as_bool) == Some(true);
    if is("is_alone") {
        let object = json!({"result": "ok", "message": format!("Target node {ALONE}")});
        return passed(invocation, object, format!("Node {node} {ALONE}"));
    }
    if is("is_in_maintenance") {
        let doing = "seems to be in maintenance mode, the check does not apply";
        let object = json!({"result": "ok", "message": format!("Target node {doing}")});
        return passed(invocation, object, format!("Node {node} {doing}"));
    }
    let lines: Vec<String> = items(&formation, "endangered")
        .map(|it| {
            format!("{} would lose quorum if node {node} is stopped", text(it, "readable_name"))
        })
        .collect();
    if lines.is_empty() {
        let text = format!("Node {node} reported no quorum queues with minimum quorum");
        return passed(invocation, json!({"result": "ok"}), text);
    }
    let object = json!({
        "result": "error", "queues": formation.get("endangered"),
        "message": format!("Node {node} reported local queues with minimum online quorum"),
    });
    not_passed(invocation, &object, Failure::check(lines.join("\n")))
}
