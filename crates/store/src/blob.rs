//! Blobs: runs of bytes written once, named by a [`BlobId`], counted by reference, each with a checksum.
//! Knows files and bytes. Never what a blob means, nor which log entry or page names it.
//! Start reading at [`BlobStore`]; the file format is drawn in `format.rs`.
//!
//! A blob is appended to a buffer in memory and gets its id at once; [`BlobStore::sync`] writes what
//! is buffered and makes it durable. An id names a file and a place in its order, so rewriting a
//! sparse file with its live blobs changes no id. Reference counts live in memory: after a start
//! the owner counts again what names a blob, then calls [`BlobStore::start_reclaiming`].
//!
//! Numbers of files are never used twice, since something old may still name a blob that is gone:
//! the highest file on disk stays, be it without any live blob, until there is a higher one.

mod dir;
mod file;
mod format;
mod open;
mod read;
mod reclaim;
mod slots;
mod state;
mod table;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use segments::{Disk, Stamper};
use stdx::lock;

pub use open::{remove_all, stamps};
pub use reclaim::Reclaimed;
pub use table::{BODIES_FILE, BodyFiles, ToldFiles};

use crate::error::Result;
use dir::Dir;
use reclaim::ReclaimJob;
use state::BlobState;

/// Longest blob. Fronts refuse much shorter messages; a longer one here is a broken invariant.
pub const BLOB_BYTES_MAX: usize = 1 << 30;

const _: () = assert!(BLOB_BYTES_MAX < (u32::MAX / 2) as usize);

/// The name of a blob in its store, valid while the blob is referenced, also when its file is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId {
    /// Number of the file.
    pub file: u32,
    /// Number of the blob in its file.
    pub index: u32,
}

/// The options of a store.
#[derive(Clone, Debug)]
pub struct BlobOptions {
    /// Its directory, relative to the disk's root. Nothing else may be in it.
    pub dir: String,
    /// A file that has reached this length takes no more blobs.
    pub file_bytes: u32,
    /// [`BlobStore::has_room`] is false above this much that is not durable yet.
    pub unsynced_bytes_max: u64,
    /// Files kept open, one at least.
    pub open_files_max: usize,
    /// Whether nothing survives a restart: the store is emptied at the start, written and never synced.
    pub is_volatile: bool,
    /// The stamper of the log that names the blobs.
    pub stamper: Arc<Stamper>,
    /// The table that is told which files there are.
    pub told: Option<Arc<BodyFiles>>,
}

impl BlobOptions {
    /// Files of 16 MiB in `dir`, durable; 32 MiB may wait for the disk; 128 files open.
    #[must_use]
    pub fn new(dir: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            file_bytes: 16 << 20,
            unsynced_bytes_max: 32 << 20,
            open_files_max: 128,
            is_volatile: false,
            stamper: Arc::default(),
            told: None,
        }
    }
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobStats {
    /// Files on disk.
    pub files: u64,
    /// Bytes of those files.
    pub file_bytes: u64,
    /// Blobs with a reference.
    pub live_blobs: u64,
    /// Bytes those take in sealed files, with what is stored beside each of them.
    pub live_bytes: u64,
    /// Bytes appended that are not durable (volatile: not written) yet.
    pub unsynced_bytes: u64,
    /// Bytes appended since the start.
    pub appended_bytes: u64,
    /// Bytes of live blobs copied by reclaiming since the start.
    pub moved_bytes: u64,
    /// Bytes given back to the file system since the start.
    pub reclaimed_bytes: u64,
    /// Syncs of files since the start.
    pub syncs: u64,
}

/// Files of blobs in one directory, which is made when there is something to write. Every call may come
/// from any thread; none but [`Self::sync`], the reads and [`Self::reclaim_step`] touches the disk, and no
/// lock is held while one of those reads.
#[derive(Debug)]
pub struct BlobStore {
    dir: Dir,
    state: Mutex<BlobState>,
    /// Whether the directory is durably there. Held by who writes to filling files; taken before `state`.
    has_dir: Mutex<bool>,
    /// The files being reclaimed. Taken before `state`, never together with `has_dir`.
    job: Mutex<Option<ReclaimJob>>,
    unsynced_bytes: AtomicU64,
    /// Whether a file may have become empty or sparse since the last plan.
    has_garbage: AtomicBool,
}

impl BlobStore {
    /// Opens the store in `options.dir`, or begins one. References count from zero, and nothing is
    /// reclaimed before [`Self::start_reclaiming`]. What is there when this returns is durable.
    pub fn open(disk: Arc<dyn Disk>, options: BlobOptions) -> Result<Self> {
        let store = Self::create(disk, options);
        *lock(&store.state) = store.dir.open()?;
        Ok(store)
    }

    /// A store in a directory that has no files of one: as [`Self::open`], but touches no disk.
    #[must_use]
    pub fn create(disk: Arc<dyn Disk>, options: BlobOptions) -> Self {
        Self {
            dir: Dir::new(disk, options),
            state: Mutex::new(open::nothing()),
            has_dir: Mutex::new(false),
            job: Mutex::new(None),
            unsynced_bytes: AtomicU64::new(0),
            has_garbage: AtomicBool::new(false),
        }
    }

    /// Takes the blob that `parts` make up, with one reference. No IO: it is durable after the next
    /// [`Self::sync`], readable at once. Panics above [`BLOB_BYTES_MAX`].
    #[must_use = "the id is the only way to the blob"]
    pub fn append(&self, parts: &[&[u8]]) -> BlobId {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(bytes <= BLOB_BYTES_MAX, "a blob of {bytes} bytes");
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut state = lock(&self.state);
        let id = state.append(parts, bytes, self.dir.options.file_bytes);
        self.unsynced_bytes.fetch_add(write::unsynced_cost(bytes), Ordering::Release);
        id
    }

    /// Length of a blob, if there is one of that name.
    #[must_use]
    pub fn blob_bytes(&self, id: BlobId) -> Option<u32> {
        let state = lock(&self.state);
        Some(state.files.get(&id.file)?.slots.get(id.index)?.bytes)
    }

    /// Adds `n` references. False if there is no such blob: it was never durable, or is gone, be it only
    /// by a plan of [`Self::plan_reclaiming`].
    pub fn retain(&self, id: BlobId, n: u16) -> bool {
        lock(&self.state).add_refs(id, i32::from(n))
    }

    /// Gives `n` references back; the last one gives the blob to [`Self::plan_reclaiming`]. False
    /// if there is no such blob.
    pub fn release(&self, id: BlobId, n: u16) -> bool {
        let mut state = lock(&self.state);
        let is_there = state.add_refs(id, -i32::from(n));
        if state.is_reclaiming && state.is_garbage(id.file) {
            self.has_garbage.store(true, Ordering::Relaxed);
        }
        is_there
    }

    /// Starts reclaiming once every reference has been counted: from now on a blob without one is garbage.
    pub fn start_reclaiming(&self) {
        lock(&self.state).is_reclaiming = true;
        self.has_garbage.store(true, Ordering::Relaxed);
    }

    /// Whether something waits for [`Self::sync`].
    pub fn is_dirty(&self) -> bool {
        self.unsynced_bytes() > 0
    }

    /// Bytes that wait for [`Self::sync`].
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes.load(Ordering::Acquire)
    }

    /// Whether more may be appended without having too much in memory.
    pub fn has_room(&self) -> bool {
        self.unsynced_bytes() < self.dir.options.unsynced_bytes_max
    }

    /// The directory, relative to the disk's root.
    pub fn dir(&self) -> &str {
        &self.dir.options.dir
    }

    /// The store's figures. Looks at every file.
    #[must_use]
    pub fn stats(&self) -> BlobStats {
        let mut stats = lock(&self.state).stats();
        stats.unsynced_bytes = self.unsynced_bytes();
        stats
    }

    /// The name of a file of the store in `dir`.
    #[must_use]
    pub fn name_of(dir: &str, number: u32) -> String {
        dir::file_name(dir, number)
    }
}
