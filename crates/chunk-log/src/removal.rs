//! Removal from a log: whole segments at its beginning, chunks at its end, or all of it.

use segments::{
    Disk, File, IoContext as _, list_if_there, remove, remove_if_there, sync_dir, sync_name,
};

use crate::error::Result;
use crate::files::StreamFiles;
use crate::index::{Index, SyncedMark, record_at};
use crate::lookup::{ChunkPlace, Lookup};
use crate::retention::Retention;
use crate::segment::{FileName, SEGMENT_HEADER_BYTES, stream_dir};
use crate::shared::{LogEnd, LogView, SharedLog};

/// Removes the log of the stream `id`, if it has one, and closes its files. Readers and writers left get
/// errors.
///
/// # Errors
/// The disk's. What is left can be removed by another call.
pub fn delete_log(files: &StreamFiles, id: u64) -> Result<()> {
    let dir = stream_dir(id);
    files.table().map_or(Ok(()), |table| table.forget(id))?;
    for name in list_if_there(files.disk(), &dir)?.unwrap_or_default() {
        remove(files.disk(), &format!("{dir}/{name}"))?;
    }
    files.cache.close_in(&dir);
    Ok(files.disk().remove_dir(&dir).context("remove", &dir)?)
}

/// Whether the files of a stream are those of a new one: nothing of a chunk was ever written into them.
///
/// # Errors
/// The disk's.
pub fn is_blank(disk: &dyn Disk, id: u64) -> Result<bool> {
    let dir = stream_dir(id);
    for name in list_if_there(disk, &dir)?.unwrap_or_default() {
        let is_new = match FileName::parse(&name) {
            Some(FileName::Segment(0)) => {
                File::open(disk, &format!("{dir}/{name}"))?.size()? <= SEGMENT_HEADER_BYTES
            }
            other => other == Some(FileName::Index(0)),
        };
        if !is_new {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves the log of the stream `from` to another id, whose log it is from then on. Nobody writes or opens it
/// meanwhile. A crash in between leaves some files with each id: to be moved back, or on, by another call.
///
/// # Errors
/// The disk's; some files may have been moved.
pub fn move_log(files: &StreamFiles, from: u64, to: u64) -> Result<()> {
    let (disk, [old, new]) = (files.disk(), [from, to].map(stream_dir));
    let Some(names) = list_if_there(disk, &old)? else { return Ok(()) };
    files.table().map_or(Ok(()), |table| table.copy(from, to))?;
    disk.create_dir(&new).context("create", &new)?;
    sync_name(disk, &new)?;
    files.cache.close_in(&old);
    for name in names {
        let (old, new) = (format!("{old}/{name}"), format!("{new}/{name}"));
        disk.rename(&old, &new).context("rename", &old)?;
    }
    sync_dir(disk, &new)?;
    sync_dir(disk, &old)?;
    files.table().map_or(Ok(()), |table| table.forget(from))?;
    Ok(disk.remove_dir(&old).context("remove", &old)?)
}

/// How many segments are too many by their sizes; the last has so many bytes.
pub(crate) fn n_too_many(
    shared: &SharedLog,
    retention: &Retention,
    last_bytes: u64,
) -> Result<usize> {
    let segments: Vec<u64> = {
        let state = shared.state();
        state.segments.iter().rev().skip(1).map(|it| it.first_offset).collect()
    };
    let mut sizes = vec![last_bytes];
    for segment in segments {
        let Some(slot) = shared.chunks(segment) else { continue };
        sizes.push(shared.sealed_bytes(segment, &slot)?);
    }
    Ok(retention.n_too_many(&sizes))
}

/// How many segments are too old.
pub(crate) fn n_too_old(shared: &SharedLog, retention: &Retention, now_ms: i64) -> Result<usize> {
    if retention.age_max_ms.is_none() {
        return Ok(0);
    }
    let segments: Vec<u64> = {
        let state = shared.state();
        state.segments.iter().map(|it| it.first_offset).collect()
    };
    let Some((_, sealed)) = segments.split_last() else { return Ok(0) };
    for (n, segment) in sealed.iter().enumerate() {
        let last_ms = shared.last_chunk_ms(*segment)?;
        if !last_ms.is_none_or(|last_ms| retention.is_too_old(last_ms, now_ms)) {
            return Ok(n);
        }
    }
    Ok(sealed.len())
}

/// Removes a segment's files. Chunks first: an index without them is removed by the next opening.
pub(crate) fn remove_files(files: &StreamFiles, dir: &str, segment: u64) -> Result<()> {
    for name in [FileName::Segment(segment), FileName::Index(segment)] {
        remove_if_there(files.disk(), &name.path(dir))?;
    }
    Ok(())
}

/// Cuts the files of a log off before the chunk with this ordinal, which is in there.
pub(crate) fn cut_files(view: &LogView, end: LogEnd, ordinal: u64) -> Result<()> {
    let shared = &view.0;
    let place = Lookup::new(view, end).ordinal(ordinal)?;
    let Some(ChunkPlace { segment, position, .. }) = place else { return Ok(()) };
    let segments: Vec<u64> = {
        let mut state = shared.state();
        let after = state.segments.partition_point(|it| it.first_offset <= segment);
        state.segments.drain(after..).map(|it| it.first_offset).collect()
    };
    segments
        .iter()
        .rev()
        .try_for_each(|segment| remove_files(&shared.files, &shared.dir, *segment))?;
    if !segments.is_empty() {
        // The removal of later segments must outlast a crash before new chunks follow the cut.
        sync_dir(shared.files.disk(), &shared.dir)?;
    }
    let first_ordinal = shared.first_ordinal(segment)?.unwrap_or(ordinal);
    assert!(first_ordinal <= ordinal, "the chunk is in the segment");
    let n_chunks = ordinal - first_ordinal;
    if let (Some(chunks), Some(slot)) = (shared.chunks(segment), shared.index(segment)) {
        // The synced mark is lowered durably before new chunks take the place of synced ones.
        let index = Index::open(&slot, Some(n_chunks))?;
        index.set_mark(SyncedMark::NONE)?;
        slot.file()?.cut(record_at(n_chunks))?;
        index.sync()?;
        let chunks_file = chunks.file()?;
        chunks_file.cut(position)?;
        chunks_file.sync()?;
    }
    Ok(())
}
