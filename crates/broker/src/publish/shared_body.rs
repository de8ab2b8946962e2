//! When the body of a message, or its properties, are kept once for several queues.

use bytes::Bytes;
use message::Body;
use message_store::SHARED_BODY_MIN_BYTES;
use message_store::{BodyHome, BodyStore, MessageStores, SHARED_PROPERTIES_MIN_BYTES};
use std::sync::Arc;

/// Bodies of at least this size that go to several queues are shared by them instead of copied.
const FANOUT_SHARED_BODY_MIN_BYTES: usize = 256;

/// A home for a body that goes to several queues if it, or the properties, are worth being stored once for
/// all of them.
pub(crate) fn shared_home(
    (all, own): (&MessageStores, &Arc<BodyStore>),
    (properties, body_bytes): (&[u8], usize),
    (n_queues, n_logging): (usize, usize),
) -> Option<Arc<BodyHome>> {
    let is_stored = is_stored_once(all, (properties.len(), body_bytes), n_queues);
    is_stored.then(|| BodyHome::new(own, properties, n_logging))
}

/// Whether properties and a body of so many bytes are stored once for so many queues.
#[inline]
pub(crate) const fn is_stored_once(
    all: &MessageStores,
    (properties_bytes, body_bytes): (usize, usize),
    n_queues: usize,
) -> bool {
    n_queues > 1 && (all.is_stored(body_bytes) || properties_bytes >= SHARED_PROPERTIES_MIN_BYTES)
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
