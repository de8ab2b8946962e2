//! A file of the store while it runs: its blobs, and its records that are not written yet.

use std::collections::VecDeque;
use std::sync::Arc;

use segments::{CachedFile, Stamp};

use super::BlobId;
use super::format::{self, FILE_HEADER_BYTES, FoundFile, OVERHEAD_BYTES, RECORD_HEADER_BYTES};
use super::slots::{BlobSlot, Slots};

/// The bytes handed to one write.
const CHUNK_BYTES: usize = 256 << 10;

/// How far a file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The file takes blobs.
    Filling,
    /// The file takes no more blobs; its end and its table are still to be written.
    Full,
    /// The file takes no more blobs and is written: it may be rewritten and removed.
    Closed,
}

/// Bytes to be written at one place.
#[derive(Debug)]
pub(super) struct UnwrittenChunk {
    pub(super) at: u32,
    pub(super) bytes: Vec<u8>,
}

/// A file: its blobs, and its records that are not on disk.
#[derive(Debug)]
pub(super) struct BlobFile {
    pub(super) number: u32,
    pub(super) stage: Stage,
    pub(super) slots: Slots,
    /// Where the next record goes.
    pub(super) end: u32,
    /// Bytes the file has on disk.
    pub(super) disk_bytes: u64,
    /// Bytes the referenced blobs would take in a sealed file, without its header.
    pub(super) live_bytes: u64,
    pub(super) n_live: u32,
    /// The log's stamp when the file was begun.
    pub(super) begun: Stamp,
    pub(super) unwritten: Unwritten,
    /// The file that the blobs lie in, once it is on disk: another one after a rewriting.
    pub(super) cached: Option<Arc<CachedFile>>,
}

/// The records of a file that are not on disk yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// Chunks that are written when full or by a sync.
    chunks: VecDeque<Arc<UnwrittenChunk>>,
    /// The chunk that takes records.
    tail: UnwrittenChunk,
}

impl Unwritten {
    const fn new(at: u32) -> Self {
        Self { chunks: VecDeque::new(), tail: UnwrittenChunk { at, bytes: Vec::new() } }
    }

    /// Appends the record of a blob in `parts`; returns where the next one goes.
    fn append(&mut self, id: BlobId, parts: &[&[u8]], bytes: u32) -> u32 {
        let tail = &mut self.tail.bytes;
        let start = tail.len();
        let blob_at = start + RECORD_HEADER_BYTES as usize;
        tail.reserve(RECORD_HEADER_BYTES as usize + bytes as usize);
        tail.resize(blob_at, 0);
        parts.iter().for_each(|part| tail.extend_from_slice(part));
        if let Some((header, blob)) = tail
            .get_mut(start..)
            .and_then(|record| record.split_at_mut_checked(RECORD_HEADER_BYTES as usize))
        {
            header.copy_from_slice(&format::record_header(id.file, id.index, blob));
        }
        assert_eq!(tail.len(), blob_at + bytes as usize, "a record is as long as its header says");
        let end = self.end();
        if self.tail.bytes.len() >= CHUNK_BYTES {
            self.close_chunk();
        }
        end
    }

    /// Where the next record goes.
    fn end(&self) -> u32 {
        self.tail.at + u32::try_from(self.tail.bytes.len()).expect("a file stays below 4 GiB")
    }

    fn close_chunk(&mut self) {
        let next = UnwrittenChunk { at: self.end(), bytes: Vec::new() };
        let full = std::mem::replace(&mut self.tail, next);
        if !full.bytes.is_empty() {
            self.chunks.push_back(Arc::new(full));
        }
    }

    /// Everything not written yet. It stays readable here until [`Self::forget`].
    pub(super) fn all(&mut self) -> Vec<Arc<UnwrittenChunk>> {
        self.close_chunk();
        self.chunks.iter().cloned().collect()
    }

    /// Forgets the first `n` chunks, which are on disk.
    pub(super) fn forget(&mut self, n: usize) {
        self.chunks.drain(..n.min(self.chunks.len()));
    }

    /// The record of `slot` if it is not on disk yet.
    pub(super) fn record(&self, slot: &BlobSlot) -> Option<&[u8]> {
        let of_slot = |chunk: &'_ UnwrittenChunk| slot.offset.checked_sub(chunk.at);
        let chunk = match of_slot(&self.tail) {
            Some(_) => &self.tail,
            None => {
                let after = self.chunks.partition_point(|chunk| chunk.at <= slot.offset);
                self.chunks.get(after.checked_sub(1)?)?.as_ref()
            }
        };
        let start = of_slot(chunk)? as usize;
        let record_bytes = RECORD_HEADER_BYTES as usize + slot.bytes as usize;
        chunk.bytes.get(start..).and_then(|rest| rest.get(..record_bytes))
    }
}

impl BlobFile {
    /// A file that is not on disk yet.
    pub(super) fn new(number: u32) -> Self {
        let found = FoundFile {
            slots: Slots::default(),
            end: FILE_HEADER_BYTES,
            file_bytes: 0,
            is_sealed: false,
            stamps: None,
            is_present_version: true,
        };
        Self::found(number, found, Stage::Filling, None)
    }

    /// A file that was on disk at the start.
    pub(super) fn found(
        number: u32,
        found: FoundFile,
        stage: Stage,
        cached: Option<Arc<CachedFile>>,
    ) -> Self {
        Self {
            number,
            stage,
            end: found.end,
            disk_bytes: found.file_bytes,
            slots: found.slots,
            live_bytes: 0,
            n_live: 0,
            begun: found.stamps.unwrap_or_default().begun,
            unwritten: Unwritten::new(found.end),
            cached,
        }
    }

    /// Takes a blob with one reference; returns its index.
    pub(super) fn append(&mut self, parts: &[&[u8]], bytes: u32) -> u32 {
        let index = self.slots.next_index();
        let id = BlobId { file: self.number, index };
        let end = self.unwritten.append(id, parts, bytes);
        self.slots.push(BlobSlot { index, offset: self.end, bytes, refs: 1 });
        self.count_live(bytes);
        self.end += RECORD_HEADER_BYTES + bytes;
        assert_eq!(self.end, end, "records lie side by side");
        index
    }

    /// Adds to a blob's references; false if there is no such blob.
    pub(super) fn add_refs(&mut self, index: u32, n: i32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let was_live = slot.refs > 0;
        slot.refs = slot.refs.saturating_add(n);
        let (is_live, bytes) = (slot.refs > 0, slot.bytes);
        match (was_live, is_live) {
            (false, true) => self.count_live(bytes),
            (true, false) => {
                self.live_bytes -= u64::from(bytes) + u64::from(OVERHEAD_BYTES);
                assert!(self.n_live > 0, "a blob is counted while it is referred to");
                self.n_live -= 1;
            }
            (true, true) | (false, false) => {}
        }
        true
    }

    fn count_live(&mut self, bytes: u32) {
        self.live_bytes += u64::from(bytes) + u64::from(OVERHEAD_BYTES);
        self.n_live += 1;
    }

    /// Whether rewriting it would give back more than half of it.
    pub(super) fn is_sparse(&self) -> bool {
        self.stage == Stage::Closed
            && 2 * (self.live_bytes + u64::from(FILE_HEADER_BYTES)) < self.disk_bytes
    }

    /// Notes where the blobs lie after a rewriting. References are those of now, not of its start.
    pub(super) fn rewritten(
        &mut self,
        slots: &Slots,
        end: u32,
        disk_bytes: u64,
        cached: Arc<CachedFile>,
    ) {
        assert!(
            self.slots.iter().map(|slot| slot.index).eq(slots.iter().map(|slot| slot.index)),
            "a file that is rewritten keeps its blobs"
        );
        for (slot, moved) in self.slots.iter_mut().zip(slots.iter()) {
            slot.offset = moved.offset;
        }
        self.end = end;
        self.disk_bytes = disk_bytes;
        self.cached = Some(cached);
    }
}
