//! The files of a queue in the older form: their names, and what is done to them in one step.

use std::sync::Arc;

use segments::{
    Digits, Disk, File, IoContext as _, NameForm, Poison, list_if_there, remove, sync_dir,
    sync_name,
};

use super::block::{BlockRef, Tag, TagKind, file_header};
use store::StoreError;

use crate::Result;

const JOURNAL: NameForm = NameForm::new(Digits::Hexadecimal(8), ".jif");
const SEGMENT: NameForm = NameForm::new(Digits::Decimal(1), ".idx");

/// The numbers of a queue's files, rising.
#[derive(Debug, Default)]
pub(super) struct FileNumbers {
    pub(super) journals: Vec<u64>,
    pub(super) segments: Vec<u64>,
}

impl FileNumbers {
    /// The files in a directory; none if there is no such directory.
    pub(super) fn of_dir(disk: &dyn Disk, dir: &str) -> Result<Option<Self>> {
        let of = |names: Vec<String>| Self {
            journals: JOURNAL.numbers(&names),
            segments: SEGMENT.numbers(&names),
        };
        Ok(list_if_there(disk, dir)?.map(of))
    }

    /// All of them, journals first.
    pub(super) fn tags(&self) -> impl Iterator<Item = Tag> + '_ {
        let journals = self.journals.iter().copied().map(Tag::journal);
        journals.chain(self.segments.iter().copied().map(Tag::segment))
    }
}

impl TagKind {
    const fn names(self) -> NameForm {
        match self {
            Self::Journal => JOURNAL,
            Self::Segment => SEGMENT,
        }
    }

    /// The names of all such files in a directory, for messages.
    pub(super) fn any_in(self, dir: &str) -> String {
        format!("a file {dir}/*{}", self.names().suffix)
    }
}

impl Tag {
    /// The file's name.
    pub(super) fn path(self, dir: &str) -> String {
        self.kind.names().path(dir, self.number)
    }

    /// Opens the file.
    pub(super) fn open(self, disk: &dyn Disk, dir: &str) -> Result<File> {
        Ok(File::open(disk, &self.path(dir))?)
    }
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
        self.poison.check(|reason| StoreError::poisoned(&self.dir, reason))
    }

    /// Makes the failure of an operation one for good.
    pub(super) fn poison<T>(&self, done: Result<T>) -> Result<T> {
        self.poison.of(done)
    }

    pub(super) fn name_of(&self, tag: Tag) -> String {
        tag.path(&self.dir)
    }

    /// The handle, or the file opened anew.
    pub(super) fn opened(&self, tag: Tag, handle: Option<&File>) -> Result<File> {
        handle.map_or_else(|| tag.open(self.disk(), &self.dir), |handle| Ok(handle.clone()))
    }

    /// A new file with its header.
    pub(super) fn create(&self, tag: Tag) -> Result<File> {
        let file = File::create(self.disk(), &self.name_of(tag))?;
        file.write(0, &file_header(tag))?;
        Ok(file)
    }

    pub(super) fn remove(&self, tag: Tag) -> Result<()> {
        Ok(remove(self.disk(), &self.name_of(tag))?)
    }

    /// Makes names in the directory durable.
    pub(super) fn sync_dir(&self) -> Result<()> {
        Ok(sync_dir(self.disk(), &self.dir)?)
    }

    /// Makes the directory's own name durable.
    pub(super) fn sync_parent(&self) -> Result<()> {
        Ok(sync_name(self.disk(), &self.dir)?)
    }
}

/// Fetches a block's bytes, fewer if the file ends before.
pub(super) fn read_block(file: &File, block: &BlockRef, into: &mut Vec<u8>) -> Result<()> {
    let bytes = usize::try_from(block.bytes()).map_err(std::io::Error::other);
    Ok(file.read_into(block.at, bytes.context("read", file.name())?, into)?)
}

/// Removes the files of a queue nobody has open, and its directory: it is deleted, or has another form now.
///
/// # Errors
/// The disk's.
pub fn remove_all(disk: &dyn Disk, dir: &str) -> Result<()> {
    let Some(names) = list_if_there(disk, dir)? else { return Ok(()) };
    let is_ours = |name: &&String| name.ends_with(JOURNAL.suffix) || name.ends_with(SEGMENT.suffix);
    for name in names.iter().filter(is_ours) {
        remove(disk, &format!("{dir}/{name}"))?;
    }
    // The removal is not synced, for many queues may go at once: the next start removes files that come
    // back, and a queue that is made there again syncs the directory.
    Ok(disk.remove_dir(dir).context("remove", dir)?)
}
