//! The version a queue's files have, and the log entry that says so.

use content::records;
use log::{Lsn, SegmentId, Wal};
use meta::{QueueId, QueueVersion};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// The version of a queue's files: node-local, so it is no definition. The last log entry that says it
/// stays in the log as long as the queue; version 2, which a queue has from the start, needs none.
#[derive(Debug)]
pub struct FilesVersion {
    queue: QueueId,
    version: AtomicU8,
    logged_in: Mutex<Option<SegmentId>>,
}

impl FilesVersion {
    pub(super) fn new(queue: QueueId, version: QueueVersion) -> Self {
        let version = AtomicU8::new(version.number());
        Self { queue, version, logged_in: Mutex::new(None) }
    }

    /// The version.
    #[must_use]
    pub fn get(&self) -> QueueVersion {
        QueueVersion::of_number(self.version.load(Ordering::Acquire).into()).unwrap_or_default()
    }

    /// Whether an entry of the log says it.
    pub fn is_logged(&self) -> bool {
        stdx::lock(&self.logged_in).is_some()
    }

    /// The log says it in that segment, which it was told to keep.
    pub fn note_logged(&self, segment: SegmentId) {
        *stdx::lock(&self.logged_in) = Some(segment);
    }

    /// Says in the log that this is the version from here on, durable when the log is so up to what is
    /// returned.
    pub fn log(&self, wal: &Wal, version: QueueVersion) -> Lsn {
        let mut logged_in = stdx::lock(&self.logged_in);
        let appended = records::append_version(wal, self.queue.0, version);
        self.version.store(version.number(), Ordering::Release);
        if let Some(before) = logged_in.replace(appended.at.segment) {
            wal.release(before, 1);
        }
        appended.upto
    }

    /// Says it again at the log's end if it is said in that segment.
    pub(super) fn relocate(&self, wal: &Wal, segment: SegmentId) {
        let is_there = *stdx::lock(&self.logged_in) == Some(segment);
        if is_there {
            self.log(wal, self.get());
        }
    }

    /// The queue is gone.
    pub(super) fn forget(&self, wal: &Wal) {
        if let Some(segment) = stdx::lock(&self.logged_in).take() {
            wal.release(segment, 1);
        }
    }
}
