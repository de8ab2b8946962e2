//! Images in transit: a follower takes an image that its leader offers, piece by piece.
//!
//! The follower asks for each piece, so that a transfer that was broken off goes on where it was, also with
//! another leader: images of one index are equal.

use bytes::Bytes;

use crate::members::PeerId;
use crate::message::ImageOffer;

/// Bytes of a piece.
pub const PIECE_BYTES: usize = 256 << 10;
/// Most bytes of a machine in an image.
pub const IMAGE_BYTES_MAX: u64 = 256 << 20;

/// An image that a follower is taking.
#[derive(Debug)]
pub(crate) struct IncomingImage {
    pub(crate) from: PeerId,
    /// The leader's term.
    pub(crate) term: u64,
    pub(crate) offer: ImageOffer,
    machine: Vec<u8>,
}

impl IncomingImage {
    /// Takes an offer; what is there of the same image already counts.
    pub(crate) fn begin(before: Option<Self>, from: PeerId, term: u64, offer: ImageOffer) -> Self {
        let same = before.filter(|before| before.offer == offer);
        Self { from, term, offer, machine: same.map_or_else(Vec::new, |before| before.machine) }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.machine.len() as u64
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.offset() == self.offer.machine_bytes
    }

    /// Takes a piece. False if it is not the next one.
    pub(crate) fn take(&mut self, index: u64, offset: u64, bytes: &[u8]) -> bool {
        let rest = self.offer.machine_bytes - self.offset();
        let fits = !bytes.is_empty() && bytes.len() as u64 <= rest;
        let is_next = index == self.offer.index && offset == self.offset() && fits;
        if is_next {
            self.machine.extend_from_slice(bytes);
        }
        is_next
    }

    pub(crate) fn into_machine(self) -> Bytes {
        self.machine.into()
    }
}

/// The piece of an image at `offset`; none if there is none.
pub(crate) fn piece(machine: &Bytes, offset: u64) -> Option<Bytes> {
    let offset = usize::try_from(offset).ok().filter(|offset| *offset < machine.len())?;
    Some(machine.slice(offset..machine.len().min(offset + PIECE_BYTES)))
}
