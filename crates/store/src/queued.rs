//! A message at its place in a queue: what one form of storage hands to another.

use message::{Body, MessageRef};

use crate::blob::BlobId;

/// A message at its position.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'a> {
    /// Its place in the queue.
    pub position: u64,
    /// The message. With `stored`, the body it shows counts for nothing.
    pub message: MessageRef<'a>,
    /// Where its body is, when it lies in the body store.
    pub stored: Option<StoredBody>,
    /// It may have been delivered already.
    pub is_delivered: bool,
}

/// A body in the body store of a virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBody {
    /// Its name there.
    pub blob: BlobId,
    /// Its length.
    pub bytes: u32,
}

impl Queued<'_> {
    /// Length of the body, wherever it is.
    #[must_use]
    pub fn body_bytes(&self) -> u32 {
        let own = || u32::try_from(self.message.body.len()).unwrap_or(u32::MAX);
        self.stored.map_or_else(own, |stored| stored.bytes)
    }

    /// As [`MessageRef::size_bytes`] counts it.
    pub(crate) fn size_bytes(&self) -> u64 {
        let head = MessageRef { body: Body::Borrowed(&[]), ..self.message };
        head.size_bytes() as u64 + u64::from(self.body_bytes())
    }
}
