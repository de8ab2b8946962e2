//! Quorum queues and their members, of which there is one: their status, what is done to them, and messages
//! that are looked at.

use super::{Reply, sole_member};
use crate::properties;
use crate::request::Request;
use crate::typed_table;
use api::ErrorCode;
use meta::{Pattern, QueueDef, QueueKind};
use mgmt::{ApiError, Management, Matching, is_same_node, off_sockets};
use queues::QueueRef;
use quorum::{BODY_START_BYTES, Peeked, QuorumInspection, QuorumQueue};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Adds a member. COMPAT: one that is there is not added again, and that is no error.
pub(crate) fn add_member(management: &Management, request: &Request) -> Reply {
    member_node(management, request)?;
    replicated(management, request).map(|_| Value::Null)
}

/// Takes a member away, but not the last.
pub(crate) fn delete_member(management: &Management, request: &Request) -> Reply {
    replicated(management, request)?;
    let is_here = is_this_node(management, request)?;
    if is_here { Err(ApiError::new(ErrorCode::LastMember, "last_node")) } else { Ok(Value::Null) }
}

/// Adds members on a node: every queue has one on the only node there is, and that leads it.
pub(crate) fn grow(management: &Management, request: &Request) -> Reply {
    member_node(management, request).map(|()| json!([]))
}

/// Adds members up to a number.
pub(crate) fn grow_to_count(_: &Management, request: &Request) -> Reply {
    patterns(request).map(|_| json!([]))
}

/// Writes a checkpoint of a queue, after which its log can be reclaimed.
pub(crate) fn reclaim_memory(management: &Management, request: &Request) -> Reply {
    let queue =
        inspected(management, request, "This operation is not applicable to classic queues")?;
    QuorumInspection::of(&queue).checkpoint();
    Ok(Value::Null)
}

fn is_this_node(management: &Management, request: &Request) -> Result<bool, ApiError> {
    Ok(is_same_node(request.text("node")?, &management.node_info.name))
}

/// Hands the leadership of a queue to another node, of which there is none.
pub(crate) fn transfer_leadership(management: &Management, request: &Request) -> Reply {
    replicated(management, request).map_err(|error| match error.kind == ErrorCode::NotFound {
        true => error,
        false => ApiError::invalid("Cannot transfer leadership of a non-quorum queue"),
    })?;
    let is_here = is_this_node(management, request)?;
    let already = "The target node is already the leader of this queue";
    Err(ApiError::invalid(if is_here { already } else { "unknown_member" }))
}

/// Takes away the members on a node. COMPAT: this is answered by a listing of what was not done, and no
/// error.
pub(crate) fn shrink(management: &Management, request: &Request) -> Reply {
    if !is_this_node(management, request)? {
        let text = format!("{{:node_not_running, :{}}}", request.text("node")?);
        return Err(ApiError::new(ErrorCode::NodeNotRunning, text));
    }
    let result = "error: the last node cannot be removed";
    let row = |queue: &Arc<QuorumQueue>| {
        let QueueDef { vhost, name, .. } = &**queue.def();
        json!({"vhost": vhost.as_str(), "name": name.as_str(), "size": 1, "result": result})
    };
    Ok(quorum_queues(management, request)?.iter().map(row).collect())
}

/// Writes checkpoints of queues.
pub(crate) fn force_checkpoint(management: &Management, request: &Request) -> Reply {
    let queues = quorum_queues(management, request)?;
    let is_shown = !request.flag("errors_only");
    let done = queues.iter().map(|queue| {
        QuorumInspection::of(queue).checkpoint();
        let QueueDef { vhost, name, .. } = &**queue.def();
        json!({"vhost": vhost.as_str(), "name": name.as_str(), "result": "{ok}"})
    });
    Ok(done.filter(|_| is_shown).collect())
}

fn quorum_queues(
    management: &Management,
    request: &Request,
) -> Result<Vec<Arc<QuorumQueue>>, ApiError> {
    let queues = matching(management, request)?;
    Ok(queues.iter().filter_map(|queue| queue.as_quorum().cloned()).collect())
}

/// The numbers of what this node leads. COMPAT: types without queues have no column.
pub(crate) fn rebalance(management: &Management, request: &Request) -> Reply {
    let (wanted, queues) =
        (request.optional("type").unwrap_or("all"), matching(management, request)?);
    let mut row = Map::new();
    let columns =
        [(QueueKind::Quorum, "Number of quorum queues"), (QueueKind::Stream, "Number of streams")];
    for (kind, column) in columns {
        let n_queues = queues.iter().filter(|queue| queue.def().kind == kind).count();
        if n_queues > 0 && (wanted == "all" || wanted == kind.as_str()) {
            row.insert(column.to_owned(), n_queues.into());
        }
    }
    if row.is_empty() {
        return Ok(json!([]));
    }
    row.insert("Node name".to_owned(), management.node_info.name.as_str().into());
    Ok(json!([row]))
}

/// The quorum queue that a request names. COMPAT: another's type is told by the name of its module.
fn replicated(management: &Management, request: &Request) -> Result<Arc<QuorumQueue>, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let Some(queue) = management.broker.queue(&vhost, name) else {
        let text = format!("queue '{name}' was not found in virtual host '{vhost}'");
        return Err(ApiError::new(ErrorCode::NotFound, text));
    };
    queue.as_quorum().cloned().ok_or_else(|| {
        let module = queue.def().kind.module();
        ApiError::new(ErrorCode::NotReplicated, format!("{{:unsupported, :{module}}}"))
    })
}

/// Refuses a node that is not this one, which is all of its cluster.
fn member_node(management: &Management, request: &Request) -> Result<(), ApiError> {
    let node = request.text("node")?;
    if is_same_node(node, &management.node_info.name) {
        return Ok(());
    }
    let text = format!("node {node} is not a member of the cluster");
    Err(ApiError::new(ErrorCode::Unsupported, text))
}

fn patterns(request: &Request) -> Result<[Pattern; 2], ApiError> {
    let pattern = |field| Pattern::within_budget(request.optional(field).unwrap_or(".*"));
    Ok([pattern("vhost_pattern")?, pattern("queue_pattern")?])
}

/// The queues whose virtual hosts and names match, by these.
fn matching(management: &Management, request: &Request) -> Result<Vec<QueueRef>, ApiError> {
    off_sockets(|| {
        let [of_vhost, of_queue] = patterns(request)?;
        let (view, mut matching, mut found) =
            (management.broker.view(), Matching::during(&request.course), Vec::new());
        for vhost in view.meta.vhosts() {
            if !matching.matches(of_vhost.compiled(), &vhost.name)? {
                continue;
            }
            for def in vhost.queues() {
                if matching.matches(of_queue.compiled(), &def.name)? {
                    found.extend(view.queue_by_id(def.id));
                }
            }
        }
        Ok(found)
    })
}

/// The members of a queue. COMPAT: RabbitMQ has a Raft group for each queue. Here the log is the node's, and
/// what is counted are the messages that were put in.
pub(crate) fn status(management: &Management, request: &Request) -> Reply {
    let figures = QuorumInspection::of(&*replicated(management, request)?).figures();
    Ok(json!([sole_member(management, figures.n_put, Some(figures.machine_version))]))
}

/// The message at a position of a queue. It may have to be read first.
pub(crate) async fn peek(management: &Management, request: &Request) -> Reply {
    let queue = inspected(management, request, "Cannot peek into a classic queue")?;
    let position = request.text("position")?.parse::<usize>().ok();
    let nth = position
        .and_then(|position| position.checked_sub(1))
        .ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "positions start at 1"))?;
    let message = QuorumInspection::of(&queue).peek(nth).await;
    let message = message.ok_or_else(|| {
        let text = "Target queue does not have a message at that position";
        ApiError::new(ErrorCode::TargetNotFound, text)
    })?;
    Ok(json!(shown(message)))
}

/// The quorum queue that a request names, with RabbitMQ's other texts for those that are none.
fn inspected(
    management: &Management,
    request: &Request,
    classic: &str,
) -> Result<Arc<QuorumQueue>, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let Some(queue) = management.broker.queue(&vhost, name) else {
        let text = format!("Target queue was not found in virtual host '{vhost}'");
        return Err(ApiError::new(ErrorCode::TargetNotFound, text));
    };
    let is_classic = queue.def().kind == QueueKind::Classic;
    let text = if is_classic { classic } else { "not_quorum_queue" };
    queue.as_quorum().cloned().ok_or_else(|| ApiError::invalid(text))
}

/// A message as keys and values. COMPAT: properties that are set in falling order, then the envelope, then
/// the headers, with the count of failed deliveries even if it is 0.
fn shown(message: Peeked) -> Vec<(String, Value)> {
    let it = message.properties;
    let more = [
        ("routing_keys", Some(json!([message.routing_key]))),
        ("exchange", Some(message.exchange.into())),
    ];
    let set =
        properties::fields(&it).into_iter().rev().filter(|(key, _)| *key != "headers").chain(more);
    let set = set.filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let body = String::from_utf8_lossy(&message.body_start).into_owned();
    let body = (format!("payload (max {BODY_START_BYTES} bytes)"), Value::from(body));
    let mut shown: Vec<(String, Value)> = set.chain([body]).collect();
    let headers = it.headers.unwrap_or_default();
    let headers = headers.iter().filter(|(key, _)| key.as_bytes() != b"x-delivery-count");
    shown.extend(headers.map(|(key, value)| (header(&key.to_text()), typed_table::value(value))));
    shown.push((header("x-delivery-count"), message.n_failed.into()));
    shown
}

fn header(name: &str) -> String {
    format!("header.{name}")
}
