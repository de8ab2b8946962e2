//! Sessions of clients of AMQP 1.0, and their links. Who does not monitor sees its own.

use super::clients::{found, sees};
use crate::amqp10_json::filters;
use crate::call::{Call, Outcome};
use crate::refusal::Refusal;
use broker::Connection;
use serde_json::{Map, Value, json};
use session::{ListedLink, ListedSession, ProtocolKind};

/// The sessions of a connection. COMPAT: connections of AMQP 0-9-1 have none.
pub(crate) fn of_connection(call: &Call) -> Outcome {
    let row = found(call)?;
    if row.connection.identity.protocol != ProtocolKind::Amqp10 {
        return Err(Refusal::bad_request("connection does not use AMQP 1.0"));
    }
    call.list(row.connection.sessions().iter().map(session).collect())
}

/// The sessions of all connections that the caller sees, with their connection and the numbers of links.
pub(crate) fn list(call: &Call) -> Outcome {
    each(call, |whose, one| {
        let mut listed = whose.clone();
        listed.extend(figures(one));
        listed.insert("incoming_links".to_owned(), one.incoming.len().into());
        listed.insert("outgoing_links".to_owned(), one.outgoing.len().into());
        vec![listed]
    })
}

/// The links of all connections that the caller sees.
pub(crate) fn list_links(call: &Call) -> Outcome {
    each(call, |whose, one| {
        let of_session = |direction: &str, link: Map<String, Value>| {
            let mut listed = whose.clone();
            listed.insert("channel_number".to_owned(), one.channel.0.into());
            listed.insert("direction".to_owned(), direction.into());
            listed.extend(link);
            listed
        };
        let incoming = one.incoming.iter().map(|link| of_session("incoming", incoming(link)));
        incoming
            .chain(one.outgoing.iter().map(|link| of_session("outgoing", outgoing(link))))
            .collect()
    })
}

fn each(
    call: &Call,
    rows: impl Fn(&Map<String, Value>, &ListedSession) -> Vec<Map<String, Value>>,
) -> Outcome {
    let mut listed = Vec::new();
    for connection in call.api.management.broker.connections.list() {
        if sees(call, &connection) {
            let whose = whose(&connection);
            let sessions = connection.sessions();
            listed.extend(sessions.iter().flat_map(|one| rows(&whose, one)).map(Value::Object));
        }
    }
    call.list(listed)
}

fn whose(connection: &Connection) -> Map<String, Value> {
    let identity = &connection.identity;
    [("connection", &identity.name), ("user", &identity.user), ("vhost", &identity.vhost)]
        .map(|(key, text)| (key.to_owned(), Value::from(text.as_str())))
        .into_iter()
        .collect()
}

/// A session as an object. COMPAT: RabbitMQ's keys.
fn session(of: &ListedSession) -> Value {
    let mut listed = figures(of);
    let links = |links: &[ListedLink], shown: fn(&ListedLink) -> Map<String, Value>| -> Value {
        links.iter().map(|link| Value::Object(shown(link))).collect()
    };
    listed.insert("incoming_links".to_owned(), links(&of.incoming, incoming));
    listed.insert("outgoing_links".to_owned(), links(&of.outgoing, outgoing));
    Value::Object(listed)
}

fn figures(of: &ListedSession) -> Map<String, Value> {
    object(json!({
        "channel_number": of.channel.0,
        "handle_max": of.handle_max,
        "next_incoming_id": of.windows.next_incoming_id,
        "incoming_window": of.windows.incoming,
        "next_outgoing_id": of.windows.next_outgoing_id,
        "remote_incoming_window": of.windows.remote_incoming,
        "remote_outgoing_window": of.windows.remote_outgoing,
        "outgoing_unsettled_deliveries": of.n_unsettled,
    }))
}

/// A link on which a client publishes.
fn incoming(of: &ListedLink) -> Map<String, Value> {
    object(json!({
        "handle": of.handle,
        "link_name": of.name,
        "target_address": of.address,
        "snd_settle_mode": of.settle_mode,
        "max_message_size": message_bytes_max(of),
        "delivery_count": of.delivery_count,
        "credit": of.credit,
        "unconfirmed_messages": of.n_unanswered,
    }))
}

/// A link on which a client consumes. COMPAT: one of the management node comes from a queue without a name.
fn outgoing(of: &ListedLink) -> Map<String, Value> {
    object(json!({
        "handle": of.handle,
        "link_name": of.name,
        "source_address": of.address,
        "queue_name": of.queue.as_deref().unwrap_or_default(),
        "send_settled": of.settle_mode == "settled",
        "max_message_size": message_bytes_max(of),
        "delivery_count": of.delivery_count,
        "credit": of.credit,
        "filter": filters(&of.filter),
    }))
}

fn message_bytes_max(of: &ListedLink) -> Value {
    of.message_bytes_max.map_or_else(|| Value::from("unlimited"), Value::from)
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}
