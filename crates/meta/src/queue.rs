//! Queues: what one is, and when a redeclaration means the same.

use amqp091::Table;
use routing::{Name, QueueId};

use crate::error::MetaError;
use crate::queue_home::QueueHome;
use crate::queue_name::{DELAYED_PREFIX, is_internal_name};
use crate::queue_type::{ConnectionId, QueueKind};
use crate::resource::Resource;

/// Ids from here on belong to queues that do not survive a restart: behind this bit the term in which they
/// were given, in 31 bits, and 32 bits that count. They count on their own, so that the ids of durable queues
/// come out the same when only durable commands are replayed.
const TRANSIENT: u64 = 1 << 63;
const TERM_SHIFT: u32 = 32;

/// A queue that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueDef {
    /// The queue's id, never used for another queue; see [`QueueDef::is_durable_id`].
    pub id: QueueId,
    /// Its virtual host.
    pub vhost: Name,
    /// Its name.
    pub name: Name,
    /// The queue's type.
    pub kind: QueueKind,
    /// Whether the queue survives a restart; never set with an exclusive owner.
    pub durable: bool,
    /// Whether the queue is deleted when its last consumer goes.
    pub auto_delete: bool,
    /// The only connection that may use the queue; the queue goes with that connection.
    pub exclusive_owner: Option<ConnectionId>,
    /// The arguments as declared, perhaps with the default queue type of the virtual host.
    pub arguments: Table,
    /// The node that the queue is on; for a quorum queue, the node that declared it.
    pub home: QueueHome,
}

impl QueueDef {
    /// Whether ids like this are given to durable queues.
    #[must_use]
    pub const fn is_durable_id(id: QueueId) -> bool {
        id.0 < TRANSIENT
    }

    /// Whether the queue goes on without the node it is on, from other nodes with members of it.
    pub(crate) const fn outlives_node(&self) -> bool {
        match self.kind {
            QueueKind::Quorum => self.durable,
            QueueKind::Classic | QueueKind::Stream => false,
        }
    }

    /// Refuses connections other than the owner of an exclusive queue. `None` is the operator.
    ///
    /// # Errors
    /// [`MetaError::Locked`].
    pub fn check_access(&self, by: Option<ConnectionId>) -> Result<(), MetaError> {
        if by.is_some() && self.is_internal() {
            return Err(MetaError::Locked(self.resource()));
        }
        if self.exclusive_owner.is_none() || by.is_none() || self.exclusive_owner == by {
            return Ok(());
        }
        Err(MetaError::Locked(self.resource()))
    }

    /// The delaying exchange whose messages it holds back: such queues are the broker's own.
    pub fn delays_for(&self) -> Option<&str> {
        self.name.strip_prefix(DELAYED_PREFIX)
    }

    /// Whether the queue is the broker's own, which clients may see at most.
    pub fn is_internal(&self) -> bool {
        is_internal_name(&self.name)
    }

    /// Its name for error texts.
    #[must_use]
    pub fn resource(&self) -> Resource {
        Resource::queue(&self.vhost, &self.name)
    }
}

/// Gives out ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueIds {
    /// The next id of a durable queue, from 1.
    next_durable: u64,
    next_transient: u64,
}

impl Default for QueueIds {
    fn default() -> Self {
        Self { next_durable: 1, next_transient: TRANSIENT }
    }
}

impl QueueIds {
    pub(crate) const fn next(&mut self, durable: bool) -> QueueId {
        let next = if durable { &mut self.next_durable } else { &mut self.next_transient };
        let id = QueueId(*next);
        *next = next.saturating_add(1);
        id
    }

    /// Whether a queue may have this id: one of its durability, and not the last one, after which there would
    /// be no other.
    pub(crate) const fn may_be(id: QueueId, durable: bool) -> bool {
        QueueDef::is_durable_id(id) == durable && id.0 | TRANSIENT != u64::MAX
    }

    /// Whether the id, or a later one of its durability, has been given out.
    pub(crate) const fn has_given(&self, id: QueueId) -> bool {
        id.0 < if QueueDef::is_durable_id(id) { self.next_durable } else { self.next_transient }
    }

    pub(crate) const fn next_durable(&self) -> u64 {
        self.next_durable
    }

    pub(crate) const fn next_transient(&self) -> u64 {
        self.next_transient
    }

    /// Gives transient queues ids of this term from now on.
    pub(crate) fn begin_term(&mut self, term: u32) {
        self.restore(0, TRANSIENT | u64::from(term) << TERM_SHIFT);
    }

    /// Takes note of ids that were given out up to these.
    pub(crate) fn restore(&mut self, next_durable: u64, next_transient: u64) {
        self.next_durable = self.next_durable.max(next_durable);
        self.next_transient = self.next_transient.max(next_transient);
    }

    /// Takes note of an id that is in use.
    pub(crate) fn take(&mut self, id: QueueId) {
        if QueueDef::is_durable_id(id) {
            self.next_durable = self.next_durable.max(id.0 + 1);
        } else {
            self.next_transient = self.next_transient.max(id.0.saturating_add(1));
        }
    }
}
