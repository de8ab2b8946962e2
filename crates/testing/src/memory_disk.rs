//! [`Disk`] in memory, which can fail and lose power like a real one.
//!
//! Model of a power loss ([`MemoryDisk::survive`]): what was synced stays. Of the writes since a
//! file's last sync any subset of sectors may have reached the medium, in any order, and the file's
//! length lies between the synced and the last one. Of the directory operations since the last
//! `sync_dir` a prefix survives, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::random::Random;
use segments::{Disk, DiskFile, DiskLock, OpenMode, Space};

/// The unit in which unsynced writes survive or get lost; far below a real sector to tear more.
const SECTOR_BYTES: usize = 16;
/// The error of a process with too many files open.
const EMFILE: i32 = 24;

/// The effect on the operation it is injected into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with an input/output error; a sync makes nothing durable.
    Io,
    /// The operation fails for lack of space; a write gets half of its bytes in.
    NoSpace,
    /// The operation fails because the process has too many files open.
    NoDescriptors,
    /// Power is lost in the middle of the operation: half of a write is done, a sync or rename is
    /// not; this and every later operation fails.
    PowerLoss,
}

/// Which of the unsynced data is still there after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashOutcome {
    /// All: the process died, the machine did not. What was not synced still is not.
    Everything,
    /// None.
    OnlySynced,
    /// A part, drawn from this seed.
    Torn(u64),
}

/// A disk in memory. Clones are handles to the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<DiskState>>,
}

#[derive(Debug, Default)]
struct DiskState {
    dirs: BTreeSet<String>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced_names: Vec<NameChange>,
    inodes: Vec<Inode>,
    locks: BTreeSet<String>,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    dead: bool,
    /// Bytes that fit in; any number if none.
    capacity: Option<u64>,
    /// Whoever does not wait for the device reads nothing.
    is_cold: bool,
    read_bytes: u64,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<DataChange>,
}

#[derive(Clone, Debug)]
enum DataChange {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of changing operations (create, rename, remove, write, resize, sync) so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Number of bytes that were read so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.state().read_bytes
    }

    /// Makes the changing operation number `operation` (the first is 0) fail.
    pub fn inject(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// Whether power was lost: every operation fails.
    #[must_use]
    pub fn has_lost_power(&self) -> bool {
        self.state().dead
    }

    /// From now on who does not wait for the device reads nothing.
    pub fn chill(&self) {
        self.state().is_cold = true;
    }

    /// From now on no more than so many bytes of files fit in.
    pub fn limit_space(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// A copy of the disk as the next start finds it if power is lost (or the process dies) now.
    #[must_use]
    pub fn survive(&self, survival: CrashOutcome) -> Self {
        let state = self.state();
        let mut random = Random::new(match survival {
            CrashOutcome::Torn(seed) => seed,
            CrashOutcome::Everything | CrashOutcome::OnlySynced => 0,
        });
        let (names, unsynced_names) = match survival {
            CrashOutcome::Everything => (state.names.clone(), state.unsynced_names.clone()),
            CrashOutcome::OnlySynced => (state.synced_names.clone(), Vec::new()),
            CrashOutcome::Torn(_) => {
                let keep = random.below(state.unsynced_names.len() + 1);
                let kept = state.unsynced_names.iter().take(keep);
                (kept.fold(state.synced_names.clone(), apply), Vec::new())
            }
        };
        // What no name leads to any more is not there for the next start.
        let renewed = unsynced_names.iter().filter_map(NameChange::idx);
        let wanted: BTreeSet<usize> =
            names.values().chain(state.synced_names.values()).copied().chain(renewed).collect();
        let survive = |(idx, inode): (usize, &Inode)| {
            if wanted.contains(&idx) {
                inode.survive(survival, &mut random)
            } else {
                Inode::default()
            }
        };
        let inodes = state.inodes.iter().enumerate().map(survive).collect();
        let synced_names = match survival {
            CrashOutcome::Everything => state.synced_names.clone(),
            CrashOutcome::OnlySynced | CrashOutcome::Torn(_) => names.clone(),
        };
        // A directory that was removed is there again with a file in it.
        let mut dirs = state.dirs.clone();
        names.keys().for_each(|name| add_dirs(&mut dirs, parent(name)));
        let next = DiskState {
            dirs,
            names,
            synced_names,
            unsynced_names,
            inodes,
            capacity: state.capacity,
            ..Default::default()
        };
        Self { state: Arc::new(Mutex::new(next)) }
    }

    /// Flips one bit of a file, as a failing medium does. False if there is no such byte.
    pub fn flip_bit(&self, name: &str, offset: usize, bit: u8) -> bool {
        let mut state = self.state();
        let Some(idx) = state.names.get(name).copied() else { return false };
        let Some(inode) = state.inodes.get_mut(idx) else { return false };
        let flip = |byte: &mut u8| *byte ^= 1 << (bit & 7);
        if let Some(byte) = inode.synced.get_mut(offset) {
            flip(byte);
        }
        inode.now.get_mut(offset).map(flip).is_some()
    }

    /// All files and their lengths, in order.
    #[must_use]
    pub fn files(&self) -> Vec<(String, usize)> {
        let state = self.state();
        let length = |idx: &usize| state.inodes.get(*idx).map_or(0, |inode| inode.now.len());
        state.names.iter().map(|(name, idx)| (name.clone(), length(idx))).collect()
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        stdx::lock(&self.state)
    }
}

fn apply(mut names: BTreeMap<String, usize>, change: &NameChange) -> BTreeMap<String, usize> {
    match change {
        NameChange::Set(name, idx) => {
            names.insert(name.clone(), *idx);
        }
        NameChange::Rename(from, to) => {
            if let Some(idx) = names.remove(from) {
                names.insert(to.clone(), idx);
            } else {
                let all = names.into_iter();
                names = all.map(|(name, idx)| (renamed(name, from, to), idx)).collect();
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
    names
}

/// The path behind the renaming of a file or directory.
fn renamed(path: String, from: &str, to: &str) -> String {
    match path.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
        Some(_) | None => path,
    }
}

impl NameChange {
    /// The file it gives a name to that it did not have.
    const fn idx(&self) -> Option<usize> {
        match self {
            Self::Set(_, idx) => Some(*idx),
            Self::Rename(..) | Self::Remove(_) => None,
        }
    }

    fn dir(&self) -> &str {
        match self {
            Self::Set(name, _) | Self::Remove(name) | Self::Rename(name, _) => parent(name),
        }
    }
}

impl Inode {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        write_into(&mut self.now, at, bytes);
        self.unsynced.push(DataChange::Write(at, bytes.to_vec()));
    }

    fn resize(&mut self, bytes: usize) {
        self.now.resize(bytes, 0);
        self.unsynced.push(DataChange::Resize(bytes));
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                DataChange::Write(at, bytes) => write_into(&mut self.synced, at, &bytes),
                DataChange::Resize(bytes) => self.synced.resize(bytes, 0),
            }
        }
        self.synced.resize(self.now.len(), 0);
    }

    fn survive(&self, survival: CrashOutcome, random: &mut Random) -> Self {
        let left = match survival {
            CrashOutcome::Everything => return self.clone(),
            CrashOutcome::OnlySynced => self.synced.clone(),
            CrashOutcome::Torn(_) => self.torn(random),
        };
        Self { synced: left.clone(), now: left, unsynced: Vec::new() }
    }

    fn torn(&self, random: &mut Random) -> Vec<u8> {
        let mut left = self.synced.clone();
        let luck = [0, 30, 70, 97, 100].get(random.below(5)).copied().unwrap_or(50);
        for change in &self.unsynced {
            let (mut at, mut rest) = match change {
                DataChange::Write(at, bytes) => (*at, bytes.as_slice()),
                DataChange::Resize(bytes) => {
                    if random.below(100) < luck {
                        left.resize(*bytes, 0);
                    }
                    continue;
                }
            };
            while !rest.is_empty() {
                let sector = rest.len().min(SECTOR_BYTES - at % SECTOR_BYTES);
                let (now, later) = rest.split_at(sector);
                if random.below(100) < luck {
                    write_into(&mut left, at, now);
                }
                at += sector;
                rest = later;
            }
        }
        if random.below(2) == 0 {
            left.resize(left.len().max(self.now.len()), 0);
        }
        left
    }
}

fn write_into(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    if let Some(target) = file.get_mut(at..end) {
        target.copy_from_slice(bytes);
    }
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Adds a directory and those it lies in.
fn add_dirs(dirs: &mut BTreeSet<String>, mut dir: &str) {
    while !dir.is_empty() && dirs.insert(dir.to_owned()) {
        dir = parent(dir);
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("simulated power loss")
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl DiskState {
    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(power_is_off()) } else { Ok(()) }
    }

    /// Counts a changing operation and yields the fault planned for it.
    fn change(&mut self) -> io::Result<Option<Fault>> {
        self.alive()?;
        let fault = self.faults.remove(&self.operations);
        self.operations += 1;
        self.dead = fault == Some(Fault::PowerLoss);
        Ok(fault)
    }

    /// The same for operations that are done whole or not at all.
    fn change_whole(&mut self) -> io::Result<()> {
        self.change()?.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn rename_now(&mut self, change: NameChange) {
        self.names = apply(std::mem::take(&mut self.names), &change);
        self.unsynced_names.push(change);
    }

    fn taken_bytes(&self) -> u64 {
        let length = |idx: &usize| self.inodes.get(*idx).map_or(0, |inode| inode.now.len() as u64);
        self.names.values().map(length).sum()
    }

    /// An error if a file cannot grow to so many bytes.
    fn fits(&self, idx: usize, end: usize) -> io::Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let length = self.inodes.get(idx).map_or(0, |inode| inode.now.len());
        let more = end.saturating_sub(length) as u64;
        if more > 0 && self.taken_bytes() + more > capacity {
            return Err(Fault::NoSpace.error());
        }
        Ok(())
    }

    fn inode(&mut self, idx: usize) -> io::Result<&mut Inode> {
        self.inodes.get_mut(idx).ok_or_else(not_found)
    }
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::Io => io::Error::other("simulated input/output error"),
            Self::NoSpace => io::ErrorKind::StorageFull.into(),
            Self::NoDescriptors => io::Error::from_raw_os_error(EMFILE),
            Self::PowerLoss => power_is_off(),
        }
    }
}

impl Disk for MemoryDisk {
    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        add_dirs(&mut state.dirs, dir);
        Ok(())
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        let is_empty = state.names.keys().chain(&state.dirs).all(|path| parent(path) != dir);
        if is_empty {
            state.dirs.remove(dir);
        }
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive()?;
        if !dir.is_empty() && !state.dirs.contains(dir) {
            return Err(not_found());
        }
        let paths = state.names.keys().chain(&state.dirs).filter(|path| parent(path) == dir);
        let mut names: Vec<String> = paths
            .map(|path| path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name).to_owned())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let found = state.names.get(name).copied();
        let idx = match (mode, found) {
            (OpenMode::Existing, Some(idx)) => {
                state.alive()?;
                idx
            }
            (OpenMode::Existing, None) => return Err(not_found()),
            (OpenMode::New, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (OpenMode::New, None) => {
                state.change_whole()?;
                state.inodes.push(Inode::default());
                let idx = state.inodes.len() - 1;
                state.rename_now(NameChange::Set(name.to_owned(), idx));
                idx
            }
        };
        drop(state);
        Ok(Box::new(MemoryFile { disk: self.clone(), idx }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let is_dir = state.dirs.contains(from);
        if !is_dir && !state.names.contains_key(from) {
            return Err(not_found());
        }
        state.change_whole()?;
        if is_dir {
            let dirs = std::mem::take(&mut state.dirs).into_iter();
            state.dirs = dirs.map(|dir| renamed(dir, from, to)).collect();
        }
        state.rename_now(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(name) {
            return Err(not_found());
        }
        state.change_whole()?;
        state.rename_now(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change_whole()?;
        let changes = std::mem::take(&mut state.unsynced_names);
        let (synced, left): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.dir() == dir);
        state.synced_names = synced.iter().fold(std::mem::take(&mut state.synced_names), apply);
        state.unsynced_names = left;
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change_whole()?;
        state.inodes.iter_mut().for_each(Inode::sync);
        state.synced_names = state.names.clone();
        state.unsynced_names.clear();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        if let Err(error) = self.open(name, OpenMode::New)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        if !self.state().locks.insert(name.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { disk: self.clone(), name: name.to_owned() }))
    }

    fn root(&self) -> String {
        "(memory)".to_owned()
    }

    fn space(&self) -> io::Result<Space> {
        let state = self.state();
        let total_bytes = state.capacity.unwrap_or(u64::MAX);
        Ok(Space { free_bytes: total_bytes.saturating_sub(state.taken_bytes()), total_bytes })
    }

    fn set_aside(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.open(name, OpenMode::New)?.set_len(bytes)
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    idx: usize,
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.alive()?;
        Ok(state.inode(self.idx)?.now.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.alive()?;
        let bytes = &state.inode(self.idx)?.now;
        let at = position(at)?.min(bytes.len());
        let (_, rest) = bytes.split_at(at);
        let n = rest.len().min(into.len());
        let (into, _) = into.split_at_mut(n);
        into.copy_from_slice(rest.split_at(n).0);
        state.read_bytes += n as u64;
        Ok(n)
    }

    fn read_at_no_wait(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let is_cold = self.disk.state().is_cold;
        if is_cold { Err(io::ErrorKind::WouldBlock.into()) } else { self.read_at(at, into) }
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let at = position(at)?;
        let fault = state.change()?;
        state.fits(self.idx, at + bytes.len())?;
        let inode = state.inode(self.idx)?;
        let (half, _) = bytes.split_at(bytes.len() / 2);
        match fault {
            None => inode.write(at, bytes),
            Some(Fault::NoSpace | Fault::PowerLoss) => inode.write(at, half),
            Some(Fault::Io | Fault::NoDescriptors) => {}
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let bytes = position(bytes)?;
        state.change_whole()?;
        state.fits(self.idx, bytes)?;
        state.inode(self.idx)?.resize(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change_whole()?;
        state.inode(self.idx)?.sync();
        Ok(())
    }
}

fn position(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(io::Error::other)
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    name: String,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.name);
    }
}
