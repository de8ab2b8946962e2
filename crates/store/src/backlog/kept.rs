//! Bodies beside a page's bytes, with properties in front of those that share them, or are stored with them.

use super::SharedBody;
use crate::blob::BlobId;
use bytes::Bytes;
use message::StandIn;
use std::sync::Arc;

/// Properties that several backlogs have, kept in front of the body they share.
#[derive(Debug)]
pub struct SharedProperties {
    /// As their publisher sent them.
    pub whole: Bytes,
    /// The part of them that is to be known before they are read, in the same encoding.
    pub brief: Vec<u8>,
}

impl SharedProperties {
    /// Their substitute elsewhere.
    #[must_use]
    pub fn stand_in(&self) -> StandIn<'_> {
        let properties_bytes = u32::try_from(self.whole.len()).expect("properties are < 4 GiB");
        StandIn { properties_bytes, brief: &self.brief }
    }
}

/// A body beside the page's bytes, perhaps with properties in front of it.
#[derive(Debug)]
pub(super) struct KeptBody {
    pub(super) body: Bytes,
    /// Only where the message's envelope has a stand-in for them.
    pub(super) properties: Option<Bytes>,
    /// Its name in the body store, if it is there.
    pub(super) blob: Option<BlobId>,
    /// Who gives it a name there, if other queues have it too.
    pub(super) home: Option<Arc<dyn SharedBody>>,
}

impl KeptBody {
    /// A body alone.
    pub(super) const fn new(body: Bytes, blob: Option<BlobId>) -> Self {
        Self { body, properties: None, blob, home: None }
    }

    /// A stored body that is not at hand.
    pub(super) const fn missing(blob: BlobId) -> Self {
        Self::new(Bytes::new(), Some(blob))
    }

    /// Takes what is kept, of which so many bytes are properties.
    pub(super) fn fill(&mut self, mut bytes: Bytes, properties_bytes: u32) {
        let properties_bytes = (properties_bytes as usize).min(bytes.len());
        self.properties = (properties_bytes > 0).then(|| bytes.split_to(properties_bytes));
        self.body = bytes;
    }

    /// Bytes of properties and body.
    pub(super) fn len(&self) -> usize {
        self.body.len() + self.properties.as_ref().map_or(0, Bytes::len)
    }
}
