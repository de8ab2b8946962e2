//! Streams: their connections, publishers, consumers, what they track; super streams.

use super::{field, put_field, text};
use crate::call::{Answer, Call, Outcome};
use crate::refusal::Refusal;
use serde_json::{Value, json};

/// Columns of the tool's listings that the API shows.
const PUBLISHER: &[&str] = &[
    "connection_pid",
    "node",
    "publisher_id",
    "stream",
    "reference",
    "messages_published",
    "messages_confirmed",
    "messages_errored",
];
const CONSUMER: &[&str] = &[
    "connection_pid",
    "node",
    "subscription_id",
    "stream",
    "messages_consumed",
    "offset",
    "offset_lag",
    "credits",
    "active",
    "activity_status",
    "properties",
];

/// The rows of a listing, over the virtual hosts of the address.
async fn rows(call: &Call, endpoint: &str, columns: &[&str]) -> Result<Vec<Value>, Refusal> {
    let view = call.view();
    let mut rows = Vec::new();
    for vhost in super::vhosts(&view.meta, call)? {
        let vhost = vhost.name().as_str();
        let listed = call.ask(endpoint, json!({"vhost": vhost, "columns": columns})).await?;
        for mut row in listed.as_array().cloned().unwrap_or_default() {
            let queue = json!({"name": field(&row, "stream"), "vhost": vhost});
            let pid = field(&row, "connection_pid").as_str().unwrap_or_default();
            let details = connection_details(call, pid);
            put_field(&mut row, "queue", queue);
            put_field(&mut row, "connection_details", details);
            row.as_object_mut().map(|row| (row.remove("stream"), row.remove("connection_pid")));
            rows.push(row);
        }
    }
    Ok(rows)
}

fn connection_details(call: &Call, pid: &str) -> Value {
    let broker = &call.api.management.broker;
    let connection = mgmt::connection_of_pid(pid).and_then(|id| broker.connections.get(id));
    connection.map_or_else(
        || json!({}),
        |connection| {
            let identity = &connection.identity;
            json!({
                "name": identity.name, "node": call.api.management.node_info.name,
                "user": identity.user, "peer_host": identity.peer_host,
                "peer_port": identity.peer_port,
            })
        },
    )
}

/// Rows of the queue or connection of the address, if it names one.
async fn list(call: &Call, endpoint: &str, columns: &[&str]) -> Outcome {
    let (queue, connection) = (call.param("queue"), call.param("name"));
    let mut rows = rows(call, endpoint, columns).await?;
    rows.retain(|row| {
        (queue.is_empty() || *field(field(row, "queue"), "name") == queue)
            && (connection.is_empty()
                || *field(field(row, "connection_details"), "name") == connection)
    });
    call.list(rows)
}

pub(crate) async fn publishers(call: &Call) -> Outcome {
    list(call, "list_stream_publishers", PUBLISHER).await
}

pub(crate) async fn consumers(call: &Call) -> Outcome {
    list(call, "list_stream_consumers", CONSUMER).await
}

pub(crate) async fn tracking(call: &Call) -> Outcome {
    let fields = json!({"vhost": call.param("vhost"), "name": call.param("queue")});
    let tracked = call.ask("list_stream_tracking", fields).await?;
    let of_kind = |kind: &str| -> Value {
        let rows = tracked.as_array().into_iter().flatten().filter(|row| row["type"] == kind);
        let pair = |row: &Value| {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            (name, row["tracking_value"].clone())
        };
        Value::Object(rows.map(pair).collect())
    };
    Ok(Answer::Json(json!({"offsets": of_kind("offset"), "writers": of_kind("writer")})))
}

pub(crate) async fn put_super_stream(call: &Call) -> Outcome {
    let body = call.object()?;
    let mut fields = json!({
        "vhost": call.param("vhost"), "name": call.param("name"),
        "arguments": body.get("arguments").cloned().unwrap_or_else(|| json!({})),
    });
    match (body.get("partitions"), body.get("binding-keys").or_else(|| body.get("binding_keys"))) {
        (_, Some(_)) => {
            let keys = text(&body, "binding-keys").or_else(|_| text(&body, "binding_keys"))?;
            let keys: Vec<&str> = keys.split(',').map(str::trim).collect();
            put_field(&mut fields, "binding_keys", json!(keys));
        }
        (Some(partitions), None) => {
            let n = partitions.as_u64().filter(|n| *n > 0);
            let n = n.ok_or_else(|| Refusal::bad_request("partitions is no number over 0"))?;
            put_field(&mut fields, "partitions", json!(n));
        }
        (None, None) => {
            let text = "Specify partitions or binding-keys, not both, and one of them";
            return Err(Refusal::bad_request(text));
        }
    }
    call.ask("add_super_stream", fields).await?;
    Ok(Answer::Created(None))
}
