//! Management of a running node: what operators ask of it and do with it, each by a function of a request.
//! Never a client protocol, nor how requests come: it reads snapshots and figures, takes a queue's lock only
//! through the broker, for consumers and the message at a queue's head, and changes things by its commands.
//! Start reading at [`Management`], then [`definitions`] and [`operations`].

mod api_error;
mod audit;
pub mod certificates;
mod course;
pub mod definitions;
pub mod definitions_io;
pub mod delayed;
pub mod deprecated;
mod events;
mod limits;
mod logs;
mod matching;
pub mod node;
mod node_info;
pub mod operations;
mod passwords;
mod pids;
pub mod quorum;
mod request;
mod salt;
mod socket;
pub mod streams;
mod table;
pub mod tail;

pub use api_error::{ApiError, Kind};
pub use audit::{Operator, note};
pub use certificates::reload_certificates;
pub use course::{Course, Waiting};
pub use definitions::{Commands, Define, Present};
pub use definitions_io::{
    DOCUMENT_BYTES_MAX, ImportOptions, Imported, check_definitions, import_definitions,
};
pub use limits::{FileDescriptors, ResourceLimits, Resources, Threshold};
pub use logs::{Log, LogLine};
pub use matching::{Matching, off_sockets};
pub use node_info::{ListenerInfo, NodeInfo, is_same_node, memory_used_bytes};
pub use passwords::PasswordRule;
pub use pids::{channel_pid, connection_of_pid, connection_pid, queue_pid};
pub use request::Request;
pub use salt::{random, salt};
pub use socket::{ControlSocket, SOCKET_FILE, SocketFile};
pub use table::table as typed_table;

use auth::Authenticator;
use broker::Broker;
use meta::HashAlgorithm;
use serde_json::{Value, json};
use session::StreamTotals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::{Notify, watch};

/// An answer to a request.
pub type Told = Result<Value, ApiError>;

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
    pub fn open_listeners(&self) -> &[ListenerInfo] {
        if *self.suspended.borrow() { &[] } else { &self.node_info.listeners }
    }

    /// The open listeners, as objects.
    fn listeners(&self) -> Value {
        if *self.suspended.borrow() { json!([]) } else { self.node_info.listeners() }
    }
}
