//! Verbs for the time before and after an upgrade.

use crate::client::{FORMATION, STATE};
use crate::offline;
use crate::render;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Section, VERB, Verb, verbs};

const UPGRADE: Verb = Verb { section: Section::Upgrade, ..VERB };

/// Defaults of the verbs that look after other nodes of a cluster.
const OF_CLUSTERS: Verb = Verb {
    timeout_ms: Some(120_000),
    action: Action::Ask(STATE, |invocation, _| Ok(offline::does_not_apply(invocation))),
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
    OF_CLUSTERS "await_online_quorum_plus_one",
        "Waits until the definitions keep their quorum without the node":
        banner: Made(|invocation| {
            format!(
                "Will wait for a quorum + 1 of nodes to be online for all quorum queues and \
                 streams for {} seconds...",
                invocation.timeout.unwrap_or_default().as_secs()
            )
        }),
        action: Action::Offline(offline::await_online_quorum_plus_one);
    OF_CLUSTERS "await_online_synchronized_mirror", "No-op: mirrored queues do not exist";
    UPGRADE "has_reached_target_cluster_size",
        "Fails while fewer nodes run than cluster_formation.target_cluster_size_hint":
        banner: Lines("Checking if target cluster size has been reached on node {node} ..."),
        action: Action::Ask(FORMATION, render::check_target_cluster_size);
    UPGRADE "check_if_node_is_quorum_critical",
        "Checks that the definitions keep their quorum without the node (exit code)":
        banner: Lines("Checking if node {node} is critical for quorum of any queues/streams ..."),
        action: Action::Ask(FORMATION, render::check_quorum_critical);
    OF_CLUSTERS "check_if_node_is_mirror_sync_critical",
        "Always passes: mirrored queues do not exist";
};
