//! The listings of quorum queues: their members' status, and messages that are looked at.

use crate::Management;
use crate::api_error::{ApiError, Kind};
use crate::node_info::is_same_node;
use crate::request::Request;
use crate::table;
use broker::{BODY_START_BYTES, Peeked, QueueRef, QuorumInspection, QuorumQueue};
use meta::{Pattern, QueueKind};
use serde_json::{Value, json};
use std::sync::Arc;

/// Lists; `None` for other questions.
pub(super) fn rows(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    Some(match endpoint {
        "quorum_status" => replicated(management, request).map(|queue| status(management, &queue)),
        // Every queue has a member on the only node there is, and that leads it.
        "grow" => member_node(management, request).map(|()| json!([])),
        "grow_to_count" => patterns(request).map(|_| json!([])),
        "queues_without_leader" => request.text("pattern").and_then(|pattern| {
            Pattern::new(pattern)?;
            Ok(json!([]))
        }),
        _ => return None,
    })
}

/// The quorum queue that a request names. COMPAT: another's type is told by the name of its module.
pub(crate) fn replicated(
    management: &Management,
    request: &Request,
) -> Result<Arc<QuorumQueue>, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    match management.broker.queue(&vhost, name) {
        Some(QueueRef::Quorum(queue)) => Ok(queue),
        Some(other) => {
            let text = format!("{{:unsupported, :rabbit_{}_queue}}", other.def().kind.as_str());
            Err(ApiError::new(Kind::Invalid, text))
        }
        None => {
            let text = format!("queue '{name}' was not found in virtual host '{vhost}'");
            Err(ApiError::new(Kind::NotFound, text))
        }
    }
}

/// Refuses a node that is not this one, which is all of its cluster.
pub(crate) fn member_node(management: &Management, request: &Request) -> Result<(), ApiError> {
    let node = request.text("node")?;
    if is_same_node(node, &management.node_info.name) {
        return Ok(());
    }
    let text = format!("node {node} is not a member of the cluster");
    Err(ApiError::new(Kind::Unsupported, text))
}

fn patterns(request: &Request) -> Result<[Pattern; 2], ApiError> {
    let pattern = |field| Pattern::new(request.optional(field).unwrap_or(".*"));
    Ok([pattern("vhost_pattern")?, pattern("queue_pattern")?])
}

/// The queues whose virtual hosts and names match, by these.
pub(crate) fn matching(
    management: &Management,
    request: &Request,
) -> Result<Vec<QueueRef>, ApiError> {
    let [of_vhost, of_queue] = patterns(request)?;
    let view = management.broker.view();
    let vhosts = view.meta.vhosts().filter(|it| of_vhost.matches(it.name().as_bytes()));
    let defs = vhosts.flat_map(|vhost| vhost.queues());
    let defs = defs.filter(|def| of_queue.matches(def.name.as_str().as_bytes()));
    Ok(defs.filter_map(|def| view.queue_by_id(def.id)).collect())
}

/// COMPAT: RabbitMQ has a Raft group for each queue. Here the log is the node's, and what is counted are the
/// messages that were put in.
fn status(management: &Management, queue: &QuorumQueue) -> Value {
    let figures = QuorumInspection::of(queue).figures();
    json!([{
        "Node Name": management.node_info.name,
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": figures.n_put,
        "Last Written": figures.n_put,
        "Last Applied": figures.n_put,
        "Commit Index": figures.n_put,
        "Term": 1,
        "Machine Version": figures.machine_version,
    }])
}

/// Shows a message; `None` for other questions. It may have to be read first.
pub(crate) async fn peek(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    if endpoint != "peek" {
        return None;
    }
    Some(peek_message(management, request).await)
}

async fn peek_message(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let queue = inspected(management, request, "Cannot peek into a classic queue")?;
    let position = request.text("position")?.parse::<usize>().ok();
    let nth = position
        .and_then(|position| position.checked_sub(1))
        .ok_or_else(|| ApiError::new(Kind::BadRequest, "positions begin with 1"))?;
    let message = QuorumInspection::of(&queue).peek(nth).await;
    let message = message.ok_or_else(|| {
        ApiError::new(Kind::Invalid, "Target queue does not have a message at that position")
    })?;
    Ok(json!(shown(message)))
}

/// The quorum queue that a request names, with RabbitMQ's other texts for those that are none.
pub(crate) fn inspected(
    management: &Management,
    request: &Request,
    classic: &str,
) -> Result<Arc<QuorumQueue>, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let queue = management.broker.queue(&vhost, name);
    let text = match queue {
        Some(QueueRef::Quorum(queue)) => return Ok(queue),
        Some(other) if other.def().kind == QueueKind::Classic => classic.to_owned(),
        Some(_) => "not_quorum_queue".to_owned(),
        None => format!("Target queue was not found in virtual host '{vhost}'"),
    };
    Err(ApiError::new(Kind::Invalid, text))
}

/// A message as keys and values. COMPAT: properties that are set in falling order, then the envelope, then
/// the headers, with the count of failed deliveries even if it is 0.
fn shown(message: Peeked) -> Vec<(String, Value)> {
    let it = message.properties;
    let text = |text: Option<session::ShortString>| text.map(|it| json!(it.to_text()));
    let properties = [
        ("cluster_id", text(it.cluster_id)),
        ("app_id", text(it.app_id)),
        ("user_id", text(it.user_id)),
        ("type", text(it.kind)),
        ("timestamp", it.timestamp.map(Value::from)),
        ("message_id", text(it.message_id)),
        ("expiration", text(it.expiration)),
        ("reply_to", text(it.reply_to)),
        ("correlation_id", text(it.correlation_id)),
        ("priority", it.priority.map(Value::from)),
        ("delivery_mode", it.delivery_mode.map(Value::from)),
        ("content_encoding", text(it.content_encoding)),
        ("content_type", text(it.content_type)),
        ("routing_keys", Some(json!([message.routing_key]))),
        ("exchange", Some(message.exchange.into())),
    ];
    let set = properties.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let body = String::from_utf8_lossy(&message.body_start).into_owned();
    let body = (format!("payload (max {BODY_START_BYTES} bytes)"), Value::from(body));
    let mut shown: Vec<(String, Value)> = set.chain([body]).collect();
    let headers = it.headers.unwrap_or_default();
    let headers = headers.iter().filter(|(key, _)| key.as_bytes() != b"x-delivery-count");
    shown.extend(headers.map(|(key, value)| (header(&key.to_text()), table::value(value))));
    shown.push((header("x-delivery-count"), message.n_failed.into()));
    shown
}

fn header(name: &str) -> String {
    format!("header.{name}")
}
