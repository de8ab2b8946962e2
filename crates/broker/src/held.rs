//! Memory that clients occupy in the node beside queues: transactions that are not committed, messages of
//! which a part is missing, deliveries that the client does not read, and the list of its unacked messages. A
//! connection may hold one share of the memory that the node may use, and all connections together another:
//! the connection that holds most is closed before the memory alarm blocks publishers. The task of a
//! connection reports a change of its memory once per turn; unacked messages are counted with the broker's
//! tick. Unacked messages themselves belong to their queue, which pages them out.

use crate::connections::{Connection, Connections, Held};
use meta::ConnectionId;
use session::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stdx::MonotonicMs;

/// A connection may hold one in so many parts of the memory that the node may use.
const CONNECTION_PART: u64 = 4;
/// All connections together may hold one in so many parts of the memory that the node may use.
const ALL_PART: u64 = 2;
/// Bytes that a connection may hold however little memory the node may use, so that a watermark of 0 blocks
/// publishers and closes no connection; all connections together may hold twice as much.
const CONNECTION_BYTES_MIN: u64 = 32 * 1024 * 1024;
/// Bytes in memory for an unacked message, wherever the message itself is: its tag, link and position in the
/// client's outbox, and the position again in the queue.
const UNACKED_BYTES: u64 = 4 * size_of::<u64>() as u64;

/// The memory that all connections hold, and the limits of it.
#[derive(Debug)]
pub(crate) struct Holdings {
    all_bytes: AtomicU64,
    /// The part of `all_bytes` that is held by requests without a connection.
    request_bytes: AtomicU64,
    node_bytes_max: AtomicU64,
    /// Unacked messages by connection, as counted last.
    n_unacked: Mutex<BTreeMap<ConnectionId, u64>>,
    /// When unacked messages are counted next, in monotonic milliseconds.
    next_look_ms: AtomicU64,
}

impl Default for Holdings {
    fn default() -> Self {
        let node_bytes_max = AtomicU64::new(u64::MAX);
        Self {
            all_bytes: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
            node_bytes_max,
            n_unacked: Mutex::default(),
            next_look_ms: AtomicU64::new(0),
        }
    }
}

impl Holdings {
    /// Sets how many bytes of memory the node may use.
    pub(crate) fn set_node_bytes_max(&self, n_bytes: u64) {
        self.node_bytes_max.store(n_bytes, Ordering::Relaxed);
    }

    /// Whether unacked messages are to be counted now.
    pub(crate) fn is_look_due(&self, now_ms: MonotonicMs) -> bool {
        now_ms.get() >= self.next_look_ms.load(Ordering::Relaxed)
    }

    /// Has unacked messages counted next at `at_ms`.
    pub(crate) fn set_next_look(&self, at_ms: MonotonicMs) {
        self.next_look_ms.store(at_ms.get(), Ordering::Relaxed);
    }

    pub(crate) fn connection_bytes_max(&self) -> u64 {
        let node_bytes_max = self.node_bytes_max.load(Ordering::Relaxed);
        (node_bytes_max / CONNECTION_PART).max(CONNECTION_BYTES_MIN)
    }

    pub(crate) fn all_bytes_max(&self) -> u64 {
        let node_bytes_max = self.node_bytes_max.load(Ordering::Relaxed);
        (node_bytes_max / ALL_PART).max(2 * CONNECTION_BYTES_MIN)
    }

    /// Notes how many bytes a connection holds now, beside its unacked messages.
    ///
    /// # Errors
    /// The connection holds too much. If other connections hold too much, those are failed instead.
    pub(crate) fn note(
        &self,
        connection: &Connection,
        n_bytes: u64,
        connections: &Connections,
    ) -> Result<(), Error> {
        if connection.held.is_refused() {
            return Ok(());
        }
        self.change(&connection.held.told_bytes, n_bytes);
        self.weigh(connection, connections)
    }

    /// Notes the unacked messages of connections; a connection that is not named has none.
    pub(crate) fn note_unacked(
        &self,
        n_unacked: BTreeMap<ConnectionId, u64>,
        connections: &Connections,
    ) {
        let mut noted = stdx::lock(&self.n_unacked);
        let none = noted.keys().filter(|id| !n_unacked.contains_key(id)).map(|id| (id, &0));
        for (id, n) in none.chain(&n_unacked) {
            let Some(connection) = connections.get(*id) else { continue };
            let n_bytes = n * UNACKED_BYTES;
            let before = connection.held.unacked_bytes.load(Ordering::Relaxed);
            if n_bytes == before || connection.held.is_refused() {
                continue;
            }
            self.change(&connection.held.unacked_bytes, n_bytes);
            if n_bytes > before
                && let Err(error) = self.weigh(&connection, connections)
            {
                connection.fail(error);
            }
        }
        *noted = n_unacked;
    }

    fn weigh(&self, connection: &Connection, connections: &Connections) -> Result<(), Error> {
        let n_bytes = connection.held.bytes();
        let connection_bytes_max = self.connection_bytes_max();
        if n_bytes > connection_bytes_max {
            self.refuse(&connection.held);
            return Err(too_much(n_bytes, connection_bytes_max));
        }
        while self.all_bytes.load(Ordering::Relaxed) > self.all_bytes_max() {
            let Some(heaviest) = heaviest(connections) else { break };
            let held_bytes = self.refuse(&heaviest.held);
            let error = too_much_together(held_bytes, self.all_bytes_max());
            if heaviest.id == connection.id {
                return Err(error);
            }
            heaviest.fail(error);
        }
        Ok(())
    }

    /// Counts the memory of a closed connection no more.
    pub(crate) fn forget(&self, connection: &Connection) {
        self.refuse(&connection.held);
    }

    /// Counts a connection's memory no more; returns how many bytes that were.
    fn refuse(&self, held: &Held) -> u64 {
        held.is_refused.store(true, Ordering::Relaxed);
        self.change(&held.told_bytes, 0) + self.change(&held.unacked_bytes, 0)
    }

    /// Notes how many bytes requests without a connection hold now.
    pub(crate) fn note_requests(&self, n_bytes: u64) {
        self.change(&self.request_bytes, n_bytes);
    }

    fn change(&self, of_connection: &AtomicU64, n_bytes: u64) -> u64 {
        let before = of_connection.swap(n_bytes, Ordering::Relaxed);
        self.all_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        self.all_bytes.fetch_sub(before, Ordering::Relaxed);
        before
    }
}

fn heaviest(connections: &Connections) -> Option<Arc<Connection>> {
    let all = connections.list().into_iter().filter(|one| !one.held.is_refused());
    all.max_by_key(|one| one.held.bytes()).filter(|one| one.held.bytes() > 0)
}

fn too_much(n_bytes: u64, bytes_max: u64) -> Error {
    let text = format!(
        "{n_bytes} bytes of uncommitted, unfinished, unread or unacknowledged messages exceed the limit \
         of {bytes_max} bytes per connection"
    );
    Error::new(ErrorKind::ResourceError, text)
}

fn too_much_together(n_bytes: u64, bytes_max: u64) -> Error {
    let text = format!(
        "connections hold more than {bytes_max} bytes of uncommitted, unfinished, unread or \
         unacknowledged messages, this connection the most: {n_bytes} bytes"
    );
    Error::new(ErrorKind::ResourceError, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Identity, Interrupt};
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const MIB: u64 = 1024 * 1024;

    fn kick(connection: &Connection) -> Option<Interrupt> {
        match pin!(connection.kicked()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(kick) => Some(kick),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_connection_that_holds_more_than_its_share_is_refused() {
        let (holdings, connections) = (Holdings::default(), Connections::default());
        holdings.set_node_bytes_max(400 * MIB);
        let connection = connections.open(Identity::default()).unwrap();
        holdings.note(&connection, 100 * MIB, &connections).unwrap();
        let error = holdings.note(&connection, 100 * MIB + 1, &connections).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ResourceError);
        assert_eq!(holdings.all_bytes.load(Ordering::Relaxed), 0);
        // A refused connection gets no second error.
        holdings.note(&connection, 200 * MIB, &connections).unwrap();
        holdings.forget(&connection);
        assert_eq!(holdings.all_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_many_that_hold_too_much_together_the_heaviest_goes() {
        let (holdings, connections) = (Holdings::default(), Connections::default());
        holdings.set_node_bytes_max(400 * MIB);
        let all: Vec<_> = (0..3).map(|_| connections.open(Identity::default()).unwrap()).collect();
        for (connection, n_mib) in all.iter().zip([70, 90, 40]) {
            holdings.note(connection, n_mib * MIB, &connections).unwrap();
        }
        assert!(all.iter().all(|connection| kick(connection).is_none()));
        holdings.note(&all[2], 41 * MIB, &connections).unwrap();
        assert!(
            matches!(kick(&all[1]), Some(Interrupt::Fail(error)) if error.kind == ErrorKind::ResourceError)
        );
        assert!(kick(&all[0]).is_none() && kick(&all[2]).is_none());
        assert_eq!(holdings.all_bytes.load(Ordering::Relaxed), 111 * MIB);
    }

    #[test]
    fn what_stays_in_memory_of_unacknowledged_messages_counts() {
        let (holdings, connections) = (Holdings::default(), Connections::default());
        holdings.set_node_bytes_max(400 * MIB);
        let all: Vec<_> = (0..2).map(|_| connections.open(Identity::default()).unwrap()).collect();
        let n_max = 100 * MIB / UNACKED_BYTES;
        let unacked = |n| BTreeMap::from([(all[0].id, n)]);
        holdings.note_unacked(unacked(n_max), &connections);
        assert_eq!((all[0].held_bytes(), kick(&all[0])), (100 * MIB, None));
        holdings.note_unacked(BTreeMap::new(), &connections);
        assert_eq!(all[0].held_bytes(), 0);
        holdings.note_unacked(unacked(n_max - 1), &connections);
        holdings.note(&all[1], 7, &connections).unwrap();
        holdings.note(&all[0], UNACKED_BYTES, &connections).unwrap();
        holdings.note(&all[0], UNACKED_BYTES + 1, &connections).unwrap_err();
        assert_eq!(holdings.all_bytes.load(Ordering::Relaxed), 7);
        holdings.note_unacked(BTreeMap::from([(all[1].id, n_max)]), &connections);
        assert!(
            matches!(kick(&all[1]), Some(Interrupt::Fail(error)) if error.kind == ErrorKind::ResourceError)
        );
    }

    #[test]
    fn a_watermark_of_nothing_leaves_everybody_enough_for_a_message() {
        let (holdings, connections) = (Holdings::default(), Connections::default());
        holdings.set_node_bytes_max(0);
        let connection = connections.open(Identity::default()).unwrap();
        holdings.note(&connection, CONNECTION_BYTES_MIN, &connections).unwrap();
        holdings.note(&connection, CONNECTION_BYTES_MIN + 1, &connections).unwrap_err();
    }
}
