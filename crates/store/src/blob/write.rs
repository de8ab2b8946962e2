//! Writing what is buffered, and making it durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use segments::{CachedFile, File, Stamp, sync_dir};
use stdx::lock;

use super::dir::Dir;
use super::file::{BlobFile, Stage, UnwrittenChunk};
use super::format::{self, RECORD_HEADER_BYTES, Stamps};
use super::state::BlobState;
use super::{BlobStore, open};
use crate::error::Result;

/// The unsynced bytes that a blob of `bytes` adds.
pub(super) fn unsynced_cost(bytes: u32) -> u64 {
    u64::from(RECORD_HEADER_BYTES) + u64::from(bytes)
}

/// The writes one file needs.
struct FileWrites {
    number: u32,
    /// The file; none if it is to be created.
    cached: Option<Arc<CachedFile>>,
    begun: Stamp,
    chunks: Vec<Arc<UnwrittenChunk>>,
    /// The table of a file that takes no more blobs.
    seal: Option<Seal>,
}

/// The table of a complete file, and where it goes.
pub(super) struct Seal {
    pub(super) table_at: u32,
    pub(super) table: Vec<u8>,
}

impl Seal {
    /// Writes the table and the header that names it; returns the length of the file.
    pub(super) fn write(&self, file: &File, number: u32, stamps: Stamps) -> Result<u64> {
        let Self { table_at, table } = self;
        file.write(u64::from(*table_at), table)?;
        file.write(0, &format::sealed_header(number, stamps, *table_at, table))?;
        Ok(u64::from(*table_at) + table.len() as u64)
    }
}

impl FileWrites {
    fn chunk_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum()
    }
}

/// The outcome of one file's writes.
struct Done {
    number: u32,
    cached: Arc<CachedFile>,
    begun: Stamp,
    n_chunks: usize,
    disk_bytes: u64,
    is_sealed: bool,
}

impl BlobStore {
    /// Makes everything appended before the call durable; no more than writes it if the store is
    /// volatile. A failure is for good: every later call fails too, since what a failed sync left
    /// on the medium is not known.
    pub fn sync(&self) -> Result<()> {
        self.dir.alive()?;
        if !self.is_dirty() {
            return Ok(());
        }
        let mut has_dir = lock(&self.has_dir);
        self.dir.alive()?;
        let works = lock(&self.state).take_work();
        let bytes: u64 = works.iter().map(FileWrites::chunk_bytes).sum();
        let done = self.dir.poison(self.dir.write_all(&mut has_dir, works))?;
        let mut state = lock(&self.state);
        if state.finish(done, self.dir.is_durable()) {
            self.has_garbage.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.unsynced_bytes.fetch_sub(bytes, Ordering::Release);
        Ok(())
    }
}

impl Dir {
    fn write_all(&self, has_dir: &mut bool, works: Vec<FileWrites>) -> Result<Vec<Done>> {
        let new = works.iter().filter(|work| work.cached.is_none()).map(|work| work.number);
        let new: Vec<u32> = new.collect();
        let has_new = !new.is_empty();
        if has_new && !*has_dir {
            open::make_dir(self.disk(), &self.options.dir)?;
            *has_dir = true;
        }
        let done = works.into_iter().map(|work| self.write_one(work)).collect::<Result<_>>()?;
        if has_new && self.is_durable() {
            let dir = &self.options.dir;
            sync_dir(self.disk(), dir)?;
            if let Some(told) = &self.options.told {
                told.tell(dir, new.into_iter())?;
            }
        }
        Ok(done)
    }

    fn write_one(&self, work: FileWrites) -> Result<Done> {
        let FileWrites { number, cached, mut begun, chunks, seal } = work;
        let cached = match cached {
            Some(cached) => cached,
            None => {
                let file = File::create(self.disk(), &self.file_name(number))?;
                begun = self.options.stamper.stamp();
                file.write(0, &format::file_header(number, begun))?;
                self.cache.admit(file)
            }
        };
        let handle = cached.file()?;
        let mut disk_bytes = 0;
        for chunk in &chunks {
            handle.write(u64::from(chunk.at), &chunk.bytes)?;
            disk_bytes = u64::from(chunk.at) + chunk.bytes.len() as u64;
        }
        if let Some(seal) = &seal {
            let stamps = Stamps { begun, upto: self.options.stamper.stamp().synced };
            disk_bytes = seal.write(&handle, number, stamps)?;
        }
        if self.is_durable() {
            handle.sync()?;
        }
        let is_sealed = seal.is_some();
        Ok(Done { number, cached, begun, n_chunks: chunks.len(), disk_bytes, is_sealed })
    }
}

impl BlobFile {
    fn seal(&self) -> Seal {
        Seal { table_at: self.end, table: format::table(self.slots.iter()) }
    }
}

impl BlobState {
    fn take_work(&mut self) -> Vec<FileWrites> {
        let open = self.files.range_mut(self.first_open..).map(|(_, file)| file);
        let works = open.filter(|file| file.stage != Stage::Closed).map(|file| FileWrites {
            number: file.number,
            cached: file.cached.clone(),
            begun: file.begun,
            chunks: file.unwritten.all(),
            seal: (file.stage == Stage::Full).then(|| file.seal()),
        });
        works.filter(|work| !work.chunks.is_empty() || work.seal.is_some()).collect()
    }

    /// True if files were closed or created: one may be garbage that could not go before.
    fn finish(&mut self, done: Vec<Done>, is_synced: bool) -> bool {
        let highest_before = self.highest_on_disk;
        let mut has_closed = false;
        for Done { number, cached, begun, n_chunks, disk_bytes, is_sealed } in done {
            self.counted.syncs += u64::from(is_synced);
            self.highest_on_disk = self.highest_on_disk.max(Some(number));
            let Some(file) = self.files.get_mut(&number) else { continue };
            assert_ne!(file.stage, Stage::Closed, "a closed file is written");
            file.unwritten.forget(n_chunks);
            file.disk_bytes = disk_bytes.max(file.disk_bytes);
            file.cached = Some(cached);
            file.begun = begun;
            if is_sealed {
                file.stage = Stage::Closed;
                file.slots.shrink();
                self.first_open = self.first_open.max(number + 1);
                has_closed = true;
            }
        }
        has_closed || self.highest_on_disk != highest_before
    }
}
