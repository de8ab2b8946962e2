//! Making the journal durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use log::{DiskFile, IoContext, OpenMode};
use stdx::lock;

use super::V1Queue;
use super::block::{FILE_HEADER_BYTES, Tag, file_header};
use super::state::{Chunk, Journal, State};
use crate::blob::BlobStore;
use crate::error::Result;

/// Blocks on their way to a journal's file.
struct Work {
    number: u64,
    handle: Option<Arc<dyn DiskFile>>,
    chunks: Vec<Arc<Chunk>>,
    /// The last call whose notes are among them.
    upto: u64,
}

impl V1Queue {
    /// Makes everything noted before the call durable, after the bodies it names: `bodies` is the
    /// store those lie in. Returns the highest number that is durable. A failure is for good.
    pub fn sync(&self, bodies: &BlobStore) -> Result<u64> {
        let _writing = lock(&self.writing);
        self.write_journal(bodies, |_| ())?;
        Ok(self.synced())
    }

    /// The same for who holds `writing`; `also` runs at the moment from which on later notes are
    /// not written.
    pub(super) fn write_journal<T>(
        &self,
        bodies: &BlobStore,
        also: impl FnOnce(&mut State) -> T,
    ) -> Result<T> {
        self.alive()?;
        let mut state = lock(&self.state);
        let work = state.take_work();
        let also = also(&mut state);
        drop(state);
        let bytes = work.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum();
        let handle = self.write(&work, bodies).map_err(|error| self.poison.by(error))?;
        lock(&self.state).finish_sync(&work, handle);
        self.unsynced_bytes.fetch_sub(bytes, Ordering::Release);
        Ok(also)
    }

    fn write(&self, work: &Work, bodies: &BlobStore) -> Result<Option<Arc<dyn DiskFile>>> {
        if work.chunks.is_empty() {
            return Ok(work.handle.clone());
        }
        bodies.sync()?;
        let name = self.journal_name(work.number);
        let file = match &work.handle {
            Some(handle) => Arc::clone(handle),
            None => {
                let file = self.disk.open(&name, OpenMode::New).context("create", &name)?;
                let header = file_header(Tag::journal(work.number));
                file.write_at(0, &header).context("write", &name)?;
                Arc::from(file)
            }
        };
        for chunk in &work.chunks {
            file.write_at(chunk.at, &chunk.bytes).context("write", &name)?;
        }
        file.sync_data().context("sync", &name)?;
        if work.handle.is_none() {
            self.disk.sync_dir(&self.options.dir).context("sync", &self.options.dir)?;
        }
        Ok(Some(file))
    }
}

impl State {
    fn take_work(&mut self) -> Work {
        self.journal.close_block();
        self.dirty_since_ms = None;
        Work {
            number: self.journal.number,
            handle: self.journal.handle.clone(),
            chunks: self.journal.unwritten.iter().cloned().collect(),
            upto: self.last_note,
        }
    }

    fn finish_sync(&mut self, work: &Work, handle: Option<Arc<dyn DiskFile>>) {
        self.synced_note = self.synced_note.max(work.upto);
        self.counted.syncs += u64::from(!work.chunks.is_empty());
        let journals = self.older.iter_mut().chain([&mut self.journal]);
        let Some(journal) = journals.into_iter().find(|one| one.number == work.number) else {
            return;
        };
        journal.unwritten.drain(..work.chunks.len());
        let end = work.chunks.last().map(|chunk| chunk.at + chunk.bytes.len() as u64);
        journal.synced_end = end.unwrap_or(journal.synced_end);
        journal.is_on_disk = handle.is_some();
        journal.handle = handle;
    }

    /// Starts a new journal; the one that was filled is to be flushed.
    pub(super) fn rotate(&mut self) {
        if self.journal.end == FILE_HEADER_BYTES && self.journal.touched.is_empty() {
            return;
        }
        let next = Journal::new(self.journal.number + 1);
        self.older.push(std::mem::replace(&mut self.journal, next));
    }
}
