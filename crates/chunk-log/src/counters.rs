//! Costs of readers: file reads, and what they brought.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of the readers of a log, or of all logs, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Reads of segment files.
    pub file_reads: u64,
    /// Bytes they brought.
    pub read_bytes: u64,
    /// Chunks that readers were given. By `file_reads`: chunks per read.
    pub chunks: u64,
    /// Of these, chunks that came with a read for an earlier one.
    pub chunks_read_ahead: u64,
    /// Chunks passed over: their filter does not match, or their type is not asked for.
    pub chunks_passed_over: u64,
    /// Of the chunks given, those as a range of the file.
    pub file_ranges: u64,
    /// Data bytes of these ranges, which no other figure counts.
    pub file_range_bytes: u64,
}

/// The counts of many readers.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct ReadCounters([AtomicU64; 7]);

impl ReadCounts {
    const fn to_array(self) -> [u64; 7] {
        let Self { file_reads, read_bytes, chunks, chunks_read_ahead, .. } = self;
        let Self { chunks_passed_over, file_ranges, file_range_bytes, .. } = self;
        let read = [file_reads, read_bytes, chunks, chunks_read_ahead];
        let [a, b, c, d] = read;
        [a, b, c, d, chunks_passed_over, file_ranges, file_range_bytes]
    }
}

impl ReadCounters {
    pub(crate) fn add(&self, counts: ReadCounts) {
        for (counter, n) in self.0.iter().zip(counts.to_array()) {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn read(&self) -> ReadCounts {
        let [file_reads, read_bytes, chunks, chunks_read_ahead, passed, ranges, range_bytes] =
            self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        ReadCounts {
            file_reads,
            read_bytes,
            chunks,
            chunks_read_ahead,
            chunks_passed_over: passed,
            file_ranges: ranges,
            file_range_bytes: range_bytes,
        }
    }
}
