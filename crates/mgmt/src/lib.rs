//! Management of a running node: changes of definitions, import and export, limits, passwords, certificates.
//! Never a client protocol, nor how requests of operators come and are answered: the crate `http` does that.
//! Start reading at [`Management`], then [`Management::apply`] and [`definitions_io`].

mod api_error;
mod certificates;
mod changes;
mod cluster_view;
mod course;
pub mod definitions_io;
mod limits;
mod logs;
mod matching;
mod node_control;
mod node_info;
mod passwords;
mod pids;
mod salt;
mod socket;

pub use api_error::ApiError;
pub use certificates::{CertificateInUse, reload_certificates};
pub use changes::foretell;
pub use cluster_view::{ClusterMember, ClusterView, DefinitionsStanding, MemberPart};
pub use course::{Course, Waiting};
pub use definitions_io::{ImportOptions, Imported, check_definitions, import_definitions};
pub use limits::{FileDescriptors, ResourceLimits, Resources, Threshold};
pub use logs::{Log, LogLine};
pub use matching::{Matching, off_sockets};
pub use node_control::{
    MemberReplies, MemberReply, NodeChange, NodeControl, NodeEnd, NotedControl,
};
pub use node_info::{ListenerInfo, NodeInfo, is_same_node, memory_used_bytes};
pub use passwords::PasswordRule;
pub use pids::{channel_pid, connection_of_pid, connection_pid, queue_pid};
pub use salt::{random, salt};
pub use socket::{ControlSocket, SocketFile};

use auth::Authenticator;
use broker::{Alarm, Broker};
use meta::HashAlgorithm;
use session::ClientTotals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::watch;

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
    /// Counts of what clients do.
    pub client_totals: ClientTotals,
    /// The log's level and file, which an operator may change.
    pub log: Arc<dyn Log>,
    /// The certificates of TLS listeners, if there are any, which may be read again.
    pub tls: Vec<Arc<tls::Context>>,
    /// Told whether nobody is to connect any more, for as long as an operator wants it so.
    pub suspended: watch::Sender<bool>,
    /// Whether clients can connect; the node says so when it has started.
    pub running: AtomicBool,
    /// The node's run and its place in a cluster.
    pub control: Arc<dyn NodeControl>,
}

impl Management {
    /// The alarms that are on, that for file descriptors also before the system opens no more files.
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> {
        let are_short = self.resources.descriptors().is_alarm_on;
        Alarm::ALL.into_iter().filter(move |alarm| {
            self.broker.alarms.is_on(*alarm) || are_short && *alarm == Alarm::Descriptors
        })
    }

    /// The listeners that clients can connect to.
    pub fn open_listeners(&self) -> &[ListenerInfo] {
        if *self.suspended.borrow() { &[] } else { &self.node_info.listeners }
    }
}
