//! Making a log durable, while it may be written on.

use std::sync::Arc;

use segments::{CachedFile, Disk, File, sync_dir};

use crate::LogEnd;
use crate::error::Result;
use crate::files::StreamFiles;
use crate::index::{Index, SyncedMark};
use crate::removal::remove_files;
use crate::shared::SharedLog;
use crate::table::StreamNote;

/// A segment that was written to since its last sync.
#[derive(Clone, Debug)]
pub(crate) struct Unsynced {
    pub(crate) segment: u64,
    pub(crate) chunks: Arc<CachedFile>,
    pub(crate) index: Arc<CachedFile>,
    pub(crate) mark: SyncedMark,
    /// Whether the index is synced too, and the mark written.
    pub(crate) with_index: bool,
}

/// A sync that is to be done: made by [`ChunkLog::begin_sync`](crate::ChunkLog::begin_sync), done by
/// [`run`](Self::run) without the log, and told to [`ChunkLog::finish_sync`](crate::ChunkLog::finish_sync).
#[derive(Debug)]
pub struct SyncJob {
    pub(crate) segments: Vec<Unsynced>,
    pub(crate) files: Vec<File>,
    dir: Box<str>,
    /// The directory and the one it is in, if there are new files.
    pub(crate) dirs: Vec<String>,
    pub(crate) end: LogEnd,
    pub(crate) generation: u64,
    /// Changes of the directory up to its begin.
    n_dir_changes: u64,
    note: Option<Noting>,
}

/// A note to be made in the table of streams, and the segments that may go once it is durable.
#[derive(Debug)]
pub(crate) struct Noting {
    pub(crate) files: Arc<StreamFiles>,
    pub(crate) stream: u64,
    pub(crate) note: StreamNote,
    pub(crate) removed: Vec<u64>,
}

impl Noting {
    /// Notes durably that segments are gone, and removes their files.
    fn remove(&self, dir: &str) -> Result<()> {
        let Some(table) = self.files.table().filter(|_| !self.removed.is_empty()) else {
            return Ok(());
        };
        table.tell(self.stream, self.note)?;
        table.sync()?;
        self.removed.iter().try_for_each(|segment| remove_files(&self.files, dir, *segment))
    }
}

impl SyncJob {
    /// Makes the log durable up to [`Self::end`].
    ///
    /// # Errors
    /// The disk's. Then nothing more is known to be durable, and the log is told as well.
    pub fn run(&self, disk: &dyn Disk) -> Result<()> {
        for dir in &self.dirs {
            sync_dir(disk, dir)?;
        }
        self.files.iter().try_for_each(File::sync)?;
        self.note.as_ref().map_or(Ok(()), |note| note.remove(&self.dir))
    }

    /// The place up to which the log is durable afterwards.
    pub const fn end(&self) -> LogEnd {
        self.end
    }
}

/// Everything that is not durable yet besides the tail.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Segments that were left.
    pub(crate) left: Vec<Unsynced>,
    /// How often files were made or removed.
    n_dir_changes: u64,
    /// How many of these times are durable: those before the begin of a sync that is done.
    n_dir_synced: u64,
    /// Segments that are no part of the log any more, and whose files go with the next sync.
    removed: Vec<u64>,
    /// The number of cuts: a sync that began before the last of them says nothing any more.
    generation: u64,
}

impl Pending {
    pub(crate) fn new(left: Vec<Unsynced>, is_dir_changed: bool) -> Self {
        Self {
            left,
            n_dir_changes: u64::from(is_dir_changed),
            n_dir_synced: 0,
            removed: Vec::new(),
            generation: 0,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.left.is_empty() && self.removed.is_empty() && self.n_dir_changes == self.n_dir_synced
    }

    /// Has files of segments removed once that is noted.
    pub(crate) fn remove(&mut self, segments: Vec<u64>) {
        self.removed.extend(segments);
    }

    /// Notes that files were made or removed.
    pub(crate) const fn note_dir_change(&mut self) {
        self.n_dir_changes += 1;
    }

    /// Notes that chunks were cut off, or that all of them have gone.
    pub(crate) fn forget(&mut self, left: Vec<Unsynced>) {
        self.left = left;
        self.generation += 1;
        self.note_dir_change();
    }

    /// The sync up to `end`, with the tail.
    pub(crate) fn begin(
        &self,
        dir: &str,
        tail: Unsynced,
        end: LogEnd,
        note: Option<Noting>,
    ) -> Result<SyncJob> {
        let mut segments = self.left.clone();
        segments.push(tail);
        let files = segments.iter().flat_map(|it| {
            let index = it.with_index.then_some(&it.index);
            [Some(&it.chunks), index].into_iter().flatten()
        });
        let files = files.map(CachedFile::file).collect::<segments::Result<Vec<_>>>()?;
        let dirs = if self.n_dir_changes > self.n_dir_synced {
            vec![dir.to_owned(), crate::STREAMS_DIR.to_owned(), String::new()]
        } else {
            Vec::new()
        };
        let Self { generation, n_dir_changes, .. } = *self;
        let note = note.map(|note| Noting { removed: self.removed.clone(), ..note });
        let dir = dir.into();
        Ok(SyncJob { segments, files, dir, dirs, end, generation, n_dir_changes, note })
    }

    /// Writes the marks of a job that was done; that of the segment `tail`, if it has one.
    pub(crate) fn finish(
        &mut self,
        shared: &SharedLog,
        job: &SyncJob,
        tail: u64,
    ) -> Result<Option<SyncedMark>> {
        let mut of_tail = None;
        let was_removed = |segment: &u64| job.note.iter().any(|it| it.removed.contains(segment));
        self.removed.retain(|segment| !was_removed(segment));
        if job.generation != self.generation {
            return Ok(of_tail);
        }
        if let Some(note) = &job.note
            && let Some(table) = note.files.table()
        {
            table.tell(note.stream, note.note)?;
        }
        self.n_dir_synced = self.n_dir_synced.max(job.n_dir_changes);
        assert!(self.n_dir_synced <= self.n_dir_changes, "a change is synced once it is made");
        for Unsynced { segment, index, mark, with_index, .. } in &job.segments {
            self.left.retain(|left| left.segment != *segment || left.mark != *mark);
            let is_there = shared.state().segment(*segment).is_some();
            if *with_index && is_there {
                Index::open(index, Some(0))?.set_mark(*mark)?;
                of_tail = of_tail.or_else(|| (*segment == tail).then_some(*mark));
            }
        }
        Ok(of_tail)
    }
}
