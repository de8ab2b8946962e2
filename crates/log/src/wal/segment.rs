//! The segment files: names, writing, growing, recycling.
//!
//! `<dir>/00000000000000000042.wal` is segment 42, `<dir>/spare-00000000000000000007.wal` a freed
//! file. A new segment's file is a spare one renamed, or a new one. Before anything is written to a
//! segment its predecessor is completely synced, so only the newest segment can end torn.

use std::sync::Arc;

use super::buffer::Pending;
use super::extent::{ExtentFile, LogExtent};
use super::{Lsn, SegmentId, WalOptions};
use segments::{Digits, Disk, File, IoContext as _, NameForm, Result, remove, sync_dir};

use crate::block::{
    BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader, BlockType, FIRST_BLOCK_AT, next_block_at,
};

/// A file that has never been written grows by this many zeroes at a time: a sync in front of its
/// end then has no file length and no block allocation to make durable. Measured: a commit to a new
/// segment then costs what it costs in a reused one, without it 1.4 times as much.
const GROW_BYTES: u64 = 256 << 10;
/// Larger blocks grow the file themselves; writing those bytes twice would cost more.
const GROW_FOR_BLOCKS_BELOW: u64 = GROW_BYTES / 4;

const _: () = assert!(GROW_FOR_BLOCKS_BELOW < GROW_BYTES);

const SEGMENT: NameForm = NameForm::new(Digits::Decimal(20), ".wal");
const SPARE: NameForm = NameForm { prefix: "spare-", ..SEGMENT };

/// The kind of a file in the log's directory, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileName {
    Segment(SegmentId),
    Spare(SegmentId),
}

impl FileName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let segment = SEGMENT.parse(name).map(|id| Self::Segment(SegmentId(id)));
        segment.or_else(|| SPARE.parse(name).map(|id| Self::Spare(SegmentId(id))))
    }

    pub(super) fn path(self, dir: &str) -> String {
        match self {
            Self::Segment(SegmentId(id)) => SEGMENT.path(dir, id),
            Self::Spare(SegmentId(id)) => SPARE.path(dir, id),
        }
    }
}

/// The segment being written.
#[derive(Debug)]
struct Current {
    id: SegmentId,
    file: File,
    /// Where the next block goes.
    at: u64,
    /// The file's length.
    length: u64,
}

/// All segment files, as the commit thread sees them.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    disk: Arc<dyn Disk>,
    dir: String,
    salt: u64,
    segment_bytes: u64,
    spare_max: usize,
    spares: Vec<SegmentId>,
    current: Current,
    told: ExtentFile,
    written: Lsn,
    synced: Lsn,
    unsynced_bytes: usize,
}

/// The files that [`SegmentFiles::start`] builds on.
pub(super) struct FoundSegments {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) salt: u64,
    pub(super) spares: Vec<SegmentId>,
    /// The oldest segment that holds entries.
    pub(super) oldest: Option<SegmentId>,
    pub(super) told: ExtentFile,
    pub(super) upto: Lsn,
}

impl SegmentFiles {
    /// Begins segment `id` behind everything that was found; it exists durably afterwards.
    pub(super) fn start(found: FoundSegments, id: SegmentId, options: &WalOptions) -> Result<Self> {
        let FoundSegments { disk, salt, mut spares, oldest, told, upto } = found;
        let current = open_segment(disk.as_ref(), &options.dir, &mut spares, id)?;
        let mut files = Self {
            disk,
            dir: options.dir.clone(),
            salt,
            segment_bytes: options.segment_bytes,
            spare_max: options.spare_segments,
            spares,
            current,
            told,
            written: upto,
            synced: upto,
            unsynced_bytes: 0,
        };
        files.write_segment_header()?;
        files.sync()?;
        files.tell(oldest.unwrap_or(id))?;
        files.keep_spares(options.spare_segments)?;
        Ok(files)
    }

    /// Keeps no more than so many freed files from now on.
    pub(super) fn keep_spares(&mut self, spare_max: usize) -> Result<()> {
        self.spare_max = spare_max;
        while self.spares.len() > self.spare_max {
            let Some(id) = self.spares.pop() else { break };
            remove(self.disk.as_ref(), &FileName::Spare(id).path(&self.dir))?;
        }
        Ok(())
    }

    pub(super) const fn current(&self) -> SegmentId {
        self.current.id
    }

    pub(super) const fn written(&self) -> Lsn {
        self.written
    }

    pub(super) const fn synced(&self) -> Lsn {
        self.synced
    }

    pub(super) const fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Bytes of entries written and not synced.
    pub(super) const fn unsynced_bytes(&self) -> usize {
        self.unsynced_bytes
    }

    /// Writes one block, in a new segment if it says so. Returns the entry bytes synced on the way.
    pub(super) fn write(&mut self, block: &mut Pending) -> Result<usize> {
        let mut synced = 0;
        if block.segment != self.current.id {
            synced = self.sync()?;
            self.roll(block.segment)?;
        }
        let payload = block.bytes.len() - BLOCK_HEADER_BYTES;
        let header = BlockHeader {
            block_type: BlockType::Entries,
            is_owned: true,
            is_told: false,
            payload_bytes: u32::try_from(payload).expect("segments and appends are below 4 GiB"),
            salt: self.salt,
            segment: self.current.id.0,
            first: block.first.0,
            synced: self.synced.0,
            entries: block.entries,
        };
        assert_eq!(block.first.0, self.written.0 + 1, "a block is missing or out of order");
        assert!(block.entries > 0 && payload > 0, "a block without entries means a proper close");
        header.seal(&mut block.bytes);
        self.put(&block.bytes)?;
        self.written = Lsn(self.written.0 + u64::from(block.entries));
        self.unsynced_bytes += payload;
        Ok(synced)
    }

    /// Makes everything written durable. Returns the entry bytes that were not before.
    pub(super) fn sync(&mut self) -> Result<usize> {
        self.current.file.sync()?;
        assert!(self.synced <= self.written, "entries are synced once they are written");
        self.synced = self.written;
        Ok(std::mem::take(&mut self.unsynced_bytes))
    }

    fn roll(&mut self, id: SegmentId) -> Result<()> {
        assert!(id > self.current.id && self.unsynced_bytes == 0, "the one before is complete");
        self.current = open_segment(self.disk.as_ref(), &self.dir, &mut self.spares, id)?;
        self.write_segment_header()?;
        self.tell(self.told.extent().oldest)
    }

    /// Tells durably what there is of the log.
    fn tell(&mut self, oldest: SegmentId) -> Result<()> {
        let newest = self.current.id;
        let extent = self.told.extent();
        self.told.tell(LogExtent { oldest, newest, synced: self.synced, ..extent })
    }

    /// Tells how far the log is synced: see `extent.rs`.
    pub(super) fn tell_synced(&mut self) {
        self.told.tell_synced(self.synced);
    }

    fn write_segment_header(&mut self) -> Result<()> {
        self.put_empty(BlockType::Segment)?;
        assert_eq!(self.current.at, FIRST_BLOCK_AT, "the header is the first block");
        Ok(())
    }

    /// Writes a block without entries as the last one: by saying that everything in front of it is
    /// synced, it lets the next start tell a damaged block there from a torn one.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.put_empty(BlockType::Entries)?;
        self.current.file.sync()?;
        self.tell(self.told.extent().oldest)
    }

    fn put_empty(&mut self, block_type: BlockType) -> Result<()> {
        let mut block = [0; BLOCK_HEADER_BYTES];
        let header = BlockHeader {
            block_type,
            is_owned: true,
            is_told: block_type == BlockType::Segment,
            payload_bytes: 0,
            salt: self.salt,
            segment: self.current.id.0,
            first: self.written.0 + 1,
            synced: self.synced.0,
            entries: 0,
        };
        header.seal(&mut block);
        self.put(&block)
    }

    fn put(&mut self, block: &[u8]) -> Result<()> {
        let current = &mut self.current;
        assert!(current.at.is_multiple_of(BLOCK_ALIGN), "a block begins where one is looked for");
        let length = block.len() as u64;
        let end = current.at + length;
        if end > current.length && length < GROW_FOR_BLOCKS_BELOW {
            let grown = (end + GROW_BYTES).min(self.segment_bytes).max(end);
            let zeroes = usize::try_from(grown - current.length).expect("a step fits in memory");
            let written = current.file.handle().write_at(current.length, &vec![0; zeroes]);
            written.context("grow", current.file.name())?;
            current.length = grown;
        }
        current.file.write(current.at, block)?;
        current.length = current.length.max(end);
        current.at = next_block_at(end);
        Ok(())
    }

    /// Recycles freed segments, once it is told that the log begins with `oldest`.
    pub(super) fn free(&mut self, freed: &[SegmentId], oldest: SegmentId) -> Result<()> {
        assert!(freed.iter().all(|id| *id < oldest), "what is told to be there is not freed");
        self.tell(oldest)?;
        freed.iter().try_for_each(|id| self.recycle(*id))
    }

    /// Turns the file of a freed segment into a spare one, or deletes it; durable when it returns,
    /// so that no newer segment disappears before an older one.
    pub(super) fn recycle(&mut self, id: SegmentId) -> Result<()> {
        let name = FileName::Segment(id).path(&self.dir);
        let length = File::open(self.disk.as_ref(), &name)?.size()?;
        if self.spares.len() < self.spare_max && length <= self.segment_bytes {
            let spare = FileName::Spare(id).path(&self.dir);
            self.disk.rename(&name, &spare).context("rename", &name)?;
            self.spares.push(id);
        } else {
            remove(self.disk.as_ref(), &name)?;
        }
        sync_dir(self.disk.as_ref(), &self.dir)
    }
}

/// The file of a new segment under its name: a spare one, or a new one.
fn open_segment(
    disk: &dyn Disk,
    dir: &str,
    spares: &mut Vec<SegmentId>,
    id: SegmentId,
) -> Result<Current> {
    let name = FileName::Segment(id).path(dir);
    let file = if let Some(spare) = spares.pop() {
        let spare = FileName::Spare(spare).path(dir);
        disk.rename(&spare, &name).context("rename", &spare)?;
        File::open(disk, &name)?
    } else {
        File::create(disk, &name)?
    };
    sync_dir(disk, dir)?;
    let length = file.size()?;
    Ok(Current { id, file, at: 0, length })
}
