//! Reading: where a blob lies is looked up under the lock, the file is read without it.

use segments::File;
use stdx::lock;

use super::dir::Dir;
use super::format::{self, RECORD_HEADER_BYTES};
use super::slots::Slot;
use super::state::State;
use super::{BlobId, BlobStore};
use crate::error::{Result, StoreError};

/// The most that is read at once, unless one blob is longer.
const RUN_BYTES_MAX: u32 = 1 << 20;
/// Gaps between wanted blobs up to this long are read along.
const GAP_BYTES_MAX: u32 = 16 << 10;

/// Blobs of one file that are read with one call.
struct Run {
    file: u32,
    generation: u32,
    handle: Option<File>,
    slots: Vec<Slot>,
}

enum Located {
    /// The record is not on disk yet; it has been copied.
    Buffered,
    OnDisk(Run),
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
    fn read_slots(&self, run: Run, scratch: &mut Vec<u8>) -> Result<Option<Vec<Slot>>> {
        let handle = match run.handle {
            Some(handle) => handle,
            None => match self.open_to_read(run.file, run.generation)? {
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

    /// Opens without the lock. Before another file takes this one's name its handle is pinned: if
    /// there is a handle now, that is the one whose places were looked up.
    fn open_to_read(&self, number: u32, generation: u32) -> Result<Option<File>> {
        let name = self.dir.file_name(number);
        let opened = File::open_if_there(self.dir.disk(), &name);
        let mut state = lock(&self.state);
        let file = state.files.get_mut(&number);
        let Some(file) = file.filter(|file| file.generation == generation) else { return Ok(None) };
        if let Some(handle) = file.opened.handle() {
            return Ok(Some(handle.clone()));
        }
        let Some(handle) = opened? else {
            return Err(StoreError::Missing { file: name, index: 0 });
        };
        state.keep_open(number, &handle, self.dir.options.open_files_max);
        Ok(Some(handle))
    }
}

impl Dir {
    fn hand_out(
        &self,
        file: u32,
        slots: &[Slot],
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

impl State {
    /// As many of the first `ids` as can be read with one call.
    fn locate(&mut self, ids: &[BlobId], scratch: &mut Vec<u8>) -> Located {
        let Some(first) = ids.first() else { return Located::Missing };
        self.count_read(first.file);
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
        let handle = file.opened.handle().cloned();
        Located::OnDisk(Run { file: first.file, generation: file.generation, handle, slots })
    }
}

fn record_bytes(slot: &Slot) -> u32 {
    RECORD_HEADER_BYTES + slot.bytes
}
