//! The files of all streams of a node: those that are open, those of removed segments, and the table that is
//! told what streams have.

use std::sync::{Arc, Mutex};

use segments::{CachedFile, Disk, File, FileCache};
use stdx::lock;

use crate::counters::{ReadCounters, ReadCounts};
use crate::table::StreamTable;

/// The files of all streams.
#[derive(Debug)]
pub struct StreamFiles {
    /// The open files: the log that writes one and all its readers share it. A file that a
    /// [`FileRange`](crate::FileRange) names stays open beyond the limit.
    pub(crate) cache: Arc<FileCache>,
    /// Files of segments that retention has removed.
    removed: Mutex<Vec<File>>,
    counters: ReadCounters,
    /// The table that is told what streams have; none where nobody asks afterwards.
    table: Option<StreamTable>,
}

/// The most files of removed segments that stay open until [`StreamFiles::close_removed`]; further ones are
/// closed by the thread that removes or reads them.
const REMOVED_OPEN_MAX: usize = 64;

impl StreamFiles {
    /// The files below `disk`, at most so many of them open (one at least).
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, open_files_max: usize) -> Arc<Self> {
        Self::with_table(disk, open_files_max, None)
    }

    /// The files below `disk`, with the table that is told what streams have.
    #[must_use]
    pub fn with_table(
        disk: Arc<dyn Disk>,
        open_files_max: usize,
        table: Option<StreamTable>,
    ) -> Arc<Self> {
        let cache = FileCache::new(disk, open_files_max);
        let (removed, counters) = Default::default();
        Arc::new(Self { cache, removed, counters, table })
    }

    /// The table that is told what streams have, if a table is used.
    pub const fn table(&self) -> Option<&StreamTable> {
        self.table.as_ref()
    }

    /// Figures of the readers of all streams since the start.
    #[must_use]
    pub fn read_counts(&self) -> ReadCounts {
        self.counters.read()
    }

    /// How many files are open, besides those in use that had to make room.
    pub fn n_open(&self) -> usize {
        self.cache.n_open()
    }

    /// Closes files of removed segments that nobody reads any more. The last handle of a
    /// large one gives its space back, which takes a while: for a thread that nobody waits for.
    pub fn close_removed(&self) {
        let mut removed = lock(&self.removed);
        let is_unread = |file: &mut File| Arc::strong_count(file.handle()) == 1;
        let unread: Vec<_> = removed.extract_if(.., is_unread).collect();
        drop(removed);
        drop(unread);
    }

    /// Whether files of removed segments are open.
    pub fn has_removed(&self) -> bool {
        !lock(&self.removed).is_empty()
    }

    /// Has [`Self::close_removed`] close the file of a segment that is about to be removed.
    pub(crate) fn keep_removed(&self, file: &Arc<CachedFile>) {
        let file = file.file();
        let mut removed = lock(&self.removed);
        if removed.len() < REMOVED_OPEN_MAX {
            removed.extend(file);
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.cache.disk()
    }

    pub(crate) const fn counters(&self) -> &ReadCounters {
        &self.counters
    }
}
