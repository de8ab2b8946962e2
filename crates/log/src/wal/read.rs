//! Reading entries back by their addresses.
//!
//! A block's checksum is over all of it, so the block that holds an entry is looked for: right behind the one
//! before, else backwards from the entry. Blocks begin at known multiples, and none can be forged, since each
//! has the log's salt.

use super::recovery::SegmentReader;
use super::segment::FileName;
use super::{Entry, EntryAddress, Wal};
use crate::block::{BLOCK_ALIGN, BlockHeader, next_block_at};
use crate::error::Result;
use segments::FileError;

impl Wal {
    /// Shows `take` the entries at the addresses of `run`, in that order. They must be durable and needed: of
    /// others the segment may be gone. **Blocks** for reading: each block once, where its entries stand
    /// together and in its own order.
    ///
    /// # Errors
    /// The disk's, and [`Corrupt`](segments::FileError::Corrupt) if there is no such entry or its block is
    /// damaged. Entries in front of that one have been shown.
    pub fn read(&self, run: &[EntryAddress], take: &mut dyn FnMut(Entry<'_>)) -> Result<()> {
        let (disk, dir) = (self.disk.as_ref(), &self.shared.options.dir);
        let salt = self.stamp().identity;
        let (mut rest, mut open) = (run, None);
        while let Some(at) = rest.first().copied() {
            let (mut file, behind) = match open.take() {
                Some((file, behind)) if SegmentReader::id(&file) == at.segment => (file, behind),
                _ => (SegmentReader::open(disk, at.segment, dir)?, 0),
            };
            let around = block_around(&mut file, behind, at.offset.into(), salt)?;
            let header = around.ok_or_else(|| missing(at, dir))?;
            let n_before = rest.len();
            file.visit_entries(&header, &mut |entry| {
                if let Some((_, behind)) = rest.split_first().filter(|(at, _)| **at == entry.at) {
                    take(entry);
                    rest = behind;
                }
                Ok(())
            })?;
            if rest.len() == n_before {
                return Err(missing(at, dir).into());
            }
            let behind = next_block_at(file.end + header.block_bytes());
            open = Some((file, behind));
        }
        Ok(())
    }
}

fn missing(at: EntryAddress, dir: &str) -> FileError {
    let file = FileName::Segment(at.segment).path(dir);
    let what = "the entry is missing or its block is damaged";
    FileError::Corrupt { file, offset: at.offset.into(), what }
}

/// Moves `file` to the valid block that the byte at `offset` is in; the one at `behind` is tried first.
fn block_around(
    file: &mut SegmentReader,
    behind: u64,
    offset: u64,
    salt: u64,
) -> Result<Option<BlockHeader>> {
    let backwards = (1..=offset / BLOCK_ALIGN).rev().map(|nth| nth * BLOCK_ALIGN);
    let first = (1..=offset).contains(&behind).then_some(behind);
    for begin in first.into_iter().chain(backwards) {
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
