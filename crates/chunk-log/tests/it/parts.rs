//! Chunks for tests, and logs with them.

use std::sync::Arc;

use chunk_log::{
    Appended, ChunkBytes, ChunkLog, LogOptions, LogView, Next, Reader, ReaderOptions, Recovered,
    Start, StoredChunk, StreamFiles, StreamTable, Wait,
};
use streamproto::{Chunk, ChunkHeader};
use testing::MemoryDisk;

/// The stream of these tests.
pub(crate) const ID: u64 = 7;

/// A chunk that is being made.
#[derive(Clone, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) header: ChunkHeader,
    pub(crate) filter: &'a [u8],
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) trailer: &'a [u8],
}

impl<'a> Draft<'a> {
    pub(crate) fn new(chunk_id: u64, messages: Vec<Vec<u8>>) -> Self {
        let header = ChunkHeader { chunk_id, timestamp_ms: 1_000, epoch: 1, ..Default::default() };
        Self { header, filter: &[], messages, trailer: &[] }
    }

    /// Appends the chunk: its header.
    pub(crate) fn encode(mut self, out: &mut Vec<u8>) -> ChunkHeader {
        let mut data = Vec::new();
        for message in &self.messages {
            data.extend((message.len() as u32).to_be_bytes());
            data.extend(message);
        }
        self.header.n_entries = self.messages.len() as u16;
        self.header.n_records = self.messages.len() as u32;
        let chunk = Chunk::new(self.header, self.filter, &data, self.trailer).unwrap();
        let from = out.len();
        chunk.encode(out);
        chunk_log::seal_chunk(&mut out[from..]);
        chunk.header
    }
}

pub(crate) fn files(disk: &MemoryDisk) -> Arc<StreamFiles> {
    StreamFiles::new(Arc::new(disk.clone()), 100)
}

/// The same, with what the stream has noted beside it.
pub(crate) fn noted(disk: &MemoryDisk) -> chunk_log::Result<Arc<StreamFiles>> {
    let table = StreamTable::open(Arc::new(disk.clone()), 1)?;
    Ok(StreamFiles::with_table(Arc::new(disk.clone()), 100, Some(table)))
}

pub(crate) fn open(files: &Arc<StreamFiles>, options: LogOptions) -> (ChunkLog, Recovered) {
    let (log, found) = ChunkLog::open(files, ID, options).unwrap();
    log.view().set_committed(found.end);
    (log, found)
}

/// A chunk of messages of these sizes.
pub(crate) fn draft(log: &ChunkLog, sizes: &[usize]) -> Draft<'static> {
    let next = log.end().next_offset;
    let messages = sizes.iter().zip(next..).map(|(size, offset)| vec![offset as u8; *size]);
    Draft::new(next, messages.collect())
}

pub(crate) fn append(log: &mut ChunkLog, draft: Draft<'_>) -> Appended {
    let mut bytes = Vec::new();
    let header = draft.encode(&mut bytes);
    let appended = log.append(&[header], &bytes).unwrap();
    log.view().set_committed(appended.end);
    appended
}

/// Appends a chunk of messages of these sizes, and commits it.
pub(crate) fn add(log: &mut ChunkLog, sizes: &[usize]) -> Appended {
    let draft = draft(log, sizes);
    append(log, draft)
}

pub(crate) fn reader(view: &LogView, start: Start) -> Reader {
    view.reader(start, ReaderOptions::default()).unwrap()
}

/// The next chunk, which is there.
pub(crate) fn chunk(reader: &mut Reader) -> StoredChunk {
    match reader.read_next(Wait::ForDisk).unwrap() {
        Next::Chunk(chunk) => chunk,
        other => panic!("{other:?}"),
    }
}

/// All chunks up to the end.
pub(crate) fn rest(reader: &mut Reader) -> Vec<StoredChunk> {
    let mut chunks = Vec::new();
    loop {
        match reader.read_next(Wait::ForDisk).unwrap() {
            Next::Chunk(chunk) => chunks.push(chunk),
            Next::PassedOver => {}
            Next::End => return chunks,
        }
    }
}

/// The ids of all chunks up to the end.
pub(crate) fn rest_ids(reader: &mut Reader) -> Vec<u64> {
    rest(reader).iter().map(|chunk| chunk.header.chunk_id).collect()
}

/// The entries of a chunk, wherever they are.
pub(crate) fn data(chunk: &StoredChunk) -> Vec<u8> {
    match &chunk.bytes {
        ChunkBytes::Memory(_) => chunk.data().unwrap().to_vec(),
        ChunkBytes::File(range) => {
            let mut into = vec![0; range.len() as usize];
            assert_eq!(range.read_at(0, &mut into).unwrap(), into.len());
            into
        }
    }
}

/// A small chunk as it is stored.
pub(crate) fn stored(chunk: &StoredChunk) -> Vec<u8> {
    match &chunk.bytes {
        ChunkBytes::Memory(stored) => stored.to_vec(),
        ChunkBytes::File(range) => panic!("{range:?}"),
    }
}
