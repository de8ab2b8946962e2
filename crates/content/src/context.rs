//! The definition of a queue, and the parts of the node that it uses.

use crate::services::Services;
use crate::storage::Storage;
use log::Wal;
use message_store::BodyStore;
use meta::{QueueDef, QueueId};
use std::sync::Arc;
use stdx::WallClock;
use store::backlog::PagePool;
use store::blob::BlobId;

/// The definition of a queue, and the parts of the node that it uses.
#[derive(Debug)]
pub struct QueueContext {
    /// Definition of the queue.
    pub def: Arc<QueueDef>,
    /// The parts of the node that queues share.
    pub services: Arc<Services>,
    /// Bodies of the queue's virtual host.
    pub bodies: Arc<BodyStore>,
}

impl QueueContext {
    /// Makes the context of a queue with this definition.
    #[must_use]
    pub fn new(def: Arc<QueueDef>, services: Arc<Services>) -> Self {
        let bodies = services.storage.bodies.of(&def.vhost);
        Self { def, services, bodies }
    }

    /// Definition of the queue.
    pub const fn def(&self) -> &Arc<QueueDef> {
        &self.def
    }

    /// The storage that the node's queues share.
    #[inline]
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.services.storage
    }

    /// The node's log.
    #[inline]
    #[must_use]
    pub fn wal(&self) -> &Wal {
        &self.services.storage.wal
    }

    /// Memory of pages.
    #[inline]
    #[must_use]
    pub fn pool(&self) -> &PagePool {
        &self.services.storage.pool
    }

    /// The clock.
    #[inline]
    #[must_use]
    pub fn time(&self) -> &WallClock {
        &self.services.storage.time
    }

    /// Id of the queue.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.def.id
    }

    /// Adds a reference of a stored body; false if there is no such body.
    #[must_use]
    pub fn retain_body(&self, blob: BlobId) -> bool {
        self.bodies.retain(blob)
    }
}
