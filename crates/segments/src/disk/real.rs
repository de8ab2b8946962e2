//! [`Disk`] on the operating system's file system.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Advice, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Disk, DiskFile, DiskLock, OpenMode, Space};

/// The mode of created files: readable and writable for the owner, readable for the group.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// Bytes of a write where space cannot be allocated, and is taken by writing.
const FILL_BYTES: usize = 256 << 10;

/// A directory of the real file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The tree under `root`, which is created (with its parents) if it is missing.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        std::fs::create_dir_all(&root)?;
        Ok(Self { root: root.as_ref().to_path_buf() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Disk for RealDisk {
    fn create_dir(&self, dir: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.path(dir))
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        match std::fs::remove_dir(self.path(dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(dir))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let flags = match mode {
            OpenMode::Existing => OFlags::RDWR | OFlags::CLOEXEC,
            OpenMode::New => OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL,
        };
        let file = fs::open(self.path(name), flags, FILE_MODE)?;
        Ok(Box::new(RealFile(File::from(file))))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::rename(self.path(from), self.path(to))?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(fs::CWD, self.path(name), AtFlags::empty())?)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(self.path(dir), flags, Mode::empty())?;
        File::from(dir).sync_all()
    }

    fn sync_all(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(&self.root, flags, Mode::empty())?;
        Ok(fs::syncfs(root)?)
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE;
        let file = File::from(fs::open(self.path(name), flags, FILE_MODE)?);
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(RealLock(file)))
    }

    fn root(&self) -> String {
        self.root.display().to_string()
    }

    fn space(&self) -> io::Result<Space> {
        let found = fs::statvfs(&self.root)?;
        let in_bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free_bytes: in_bytes(found.f_bavail), total_bytes: in_bytes(found.f_blocks) })
    }

    fn set_aside(&self, name: &str, bytes: u64) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::TRUNC;
        let file = File::from(fs::open(self.path(name), flags, FILE_MODE)?);
        match fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(&file, bytes),
            allocated => Ok(allocated?),
        }
    }
}

/// Writes a file full.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; FILL_BYTES];
    let mut at = 0;
    while at < bytes {
        let n = usize::try_from(bytes - at).unwrap_or(FILL_BYTES).min(FILL_BYTES);
        file.write_all_at(zeroes.get(..n).unwrap_or_default(), at)?;
        at += n as u64;
    }
    file.sync_data()
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, mut at: u64, mut into: &mut [u8]) -> io::Result<usize> {
        let wanted = into.len();
        while !into.is_empty() {
            let n = match self.0.read_at(into, at) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (_, rest) = into.split_at_mut(n);
            into = rest;
            at += n as u64;
        }
        Ok(wanted - into.len())
    }

    fn read_at_no_wait(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let parts = &mut [IoSliceMut::new(into)];
        match rustix::io::preadv2(&self.0, parts, at, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.read_at(at, into),
            read => Ok(read?),
        }
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn forget(&self, at: u64, bytes: u64) {
        // The advice is a hint: its failure changes nothing.
        fs::fadvise(&self.0, at, NonZeroU64::new(bytes), Advice::DontNeed).ok();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// The open file keeps the `flock`; the kernel drops it with the last descriptor, also on a kill.
#[derive(Debug)]
struct RealLock(#[expect(dead_code, reason = "held for its descriptor, never read")] File);

impl DiskLock for RealLock {}
