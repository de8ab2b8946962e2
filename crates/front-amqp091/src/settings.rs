//! The operator's settings of AMQP 0-9-1 connections.

use amqp091::spec;
use edge::{Mechanism, OutboxBudget};
use std::sync::Arc;

/// Limits and names of every AMQP 0-9-1 connection of a listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Leveret's own version, told under `leveret_version`.
    pub version: String,
    /// The cluster's name while it has been given none.
    pub cluster_name: String,
    /// SASL mechanisms offered, in this order.
    pub mechanisms: Vec<Mechanism>,
    /// Most channels of a connection; 0 for no limit.
    pub channel_max: u16,
    /// Largest frame in bytes; 0 for no limit.
    pub frame_max: u32,
    /// Largest frame in bytes before the client has answered the server's proposal.
    pub initial_frame_max: u32,
    /// The heartbeat interval proposed, in seconds; 0 proposes none.
    pub heartbeat_s: u16,
    /// Largest message body in bytes.
    pub message_bytes_max: u64,
    /// Most bytes of unfinished messages of one connection, over all its channels.
    pub unfinished_bytes_max: u64,
    /// The treatment of a publish with `immediate`.
    pub immediate: Immediate,
    /// Milliseconds a client has from connecting to `connection.open-ok`.
    pub handshake_timeout_ms: u64,
    /// The outboxes of all connections, whatever their listener.
    pub budget: Arc<OutboxBudget>,
}

stdx::named! {
    /// The treatment of a publish with `immediate`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Immediate {
        /// The connection is closed with 540, as RabbitMQ does since 3.0.
        #[default]
        Refuse = "refuse",
        /// The message comes back when no consumer can be given it at once.
        Honour = "honour",
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster_name: "leveret".to_owned(),
            mechanisms: vec![Mechanism::Plain, Mechanism::AmqPlain],
            channel_max: spec::CHANNEL_MAX_DEFAULT,
            frame_max: spec::FRAME_MAX_DEFAULT_BYTES,
            initial_frame_max: spec::FRAME_MIN_BYTES,
            heartbeat_s: spec::HEARTBEAT_DEFAULT_SECS,
            message_bytes_max: 16 * 1024 * 1024,
            unfinished_bytes_max: 512 * 1024 * 1024,
            immediate: Immediate::Refuse,
            handshake_timeout_ms: 10_000,
            budget: Arc::default(),
        }
    }
}
