//! Bodies beside a page's bytes, with properties in front of those that share them, or are stored with them.

use super::SharedBody;
use super::page_bitmap::to_u16;
use crate::blob::BlobId;
use bytes::Bytes;
use message::StandIn;
use std::sync::Arc;

/// Properties that several backlogs have, kept in front of the body they share.
#[derive(Debug)]
pub struct SharedProperties {
    /// The properties as their publisher sent them.
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
#[derive(Clone, Debug)]
pub(super) struct KeptBody {
    pub(super) body: Bytes,
    /// The properties in front of it, only where the message's envelope has a stand-in for them.
    pub(super) properties: Option<Bytes>,
    /// Its name in the body store, if it is there.
    pub(super) blob: Option<BlobId>,
    /// The shared body that names it in the body store, if other queues have the body too.
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

    /// Whether all of its `len` bytes are at hand.
    pub(super) fn is_whole(&self, len: u32) -> bool {
        self.len() == len as usize
    }
}

/// The bodies a page keeps apart, by number; 0 is the number of none.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptBodies {
    bodies: Vec<Option<KeptBody>>,
    /// Bytes of those that are still there.
    bytes: usize,
    /// Bytes of stored bodies that are not at hand.
    missing_bytes: usize,
}

impl KeptBodies {
    /// Bytes of those that are still there.
    #[inline]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of stored bodies that are not at hand.
    #[inline]
    pub(super) const fn missing_bytes(&self) -> usize {
        self.missing_bytes
    }

    /// Keeps a body; returns its number.
    pub(super) fn keep(&mut self, kept: KeptBody) -> u16 {
        self.bytes += kept.len();
        self.bodies.push(Some(kept));
        to_u16(self.bodies.len())
    }

    /// Notes that the body kept last is stored, and how many bytes of it are not at hand.
    pub(super) const fn note_missing(&mut self, bytes: u32) {
        self.missing_bytes += bytes as usize;
    }

    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<&KeptBody> {
        self.bodies.get(usize::from(number.checked_sub(1)?))?.as_ref()
    }

    /// Says who gives the body kept last its name in the body store, unless it has one.
    pub(super) fn share_last(&mut self, home: Arc<dyn SharedBody>) {
        if let Some(Some(kept)) = self.bodies.last_mut() {
            kept.home = Some(home).filter(|_| kept.blob.is_none());
        }
    }

    /// Puts a body at hand that was missing.
    pub(super) fn fill(&mut self, number: u16, bytes: Bytes, properties_bytes: u32) {
        let place = usize::from(number).checked_sub(1);
        let kept = place.and_then(|at| self.bodies.get_mut(at)).and_then(Option::as_mut);
        if let Some(kept) = kept {
            assert!(self.missing_bytes >= bytes.len(), "a body is missing until it is filled");
            self.missing_bytes -= bytes.len();
            self.bytes += bytes.len();
            kept.fill(bytes, properties_bytes);
        }
    }

    /// Lets go of a body of `len` bytes: the bytes at hand and its name in the body store.
    #[cold]
    pub(super) fn let_go(&mut self, number: u16, len: u32) -> (usize, Option<BlobId>) {
        let place = usize::from(number).checked_sub(1);
        let kept = place.and_then(|at| self.bodies.get_mut(at)).and_then(Option::take);
        let Some(kept) = kept else { return (0, None) };
        debug_assert!(self.bytes >= kept.len(), "what is kept is counted");
        self.bytes -= kept.len();
        if !kept.is_whole(len) {
            debug_assert!(self.missing_bytes >= len as usize, "what is missing is counted");
            self.missing_bytes -= len as usize;
        }
        (kept.len(), kept.blob)
    }

    /// Gives bodies that other queues have too their names in the body store. Returns how many bytes
    /// that added to the store.
    pub(super) fn name_shared(&mut self) -> usize {
        let mut added_bytes = 0;
        for kept in self.bodies.iter_mut().flatten() {
            if let Some(home) = kept.home.take().filter(|_| kept.blob.is_none()) {
                let (blob, added) = home.name(&kept.body);
                kept.blob = blob;
                added_bytes += added;
            }
        }
        added_bytes
    }

    pub(super) fn clear(&mut self) {
        self.bodies.clear();
        self.bytes = 0;
        self.missing_bytes = 0;
    }
}
