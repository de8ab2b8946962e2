//! The listings of connections, channels and consumers.

use super::{channel_pid, connection_pid, row};
use crate::Management;
use crate::request::Request;
use crate::table::table;
use broker::{Activity, ChannelCounters, Connection, ConsumerView, QueueRef, TlsPeer};
use serde_json::{Value, json};
use session::ChannelId;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

pub(super) fn connections(management: &Management, request: &Request) -> Value {
    let node = management.node_info.name.as_str();
    let list = management.broker.connections.list();
    list.iter()
        .map(|connection| row(request, |column| connection_value(node, connection, column)))
        .collect()
}

/// The value of a column of a connection; none where it says nothing.
#[must_use]
pub fn connection_value(node: &str, connection: &Connection, column: &str) -> Option<Value> {
    let identity = &connection.identity;
    let blocked = connection.blocked.load(Ordering::Relaxed);
    Some(match column {
        "pid" => json!(connection_pid(node, connection.id)),
        "name" => json!(identity.name),
        "port" => json!(identity.port),
        "host" => json!(identity.host),
        "peer_port" => json!(identity.peer_port),
        "peer_host" => json!(identity.peer_host),
        "ssl" => json!(identity.login.tls.is_some()),
        "state" => json!(if blocked { "blocked" } else { "running" }),
        "channels" => json!(connection.n_channels()),
        "protocol" => json!(identity.protocol),
        "auth_mechanism" => json!(identity.login.mechanism),
        "user" => json!(identity.user),
        "vhost" => json!(identity.vhost),
        "timeout" => json!(identity.negotiated.heartbeat_s),
        "frame_max" => json!(identity.negotiated.frame_max),
        "channel_max" => json!(identity.negotiated.channel_max),
        "client_properties" => table(&identity.client_properties),
        "recv_oct" => json!(connection.received.bytes.load(Ordering::Relaxed)),
        "recv_cnt" => json!(connection.received.n_calls.load(Ordering::Relaxed)),
        "send_oct" => json!(connection.sent.bytes.load(Ordering::Relaxed)),
        "send_cnt" => json!(connection.sent.n_calls.load(Ordering::Relaxed)),
        "send_pend" => json!(0),
        "connected_at" => json!(identity.connected_at_ms),
        _ => return tls_value(identity.login.tls.as_deref()?, column),
    })
}

fn tls_value(tls: &TlsPeer, column: &str) -> Option<Value> {
    let certificate = tls.certificate.as_ref();
    Some(match column {
        "ssl_protocol" => json!(tls.version),
        "ssl_key_exchange" => json!(tls.key_exchange),
        "ssl_cipher" => json!(tls.cipher),
        // There are no others.
        "ssl_hash" => json!("aead"),
        "peer_cert_subject" => json!(certificate?.subject),
        "peer_cert_issuer" => json!(certificate?.issuer),
        "peer_cert_serial_number" => json!(certificate?.serial),
        "peer_cert_validity" => json!(certificate?.validity),
        _ => return None,
    })
}

pub(super) fn channels(management: &Management, request: &Request) -> Value {
    let wants_unacked = request.words("columns").any(|column| column == "messages_unacknowledged");
    let unacked = if wants_unacked {
        management.broker.figures().unacked_by_channel()
    } else {
        BTreeMap::new()
    };
    let mut rows = Vec::new();
    for connection in management.broker.connections.list() {
        for (channel, counters) in stdx::lock(&connection.channels).iter() {
            let n_unacked = unacked.get(&(connection.id, *channel)).copied().unwrap_or(0);
            let value = |column: &str| match column {
                "messages_unacknowledged" => Some(json!(n_unacked)),
                _ => channel_value(management, &connection, (*channel, counters), column),
            };
            rows.push(row(request, value));
        }
    }
    Value::from(rows)
}

fn channel_value(
    management: &Management,
    connection: &Connection,
    (channel, counters): (ChannelId, &ChannelCounters),
    column: &str,
) -> Option<Value> {
    let node = management.node_info.name.as_str();
    let identity = &connection.identity;
    Some(match column {
        "pid" => json!(channel_pid(node, connection.id, channel)),
        "connection" => json!(connection_pid(node, connection.id)),
        "name" => json!(format!("{} ({})", identity.name, channel.0)),
        "number" => json!(channel.0),
        "user" => json!(identity.user),
        "vhost" => json!(identity.vhost),
        "transactional" => json!(counters.transactional.load(Ordering::Relaxed)),
        "confirm" => json!(counters.confirm.load(Ordering::Relaxed)),
        "consumer_count" => json!(counters.n_consumers.load(Ordering::Relaxed)),
        "messages_uncommitted" => json!(counters.n_uncommitted.load(Ordering::Relaxed)),
        "acks_uncommitted" => json!(counters.n_uncommitted_acks.load(Ordering::Relaxed)),
        "oldest_unconfirmed_ms" => {
            let oldest_ms = management.broker.figures().oldest_unconfirmed_ms(connection, channel);
            json!(oldest_ms.unwrap_or_default())
        }
        "messages_unconfirmed" => json!(connection.n_unconfirmed(channel)),
        "prefetch_count" => json!(counters.prefetch_count.load(Ordering::Relaxed)),
        _ => return None,
    })
}

pub(super) fn consumers(management: &Management, vhost: &str, request: &Request) -> Value {
    let node = management.node_info.name.as_str();
    let consumers = management.broker.figures().consumers();
    consumers
        .iter()
        .filter(|(queue, _)| queue.def().vhost.as_str() == vhost)
        .map(|(queue, consumer)| {
            row(request, |column| consumer_value(node, queue, consumer, column))
        })
        .collect()
}

fn consumer_value(
    node: &str,
    queue: &QueueRef,
    consumer: &ConsumerView,
    column: &str,
) -> Option<Value> {
    Some(match column {
        "queue_name" => json!(queue.def().name.as_str()),
        "channel_pid" => json!(channel_pid(node, consumer.connection, consumer.channel)),
        "consumer_tag" => json!(consumer.consumer_tag.to_text()),
        "ack_required" => json!(consumer.ack_required),
        "prefetch_count" => json!(consumer.prefetch_count),
        "active" => json!(consumer.activity != Activity::Waiting),
        "activity_status" => json!(consumer.activity.as_str()),
        "arguments" => table(&consumer.arguments),
        _ => return None,
    })
}
