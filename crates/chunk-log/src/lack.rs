//! The lack of files of a stream that were noted (`table.rs`), found without touching anything; and how the
//! stream goes on without them, once an operator has accepted that: unreadable ends are cut off, files of
//! other streams are renamed, and a chunk of the engine takes the offsets of lost messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use segments::{
    Disk, File, IoContext as _, list_if_there, remove_if_there, rename_if_there, sync_dir,
};
use streamproto::{Chunk, ChunkHeader};

use crate::ENGINE_CHUNK;
use crate::damage::Lack;
use crate::error::Result;
use crate::field::size;
use crate::files::StreamFiles;
use crate::index::{IndexRecord, RECORD_BYTES, SyncedMark, n_records, record_at};
use crate::recovery::{SegmentEnd, walk};
use crate::scan::Scan;
use crate::seal::seal_chunk;
use crate::segment::{
    FileName, First, SEGMENT_HEADER_BYTES, decode_header, identity_of, stream_dir,
};
use crate::table::{STREAMS_FILE, StreamNote};
use crate::tail::OpenSegment;

/// The suffix of the name of a file that belongs to another stream, once the stream goes on without.
const FOREIGN_SUFFIX: &str = ".foreign";

/// The lack of something that was noted; none if everything is there.
///
/// # Errors
/// The disk's; files of a newer version.
pub(crate) fn find_lack(disk: &dyn Disk, id: u64, note: &StreamNote) -> Result<Option<Lack>> {
    let dir = stream_dir(id);
    let survey = Survey::of(disk, &dir, note)?;
    let Some(first) = survey.faults.first() else { return Ok(None) };
    let what = match survey.faults.len() - 1 {
        0 => first.clone(),
        n => format!("{first}; {n} more files of the stream are damaged or missing"),
    };
    let n_messages = note.next_offset.saturating_sub(note.first).saturating_sub(survey.n_covered);
    Ok(Some(Lack { what, n_messages }))
}

/// Finds the lack of a stream by the notes of all streams; none where the loss is accepted. Without notes a
/// stream whose files were written beside some is incomplete.
///
/// # Errors
/// The errors of `find_lack`.
pub fn find_unaccepted(
    disk: &dyn Disk,
    id: u64,
    notes: Option<&BTreeMap<u64, StreamNote>>,
) -> Result<Option<Lack>> {
    match notes.map(|notes| notes.get(&id)) {
        Some(Some(note)) if !note.is_loss_accepted => find_lack(disk, id, note),
        Some(_) => Ok(None),
        None => find_unnoted(disk, id),
    }
}

/// The lack of the table of streams, which the files of a stream were written beside.
pub(crate) fn find_unnoted(disk: &dyn Disk, id: u64) -> Result<Option<Lack>> {
    let dir = stream_dir(id);
    for name in list_if_there(disk, &dir)?.unwrap_or_default() {
        if let Some(FileName::Segment(first)) = FileName::parse(&name)
            && identity_in(disk, id, first)? != 0
        {
            let what = format!("{STREAMS_FILE} is missing: cannot tell whether {dir} is complete");
            return Ok(Some(Lack { what, n_messages: 0 }));
        }
    }
    Ok(None)
}

/// The identity in a segment's header.
pub(crate) fn identity_in(disk: &dyn Disk, id: u64, segment: u64) -> Result<u32> {
    let name = FileName::Segment(segment).path(&stream_dir(id));
    Ok(identity_of(&File::open(disk, &name)?.read(0, size(SEGMENT_HEADER_BYTES))?))
}

/// The segments that a stream should have.
#[derive(Debug, Default)]
struct Survey {
    faults: Vec<String>,
    /// Offsets up to the noted one that can be read.
    n_covered: u64,
    pieces: Vec<FoundSegment>,
}

/// A segment that is there.
#[derive(Debug)]
struct FoundSegment {
    first: u64,
    len: u64,
    /// How far it can be read; none if it belongs to another stream.
    end: Option<SegmentEnd>,
    /// Whether all of it can be read that should be there.
    is_whole: bool,
}

impl Survey {
    fn of(disk: &dyn Disk, dir: &str, note: &StreamNote) -> Result<Self> {
        let mut survey = Self::default();
        let told = || {
            format!(
                "{STREAMS_FILE} lists the file, and offsets of the stream below {}",
                note.next_offset
            )
        };
        let Some(names) = list_if_there(disk, dir)? else {
            survey.faults.push(format!("{dir} is missing: {}", told()));
            return Ok(survey);
        };
        let names: BTreeSet<FileName> = names.iter().filter_map(|it| FileName::parse(it)).collect();
        let segments = names.into_iter().filter_map(|name| match name {
            FileName::Segment(first) => Some(first),
            FileName::Index(_) => None,
        });
        // The offset at which the next segment begins; none where that is not known.
        let mut next = Some(note.first);
        let name = |first| FileName::Segment(first).path(dir);
        for first in segments.filter(|it| (note.first..=note.last).contains(it)) {
            if let Some(missing) = next.filter(|next| *next != first) {
                survey.faults.push(format!("{} is missing: {}", name(missing), told()));
            }
            let piece = FoundSegment::look(disk, dir, first, note)?;
            next = None;
            match &piece.end {
                None => survey.faults.push(format!("{} belongs to another stream", name(first))),
                Some(end) => {
                    survey.n_covered += end.next_offset.min(note.next_offset).saturating_sub(first);
                    if piece.is_whole {
                        next = Some(end.next_offset);
                    } else {
                        survey.faults.push(piece.fault(&name(first), end, note));
                    }
                }
            }
            survey.pieces.push(piece);
        }
        let has_last = survey.pieces.last().is_some_and(|piece| piece.first == note.last);
        if !has_last {
            let missing = name(next.unwrap_or(note.last));
            survey.faults.push(format!("{missing} is missing: {}", told()));
        }
        Ok(survey)
    }
}

impl FoundSegment {
    fn look(disk: &dyn Disk, dir: &str, first: u64, note: &StreamNote) -> Result<Self> {
        let name = FileName::Segment(first).path(dir);
        let file = File::open(disk, &name)?;
        let len = file.size()?;
        let head = file.read(0, size(SEGMENT_HEADER_BYTES))?;
        let header = decode_header(&head, &name)?;
        let is_foreign = header.is_some_and(|header| {
            let identity = identity_of(&head);
            header.offset != first || (identity != 0 && identity != note.identity)
        });
        if is_foreign {
            return Ok(Self { first, len, end: None, is_whole: false });
        }
        let ordinal = header.map_or(0, |header| header.ordinal);
        let mut scan = Scan::new(file, len);
        let beginning = SegmentEnd::beginning(First { ordinal, offset: first }, SyncedMark::NONE);
        let index = IndexAtRest::open(disk, &FileName::Index(first).path(dir))?;
        let is_last = first == note.last;
        let (n_chunks, to) = match is_last {
            true => (note.next_ordinal.saturating_sub(ordinal), note.position),
            false => (index.as_ref().map_or(0, |index| n_records(index.len)), len),
        };
        if is_last && n_chunks == 0 && to <= len {
            return Ok(Self { first, len, end: Some(beginning), is_whole: true });
        }
        if let Some(end) = index
            .as_ref()
            .and_then(|it| it.end(beginning, n_chunks, &mut scan).transpose())
            .transpose()?
            && end.position == to
        {
            return Ok(Self { first, len, end: Some(end), is_whole: true });
        }
        let (end, _) = walk(&mut scan, beginning, u64::MAX, 0)?;
        let has_more = !is_last && index.is_some_and(|index| n_records(index.len) > end.n_chunks);
        let is_whole = if is_last { end.position >= to } else { end.position == to && !has_more };
        Ok(Self { first, len, end: Some(end), is_whole })
    }

    fn fault(&self, name: &str, end: &SegmentEnd, note: &StreamNote) -> String {
        let is_last = self.first == note.last;
        if is_last && self.len < note.position {
            return format!(
                "the end of {name} is missing: {STREAMS_FILE} lists {} synced bytes, up to offset {}; {} are left",
                note.position, note.next_offset, self.len
            );
        }
        if end.position == self.len {
            return format!(
                "the end of {name} is missing: the index lists chunks behind byte {}",
                self.len
            );
        }
        format!("{name}: the synced chunk at byte {} is damaged", end.position)
    }
}

/// An index that is read without being changed.
#[derive(Debug)]
struct IndexAtRest {
    file: File,
    len: u64,
}

impl IndexAtRest {
    fn open(disk: &dyn Disk, name: &str) -> Result<Option<Self>> {
        let Some(file) = File::open_if_there(disk, name)? else { return Ok(None) };
        let len = file.size()?;
        Ok(Some(Self { file, len }))
    }

    /// The end of the segment behind so many chunks, if index and segment agree on it.
    fn end(
        &self,
        beginning: SegmentEnd,
        n_chunks: u64,
        scan: &mut Scan,
    ) -> Result<Option<SegmentEnd>> {
        let Some(last) = n_chunks.checked_sub(1) else { return Ok(None) };
        let bytes = self.file.read(record_at(last), size(RECORD_BYTES))?;
        let Some(record) = IndexRecord::decode(&bytes) else { return Ok(None) };
        let Some(header) = scan.header(record.position)? else { return Ok(None) };
        let agrees = IndexRecord::of(&header, record.position) == record;
        let position = record.position + header.stored_bytes();
        Ok(agrees.then(|| SegmentEnd {
            n_chunks,
            position,
            next_offset: header.next_offset(),
            last: Some(crate::recovery::LastChunk::of(&header)),
            ..beginning
        }))
    }
}

/// Has a stream go on without what it lacks.
pub(crate) fn mend(files: &Arc<StreamFiles>, dir: &str, note: &StreamNote) -> Result<()> {
    let disk = files.disk();
    let survey = Survey::of(disk, dir, note)?;
    let (mut good, mut foreign) = (Vec::new(), Vec::new());
    for piece in survey.pieces {
        match piece.end {
            Some(end) if end.n_chunks > 0 || piece.is_whole => good.push((end, piece.is_whole)),
            Some(_) | None => foreign.push(piece.first),
        }
    }
    for first in foreign {
        for name in [FileName::Segment(first), FileName::Index(first)] {
            let name = name.path(dir);
            rename_if_there(disk, &name, &format!("{name}{FOREIGN_SUFFIX}"))?;
        }
    }
    let nexts: Vec<u64> = good.iter().skip(1).map(|(end, _)| end.first.offset).collect();
    if good.is_empty() {
        disk.create_dir(dir).context("create", dir)?;
        let first = First { ordinal: note.next_ordinal, offset: note.next_offset };
        OpenSegment::create(files, dir, first, note.identity)?;
    }
    let nexts = nexts.into_iter().chain([note.next_offset]);
    for ((end, is_whole), next) in good.into_iter().zip(nexts) {
        if !is_whole || end.next_offset < next {
            fill(disk, dir, &end, next)?;
        }
    }
    Ok(sync_dir(disk, dir)?)
}

/// Cuts a segment off behind what can be read, and has a chunk of the engine take the offsets up to `next`.
/// Its index is made anew by the opening.
pub(crate) fn fill(disk: &dyn Disk, dir: &str, end: &SegmentEnd, next: u64) -> Result<()> {
    let name = FileName::Segment(end.first.offset).path(dir);
    let file = File::open(disk, &name)?;
    file.cut(end.position)?;
    let (mut bytes, mut offset) = (Vec::new(), end.next_offset);
    while offset < next {
        let n_records = u32::try_from(next - offset).unwrap_or(u32::MAX);
        let last = end.last;
        let header = ChunkHeader {
            chunk_type: ENGINE_CHUNK,
            n_records,
            chunk_id: offset,
            epoch: last.map_or(0, |last| last.epoch),
            timestamp_ms: last.map_or(0, |last| last.timestamp_ms),
            ..ChunkHeader::default()
        };
        let from = bytes.len();
        if let Ok(chunk) = Chunk::new(header, &[], &[], &[]) {
            chunk.encode(&mut bytes);
        }
        bytes.get_mut(from..).into_iter().for_each(seal_chunk);
        offset += u64::from(n_records);
    }
    file.write(end.position, &bytes)?;
    file.sync()?;
    remove_if_there(disk, &FileName::Index(end.first.offset).path(dir))?;
    Ok(())
}
