//! Chunks as readers are given them.

use bytes::Bytes;
use segments::{File, IoContext as _};
use std::os::fd::BorrowedFd;
use streamproto::spec::CHUNK_HEADER_BYTES;
use streamproto::{Chunk, ChunkError, ChunkHeader};

use crate::error::Result;
use crate::field::size;
use crate::seal::SEAL_AT;

/// The most bytes of a range that are looked for in memory, or fetched, at a time.
const AT_HAND_BYTES_MAX: u64 = 256 << 10;
/// Bytes between probes of whether a range is in memory: the system reads files in larger pieces.
const PROBE_BYTES: usize = 64 << 10;

const _: () = assert!(PROBE_BYTES as u64 <= AT_HAND_BYTES_MAX);

/// A chunk that a reader was given.
#[derive(Clone, Debug)]
pub struct StoredChunk {
    /// The header: the fixed part in front.
    pub header: ChunkHeader,
    /// Its bytes, or where they are.
    pub bytes: ChunkBytes,
}

/// The bytes of a chunk.
#[derive(Clone, Debug)]
pub enum ChunkBytes {
    /// The bytes of a small or medium chunk: the whole chunk as it is stored, a part of what was read.
    Memory(Bytes),
    /// The range of a large chunk's entries in its file, to be sent from there.
    File(FileRange),
}

/// A small chunk in a reader's buffer.
#[derive(Clone, Copy, Debug)]
pub struct ChunkAtHand<'a> {
    /// The header: the fixed part in front.
    pub header: ChunkHeader,
    /// The whole chunk as it is stored.
    pub(crate) stored: &'a [u8],
}

/// Bytes of a file that stays open as long as this is held: many ranges hold many files open.
#[derive(Clone, Debug)]
pub struct FileRange {
    file: File,
    at: u64,
    len: u64,
}

impl StoredChunk {
    /// The header as clients are sent it: without the seal, as RabbitMQ has it.
    #[must_use]
    pub fn header_bytes(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let encoded = || {
            let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES);
            self.header.encode(&mut bytes);
            bytes.first_chunk().copied().unwrap_or([0; CHUNK_HEADER_BYTES])
        };
        let stored = match &self.bytes {
            ChunkBytes::Memory(stored) => stored.first_chunk().copied(),
            ChunkBytes::File(_) => None,
        };
        unsealed(stored.unwrap_or_else(encoded))
    }

    /// The chunk with its parts, if it is in memory.
    ///
    /// # Errors
    /// A header that is not one; bytes that end before the chunk does.
    pub fn parts(&self) -> Option<std::result::Result<Chunk<'_>, ChunkError>> {
        match &self.bytes {
            ChunkBytes::Memory(stored) => {
                Some(Chunk::decode_stored(stored).map(|(chunk, _)| chunk))
            }
            ChunkBytes::File(_) => None,
        }
    }

    /// The entries, if they are in memory: a part of the same bytes.
    #[must_use]
    pub fn data(&self) -> Option<Bytes> {
        let ChunkBytes::Memory(stored) = &self.bytes else { return None };
        let from = size(self.header.data_at());
        let to = from.saturating_add(size(u64::from(self.header.data_bytes)));
        (to <= stored.len()).then(|| stored.slice(from..to))
    }
}

/// A header as clients are sent it.
#[inline]
fn unsealed(mut header: [u8; CHUNK_HEADER_BYTES]) -> [u8; CHUNK_HEADER_BYTES] {
    if let Some(seal) = header.get_mut(SEAL_AT..) {
        seal.fill(0);
    }
    header
}

impl<'a> ChunkAtHand<'a> {
    /// The header as clients are sent it: see [`StoredChunk::header_bytes`].
    #[inline]
    #[must_use]
    pub fn header_bytes(&self) -> [u8; CHUNK_HEADER_BYTES] {
        unsealed(self.stored.first_chunk().copied().unwrap_or([0; CHUNK_HEADER_BYTES]))
    }

    /// The entries, and the trailer behind them if that is wanted.
    #[inline]
    pub fn data(&self, with_trailer: bool) -> &'a [u8] {
        let trailer_bytes = if with_trailer { self.header.trailer_bytes } else { 0 };
        let from = size(self.header.data_at());
        let to = from + size(u64::from(self.header.data_bytes) + u64::from(trailer_bytes));
        self.stored.get(from..to).unwrap_or_default()
    }
}

impl FileRange {
    /// The `len` bytes behind the place `at`.
    pub(crate) const fn new(file: File, at: u64, len: u64) -> Self {
        Self { file, at, len }
    }

    /// Where the range begins in the file.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The bytes of the range: those of the entries.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The range extended by the chunk's trailer, whose size the header tells.
    #[must_use]
    pub fn with_trailer(mut self, header: &ChunkHeader) -> Self {
        self.len += u64::from(header.trailer_bytes);
        self
    }

    /// The descriptor, for `sendfile`; none where there is no such file (a disk in memory).
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.handle().descriptor()
    }

    /// How many bytes from `from` on can be read without waiting for the device, up to 256 KiB; as near as a
    /// look at one byte in 64 KiB can tell.
    pub fn n_at_hand(&self, from: u64) -> u64 {
        let n = self.len.saturating_sub(from).min(AT_HAND_BYTES_MAX);
        let is_cold = |at: &u64| {
            let read = self.file.handle().read_at_no_wait(self.at + from + at, &mut [0]);
            read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        let cold = (0..n).step_by(PROBE_BYTES).chain(n.checked_sub(1)).find(is_cold);
        cold.map_or(n, |at| at / PROBE_BYTES as u64 * PROBE_BYTES as u64)
    }

    /// Waits for the device until bytes from `from` on are at hand. An error is left to the next read.
    pub fn fetch(&self, from: u64) {
        let mut scratch = vec![0; PROBE_BYTES];
        let until = from.saturating_add(AT_HAND_BYTES_MAX);
        let mut at = from;
        while at < until {
            match self.read_at(at, &mut scratch) {
                Ok(0) | Err(_) => return,
                Ok(n) => at += n as u64,
            }
        }
    }

    /// Reads at `from` bytes behind the beginning; fewer only at the range's end.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_at(&self, from: u64, into: &mut [u8]) -> Result<usize> {
        let left = size(self.len.saturating_sub(from));
        let n = into.len().min(left);
        let into = into.get_mut(..n).unwrap_or_default();
        Ok(self.file.handle().read_at(self.at + from, into).context("read", self.file.name())?)
    }
}
