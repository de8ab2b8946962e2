//! The columns of connections.

use super::connection_pid;
use crate::table::table;
use broker::{Connection, TlsPeer};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

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
        // All cipher suites that the node accepts are AEADs, which have no hash of their own.
        "ssl_hash" => json!("aead"),
        "peer_cert_subject" => json!(certificate?.subject),
        "peer_cert_issuer" => json!(certificate?.issuer),
        "peer_cert_serial_number" => json!(certificate?.serial),
        "peer_cert_validity" => json!(certificate?.validity),
        _ => return None,
    })
}
