//! A walk over the chunks of a segment file from one to the next, with large reads: for recovery and for
//! looking at everything. Readers have their own way (`reader.rs`).

use segments::{File, Window};
use streamproto::ChunkHeader;
use streamproto::chunk::DataCrc;
use streamproto::spec::CHUNK_HEADER_BYTES;

use crate::error::Result;
use crate::field::size;
use crate::seal::{Seal, seal_of};

/// Bytes of the first read after a leap.
const READ_BYTES_MIN: usize = 4 << 10;
/// Bytes of the largest read, where the whole segment is walked.
const READ_BYTES_MAX: usize = 256 << 10;

/// A segment file that is walked through.
#[derive(Debug)]
pub(crate) struct Scan(Window);

impl Scan {
    /// A walk through the bytes in front of `end`.
    pub(crate) const fn new(file: File, end: u64) -> Self {
        Self(Window::new(file, end, READ_BYTES_MIN..=READ_BYTES_MAX))
    }

    /// The bytes from `at` on: `n`, or fewer at the end.
    pub(crate) fn bytes(&mut self, at: u64, n: u64) -> Result<&[u8]> {
        Ok(self.0.bytes(at, size(n))?)
    }

    /// The header of the chunk at `at`; none if no whole chunk is there.
    pub(crate) fn header(&mut self, at: u64) -> Result<Option<ChunkHeader>> {
        let end = self.0.end();
        let Some(bytes) = self.bytes(at, CHUNK_HEADER_BYTES as u64)?.first_chunk() else {
            return Ok(None);
        };
        let header = ChunkHeader::decode(bytes).ok();
        let fits = |header: &ChunkHeader| at.saturating_add(header.stored_bytes()) <= end;
        Ok(header.filter(fits))
    }

    pub(crate) const fn file(&self) -> &File {
        self.0.file()
    }

    /// Whether the chunk at `at` is whole: its entries have the checksum of its header, and the rest
    /// that of its seal.
    pub(crate) fn is_whole(&mut self, at: u64, header: &ChunkHeader) -> Result<bool> {
        let front = self.bytes(at, header.data_at())?;
        let Some(expected) = seal_of(front) else { return Ok(false) };
        let mut seal = Seal::new(front);
        let data_at = at + header.data_at();
        let mut crc = DataCrc::default();
        self.add(&mut crc, data_at, header.data_bytes)?;
        if crc.finish() != header.crc {
            return Ok(false);
        }
        self.add(&mut seal.0, data_at + u64::from(header.data_bytes), header.trailer_bytes)?;
        Ok(seal.finish() == expected)
    }

    /// Adds so many bytes to a checksum; fewer at the end.
    fn add(&mut self, crc: &mut DataCrc, mut at: u64, bytes: u32) -> Result<()> {
        let to = at + u64::from(bytes);
        while at < to {
            let piece = self.bytes(at, (to - at).min(READ_BYTES_MAX as u64))?;
            if piece.is_empty() {
                return Ok(());
            }
            crc.update(piece);
            at += piece.len() as u64;
        }
        Ok(())
    }
}
