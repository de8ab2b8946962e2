//! Files of images that are too large for the log: `images/<group>-<replica>-<index>.image`, in hexadecimal.
//!
//! A file is durable before the entry of the log that names it is appended, and keeps its content while an
//! entry names it. Removed is what a durable entry has replaced: the files up to the group's image, or up to
//! the end of its replica. That no entry names a file is no reason: what names it may be missing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use log::{Lsn, Owner, SegmentId, Wal};
use segments::{
    Disk, File, FileError, IoContext as _, Result, STAMPED_PAYLOAD_AT, crc32c, list_if_there,
    read_stamped, remove_if_there, sync_dir, sync_name, write_stamped,
};

use crate::entry::ImageFile;
use crate::images::PIECE_BYTES;
use crate::members::PeerId;

/// The directory of images, in the data directory.
pub const IMAGES_DIR: &str = "images";
/// Bytes up to which an image lies in the log.
pub const IMAGE_IN_LOG_BYTES_MAX: usize = 1 << 20;

/// The name of an image's file. Of one group, a later file is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImageKey {
    pub(crate) owner: Owner,
    pub(crate) me: PeerId,
    pub(crate) index: u64,
}

impl ImageKey {
    fn name(self) -> String {
        format!("{:016x}-{:016x}-{:016x}.image", self.owner.0, self.me.0, self.index)
    }

    fn path(self) -> String {
        format!("{IMAGES_DIR}/{}", self.name())
    }

    /// The file that a name belongs to, also the name of its draft.
    fn parse(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".tmp").unwrap_or(name);
        let numbers = name.strip_suffix(".image")?.split('-');
        let mut numbers = numbers.map(|digits| u64::from_str_radix(digits, 16).ok());
        let mut next = || numbers.next().flatten();
        let key = Self { owner: Owner(next()?), me: PeerId(next()?), index: next()? };
        (key.name() == name).then_some(key)
    }
}

/// The files of a node's images, for all its groups.
#[derive(Debug)]
pub struct ImageStore {
    disk: Arc<dyn Disk>,
    in_log_max: usize,
    piece_bytes: usize,
    files: Mutex<ImageFiles>,
    sweeping: Mutex<()>,
}

#[derive(Debug, Default)]
struct ImageFiles {
    /// Files that are there and not known to be replaced.
    there: BTreeSet<ImageKey>,
    replaced: Replaced,
}

/// Files that may go, and ends of replicas that may be forgotten then, once the log is synced up to there.
#[derive(Debug, Default)]
struct Replaced {
    files: Vec<(Lsn, ImageKey)>,
    ends: Vec<(Lsn, SegmentId)>,
}

impl ImageStore {
    /// Opens the store of a data directory. Images of more than `in_log_max` bytes become files, usually
    /// [`IMAGE_IN_LOG_BYTES_MAX`].
    ///
    /// # Errors
    /// The disk's.
    pub fn open(disk: Arc<dyn Disk>, in_log_max: usize) -> Result<Self> {
        let names = list_if_there(disk.as_ref(), IMAGES_DIR)?.unwrap_or_default();
        let there = names.iter().filter_map(|name| ImageKey::parse(name)).collect();
        let files = Mutex::new(ImageFiles { there, replaced: Replaced::default() });
        let (piece_bytes, sweeping) = (PIECE_BYTES, Mutex::default());
        Ok(Self { disk, in_log_max, piece_bytes, files, sweeping })
    }

    /// The store with pieces of up to so many bytes, at most [`PIECE_BYTES`], on the way to followers.
    #[must_use]
    pub fn with_pieces_of(self, piece_bytes: usize) -> Self {
        Self { piece_bytes: piece_bytes.clamp(1, PIECE_BYTES), ..self }
    }

    /// Removes the files that entries of the log have replaced which are synced, and has the log forget the
    /// ends of replicas whose files are gone. **Blocks**; the host calls it now and then, without locks, and
    /// each write of an image does so too.
    ///
    /// # Errors
    /// The disk's; the files that are left are removed another time.
    pub fn sweep(&self, wal: &Wal) -> Result<()> {
        let _one_at_a_time = stdx::lock(&self.sweeping);
        let due = stdx::lock(&self.files).replaced.take_due(wal.stamp().synced);
        let removed = self.remove(&due.files);
        if removed.is_ok() {
            due.ends.iter().for_each(|(_, segment)| wal.release(*segment, 1));
        } else {
            let replaced = &mut stdx::lock(&self.files).replaced;
            replaced.files.extend(due.files);
            replaced.ends.extend(due.ends);
        }
        removed
    }

    fn remove(&self, files: &[(Lsn, ImageKey)]) -> Result<()> {
        for (_, file) in files {
            for name in [file.path(), format!("{}.tmp", file.path())] {
                remove_if_there(self.disk.as_ref(), &name)?;
            }
        }
        if files.is_empty() { Ok(()) } else { sync_dir(self.disk.as_ref(), IMAGES_DIR) }
    }

    /// The files of groups that are not among `owners`, and of which nothing says that they have been
    /// removed. They stay; the host warns of them at its start, of all but the groups that have an image.
    #[must_use]
    pub fn unclaimed(&self, owners: &BTreeSet<Owner>) -> Vec<String> {
        let files = stdx::lock(&self.files);
        let unclaimed = files.there.iter().filter(|file| !owners.contains(&file.owner));
        unclaimed.map(|file| file.path()).collect()
    }

    pub(crate) const fn is_for_log(&self, bytes: usize) -> bool {
        bytes <= self.in_log_max
    }

    pub(crate) fn has_files(&self, owner: Owner) -> bool {
        let first = ImageKey { owner, me: PeerId(0), index: 0 };
        let later = stdx::lock(&self.files).there.range(first..).next().copied();
        later.is_some_and(|file| file.owner == owner)
    }

    /// Notes that files of a group up to `last` are replaced once the log is synced up to `after`.
    pub(crate) fn replace(&self, last: ImageKey, keep_last: bool, after: Lsn) {
        let mut files = stdx::lock(&self.files);
        let upto = files.there.range(ImageKey { me: PeerId(0), index: 0, ..last }..=last);
        let old: Vec<_> = upto.filter(|file| !keep_last || **file != last).copied().collect();
        for file in old {
            files.there.remove(&file);
            files.replaced.files.push((after, file));
        }
    }

    /// Notes that a replica has ended, by an entry in `segment` that is retained until its files are gone.
    pub(crate) fn end(&self, owner: Owner, me: PeerId, at: (Lsn, SegmentId)) {
        self.replace(ImageKey { owner, me, index: u64::MAX }, false, at.0);
        stdx::lock(&self.files).replaced.ends.push(at);
    }

    /// Reads the machine's bytes and the local part; none if they are not those that the log names.
    pub(crate) fn read(&self, key: ImageKey, file: ImageFile) -> Option<[Bytes; 2]> {
        let (_, both) = read_stamped(self.disk.as_ref(), &key.path()).ok()??;
        let (mut both, n) = (Bytes::from(both), usize::try_from(file.machine_bytes).ok()?);
        let is_whole = both.len() as u64 == file.machine_bytes.checked_add(file.local_bytes)?;
        let machine = is_whole.then(|| both.split_to(n))?;
        (crc32c(&machine) == file.checksum).then_some([machine, both])
    }

    /// Reads the piece of the machine's bytes at `offset`; none if there is none.
    pub(crate) fn file_piece(&self, key: ImageKey, file: ImageFile, offset: u64) -> Option<Bytes> {
        let rest = file.machine_bytes.checked_sub(offset).filter(|rest| *rest > 0)?;
        let n = usize::try_from(rest).map_or(self.piece_bytes, |rest| rest.min(self.piece_bytes));
        let file = File::open(self.disk.as_ref(), &key.path()).ok()?;
        let piece = file.read(STAMPED_PAYLOAD_AT + offset, n).ok()?;
        (piece.len() == n).then(|| piece.into())
    }

    /// The piece of a machine's bytes at `offset`; none if there is none.
    pub(crate) fn piece(&self, machine: &Bytes, offset: u64) -> Option<Bytes> {
        let offset = usize::try_from(offset).ok().filter(|offset| *offset < machine.len())?;
        Some(machine.slice(offset..machine.len().min(offset + self.piece_bytes)))
    }

    fn write(&self, write: &ImageWrite, wal: &Wal) -> Result<()> {
        self.sweep(wal)?;
        let mut both = Cow::Borrowed(&*write.machine);
        if !write.local.is_empty() {
            both.to_mut().extend_from_slice(&write.local);
        }
        self.disk.create_dir(IMAGES_DIR).context("create", IMAGES_DIR)?;
        sync_name(self.disk.as_ref(), IMAGES_DIR)?;
        write_stamped(self.disk.as_ref(), &write.key.path(), wal.stamp(), &both)
    }
}

impl Replaced {
    fn take_due(&mut self, synced: Lsn) -> Self {
        let files = self.files.extract_if(.., |(after, _)| *after <= synced).collect();
        let ends = self.ends.extract_if(.., |(after, _)| *after <= synced).collect();
        Self { files, ends }
    }
}

/// An image that is to be written to a file.
#[derive(Debug)]
pub struct ImageWrite {
    pub(crate) key: ImageKey,
    pub(crate) machine: Bytes,
    pub(crate) local: Bytes,
}

impl ImageWrite {
    /// Writes the file; durable when this returns, unless it failed. **Blocks**: the host has no lock.
    #[must_use = "the group waits for it"]
    pub fn write(self, images: &ImageStore, wal: &Wal) -> ImageWritten {
        let file = ImageFile {
            machine_bytes: self.machine.len() as u64,
            local_bytes: self.local.len() as u64,
            checksum: crc32c(&self.machine),
        };
        let outcome = images.write(&self, wal).map(|()| file);
        stdx::lock(&images.files).there.insert(self.key);
        ImageWritten { key: self.key, outcome }
    }
}

/// The outcome of writing an image.
#[derive(Debug)]
pub struct ImageWritten {
    pub(crate) key: ImageKey,
    /// The file, or why there is none.
    pub outcome: std::result::Result<ImageFile, FileError>,
}

impl ImageWritten {
    /// Gives up a file whose group is gone or has no use for it: no entry has ever named it.
    pub fn discard(&self, images: &ImageStore) {
        let mut files = stdx::lock(&images.files);
        if files.there.remove(&self.key) {
            files.replaced.files.push((Lsn(0), self.key));
        }
    }
}
