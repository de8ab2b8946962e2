//! Images in transit: a follower takes an image that its leader offers, piece by piece.
//!
//! The follower asks for each piece, so that a transfer that was broken off goes on where it was, also with
//! another leader: images of one index are equal.

use bytes::Bytes;
use segments::crc32c;

use crate::entry::ImageFile;
use crate::members::PeerId;
use crate::message::ImageOffer;

/// Bytes of a piece.
pub const PIECE_BYTES: usize = 256 << 10;
/// Most bytes of an image; a follower that takes one has them in memory, as its machine will.
pub const IMAGE_BYTES_MAX: u64 = 1 << 30;

/// An image that a follower is taking.
#[derive(Debug)]
pub(crate) struct IncomingImage {
    pub(crate) from: PeerId,
    /// The leader's term.
    pub(crate) term: u64,
    pub(crate) offer: ImageOffer,
    /// The pieces up to now, or all of them as `whole`.
    pieces: Vec<u8>,
    whole: Bytes,
    /// The file, once it is written.
    pub(crate) file: Option<ImageFile>,
}

impl IncomingImage {
    /// Takes an offer; what is there of the same image already counts.
    pub(crate) fn begin(before: Option<Self>, from: PeerId, term: u64, offer: ImageOffer) -> Self {
        if let Some(same) = before.filter(|before| before.offer == offer) {
            return Self { from, term, ..same };
        }
        Self { from, term, offer, pieces: Vec::new(), whole: Bytes::new(), file: None }
    }

    pub(crate) fn offset(&self) -> u64 {
        (self.pieces.len() + self.whole.len()) as u64
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
            self.pieces.extend_from_slice(bytes);
        }
        is_next
    }

    /// The machine's bytes of a whole image.
    pub(crate) fn machine(&mut self) -> Bytes {
        if self.whole.is_empty() {
            self.whole = std::mem::take(&mut self.pieces).into();
        }
        self.whole.clone()
    }

    /// Whether a file that was written is the image's.
    pub(crate) fn is_of(&self, index: u64, file: &ImageFile) -> bool {
        let is_its_machine = index == self.offer.index && file.local_bytes == 0;
        is_its_machine && self.is_whole() && file.machine_bytes == self.offer.machine_bytes
    }

    /// Whether the bytes of a whole image are those that were offered; of a file, whose checksum was taken
    /// when it was written.
    pub(crate) fn is_as_offered(&mut self) -> bool {
        let machine = self.machine();
        let checksum = self.file.map_or_else(|| crc32c(&machine), |file| file.checksum);
        checksum == self.offer.checksum
    }
}
