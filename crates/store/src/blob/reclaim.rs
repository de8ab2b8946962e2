//! Giving space back: files without a live blob are removed, sparse ones are written anew with
//! their live blobs, under the same name and with the same indexes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use segments::{CachedFile, File, remove_if_there, sync_dir};
use stdx::lock;

use super::BlobStore;
use super::dir::{Dir, draft_name};
use super::file::BlobFile;
use super::format::{self, FILE_HEADER_BYTES, RECORD_HEADER_BYTES, Stamps};
use super::slots::{BlobSlot, Slots};
use super::state::BlobState;
use super::write::Seal;
use crate::error::{Result, StoreError};

/// Bytes copied with one read and write, at most about.
const COPY_BYTES_MAX: u32 = 256 << 10;

/// The outcome of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes of live blobs copied.
    pub moved_bytes: u64,
    /// Bytes given back to the file system.
    pub freed_bytes: u64,
    /// Whether the plan is not done yet.
    pub has_more: bool,
}

/// The files to be reclaimed. Their blobs without a reference left the state when it was planned.
#[derive(Debug)]
pub(super) struct ReclaimJob {
    /// Files without a live blob.
    dead: Vec<u32>,
    /// A sparse file.
    rewrite: Option<Rewrite>,
}

#[derive(Debug)]
struct Rewrite {
    number: u32,
    /// The file's live blobs where they lie now; the first `n_copied` of them are copied.
    live: Vec<BlobSlot>,
    n_copied: usize,
    cached: Arc<CachedFile>,
    /// The file, which stays open until another has its name.
    old: Option<File>,
    draft: Option<File>,
    /// The copied blobs where they will lie.
    slots: Slots,
    end: u32,
    /// Whether the draft has taken the file's place.
    is_done: bool,
}

impl BlobStore {
    /// Looks for files to remove and one to rewrite; false if there is nothing to reclaim. Their blobs
    /// without a reference are gone from *this* moment on: [`Self::retain`] refuses them, and
    /// [`Self::reclaim_step`] drops them. So between the two the caller makes durable whatever gave those
    /// references back: otherwise a crash may bring a name of a blob back that is gone. A file is rewritten
    /// only if `may_copy` its live bytes.
    pub fn plan_reclaiming(&self, may_copy: impl FnOnce(u64) -> bool) -> bool {
        let mut job = lock(&self.job);
        if job.is_some() {
            return true;
        }
        if !self.has_garbage.swap(false, Ordering::Relaxed) {
            return false;
        }
        // Asked without the lock: the answer may need the disk.
        let sparsest = lock(&self.state).sparsest().map(|file| (file.number, file.live_bytes));
        let rewritten = sparsest.filter(|(_, bytes)| may_copy(*bytes)).map(|(number, _)| number);
        *job = lock(&self.state).plan(rewritten);
        if sparsest.is_some() {
            // The sparse file is left, or others are.
            self.has_garbage.store(true, Ordering::Relaxed);
        }
        job.is_some()
    }

    /// Does a part of what was planned: copies about `bytes_max` at most, or removes files. A crash
    /// leaves a file as it was or rewritten. A disk without space for the copy is an error that
    /// changes nothing; a failed sync is for good, as with [`Self::sync`].
    pub fn reclaim_step(&self, bytes_max: u64) -> Result<Reclaimed> {
        self.dir.alive()?;
        let mut planned = lock(&self.job);
        let Some(mut job) = planned.take() else { return Ok(Reclaimed::default()) };
        let outcome = match &mut job {
            ReclaimJob { dead, .. } if !dead.is_empty() => self.remove_dead(&std::mem::take(dead)),
            ReclaimJob { rewrite: Some(rewrite), .. } => self.step_rewrite(rewrite, bytes_max),
            ReclaimJob { rewrite: None, .. } => Ok(Reclaimed::default()),
        };
        let Ok(mut reclaimed) = outcome else {
            // The rest of the failed job is left to the next plan.
            self.has_garbage.store(true, Ordering::Relaxed);
            return outcome;
        };
        job.rewrite.take_if(|rewrite| rewrite.is_done);
        if job.rewrite.is_some() {
            reclaimed.has_more = true;
            *planned = Some(job);
        }
        let mut state = lock(&self.state);
        state.counted.moved_bytes += reclaimed.moved_bytes;
        state.counted.reclaimed_bytes += reclaimed.freed_bytes;
        Ok(reclaimed)
    }

    fn remove_dead(&self, dead: &[u32]) -> Result<Reclaimed> {
        let mut freed_bytes = 0;
        if let Some(told) = &self.dir.options.told {
            told.forget(&self.dir.options.dir, |number| dead.contains(&number))?;
        }
        for number in dead {
            // The file leaves the state first: nobody finds it any more when it goes.
            let file = lock(&self.state).files.remove(number);
            assert!(file.as_ref().is_none_or(|file| file.n_live == 0), "no blob of it is retained");
            let name = self.dir.file_name(*number);
            remove_if_there(self.dir.disk(), &name)?;
            freed_bytes += file.map_or(0, |file| file.disk_bytes);
        }
        Ok(Reclaimed { freed_bytes, ..Reclaimed::default() })
    }

    fn step_rewrite(&self, rewrite: &mut Rewrite, bytes_max: u64) -> Result<Reclaimed> {
        let name = self.dir.file_name(rewrite.number);
        let draft_name = draft_name(&self.dir.options.dir, rewrite.number);
        let moved_bytes = match self.dir.copy(rewrite, bytes_max, &draft_name) {
            Ok(moved_bytes) => moved_bytes,
            Err(error) => {
                // The draft is useless, and the next start removes it if this cannot.
                rewrite.draft = None;
                self.dir.disk().remove(&draft_name).ok();
                return Err(error);
            }
        };
        // In step with the copying: one large sync at the end would hold up everybody else's.
        if let Some(draft) = rewrite.draft.as_ref().filter(|_| self.dir.is_durable()) {
            self.dir.poison(draft.sync().map_err(StoreError::from))?;
        }
        let mut reclaimed = Reclaimed { moved_bytes, ..Reclaimed::default() };
        if rewrite.n_copied == rewrite.live.len() {
            reclaimed.freed_bytes = self.replace(rewrite, &name, &draft_name)?;
            rewrite.is_done = true;
        }
        Ok(reclaimed)
    }

    /// Seals the draft and gives it the file's name. From the sync on a failure is for good.
    fn replace(&self, rewrite: &mut Rewrite, name: &str, draft_name: &str) -> Result<u64> {
        let (Some(draft), Some(old)) = (rewrite.draft.take(), rewrite.old.take()) else {
            return Ok(0);
        };
        let table = format::table(rewrite.slots.iter());
        let seal = Seal { table_at: rewrite.end, table };
        let begun = self.dir.options.stamper.stamp();
        let stamps = Stamps { begun, upto: begun.synced };
        let disk_bytes = match seal.write(&draft, rewrite.number, stamps) {
            Ok(disk_bytes) => disk_bytes,
            Err(error) => {
                self.dir.disk().remove(draft_name).ok();
                return Err(error);
            }
        };
        // A reader with a place of before reads the old file, whatever the name means by then.
        if let Some(file) = lock(&self.state).files.get_mut(&rewrite.number) {
            file.cached = Some(self.dir.cache.pin(old));
        }
        let cached = self.dir.poison(self.dir.take_name(&draft, name))?;
        let mut state = lock(&self.state);
        let Some(file) = state.files.get_mut(&rewrite.number) else { return Ok(0) };
        let freed_bytes = file.disk_bytes.saturating_sub(disk_bytes);
        file.rewritten(&rewrite.slots, rewrite.end, disk_bytes, cached);
        Ok(freed_bytes)
    }
}

impl Dir {
    /// Copies live records as they are, up to the limit: one that is damaged stays so.
    fn copy(&self, rewrite: &mut Rewrite, bytes_max: u64, draft_name: &str) -> Result<u64> {
        let old = match &rewrite.old {
            Some(old) => old.clone(),
            None => rewrite.cached.file()?,
        };
        let draft = match &rewrite.draft {
            Some(draft) => draft.clone(),
            None => File::create_anew(self.disk(), draft_name)?,
        };
        let mut moved_bytes = 0;
        let mut bytes = Vec::new();
        while rewrite.n_copied < rewrite.live.len() && moved_bytes < bytes_max {
            let run = rewrite.next_run();
            let run_bytes = run.bytes as usize;
            old.read_into(u64::from(run.offset), run_bytes, &mut bytes)?;
            // Bytes that the file no longer has become zeros: their blobs are damaged as by a flipped bit.
            bytes.resize(run_bytes, 0);
            draft.write(u64::from(rewrite.end), &bytes)?;
            rewrite.copied(&run);
            moved_bytes += run_bytes as u64;
        }
        rewrite.old = Some(old);
        rewrite.draft = Some(draft);
        Ok(moved_bytes)
    }

    fn take_name(&self, draft: &File, name: &str) -> Result<Arc<CachedFile>> {
        if self.is_durable() {
            draft.sync()?;
        }
        let renamed = draft.rename(self.disk(), name)?;
        if self.is_durable() {
            sync_dir(self.disk(), &self.options.dir)?;
        }
        Ok(self.cache.admit(renamed))
    }
}

/// Records that lie side by side.
struct CopyRun {
    n: usize,
    offset: u32,
    bytes: u32,
}

impl Rewrite {
    fn next_run(&self) -> CopyRun {
        let left = self.live.iter().skip(self.n_copied);
        let mut run = CopyRun { n: 0, offset: 0, bytes: 0 };
        for slot in left {
            if run.n == 0 {
                run.offset = slot.offset;
            } else if slot.offset != run.offset + run.bytes || run.bytes >= COPY_BYTES_MAX {
                break;
            }
            run.bytes += RECORD_HEADER_BYTES + slot.bytes;
            run.n += 1;
        }
        run
    }

    fn copied(&mut self, run: &CopyRun) {
        for slot in self.live.iter().skip(self.n_copied).take(run.n) {
            self.slots.push(BlobSlot { offset: self.end, refs: 0, ..*slot });
            self.end += RECORD_HEADER_BYTES + slot.bytes;
        }
        self.n_copied += run.n;
        assert!(self.n_copied <= self.live.len(), "each blob is copied once");
    }
}

impl BlobState {
    /// The sparse file that gives most back for what is copied.
    fn sparsest(&self) -> Option<&BlobFile> {
        let sparse = self.files.values().filter(|file| !self.is_dead(file) && file.is_sparse());
        let sparse = sparse.filter(|_| self.is_reclaiming);
        sparse.min_by_key(|file| file.live_bytes * 1000 / file.disk_bytes.max(1))
    }

    /// Plans the removal of all files without a live blob, and the rewriting of a sparse one.
    fn plan(&mut self, rewritten: Option<u32>) -> Option<ReclaimJob> {
        if !self.is_reclaiming {
            return None;
        }
        let dead = self.files.values().filter(|file| self.is_dead(file));
        let dead: Vec<u32> = dead.map(|file| file.number).collect();
        for number in &dead {
            self.files.get_mut(number)?.slots.forget_garbage();
        }
        let rewritten = rewritten.filter(|number| !dead.contains(number));
        let rewrite = rewritten.and_then(|number| self.files.get_mut(&number)).and_then(|file| {
            let cached = file.cached.clone()?;
            file.slots.forget_garbage();
            Some(Rewrite {
                number: file.number,
                live: file.slots.iter().copied().collect(),
                n_copied: 0,
                cached,
                old: None,
                draft: None,
                slots: Slots::default(),
                end: FILE_HEADER_BYTES,
                is_done: false,
            })
        });
        (!dead.is_empty() || rewrite.is_some()).then_some(ReclaimJob { dead, rewrite })
    }
}
