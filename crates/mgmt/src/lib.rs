//! Management of a running node: what the command line tool asks over the control socket.
//! Never a client protocol: it reads snapshots and figures, takes a queue's lock only through the broker, for
//! consumers and the message at a queue's head, and changes things by the broker's commands.
//! Start reading at [`Management`], then `control`.

mod api_error;
mod certificates;
mod control;
mod definitions;
mod definitions_io;
mod limits;
mod listing;
mod logs;
mod node_info;
mod passwords;
mod request;
mod salt;
mod socket;
mod table;

pub use api_error::{ApiError, Kind};
pub use certificates::reload_certificates;
pub use control::{Operator, questions};
pub use definitions_io::{
    DOCUMENT_BYTES_MAX, ImportOptions, Imported, export_definitions, import_definitions,
};
pub use limits::{FileDescriptors, ResourceLimits, Resources, Threshold};
pub use listing::{connection_of_pid, connection_value, queue_value};
pub use logs::Log;
pub use node_info::{ListenerInfo, NodeInfo, memory_used_bytes};
pub use passwords::PasswordRule;
pub use salt::{random, salt};
pub use socket::{ControlSocket, SOCKET_FILE, SocketFile};

use auth::Authenticator;
use broker::Broker;
use meta::HashAlgorithm;
use serde_json::{Value, json};
use session::StreamTotals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::{Notify, watch};

/// The parts of a node that its management reads and changes.
#[derive(Debug)]
pub struct Management {
    /// The node's broker.
    pub broker: Arc<Broker>,
    /// Decides about names and passwords.
    pub authenticator: Authenticator,
    /// The rule for new passwords.
    pub password_rule: PasswordRule,
    /// The hash of new passwords.
    pub hashing: HashAlgorithm,
    /// The node's facts that do not change while it runs.
    pub node_info: NodeInfo,
    /// Memory and disk, and their limits, which an operator may change.
    pub resources: Arc<dyn Resources>,
    /// Counts of what clients of the stream protocol do.
    pub stream_totals: Arc<StreamTotals>,
    /// The log's level and file, which an operator may change.
    pub log: Arc<dyn Log>,
    /// The certificates of TLS listeners, if there are any, which may be read again.
    pub tls: Vec<Arc<tls::Context>>,
    /// Told whether nobody is to connect any more, for as long as an operator wants it so.
    pub suspended: watch::Sender<bool>,
    /// Whether clients can connect; the node says so when it has started.
    pub running: AtomicBool,
    /// Notified when an operator wants the node to stop.
    pub stop: Arc<Notify>,
}

impl Management {
    /// The listeners that clients can connect to.
    #[must_use]
    pub fn open_listeners(&self) -> &[ListenerInfo] {
        if *self.suspended.borrow() { &[] } else { &self.node_info.listeners }
    }

    /// The open listeners, as objects.
    fn listeners(&self) -> Value {
        if *self.suspended.borrow() { json!([]) } else { self.node_info.listeners() }
    }
}
