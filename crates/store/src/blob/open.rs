//! The start: which files there are, what is in them, where to go on.

use std::collections::BTreeMap;

use log::{Disk, IoContext, OpenMode, Stamp, list_if_there};

use super::BlobOptions;
use super::file::{BlobFile, Stage};
use super::format::{self, Stamps};
use super::state::State;
use crate::error::Result;

const SUFFIX: &str = ".blob";
/// The suffix of a file that is to take another's place; a crash leaves such a file behind.
pub(super) const DRAFT_SUFFIX: &str = ".blob.tmp";
/// Length of the number in a file's name, in hexadecimal digits.
const NUMBER_DIGITS: usize = 8;

pub(super) fn file_name(dir: &str, number: u32) -> String {
    format!("{dir}/{number:08x}{SUFFIX}")
}

pub(super) fn draft_name(dir: &str, number: u32) -> String {
    format!("{dir}/{number:08x}{DRAFT_SUFFIX}")
}

fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == NUMBER_DIGITS)?;
    u32::from_str_radix(digits, 16).ok()
}

/// The state without any file.
pub(super) fn nothing() -> State {
    State::new(BTreeMap::new(), 1, None)
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

pub(super) fn open(disk: &dyn Disk, options: &BlobOptions) -> Result<State> {
    let dir = &options.dir;
    if options.is_volatile {
        remove_all(disk, dir)?;
        return Ok(nothing());
    }
    let Some(names) = list_if_there(disk, dir)? else { return Ok(nothing()) };
    for draft in names.iter().filter(|name| name.ends_with(DRAFT_SUFFIX)) {
        let draft = format!("{dir}/{draft}");
        disk.remove(&draft).context("remove", &draft)?;
    }
    let numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
    let highest = numbers.last().copied();
    let mut files = BTreeMap::new();
    for number in numbers {
        let is_highest = highest == Some(number);
        let file = open_file(disk, options, number, is_highest)?;
        files.insert(number, file);
    }
    // A killed process may have created or renamed without having come to this.
    disk.sync_dir(dir).context("sync", dir)?;
    if let Some(told) = &options.told {
        told.forget(dir, |number| !files.contains_key(&number))?;
        told.tell(dir, files.keys().copied())?;
    }
    let resumed = files.values().find(|file| file.stage == Stage::Filling);
    let next = highest.map_or(1, |number| number + 1);
    let filling = resumed.map_or(next, |file| file.number);
    Ok(State::new(files, filling, highest))
}

/// The files of the store in `dir` by number, each with what it says of the log that names its blobs.
/// Touches nothing.
pub(super) fn stamps(disk: &dyn Disk, dir: &str) -> Result<BTreeMap<u32, Option<Stamp>>> {
    let names = list_if_there(disk, dir)?.unwrap_or_default();
    let stamp = |number| {
        let name = file_name(dir, number);
        let file = disk.open(&name, OpenMode::Existing).context("open", &name)?;
        Ok((number, format::read_stamp(file.as_ref(), &name, number)?))
    };
    names.iter().filter_map(|name| number_of(name)).map(stamp).collect()
}

/// Makes what is found durable, since the process before this one may have been killed before it
/// did. A file that has room goes on being filled: it must be the last, since numbers rise, of the
/// present version, and whole, since what is taken for a torn end may be a damaged blob that something names.
fn open_file(
    disk: &dyn Disk,
    options: &BlobOptions,
    number: u32,
    is_highest: bool,
) -> Result<BlobFile> {
    let name = file_name(&options.dir, number);
    let handle = disk.open(&name, OpenMode::Existing).context("open", &name)?;
    let mut found = format::read_file(handle.as_ref(), &name, number)?;
    let end = u64::from(found.end);
    let is_whole = found.file_bytes <= end;
    let has_room = !found.is_sealed && found.end < options.file_bytes;
    let resumes = is_highest && is_whole && has_room && found.is_present_version;
    if resumes && found.stamps.is_none() {
        // The file's header is torn or damaged.
        let stamps = Stamps { begun: options.stamper.stamp(), ..Stamps::default() };
        let header = format::file_header(number, stamps.begun);
        handle.write_at(0, &header).context("write", &name)?;
        (found.file_bytes, found.stamps) = (end, Some(stamps));
    }
    handle.sync_data().context("sync", &name)?;
    let stage = if resumes { Stage::Filling } else { Stage::Closed };
    Ok(BlobFile::found(number, found, stage))
}

/// Removes the files, and the directory if nothing else is in it.
pub(super) fn remove_all(disk: &dyn Disk, dir: &str) -> Result<()> {
    let Some(names) = list_if_there(disk, dir)? else { return Ok(()) };
    let ours = names.iter().filter(|name| name.ends_with(SUFFIX) || name.ends_with(DRAFT_SUFFIX));
    for name in ours {
        let name = format!("{dir}/{name}");
        disk.remove(&name).context("remove", &name)?;
    }
    disk.sync_dir(dir).context("sync", dir)?;
    disk.remove_dir(dir).context("remove", dir)?;
    Ok(())
}
