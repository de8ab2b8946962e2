//! The opening of a log: which files there are, where the last segment ends, and what is cut off.
//!
//! Below the *synced* mark of the last segment's index nothing is read but the last chunk. Behind it
//! every chunk is verified, up to the first that is torn: that and what follows is cut off. If nothing of a
//! segment was synced, the one before is looked at likewise. An index that is lost, short or wrong
//! is made anew from its segment.

use std::collections::BTreeSet;
use std::sync::Arc;

use segments::{File, list_if_there, remove, sync_dir};
use streamproto::ChunkHeader;

use crate::damage::Damage;
use crate::damage::Lack;
use crate::error::{ChunkLogError, Result};
use crate::field::size;
use crate::files::StreamFiles;
use crate::index::{
    self, IndexHeader, IndexRecord, RECORD_BYTES, SyncedMark, n_records, record_at,
};
use crate::scan::Scan;
use crate::segment::{self, FileName, First, SEGMENT_HEADER_BYTES};
use crate::shared::LogEnd;
use crate::table::StreamNote;

/// A limit above the chunks of any segment.
pub(crate) const CHUNKS_LIMIT: u64 = 2 * crate::retention::SEGMENT_CHUNKS_MAX;

/// The last chunk that was synced is verified at the start if it is no larger: it is what a crash or a bad
/// copy damages first.
const LAST_CHUNK_BYTES_MAX: u64 = 1 << 20;

/// The index's first bytes, which hold all of a small one.
const HEAD_BYTES: u64 = 4 << 10;

const _: () = assert!(crate::retention::SEGMENT_CHUNKS_MAX < CHUNKS_LIMIT);

/// The findings of the opening of a log, for the host to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Where the log ends.
    pub end: LogEnd,
    /// The epoch of the last chunk, which is the highest; none if there is no chunk.
    pub epoch: Option<u64>,
    /// The time of the last chunk: milliseconds since 1970.
    pub last_timestamp_ms: Option<i64>,
    /// Whether no log was there yet.
    pub is_new: bool,
    /// Everything that was cut off: bytes that are no whole chunks, or follow on such.
    pub cut: Vec<Cut>,
    /// Chunks that were synced and are damaged. They stay where they are.
    pub damaged: Vec<Damage>,
    /// The lack that was accepted before.
    pub lost: Option<Lack>,
    /// Indexes that were made anew, in part or all.
    pub n_indexes_rebuilt: u64,
}

/// Bytes that were cut off at an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file, relative to the disk's root.
    pub file: String,
    /// How many bytes.
    pub bytes: u64,
    /// Messages in them that had been written whole, as the index says: all but those of the last write were
    /// handed to the system before the crash.
    pub n_messages: u64,
}

/// The end of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentEnd {
    pub(crate) first: First,
    pub(crate) n_chunks: u64,
    pub(crate) position: u64,
    pub(crate) next_offset: u64,
    pub(crate) last: Option<LastChunk>,
    pub(crate) synced: SyncedMark,
}

/// The last chunk of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastChunk {
    pub(crate) chunk_id: u64,
    pub(crate) epoch: u64,
    pub(crate) timestamp_ms: i64,
}

impl LastChunk {
    pub(crate) const fn of(header: &ChunkHeader) -> Self {
        let ChunkHeader { chunk_id, epoch, timestamp_ms, .. } = *header;
        Self { chunk_id, epoch, timestamp_ms }
    }
}

impl SegmentEnd {
    pub(crate) const fn beginning(first: First, synced: SyncedMark) -> Self {
        let (n_chunks, position) = (0, SEGMENT_HEADER_BYTES);
        Self { first, n_chunks, position, next_offset: first.offset, last: None, synced }
    }

    pub(crate) const fn mark(&self) -> SyncedMark {
        SyncedMark { position: self.position, n_chunks: self.n_chunks }
    }

    fn is_synced(&self) -> bool {
        self.synced == self.mark()
    }

    pub(crate) const fn log_end(&self) -> LogEnd {
        assert!(self.next_offset >= self.first.offset, "offsets rise");
        let last_chunk_id = match self.last {
            Some(last) => Some(last.chunk_id),
            None => None,
        };
        LogEnd {
            next_ordinal: self.first.ordinal + self.n_chunks,
            next_offset: self.next_offset,
            last_chunk_id,
            segment: self.first.offset,
            position: self.position,
        }
    }
}

/// The log in a directory: its segments by first offset, and the end of the last.
#[derive(Debug)]
pub(crate) struct FoundLog {
    pub(crate) segments: Vec<u64>,
    pub(crate) tail: SegmentEnd,
    /// Segments before it that are not synced.
    pub(crate) left: Vec<SegmentEnd>,
    pub(crate) report: Recovered,
}

/// Opens the log in `dir`; none if there is none.
/// Nothing is touched if something of what was noted of it is not there.
pub(crate) fn recover(
    files: &Arc<StreamFiles>,
    dir: &str,
    note: Option<StreamNote>,
) -> Result<Option<FoundLog>> {
    let names = list_if_there(files.disk(), dir)?.unwrap_or_default();
    let names: BTreeSet<FileName> = names.iter().filter_map(|name| FileName::parse(name)).collect();
    let report = Recovered::default();
    let mut recovery = Recovery { files, dir, note, segments: Vec::new(), report };
    let names = recovery.without_removed(names)?;
    recovery.sort(&names)?;
    let Some((tail, left)) = recovery.find_tail()? else { return Ok(None) };
    let Recovery { segments, mut report, .. } = recovery;
    report.end = tail.log_end();
    report.epoch = tail.last.map(|last| last.epoch);
    report.last_timestamp_ms = tail.last.map(|last| last.timestamp_ms);
    Ok(Some(FoundLog { segments, tail, left, report }))
}

struct Recovery<'f> {
    files: &'f Arc<StreamFiles>,
    dir: &'f str,
    note: Option<StreamNote>,
    segments: Vec<u64>,
    report: Recovered,
}

impl Recovery<'_> {
    /// Removes segments before the first that is noted: they were about to be removed.
    fn without_removed(&self, names: BTreeSet<FileName>) -> Result<BTreeSet<FileName>> {
        let Some(note) = self.note else { return Ok(names) };
        let (kept, removed): (BTreeSet<_>, BTreeSet<_>) = names.into_iter().partition(|name| {
            let (FileName::Segment(first) | FileName::Index(first)) = name;
            *first >= note.first
        });
        removed.into_iter().try_for_each(|name| self.remove(name))?;
        Ok(kept)
    }

    /// Sorts the files: indexes without a segment go; a segment without an index gets one.
    fn sort(&mut self, names: &BTreeSet<FileName>) -> Result<()> {
        let mut without_index = Vec::new();
        for name in names {
            match *name {
                FileName::Segment(first) => {
                    self.segments.push(first);
                    if !names.contains(&FileName::Index(first)) {
                        without_index.push(first);
                    }
                }
                FileName::Index(first) if !names.contains(&FileName::Segment(first)) => {
                    self.remove(*name)?;
                }
                FileName::Index(_) => {}
            }
        }
        without_index.retain(|first| self.segments.last() != Some(first));
        for first in without_index {
            let mut opened = Opened::new(self, first)?;
            opened.is_sealed = true;
            opened.recover(&mut self.report)?;
        }
        Ok(())
    }

    /// The end of the last segment with a chunk; those behind are removed. Before it, those that are not
    /// synced.
    fn find_tail(&mut self) -> Result<Option<(SegmentEnd, Vec<SegmentEnd>)>> {
        while !self.segments.is_empty() {
            let from = self.first_unsynced()?;
            let (mut tail, mut left, mut n_good) = (None::<SegmentEnd>, Vec::new(), from);
            for offset in self.segments.get(from..).unwrap_or_default().to_vec() {
                let Some(end) = self.recover_after(tail.as_ref(), offset, from == 0)? else {
                    break;
                };
                left.extend(tail.replace(end).filter(|end| !end.is_synced()));
                n_good += 1;
            }
            let n_dropped = self.segments.len() - n_good;
            for _ in 0..n_dropped {
                self.drop_last()?;
            }
            if n_dropped > 0 {
                sync_dir(self.files.disk(), self.dir)?;
            }
            if let Some(tail) = tail {
                return Ok(Some((tail, left)));
            }
        }
        Ok(None)
    }

    /// The first segment that may not be durable: if nothing of it is, the one before counts too.
    fn first_unsynced(&self) -> Result<usize> {
        for (n, offset) in self.segments.iter().enumerate().rev() {
            let opened = Opened::new(self, *offset)?;
            if opened.first.is_some() && opened.mark != SyncedMark::NONE {
                return Ok(n);
            }
        }
        Ok(0)
    }

    /// The end of a segment, unless it does not follow on the one before or has no chunk. The only one may be
    /// empty.
    fn recover_after(
        &mut self,
        before: Option<&SegmentEnd>,
        offset: u64,
        is_from_first: bool,
    ) -> Result<Option<SegmentEnd>> {
        let mut opened = Opened::new(self, offset)?;
        match before {
            Some(before) if before.next_offset != offset => return Ok(None),
            Some(before) if opened.mark == SyncedMark::NONE => {
                opened.set_ordinal(before.first.ordinal + before.n_chunks);
            }
            None if is_from_first && opened.first.is_none() => opened.set_ordinal(0),
            Some(_) | None => {}
        }
        let end = opened.recover(&mut self.report)?;
        let may_be_empty = before.is_none() && is_from_first;
        Ok((end.n_chunks > 0 || may_be_empty).then_some(end))
    }

    fn drop_last(&mut self) -> Result<()> {
        let Some(last) = self.segments.pop() else { return Ok(()) };
        let name = FileName::Segment(last).path(self.dir);
        let file = File::open(self.files.disk(), &name)?;
        let bytes = file.size()?.saturating_sub(SEGMENT_HEADER_BYTES);
        let opened = Opened::new(self, last)?;
        let first = First { ordinal: 0, offset: last };
        let n_messages = opened.n_named(&SegmentEnd::beginning(first, SyncedMark::NONE))?;
        if bytes > 0 {
            self.report.cut.push(Cut { file: name, bytes, n_messages });
        }
        self.remove(FileName::Segment(last))?;
        self.remove(FileName::Index(last))
    }

    fn remove(&self, name: FileName) -> Result<()> {
        Ok(remove(self.files.disk(), &name.path(self.dir))?)
    }
}

/// A segment and its index, open, with what their headers say.
#[derive(Debug)]
struct Opened {
    offset: u64,
    first: Option<First>,
    /// Whether a header is to be written anew.
    is_header_damaged: bool,
    /// Whether the segment is neither the last nor in doubt: nothing of it is verified or cut off.
    is_sealed: bool,
    /// The position in the segment up to which it was synced, by the stream's note.
    noted: u64,
    /// The offset behind all that was synced, by the stream's note.
    next_noted: u64,
    identity: u32,
    mark: SyncedMark,
    chunks: OpenFile,
    index: OpenFile,
    index_head: Vec<u8>,
}

/// A file, and the bytes it has when it is opened.
#[derive(Debug)]
struct OpenFile {
    file: File,
    len: u64,
}

impl OpenFile {
    fn open(file: File) -> Result<Self> {
        let len = file.size()?;
        Ok(Self { file, len })
    }

    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.file.read(at, size(bytes.min(self.len.saturating_sub(at))))?)
    }
}

impl Opened {
    fn new(of: &Recovery<'_>, offset: u64) -> Result<Self> {
        let name = |name: FileName| name.path(of.dir);
        let disk = of.files.disk();
        let chunks = OpenFile::open(File::open(disk, &name(FileName::Segment(offset)))?)?;
        let index_name = name(FileName::Index(offset));
        let index = match File::open_if_there(disk, &index_name)? {
            Some(index) => index,
            None => File::create(disk, &index_name)?,
        };
        let index = OpenFile::open(index)?;
        let index_head = index.read(0, HEAD_BYTES)?;
        let IndexHeader { first: of_index, mark } =
            index::decode_header(&index_head, index.file.name())?;
        let head = chunks.read(0, SEGMENT_HEADER_BYTES)?;
        let of_chunks = segment::decode_header(&head, chunks.file.name())?;
        let belongs = |first: &First| first.offset == offset;
        let (of_index, of_chunks) = (of_index.filter(belongs), of_chunks.filter(belongs));
        let is_header_damaged = of_index.is_none() || of_index != of_chunks;
        let first = of_chunks.or(of_index);
        let is_sealed = false;
        let noted = match &of.note {
            Some(note) if offset == note.last => note.position,
            Some(note) if offset < note.last => chunks.len,
            Some(_) | None => 0,
        };
        let told = [segment::identity_of(&head), segment::identity_of(&index_head)];
        let identity = of.note.map_or(0, |note| note.identity);
        let identity = told.into_iter().find(|it| *it != 0).unwrap_or(identity);
        Ok(Self {
            offset,
            first,
            is_header_damaged,
            is_sealed,
            noted,
            next_noted: of.note.map_or(0, |note| note.next_offset),
            identity,
            mark,
            chunks,
            index,
            index_head,
        })
    }

    /// Sets the ordinal of its first chunk, as the segment before tells it.
    fn set_ordinal(&mut self, ordinal: u64) {
        let first = Some(First { ordinal, offset: self.offset });
        self.is_header_damaged |= self.first != first;
        self.first = first;
    }

    fn recover(self, report: &mut Recovered) -> Result<SegmentEnd> {
        let Some(first) = self.first else {
            let what = "the headers of the segment and of its index are both damaged";
            return Err(self.chunks.file.corrupt(0, what).into());
        };
        let mut scan = Scan::new(self.chunks.file.clone(), self.chunks.len);
        let trusted = self.trusted(first, &mut scan, report)?;
        let from = trusted.unwrap_or_else(|| SegmentEnd::beginning(first, SyncedMark::NONE));
        let verify_from = if self.is_sealed { u64::MAX } else { self.mark.position };
        let (mut end, walked) = walk(&mut scan, from, verify_from, self.noted)?;
        let Walked { records, damaged } = walked;
        if end.position < self.noted {
            return Err(self.lost(&end));
        }
        report.damaged.extend(damaged);
        let n_messages = self.n_named(&end)?;
        self.mend_index(&from, &mut end, &records, report)?;
        if !self.is_sealed {
            self.cut_chunks(&end, n_messages, report)?;
        }
        Ok(end)
    }

    /// The place of the mark, if index and segment agree on it.
    fn trusted(
        &self,
        first: First,
        scan: &mut Scan,
        report: &mut Recovered,
    ) -> Result<Option<SegmentEnd>> {
        let SyncedMark { position, n_chunks } = self.mark;
        let is_there = position <= self.chunks.len && n_chunks <= n_records(self.index.len);
        let Some(last) = n_chunks.checked_sub(1).filter(|_| is_there) else { return Ok(None) };
        let at = size(record_at(last));
        let record = match self.index_head.get(at..at + size(RECORD_BYTES)) {
            Some(bytes) => IndexRecord::decode(bytes),
            None => IndexRecord::decode(&self.index.read(record_at(last), RECORD_BYTES)?),
        };
        let Some(record) = record else { return Ok(None) };
        let Some(header) = scan.header(record.position)? else { return Ok(None) };
        let agrees = IndexRecord::of(&header, record.position) == record
            && record.position + header.stored_bytes() == position;
        let is_looked_at =
            agrees && !self.is_sealed && header.stored_bytes() <= LAST_CHUNK_BYTES_MAX;
        if is_looked_at && !scan.is_whole(record.position, &header)? {
            report.damaged.push(damaged(scan.file().name(), record.position, &header));
        }
        let last = LastChunk::of(&header);
        Ok(agrees.then(|| SegmentEnd {
            first,
            n_chunks,
            position,
            next_offset: header.next_offset(),
            last: Some(last),
            synced: self.mark,
        }))
    }

    /// Makes the index that of the chunks up to `end`, those from `from` on having these records.
    fn mend_index(
        &self,
        from: &SegmentEnd,
        end: &mut SegmentEnd,
        records: &[u8],
        report: &mut Recovered,
    ) -> Result<()> {
        let at = record_at(from.n_chunks);
        let there = self.index.read(at, self.index.len)?;
        let is_right = there == records;
        // The mark of an index that is made anew below it holds no more.
        let keeps_mark = from.synced == self.mark;
        if self.is_header_damaged || !keeps_mark {
            self.index
                .file
                .write(0, &index::encode_header(end.first, self.identity, from.synced))?;
            self.chunks.file.write(0, &segment::encode_header(end.first, self.identity))?;
        }
        if !is_right {
            self.index.file.write(at, records)?;
            self.index.file.cut(at + records.len() as u64)?;
            report.n_indexes_rebuilt += 1;
        }
        if self.is_header_damaged || !keeps_mark {
            self.index.file.sync()?;
        }
        end.synced = from.synced;
        Ok(())
    }

    fn lost(&self, end: &SegmentEnd) -> ChunkLogError {
        let (name, at) = (self.chunks.file.name(), end.position);
        let what = format!("{name}: the synced chunk at byte {at} is damaged");
        let n_messages = self.next_noted.saturating_sub(end.next_offset);
        ChunkLogError::Lost(Lack { what, n_messages })
    }

    /// Messages behind `end` that the index names.
    fn n_named(&self, end: &SegmentEnd) -> Result<u64> {
        let n = n_records(self.index.len).min(CHUNKS_LIMIT);
        let record = |n: u64| -> Result<Option<IndexRecord>> {
            Ok(IndexRecord::decode(&self.index.read(record_at(n), RECORD_BYTES)?))
        };
        let first = if end.n_chunks < n { record(end.n_chunks)? } else { None };
        let follows = |first: &IndexRecord| {
            (first.first_offset, first.position) == (end.next_offset, end.position)
        };
        if !first.is_some_and(|first| follows(&first)) {
            return Ok(0);
        }
        let mut last = first;
        for n in (end.n_chunks..n).rev() {
            if let Some(found) = record(n)? {
                last = Some(found);
                break;
            }
        }
        let Some(last) = last else { return Ok(0) };
        let mut scan = Scan::new(self.chunks.file.clone(), u64::MAX);
        let header = scan.header(last.position)?;
        let of_last = header.filter(|header| header.chunk_id == last.first_offset);
        let n_last = of_last.map_or(1, |header| u64::from(header.n_records));
        Ok(last.first_offset.saturating_sub(end.next_offset).saturating_add(n_last))
    }

    fn cut_chunks(&self, end: &SegmentEnd, n_messages: u64, report: &mut Recovered) -> Result<()> {
        let bytes = self.chunks.len.saturating_sub(end.position);
        if bytes > 0 {
            self.chunks.file.cut(end.position)?;
            self.chunks.file.sync()?;
            report.cut.push(Cut { file: self.chunks.file.name().to_owned(), bytes, n_messages });
        }
        Ok(())
    }
}

/// A chunk with a wrong checksum.
fn damaged(file: &str, at: u64, header: &ChunkHeader) -> Damage {
    let (offset, n_messages) = (Some(header.chunk_id), u64::from(header.n_records));
    Damage {
        file: file.to_owned(),
        at,
        offset,
        n_messages,
        what: "the chunk's checksum does not match",
    }
}

/// The chunks that were met.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Their records in the index.
    records: Vec<u8>,
    damaged: Vec<Damage>,
}

/// Goes on from a place chunk by chunk, up to the first that is torn or does not follow on the one
/// before. The data is verified from `verify_from` on; a chunk that was synced, before `noted`, may be
/// damaged.
pub(crate) fn walk(
    scan: &mut Scan,
    from: SegmentEnd,
    verify_from: u64,
    noted: u64,
) -> Result<(SegmentEnd, Walked)> {
    let mut end = from;
    let mut walked = Walked::default();
    while let Some(header) = scan.header(end.position)? {
        let follows = header.chunk_id == end.next_offset
            && header.n_records > 0
            && header.chunk_id.checked_add(u64::from(header.n_records)).is_some()
            && end.last.is_none_or(|last| last.epoch <= header.epoch)
            && end.n_chunks < CHUNKS_LIMIT
            && u32::try_from(end.position + header.stored_bytes()).is_ok();
        let is_verified = end.position < verify_from || scan.is_whole(end.position, &header)?;
        let was_synced = end.position + header.stored_bytes() <= noted;
        if !follows || !(is_verified || was_synced) {
            break;
        }
        if !is_verified {
            walked.damaged.push(damaged(scan.file().name(), end.position, &header));
        }
        IndexRecord::of(&header, end.position).encode(&mut walked.records);
        end.n_chunks += 1;
        end.position += header.stored_bytes();
        end.next_offset = header.next_offset();
        end.last = Some(LastChunk::of(&header));
    }
    Ok((end, walked))
}
