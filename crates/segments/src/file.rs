//! Open files with their names, so that every failure says which file it is about.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{FileError, IoContext as _, Result};

/// An open file and its name, relative to the disk's root. Clones are handles of the same file.
#[derive(Clone, Debug)]
pub struct File {
    name: Arc<str>,
    handle: Arc<dyn DiskFile>,
}

impl File {
    fn of(name: &str, handle: Box<dyn DiskFile>) -> Self {
        Self { name: name.into(), handle: handle.into() }
    }

    /// Opens a file that is there.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: &dyn Disk, name: &str) -> Result<Self> {
        Ok(Self::of(name, disk.open(name, OpenMode::Existing).context("open", name)?))
    }

    /// Opens a file, or returns none if it is not there.
    ///
    /// # Errors
    /// The disk's.
    pub fn open_if_there(disk: &dyn Disk, name: &str) -> Result<Option<Self>> {
        unless_missing(Self::open(disk, name))
    }

    /// Creates a file; its name is durable once its directory is synced.
    ///
    /// # Errors
    /// The disk's, also if there is a file of that name.
    pub fn create(disk: &dyn Disk, name: &str) -> Result<Self> {
        Ok(Self::of(name, disk.open(name, OpenMode::New).context("create", name)?))
    }

    /// Creates a file in the place of one that an attempt which failed has left.
    ///
    /// # Errors
    /// The disk's.
    pub fn create_anew(disk: &dyn Disk, name: &str) -> Result<Self> {
        match disk.open(name, OpenMode::New) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                disk.remove(name).context("remove", name)?;
                Self::create(disk, name)
            }
            created => Ok(Self::of(name, created.context("create", name)?)),
        }
    }

    /// Renames the file, over another if there is one; returns it under its new name, which is durable once
    /// its directory is synced.
    ///
    /// # Errors
    /// The disk's.
    pub fn rename(&self, disk: &dyn Disk, to: &str) -> Result<Self> {
        disk.rename(&self.name, to).context("rename", &self.name)?;
        Ok(Self { name: to.into(), handle: Arc::clone(&self.handle) })
    }

    /// The file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The handle, for operations that are not among those here.
    #[must_use]
    pub const fn handle(&self) -> &Arc<dyn DiskFile> {
        &self.handle
    }

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn size(&self) -> Result<u64> {
        self.handle.len().context("size", &self.name)
    }

    /// Reads up to `n` bytes at `at`; fewer only at the file's end.
    ///
    /// # Errors
    /// The disk's.
    pub fn read(&self, at: u64, n: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(at, n, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads as [`Self::read`] does, in the place of what is in `into`.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_into(&self, at: u64, n: usize, into: &mut Vec<u8>) -> Result<()> {
        into.resize(n, 0);
        let n = self.handle.read_at(at, into).context("read", &self.name)?;
        into.truncate(n);
        Ok(())
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let length = usize::try_from(self.size()?).map_err(std::io::Error::other);
        self.read(0, length.context("size", &self.name)?)
    }

    /// Writes bytes at `at`, without a sync.
    ///
    /// # Errors
    /// The disk's.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.handle.write_at(at, bytes).context("write", &self.name)
    }

    /// Cuts the file off behind its first `bytes`.
    ///
    /// # Errors
    /// The disk's.
    pub fn cut(&self, bytes: u64) -> Result<()> {
        self.handle.set_len(bytes).context("cut", &self.name)
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> Result<()> {
        self.handle.sync_data().context("sync", &self.name)
    }

    /// The error of bytes at `offset` that are not what was written there.
    #[must_use]
    pub fn corrupt(&self, offset: u64, what: &'static str) -> FileError {
        FileError::Corrupt { file: self.name().to_owned(), offset, what }
    }
}

/// The outcome of an operation on something that may be missing.
fn unless_missing<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(error) if error.is_not_found() => Ok(None),
        done => done.map(Some),
    }
}

/// Removes a file; its name is gone durably once its directory is synced.
///
/// # Errors
/// The disk's.
pub fn remove(disk: &dyn Disk, name: &str) -> Result<()> {
    disk.remove(name).context("remove", name)
}

/// Removes a file; false if there was none.
///
/// # Errors
/// The disk's.
pub fn remove_if_there(disk: &dyn Disk, name: &str) -> Result<bool> {
    Ok(unless_missing(remove(disk, name))?.is_some())
}

/// Renames a file, if it is there.
///
/// # Errors
/// The disk's.
pub fn rename_if_there(disk: &dyn Disk, from: &str, to: &str) -> Result<()> {
    unless_missing(disk.rename(from, to).context("rename", from)).map(drop)
}

/// Makes creations, renames and removals in a directory durable.
///
/// # Errors
/// The disk's.
pub fn sync_dir(disk: &dyn Disk, dir: &str) -> Result<()> {
    disk.sync_dir(dir).context("sync", dir)
}

/// Makes the name of a file or directory durable.
///
/// # Errors
/// The disk's.
pub fn sync_name(disk: &dyn Disk, name: &str) -> Result<()> {
    let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir);
    disk.sync_dir(dir).context("sync the directory of", name)
}

/// The names in a directory, or none if there is no such directory.
///
/// # Errors
/// The disk's.
pub fn list_if_there(disk: &dyn Disk, dir: &str) -> Result<Option<Vec<String>>> {
    unless_missing(disk.list(dir).context("list", dir))
}

/// The whole content of a file, or none if there is no such file.
///
/// # Errors
/// The disk's.
pub fn read_file(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>> {
    File::open_if_there(disk, name)?.map(|file| file.read_all()).transpose()
}
