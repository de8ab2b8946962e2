//! A stream's log: small chunks on their way in and out, on a disk in memory.

use std::sync::Arc;

use chunk_log::{ChunkLog, LogOptions, Next, ReaderOptions, Start, StreamFiles, Wait, seal_chunk};
use streamproto::{Chunk, ChunkHeader};
use testing::MemoryDisk;

use crate::{N_OPERATIONS, Piece, Work};

pub(crate) const PIECES: &[Piece] =
    &[("streams/append-12", append), ("streams/read-ahead-12", read)];

/// An entry of 12 bytes, with its length.
const ENTRY: &[u8] = b"\0\0\0\x0chello, world";

fn log() -> ChunkLog {
    let files = StreamFiles::new(Arc::new(MemoryDisk::new()), 10);
    ChunkLog::open(&files, 1, LogOptions::default()).expect("a disk in memory").0
}

/// Chunks of one message, behind the last.
fn run(log: &ChunkLog) -> (Vec<ChunkHeader>, Vec<u8>) {
    let (mut headers, mut bytes) = (Vec::new(), Vec::new());
    let next = log.end().next_offset;
    for chunk_id in next..next + N_OPERATIONS {
        let header = ChunkHeader { chunk_id, n_entries: 1, n_records: 1, ..Default::default() };
        let chunk = Chunk::new(header, &[], ENTRY, &[]).expect("short parts");
        let from = bytes.len();
        chunk.encode(&mut bytes);
        seal_chunk(bytes.get_mut(from..).unwrap_or_default());
        headers.push(chunk.header);
    }
    (headers, bytes)
}

/// A run is made, sealed, and appended with one write.
fn append() -> Work {
    let mut log = log();
    Box::new(move || {
        let (headers, bytes) = run(&log);
        log.append(&headers, &bytes).expect("a disk in memory");
    })
}

fn read() -> Work {
    let mut log = log();
    let (headers, bytes) = run(&log);
    let end = log.append(&headers, &bytes).expect("a disk in memory").end;
    log.view().set_committed(end);
    Box::new(move || {
        let reader = log.view().reader(Start::First, ReaderOptions::default());
        let mut reader = reader.expect("a disk in memory");
        while let Next::Chunk(chunk) = reader.read_next(Wait::ForDisk).expect("a disk in memory") {
            std::hint::black_box(chunk);
        }
    })
}
