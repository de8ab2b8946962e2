//! Segment files, and the names of a stream's files.
//!
//! ```text
//! streams/<id>/<first offset, 20 digits>.segment
//! 0        4         8               16             24       28         32
//! +--------+---------+---------------+--------------+--------+----------+--------+--------+
//! | "LVCS" | version | first ordinal | first offset | crc32c | identity | chunk  | chunk  | ...
//! |        |   u32   |      u64      |     u64      |  u32   |   u32    |        |        |
//! +--------+---------+---------------+--------------+--------+----------+--------+--------+
//! ```
//! Chunks are as `streamproto::chunk` draws them: the bytes of the wire, with filter and trailer.
//! Integers are big-endian, as in chunks. The checksum is of the 24 bytes in front of it. The identity is the
//! stream's (`table.rs`), 0 in older files.

use segments::{Digits, FileError, NameForm, crc32c};

use crate::STREAMS_DIR;
use crate::error::Result;

/// Bytes in front of a segment's first chunk.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 32;
/// The present version of both files.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 4] = *b"LVCS";
const CHECKED_BYTES: usize = 24;
const SEGMENTS: NameForm = NameForm::new(Digits::Decimal(20), ".segment");
const INDEXES: NameForm = NameForm { suffix: ".index", ..SEGMENTS };
const IDENTITY_AT: usize = 28;

const _: () = assert!(CHECKED_BYTES + 4 == IDENTITY_AT);
const _: () = assert!(IDENTITY_AT as u64 + 4 == SEGMENT_HEADER_BYTES);

/// The place of a file's first chunk in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) ordinal: u64,
    pub(crate) offset: u64,
}

/// A stream's files by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileName {
    Segment(u64),
    Index(u64),
}

impl FileName {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let segment = SEGMENTS.parse(name).map(Self::Segment);
        segment.or_else(|| INDEXES.parse(name).map(Self::Index))
    }

    pub(crate) fn path(self, dir: &str) -> String {
        match self {
            Self::Segment(first) => SEGMENTS.path(dir, first),
            Self::Index(first) => INDEXES.path(dir, first),
        }
    }
}

/// The directory of a stream.
pub(crate) fn stream_dir(id: u64) -> String {
    format!("{STREAMS_DIR}/{id}")
}

pub(crate) fn encode_header(first: First, identity: u32) -> Vec<u8> {
    let mut bytes = encode_checked(MAGIC, first);
    bytes.extend(identity.to_be_bytes());
    bytes
}

/// The identity of the stream whose file begins with these bytes, of either kind; 0 if it is not told.
pub(crate) fn identity_of(header: &[u8]) -> u32 {
    crate::field::u32_at(header, IDENTITY_AT)
}

/// The first chunk's place, if the header is whole.
///
/// # Errors
/// A header of a newer version.
pub(crate) fn decode_header(bytes: &[u8], file: &str) -> Result<Option<First>> {
    decode_checked(MAGIC, bytes, file)
}

/// The part that both kinds of files begin with.
pub(crate) fn encode_checked(magic: [u8; 4], first: First) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend(first.ordinal.to_be_bytes());
    bytes.extend(first.offset.to_be_bytes());
    bytes.extend(crc32c(&bytes).to_be_bytes());
    bytes
}

pub(crate) fn decode_checked(magic: [u8; 4], bytes: &[u8], file: &str) -> Result<Option<First>> {
    let Some((checked, rest)) = bytes.split_at_checked(CHECKED_BYTES) else { return Ok(None) };
    if !checked.starts_with(&magic) || crate::field::u32_at(rest, 0) != crc32c(checked) {
        return Ok(None);
    }
    let found = crate::field::u32_at(checked, 4);
    if found > VERSION {
        Err(FileError::Newer { file: file.to_owned(), found, known: VERSION })?;
    }
    let at = |at| crate::field::u64_at(checked, at);
    Ok(Some(First { ordinal: at(8), offset: at(16) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_names() {
        for name in [FileName::Segment(0), FileName::Index(u64::MAX), FileName::Segment(1 << 40)] {
            let path = name.path("streams/7");
            let (dir, last) = path.rsplit_once('/').unwrap();
            assert_eq!((dir, FileName::parse(last)), ("streams/7", Some(name)));
        }
        for other in ["1.segment", "0000000000000000000x.index", "00000000000000000001.cut", ""] {
            assert_eq!(FileName::parse(other), None);
        }
        let too_large = "99999999999999999999.segment";
        assert_eq!(FileName::parse(too_large), None);
    }

    #[test]
    fn a_header_with_any_flipped_bit_is_none() {
        let first = First { ordinal: 7, offset: 1 << 33 };
        let bytes = encode_header(first, 7);
        assert_eq!((bytes.len() as u64, identity_of(&bytes)), (SEGMENT_HEADER_BYTES, 7));
        assert_eq!(decode_header(&bytes, "f").unwrap(), Some(first));
        for bit in 0..28 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_header(&flipped, "f").unwrap(), None, "{bit}");
        }
        assert_eq!(decode_header(&bytes[..27], "f").unwrap(), None);
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(2_u32.to_be_bytes());
        bytes.extend([0; 16]);
        bytes.extend(crc32c(&bytes).to_be_bytes());
        let error = decode_header(&bytes, "streams/1/x.segment").unwrap_err().to_string();
        assert!(error.contains("streams/1/x.segment has format version 2"), "{error}");
    }
}
