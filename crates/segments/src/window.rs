//! A walk through a file in large reads.

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::file::File;

/// A file, and the part of it that was read last.
#[derive(Debug)]
pub struct Window {
    file: File,
    /// The end of the walk: bytes behind it do not count.
    end: u64,
    /// Bytes of a read, by its begin: from the first after a leap to the last of a long walk.
    reads: RangeInclusive<usize>,
    /// Bytes of the next read.
    next_read: usize,
    bytes: Vec<u8>,
    at: u64,
}

impl Window {
    /// A window on the first `end` bytes of a file. Reads are of as many bytes as `reads` begins with, and
    /// double up to its end while one follows on the other.
    #[must_use]
    pub const fn new(file: File, end: u64, reads: RangeInclusive<usize>) -> Self {
        assert!(0 < *reads.start() && *reads.start() <= *reads.end(), "reads grow");
        let next_read = *reads.start();
        Self { file, end, reads, next_read, bytes: Vec::new(), at: 0 }
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// The end of the walk.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// The place where the part that was read last begins; none if nothing was read.
    pub const fn read_from(&self) -> Option<u64> {
        if self.bytes.is_empty() { None } else { Some(self.at) }
    }

    /// The bytes from `at` on: `n`, or fewer at the end.
    ///
    /// # Errors
    /// The disk's.
    pub fn bytes(&mut self, at: u64, n: usize) -> Result<&[u8]> {
        let upto = at.saturating_add(n as u64).min(self.end);
        let read_upto = self.at + self.bytes.len() as u64;
        if at < self.at || upto > read_upto {
            if at > read_upto {
                self.next_read = *self.reads.start();
            }
            let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
            self.file.read_into(at, n.max(self.next_read).min(left), &mut self.bytes)?;
            self.at = at;
            self.next_read = (2 * self.next_read).min(*self.reads.end());
        }
        assert!(self.at <= at, "the bytes are in the part that was read");
        let from = usize::try_from(at - self.at).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        Ok(rest.get(..n).unwrap_or(rest))
    }

    /// All of the `n` bytes from `at` on; none if the end comes before.
    ///
    /// # Errors
    /// The disk's.
    pub fn whole(&mut self, at: u64, n: usize) -> Result<Option<&[u8]>> {
        if at.checked_add(n as u64).is_none_or(|upto| upto > self.end) {
            return Ok(None);
        }
        Ok(Some(self.bytes(at, n)?).filter(|bytes| bytes.len() == n))
    }
}
