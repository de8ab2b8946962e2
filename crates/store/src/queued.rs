//! A message at its place in a queue: what one form of storage hands to another.

use message::{Body, MessageRef, StandIn};

use crate::blob::BlobId;

/// A message at its position.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'a> {
    /// Its place in the queue.
    pub position: u64,
    /// The message. With `stored`, the body it shows counts for nothing, and where the properties are
    /// stored too it shows brief ones.
    pub message: MessageRef<'a>,
    /// Where its body is, when it lies in the body store.
    pub stored: Option<StoredBody>,
    /// Whether the message may have been delivered already.
    pub is_delivered: bool,
}

/// A body in the body store of a virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBody {
    /// Its name there.
    pub blob: BlobId,
    /// Its length.
    pub bytes: u32,
    /// Length of the message's properties, if they are stored in front of it; else 0.
    pub properties_bytes: u32,
}

impl StoredBody {
    /// Length of all that is stored.
    pub const fn blob_bytes(&self) -> u32 {
        self.bytes + self.properties_bytes
    }
}

impl Queued<'_> {
    /// Length of the body, wherever it is.
    #[must_use]
    pub fn body_bytes(&self) -> u32 {
        let own = || u32::try_from(self.message.body.len()).unwrap_or(u32::MAX);
        self.stored.map_or_else(own, |stored| stored.bytes)
    }

    /// The substitute for properties that are stored with the body.
    pub fn stand_in(&self) -> Option<StandIn<'_>> {
        let properties_bytes = self.stored?.properties_bytes;
        let brief = self.message.properties;
        (properties_bytes > 0).then_some(StandIn { properties_bytes, brief })
    }

    /// The message's size, as [`MessageRef::size_bytes`] counts it.
    pub(crate) fn size_bytes(&self) -> u64 {
        let properties: &[u8] =
            if self.stand_in().is_some() { &[] } else { self.message.properties };
        let head = MessageRef { body: Body::Borrowed(&[]), properties, ..self.message };
        let content_bytes = match self.stored {
            Some(stored) => stored.blob_bytes(),
            None => self.body_bytes(),
        };
        head.size_bytes() as u64 + u64::from(content_bytes)
    }
}
