//! The heaviest users of a node that runs short of something: for logs and operators, never for decisions.

use super::Figures;
use crate::connections::Connection;
use queues::QueueRef;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Queues and connections an alarm names.
pub const HEAVIEST_NAMED: usize = 3;

/// The queues with most bytes of messages, and the connections that hold most memory beside queues, then
/// those that have sent most; heaviest first.
#[derive(Debug, Default)]
pub struct Heaviest {
    /// Queues that hold messages.
    pub queues: Vec<HeavyQueue>,
    /// Connections that have published, or hold something.
    pub connections: Vec<HeavyConnection>,
}

/// A queue, and how much it holds.
#[derive(Debug)]
pub struct HeavyQueue {
    /// The queue.
    pub queue: QueueRef,
    /// Ready and unacked messages.
    pub n_messages: u64,
    /// Bytes of these messages, in memory or on disk.
    pub message_bytes: u64,
}

/// A connection, and how much it holds and has sent.
#[derive(Debug)]
pub struct HeavyConnection {
    /// The connection.
    pub connection: Arc<Connection>,
    /// Bytes of memory that the connection occupies beside queues.
    pub held_bytes: u64,
    /// Messages delivered to the connection and not settled.
    pub n_unacked: u64,
    /// Bytes read from the connection's socket since it was opened.
    pub received_bytes: u64,
}

impl HeavyConnection {
    fn is_any(&self) -> bool {
        self.held_bytes > 0 || self.n_unacked > 0 || self.connection.has_published()
    }
}

impl Heaviest {
    /// A sentence for each queue and connection.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let queues = self.queues.iter().map(ToString::to_string);
        queues.chain(self.connections.iter().map(ToString::to_string)).collect()
    }
}

impl fmt::Display for HeavyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let def = self.queue.def();
        let (name, vhost) = (def.name.as_str(), def.vhost.as_str());
        let Self { n_messages, message_bytes, .. } = self;
        write!(
            f,
            "queue '{name}' in vhost '{vhost}' holds {n_messages} messages of {message_bytes} bytes"
        )
    }
}

impl fmt::Display for HeavyConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = &self.connection.identity;
        let (name, user) = (identity.name.as_str(), identity.user.as_str());
        write!(f, "connection '{name}' of user '{user}' has sent {} bytes", self.received_bytes)?;
        if self.held_bytes > 0 {
            write!(
                f,
                ", holds {} bytes of uncommitted, unfinished, unread or unacknowledged messages",
                self.held_bytes
            )?;
        }
        match self.n_unacked {
            0 => Ok(()),
            n => write!(f, ", and has not acknowledged {n} messages"),
        }
    }
}

impl Figures<'_> {
    /// The `n` heaviest queues and connections at this moment.
    #[must_use]
    pub fn heaviest(&self, n: usize) -> Heaviest {
        let view = self.0.view();
        let heavy = |queue: &QueueRef| {
            let stat = queue.local_stat();
            let (n_messages, message_bytes) = (stat.n_ready + stat.n_unacked, stat.message_bytes);
            (n_messages > 0).then(|| HeavyQueue { queue: queue.clone(), n_messages, message_bytes })
        };
        let mut queues: Vec<HeavyQueue> = view.queues().filter_map(heavy).collect();
        queues.sort_unstable_by_key(|heavy| Reverse(heavy.message_bytes));
        queues.truncate(n);
        Heaviest { queues, connections: self.heaviest_connections(n) }
    }

    fn heaviest_connections(&self, n: usize) -> Vec<HeavyConnection> {
        let unacked = self.unacked_by_connection();
        let heavy = |connection: Arc<Connection>| HeavyConnection {
            held_bytes: connection.held_bytes(),
            n_unacked: unacked.get(&connection.id).copied().unwrap_or(0),
            received_bytes: connection.received.bytes.load(Ordering::Relaxed),
            connection,
        };
        let mut connections: Vec<HeavyConnection> = self
            .0
            .connections
            .list()
            .into_iter()
            .map(heavy)
            .filter(HeavyConnection::is_any)
            .collect();
        connections.sort_unstable_by_key(|heavy| Reverse((heavy.held_bytes, heavy.received_bytes)));
        connections.truncate(n);
        connections
    }
}
