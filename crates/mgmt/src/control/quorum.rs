//! Questions that change quorum queues and their members, of which there is one.

use crate::Management;
use crate::api_error::{ApiError, Kind};
use crate::listing::{inspected, matching, member_node, replicated};
use crate::node_info::is_same_node;
use crate::request::Request;
use broker::{QueueRef, QuorumInspection, QuorumQueue};
use meta::{QueueDef, QueueKind};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Does what an operator asks for; `None` for other questions.
pub(super) fn execute(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    Some(match endpoint {
        // COMPAT: a member that is there is not added again, and that is no error.
        "add_member" => member_node(management, request)
            .and_then(|()| replicated(management, request).map(|_| Value::Null)),
        "delete_member" => replicated(management, request).and_then(|_| {
            let is_here = is_this_node(management, request)?;
            if is_here { Err(invalid("last_node")) } else { Ok(Value::Null) }
        }),
        "transfer_leadership" => transfer(management, request),
        "shrink" => shrink(management, request),
        "rebalance" => rebalance(management, request),
        "force_checkpoint" => checkpoint(management, request),
        "reclaim_quorum_memory" => {
            let classic = "This operation is not applicable to classic queues";
            inspected(management, request, classic).map(|queue| {
                QuorumInspection::of(&queue).checkpoint();
                Value::Null
            })
        }
        _ => return None,
    })
}

fn invalid(text: &str) -> ApiError {
    ApiError::new(Kind::Invalid, text)
}

fn is_this_node(management: &Management, request: &Request) -> Result<bool, ApiError> {
    Ok(is_same_node(request.text("node")?, &management.node_info.name))
}

fn transfer(management: &Management, request: &Request) -> Result<Value, ApiError> {
    replicated(management, request).map_err(|error| match error.kind == Kind::NotFound {
        true => error,
        false => invalid("Cannot transfer leadership of a non-quorum queue"),
    })?;
    let is_here = is_this_node(management, request)?;
    let already = "The target node is already the leader of this queue";
    Err(invalid(if is_here { already } else { "unknown_member" }))
}

/// COMPAT: this is answered by a listing of what was not done, and no error.
fn shrink(management: &Management, request: &Request) -> Result<Value, ApiError> {
    if !is_this_node(management, request)? {
        return Err(invalid(&format!("{{:node_not_running, :{}}}", request.text("node")?)));
    }
    let result = "error: the last node cannot be removed";
    let row = |queue: &Arc<QuorumQueue>| {
        let QueueDef { vhost, name, .. } = &**queue.def();
        json!({"vhost": vhost.as_str(), "name": name.as_str(), "size": 1, "result": result})
    };
    Ok(quorum_queues(management, request)?.iter().map(row).collect())
}

fn checkpoint(management: &Management, request: &Request) -> Result<Value, ApiError> {
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
    let quorum = |queue| match queue {
        QueueRef::Quorum(queue) => Some(queue),
        QueueRef::Classic(_) | QueueRef::Stream(_) => None,
    };
    Ok(queues.into_iter().filter_map(quorum).collect())
}

/// The numbers of what this node leads. COMPAT: types without queues have no column.
fn rebalance(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (wanted, queues) = (request.text("type")?, matching(management, request)?);
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
