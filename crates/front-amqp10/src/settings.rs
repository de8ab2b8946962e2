//! The operator's settings of connections of AMQP 1.0.

use edge::{Mechanism, OutboxBudget};
use std::sync::Arc;

/// The capability of a broker that carries out requests to the management node.
pub const LINK_PAIR: &str = "LINK_PAIR_V1_0";

/// The capability of a broker to which messages may be sent that say their node each.
pub const ANONYMOUS_RELAY: &str = "ANONYMOUS-RELAY";

/// Limits and names of every connection of a listener.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// The node's name, and the cluster's while it has been given none.
    pub node_name: String,
    /// SASL mechanisms offered, in this order.
    pub mechanisms: Vec<Mechanism>,
    /// Extensions of the protocol that the broker behind the front has. Without [`LINK_PAIR`] nobody attaches
    /// links to the management node.
    pub capabilities: Vec<&'static str>,
    /// The virtual host of clients that name none.
    pub default_vhost: String,
    /// Whether addresses may be of RabbitMQ's version 1, too.
    pub permits_address_v1: bool,
    /// The largest frame in bytes.
    pub frame_bytes_max: u32,
    /// The largest message in bytes.
    pub message_bytes_max: u64,
    /// Milliseconds of silence after which a client is taken for dead; 0 for never.
    pub silence_ms_max: u32,
    /// Sessions of a connection.
    pub sessions_max: u16,
    /// Links of a session.
    pub links_per_session_max: u32,
    /// Milliseconds a client has from connecting to an open connection.
    pub handshake_timeout_ms: u64,
    /// The outboxes of all connections, whatever their listener.
    pub budget: Arc<OutboxBudget>,
}

impl ConnectionSettings {
    /// Whether requests to the management node are carried out.
    pub(crate) fn has_management(&self) -> bool {
        self.capabilities.contains(&LINK_PAIR)
    }
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            node_name: "leveret".to_owned(),
            mechanisms: vec![Mechanism::Plain, Mechanism::AmqPlain],
            capabilities: vec![ANONYMOUS_RELAY],
            default_vhost: "/".to_owned(),
            permits_address_v1: false,
            frame_bytes_max: 131_072,
            message_bytes_max: 16 * 1024 * 1024,
            silence_ms_max: 60_000,
            sessions_max: 64,
            links_per_session_max: 256,
            handshake_timeout_ms: 10_000,
            budget: Arc::default(),
        }
    }
}
