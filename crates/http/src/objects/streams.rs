//! Streams: their publishers, consumers, what they track.

use super::client_details::connection_details;
use super::{field, put_field};
use crate::admin::streams;
use crate::call::{Answer, Call, Outcome};
use crate::refusal::Refusal;
use meta::ConnectionId;
use serde_json::{Value, json};
use stream::Stream;

/// Users of a stream, with the connection of each.
type Users = fn(&str, &Stream) -> Vec<(ConnectionId, Value)>;

/// Lists the users of streams in the virtual hosts of the address, or of the stream or connection that it
/// names.
fn list(call: &Call, users: Users) -> Outcome {
    let (view, node) = (call.view(), call.api.management.node_info.name.as_str());
    let (queue, connection) = (call.param("queue"), call.param("name"));
    if !connection.is_empty() {
        super::clients::get(call)?;
    }
    let is_there = |name| call.api.management.broker.queue(call.param("vhost"), name).is_some();
    if !queue.is_empty() && !is_there(queue) {
        return Err(Refusal::not_found());
    }
    let mut rows = Vec::new();
    for vhost in super::vhosts(&view.meta, call)? {
        let streams = view.streams().filter(|stream| stream.def().vhost == *vhost.name);
        for stream in streams.filter(|it| queue.is_empty() || it.def().name == queue) {
            for (id, mut row) in users(node, stream) {
                let details = connection_details(call, id);
                if !connection.is_empty() && *field(&details, "name") != connection {
                    continue;
                }
                let (name, vhost) = (stream.def().name.as_str(), vhost.name.as_str());
                put_field(&mut row, "queue", json!({"name": name, "vhost": vhost}));
                put_field(&mut row, "connection_details", details);
                if call.is_typed() {
                    put_field(&mut row, "connection_pid", json!(mgmt::connection_pid(node, id)));
                }
                rows.push(row);
            }
        }
    }
    call.list(rows)
}

pub(crate) fn publishers(call: &Call) -> Outcome {
    list(call, streams::publishers)
}

pub(crate) fn consumers(call: &Call) -> Outcome {
    list(call, streams::consumers)
}

pub(crate) fn tracking(call: &Call) -> Outcome {
    let tracked = streams::tracking(&call.api.management, &call.address())?;
    let of_kind = |kind: &str, value: fn(&Value) -> &Value| -> Value {
        let rows = tracked.as_array().into_iter().flatten().filter(|row| row["type"] == kind);
        let pair = |row: &Value| {
            let name = row["reference"].as_str().unwrap_or_default().to_owned();
            (name, value(&row["value"]).clone())
        };
        Value::Object(rows.map(pair).collect())
    };
    Ok(Answer::Json(json!({
        "offsets": of_kind("offset", |offset| offset),
        "writers": of_kind("sequence", |chunk_and_id| &chunk_and_id[1]),
    })))
}

pub(crate) async fn put_super_stream(call: &Call) -> Outcome {
    streams::add_super_stream(&call.api.management, &call.request()?).await?;
    Ok(Answer::NoContent)
}
