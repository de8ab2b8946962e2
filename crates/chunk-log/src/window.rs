//! How many bytes a reader's next read brings.

use streamproto::ChunkHeader;
use streamproto::spec::{CHUNK_HEADER_BYTES, FILTER_BYTES_MIN};

use crate::reader_options::ReadAhead;

/// A chunk up to this size is a small one: reads go beyond it.
pub(crate) const SMALL_CHUNK_BYTES_MAX: u64 = 64 << 10;
/// The largest chunk that is read ahead with a filter: most chunks are passed over then.
const SMALL_FILTERED_BYTES_MAX: u64 = 4 << 10;
/// Bytes of the first read behind a small chunk, at least one such chunk; doubled with each that follows.
const AHEAD_BYTES_MIN: u64 = 1 << 10;
/// The largest read behind small chunks. A system call costs a hundredth of copying so much.
const AHEAD_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a read where nothing is known of what comes.
const BLIND_BYTES: u64 = 256;
/// The rest of a log up to this size is read at once.
const REST_BYTES: u64 = 4 << 10;
/// RabbitMQ counts the largest header of an entry as part of a chunk.
const SUB_BATCH_HEADER_BYTES: u64 = 11;

const _: () = assert!(AHEAD_BYTES_MIN <= AHEAD_BYTES_MAX && BLIND_BYTES <= REST_BYTES);
const _: () = assert!(SMALL_FILTERED_BYTES_MAX <= SMALL_CHUNK_BYTES_MAX);

/// The size of a reader's reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    read_ahead: ReadAhead,
    has_filter: bool,
    /// The size of the chunks of late, a little more than most; 0 after a large one.
    expected: u64,
    /// Bytes of the next read behind a small chunk; doubled with each.
    ahead: u64,
    /// The filter bytes of the last chunk that had a filter.
    filter_bytes: u64,
}

impl Window {
    pub(crate) const fn new(read_ahead: ReadAhead, has_filter: bool) -> Self {
        let filter_bytes = FILTER_BYTES_MIN as u64;
        Self { read_ahead, has_filter, expected: 0, ahead: AHEAD_BYTES_MIN, filter_bytes }
    }

    /// Learns from a chunk that was met.
    pub(crate) fn note(&mut self, header: &ChunkHeader) {
        if header.filter_bytes > 0 {
            self.filter_bytes = u64::from(header.filter_bytes);
        }
        let bytes = header.stored_bytes();
        self.expected = match self.read_ahead {
            ReadAhead::Off => 0,
            ReadAhead::Limit(limit) => {
                let room = u64::from(limit)
                    .saturating_sub(header.data_at())
                    .saturating_sub(SUB_BATCH_HEADER_BYTES);
                let is_small = limit > 0 && u64::from(header.data_bytes) <= room;
                if is_small && !self.has_filter { bytes } else { 0 }
            }
            ReadAhead::Adaptive => {
                let max =
                    if self.has_filter { SMALL_FILTERED_BYTES_MAX } else { SMALL_CHUNK_BYTES_MAX };
                if bytes > max { 0 } else { bytes.max(self.expected - self.expected / 8) }
            }
        };
        if self.expected == 0 {
            self.ahead = AHEAD_BYTES_MIN;
        }
    }

    /// How many bytes to read for the next chunk's header, `available` bytes before the end.
    pub(crate) fn next_read(&mut self, available: u64) -> u64 {
        let header = CHUNK_HEADER_BYTES as u64 + self.filter_bytes;
        let wanted = match self.read_ahead {
            ReadAhead::Limit(limit) if self.expected > 0 => u64::from(limit),
            ReadAhead::Off | ReadAhead::Limit(_) => header,
            ReadAhead::Adaptive if available <= REST_BYTES => available,
            ReadAhead::Adaptive if self.expected == 0 => header.max(BLIND_BYTES),
            ReadAhead::Adaptive => self.ahead(),
        };
        wanted.min(available)
    }

    /// The bytes of as many whole chunks of the expected size as are to be read ahead, at least one.
    fn ahead(&mut self) -> u64 {
        let n = (self.ahead / self.expected).max(1);
        self.ahead = (2 * self.ahead).min(AHEAD_BYTES_MAX);
        n * self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(data_bytes: u32) -> ChunkHeader {
        ChunkHeader { data_bytes, ..ChunkHeader::default() }
    }

    /// RabbitMQ's `ra_update_size`.
    #[test]
    fn a_limit_reads_ahead_after_chunks_that_fit_in_it() {
        let mut window = Window::new(ReadAhead::Limit(4096), false);
        assert_eq!(window.next_read(1 << 30), 64);
        for (data_bytes, next) in [(100, 4096), (5000, 64), (4096 - 48 - 11, 4096), (4038, 64)] {
            window.note(&chunk(data_bytes));
            assert_eq!(window.next_read(1 << 30), next, "{data_bytes}");
        }
        let mut filtered = Window::new(ReadAhead::Limit(4096), true);
        filtered.note(&ChunkHeader { filter_bytes: 100, ..chunk(100) });
        assert_eq!(filtered.next_read(1 << 30), 148);
        let mut off = Window::new(ReadAhead::Off, false);
        off.note(&chunk(1));
        assert_eq!(off.next_read(1 << 30), 64);
        assert_eq!(off.next_read(60), 60);
    }

    #[test]
    fn reads_grow_behind_small_chunks_and_hold_whole_ones() {
        let mut window = Window::new(ReadAhead::Adaptive, false);
        assert_eq!(window.next_read(1 << 30), BLIND_BYTES);
        let reads: Vec<u64> = (0..6)
            .map(|_| {
                window.note(&chunk(1000 - 48));
                window.next_read(1 << 30)
            })
            .collect();
        assert_eq!(reads, [1000, 2000, 4000, 8000, 16_000, 32_000]);
        window.note(&chunk(40_000));
        assert_eq!(window.next_read(1 << 30), 40_048, "one whole chunk, and no half one");
        window.note(&chunk(1 << 20));
        assert_eq!(window.next_read(1 << 30), BLIND_BYTES, "nothing behind a large one");
        window.note(&chunk(100));
        assert_eq!(window.next_read(1 << 30), 1024 / 148 * 148, "and little behind the next");
        assert_eq!(window.next_read(3000), 3000, "the rest, if that is little");
    }
}
