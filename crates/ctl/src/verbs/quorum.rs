//! Quorum queues and their members.

use super::table;
use crate::client::STATE;
use crate::failure::{Failure, Invalid};
use crate::options::{Switch, flag, text};
use crate::output::{Answer, Form, Format, ListingColumn, Rows};
use crate::render;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Invocation, Section, VERB, Verb, Wording, verbs};
use serde_json::{Map, Value, json};

const QUORUM: Verb = Verb { section: Section::Queues, ..VERB };
const OF_QUEUE: Verb = Verb { vhost: true, ..QUORUM };
const CHECK: Verb = Verb { section: Section::Monitoring, ..VERB };

const VHOST_PATTERN: Switch = text("vhost-pattern", None);
const QUEUE_PATTERN: Switch = text("queue-pattern", None);
const ERRORS_ONLY: Switch = flag("errors-only", None);
const MEMBERSHIP: Switch = text("membership", None);
const GROWTH: &[Switch] = &[VHOST_PATTERN, QUEUE_PATTERN, MEMBERSHIP, ERRORS_ONLY];

/// The columns of the status of a member.
pub(super) const STATUS: &str = "\
    Node Name, Raft State, Membership, Last Log Index, Last Written, Last Applied, Commit Index, \
    Snapshot Index, Term, Machine Version";

/// The columns of what is done to the members of many queues.
const MEMBERS: &str = "vhost, name, size, result";

const MEMBERSHIPS: [&str; 3] = ["promotable", "non_voter", "voter"];

fn is_membership(invocation: &Invocation) -> Result<(), Invalid> {
    match invocation.text("membership") {
        Some(other) if !MEMBERSHIPS.contains(&other) => {
            Err(Invalid::Other(format!("voter status '{other}' is not recognised.")))
        }
        Some(_) | None => Ok(()),
    }
}

fn is_growth(invocation: &Invocation) -> Result<(), Invalid> {
    match invocation.param("strategy") {
        "all" | "even" => is_membership(invocation),
        other => Err(Invalid::Other(format!("strategy '{other}' is not recognised."))),
    }
}

pub(super) const VERBS: &[Verb] = verbs! {
    OF_QUEUE "quorum_status [--vhost <vhost>] <queue>", "Displays the quorum status of a queue":
        params: &["name"], banner: Lines("Status of queue {name} on node {node} ..."),
        wording: Wording::Members,
        action: table("GET /queues/quorum/{vhost}/{name}/status", STATUS, Form::Pretty);
    OF_QUEUE "peek [--vhost <vhost>] <queue> <position>",
        "Shows a quorum queue's message at a position (the first is 1)":
        params: &["name", "position"],
        check: Some(|invocation| match invocation.param("position").parse::<u64>() {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => {
                Err(Invalid::Other("position value must be a positive integer".to_owned()))
            }
        }),
        banner: Lines("Peeking at quorum queue {name} at position {position} on node {node} ..."),
        wording: Wording::Inspection,
        action: Action::Ask("GET /leveret/queues/{vhost}/{name}/messages/{position}", peeked);
    OF_QUEUE "reclaim_quorum_memory [--vhost <vhost>] <quorum queue>",
        "Takes a snapshot of a quorum queue, so that its log can be truncated":
        params: &["name"], banner: Lines("Will garbage collect quorum queue {name} ..."),
        wording: Wording::Inspection,
        action: Action::Do("POST /leveret/queues/{vhost}/{name}/checkpoint");
    OF_QUEUE "add_member [--vhost <vhost>] <queue> <node> [--membership <promotable|voter>]",
        "Adds a queue member/replica on the given node":
        params: &["name", "node"], switches: &[MEMBERSHIP], check: Some(is_membership),
        banner: Lines("Adding a member for queue {name} on node {node}..."),
        wording: Wording::Members,
        action: Action::Do("POST /queues/quorum/{vhost}/{name}/replicas/add");
    OF_QUEUE "delete_member [--vhost <vhost>] <queue> <node>",
        "Removes a queue member (replica) on the given node":
        params: &["name", "node"], banner: Lines("Removing a replica of queue {name} on node {node}..."),
        wording: Wording::Members,
        action: Action::Do("DELETE /queues/quorum/{vhost}/{name}/replicas/delete");
    OF_QUEUE "transfer_leadership [--vhost <vhost>] <queue> <node>",
        "Transfers the leadership of a quorum queue to the given node":
        params: &["name", "node"],
        banner: Lines("Transferring leadership of quorum queue {name} to node {node}..."),
        wording: Wording::Members,
        action: Action::Do("PUT /leveret/queues/{vhost}/{name}/leader/{node}");
    QUORUM "grow <node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] \
        [--membership <promotable|voter>]",
        "Adds members on the given node to all matching quorum queues":
        params: &["node", "strategy"], switches: GROWTH, check: Some(is_growth),
        banner: Lines("Growing {strategy} queues on {node}..."),
        action: table("POST /queues/quorum/replicas/on/{node}/grow", MEMBERS, Form::Whole);
    QUORUM "grow_to_count <node_count> <all | even> [--vhost-pattern <pattern>] [--queue-pattern \
        <pattern>] [--membership <promotable|voter>]",
        "Adds members to all matching quorum queues, up to the given number":
        params: &["node_count", "strategy"], switches: GROWTH,
        check: Some(|invocation| match invocation.param("node_count") {
            count if count.parse::<i64>().is_ok_and(|count| count > 0) => is_growth(invocation),
            count => Err(Invalid::Other(format!("node count '{count}' must be greater than 0."))),
        }),
        banner: Lines("Growing {strategy} quorum queues on {node_count} nodes..."),
        action: table("POST /leveret/queues/growth", MEMBERS, Form::Whole);
    QUORUM "shrink <node> [--errors-only]", "Removes the members of all queues on the given node":
        params: &["node"], switches: &[ERRORS_ONLY], banner: Lines("Shrinking queues on {node}..."),
        action: table("DELETE /queues/quorum/replicas/on/{node}/shrink", MEMBERS, Form::Whole);
    QUORUM "rebalance <all | quorum | stream> [--vhost-pattern <pattern>] [--queue-pattern <pattern>]",
        "Spreads queue leaders evenly over the nodes":
        params: &["type"], switches: &[VHOST_PATTERN, QUEUE_PATTERN],
        check: Some(|invocation| match invocation.param("type") {
            "all" | "quorum" | "stream" => Ok(()),
            other => Err(Invalid::Other(format!(
                "type {other} is not supported. Try one of all, quorum, stream."
            ))),
        }),
        banner: Lines("Re-balancing leaders of {type} queues..."),
        action: Action::Ask("POST /rebalance/queues", rebalanced);
    QUORUM "force_checkpoint [--vhost-pattern <pattern>] [--queue-pattern <pattern>]",
        "Takes checkpoints of all matching quorum queues":
        switches: &[VHOST_PATTERN, QUEUE_PATTERN, ERRORS_ONLY],
        banner: Lines("Forcing checkpoint for all matching quorum queues..."),
        action: table("POST /leveret/queues/checkpoint", "vhost, name, result", Form::Whole);
    CHECK "check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "Always passes: no queue has other replicas":
        banner: Lines("Checking if node {node} runs promotable replicas of any queues ..."),
        action: Action::Ask(STATE, |invocation, _| {
            let text =
                format!("Node {} reported no queues with promotable replicas", invocation.node());
            render::passed(invocation, json!({"result": "ok"}), text)
        });
    CHECK "check_for_quorum_queues_without_an_elected_leader [--vhost <vhost>] \
        [--across-all-vhosts] <pattern>",
        "Checks that all matching quorum queues have leaders (exit code)":
        params: &["pattern"], switches: &[flag("across-all-vhosts", None)], vhost: true,
        banner: Made(|invocation| {
            let pattern = invocation.param("pattern");
            let whose = "Checking leader replicas of quorum queues matching";
            if invocation.flag("across-all-vhosts") {
                return format!("{whose} '{pattern}' in all vhosts ...");
            }
            format!("{whose} '{pattern}' in vhost {} ...", invocation.vhost())
        }),
        action: Action::Ask(
            "GET /health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
            |invocation, _| {
                let text = format!(
                    "Node {} reported all quorum queue as having responsive leader replicas",
                    invocation.node()
                );
                if invocation.flag("quiet") && invocation.format != Format::Json {
                    return Ok(Answer::Silent);
                }
                render::passed(invocation, json!({"result": "ok", "message": text.clone()}), text)
            },
        );
};

/// Keys and values of a message, one to a line.
fn peeked(invocation: &Invocation, answer: Value) -> Result<Answer, Failure> {
    let pairs = answer.as_array().into_iter().flatten();
    let mut pairs = pairs.filter_map(|pair| Some((pair.get(0)?.as_str()?, pair.get(1)?)));
    if invocation.format == Format::Json {
        let message: Map<_, _> =
            pairs.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        return Ok(Answer::Object(json!({"result": "ok", "message": message})));
    }
    let rows = pairs.by_ref().map(|(key, value)| vec![key.into(), value.clone()]).collect();
    Ok(Answer::Rows(Rows { columns: vec!["keys", "values"], rows, form: Form::Pretty }))
}

/// The numbers that the node leads, by type.
fn rebalanced(_: &Invocation, answer: Value) -> Result<Answer, Failure> {
    let columns = ["Node name", "Number of quorum queues", "Number of streams"];
    let row = answer.get(0);
    let columns = columns.into_iter().filter(|name| row.is_some_and(|row| row.get(name).is_some()));
    let columns: Vec<ListingColumn> = columns.map(ListingColumn::of).collect();
    Ok(Answer::Rows(Rows::new(&columns, &answer, Form::Pretty)))
}
