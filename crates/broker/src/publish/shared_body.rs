//! When the body of a message, or its properties, are kept once for several queues.

use bytes::Bytes;
use content::Storage;
use message::Body;
use message_store::SHARED_BODY_MIN_BYTES;
use message_store::{BodyHome, BodyStore, MessageStores, SHARED_PROPERTIES_MIN_BYTES};
use std::sync::Arc;

/// Bodies of at least this size that go to several queues are shared by them instead of copied.
const FANOUT_SHARED_BODY_MIN_BYTES: usize = 256;

/// The body stores of a node, and the one of the virtual host that a message is published in.
#[derive(Clone, Copy)]
pub(crate) struct Bodies<'b> {
    all: &'b MessageStores,
    own: &'b Arc<BodyStore>,
}

impl<'b> Bodies<'b> {
    #[inline]
    pub(crate) fn of(storage: &'b Storage, own: &'b Arc<BodyStore>) -> Self {
        Self { all: &storage.bodies, own }
    }

    /// A home for a body that goes to several queues if it, or the properties, are worth being stored once
    /// for all of them.
    pub(crate) fn home(
        self,
        properties: &[u8],
        body_bytes: usize,
        n_queues: usize,
        n_logging: usize,
    ) -> Option<Arc<BodyHome>> {
        let is_stored = self.is_stored_once(properties.len(), body_bytes, n_queues);
        is_stored.then(|| self.new_home(properties, n_logging))
    }

    pub(crate) fn new_home(self, properties: &[u8], n_logging: usize) -> Arc<BodyHome> {
        BodyHome::new(self.own, properties, n_logging)
    }

    /// Whether properties and a body of so many bytes are stored once for so many queues.
    #[inline]
    pub(crate) const fn is_stored_once(
        self,
        properties_bytes: usize,
        body_bytes: usize,
        n_queues: usize,
    ) -> bool {
        let is_large = properties_bytes >= SHARED_PROPERTIES_MIN_BYTES;
        n_queues > 1 && (is_large || self.all.is_stored(body_bytes))
    }
}

/// Whether a body is worth a copy that its queues share: large, or wanted by several of them.
pub(crate) const fn is_shared(body_bytes: usize, n_queues: usize) -> bool {
    match n_queues {
        0 => false,
        1 => body_bytes >= SHARED_BODY_MIN_BYTES,
        _ => body_bytes >= FANOUT_SHARED_BODY_MIN_BYTES,
    }
}

/// A copy of the body that its queues share, if the body is worth one.
pub(crate) fn shared_body(body: Body<'_>, n_queues: usize) -> Option<Bytes> {
    match body {
        Body::Borrowed(bytes) if is_shared(bytes.len(), n_queues) => {
            Some(Bytes::copy_from_slice(bytes))
        }
        Body::Borrowed(_) | Body::Shared(_) => None,
    }
}
