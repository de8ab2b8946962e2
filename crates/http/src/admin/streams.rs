//! Streams: who publishes to them and consumes them, their groups, what they track, and what is done to them.

use super::{Reply, sole_member};
use crate::request::Request;
use api::ErrorCode;
use meta::{ConnectionId, SuperStream, SuperStreamError};
use mgmt::{ApiError, Management, is_same_node};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use stream::{
    GroupRole, Inspection, PublisherView, Stream, StreamDamage, SubscriptionView, TrackedValue,
};
use tokio::task::spawn_blocking;

/// The most partitions that are counted out, whatever the node's limit is.
const PARTITIONS_MAX: u64 = 100_000;

/// Restarts a stream: its publishers and consumers look for it again.
pub(crate) fn restart(management: &Management, request: &Request) -> Reply {
    Inspection::of(&*stream_of(management, request, "restart")?).restart();
    Ok(Value::from(management.node_info.name.as_str()))
}

/// Adds a member: this node has the only one, and there is no other node.
pub(crate) fn add_replica(management: &Management, request: &Request) -> Reply {
    stream_of(management, request, "add replicas to")?;
    let is_here = request.text("node")? == management.node_info.name;
    is_here.then_some(Value::Null).ok_or_else(|| ApiError::invalid("node_not_running"))
}

/// Takes a member away, but not the last.
pub(crate) fn delete_replica(management: &Management, request: &Request) -> Reply {
    stream_of(management, request, "delete replicas from")?;
    Err(ApiError::invalid("Cannot delete the last member of a stream"))
}

/// Makes a super stream.
pub(crate) async fn add_super_stream(management: &Management, request: &Request) -> Reply {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let is_here = |node: &str| is_same_node(node, &management.node_info.name);
    if let Some(node) = request.optional("node").filter(|node| !is_here(node)) {
        return Err(ApiError::invalid(format!("Node {node} is not a cluster member")));
    }
    let given = given_arguments(request)?;
    let given = given.iter().map(|(key, value)| (*key, value.as_str()));
    let arguments = meta::stream_arguments(given)?;
    let keys = ["binding-keys", "binding_keys"].into_iter().find(|it| request.value(it).is_some());
    let is_number = request.value("partitions").is_none() || request.number("partitions").is_some();
    if !is_number {
        return Err(ApiError::invalid("The partitions must be a number"));
    }
    let n = request.value("partitions").map(|_| request.number("partitions").filter(|n| *n > 0));
    let wanted = match (keys, n.map(|n| n.map(i64::unsigned_abs))) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("Specify partitions or binding keys, not both"));
        }
        (Some(keys), None) => SuperStream::keyed(name, request.words(keys), arguments),
        (None, Some(Some(n))) if n > PARTITIONS_MAX => {
            let text = format!("The partition number must not exceed {PARTITIONS_MAX}");
            return Err(ApiError::invalid(text));
        }
        (None, Some(Some(n))) => SuperStream::numbered(name, n, arguments),
        (None, Some(None)) => {
            return Err(ApiError::invalid("The partition number must be greater than 0"));
        }
        (None, None) => {
            return Err(ApiError::invalid("Must specify partitions or binding keys"));
        }
    };
    let made = management.broker.operations().create_super_stream(&vhost, &wanted).await;
    made.map(|()| Value::Null).map_err(refused)
}

/// The arguments that each stream of a super stream is to have, with or without `x-`, as numbers or as
/// texts. What is neither is refused rather than lost: a stream without its limit fills the disk.
fn given_arguments(request: &Request) -> Result<Vec<(&str, String)>, ApiError> {
    let object = match request.value("arguments") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(object)) => object,
        Some(_) => return Err(ApiError::invalid("arguments must be an object")),
    };
    let mut given = Vec::with_capacity(object.len());
    for (key, value) in object {
        let value = match value {
            Value::Null => continue,
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return Err(ApiError::invalid(format!(
                    "{key} must be a number or a string, not {value}"
                )));
            }
        };
        given.push((key.strip_prefix("x-").unwrap_or(key), value));
    }
    Ok(given)
}

/// Deletes a super stream.
pub(crate) async fn delete_super_stream(management: &Management, request: &Request) -> Reply {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let deleted = management.broker.operations().delete_super_stream(&vhost, name).await;
    deleted.map(|()| Value::Null).map_err(refused)
}

fn refused(error: SuperStreamError) -> ApiError {
    match error {
        SuperStreamError::Refused(error) => error.into(),
        error @ (SuperStreamError::Invalid(_)
        | SuperStreamError::Exists(_)
        | SuperStreamError::NotFound) => ApiError::invalid(error.to_string()),
    }
}

/// Opens a stream that is closed because data is missing, without that data.
pub(crate) async fn accept_loss(management: &Management, request: &Request) -> Reply {
    let stream = stream_of(management, request, "accept a loss of")?;
    let accepted = management.broker.operations().accept_stream_loss(&stream).await;
    let accepted = accepted.map_err(|error| ApiError::invalid(error.to_string()))?;
    let lack = accepted.ok_or_else(|| ApiError::invalid("the stream has no data loss"))?;
    Ok(json!({"messages": lack.n_messages, "damage": lack.what}))
}

/// Reads everything that is committed, on threads that may wait; it ends with its operator's connection.
pub(crate) async fn scrub(management: &Management, request: &Request) -> Reply {
    let stream = stream_of(management, request, "scrub")?;
    if let Some(lack) = stream.lack() {
        return Err(ApiError::invalid(format!("the stream is closed: {}", lack.what)));
    }
    let mut scrub = Inspection::of(&stream).scrub();
    loop {
        request.course.check()?;
        let stepped = spawn_blocking(move || (scrub.step(), scrub)).await;
        let (goes_on, stepped) = stepped.map_err(|error| ApiError::invalid(error.to_string()))?;
        scrub = stepped;
        if !goes_on.map_err(|error| ApiError::invalid(error.to_string()))? {
            break;
        }
    }
    let found = scrub.found();
    StreamDamage(&stream).tell_scrubbed(found);
    let damage = found
        .damage
        .iter()
        .map(|it| json!({"file": it.file, "at": it.at, "offset": it.offset, "what": it.what}));
    let (chunks, damage) = (found.n_chunks, damage.collect::<Value>());
    Ok(
        json!({"chunks": chunks, "bytes": found.bytes, "damaged": found.n_damaged, "damage": damage}),
    )
}

/// Forgets the offset that a name has stored.
pub(crate) fn reset_offset(management: &Management, request: &Request) -> Reply {
    let (vhost, reference) = (request.vhost()?, request.text("reference")?);
    let stream = management.broker.view().stream(&vhost, request.text("stream")?);
    let stream = stream.ok_or_else(|| ApiError::invalid("The stream does not exist"))?;
    if Inspection::of(&stream).reset_offset(reference.as_bytes()) {
        return Ok(Value::Null);
    }
    Err(ApiError::invalid("There is no stored offset for this reference, no need to reset"))
}

/// Chooses the active consumer of a group again.
pub(crate) fn activate_consumer(management: &Management, request: &Request) -> Reply {
    let (vhost, reference) = (request.vhost()?, request.text("reference")?);
    let stream = management.broker.view().stream(&vhost, request.text("stream")?);
    let activated = stream.and_then(|stream| stream.memberships.activate(reference).ok());
    activated.map(|()| Value::Null).ok_or_else(|| ApiError::invalid("The group does not exist"))
}

/// The stream that a request names, for something that is done to streams only.
pub(crate) fn stream_of(
    management: &Management,
    request: &Request,
    to_do: &str,
) -> Result<Arc<Stream>, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let Some(queue) = management.broker.queue(&vhost, name) else {
        return Err(ApiError::new(ErrorCode::NotFound, "the stream does not exist"));
    };
    queue.as_stream().cloned().ok_or_else(|| {
        let kind = queue.def().kind.as_str();
        ApiError::invalid(format!("Cannot {to_do} a {kind} queue"))
    })
}

/// The consumers of a stream, with the connection of each.
#[must_use]
pub(crate) fn consumers(node: &str, stream: &Stream) -> Vec<(ConnectionId, Value)> {
    let (memberships, mut roles) = (&stream.memberships, BTreeMap::new());
    for group in memberships.list() {
        for one in memberships.consumers(&group.name).unwrap_or_default() {
            roles.insert((one.connection, one.subscription), one.role);
        }
    }
    let committed = Inspection::of(stream).figures().committed_offset;
    let shown = |it: &SubscriptionView| {
        let (active, activity) = match roles.get(&(it.connection, it.id)) {
            None => (true, "up"),
            Some(GroupRole::Active) => (true, "single_active"),
            Some(GroupRole::Waiting | GroupRole::Deactivating) => (false, "waiting"),
        };
        // The last message of the last chunk it was given.
        let offset = it.figures.next_offset.saturating_sub(1);
        let has_lag = active && committed >= 0;
        let lag = if has_lag { committed - offset.cast_signed() } else { 0 };
        let properties = it.properties.iter().cloned();
        let row = json!({
            "node": node, "subscription_id": it.id.0, "messages_consumed": it.figures.n_messages,
            "offset": offset, "offset_lag": lag, "credits": it.figures.credit, "active": active,
            "activity_status": activity,
            "properties": properties.map(|(key, value)| (key, value.into())).collect::<Map<_, _>>(),
        });
        (it.connection, row)
    };
    Inspection::of(stream).subscriptions().iter().map(shown).collect()
}

/// The publishers of a stream, with the connection of each.
#[must_use]
pub(crate) fn publishers(node: &str, stream: &Stream) -> Vec<(ConnectionId, Value)> {
    let shown = |it: &PublisherView| {
        let row = json!({
            "node": node, "publisher_id": it.id.0,
            "reference": it.reference.as_deref().map(String::from_utf8_lossy).unwrap_or_default(),
            "messages_published": it.n_published, "messages_confirmed": it.n_confirmed,
            "messages_errored": it.n_refused,
        });
        (it.connection, row)
    };
    Inspection::of(stream).publishers().iter().map(shown).collect()
}

/// The groups of a virtual host. COMPAT: one that consumes no part of a super stream has the partition -1.
pub(crate) fn groups(management: &Management, request: &Request) -> Reply {
    let (vhost, view) = (request.vhost()?, management.broker.view());
    let streams = view.streams().filter(|stream| stream.def().vhost == vhost);
    let mut rows = Vec::new();
    for stream in streams {
        let groups = stream.memberships.list();
        rows.extend(groups.iter().map(|group| {
            json!({
                "stream": stream.def().name.as_str(), "reference": &*group.name,
                "partition_index": group.partition.map_or(-1, u64::cast_signed),
                "consumers": group.n_consumers,
            })
        }));
    }
    Ok(Value::from(rows))
}

/// The consumers of a group.
pub(crate) fn group_consumers(management: &Management, request: &Request) -> Reply {
    let (vhost, reference) = (request.vhost()?, request.text("reference")?);
    let stream = management.broker.view().stream(&vhost, request.text("stream")?);
    let found = stream.and_then(|stream| stream.memberships.consumers(reference).ok());
    let consumers = found.ok_or_else(|| ApiError::invalid("The group does not exist"))?;
    let rows = consumers.iter().map(|one| {
        let connection = management.broker.connections.get(one.connection);
        json!({
            "subscription_id": one.subscription.0,
            "connection_name": connection.map(|it| it.identity.name.clone()),
            "state": match one.role {
                GroupRole::Active => "active (connected)",
                GroupRole::Waiting => "waiting (connected)",
                GroupRole::Deactivating => "deactivating (connected)",
            },
        })
    });
    Ok(rows.collect())
}

/// Offsets and numbers that a stream tracks.
pub(crate) fn tracking(management: &Management, request: &Request) -> Reply {
    let stream = stream_of(management, request, "get stream status of")?;
    let row = |(name, value): &(Box<[u8]>, TrackedValue)| {
        let (kind, value) = match *value {
            TrackedValue::Offset(offset) => ("offset", json!(offset)),
            TrackedValue::TimestampMs(at_ms) => ("timestamp", json!(at_ms)),
            TrackedValue::Sequence { chunk_id, publishing_id } => {
                ("sequence", json!([chunk_id, publishing_id]))
            }
        };
        json!({"type": kind, "reference": String::from_utf8_lossy(name), "value": value})
    };
    Ok(Inspection::of(&stream).tracked().iter().map(row).collect())
}

/// The status of a stream, or with `tracking` what it tracks.
pub(crate) fn status(management: &Management, request: &Request) -> Reply {
    if request.flag("tracking") {
        return tracking(management, request);
    }
    let stream = stream_of(management, request, "get stream status of")?;
    let (inspection, figures) = (Inspection::of(&stream), Inspection::of(&stream).figures());
    Ok(json!([{
        "role": "writer",
        "node": management.node_info.name,
        "epoch": figures.epoch,
        "offset": figures.written_offset,
        "committed_offset": figures.committed_offset,
        "committed_chunk_id": inspection.committed_chunk_id(),
        "first_offset": figures.first_offset,
        "readers": figures.n_readers,
        "segments": figures.n_segments,
    }]))
}

/// The status of the stream coordinator. COMPAT: RabbitMQ has a Raft group for its streams. Here the node
/// decides alone, and the index is the number of changes of its definitions.
pub(crate) fn coordinator(management: &Management, _: &Request) -> Reply {
    Ok(json!([sole_member(management, management.broker.view().epoch, None)]))
}
