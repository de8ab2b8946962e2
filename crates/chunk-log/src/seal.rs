//! The seal of a chunk: a checksum of the parts that the chunk's own checksum leaves out.
//!
//! ```text
//! 44             45     48
//! +--------------+------+
//! | filter bytes | seal |    the lower 24 bits of the CRC-32 of bytes 0 to 44, filter and trailer;
//! |      u8      | u24  |    1 instead of 0, which means that there is none
//! +--------------+------+
//! ```
//! The protocol keeps these bits for later, and clients ignore them. A chunk without a seal is not taken, and
//! a start takes it for torn: the end of its header may be what is missing.

use streamproto::ChunkHeader;
use streamproto::chunk::DataCrc;
use streamproto::spec::CHUNK_HEADER_BYTES;

use crate::field::{size, u32_at};

pub(crate) const SEAL_AT: usize = 45;
const SEAL_MASK: u32 = 0x00ff_ffff;

const _: () = assert!(SEAL_AT + 3 == CHUNK_HEADER_BYTES);

/// Seals one finished chunk, as it is stored. Bytes that are no chunk stay what they are.
pub fn seal_chunk(chunk: &mut [u8]) {
    let Some(header) = chunk.first_chunk().and_then(|bytes| ChunkHeader::decode(bytes).ok()) else {
        return;
    };
    let trailer_at = size(header.data_at() + u64::from(header.data_bytes));
    let (Some(front), Some(trailer)) =
        (chunk.get(..size(header.data_at())), chunk.get(trailer_at..))
    else {
        return;
    };
    let mut seal = Seal::new(front);
    seal.0.update(trailer);
    let [_, seal @ ..] = seal.finish().to_be_bytes();
    if let Some(to) = chunk.get_mut(SEAL_AT..CHUNK_HEADER_BYTES) {
        to.copy_from_slice(&seal);
    }
}

/// The seal that a header has; none if it has none.
pub(crate) fn seal_of(header: &[u8]) -> Option<u32> {
    let seal = u32_at(header, SEAL_AT - 1) & SEAL_MASK;
    (seal != 0).then_some(seal)
}

/// A seal that is being made of header and filter, and then the trailer.
#[derive(Debug)]
pub(crate) struct Seal(pub(crate) DataCrc);

impl Seal {
    /// The seal of a chunk's bytes in front of its data.
    pub(crate) fn new(front: &[u8]) -> Self {
        let mut crc = DataCrc::default();
        crc.update(front.get(..SEAL_AT).unwrap_or_default());
        crc.update(front.get(CHUNK_HEADER_BYTES..).unwrap_or_default());
        Self(crc)
    }

    pub(crate) fn finish(self) -> u32 {
        (self.0.finish() & SEAL_MASK).max(1)
    }
}
