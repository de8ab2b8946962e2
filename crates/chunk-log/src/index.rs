//! Index files: where each chunk of a segment is.
//!
//! ```text
//! streams/<id>/<first offset, 20 digits>.index
//! 0        4         8               16             24       28
//! +--------+---------+---------------+--------------+--------+
//! | "LVCI" | version | first ordinal | first offset | crc32c | ...
//! |        |   u32   |      u64      |     u64      |  u32   |
//! +--------+---------+---------------+--------------+--------+
//! 28         32                36              40       44         64
//! +----------+-----------------+---------------+--------+----------+
//! | identity | synced position | synced chunks | crc32c | reserved |
//! |   u32    |       u32       |      u32      |  u32   |          |
//! +----------+-----------------+---------------+--------+----------+
//! then for each chunk
//! 0              8           16      24         28     29      30      32
//! +--------------+-----------+-------+----------+------+-------+-------+
//! | first offset | timestamp | epoch | position | type | flags | check |
//! |     u64      |  i64, ms  |  u64  |   u32    |  u8  |  u8   |  u16  |
//! +--------------+-----------+-------+----------+------+-------+-------+
//! ```
//! Integers are big-endian, as in chunks. The *synced* mark says up to where both files are durable: position
//! in the segment and number of chunks. It is written after the sync, so that it may be older than the truth;
//! a start trusts what lies below it. Bit 0 of the flags says that the chunk has a trailer. A record's check
//! is the lower half of the crc32c of the bytes before.

use std::sync::Arc;

use segments::{CachedFile, File, crc32c};
use streamproto::ChunkHeader;

use crate::error::Result;
use crate::field::{size, u32_at, u64_at};
use crate::segment::{First, SEGMENT_HEADER_BYTES, decode_checked, encode_checked};

/// Bytes in front of an index's first record.
pub(crate) const INDEX_HEADER_BYTES: u64 = 64;
/// Bytes of a record.
pub(crate) const RECORD_BYTES: u64 = RECORD_SIZE as u64;

const RECORD_SIZE: usize = 32;
const MAGIC: [u8; 4] = *b"LVCI";
const MARK_AT: u64 = 32;
const CHECK_AT: usize = 30;
const HAS_TRAILER: u8 = 1;
/// Records that one read brings where records lie side by side.
const BLOCK_RECORDS: u64 = 128;

const _: () = assert!(CHECK_AT + 2 == RECORD_SIZE && MARK_AT + 12 <= INDEX_HEADER_BYTES);

/// Up to where a segment and its index are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncedMark {
    pub(crate) position: u64,
    pub(crate) n_chunks: u64,
}

impl SyncedMark {
    /// The mark of a segment of which nothing is durable.
    pub(crate) const NONE: Self = Self { position: SEGMENT_HEADER_BYTES, n_chunks: 0 };
}

/// A chunk in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    pub(crate) first_offset: u64,
    pub(crate) timestamp_ms: i64,
    pub(crate) epoch: u64,
    pub(crate) position: u64,
    pub(crate) chunk_type: u8,
    pub(crate) has_trailer: bool,
}

impl IndexRecord {
    pub(crate) const fn of(header: &ChunkHeader, position: u64) -> Self {
        Self {
            first_offset: header.chunk_id,
            timestamp_ms: header.timestamp_ms,
            epoch: header.epoch,
            position,
            chunk_type: header.chunk_type.0,
            has_trailer: header.trailer_bytes > 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let position = u32::try_from(self.position).expect("segments stay below 4 GiB");
        let mut bytes = [0; RECORD_SIZE];
        let parts: [&[u8]; 5] = [
            &self.first_offset.to_be_bytes(),
            &self.timestamp_ms.to_be_bytes(),
            &self.epoch.to_be_bytes(),
            &position.to_be_bytes(),
            &[self.chunk_type, if self.has_trailer { HAS_TRAILER } else { 0 }],
        ];
        let mut rest = bytes.as_mut_slice();
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        let (checked, check) = bytes.split_at_mut(CHECK_AT);
        check.copy_from_slice(&record_check(checked));
        out.extend_from_slice(&bytes);
    }

    /// The record, if it is whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_SIZE] = bytes.first_chunk()?;
        let (checked, check) = bytes.split_at(CHECK_AT);
        if check != record_check(checked) {
            return None;
        }
        let &[.., chunk_type, flags] = checked else { return None };
        Some(Self {
            first_offset: u64_at(checked, 0),
            timestamp_ms: u64_at(checked, 8).cast_signed(),
            epoch: u64_at(checked, 16),
            position: u64::from(u32_at(checked, 24)),
            chunk_type,
            has_trailer: flags & HAS_TRAILER != 0,
        })
    }
}

fn record_check(checked: &[u8]) -> [u8; 2] {
    let [.., a, b] = crc32c(checked).to_be_bytes();
    [a, b]
}

/// Where record number `n` begins.
pub(crate) const fn record_at(n: u64) -> u64 {
    INDEX_HEADER_BYTES + n * RECORD_BYTES
}

/// How many whole records a file of so many bytes has.
pub(crate) const fn n_records(bytes: u64) -> u64 {
    bytes.saturating_sub(INDEX_HEADER_BYTES) / RECORD_BYTES
}

/// The header with a mark.
pub(crate) fn encode_header(first: First, identity: u32, mark: SyncedMark) -> Vec<u8> {
    let mut bytes = encode_checked(MAGIC, first);
    bytes.extend(identity.to_be_bytes());
    assert_eq!(bytes.len() as u64, MARK_AT, "the mark has its place");
    bytes.extend(encode_mark(mark));
    bytes.resize(size(INDEX_HEADER_BYTES), 0);
    bytes
}

/// The content of an index's header: each part if it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    /// The first chunk's place.
    pub(crate) first: Option<First>,
    pub(crate) mark: SyncedMark,
}

pub(crate) fn decode_header(bytes: &[u8], file: &str) -> Result<IndexHeader> {
    let first = decode_checked(MAGIC, bytes, file)?;
    let mark = bytes.get(size(MARK_AT)..).and_then(decode_mark);
    Ok(IndexHeader { first, mark: mark.unwrap_or(SyncedMark::NONE) })
}

fn encode_mark(mark: SyncedMark) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12);
    for number in [mark.position, mark.n_chunks] {
        bytes.extend(u32::try_from(number).expect("segments stay below 4 GiB").to_be_bytes());
    }
    bytes.extend(crc32c(&bytes).to_be_bytes());
    bytes
}

fn decode_mark(bytes: &[u8]) -> Option<SyncedMark> {
    let (checked, rest) = bytes.split_at_checked(8)?;
    if u32_at(rest, 0) != crc32c(checked) {
        return None;
    }
    let position = u64::from(u32_at(checked, 0));
    Some(SyncedMark { position, n_chunks: u64::from(u32_at(checked, 4)) })
}

/// An open index of which `n` records count.
#[derive(Debug)]
pub(crate) struct Index {
    file: File,
    n: u64,
}

impl Index {
    /// Opens an index; `n` is the number of chunks of the segment, none if it is what the file has.
    pub(crate) fn open(slot: &Arc<CachedFile>, n: Option<u64>) -> Result<Self> {
        let file = slot.file()?;
        let n = match n {
            Some(n) => n,
            None => n_records(file.size()?),
        };
        Ok(Self { file, n })
    }

    pub(crate) const fn len(&self) -> u64 {
        self.n
    }

    /// The header's first place.
    pub(crate) fn first(&self) -> Result<Option<First>> {
        let header = self.read(0, INDEX_HEADER_BYTES)?;
        Ok(decode_header(&header, self.file.name())?.first)
    }

    pub(crate) fn set_mark(&self, mark: SyncedMark) -> Result<()> {
        assert!(mark.position >= SEGMENT_HEADER_BYTES, "chunks lie behind the header");
        Ok(self.file.write(MARK_AT, &encode_mark(mark))?)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.file.sync()?)
    }

    /// The record of chunk number `n`.
    ///
    /// # Errors
    /// A record that is damaged or not there.
    pub(crate) fn record(&self, n: u64) -> Result<IndexRecord> {
        let bytes = self.read(record_at(n), RECORD_BYTES)?;
        IndexRecord::decode(&bytes).ok_or_else(|| self.damaged(n))
    }

    /// Records from number `from` on, a block at most, and at least one if it is there.
    ///
    /// # Errors
    /// A record that is damaged.
    pub(crate) fn block(&self, from: u64) -> Result<Vec<IndexRecord>> {
        let records = self.block_as_it_is(from)?.into_iter().zip(from..);
        records.map(|(record, n)| record.ok_or_else(|| self.damaged(n))).collect()
    }

    /// Records as in [`block`](Self::block), with none in the place of a damaged record.
    pub(crate) fn block_as_it_is(&self, from: u64) -> Result<Vec<Option<IndexRecord>>> {
        let n = self.n.saturating_sub(from).min(BLOCK_RECORDS);
        let bytes = self.read(record_at(from), n * RECORD_BYTES)?;
        Ok(bytes.chunks_exact(size(RECORD_BYTES)).map(IndexRecord::decode).collect())
    }

    /// How many records come before the first for which `is_before` is false.
    pub(crate) fn partition_point(
        &self,
        mut is_before: impl FnMut(&IndexRecord) -> bool,
    ) -> Result<u64> {
        let (mut low, mut high) = (0, self.n);
        while high - low > BLOCK_RECORDS {
            let middle = low.midpoint(high);
            if is_before(&self.record(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut block = self.block(low)?;
        block.truncate(size(high - low));
        Ok(low + block.partition_point(is_before) as u64)
    }

    /// The last record that `is_wanted`, with its number.
    pub(crate) fn rfind(
        &self,
        is_wanted: impl Fn(&IndexRecord) -> bool,
    ) -> Result<Option<(u64, IndexRecord)>> {
        let mut end = self.n;
        while end > 0 {
            let from = end.saturating_sub(BLOCK_RECORDS);
            let mut block = self.block(from)?;
            block.truncate(size(end - from));
            if let Some(at) = block.iter().rposition(&is_wanted) {
                return Ok(block.get(at).map(|record| (from + at as u64, *record)));
            }
            end = from;
        }
        Ok(None)
    }

    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.file.read(at, size(bytes))?)
    }

    fn damaged(&self, n: u64) -> crate::ChunkLogError {
        self.file.corrupt(record_at(n), "an index record is damaged").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: IndexRecord = IndexRecord {
        first_offset: 1 << 40,
        timestamp_ms: -1,
        epoch: 3,
        position: u32::MAX as u64,
        chunk_type: 2,
        has_trailer: true,
    };

    #[test]
    fn a_record_with_any_flipped_bit_is_none() {
        let mut bytes = Vec::new();
        RECORD.encode(&mut bytes);
        assert_eq!(bytes.len() as u64, RECORD_BYTES);
        assert_eq!(IndexRecord::decode(&bytes), Some(RECORD));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IndexRecord::decode(&flipped), None, "{bit}");
        }
        assert_eq!(IndexRecord::decode(&[0; 32]), None, "what was never written is no record");
    }

    #[test]
    fn a_torn_mark_is_none() {
        let first = First { ordinal: 1, offset: 2 };
        let mark = SyncedMark { position: 4711, n_chunks: 12 };
        let bytes = encode_header(first, 7, mark);
        assert_eq!(bytes.len() as u64, INDEX_HEADER_BYTES);
        assert_eq!(decode_header(&bytes, "f").unwrap(), IndexHeader { first: Some(first), mark });
        for bit in 0..12 * 8 {
            let mut flipped = bytes.clone();
            flipped[32 + bit / 8] ^= 1 << (bit % 8);
            let found = decode_header(&flipped, "f").unwrap();
            assert_eq!(found, IndexHeader { first: Some(first), mark: SyncedMark::NONE });
        }
    }
}
