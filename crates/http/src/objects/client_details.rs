//! Connections and channels as other objects name them.

use super::put_field;
use crate::Api;
use crate::call::Call;
use broker::{Connection, Identity};
use meta::ConnectionId;
use meta::definitions::table_to_json;
use serde_json::{Value, json};
use session::ChannelId;

/// Name of a channel: that of its connection and its number.
pub(super) fn channel_name(connection: &Connection, channel: ChannelId) -> String {
    format!("{} ({})", connection.identity.name, channel.0)
}

/// Object that names a connection; an empty one if it has ended.
pub(super) fn connection_details(call: &Call, connection: ConnectionId) -> Value {
    let Some(connection) = call.api.management.broker.connections.get(connection) else {
        return json!({});
    };
    let identity = &connection.identity;
    let mut details = json!({
        "name": identity.name, "node": call.api.management.node_info.name,
        "user": identity.user, "peer_host": identity.peer_host,
        "peer_port": identity.peer_port,
    });
    put_given_name(&mut details, identity);
    details
}

/// The name that its client gave a connection.
pub(super) fn given_name(identity: &Identity) -> Option<Value> {
    Some(table_to_json(&identity.client_properties).get("connection_name")?.clone())
}

pub(super) fn put_given_name(details: &mut Value, identity: &Identity) {
    if let Some(name) = given_name(identity) {
        put_field(details, "user_provided_name", name);
    }
}

/// Object that names a channel; an empty one if its connection has ended.
pub(crate) fn channel_details(api: &Api, connection: ConnectionId, channel: ChannelId) -> Value {
    let Some(connection) = api.management.broker.connections.get(connection) else {
        // The id tells the node of another node's client.
        let view = api.management.broker.view();
        let node = view.meta.nodes().get(connection.node());
        let of_node = |name: &str| json!({"node": name, "number": channel.0});
        return node.map_or_else(|| json!({}), |node| of_node(&node.name));
    };
    let identity = &connection.identity;
    let mut details = json!({
        "connection_name": identity.name,
        "name": channel_name(&connection, channel),
        "node": api.management.node_info.name,
        "number": channel.0,
        "peer_host": identity.peer_host,
        "peer_port": identity.peer_port,
        "user": identity.user,
    });
    put_given_name(&mut details, identity);
    details
}
