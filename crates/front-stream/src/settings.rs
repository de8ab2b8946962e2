//! The operator's settings of connections of the stream protocol.

use edge::{Mechanism, OutboxBudget};
use session::StreamTotals;
use std::sync::Arc;
use streamproto::spec;

/// The largest frame that is ever taken, whatever was agreed on: frames are seen whole.
pub const FRAME_BYTES_MAX: u32 = 16 * 1024 * 1024 - 1024;

/// Limits and names of every connection of a listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Leveret's own version, told under `leveret_version`.
    pub version: String,
    /// The cluster's name while it has been given none.
    pub cluster_name: String,
    /// SASL mechanisms offered, in this order.
    pub mechanisms: Vec<Mechanism>,
    /// Largest frame in bytes; 0 for no other limit than [`FRAME_BYTES_MAX`].
    pub frame_max: u32,
    /// Largest frame in bytes before a virtual host is open.
    pub initial_frame_max: u32,
    /// The heartbeat interval proposed, in seconds; 0 proposes none.
    pub heartbeat_s: u32,
    /// The host that clients are to connect to.
    pub advertised_host: String,
    /// The port that clients are to connect to; `None` is the one they have come to.
    pub advertised_port: Option<u16>,
    /// Connections of this protocol at a time; `None` is no limit.
    pub max_connections: Option<u64>,
    /// Milliseconds a client has from connecting to an open virtual host.
    pub handshake_timeout_ms: u64,
    /// The outboxes of all connections, whatever their listener.
    pub budget: Arc<OutboxBudget>,
    /// Counts what all connections do, whatever their listener.
    pub totals: Arc<StreamTotals>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster_name: "leveret".to_owned(),
            mechanisms: vec![Mechanism::Plain, Mechanism::AmqPlain],
            frame_max: spec::FRAME_MAX_DEFAULT_BYTES,
            initial_frame_max: spec::INITIAL_FRAME_BYTES_MAX,
            heartbeat_s: spec::HEARTBEAT_DEFAULT_SECS,
            advertised_host: "localhost".to_owned(),
            advertised_port: None,
            max_connections: None,
            handshake_timeout_ms: 10_000,
            budget: Arc::default(),
            totals: Arc::default(),
        }
    }
}
