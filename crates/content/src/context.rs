//! The definition of a queue, and the parts of the node that it uses.

use crate::services::Services;
use message_store::BodyStore;
use meta::{QueueDef, QueueId};
use std::sync::Arc;
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
