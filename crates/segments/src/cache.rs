//! A limited number of open files: the least recently used is closed for another.
//!
//! A [`CachedFile`] stands for one file, open or not; its writer and all readers share it, so a file is open
//! once. A file that somebody is just using stays open beyond the limit until that is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use stdx::lock;

use crate::disk::Disk;
use crate::error::Result;
use crate::file::File;

/// The open files of one kind on a disk.
#[derive(Debug)]
pub struct FileCache {
    disk: Arc<dyn Disk>,
    open_files_max: usize,
    opened: Mutex<Opened>,
}

/// The files that are open, in the order of a clock's hand. A file that is gone leaves when the hand meets
/// it.
#[derive(Debug, Default)]
struct Opened {
    files: Vec<Weak<CachedFile>>,
    hand: usize,
}

/// A file that is open or not.
#[derive(Debug)]
pub struct CachedFile {
    cache: Arc<FileCache>,
    name: Box<str>,
    handle: Mutex<Option<File>>,
    is_used: AtomicBool,
}

impl FileCache {
    /// Files of `disk`, at most so many of them open (one at least).
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, open_files_max: usize) -> Arc<Self> {
        let open_files_max = open_files_max.max(1);
        Arc::new(Self { disk, open_files_max, opened: Mutex::default() })
    }

    /// The disk.
    pub fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// How many files are open, besides those in use that had to make room.
    pub fn n_open(&self) -> usize {
        let opened = lock(&self.opened);
        let is_open = |file: &&Weak<CachedFile>| file.upgrade().is_some_and(|file| file.is_open());
        opened.files.iter().filter(is_open).count()
    }

    /// Closes the files in a directory that is removed, whoever stands for them still: their space is given
    /// back.
    pub fn close_in(&self, dir: &str) {
        let is_in =
            |file: &Arc<CachedFile>| file.name.rsplit_once('/').is_some_and(|it| it.0 == dir);
        let files: Vec<_> = {
            let opened = lock(&self.opened);
            opened.files.iter().filter_map(Weak::upgrade).filter(is_in).collect()
        };
        for file in files {
            drop(file.handle().take());
        }
    }

    /// A file that is there, not open yet.
    #[must_use]
    pub fn closed(self: &Arc<Self>, name: &str) -> Arc<CachedFile> {
        self.cached(name.into(), None)
    }

    /// A file that was opened or created.
    #[must_use]
    pub fn admit(self: &Arc<Self>, file: File) -> Arc<CachedFile> {
        let cached = self.pin(file);
        self.make_room(&cached);
        cached
    }

    /// A file that stays open, beyond the limit: its name is about to become another's.
    #[must_use]
    pub fn pin(self: &Arc<Self>, file: File) -> Arc<CachedFile> {
        self.cached(file.name().into(), Some(file))
    }

    fn cached(self: &Arc<Self>, name: Box<str>, handle: Option<File>) -> Arc<CachedFile> {
        Arc::new(CachedFile {
            cache: Arc::clone(self),
            name,
            handle: Mutex::new(handle),
            is_used: AtomicBool::new(true),
        })
    }

    /// Takes a file that has just been opened, and closes what is too many.
    fn make_room(&self, file: &Arc<CachedFile>) {
        let mut closed = Vec::new();
        let mut opened = lock(&self.opened);
        let mut steps_left = 2 * opened.files.len();
        while opened.files.len() >= self.open_files_max && steps_left > 0 {
            closed.extend(opened.turn());
            steps_left -= 1;
        }
        opened.files.push(Arc::downgrade(file));
    }
}

impl Opened {
    /// Moves the hand to the next file: one that was used since its last turn stays. Returns the handle to be
    /// closed.
    fn turn(&mut self) -> Option<File> {
        if self.hand >= self.files.len() {
            self.hand = 0;
        }
        let file = self.files.get(self.hand).and_then(Weak::upgrade);
        let handle = match file.map(|file| file.try_close()) {
            Some(Eviction::InUse) => {
                self.hand += 1;
                return None;
            }
            Some(Eviction::Closed(handle)) => handle,
            None => None,
        };
        if self.hand < self.files.len() {
            self.files.swap_remove(self.hand);
        }
        handle
    }
}

enum Eviction {
    Closed(Option<File>),
    InUse,
}

impl CachedFile {
    /// The file, opened if it is not.
    ///
    /// # Errors
    /// The disk's.
    pub fn file(self: &Arc<Self>) -> Result<File> {
        let mut handle = self.handle();
        if let Some(file) = handle.as_ref() {
            self.is_used.store(true, Ordering::Relaxed);
            return Ok(file.clone());
        }
        let file = File::open(self.cache.disk(), &self.name)?;
        *handle = Some(file.clone());
        drop(handle);
        self.cache.make_room(self);
        Ok(file)
    }

    /// The file, if it is open and nobody is just opening it.
    pub fn file_at_hand(&self) -> Option<File> {
        let file = self.handle.try_lock().ok()?.clone();
        self.is_used.store(true, Ordering::Relaxed);
        file
    }

    /// The file's name, relative to the disk's root.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn is_open(&self) -> bool {
        self.handle().is_some()
    }

    fn try_close(&self) -> Eviction {
        if self.is_used.swap(false, Ordering::Relaxed) {
            return Eviction::InUse;
        }
        match self.handle.try_lock() {
            Ok(mut handle) => Eviction::Closed(handle.take()),
            Err(TryLockError::Poisoned(handle)) => Eviction::Closed(handle.into_inner().take()),
            Err(TryLockError::WouldBlock) => Eviction::InUse,
        }
    }

    fn handle(&self) -> MutexGuard<'_, Option<File>> {
        lock(&self.handle)
    }
}
