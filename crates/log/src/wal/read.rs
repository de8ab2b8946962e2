//! Reading one entry back by its address.
//!
//! A block's checksum is over all of it, so the block that holds the entry is looked for, backwards from the
//! entry: blocks begin at known multiples, and none can be forged, since each has the log's salt.

use super::recovery::SegmentReader;
use super::{Entry, EntryAddress, Wal};
use crate::block::{BLOCK_ALIGN, BlockHeader};
use crate::error::Result;

impl Wal {
    /// Shows `take` the entry at `at`, which must be durable and needed: of others the segment may be
    /// gone. **Blocks** for reading the block that holds it.
    ///
    /// # Errors
    /// The disk's, and [`Corrupt`](segments::FileError::Corrupt) if there is no such entry or its block is
    /// damaged.
    pub fn read<T>(&self, at: EntryAddress, take: impl FnOnce(Entry<'_>) -> T) -> Result<T> {
        let (disk, dir) = (self.disk.as_ref(), &self.shared.options.dir);
        let mut file = SegmentReader::open(disk, at.segment, dir)?;
        let (mut take, mut taken) = (Some(take), None);
        if let Some(header) = block_around(&mut file, at.offset.into(), self.stamp().identity)? {
            file.visit_entries(&header, &mut |entry| {
                if entry.at == at {
                    taken = take.take().map(|take| take(entry));
                }
                Ok(())
            })?;
        }
        let what = "the entry is missing or its block is damaged";
        taken.ok_or_else(|| file.file().corrupt(at.offset.into(), what).into())
    }
}

/// Moves `file` to the valid block that the byte at `offset` is in.
fn block_around(file: &mut SegmentReader, offset: u64, salt: u64) -> Result<Option<BlockHeader>> {
    for begin in (1..=offset / BLOCK_ALIGN).rev().map(|nth| nth * BLOCK_ALIGN) {
        let header = file.header_before(begin)?;
        let is_around =
            |header: &BlockHeader| header.salt == salt && begin + header.block_bytes() > offset;
        if header.is_some_and(|header| is_around(&header))
            && let Some(header) = file.block_at(begin)?
        {
            file.end = begin;
            return Ok(Some(header));
        }
    }
    Ok(None)
}
