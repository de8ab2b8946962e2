//! The segment that takes chunks.

use std::sync::Arc;

use segments::{CachedFile, File};
use streamproto::ChunkHeader;

use crate::error::{RefusalReason, Result};
use crate::field::size;
use crate::files::StreamFiles;
use crate::index::{self, IndexRecord, SyncedMark, record_at};
use crate::recovery::{LastChunk, SegmentEnd};
use crate::retention::SEGMENT_CHUNKS_MAX;
use crate::seal::seal_of;
use crate::segment::{self, FileName, First, SEGMENT_HEADER_BYTES};
use crate::shared::Segment;
use crate::sync::Unsynced;

/// The segment that takes chunks.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) end: SegmentEnd,
    pub(crate) chunks: Arc<CachedFile>,
    pub(crate) index: Arc<CachedFile>,
}

impl OpenSegment {
    pub(crate) fn open(files: &Arc<StreamFiles>, dir: &str, end: SegmentEnd) -> Self {
        let slot = |name: FileName| files.cache.closed(&name.path(dir));
        let offset = end.first.offset;
        Self { end, chunks: slot(FileName::Segment(offset)), index: slot(FileName::Index(offset)) }
    }

    /// Makes the files of a segment without chunks.
    pub(crate) fn create(
        files: &Arc<StreamFiles>,
        dir: &str,
        first: First,
        identity: u32,
    ) -> Result<Self> {
        let create = |name: FileName, header: &[u8]| {
            let file = File::create_anew(files.disk(), &name.path(dir))?;
            file.write(0, header)?;
            Result::Ok(files.cache.admit(file))
        };
        let header = segment::encode_header(first, identity);
        let chunks = create(FileName::Segment(first.offset), &header)?;
        let header = index::encode_header(first, identity, SyncedMark::NONE);
        let index = create(FileName::Index(first.offset), &header)?;
        Ok(Self { end: SegmentEnd::beginning(first, SyncedMark::NONE), chunks, index })
    }

    pub(crate) fn unsynced(&self, with_index: bool) -> Unsynced {
        Unsynced {
            segment: self.end.first.offset,
            chunks: Arc::clone(&self.chunks),
            index: Arc::clone(&self.index),
            mark: self.end.mark(),
            with_index,
        }
    }

    pub(crate) fn segment(&self) -> Segment {
        let mut segment = Segment::new(self.end.first.offset, Some(self.end.first.ordinal));
        segment.set_slots(&self.chunks, &self.index);
        segment
    }

    /// Writes chunks behind the others, and their records.
    pub(crate) fn write(
        &self,
        headers: &[ChunkHeader],
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let Self { end, chunks, index } = self;
        chunks.file()?.write(end.position, bytes)?;
        scratch.clear();
        let mut position = end.position;
        for header in headers {
            IndexRecord::of(header, position).encode(scratch);
            position += header.stored_bytes();
        }
        assert_eq!(
            position,
            end.position + bytes.len() as u64,
            "the headers are those of the bytes"
        );
        Ok(index.file()?.write(record_at(end.n_chunks), scratch)?)
    }

    /// Takes note of what was written.
    pub(crate) fn note(&mut self, headers: &[ChunkHeader], bytes: u64) {
        let Some(last) = headers.last() else { return };
        assert!(last.next_offset() > self.end.next_offset, "offsets rise");
        self.end.n_chunks += headers.len() as u64;
        self.end.position += bytes;
        assert!(u32::try_from(self.end.position).is_ok(), "a segment stays below 4 GiB");
        self.end.next_offset = last.next_offset();
        self.end.last = Some(LastChunk::of(last));
    }
}

/// Whether chunks may be appended behind `end`.
pub(crate) fn check(
    end: &SegmentEnd,
    headers: &[ChunkHeader],
    bytes: &[u8],
) -> std::result::Result<(), RefusalReason> {
    let mut expected = end.next_offset;
    let mut last_epoch = end.last.map(|last| last.epoch);
    let mut length = 0_u64;
    for header in headers {
        let ChunkHeader { chunk_id: found, epoch, n_records, .. } = *header;
        if found != expected {
            return Err(RefusalReason::Offset { expected, found });
        }
        if n_records == 0 || found.checked_add(u64::from(n_records)).is_none() {
            return Err(RefusalReason::NoRecords);
        }
        if let Some(last) = last_epoch.filter(|last| epoch < *last) {
            return Err(RefusalReason::Epoch { last, found: epoch });
        }
        expected = header.next_offset();
        last_epoch = Some(epoch);
        length = length.saturating_add(header.stored_bytes());
    }
    let found = bytes.len() as u64;
    if length != found {
        return Err(RefusalReason::Length { expected: length, found });
    }
    let fits = u32::try_from(SEGMENT_HEADER_BYTES + found).is_ok();
    if !fits || headers.len() as u64 > SEGMENT_CHUNKS_MAX {
        return Err(RefusalReason::TooMuch);
    }
    check_seals(headers, bytes)
}

fn check_seals(
    headers: &[ChunkHeader],
    mut bytes: &[u8],
) -> std::result::Result<(), RefusalReason> {
    for header in headers {
        if seal_of(bytes).is_none() {
            return Err(RefusalReason::NoSeal(header.chunk_id));
        }
        bytes = bytes.get(size(header.stored_bytes())..).unwrap_or_default();
    }
    Ok(())
}
