//! The listings of streams: who publishes to them and consumes them, their groups, and what they track.

use super::connections::connection_value;
use super::{connection_pid, row};
use crate::Management;
use crate::api_error::{ApiError, Kind};
use crate::request::Request;
use broker::{
    GroupRole, Inspection, PublisherView, QueueRef, Stream, SubscriptionView, TrackedValue,
};
use meta::ConnectionId;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lists; `None` for other questions.
pub(super) fn rows(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    Some(match endpoint {
        "list_stream_connections" => Ok(connections(management, request)),
        "list_stream_consumers" => of_streams(management, request, consumers),
        "list_stream_publishers" => of_streams(management, request, publishers),
        "list_stream_consumer_groups" => of_streams(management, request, groups),
        "list_stream_group_consumers" => group_consumers(management, request),
        "list_stream_tracking" => tracking(management, request),
        "stream_status" => status(management, request),
        "coordinator_status" => Ok(coordinator(management)),
        _ => return None,
    })
}

/// The stream that a request names, for something that is done to streams only.
pub(crate) fn stream_of(
    management: &Management,
    request: &Request,
    to_do: &str,
) -> Result<Arc<Stream>, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    match management.broker.queue(&vhost, name) {
        Some(QueueRef::Stream(stream)) => Ok(stream),
        Some(other) => {
            let kind = other.def().kind.as_str();
            Err(ApiError::new(Kind::Invalid, format!("Cannot {to_do} a {kind} queue")))
        }
        None => Err(ApiError::new(Kind::NotFound, "there is no such stream")),
    }
}

/// The rows of each stream of a virtual host.
fn of_streams(
    management: &Management,
    request: &Request,
    rows: fn(&str, &Stream, &Request) -> Vec<Value>,
) -> Result<Value, ApiError> {
    let (vhost, view) = (request.vhost()?, management.broker.view());
    let streams = view.streams().filter(|stream| stream.def().vhost == vhost);
    let node = management.node_info.name.as_str();
    Ok(streams.flat_map(|stream| rows(node, stream, request)).collect())
}

/// COMPAT: a client's properties are sorted.
fn connections(management: &Management, request: &Request) -> Value {
    let node = management.node_info.name.as_str();
    let mut n_subscriptions: BTreeMap<ConnectionId, u64> = BTreeMap::new();
    if request.words("columns").any(|column| column == "subscriptions") {
        for stream in management.broker.view().streams() {
            for one in Inspection::of(stream).subscriptions() {
                *n_subscriptions.entry(one.connection).or_default() += 1;
            }
        }
    }
    let list = management.broker.connections.list();
    let of_streams = list.iter().filter(|connection| connection.identity.is_of_streams());
    let shown = |connection| {
        let value = |column: &str| match column {
            "node" => Some(json!(node)),
            "conn_name" => connection_value(node, connection, "name"),
            "heartbeat" => connection_value(node, connection, "timeout"),
            "connection_state" => connection_value(node, connection, "state"),
            "subscriptions" => Some(json!(n_subscriptions.get(&connection.id).unwrap_or(&0))),
            "client_properties" => {
                let mut fields = connection_value(node, connection, column)?;
                let key = |field: &Value| field.get(0).map(Value::to_string);
                fields.as_array_mut()?.sort_by_cached_key(key);
                Some(fields)
            }
            _ => connection_value(node, connection, column),
        };
        row(request, value)
    };
    of_streams.map(|connection| shown(&**connection)).collect()
}

fn consumers(node: &str, stream: &Stream, request: &Request) -> Vec<Value> {
    let (memberships, mut roles) = (stream.memberships(), BTreeMap::new());
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
        row(request, |column| {
            Some(match column {
                "connection_pid" => json!(connection_pid(node, it.connection)),
                "node" => json!(node),
                "subscription_id" => json!(it.id.0),
                "stream" => json!(stream.def().name.as_str()),
                "messages_consumed" => json!(it.figures.n_messages),
                "offset" => json!(offset),
                "offset_lag" => json!(lag),
                "credits" => json!(it.figures.credit),
                "active" => json!(active),
                "activity_status" => json!(activity),
                "properties" => {
                    let pairs = it.properties.iter().cloned();
                    Value::Object(
                        pairs.map(|(key, value)| (key, value.into())).collect::<Map<_, _>>(),
                    )
                }
                _ => return None,
            })
        })
    };
    Inspection::of(stream).subscriptions().iter().map(shown).collect()
}

fn publishers(node: &str, stream: &Stream, request: &Request) -> Vec<Value> {
    let shown = |it: &PublisherView| {
        row(request, |column| {
            Some(match column {
                "connection_pid" => json!(connection_pid(node, it.connection)),
                "node" => json!(node),
                "publisher_id" => json!(it.id.0),
                "stream" => json!(stream.def().name.as_str()),
                "reference" => json!(it.reference.as_deref().map(String::from_utf8_lossy)),
                "messages_published" => json!(it.n_published),
                "messages_confirmed" => json!(it.n_confirmed),
                "messages_errored" => json!(it.n_refused),
                _ => return None,
            })
        })
    };
    Inspection::of(stream).publishers().iter().map(shown).collect()
}

/// COMPAT: a group that consumes no part of a super stream has the partition -1.
fn groups(_: &str, stream: &Stream, request: &Request) -> Vec<Value> {
    let groups = stream.memberships().list();
    let shown = groups.iter().map(|group| {
        row(request, |column| {
            Some(match column {
                "stream" => json!(stream.def().name.as_str()),
                "reference" => json!(&*group.name),
                "partition_index" => json!(group.partition.map_or(-1, u64::cast_signed)),
                "consumers" => json!(group.n_consumers),
                _ => return None,
            })
        })
    });
    shown.collect()
}

fn group_consumers(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, reference) = (request.vhost()?, request.text("reference")?);
    let stream = management.broker.view().stream(&vhost, request.text("stream")?);
    let found = stream.and_then(|stream| stream.memberships().consumers(reference).ok());
    let consumers =
        found.ok_or_else(|| ApiError::new(Kind::Invalid, "The group does not exist"))?;
    let shown = consumers.iter().map(|one| {
        row(request, |column| {
            Some(match column {
                "subscription_id" => json!(one.subscription.0),
                "connection_name" => {
                    let connection = management.broker.connections.get(one.connection);
                    json!(connection.map(|it| it.identity.name.clone()))
                }
                "state" => json!(match one.role {
                    GroupRole::Active => "active (connected)",
                    GroupRole::Waiting => "waiting (connected)",
                    GroupRole::Deactivating => "deactivating (connected)",
                }),
                _ => return None,
            })
        })
    });
    Ok(shown.collect())
}

fn tracking(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let (vhost, name) = (request.vhost()?, request.text("name")?);
    let stream = management.broker.view().stream(&vhost, name);
    let stream =
        stream.ok_or_else(|| ApiError::new(Kind::Invalid, "The stream does not exist."))?;
    let shown = |name: &str, value| {
        let (kind, other, value) = match value {
            TrackedValue::Offset(offset) => ("offset", "writer", offset),
            TrackedValue::Sequence { publishing_id, .. } => ("writer", "offset", publishing_id),
            TrackedValue::TimestampMs(_) => return None,
        };
        let is_wanted = !request.flag(other);
        is_wanted.then(|| json!({"type": kind, "name": name, "tracking_value": value}))
    };
    Ok(tracked(&stream, shown))
}

fn tracked(stream: &Stream, shown: impl Fn(&str, TrackedValue) -> Option<Value>) -> Value {
    let tracked = Inspection::of(stream).tracked();
    tracked
        .iter()
        .filter_map(|(name, value)| shown(&String::from_utf8_lossy(name), *value))
        .collect()
}

fn status(management: &Management, request: &Request) -> Result<Value, ApiError> {
    let stream = stream_of(management, request, "get stream status of")?;
    if request.flag("tracking") {
        return Ok(tracked(&stream, |name, value| {
            let (kind, value) = match value {
                TrackedValue::Offset(offset) => ("offset", json!(offset)),
                TrackedValue::TimestampMs(at_ms) => ("timestamp", json!(at_ms)),
                TrackedValue::Sequence { chunk_id, publishing_id } => {
                    ("sequence", json!([chunk_id, publishing_id]))
                }
            };
            Some(json!({"type": kind, "reference": name, "value": value}))
        }));
    }
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

/// COMPAT: RabbitMQ has a Raft group for its streams. Here the node decides alone, and its log is that of its
/// definitions, whose changes are counted.
fn coordinator(management: &Management) -> Value {
    let last = management.broker.view().epoch;
    json!([{
        "Node Name": management.node_info.name,
        "Raft State": "leader",
        "Membership": "voter",
        "Last Log Index": last,
        "Last Written": last,
        "Last Applied": last,
        "Commit Index": last,
        "Term": 1,
    }])
}
