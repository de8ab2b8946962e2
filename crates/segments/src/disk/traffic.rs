//! Bytes that files are read and written with, by kind of file: counted as the system takes or gives them,
//! which is not what the device moves. The system's own counts of a process are no help: they are of pages
//! made dirty, and a page that is written little by little counts again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of file: those below one directory of a disk's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// The kind's name in listings, in snake case.
    pub name: &'static str,
    /// The directory, without a slash.
    pub dir: &'static str,
}

/// The name of all files that are of no [`FileKind`].
const OTHER: &str = "other";

/// Bytes that the files of a kind were read and written with since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTraffic {
    /// The kind's name; `other` for files of none.
    pub kind: &'static str,
    /// Bytes read, from the system's memory or from the device.
    pub read_bytes: u64,
    /// Bytes handed to the system, synced or not.
    pub write_bytes: u64,
}

/// The counts of every kind, and of all other files.
#[derive(Debug)]
pub(super) struct TrafficCounters {
    kinds: Vec<(FileKind, Arc<Counter>)>,
    other: Arc<Counter>,
}

/// The counts of one kind, on a cache line of its own: threads that write different kinds meet nowhere.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counter {
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
}

impl Counter {
    pub(super) fn count_read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_write(&self, bytes: usize) {
        self.write_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl TrafficCounters {
    pub(super) fn new(kinds: &[FileKind]) -> Self {
        let kinds = kinds.iter().map(|kind| (*kind, Arc::default())).collect();
        Self { kinds, other: Arc::default() }
    }

    /// The counts of a file's kind.
    pub(super) fn of(&self, file: &str) -> Arc<Counter> {
        let dir = file.split_once('/').map(|(dir, _)| dir);
        let found = self.kinds.iter().find(|(kind, _)| dir == Some(kind.dir));
        Arc::clone(found.map_or(&self.other, |(_, counter)| counter))
    }

    /// The counts by now, other files last.
    pub(super) fn read(&self) -> Vec<FileTraffic> {
        let kinds = self.kinds.iter().map(|(kind, counter)| (kind.name, counter));
        let of = |(kind, counter): (&'static str, &Arc<Counter>)| FileTraffic {
            kind,
            read_bytes: counter.read_bytes.load(Ordering::Relaxed),
            write_bytes: counter.write_bytes.load(Ordering::Relaxed),
        };
        kinds.chain([(OTHER, &self.other)]).map(of).collect()
    }
}
