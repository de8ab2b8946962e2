//! Reading: where a blob lies is looked up under the lock, the file is read without it.

use std::sync::Arc;

use segments::{CachedFile, File};
use stdx::lock;

use super::dir::Dir;
use super::format::{self, RECORD_HEADER_BYTES};
use super::slots::BlobSlot;
use super::state::BlobState;
use super::{BlobId, BlobStore};
use crate::error::{Result, StoreError};

/// The most that is read at once, unless one blob is longer.
const RUN_BYTES_MAX: u32 = 1 << 20;
/// Gaps between wanted blobs up to this long are read along.
const GAP_BYTES_MAX: u32 = 16 << 10;

/// Blobs of one file that are read with one call.
struct RecordRun {
    file: u32,
    cached: Arc<CachedFile>,
    handle: Option<File>,
    slots: Vec<BlobSlot>,
}

enum Located {
    /// The record is not on disk yet; it has been copied.
    Buffered,
    OnDisk(RecordRun),
    Missing,
}

impl BlobStore {
    /// Puts the blob into `into`, instead of what is there. Checked against its checksum;
    /// after an error `into` holds nothing of use.
    pub fn read(&self, id: BlobId, into: &mut Vec<u8>) -> Result<()> {
        let mut outcome = Ok(());
        self.read_run(&[id], into, &mut |_, blob| outcome = blob.map(|_| ()));
        outcome?;
        into.drain(..RECORD_HEADER_BYTES as usize);
        Ok(())
    }

    /// Hands the blobs `ids` to `each` in that order, each intact or with the reason why not.
    /// Neighbours in one file are read with one call. `scratch` is for the bytes of a call.
    pub fn read_run(
        &self,
        ids: &[BlobId],
        scratch: &mut Vec<u8>,
        each: &mut dyn FnMut(BlobId, Result<&[u8]>),
    ) {
        let mut rest = ids;
        while let Some((first, _)) = rest.split_first() {
            // No lock is held while the file is read.
            let located = lock(&self.state).locate(rest, scratch);
            let n = match located {
                Located::Missing => {
                    each(*first, Err(self.dir.missing(*first)));
                    1
                }
                Located::Buffered => {
                    each(*first, self.dir.checked(*first, 0, scratch));
                    1
                }
                Located::OnDisk(run) => match self.read_slots(run, scratch) {
                    Ok(Some(slots)) => {
                        self.dir.hand_out(first.file, &slots, scratch, each);
                        slots.len()
                    }
                    // The file was rewritten in between: look again.
                    Ok(None) => 0,
                    Err(error) => {
                        each(*first, Err(error));
                        1
                    }
                },
            };
            rest = rest.get(n..).unwrap_or_default();
        }
    }

    /// Reads from the first to the last of the run; `None` if the places are no longer right.
    fn read_slots(&self, run: RecordRun, scratch: &mut Vec<u8>) -> Result<Option<Vec<BlobSlot>>> {
        let handle = match run.handle {
            Some(handle) => handle,
            None => match self.open_to_read(run.file, &run.cached)? {
                Some(handle) => handle,
                None => return Ok(None),
            },
        };
        let (Some(first), Some(last)) = (run.slots.first(), run.slots.last()) else {
            return Ok(Some(run.slots));
        };
        let bytes = last.offset + record_bytes(last) - first.offset;
        handle.read_into(u64::from(first.offset), bytes as usize, scratch)?;
        Ok(Some(run.slots))
    }

    /// Opens without the lock; none if the name may be that of another file by now.
    fn open_to_read(&self, number: u32, cached: &Arc<CachedFile>) -> Result<Option<File>> {
        let opened = cached.file();
        let state = lock(&self.state);
        let now = state.files.get(&number).and_then(|file| file.cached.as_ref());
        let is_same = now.is_some_and(|now| Arc::ptr_eq(now, cached));
        match opened {
            _ if !is_same => Ok(None),
            Err(error) if error.is_not_found() => {
                Err(StoreError::Missing { file: self.dir.file_name(number), index: 0 })
            }
            opened => Ok(Some(opened?)),
        }
    }
}

impl Dir {
    fn hand_out(
        &self,
        file: u32,
        slots: &[BlobSlot],
        bytes: &[u8],
        each: &mut dyn FnMut(BlobId, Result<&[u8]>),
    ) {
        let start = slots.first().map_or(0, |slot| slot.offset);
        for slot in slots {
            let at = (slot.offset - start) as usize;
            let record = bytes.get(at..).unwrap_or_default();
            let upto = record.len().min(record_bytes(slot) as usize);
            let record = record.get(..upto).unwrap_or_default();
            let id = BlobId { file, index: slot.index };
            each(id, self.checked(id, slot.offset, record));
        }
    }

    fn checked<'a>(&self, id: BlobId, offset: u32, record: &'a [u8]) -> Result<&'a [u8]> {
        format::checked_blob(record, id.file, id.index)
            .map_err(|what| StoreError::corrupt(&self.file_name(id.file), u64::from(offset), what))
    }

    fn missing(&self, id: BlobId) -> StoreError {
        StoreError::Missing { file: self.file_name(id.file), index: u64::from(id.index) }
    }
}

impl BlobState {
    /// As many of the first `ids` as can be read with one call.
    fn locate(&self, ids: &[BlobId], scratch: &mut Vec<u8>) -> Located {
        let Some(first) = ids.first() else { return Located::Missing };
        let Some(file) = self.files.get(&first.file) else { return Located::Missing };
        let Some(slot) = file.slots.get(first.index) else { return Located::Missing };
        if let Some(record) = file.unwritten.record(slot) {
            scratch.clear();
            scratch.extend_from_slice(record);
            return Located::Buffered;
        }
        let mut slots = vec![*slot];
        let (start, mut end) = (slot.offset, slot.offset + record_bytes(slot));
        for id in ids.iter().skip(1).take_while(|id| id.file == first.file) {
            let next = file.slots.get(id.index).filter(|next| {
                let gap = next.offset.checked_sub(end);
                let total = (next.offset + record_bytes(next)).saturating_sub(start);
                gap.is_some_and(|gap| gap <= GAP_BYTES_MAX)
                    && total <= RUN_BYTES_MAX
                    && file.unwritten.record(next).is_none()
            });
            let Some(next) = next else { break };
            end = next.offset + record_bytes(next);
            slots.push(*next);
        }
        let Some(cached) = file.cached.clone() else { return Located::Missing };
        let handle = cached.file_at_hand();
        Located::OnDisk(RecordRun { file: first.file, cached, handle, slots })
    }
}

fn record_bytes(slot: &BlobSlot) -> u32 {
    RECORD_HEADER_BYTES + slot.bytes
}
