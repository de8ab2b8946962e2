//! A walk over the chunks of a segment file from one to the next, with large reads: for recovery and for
//! looking at everything. Readers have their own way (`reader.rs`).

use std::sync::Arc;

use log::{DiskFile, IoContext as _};
use streamproto::ChunkHeader;
use streamproto::chunk::DataCrc;
use streamproto::spec::CHUNK_HEADER_BYTES;

use crate::error::{ChunkLogError, Result};
use crate::field::size;
use crate::seal::{Seal, seal_of};

/// Bytes of the first read after a leap.
const READ_BYTES_MIN: u64 = 4 << 10;
/// Bytes of the largest read, where the whole segment is walked.
const READ_BYTES_MAX: u64 = 256 << 10;

/// A segment file, and the block of it that was read last.
#[derive(Debug)]
pub(crate) struct Scan<'n> {
    file: Arc<dyn DiskFile>,
    name: &'n str,
    /// The end of the scan: bytes behind it do not count.
    end: u64,
    /// Bytes of the next read: more the longer the walk is.
    read_bytes: u64,
    block: Vec<u8>,
    block_at: u64,
}

impl<'n> Scan<'n> {
    pub(crate) const fn new(file: Arc<dyn DiskFile>, name: &'n str, end: u64) -> Self {
        Self { file, name, end, read_bytes: READ_BYTES_MIN, block: Vec::new(), block_at: 0 }
    }

    /// The bytes from `at` on: `n`, or fewer at the end.
    pub(crate) fn bytes(&mut self, at: u64, n: u64) -> Result<&[u8]> {
        let to = at.saturating_add(n).min(self.end);
        let block_end = self.block_at + self.block.len() as u64;
        if at < self.block_at || to > block_end {
            if at > block_end {
                self.read_bytes = READ_BYTES_MIN;
            }
            let wanted = n.max(self.read_bytes).min(self.end.saturating_sub(at));
            self.block.resize(size(wanted), 0);
            let read = self.file.read_at(at, &mut self.block).context("read", self.name)?;
            self.block.truncate(read);
            self.block_at = at;
            self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
        }
        let from = size(at - self.block_at);
        let rest = self.block.get(from..).unwrap_or_default();
        Ok(rest.get(..size(n)).unwrap_or(rest))
    }

    /// The header of the chunk at `at`; none if no whole chunk is there.
    pub(crate) fn header(&mut self, at: u64) -> Result<Option<ChunkHeader>> {
        let end = self.end;
        let Some(bytes) = self.bytes(at, CHUNK_HEADER_BYTES as u64)?.first_chunk() else {
            return Ok(None);
        };
        let header = ChunkHeader::decode(bytes).ok();
        let fits = |header: &ChunkHeader| at.saturating_add(header.stored_bytes()) <= end;
        Ok(header.filter(fits))
    }

    pub(crate) const fn name(&self) -> &str {
        self.name
    }

    /// An error about what lies at `at`.
    pub(crate) fn damaged(&self, at: u64, what: &'static str) -> ChunkLogError {
        ChunkLogError::corrupt(self.name, at, what)
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
            let piece = self.bytes(at, (to - at).min(READ_BYTES_MAX))?;
            if piece.is_empty() {
                return Ok(());
            }
            crc.update(piece);
            at += piece.len() as u64;
        }
        Ok(())
    }
}
