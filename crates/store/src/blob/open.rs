//! The start: which files there are, what is in them, where to go on.

use std::collections::BTreeMap;

use segments::{Disk, File, IoContext as _, Stamp, list_if_there, remove, sync_dir};

use super::dir::{BLOBS, DRAFTS, Dir, file_name};
use super::file::{BlobFile, Stage};
use super::format::{self, Stamps};
use super::state::BlobState;
use crate::error::Result;

fn numbers(names: &[String]) -> impl Iterator<Item = u32> {
    BLOBS.numbers(names).into_iter().filter_map(|number| u32::try_from(number).ok())
}

/// The state without any file.
pub(super) fn nothing() -> BlobState {
    BlobState::new(BTreeMap::new(), 1, None)
}

/// Makes the directory and those it lies in durably there.
pub(super) fn make_dir(disk: &dyn Disk, dir: &str) -> Result<()> {
    disk.create_dir(dir).context("create", dir)?;
    let ends = dir.match_indices('/').map(|(end, _)| end);
    for parent in std::iter::once("").chain(ends.filter_map(|end| dir.get(..end))) {
        disk.sync_dir(parent).context("sync the directory of", dir)?;
    }
    Ok(())
}

impl Dir {
    pub(super) fn open(&self) -> Result<BlobState> {
        let (disk, options) = (self.disk(), &self.options);
        let dir = &options.dir;
        if options.is_volatile {
            remove_all(disk, dir)?;
            return Ok(nothing());
        }
        let Some(names) = list_if_there(disk, dir)? else { return Ok(nothing()) };
        for draft in names.iter().filter(|name| name.ends_with(DRAFTS.suffix)) {
            remove(disk, &format!("{dir}/{draft}"))?;
        }
        let numbers: Vec<u32> = numbers(&names).collect();
        let highest = numbers.last().copied();
        let mut files = BTreeMap::new();
        for number in numbers {
            let is_highest = highest == Some(number);
            let file = self.open_file(number, is_highest)?;
            files.insert(number, file);
        }
        // A killed process may have created or renamed without having come to this.
        sync_dir(disk, dir)?;
        if let Some(told) = &options.told {
            told.forget(dir, |number| !files.contains_key(&number))?;
            told.tell(dir, files.keys().copied())?;
        }
        let resumed = files.values().find(|file| file.stage == Stage::Filling);
        let next = highest.map_or(1, |number| number + 1);
        let filling = resumed.map_or(next, |file| file.number);
        Ok(BlobState::new(files, filling, highest))
    }

    /// Makes what is found durable, since the process before this one may have been killed before it did. A
    /// file that has room goes on being filled: it must be the last, since numbers rise, of the present
    /// version, and whole, since what is taken for a torn end may be a damaged blob that something names.
    fn open_file(&self, number: u32, is_highest: bool) -> Result<BlobFile> {
        let options = &self.options;
        let file = File::open(self.disk(), &self.file_name(number))?;
        let mut found = format::read_file(&file, number)?;
        let end = u64::from(found.end);
        let is_whole = found.file_bytes <= end;
        let has_room = !found.is_sealed && found.end < options.file_bytes;
        let resumes = is_highest && is_whole && has_room && found.is_present_version;
        if resumes && found.stamps.is_none() {
            // The file's header is torn or damaged.
            let stamps = Stamps { begun: options.stamper.stamp(), ..Stamps::default() };
            file.write(0, &format::file_header(number, stamps.begun))?;
            (found.file_bytes, found.stamps) = (end, Some(stamps));
        }
        file.sync()?;
        let stage = if resumes { Stage::Filling } else { Stage::Closed };
        let cached = self.cache.closed(file.name());
        Ok(BlobFile::found(number, found, stage, Some(cached)))
    }
}

/// The files of the store in `dir` by number, each with what it says of the log that names its blobs.
/// Touches nothing.
///
/// # Errors
/// The disk's, or a file of a newer version.
pub fn stamps(disk: &dyn Disk, dir: &str) -> Result<BTreeMap<u32, Option<Stamp>>> {
    let names = list_if_there(disk, dir)?.unwrap_or_default();
    let stamp = |number| {
        let file = File::open(disk, &file_name(dir, number))?;
        Ok((number, format::read_stamp(&file, number)?))
    };
    numbers(&names).map(stamp).collect()
}

/// Removes the files of a store that nobody has open, and the directory if nothing else is in it.
///
/// # Errors
/// The disk's.
pub fn remove_all(disk: &dyn Disk, dir: &str) -> Result<()> {
    let Some(names) = list_if_there(disk, dir)? else { return Ok(()) };
    let is_ours = |name: &&String| name.ends_with(BLOBS.suffix) || name.ends_with(DRAFTS.suffix);
    for name in names.iter().filter(is_ours) {
        remove(disk, &format!("{dir}/{name}"))?;
    }
    sync_dir(disk, dir)?;
    Ok(disk.remove_dir(dir).context("remove", dir)?)
}
