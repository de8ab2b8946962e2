//! Reading the log back after a start, and telling the torn end of a crash from corruption.
//!
//! After a crash only the newest segment can miss something at its end, and only entries nobody was
//! told about. Entries are numbered without gaps, so:
//! - a segment that ends before its successor begins has lost entries: corrupt;
//! - a segment without a valid header is one that was just begun; if its successor shows that there
//!   were entries in it: corrupt;
//! - an unreadable block in the newest segment is a torn end, unless a later block says that it was
//!   written after that one had been synced: then it is corrupt.
//!
//! Which segments there must be, and up to where they were synced, stands in a file beside the log's
//! directory (see `extent.rs`): what is missing there keeps the log from being opened, and is not
//! taken for a torn end.
//!
//! A segment is never continued by a later run: the new run begins a segment of its own. Blocks left
//! behind a torn end can therefore never become part of the log again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::extent::{ExtentFile, LOG_FILE, LogExtent, Told};
use super::segment::{FileName, FoundSegments, SegmentFiles};
use super::table::LiveSegment;
use super::{Entry, EntryAddress, Lsn, NodeId, RefusedEntry, SegmentId, WalOptions};
use segments::{Disk, File, FileError, IoContext as _, Stamp, Window, list_if_there, sync_name};

use crate::error::{LogError, Result};

use crate::block::{
    BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader, BlockType, MAGIC, NotABlock, RawEntry, VERSION,
    crc_matches, next_block_at, split_entry,
};

/// Bytes read in front of a place whose block is looked for.
const LOOK_BACK_BYTES: u64 = 256 << 10;
/// Bytes of a read.
const READ_BYTES: usize = 1 << 20;

/// The caller of `open`.
pub(super) type Visit<'v> = &'v mut dyn FnMut(Entry<'_>) -> std::result::Result<(), RefusedEntry>;

pub(super) struct RecoveredLog {
    pub(super) files: SegmentFiles,
    /// The surviving segments, and the new one at the end.
    pub(super) segments: VecDeque<LiveSegment>,
}

/// A log that was read to its end. Nothing was touched for that.
#[derive(Debug)]
pub struct WalFound {
    scan: Scan,
    told: Option<Told>,
    identity: u64,
    /// The node whose log it is.
    pub node: NodeId,
    has_dir: bool,
    spares: Vec<SegmentId>,
    newest: SegmentId,
    last: Option<SegmentReader>,
    tail: Option<Tail>,
}

/// Bytes behind the end of the log that look as if they had been written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The newest segment file with entries.
    pub file: String,
    /// The byte at which the readable part of the file ends.
    pub offset: u64,
    /// Unreadable bytes from there on.
    pub bytes: u64,
    /// The last entry there is.
    pub upto: Lsn,
    /// The entry up to which the log is known to have been synced, if anything tells.
    pub synced: Option<Lsn>,
}

impl WalFound {
    /// Shows `visit` every surviving entry, oldest first.
    ///
    /// # Errors
    /// [`FileError::Missing`], [`LogError::CutOff`] and [`FileError::Corrupt`] if entries are not there
    /// that had been synced, [`FileError::Newer`] for a log of a newer version, [`LogError::Refused`]
    /// if `visit` refuses one, and disk errors.
    pub fn read(disk: &Arc<dyn Disk>, options: &WalOptions, visit: Visit<'_>) -> Result<Self> {
        let told = Told::read(disk.as_ref())?;
        let names = list_if_there(disk.as_ref(), &options.dir)?;
        let has_dir = names.is_some();
        let names = names.unwrap_or_default();
        let files = || names.iter().filter_map(|name| FileName::parse(name));
        check_presence(files(), told, &options.dir)?;
        let told_identity = told.map(|told| told.extent.identity);
        let mut scan = Scan { told_identity, ..Scan::default() };
        let (mut spares, mut newest, mut last) = (Vec::new(), SegmentId(0), None);
        for name in files() {
            let (FileName::Segment(id) | FileName::Spare(id)) = name;
            newest = newest.max(id);
            match name {
                FileName::Spare(id) => spares.push(id),
                FileName::Segment(id) => {
                    let mut file = SegmentReader::open(disk.as_ref(), id, &options.dir)?;
                    let is_used = scan.segment(&mut file, visit)?;
                    scan.previous_end = Some((file.file().name().to_owned(), file.end));
                    last = if is_used { Some(file) } else { last };
                }
            }
        }
        // A proper close ends the log: looking for blocks behind it would cost reading the whole file.
        let mut tail_bytes = 0;
        if let Some(last) = last.as_mut().filter(|last| !last.is_closed) {
            tail_bytes = scan.check_end(last)?;
        }
        let identity = told_identity.or(scan.salt).unwrap_or(options.given.salt);
        let tail = last.as_ref().filter(|_| tail_bytes > 0).map(|last| Tail {
            file: last.file().name().to_owned(),
            offset: last.end,
            bytes: tail_bytes,
            upto: scan.upto(),
            synced: told.map(|told| told.extent.synced),
        });
        let told_node = told.map(|told| told.extent.node).filter(|node| *node != NodeId(0));
        let node = told_node.unwrap_or(options.given.node);
        let found = Self { scan, told, identity, node, has_dir, spares, newest, last, tail };
        let synced = told.map_or(Lsn(0), |told| told.extent.synced);
        found.check(LOG_FILE, Stamp { identity, synced })?;
        Ok(found)
    }

    /// A log without entries that goes on behind others: those up to the stamp's, and the segment
    /// `newest`; of this node.
    #[must_use]
    pub fn anew(stamp: Stamp, newest: SegmentId, node: NodeId) -> Self {
        let next = Some(Lsn(stamp.synced.0 + 1));
        Self {
            scan: Scan { first: next, next, ..Scan::default() },
            told: None,
            identity: stamp.identity,
            node,
            has_dir: false,
            spares: Vec::new(),
            newest,
            last: None,
            tail: None,
        }
    }

    /// Bytes that cannot be read behind the end of the log; nothing of them is known to have been synced.
    pub const fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// Whether there is no log yet.
    pub const fn is_new(&self) -> bool {
        self.newest.0 == 0
    }

    /// The first entry there is; if there is none, the first there will be.
    #[must_use]
    pub fn first(&self) -> Lsn {
        self.scan.first.unwrap_or(Lsn(1))
    }

    /// Whether a file with this stamp may stand beside this log.
    ///
    /// # Errors
    /// [`LogError::Foreign`] if it belongs to another log, [`LogError::CutOff`] if this one ends
    /// before it was synced up to.
    pub fn check(&self, file: &str, stamp: Stamp) -> Result<()> {
        if stamp.identity != self.identity {
            let what = "the file belongs to another log than the one in wal/";
            return Err(LogError::Foreign { file: file.to_owned(), what });
        }
        let upto = self.upto();
        if stamp.synced > upto {
            let (file_of_log, offset) = self.scan.previous_end.clone().unwrap_or_default();
            let (synced, told_by) = (stamp.synced, file.to_owned());
            return Err(LogError::CutOff { file: file_of_log, offset, upto, synced, told_by });
        }
        Ok(())
    }

    fn upto(&self) -> Lsn {
        self.scan.upto()
    }

    /// Starts the log that was read: what was read becomes durable, and a new segment begins.
    pub(super) fn start(self, disk: Arc<dyn Disk>, options: &WalOptions) -> Result<RecoveredLog> {
        if !self.has_dir {
            disk.create_dir(&options.dir).context("create", &options.dir)?;
            sync_name(disk.as_ref(), &options.dir)?;
        }
        if let Some(last) = &self.last {
            // After a kill the tail may be in the page cache only. The new segment builds on it.
            last.window.file().sync()?;
        }
        let (upto, salt, spares) = (self.upto(), self.identity, self.spares);
        options.stamper.begin(Stamp { identity: salt, synced: upto });
        let told = ExtentFile::open(disk.as_ref(), self.told, salt, self.node)?;
        let id = SegmentId(self.newest.0 + 1);
        let oldest = self.scan.segments.front().map(|segment| segment.id);
        let mut files = SegmentFiles::start(
            FoundSegments { disk, salt, spares, oldest, told, upto },
            id,
            options,
        )?;
        // Newest first: a crash in between must not leave one without a header at the front.
        for unused in self.scan.unused.into_iter().rev() {
            files.recycle(unused)?;
        }
        let mut segments = self.scan.segments;
        segments.push_back(LiveSegment::new(id));
        Ok(RecoveredLog { files, segments })
    }
}

/// Compares the segments that are there with what is told of them.
pub(super) fn check_presence(
    files: impl Iterator<Item = FileName>,
    told: Option<Told>,
    dir: &str,
) -> Result<()> {
    let Some(LogExtent { oldest, newest, .. }) = told.map(|told| told.extent) else {
        return Ok(());
    };
    if newest == SegmentId(0) {
        return Ok(());
    }
    let segments = files.filter_map(|name| match name {
        FileName::Segment(id) => Some(id),
        FileName::Spare(_) => None,
    });
    // Names are listed in order, with the number at a fixed width.
    let (first, last) =
        segments.fold((None, None), |(first, _), id| (first.or(Some(id)), Some(id)));
    let path = |id| FileName::Segment(id).path(dir);
    let file = match (first, last) {
        (Some(first), _) if first > oldest => path(oldest),
        (_, Some(last)) if last < newest => path(newest),
        (Some(_), Some(_)) => return Ok(()),
        (_, _) => dir.to_owned(),
    };
    let what =
        format!("{LOG_FILE} lists segments {} to {}; is a volume not mounted?", oldest.0, newest.0);
    Err(FileError::Missing { file, what }.into())
}

#[derive(Debug, Default)]
struct Scan {
    salt: Option<u64>,
    /// The identity the log must have, if that is told.
    told_identity: Option<u64>,
    /// Position of the first entry.
    first: Option<Lsn>,
    /// Name of the segment file read last, and where its valid blocks end.
    previous_end: Option<(String, u64)>,
    /// The position the next block must begin with, once a segment has been seen.
    next: Option<Lsn>,
    /// Segments that hold entries.
    segments: VecDeque<LiveSegment>,
    /// Segments that hold none.
    unused: Vec<SegmentId>,
}

impl Scan {
    /// Reads a segment up to its end. False if it has no valid header, so was never used.
    fn segment(&mut self, file: &mut SegmentReader, visit: Visit<'_>) -> Result<bool> {
        let Some(header) = self.segment_header(file)? else {
            // Left by a crash while the segment was begun, so nothing in it was synced. Such a file
            // goes away before anything is freed: nothing in front of it means an empty log.
            self.unused.push(file.id);
            self.next.get_or_insert(Lsn(1));
            return self.check_end(file).map(|_| false);
        };
        if self.next.is_some_and(|next| next.0 != header.first) {
            let what = "entries between this segment and the next are missing";
            let (file, offset) = self.previous_end.take().unwrap_or_default();
            return Err(FileError::Corrupt { file, offset, what }.into());
        }
        self.salt = Some(header.salt);
        self.first.get_or_insert(Lsn(header.first));
        let mut next = Lsn(header.first);
        let mut segment = LiveSegment::new(file.id);
        file.end = next_block_at(header.block_bytes());
        while let Some(header) = file.block_at(file.end)? {
            let fits = header.block_type == BlockType::Entries && header.first == next.0;
            if !fits || Some(header.salt) != self.salt {
                break;
            }
            file.visit_entries(&header, visit)?;
            segment.entries += u64::from(header.entries);
            segment.bytes += u64::from(header.payload_bytes);
            next = Lsn(next.0 + u64::from(header.entries));
            file.end = next_block_at(file.end + header.block_bytes());
            file.is_closed = header.entries == 0;
        }
        self.next = Some(next);
        if segment.entries > 0 {
            self.segments.push_back(segment);
        } else {
            self.unused.push(file.id);
        }
        Ok(true)
    }

    fn segment_header(&self, file: &mut SegmentReader) -> Result<Option<BlockHeader>> {
        if let Some(bytes) = file.window.whole(0, BLOCK_HEADER_BYTES)?
            && let Err(NotABlock::Newer(found)) = BlockHeader::read(bytes)
        {
            let (found, known) = (u32::from(found), u32::from(VERSION));
            return Err(
                FileError::Newer { file: file.file().name().to_owned(), found, known }.into()
            );
        }
        let header = file.block_at(0)?.filter(|header| header.block_type == BlockType::Segment);
        if let Some(header) = &header {
            self.check_identity(header, file.file().name())?;
        }
        Ok(header)
    }

    /// Checks that all segments are of one log, and of the one that is told of.
    fn check_identity(&self, header: &BlockHeader, file: &str) -> Result<()> {
        let file = file.to_owned();
        if self.told_identity.is_none() && header.is_told {
            let what = "the file lists the segments of the log in wal/".to_owned();
            return Err(FileError::Missing { file: LOG_FILE.to_owned(), what }.into());
        }
        if self.told_identity.or(self.salt).is_some_and(|identity| identity != header.salt) {
            let what = "the segment belongs to another log than the other segments or leveret-log";
            return Err(LogError::Foreign { file, what });
        }
        Ok(())
    }

    fn upto(&self) -> Lsn {
        Lsn(self.next.map_or(0, |next| next.0 - 1))
    }

    /// Looks behind the end of a segment for a block that proves the end to be no torn one. Returns
    /// how many bytes lie there up to the last that belongs to a block of this segment, whole or not.
    fn check_end(&self, file: &mut SegmentReader) -> Result<u64> {
        let first_lost = self.next.unwrap_or(Lsn(1));
        let (mut at, mut unreadable_upto) = (file.end, file.end);
        while at < file.length() {
            if file.window.whole(at, MAGIC.len())?.is_some_and(|bytes| bytes == MAGIC)
                && let Some(header) = file.block_at(at)?
                && self.salt.is_none_or(|salt| salt == header.salt)
                && header.synced >= first_lost.0
            {
                return Err(file.file().corrupt(file.end, "a synced block is damaged").into());
            }
            if let Some(header) = file.header_at(at)?
                && self.salt.is_none_or(|salt| salt == header.salt)
            {
                unreadable_upto = (at + header.block_bytes()).min(file.length());
            }
            at += BLOCK_ALIGN;
        }
        Ok(unreadable_upto - file.end)
    }
}

/// A segment file that is read from block to block.
#[derive(Debug)]
pub(super) struct SegmentReader {
    id: SegmentId,
    window: Window,
    /// Where the valid blocks end, as far as read.
    pub(super) end: u64,
    /// Whether the last of them is the one a proper close writes.
    is_closed: bool,
}

impl SegmentReader {
    pub(super) fn open(disk: &dyn Disk, id: SegmentId, dir: &str) -> Result<Self> {
        let file = File::open(disk, &FileName::Segment(id).path(dir))?;
        let length = file.size()?;
        let window = Window::new(file, length, READ_BYTES..=READ_BYTES);
        Ok(Self { id, window, end: 0, is_closed: false })
    }

    pub(super) const fn id(&self) -> SegmentId {
        self.id
    }

    pub(super) const fn file(&self) -> &File {
        self.window.file()
    }

    pub(super) const fn length(&self) -> u64 {
        self.window.end()
    }

    /// Reads bytes that look like the header of a block of this segment.
    fn header_at(&mut self, at: u64) -> Result<Option<BlockHeader>> {
        let id = self.id;
        let Some(bytes) = self.window.whole(at, BLOCK_HEADER_BYTES)? else { return Ok(None) };
        Ok(BlockHeader::read(bytes).ok().filter(|header| header.segment == id.0))
    }

    /// Reads as [`Self::header_at`] does, for a search that comes from behind.
    pub(super) fn header_before(&mut self, at: u64) -> Result<Option<BlockHeader>> {
        if self.window.read_from().is_none_or(|from| at < from) {
            self.window.bytes(at.saturating_sub(LOOK_BACK_BYTES), 1)?;
        }
        self.header_at(at)
    }

    /// The header of the block at `at`, if there is a whole valid block of this segment.
    pub(super) fn block_at(&mut self, at: u64) -> Result<Option<BlockHeader>> {
        let Some(header) = self.header_at(at)? else { return Ok(None) };
        let Ok(length) = usize::try_from(header.block_bytes()) else { return Ok(None) };
        let block = self.window.whole(at, length)?;
        Ok(block.filter(|block| crc_matches(block)).map(|_| header))
    }

    /// Shows the entries of the valid block at `end`.
    pub(super) fn visit_entries(&mut self, header: &BlockHeader, visit: Visit<'_>) -> Result<()> {
        let (segment, file, at) = (self.id, self.file().clone(), self.end);
        let length = BLOCK_HEADER_BYTES + header.payload_bytes as usize;
        let block = self.window.whole(at, length)?.unwrap_or_default();
        let mut rest = block.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        for idx in 0..u64::from(header.entries) {
            let offset = at + (length - rest.len()) as u64;
            let Some((RawEntry { kind, owner, payload }, behind)) =
                split_entry(rest, header.is_owned)
            else {
                return Err(file
                    .corrupt(at, "a block with a valid checksum has a malformed entry")
                    .into());
            };
            let lsn = Lsn(header.first + idx);
            let address =
                |offset, bytes| Some((u32::try_from(offset).ok()?, u32::try_from(bytes).ok()?));
            let Some((offset, bytes)) = address(offset, rest.len() - behind.len()) else {
                return Err(file
                    .corrupt(at, "an entry lies behind the first 4 GiB of its segment")
                    .into());
            };
            let at = EntryAddress { segment, offset, bytes };
            if let Err(RefusedEntry(reason)) = visit(Entry { at, lsn, owner, kind, payload }) {
                return Err(LogError::Refused { file: file.name().to_owned(), lsn, reason });
            }
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(file
                .corrupt(at, "a block with a valid checksum has bytes behind its entries")
                .into());
        }
        Ok(())
    }
}
