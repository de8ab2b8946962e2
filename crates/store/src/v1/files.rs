//! The files of a queue in the older form: their names, and what is done to them in one step.

use std::sync::Arc;

use log::{Disk, DiskFile, IoContext, OpenMode, list_if_there};

use super::block::{BlockRef, Kind, Tag};
use crate::error::{Poison, Result, StoreError};

pub(super) const JOURNAL_SUFFIX: &str = ".jif";
pub(super) const SEGMENT_SUFFIX: &str = ".idx";

pub(super) fn journal_name(dir: &str, number: u64) -> String {
    format!("{dir}/{number:08x}{JOURNAL_SUFFIX}")
}

pub(super) fn segment_name(dir: &str, number: u64) -> String {
    format!("{dir}/{number}{SEGMENT_SUFFIX}")
}

/// The numbers of journals and of segments among `names`, rising.
pub(super) fn numbers(names: &[String]) -> (Vec<u64>, Vec<u64>) {
    let of = |suffix: &'static str, radix: u32| {
        let digits = names.iter().filter_map(move |name| name.strip_suffix(suffix));
        let numbers = digits.filter_map(move |digits| u64::from_str_radix(digits, radix).ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers
    };
    (of(JOURNAL_SUFFIX, 16), of(SEGMENT_SUFFIX, 10))
}

/// A queue's directory. A failure that leaves it unknown what is durable is for good.
#[derive(Debug)]
pub(super) struct Files {
    disk: Arc<dyn Disk>,
    dir: String,
    poison: Poison,
}

impl Files {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: String) -> Self {
        Self { disk, dir, poison: Poison::default() }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Fails after a failure for good.
    pub(super) fn alive(&self) -> Result<()> {
        self.poison.check(&self.dir)
    }

    /// Makes a failure one for good.
    pub(super) fn poison(&self, error: StoreError) -> StoreError {
        self.poison.by(error)
    }

    pub(super) fn journal_name(&self, number: u64) -> String {
        journal_name(&self.dir, number)
    }

    pub(super) fn segment_name(&self, number: u64) -> String {
        segment_name(&self.dir, number)
    }

    pub(super) fn name_of(&self, tag: Tag) -> String {
        match tag.kind {
            Kind::Journal => self.journal_name(tag.number),
            Kind::Segment => self.segment_name(tag.number),
        }
    }

    /// The handle, or the file opened anew.
    pub(super) fn opened(
        &self,
        handle: Option<&Arc<dyn DiskFile>>,
        name: &str,
    ) -> Result<Arc<dyn DiskFile>> {
        match handle {
            Some(handle) => Ok(Arc::clone(handle)),
            None => Ok(Arc::from(self.disk.open(name, OpenMode::Existing).context("open", name)?)),
        }
    }

    /// The journal's handle, or the file opened for the read: neighbours in it share that.
    pub(super) fn file_of(
        &self,
        tag: Tag,
        handle: Option<&Arc<dyn DiskFile>>,
        opened: &mut Option<(Tag, Arc<dyn DiskFile>)>,
    ) -> Result<Arc<dyn DiskFile>> {
        let shared = opened.as_ref().filter(|(of, _)| *of == tag).map(|(_, file)| file);
        let is_new = handle.is_none() && shared.is_none();
        let file = self.opened(handle.or(shared), &self.name_of(tag))?;
        if is_new {
            *opened = Some((tag, Arc::clone(&file)));
        }
        Ok(file)
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        Ok(self.disk.remove(name).context("remove", name)?)
    }

    /// Makes names in the directory durable.
    pub(super) fn sync_dir(&self) -> Result<()> {
        Ok(self.disk.sync_dir(&self.dir).context("sync", &self.dir)?)
    }

    /// Makes the directory's own name durable.
    pub(super) fn sync_parent(&self) -> Result<()> {
        let parent = self.dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        Ok(self.disk.sync_dir(parent).context("sync the directory of", &self.dir)?)
    }
}

/// Fetches a block's bytes, fewer if the file ends before.
pub(super) fn read_block(
    file: &dyn DiskFile,
    name: &str,
    block: &BlockRef,
    into: &mut Vec<u8>,
) -> Result<()> {
    let bytes = usize::try_from(block.bytes()).map_err(std::io::Error::other);
    into.resize(bytes.context("read", name)?, 0);
    let n = file.read_at(block.at, into).context("read", name)?;
    into.truncate(n);
    Ok(())
}

/// Removes the files of a queue nobody has open, and its directory.
pub(super) fn remove_all(disk: &dyn Disk, dir: &str) -> Result<()> {
    let Some(names) = list_if_there(disk, dir)? else { return Ok(()) };
    let is_ours = |name: &&String| name.ends_with(JOURNAL_SUFFIX) || name.ends_with(SEGMENT_SUFFIX);
    for name in names.iter().filter(is_ours) {
        let name = format!("{dir}/{name}");
        disk.remove(&name).context("remove", &name)?;
    }
    // The removal is not synced, for many queues may go at once: the next start removes files that come
    // back, and a queue that is made there again syncs the directory.
    Ok(disk.remove_dir(dir).context("remove", dir)?)
}
