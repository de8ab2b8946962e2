//! The seam to the file system: everything this crate does to a disk goes through [`Disk`], so that
//! the same log runs on a real directory and on a simulated disk that tears writes and loses power.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

mod real;
mod reserved;
mod traffic;

pub use real::RealDisk;
pub use reserved::{RESERVE_BYTES_MAX, RESERVE_FILE, ReservedDisk, Scarcity};
pub use traffic::{FileKind, FileTraffic};

/// The file that [`Disk::open`] expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file; `NotFound` otherwise.
    Existing,
    /// No file of that name; `AlreadyExists` otherwise.
    New,
}

/// The space of the file system a disk is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes this process can still write.
    pub free_bytes: u64,
    /// Bytes of all of it.
    pub total_bytes: u64,
}

/// A directory tree. Names are relative to its root, with `/` between components.
pub trait Disk: Send + Sync + Debug {
    /// Creates a directory and its parents; fine if it exists.
    fn create_dir(&self, dir: &str) -> io::Result<()>;
    /// Names (not paths) of what lies directly in `dir`, sorted. `""` is the root.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Renames within the tree, replacing the target.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Removes a directory with nothing in it; fine if there is none, or something is in it.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Makes everything written and every change of a name in the tree durable: when that is a lot,
    /// it costs far less than syncing each.
    fn sync_all(&self) -> io::Result<()>;
    /// Takes an exclusive lock on a file (created if missing); `WouldBlock` if another holds it.
    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>>;
    /// The root, for error messages.
    fn root(&self) -> String;
    /// How much space there is.
    fn space(&self) -> io::Result<Space>;
    /// Makes a file that takes so many bytes of the space, whatever is in it. After an error there may be a
    /// part of it.
    fn set_aside(&self, name: &str, bytes: u64) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads up to `into.len()` bytes at `at`; fewer only at the end of the file.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Reads as [`read_at`](Self::read_at) does, without waiting for the device: what is there of it, or
    /// `WouldBlock` if that is nothing. Where the system cannot tell, it waits.
    fn read_at_no_wait(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.read_at(at, into)
    }
    /// Writes all of `bytes` at `at`, growing the file as needed.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file off behind its first `bytes`, or fills it up to there with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Makes what was written durable, and the length as far as reading it back needs it.
    fn sync_data(&self) -> io::Result<()>;
    /// Has the system keep no copy in memory of bytes that were read, where it can be told.
    fn forget(&self, _at: u64, _bytes: u64) {}
    /// The descriptor, for what the system moves from file to socket by itself; none if there is no such
    /// file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// An exclusive lock: dropping it unlocks.
pub trait DiskLock: Send + Sync + Debug {}
