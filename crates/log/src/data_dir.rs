//! The data directory: one node at a time, and a format version to refuse what is not ours.
//!
//! `leveret.lock` is empty and locked while a node runs. `leveret-format` is one line of text:
//! `leveret 10`. The number rises whenever an older program could not read what a newer one writes:
//!
//! | version | since then |
//! |---|---|
//! | 1 | |
//! | 2 | backlogs are paged to files, which the log names |
//! | 3 | messages have annotations, in the log, in pages and in journals |
//! | 4 | the log tells how often messages came back |
//! | 5 | files say which log they belong to, and which there must be |
//! | 6 | entries of the log have owners, and say which version a queue's files have; the log has a node |
//! | 7 | journals of queues of version 1 name bodies that lie in the body store |
//! | 8 | it is noted what streams have on disk |
//! | 9 | messages keep the body of other protocols, in a form that stands with their annotations |
//! | 10 | the node notes who it is and how often it has started |

use std::io;
use std::sync::Arc;

use segments::{Disk, DiskLock, FileError, IoContext as _, read_file, replace_file};

use crate::error::{LogError, Result};

/// The file that is locked while a node uses the directory.
pub const LOCK_FILE: &str = "leveret.lock";
/// The file that says which version of the layout the directory has.
pub const FORMAT_FILE: &str = "leveret-format";
/// The layout this program writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 10;

const FORMAT_NAME: &str = "leveret";

/// A data directory that belongs to this process until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    disk: Arc<dyn Disk>,
    /// Whether the directory is marked as one of the present format.
    is_marked: bool,
    _lock: Box<dyn DiskLock>,
}

impl DataDir {
    /// Locks the root of `disk` and checks its format; an empty directory becomes a new data
    /// directory, any other without a format file is refused.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self> {
        let file = |name: &str| format!("{}/{name}", disk.root());
        let found = disk.list("").context("list", &disk.root())?;
        // The content is looked at before the lock file is created: a foreign directory stays untouched.
        if !found.iter().any(|name| name == FORMAT_FILE)
            && !found.iter().all(|name| may_be_new(name))
        {
            let what = "the directory is not empty and is not a Leveret data directory";
            return Err(LogError::Foreign { file: disk.root(), what });
        }
        let lock = disk.lock(LOCK_FILE).map_err(|source| {
            if source.kind() == io::ErrorKind::WouldBlock {
                return LogError::Locked { file: file(LOCK_FILE) };
            }
            FileError::Io { what: "lock", file: file(LOCK_FILE), source }.into()
        })?;
        let found = read_file(disk.as_ref(), FORMAT_FILE)?;
        let found = found.map(|text| version(&text, file(FORMAT_FILE))).transpose()?;
        let is_marked = found == Some(FORMAT_VERSION);
        let mut data_dir = Self { disk, is_marked, _lock: lock };
        if found.is_none() {
            data_dir.mark()?;
            data_dir.is_marked = true;
        }
        Ok(data_dir)
    }

    /// Marks a directory of an older format as one of the present format, before anything is written
    /// to it: what is in it stays readable, and older programs refuse it from now on.
    pub fn mark(&self) -> Result<()> {
        if self.is_marked {
            return Ok(());
        }
        let text = format!("{FORMAT_NAME} {FORMAT_VERSION}\n");
        Ok(replace_file(self.disk.as_ref(), FORMAT_FILE, text.as_bytes())?)
    }

    /// The directory's disk.
    #[must_use]
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }
}

/// Whether a directory with this in it, and without a format file, may become a new data directory.
#[must_use]
pub fn may_be_new(name: &str) -> bool {
    name == LOCK_FILE || name.starts_with(FORMAT_FILE) || name == "lost+found"
}

/// The version that a format file tells, if it is one of Leveret's.
#[must_use]
pub fn version_in(format: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(format).ok()?.trim_end();
    let version = text.strip_prefix(FORMAT_NAME)?.strip_prefix(' ')?.parse().ok();
    version.filter(|version| *version > 0)
}

/// The version the format file tells, if this program reads it.
fn version(text: &[u8], file: String) -> Result<u32> {
    match version_in(text) {
        Some(found) if found > FORMAT_VERSION => {
            Err(FileError::Newer { file, found, known: FORMAT_VERSION }.into())
        }
        Some(found) => Ok(found),
        None => Err(LogError::Foreign { file, what: "the format file is not one of Leveret's" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segments::OpenMode;
    use testing::{CrashOutcome, Fault, MemoryDisk};

    fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
        disk.open(name, OpenMode::New).unwrap().write_at(0, bytes).unwrap();
    }

    #[test]
    fn an_empty_directory_becomes_ours_and_opens_again() {
        let disk = MemoryDisk::new();
        drop(DataDir::open(Arc::new(disk.clone())).unwrap());
        put(&disk, "other", b"");
        drop(DataDir::open(Arc::new(disk)).unwrap());
    }

    #[test]
    fn a_second_node_is_refused_while_the_first_runs() {
        let disk = MemoryDisk::new();
        let first = DataDir::open(Arc::new(disk.clone())).unwrap();
        let second = DataDir::open(Arc::new(disk.clone()));
        assert!(matches!(second, Err(LogError::Locked { .. })), "{second:?}");
        drop(first);
        drop(DataDir::open(Arc::new(disk)).unwrap());
    }

    #[test]
    fn foreign_and_newer_directories_are_refused() {
        let disk = MemoryDisk::new();
        put(&disk, "photo.jpg", b"x");
        let opened = DataDir::open(Arc::new(disk.clone()));
        assert!(matches!(opened, Err(LogError::Foreign { .. })), "{opened:?}");
        assert_eq!(disk.list("").unwrap(), ["photo.jpg"]);

        for (text, newer) in [("leveret 11\n", true), ("rabbit 1\n", false), ("leveret x", false)] {
            let disk = MemoryDisk::new();
            put(&disk, FORMAT_FILE, text.as_bytes());
            let opened = DataDir::open(Arc::new(disk));
            let is_newer = matches!(
                opened,
                Err(LogError::File(FileError::Newer { found: 11, known: 10, .. }))
            );
            let is_foreign = matches!(opened, Err(LogError::Foreign { .. }));
            assert_eq!((is_newer, is_foreign), (newer, !newer), "{opened:?}");
        }
    }

    #[test]
    fn an_older_directory_is_marked_as_one_of_today() {
        for older in
            [b"leveret 1\n", b"leveret 2\n", b"leveret 3\n", b"leveret 4\n", b"leveret 5\n"]
        {
            let disk = MemoryDisk::new();
            put(&disk, FORMAT_FILE, older);
            put(&disk, "kept", b"x");
            let opened = DataDir::open(Arc::new(disk.clone())).unwrap();
            assert_eq!(read_file(&disk, FORMAT_FILE).unwrap().unwrap(), older, "not touched yet");
            opened.mark().unwrap();
            drop(opened);
            let disk = disk.survive(CrashOutcome::Everything);
            assert_eq!(read_file(&disk, FORMAT_FILE).unwrap().unwrap(), b"leveret 10\n");
            assert_eq!(read_file(&disk, "kept").unwrap().unwrap(), b"x");
        }
    }

    #[test]
    fn a_crash_while_the_directory_is_made_leaves_one_that_opens() {
        for operation in 0..8 {
            for seed in 0..20 {
                let disk = MemoryDisk::new();
                disk.inject(operation, Fault::PowerLoss);
                let opened = DataDir::open(Arc::new(disk.clone()));
                drop(opened);
                let disk = disk.survive(CrashOutcome::Torn(seed));
                drop(DataDir::open(Arc::new(disk)).unwrap());
            }
        }
    }
}
