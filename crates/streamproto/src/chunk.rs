//! Chunks: what a stream's log is made of, and what is delivered (clause "Deliver"; Osiris' "Chunk
//! format").
//!
//! ```text
//! 0     1      2         4         8           16     24        32   36      40        44
//! +-----+------+---------+---------+-----------+------+---------+----+-------+---------+
//! |0x50 | type | entries | records | timestamp |epoch |chunk id |crc | data  | trailer |
//! | u8  |  u8  |   u16   |   u32   |  i64, ms  | u64  |  u64    |u32 | bytes |  bytes  |
//! +-----+------+---------+---------+-----------+------+---------+----+-------+---------+
//! 44             45         48
//! +--------------+----------+--------+------+---------+
//! | filter bytes | reserved | filter | data | trailer |
//! |     u8       |   u24    |        |      |         |
//! +--------------+----------+--------+------+---------+
//! ```
//! The crc is the CRC-32 of IEEE 802.3 of the data alone. Data is entries (`entry`), the trailer
//! tracking records (`tracking`). The filter's bits are known to brokers alone, and opaque here.
//!
//! A delivered chunk has the header as it is stored, with the sizes of filter and trailer, but no
//! filter behind it, and a trailer only if the subscriber asked for chunks of all types.

use crc_fast::{CrcAlgorithm, Digest, checksum};

use crate::entry::Entries;
use crate::error::ChunkError;
use crate::field::take;
use crate::spec::{CHUNK_HEADER_BYTES, FILTER_BYTES_MAX};

/// Magic 5 and version 0, in four bits each.
const MAGIC: u8 = 0x50;
/// The smallest entry: a message without bytes.
const ENTRY_BYTES_MIN: u32 = 4;

/// The type of a chunk. Readers pass over those they do not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChunkType(pub u8);

impl ChunkType {
    /// Messages.
    pub const USER: Self = Self(0);
    /// Tracking records alone.
    pub const TRACKING_DELTA: Self = Self(1);
    /// All tracking records that hold at this place.
    pub const TRACKING_SNAPSHOT: Self = Self(2);
}

/// The fixed part in front of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The kind of the entries.
    pub chunk_type: ChunkType,
    /// The number of entries.
    pub n_entries: u16,
    /// The number of messages, and so of offsets.
    pub n_records: u32,
    /// The time when the chunk was made: milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The epoch of the leader that wrote the chunk: goes up with every new leader of the stream.
    pub epoch: u64,
    /// The offset of the first message.
    pub chunk_id: u64,
    /// The checksum of the entries.
    pub crc: u32,
    /// The size of the entries.
    pub data_bytes: u32,
    /// The size of the tracking records.
    pub trailer_bytes: u32,
    /// The size of the filter, 0 if there is none.
    pub filter_bytes: u8,
}

impl ChunkHeader {
    /// Decodes the header; reserved bits are ignored. The sizes it announces are compared with the bytes that
    /// are there by the reader of those: see [`stored_bytes`](Self::stored_bytes).
    ///
    /// # Errors
    /// Another magic or version; more entries than the size of the data allows.
    #[inline]
    pub fn decode(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<Self, ChunkError> {
        let [magic] = field(bytes, 0);
        if magic != MAGIC {
            return Err(ChunkError::Magic(magic));
        }
        let n_entries = u16::from_be_bytes(field(bytes, 2));
        let data_bytes = u32::from_be_bytes(field(bytes, 36));
        if u32::from(n_entries) * ENTRY_BYTES_MIN > data_bytes {
            return Err(ChunkError::EntriesDoNotFit { n_entries, data_bytes });
        }
        let [chunk_type] = field(bytes, 1);
        let [filter_bytes] = field(bytes, 44);
        Ok(Self {
            chunk_type: ChunkType(chunk_type),
            n_entries,
            n_records: u32::from_be_bytes(field(bytes, 4)),
            timestamp_ms: i64::from_be_bytes(field(bytes, 8)),
            epoch: u64::from_be_bytes(field(bytes, 16)),
            chunk_id: u64::from_be_bytes(field(bytes, 24)),
            crc: u32::from_be_bytes(field(bytes, 32)),
            data_bytes,
            trailer_bytes: u32::from_be_bytes(field(bytes, 40)),
            filter_bytes,
        })
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Self { n_entries, n_records, timestamp_ms, epoch, chunk_id, crc, .. } = self;
        out.extend_from_slice(&[MAGIC, self.chunk_type.0]);
        out.extend_from_slice(&n_entries.to_be_bytes());
        out.extend_from_slice(&n_records.to_be_bytes());
        out.extend_from_slice(&timestamp_ms.to_be_bytes());
        out.extend_from_slice(&epoch.to_be_bytes());
        out.extend_from_slice(&chunk_id.to_be_bytes());
        for number in [crc, &self.data_bytes, &self.trailer_bytes] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[self.filter_bytes, 0, 0, 0]);
    }

    /// The size of the whole chunk as it is stored.
    pub const fn stored_bytes(&self) -> u64 {
        self.data_at() + self.data_bytes as u64 + self.trailer_bytes as u64
    }

    /// The place where the entries begin in the chunk as it is stored.
    pub const fn data_at(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + self.filter_bytes as u64
    }

    /// The size of the chunk as it is delivered: header and entries.
    pub const fn delivered_bytes(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + self.data_bytes as u64
    }

    /// The offset behind the last message.
    pub const fn next_offset(&self) -> u64 {
        self.chunk_id.saturating_add(self.n_records as u64)
    }
}

/// The bytes of a header from `from` on.
#[inline]
fn field<const N: usize>(header: &[u8; CHUNK_HEADER_BYTES], from: usize) -> [u8; N] {
    header.get(from..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// A whole chunk, looking into the bytes it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Sizes and meaning of the other parts.
    pub header: ChunkHeader,
    /// The filter of the messages' filter values; empty in a delivered chunk.
    pub filter: &'a [u8],
    /// The entries.
    pub data: &'a [u8],
    /// The tracking records.
    pub trailer: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Takes the first chunk from `input`, as it is stored: the chunk and the bytes behind it.
    ///
    /// # Errors
    /// A header that is not one; bytes that end before the chunk does.
    pub fn decode_stored(input: &'a [u8]) -> Result<(Self, &'a [u8]), ChunkError> {
        let (header, mut rest) = split_header(input)?;
        let filter = take_part(&mut rest, u32::from(header.filter_bytes))?;
        let data = take_part(&mut rest, header.data_bytes)?;
        let trailer = take_part(&mut rest, header.trailer_bytes)?;
        Ok((Self { header, filter, data, trailer }, rest))
    }

    /// Decodes a chunk as it is delivered, all of `input`: without filter, with a trailer or not.
    ///
    /// # Errors
    /// A header that is not one; bytes that end before the chunk does, or go on behind it.
    pub fn decode_delivered(input: &'a [u8]) -> Result<Self, ChunkError> {
        let (header, mut rest) = split_header(input)?;
        let data = take_part(&mut rest, header.data_bytes)?;
        let trailer = match rest {
            [] => rest,
            _ => take_part(&mut rest, header.trailer_bytes)?,
        };
        match rest {
            [] => Ok(Self { header, filter: &[], data, trailer }),
            _ => Err(ChunkError::Entry(crate::FieldError::TrailingBytes)),
        }
    }

    /// Makes a chunk of its parts: sizes and checksum of `header` become those of the parts.
    ///
    /// # Errors
    /// A part that is longer than the header can say.
    pub fn new(
        header: ChunkHeader,
        filter: &'a [u8],
        data: &'a [u8],
        trailer: &'a [u8],
    ) -> Result<Self, ChunkError> {
        const { assert!(FILTER_BYTES_MAX == u8::MAX as usize, "the size has one byte") };
        let long = |len: usize| u32::try_from(len).map_err(|_| ChunkError::TooLong);
        let header = ChunkHeader {
            crc: data_crc(data),
            filter_bytes: u8::try_from(filter.len()).map_err(|_| ChunkError::TooLong)?,
            data_bytes: long(data.len())?,
            trailer_bytes: long(trailer.len())?,
            ..header
        };
        Ok(Self { header, filter, data, trailer })
    }

    /// Appends the chunk as it is stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.header.encode(out);
        for part in [self.filter, self.data, self.trailer] {
            out.extend_from_slice(part);
        }
    }

    /// The entries with their offsets. An error in an entry shows as the entry is reached.
    pub const fn entries(&self) -> Entries<'a> {
        Entries::new(self.data, self.header.n_entries, self.header.chunk_id)
    }

    /// Compares the data with the checksum.
    ///
    /// # Errors
    /// If it is another.
    pub fn verify_crc(&self) -> Result<(), ChunkError> {
        let (expected, found) = (self.header.crc, data_crc(self.data));
        if expected == found { Ok(()) } else { Err(ChunkError::Crc { expected, found }) }
    }

    /// Compares the entries with what the header says of them, and goes through all of them.
    ///
    /// # Errors
    /// An entry that is malformed, bytes behind the last one, another number of records.
    pub fn verify_entries(&self) -> Result<(), ChunkError> {
        let mut found = 0;
        for entry in self.entries() {
            found += u64::from(entry?.1.n_records());
        }
        let expected = self.header.n_records;
        if u64::from(expected) == found {
            Ok(())
        } else {
            Err(ChunkError::Records { expected, found })
        }
    }
}

/// The checksum that a chunk's header has of the entries.
#[must_use]
pub fn data_crc(data: &[u8]) -> u32 {
    let crc = checksum(CrcAlgorithm::Crc32IsoHdlc, data);
    u32::try_from(crc).expect("a CRC-32 has 32 bits")
}

/// The checksum of [`data_crc`], over entries that come in pieces.
#[derive(Debug)]
pub struct DataCrc(Digest);

impl Default for DataCrc {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32IsoHdlc))
    }
}

impl DataCrc {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The checksum of all pieces.
    #[must_use]
    pub fn finish(self) -> u32 {
        u32::try_from(self.0.finalize()).expect("a CRC-32 has 32 bits")
    }
}

fn split_header(input: &[u8]) -> Result<(ChunkHeader, &[u8]), ChunkError> {
    let (header, rest) = input.split_first_chunk().ok_or(ChunkError::Truncated)?;
    Ok((ChunkHeader::decode(header)?, rest))
}

fn take_part<'a>(input: &mut &'a [u8], len: u32) -> Result<&'a [u8], ChunkError> {
    let len = usize::try_from(len).map_err(|_| ChunkError::Truncated)?;
    take(input, len).map_err(|_| ChunkError::Truncated)
}
