//! Making the journal durable.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use segments::File;
use stdx::lock;

use super::block::{FILE_HEADER_BYTES, Tag, bytes_of_blocks};
use super::files::Files;
use super::state::{JournalFile, UnwrittenBlock, V1State};
use super::{Promised, V1Queue};
use crate::Result;
use store::blob::BlobStore;

/// Blocks that are in a journal's file, or on their way there.
#[derive(Debug)]
struct JournalWrites {
    number: u64,
    handle: Option<File>,
    is_on_disk: bool,
    /// Whether the file's creation survives a loss of power.
    is_name_durable: bool,
    chunks: Vec<Arc<UnwrittenBlock>>,
    /// The number of the last call whose notes are among them.
    upto: u64,
}

/// Something written and not durable yet: see [`V1Queue::write_unsynced`].
#[derive(Debug)]
#[must_use = "it has to be confirmed"]
pub struct Unsynced {
    work: JournalWrites,
    handle: Option<File>,
}

impl V1Queue {
    /// Makes everything noted before the call durable, after the bodies it names: `bodies` is the
    /// store those lie in. Returns the highest number that is durable. A failure is for good.
    pub fn sync(&self, bodies: &BlobStore) -> Result<u64> {
        let _writing = lock(&self.writing);
        self.write_journal(bodies, |_| ())?;
        Ok(self.synced())
    }

    /// Makes the journal durable as [`Self::sync`] does, for a caller that holds `writing`; `also` runs at
    /// the moment from which on later notes are not written.
    pub(super) fn write_journal<T>(
        &self,
        bodies: &BlobStore,
        also: impl FnOnce(&mut V1State) -> T,
    ) -> Result<T> {
        self.files.alive()?;
        let mut state = lock(&self.state);
        let work = state.take_work();
        let also = also(&mut state);
        drop(state);
        let written = self.files.write(&work, bodies).and_then(|handle| {
            self.files.sync_file(&work, handle.as_ref())?;
            Ok(handle)
        });
        let handle = self.files.poison(written)?;
        self.finish_sync(&work, handle);
        Ok(also)
    }

    /// Writes everything noted before the call without making it durable. When many queues are
    /// made at once, one [`Disk::sync_all`](segments::Disk::sync_all) of all of them and then
    /// [`Self::confirm`] costs far less than a sync of each. Until then what is written stays in memory too.
    /// A failure is for good.
    pub fn write_unsynced(&self, bodies: &BlobStore) -> Result<Unsynced> {
        let _writing = lock(&self.writing);
        self.files.alive()?;
        let work = lock(&self.state).take_work();
        let handle = self.files.poison(self.files.write(&work, bodies))?;
        if let Some(handle) = &handle {
            let mut state = lock(&self.state);
            state.journal.handle = Some(handle.clone());
            state.journal.is_on_disk = true;
        }
        Ok(Unsynced { work, handle })
    }

    /// Notes that the written blocks are durable, for all of the disk was synced since.
    pub fn confirm(&self, unsynced: Unsynced) -> u64 {
        let Unsynced { work, handle } = unsynced;
        let _writing = lock(&self.writing);
        self.finish_sync(&work, handle);
        self.synced()
    }

    /// Closes the journal's file, which is opened again when it is needed: many queues shall not have
    /// as many files open.
    pub fn close_files(&self) {
        let _writing = lock(&self.writing);
        let mut state = lock(&self.state);
        let V1State { journal, older, .. } = &mut *state;
        older.iter_mut().chain([journal]).for_each(|journal| journal.handle = None);
    }

    fn finish_sync(&self, work: &JournalWrites, handle: Option<File>) {
        let mut state = lock(&self.state);
        let bytes = state.finish_sync(work, handle);
        let promised = (!work.chunks.is_empty()).then(|| state.promised());
        drop(state);
        self.unsynced_bytes.fetch_sub(bytes, Ordering::Release);
        if let Some(((table, queue), promised)) = self.options.told.as_ref().zip(promised) {
            // The failure is kept, and met by whoever goes on.
            drop(self.files.poison(table.tell(*queue, promised)));
        }
    }
}

impl Files {
    fn write(&self, work: &JournalWrites, bodies: &BlobStore) -> Result<Option<File>> {
        if work.chunks.is_empty() {
            return Ok(work.handle.clone());
        }
        bodies.sync()?;
        let tag = Tag::journal(work.number);
        let file = match &work.handle {
            None if !work.is_on_disk => self.create(tag)?,
            handle => self.opened(tag, handle.as_ref())?,
        };
        for chunk in &work.chunks {
            file.write(chunk.at, &chunk.bytes)?;
        }
        Ok(Some(file))
    }

    fn sync_file(&self, work: &JournalWrites, file: Option<&File>) -> Result<()> {
        let Some(file) = file.filter(|_| !work.chunks.is_empty()) else { return Ok(()) };
        file.sync()?;
        if !work.is_name_durable {
            self.sync_dir()?;
            self.sync_parent()?;
        }
        Ok(())
    }
}

/// How many files end at these places, where 0 is none, and the bytes of their blocks.
pub(super) fn count_files(ends: impl Iterator<Item = u64>) -> (u64, u64) {
    let there = ends.filter(|end| *end > 0);
    there.fold((0, 0), |(n, bytes), end| (n + 1, bytes + bytes_of_blocks(end)))
}

impl V1State {
    fn take_work(&mut self) -> JournalWrites {
        self.journal.close_block();
        JournalWrites {
            number: self.journal.number,
            handle: self.journal.handle.clone(),
            is_on_disk: self.journal.is_on_disk,
            is_name_durable: self.journal.is_name_durable,
            chunks: self.journal.unwritten.iter().cloned().collect(),
            upto: self.last_note,
        }
    }

    /// Notes that the blocks of `work` are durable. Returns how many bytes were not before.
    fn finish_sync(&mut self, work: &JournalWrites, handle: Option<File>) -> u64 {
        self.synced_note = self.synced_note.max(work.upto);
        let journals = self.older.iter_mut().chain([&mut self.journal]);
        let found = journals.into_iter().find(|one| one.number == work.number);
        let (Some(journal), Some(last)) = (found, work.chunks.last()) else { return 0 };
        self.counted.syncs += 1;
        let mut bytes = 0;
        while let Some(chunk) = journal.unwritten.pop_front_if(|chunk| chunk.at <= last.at) {
            bytes += chunk.bytes.len() as u64 + chunk.body_bytes;
        }
        journal.synced_end = journal.synced_end.max(last.at + last.bytes.len() as u64);
        assert!(journal.synced_end <= journal.end, "what is durable was noted");
        journal.is_on_disk = true;
        journal.is_name_durable = true;
        journal.handle = handle;
        bytes
    }

    /// The files that are there at least, durably.
    pub(super) fn promised(&self) -> Promised {
        let journals = self.older.iter().chain([&self.journal]);
        let (mut run, mut journal_bytes) = (None::<Range<u64>>, 0);
        for journal in journals.filter(|one| one.is_name_durable) {
            run = Some(run.map_or(journal.number, |run| run.start)..journal.number + 1);
            journal_bytes += bytes_of_blocks(journal.synced_end);
        }
        let next = self.journal.number;
        let ends = self.segments.values().map(|segment| segment.end);
        let (segments, segment_bytes) = count_files(ends);
        let (journals, names_bodies) = (run.unwrap_or(next..next), self.names_bodies);
        Promised { journals, segments, journal_bytes, segment_bytes, names_bodies }
    }

    /// Starts a new journal; the one that was filled is to be flushed.
    pub(super) fn rotate(&mut self) {
        if self.journal.end == FILE_HEADER_BYTES && self.journal.touched.is_empty() {
            return;
        }
        let next = JournalFile::new(self.journal.number + 1);
        self.older.push(std::mem::replace(&mut self.journal, next));
    }
}
