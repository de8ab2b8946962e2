//! Columns of connections.

use super::client_details::given_name;
use crate::Api;
use crate::columns::{Column, LIST, OR_NULL, columns, find, shown, some};
use crate::list::Row;
use crate::stats::Ranges;
use crate::typed_table::typed_table;
use api::ConnectionColumn;
use broker::{Connection, Identity, PeerCertificate, TlsPeer};
use meta::definitions::table_to_json;
use mgmt::connection_pid;
use serde_json::{Value, json};
use session::ProtocolKind;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection in a list.
pub(super) struct ConnectionRow {
    pub(super) api: Arc<Api>,
    pub(super) connection: Arc<Connection>,
    pub(super) ranges: Ranges,
    /// Shown as the command line tool does, with the number of subscriptions to streams.
    pub(super) typed: Option<u64>,
}

type Read = fn(&ConnectionRow) -> Option<Value>;

/// The columns, sorted by name. COMPAT: facts of TLS are there without it.
const COLUMNS: &[Column<Read>] = columns! { ConnectionColumn:
    auth_mechanism [LIST] |it| Some(json!(it.identity().login.mechanism));
    channel_max [LIST] |it| Some(json!(it.identity().negotiated.channel_max));
    channels [LIST] |it| some(it.connection.n_channels());
    client_properties [LIST] |it| Some(table_to_json(&it.identity().client_properties)),
        tool |it| Some(it.typed_properties());
    connected_at [LIST] |it| some(it.identity().connected_at_ms);
    // Only connections of AMQP 1.0 have one.
    container_id [LIST] |it| some(it.identity().login.container_id()?);
    frame_max [LIST] |it| Some(json!(it.identity().negotiated.frame_max));
    host [LIST] |it| Some(json!(it.identity().host));
    name [LIST] |it| some(it.identity().name.as_str());
    node [LIST] |it| some(it.node());
    peer_cert_issuer [LIST OR_NULL] |it| Some(json!(it.certificate()?.issuer));
    peer_cert_serial_number [LIST OR_NULL] |it| Some(json!(it.certificate()?.serial));
    peer_cert_subject [LIST OR_NULL] |it| Some(json!(it.certificate()?.subject));
    peer_cert_validity [LIST OR_NULL] |it| Some(json!(it.certificate()?.validity));
    peer_host [LIST] |it| Some(json!(it.identity().peer_host));
    peer_port [LIST] |it| Some(json!(it.identity().peer_port));
    pid [] |it| some(connection_pid(it.node(), it.connection.id));
    port [LIST] |it| Some(json!(it.identity().port));
    // COMPAT: it is spelled otherwise for tools.
    protocol [LIST] |it| some(it.identity().protocol.row().shown_as),
        tool |it| some(it.identity().protocol.row().listed_as);
    recv_cnt [LIST] |it| some(it.connection.received.n_calls.load(Ordering::Relaxed));
    recv_oct [LIST] |it| some(it.connection.received.bytes.load(Ordering::Relaxed));
    recv_oct_details [LIST NOT_OF_TOOL] |it| it.details(false);
    send_cnt [LIST] |it| some(it.connection.sent.n_calls.load(Ordering::Relaxed));
    send_oct [LIST] |it| some(it.connection.sent.bytes.load(Ordering::Relaxed));
    send_oct_details [LIST NOT_OF_TOOL] |it| it.details(true);
    send_pend [LIST] |_| some(0);
    ssl [LIST] |it| some(it.identity().login.tls.is_some());
    ssl_cipher [LIST OR_NULL] |it| Some(json!(it.tls()?.cipher));
    // All cipher suites that the node accepts are AEADs, which have no hash of their own.
    ssl_hash [LIST OR_NULL] |it| it.tls().and_then(|_| some("aead"));
    ssl_key_exchange [LIST OR_NULL] |it| Some(json!(it.tls()?.key_exchange));
    ssl_protocol [LIST OR_NULL] |it| Some(json!(it.tls()?.version));
    state [LIST] |it| some(if it.connection.blocked.load(Ordering::Relaxed) { "blocked" } else { "running" });
    subscriptions [OR_NULL] |_| None, tool |it| some(it.typed?);
    timeout [LIST] |it| Some(json!(it.identity().negotiated.heartbeat_s));
    r#type [LIST NOT_OF_TOOL] |it| some(if it.identity().protocol == ProtocolKind::Direct { "direct" } else { "network" });
    user [LIST] |it| Some(json!(it.identity().user));
    user_provided_name [LIST NOT_OF_TOOL] |it| given_name(it.identity());
    user_who_performed_action [LIST NOT_OF_TOOL] |it| Some(json!(it.identity().user));
    vhost [LIST] |it| Some(json!(it.identity().vhost));
};

impl Row for ConnectionRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        shown(COLUMNS, LIST)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.identity().name)
    }

    fn value(&self, column: &str) -> Option<Value> {
        let column = find(COLUMNS, column);
        if self.typed.is_some() {
            return column?.reader(true)?(self);
        }
        // COMPAT: columns that there are not are null too.
        let value = column.and_then(|column| (column.read)(self));
        let is_null = column.is_none_or(|column| column.marks & OR_NULL != 0);
        value.or_else(|| is_null.then_some(Value::Null))
    }
}

impl ConnectionRow {
    pub(super) fn to_name(&self) -> String {
        self.identity().name.clone()
    }

    fn identity(&self) -> &Identity {
        &self.connection.identity
    }

    fn node(&self) -> &str {
        &self.api.management.node_info.name
    }

    fn tls(&self) -> Option<&TlsPeer> {
        self.identity().login.tls.as_deref()
    }

    fn certificate(&self) -> Option<&PeerCertificate> {
        self.tls()?.certificate.as_ref()
    }

    /// The rate of bytes received, or sent, and its samples.
    fn details(&self, is_sent: bool) -> Option<Value> {
        let stats = &self.api.stats;
        Some(stats.details_of_connection(self.connection.id, is_sent, &self.ranges))
    }

    /// The client's properties with their types. COMPAT: those of stream clients are sorted.
    fn typed_properties(&self) -> Value {
        let mut value = typed_table(&self.identity().client_properties);
        if let Value::Array(fields) = &mut value
            && self.identity().is_of_streams()
        {
            fields.sort_by_cached_key(|field| field.get(0).map(Value::to_string));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted() {
        assert!(COLUMNS.is_sorted_by_key(|column| column.name));
    }
}
