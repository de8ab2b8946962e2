//! The on-disk format of the write-ahead log, version 2. Integers are little-endian.
//!
//! A segment file is a sequence of blocks, each at the next multiple of 64 bytes, then anything
//! (zeroes, or blocks of the file's previous life). The first block is the segment header, the others carry
//! entries. A block is written by one write; its checksum makes all entries in it appear together or not at
//! all.
//!
//! ```text
//!  0       4       8     9     10   12      16      24        32      40      48      52
//!  +-------+-------+-----+-----+----+-------+-------+---------+-------+-------+-------+---------+
//!  | magic | crc32c| ver | type|flag| bytes | salt  | segment | first | synced|entries| payload |
//!  | u32   | u32   | u8  | u8  | u16| u32   | u64   | u64     | u64   | u64   | u32   |         |
//!  +-------+-------+-----+-----+----+-------+-------+---------+-------+-------+-------+---------+
//!  crc32c   over everything after it, up to the end of the payload
//!  type     0 = segment header (no payload), 1 = entries (none: the log was closed properly)
//!  flag     1 in a segment header: the file `leveret-log` tells of this log (see `wal/extent.rs`)
//!  bytes    length of the payload
//!  salt     random, chosen once per log: a message cannot contain a forged block
//!  segment  id in the file's name; a block of the file's previous life has a smaller one
//!  first    LSN of the first entry; LSNs are consecutive over blocks and segments
//!  synced   every entry up to this LSN was synced before this block was written: if such an entry
//!           is unreadable, that is corruption and not the torn end of a crash
//!
//!  payload of type 1, `entries` times:
//!  +------+-------+-------+---------+
//!  | kind | bytes | owner | payload |
//!  | u8   | u32   | u64   |         |
//!  +------+-------+-------+---------+
//!  bytes    length of the payload
//!  owner    whom the entry is about: a number of the caller's
//! ```
//! In blocks of version 1, which are read and no longer written, entries have no owner.

use crate::position::Owner;
use segments::crc32c;

/// Bytes in front of a block's payload.
pub const BLOCK_HEADER_BYTES: usize = 52;
/// Bytes in front of an entry's payload.
pub const ENTRY_HEADER_BYTES: usize = 13;

/// The alignment of blocks in a segment file, in bytes.
pub(crate) const BLOCK_ALIGN: u64 = 64;
/// Where the block after the segment header begins.
pub(crate) const FIRST_BLOCK_AT: u64 = next_block_at(BLOCK_HEADER_BYTES as u64);

/// Where the block after one that ends at `end` begins.
pub(crate) const fn next_block_at(end: u64) -> u64 {
    end.next_multiple_of(BLOCK_ALIGN)
}

const _: () = assert!(FIRST_BLOCK_AT.is_multiple_of(BLOCK_ALIGN));

/// "LVWB" in the file.
pub(crate) const MAGIC: [u8; 4] = *b"LVWB";
pub(crate) const VERSION: u8 = 2;
const VERSION_UNOWNED: u8 = 1;

const TYPE_SEGMENT: u8 = 0;
const TYPE_ENTRIES: u8 = 1;
/// The flag of a log that is told of in a file beside it.
const FLAG_TOLD: u8 = 1;
/// Bytes not covered by the checksum: the magic and the checksum itself.
const UNCHECKED_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockType {
    Segment,
    Entries,
}

/// The fields of a block header that do not follow from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) block_type: BlockType,
    /// Whether its entries say whom they are about.
    pub(crate) is_owned: bool,
    /// In a segment header: whether a file beside the log tells of it.
    pub(crate) is_told: bool,
    pub(crate) payload_bytes: u32,
    pub(crate) salt: u64,
    pub(crate) segment: u64,
    pub(crate) first: u64,
    pub(crate) synced: u64,
    pub(crate) entries: u32,
}

/// Why bytes are not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotABlock {
    /// No magic, nonsense in the header, or too few bytes.
    Header,
    /// A magic and a version this program does not know.
    Newer(u8),
}

impl BlockHeader {
    /// Fills in the first `BLOCK_HEADER_BYTES` of `block`, whose payload is already in place.
    pub(crate) fn seal(&self, block: &mut [u8]) {
        let mut header = [0; BLOCK_HEADER_BYTES];
        let mut rest = header.as_mut_slice();
        put(&mut rest, &MAGIC);
        put(&mut rest, &[0; 4]);
        let block_type = match self.block_type {
            BlockType::Segment => TYPE_SEGMENT,
            BlockType::Entries => TYPE_ENTRIES,
        };
        let flags = if self.is_told { FLAG_TOLD } else { 0 };
        let version = if self.is_owned { VERSION } else { VERSION_UNOWNED };
        put(&mut rest, &[version, block_type, flags, 0]);
        put(&mut rest, &self.payload_bytes.to_le_bytes());
        put(&mut rest, &self.salt.to_le_bytes());
        put(&mut rest, &self.segment.to_le_bytes());
        put(&mut rest, &self.first.to_le_bytes());
        put(&mut rest, &self.synced.to_le_bytes());
        put(&mut rest, &self.entries.to_le_bytes());
        block.iter_mut().zip(header).for_each(|(to, from)| *to = from);
        let crc = block_crc(block);
        block.iter_mut().skip(MAGIC.len()).zip(crc.to_le_bytes()).for_each(|(to, from)| *to = from);
    }

    /// Reads a header; the checksum is not looked at yet, since the payload may not be there.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, NotABlock> {
        let mut rest = bytes.get(..BLOCK_HEADER_BYTES).ok_or(NotABlock::Header)?;
        let magic: [u8; 4] = take(&mut rest)?;
        if magic != MAGIC {
            return Err(NotABlock::Header);
        }
        let _crc: [u8; 4] = take(&mut rest)?;
        let [version, block_type, flags, _] = take(&mut rest)?;
        if version > VERSION {
            return Err(NotABlock::Newer(version));
        }
        let block_type = match (version, block_type) {
            (VERSION | VERSION_UNOWNED, TYPE_SEGMENT) => BlockType::Segment,
            (VERSION | VERSION_UNOWNED, TYPE_ENTRIES) => BlockType::Entries,
            (_, _) => return Err(NotABlock::Header),
        };
        Ok(Self {
            block_type,
            is_owned: version == VERSION,
            is_told: flags & FLAG_TOLD != 0,
            payload_bytes: u32::from_le_bytes(take(&mut rest)?),
            salt: u64::from_le_bytes(take(&mut rest)?),
            segment: u64::from_le_bytes(take(&mut rest)?),
            first: u64::from_le_bytes(take(&mut rest)?),
            synced: u64::from_le_bytes(take(&mut rest)?),
            entries: u32::from_le_bytes(take(&mut rest)?),
        })
    }

    /// Length of the whole block.
    pub(crate) const fn block_bytes(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + self.payload_bytes as u64
    }
}

/// Whether the checksum in `block` (exactly one whole block) fits its content.
pub(crate) fn crc_matches(block: &[u8]) -> bool {
    block.get(MAGIC.len()..UNCHECKED_BYTES) == Some(&block_crc(block).to_le_bytes())
}

fn block_crc(block: &[u8]) -> u32 {
    crc32c(block.get(UNCHECKED_BYTES..).unwrap_or_default())
}

/// Appends one entry; the caller has checked that the length fits.
pub(crate) fn put_entry(buffer: &mut Vec<u8>, owner: Owner, kind: u8, parts: &[&[u8]], bytes: u32) {
    let mut header = [kind; ENTRY_HEADER_BYTES];
    let mut rest = header.as_mut_slice().split_at_mut(1).1;
    put(&mut rest, &bytes.to_le_bytes());
    put(&mut rest, &owner.0.to_le_bytes());
    buffer.reserve(ENTRY_HEADER_BYTES + bytes as usize);
    buffer.extend_from_slice(&header);
    for part in parts {
        buffer.extend_from_slice(part);
    }
}

/// An entry as it lies in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawEntry<'a> {
    pub(crate) kind: u8,
    /// None in a block of version 1.
    pub(crate) owner: Option<Owner>,
    pub(crate) payload: &'a [u8],
}

/// Splits the first entry off a block's payload. `None` if there is no whole entry.
pub(crate) fn split_entry(block: &[u8], is_owned: bool) -> Option<(RawEntry<'_>, &[u8])> {
    let (kind, rest) = block.split_first()?;
    let (bytes, rest) = rest.split_first_chunk::<4>()?;
    let (owner, rest) = if is_owned {
        let (owner, rest) = rest.split_first_chunk()?;
        (Some(Owner(u64::from_le_bytes(*owner))), rest)
    } else {
        (None, rest)
    };
    let bytes = usize::try_from(u32::from_le_bytes(*bytes)).ok()?;
    let (payload, rest) = rest.split_at_checked(bytes)?;
    Some((RawEntry { kind: *kind, owner, payload }, rest))
}

fn put(rest: &mut &mut [u8], value: &[u8]) {
    let (head, tail) = std::mem::take(rest).split_at_mut(value.len());
    head.copy_from_slice(value);
    *rest = tail;
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NotABlock> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(NotABlock::Header)?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(payload_bytes: u32) -> BlockHeader {
        BlockHeader {
            block_type: BlockType::Entries,
            is_owned: true,
            is_told: false,
            payload_bytes,
            salt: 7,
            segment: 3,
            first: 41,
            synced: 40,
            entries: 1,
        }
    }

    #[test]
    fn a_sealed_block_reads_back_and_every_flipped_bit_is_noticed() {
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        put_entry(&mut block, Owner(77), 9, &[b"ab", b"", b"cde"], 5);
        let header = header(u32::try_from(block.len() - BLOCK_HEADER_BYTES).unwrap());
        header.seal(&mut block);
        assert_eq!(BlockHeader::read(&block), Ok(header));
        assert!(crc_matches(&block));
        let entry = RawEntry { kind: 9, owner: Some(Owner(77)), payload: b"abcde" };
        assert_eq!(split_entry(&block[BLOCK_HEADER_BYTES..], true), Some((entry, &b""[..])));
        for bit in 0..block.len() * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(BlockHeader::read(&block) != Ok(header) || !crc_matches(&block), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_newer_version_is_told_from_garbage() {
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        header(0).seal(&mut block);
        block[8] = 3;
        assert_eq!(BlockHeader::read(&block), Err(NotABlock::Newer(3)));
        block[0] = 0;
        assert_eq!(BlockHeader::read(&block), Err(NotABlock::Header));
    }

    /// Bytes of both formats, which stay readable.
    #[test]
    fn blocks_of_both_versions_are_read() {
        let entry = [9, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, b'a', b'b'];
        let mut written = Vec::new();
        put_entry(&mut written, Owner(7), 9, &[b"ab"], 2);
        assert_eq!(written, entry);
        let unowned = [9, 2, 0, 0, 0, b'a', b'b'];
        let (read, rest) = split_entry(&unowned, false).unwrap();
        assert_eq!((read.owner, read.payload, rest.len()), (None, &b"ab"[..], 0));
        for is_owned in [false, true] {
            let mut block = vec![0; BLOCK_HEADER_BYTES];
            let header = BlockHeader { is_owned, ..header(0) };
            header.seal(&mut block);
            assert_eq!(block[8], if is_owned { 2 } else { 1 });
            assert_eq!(BlockHeader::read(&block), Ok(header));
        }
    }

    #[test]
    fn an_entry_that_claims_more_than_there_is_is_no_entry() {
        let entry = [1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        assert!((0..=entry.len()).all(|end| split_entry(&entry[..end], true).is_none()));
        assert_eq!(split_entry(&[1, 5, 0, 0, 0, 1, 2, 3, 4], false), None);
        assert_eq!(split_entry(&[1, 5, 0], false), None);
    }
}
