//! Entries: messages and sub-batches, in a `Publish` and in a chunk alike. Messages are opaque.
//!
//! ```text
//! message    0:1 length:31 bytes
//! sub-batch  1:1 compression:3 reserved:4 records:u16 uncompressed:u32 length:u32 bytes
//! ```
//! A sub-batch holds, once it is decompressed, messages of the first form.

use crate::error::{FieldError, SubBatchError};
use crate::field::{Field, len_u32, take};
use crate::spec::BYTES_MAX;

const SUB_BATCH_BIT: u8 = 0x80;
const LENGTH_BYTES: u32 = 4;

/// The compression of a sub-batch, a number of three bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Compression(u8);

impl Compression {
    /// No compression.
    pub const NONE: Self = Self(0);
    /// gzip.
    pub const GZIP: Self = Self(1);
    /// Snappy.
    pub const SNAPPY: Self = Self(2);
    /// LZ4.
    pub const LZ4: Self = Self(3);
    /// Zstandard.
    pub const ZSTD: Self = Self(4);

    /// The number.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Whether there is such a compression.
    pub const fn is_known(self) -> bool {
        self.0 <= Self::ZSTD.0
    }
}

/// Several messages that were published as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubBatch<'a> {
    /// The compression of `bytes`.
    pub compression: Compression,
    /// The number of messages.
    pub n_records: u16,
    /// The size of the messages with their lengths, once they are decompressed.
    pub uncompressed_bytes: u32,
    /// The messages, compressed.
    pub bytes: &'a [u8],
}

impl SubBatch<'_> {
    /// Checks the header of a sub-batch before it is taken from a publisher: an error does not keep the other
    /// entries of the frame from being decoded. Refused are the sub-batches that RabbitMQ refuses, and
    /// uncompressed ones whose size is not what the header says.
    ///
    /// # Errors
    /// The first error in the header.
    pub fn check(&self, uncompressed_bytes_max: u32) -> Result<(), SubBatchError> {
        let Self { compression, n_records, uncompressed_bytes, bytes } = *self;
        if uncompressed_bytes > uncompressed_bytes_max {
            return Err(SubBatchError::TooLarge(uncompressed_bytes));
        }
        if n_records == 0 {
            return Err(SubBatchError::NoRecords);
        }
        if u32::from(n_records) * LENGTH_BYTES > uncompressed_bytes {
            return Err(SubBatchError::RecordsDoNotFit { n_records, uncompressed_bytes });
        }
        match compression {
            Compression::NONE if usize::try_from(uncompressed_bytes) != Ok(bytes.len()) => {
                Err(SubBatchError::Size { expected: uncompressed_bytes, found: bytes.len() })
            }
            _ if !compression.is_known() => {
                Err(SubBatchError::UnknownCompression(compression.code()))
            }
            _ if bytes.is_empty() => Err(SubBatchError::Empty),
            _ => Ok(()),
        }
    }
}

/// A message or a sub-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A message, AMQP 1.0 as a rule.
    Message(&'a [u8]),
    /// A sub-batch of messages.
    SubBatch(SubBatch<'a>),
}

impl Default for Entry<'_> {
    fn default() -> Self {
        Self::Message(&[])
    }
}

impl Entry<'_> {
    /// The number of messages, and so of offsets that the entry takes.
    pub const fn n_records(&self) -> u16 {
        match self {
            Self::Message(_) => 1,
            Self::SubBatch(batch) => batch.n_records,
        }
    }
}

impl<'a> Field<'a> for Entry<'a> {
    const BYTES_MIN: usize = 4;

    #[inline]
    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        match input.first() {
            Some(first) if first & SUB_BATCH_BIT != 0 => read_sub_batch(input).map(Self::SubBatch),
            _ => {
                let len = u32::read(input)?;
                take_long(input, len).map(Self::Message)
            }
        }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Message(bytes) => {
                debug_assert!(bytes.len() <= BYTES_MAX, "every message fits a frame");
                len_u32(bytes.len()).put(out);
                out.extend_from_slice(bytes);
            }
            Self::SubBatch(SubBatch { compression, n_records, uncompressed_bytes, bytes }) => {
                out.push(SUB_BATCH_BIT | compression.code() << 4);
                n_records.put(out);
                uncompressed_bytes.put(out);
                len_u32(bytes.len()).put(out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn read_sub_batch<'a>(input: &mut &'a [u8]) -> Result<SubBatch<'a>, FieldError> {
    let compression = Compression(u8::read(input)? >> 4 & 0b111);
    let n_records = u16::read(input)?;
    let uncompressed_bytes = u32::read(input)?;
    let len = u32::read(input)?;
    let bytes = take_long(input, len)?;
    Ok(SubBatch { compression, n_records, uncompressed_bytes, bytes })
}

#[inline]
fn take_long<'a>(input: &mut &'a [u8], len: u32) -> Result<&'a [u8], FieldError> {
    take(input, usize::try_from(len).map_err(|_| FieldError::Truncated)?)
}

/// The entries of a chunk, or the messages of a decompressed sub-batch, each with its offset. Ends
/// after the first error; an error too is bytes behind the last entry.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    n_left: u16,
    next_offset: u64,
}

impl<'a> Entries<'a> {
    /// The `n` entries that `bytes` hold, the first of which begins at `offset`.
    #[must_use]
    pub const fn new(bytes: &'a [u8], n: u16, offset: u64) -> Self {
        Self { rest: bytes, n_left: n, next_offset: offset }
    }

    /// The offset behind the entries that were returned.
    pub const fn next_offset(&self) -> u64 {
        self.next_offset
    }

    #[inline]
    fn read(&mut self) -> Result<Entry<'a>, FieldError> {
        let Some(n_left) = self.n_left.checked_sub(1) else {
            return Err(FieldError::TrailingBytes);
        };
        let entry = Entry::read(&mut self.rest)?;
        self.n_left = n_left;
        Ok(entry)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(u64, Entry<'a>), FieldError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.n_left == 0 && self.rest.is_empty() {
            return None;
        }
        let entry = self.read();
        let offset = self.next_offset;
        match &entry {
            Ok(entry) => self.next_offset = offset.saturating_add(u64::from(entry.n_records())),
            Err(_) => (self.rest, self.n_left) = (&[], 0),
        }
        Some(entry.map(|entry| (offset, entry)))
    }
}
