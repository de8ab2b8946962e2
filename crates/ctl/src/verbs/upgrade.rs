//! Verbs for the time before and after an upgrade.

use crate::client::{FORMATION, STATE};
use crate::output::Answer;
use crate::render;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Section, VERB, Verb, verbs};
use serde_json::json;

const UPGRADE: Verb = Verb { section: Section::Upgrade, ..VERB };

/// Defaults of the verbs that look after other nodes of a cluster.
const OF_CLUSTERS: Verb = Verb {
    timeout_ms: Some(120_000),
    action: Action::Ask(STATE, |invocation, _| {
        if invocation.output_less() {
            return Ok(Answer::Done);
        }
        let text = "Target node seems to be the only one in a single node cluster, \
                    the command does not apply";
        Ok(Answer::Text(text.to_owned()))
    }),
    ..UPGRADE
};

pub(super) const VERBS: &[Verb] = verbs! {
    UPGRADE "drain",
        "Puts the node into maintenance mode: closes client connections and rejects new ones":
        banner: Lines("Will put node {node} into maintenance mode. The node will no longer serve any \
            client traffic!"),
        action: Action::Do("PUT /leveret/maintenance");
    UPGRADE "revive", "Ends maintenance mode: accepts client connections again":
        banner: Lines("Will put node {node} back into regular operating mode. The node will again serve \
            client traffic and host primary queue replicas."),
        action: Action::Do("DELETE /leveret/maintenance");
    UPGRADE "post_upgrade", "No-op: there are no replicas to rebalance":
        banner: Lines("Executing post upgrade tasks..."), action: Action::Do(STATE);
    OF_CLUSTERS "await_online_quorum_plus_one", "No-op: no queue has other replicas":
        banner: Made(|invocation| {
            format!(
                "Will wait for a quorum + 1 of nodes to be online for all quorum queues and \
                 streams for {} seconds...",
                invocation.timeout.unwrap_or_default().as_secs()
            )
        });
    OF_CLUSTERS "await_online_synchronized_mirror", "No-op: mirrored queues do not exist";
    UPGRADE "has_reached_target_cluster_size",
        "Fails while fewer nodes run than cluster_formation.target_cluster_size_hint":
        banner: Lines("Checking if target cluster size has been reached on node {node} ..."),
        action: Action::Ask(FORMATION, render::check_target_cluster_size);
    UPGRADE "check_if_node_is_quorum_critical", "Always passes: no queue has other replicas":
        banner: Lines("Checking if node {node} is critical for quorum of any queues/streams ..."),
        action: Action::Ask(STATE, |invocation, _| {
            let only =
                "seems to be the only one in a single node cluster, the check does not apply";
            let object = json!({"result": "ok", "message": format!("Target node {only}")});
            render::passed(invocation, object, format!("Node {} {only}", invocation.node()))
        });
    OF_CLUSTERS "check_if_node_is_mirror_sync_critical",
        "Always passes: mirrored queues do not exist";
};
