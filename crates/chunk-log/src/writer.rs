//! The writing side of a log.

use std::sync::Arc;

use segments::{IoContext as _, Poison};
use streamproto::{ChunkHeader, ChunkType};

use crate::damage::Lack;
use crate::error::{ChunkLogError, RefusalReason, Result};
use crate::files::StreamFiles;
use crate::index::SyncedMark;
use crate::lack::{fill, find_lack, find_unnoted, identity_in, mend};
use crate::notes::LogNotes;
use crate::recovery::{FoundLog, Recovered, SegmentEnd, recover};
use crate::removal::{cut_files, n_too_many, n_too_old, remove_files};
use crate::restore::restore;
use crate::retention::{Retention, SEGMENT_CHUNKS_MAX};
use crate::segment::{First, stream_dir};
use crate::shared::{Fresh, LogEnd, LogState, LogView, Segment, SharedLog};
use crate::sync::{Pending, SyncJob, Unsynced};
use crate::table::StreamNote;
use crate::tail::{OpenSegment, check};
use crate::tracking::Tracking;

/// The size of a segment where none is given (RabbitMQ's).
pub const SEGMENT_BYTES_MAX_DEFAULT: u64 = 500_000_000;
/// Bytes added to a segment after which its index is synced again: as many are verified after a crash.
const INDEX_SYNC_BYTES: u64 = 4 << 20;
/// The trailers after which a snapshot of the tracking is due: a start reads those since the last.
const SNAPSHOT_TRAILERS: u64 = 16_384;

/// Bytes that an idle log keeps for the next append, at most.
const SCRATCH_BYTES_MAX: usize = 2 << 10;

/// The options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// A segment of this size takes no more chunks.
    pub segment_bytes_max: u64,
    /// A segment with so many chunks takes no more either; at most [`SEGMENT_CHUNKS_MAX`].
    pub segment_chunks_max: u64,
    /// The rules of retention.
    pub retention: Retention,
    /// The offset of the first message, where there is no log yet.
    pub initial_offset: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes_max: SEGMENT_BYTES_MAX_DEFAULT,
            segment_chunks_max: SEGMENT_CHUNKS_MAX,
            retention: Retention::default(),
            initial_offset: 0,
        }
    }
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the log ends now: written, neither durable nor committed.
    pub end: LogEnd,
    /// Whether a new segment was begun, and what is too much by the rules of retention has gone. The one
    /// that was left is to be synced soon, whoever waits for it: a start verifies all that is not.
    pub is_new_segment: bool,
}

/// The place of the first chunk of a log.
const fn first_of(options: &LogOptions) -> First {
    First { ordinal: 0, offset: options.initial_offset }
}

/// Whether the oldest segment of a log may be too old, as far as that is known without its files.
#[must_use]
pub fn may_be_too_old(log: &ChunkLog, now_ms: i64) -> bool {
    let retention = &log.options.retention;
    if retention.age_max_ms.is_none() {
        return false;
    }
    let state = log.view.0.state();
    let [oldest, _, ..] = state.segments.as_slice() else { return false };
    oldest.last_chunk_ms.is_none_or(|last_ms| retention.is_too_old(last_ms, now_ms))
}

/// A log, for its only writer.
#[derive(Debug)]
pub struct ChunkLog {
    /// Its notes in the table of streams.
    pub notes: LogNotes,
    view: LogView,
    options: LogOptions,
    tail: OpenSegment,
    pending: Pending,
    failure: Poison,
    n_trailers: u64,
    /// Encoded records of the index.
    scratch: Vec<u8>,
}

impl ChunkLog {
    /// Opens the log of the stream `id`, which is made if there is none. Nothing is committed before the host
    /// says so: as a rule, [`Recovered::end`].
    ///
    /// # Errors
    /// The disk's; files of a newer version, or damaged beyond what a crash does. Something is missing that
    /// was synced, and nobody has accepted that ([`ChunkLogError::Lost`]).
    pub fn open(
        files: &Arc<StreamFiles>,
        id: u64,
        options: LogOptions,
    ) -> Result<(Self, Recovered)> {
        let dir = stream_dir(id);
        let note = files.table().and_then(|table| table.note(id));
        let lost = lost(files, id, note)?;
        let found = match (note, &lost) {
            (Some(note), Some(_)) => recover_without(files, &dir, &note)?,
            (note, _) => recover(files, &dir, note)?,
        };
        let identity = identity(files, id, note, found.as_ref())?;
        let mut found = match found {
            Some(found) => found,
            None => create(files, &dir, first_of(&options), identity)?,
        };
        found.report.lost = lost;
        // A mark was written once the directory was synced.
        let is_dir_changed = found.tail.synced == SyncedMark::NONE || !found.report.cut.is_empty();
        let OpenedLog { state, tail, left } = opened(files, &dir, &found);
        let mut log = Self {
            notes: LogNotes { files: Arc::clone(files), stream: id, identity },
            view: LogView(SharedLog::new(files, &dir, state)),
            options,
            tail,
            pending: Pending::new(left, is_dir_changed),
            failure: Poison::default(),
            n_trailers: 0,
            scratch: Vec::new(),
        };
        if found.report.lost.is_some() {
            log.checkpoint()?;
            log.notes.put_anew(&log.view, log.end())?;
        } else if log.notes.are_missing() && log.is_checkpointed() {
            log.notes.put(&log.view, log.end())?;
        }
        Ok((log, found.report))
    }

    /// The log as readers and listings see it.
    pub const fn view(&self) -> &LogView {
        &self.view
    }

    /// Where the log ends: the next chunk has this ordinal and id.
    pub const fn end(&self) -> LogEnd {
        self.tail.end.log_end()
    }

    /// The epoch of the last chunk, which no later one may go below.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.tail.end.last.map(|last| last.epoch)
    }

    /// Changes how the log is kept, from the next append on.
    pub const fn set_options(&mut self, options: LogOptions) {
        self.options = options;
    }

    /// Whether the next append is to begin with a snapshot of the tracking, unless that is empty: it
    /// goes into a new segment, or many trailers have come since the last snapshot.
    pub fn is_snapshot_due(&self) -> bool {
        self.is_segment_full() || self.n_trailers >= SNAPSHOT_TRAILERS
    }

    /// Appends chunks that lie side by side in `bytes`, with one write. The headers are those in the bytes;
    /// whoever got them from elsewhere has verified their checksums. A new segment is begun before, if it is
    /// time, and what is not to be kept is removed; the time is that of the first chunk.
    ///
    /// # Errors
    /// Chunks that do not follow on the last one are [`ChunkLogError::Refused`], and nothing has changed.
    /// With any other error nothing of it is in the log, and the log takes nothing more.
    pub fn append(&mut self, headers: &[ChunkHeader], bytes: &[u8]) -> Result<Appended> {
        self.check_failure()?;
        check(&self.tail.end, headers, bytes)
            .map_err(|reason| ChunkLogError::refused(&self.view.0.dir, reason))?;
        let Some(first) = headers.first() else {
            return Ok(Appended { end: self.end(), is_new_segment: false });
        };
        let position_max = u64::from(u32::MAX);
        let is_new_segment = self.is_segment_full()
            || self.tail.end.position.saturating_add(bytes.len() as u64) > position_max;
        if is_new_segment {
            let rolled = self.roll();
            self.failure.of(rolled)?;
            // Segments that cannot be removed now are removed by a later evaluation.
            self.evaluate_retention(first.timestamp_ms).ok();
        }
        let written = self.tail.write(headers, bytes, &mut self.scratch);
        self.failure.of(written)?;
        if self.scratch.capacity() > SCRATCH_BYTES_MAX {
            self.scratch = Vec::new();
        }
        let fresh = Fresh::new(self.tail.end.first.offset, self.tail.end.position, bytes);
        self.tail.note(headers, bytes.len() as u64);
        self.n_trailers = count_trailers(self.n_trailers, headers);
        let mut state = self.view.0.state();
        (state.written, state.fresh) = (self.end(), fresh);
        drop(state);
        Ok(Appended { end: self.end(), is_new_segment })
    }

    /// The tracking at the end of the log, from the last snapshot on: for whoever makes the next chunks.
    ///
    /// # Errors
    /// The disk's; a damaged index; records that are malformed.
    pub fn restore_tracking(&mut self) -> Result<Tracking> {
        let (tracking, n_trailers) = restore(&self.view)?;
        self.n_trailers = n_trailers;
        Ok(tracking)
    }

    /// Makes everything durable that was appended.
    ///
    /// # Errors
    /// The disk's; then the log takes nothing more.
    pub fn sync(&mut self) -> Result<()> {
        let job = self.begin_sync();
        self.run_sync(&job?)
    }

    /// Makes everything durable that was appended, and its mark, so that a start verifies nothing of it: for
    /// logs that are idle, and at a stop.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn checkpoint(&mut self) -> Result<()> {
        self.view.0.state().fresh = Fresh::default();
        let job = self.begin_checkpoint();
        self.run_sync(&job?)
    }

    /// Whether a checkpoint would change nothing.
    pub fn is_checkpointed(&self) -> bool {
        let mark = self.tail.unsynced(false).mark;
        self.pending.is_empty() && self.tail.end.synced == mark
    }

    /// The work of a sync, to be run while the log is written on. One at a time.
    ///
    /// # Errors
    /// Files that cannot be opened; then the log takes nothing more.
    pub fn begin_sync(&mut self) -> Result<SyncJob> {
        let unmarked = self.tail.end.position - self.tail.end.synced.position;
        self.begin(unmarked >= INDEX_SYNC_BYTES)
    }

    /// The work of a checkpoint, to be run while the log is written on. One at a time.
    ///
    /// # Errors
    /// Files that cannot be opened; then the log takes nothing more.
    pub fn begin_checkpoint(&mut self) -> Result<SyncJob> {
        self.begin(true)
    }

    /// Takes note of how a sync ended.
    ///
    /// # Errors
    /// That of the sync. The log takes nothing more.
    pub fn finish_sync(&mut self, job: &SyncJob, ran: Result<()>) -> Result<()> {
        self.failure.of(ran)?;
        let tail = self.tail.end.first.offset;
        let marked = self.pending.finish(&self.view.0, job, tail);
        if let Some(mark) = self.failure.of(marked)? {
            self.tail.end.synced = mark;
        }
        Ok(())
    }

    fn run_sync(&mut self, job: &SyncJob) -> Result<()> {
        let ran = job.run(self.view.0.files.disk());
        self.finish_sync(job, ran)
    }

    fn begin(&mut self, with_index: bool) -> Result<SyncJob> {
        self.check_failure()?;
        let (tail, end) = (self.tail.unsynced(with_index), self.end());
        let noting = self.notes.begin(&self.view, end);
        let begun = self.pending.begin(&self.view.0.dir, tail, end, Some(noting));
        self.failure.of(begun)
    }

    fn check_failure(&self) -> Result<()> {
        self.failure.check(|reason| ChunkLogError::failed(&self.view.0.dir, reason))
    }

    fn is_segment_full(&self) -> bool {
        let SegmentEnd { position, n_chunks, .. } = self.tail.end;
        let LogOptions { segment_bytes_max, segment_chunks_max, .. } = self.options;
        let is_large =
            position >= segment_bytes_max || n_chunks >= segment_chunks_max.min(SEGMENT_CHUNKS_MAX);
        n_chunks > 0 && is_large
    }

    /// Begins a new segment.
    fn roll(&mut self) -> Result<()> {
        let LogEnd { next_ordinal: ordinal, next_offset: offset, .. } = self.end();
        let last = self.tail.end.last;
        let shared = &self.view.0;
        let mut tail = OpenSegment::create(
            &shared.files,
            &shared.dir,
            First { ordinal, offset },
            self.notes.identity,
        )?;
        tail.end.last = last;
        let mut state = shared.state();
        let is_behind = state.segments.last().is_none_or(|left| left.first_offset < offset);
        assert!(is_behind, "segments rise by their first offsets");
        if let Some(left) = state.segments.last_mut() {
            left.seal(self.tail.end.position);
        }
        state.segments.push(tail.segment());
        (state.written, state.fresh) = (tail.end.log_end(), Fresh::default());
        drop(state);
        self.pending.left.push(self.tail.unsynced(true));
        self.tail = tail;
        self.pending.note_dir_change();
        Ok(())
    }

    /// Removes segments by the rules of retention: how many. The last one stays, and what is not committed.
    ///
    /// # Errors
    /// The disk's. What could be removed is; what could not be is left without being part of the log.
    pub fn evaluate_retention(&mut self, now_ms: i64) -> Result<usize> {
        if self.options.retention.is_unlimited() {
            return Ok(0);
        }
        let (shared, retention) = (&self.view.0, &self.options.retention);
        let n_too_old = n_too_old(shared, retention, now_ms)?;
        let n = n_too_old.max(n_too_many(shared, retention, self.tail.end.position)?);
        let mut state = shared.state();
        let committed = state.committed.segment;
        let n_committed = state.segments.partition_point(|it| it.first_offset < committed);
        let n = n.min(n_committed);
        assert!(n < state.segments.len().max(1), "the last segment stays");
        let mut removed: Vec<Segment> = state.segments.drain(..n).collect();
        drop(state);
        for segment in &mut removed {
            shared.files.keep_removed(&shared.removed_chunks(segment));
        }
        let removed: Vec<u64> = removed.iter().map(|it| it.first_offset).collect();
        self.pending.left.retain(|left| !removed.contains(&left.segment));
        if n > 0 {
            self.pending.note_dir_change();
        }
        if shared.files.table().is_some() {
            self.pending.remove(removed);
        } else {
            removed.iter().try_for_each(|it| remove_files(&shared.files, &shared.dir, *it))?;
        }
        Ok(n)
    }

    /// Cuts off the chunks from this ordinal on; nothing if the log ends before.
    ///
    /// # Errors
    /// A cut of committed chunks. The disk's; then the log takes nothing more.
    pub fn cut_off_from(&mut self, ordinal: u64) -> Result<()> {
        self.check_failure()?;
        if ordinal >= self.end().next_ordinal {
            return Ok(());
        }
        if ordinal < self.view.committed().next_ordinal {
            let reason = RefusalReason::Committed(ordinal);
            return Err(ChunkLogError::refused(&self.view.0.dir, reason));
        }
        let cut = self.notes.forget();
        let cut = cut.and_then(|()| cut_files(&self.view, self.end(), ordinal));
        let cut = cut.and_then(|()| self.reopen());
        self.failure.of(cut)
    }

    /// Begins anew with a first chunk of this ordinal and id: for a follower whose leader has let go of
    /// what it would need. What was there is gone.
    ///
    /// # Errors
    /// The disk's; then the log takes nothing more.
    pub fn start_at(&mut self, ordinal: u64, offset: u64) -> Result<()> {
        self.check_failure()?;
        let forgotten = self.notes.forget();
        let started = forgotten.and_then(|()| self.start(First { ordinal, offset }));
        self.failure.of(started)
    }

    fn start(&mut self, first: First) -> Result<()> {
        let segments: Vec<u64> = {
            let state = self.view.0.state();
            state.segments.iter().map(|it| it.first_offset).collect()
        };
        let (files, dir) = (&self.view.0.files, &self.view.0.dir);
        segments.iter().rev().try_for_each(|segment| remove_files(files, dir, *segment))?;
        let tail = OpenSegment::create(files, dir, first, self.notes.identity)?;
        let mut state = self.view.0.state();
        state.segments = vec![tail.segment()];
        (state.written, state.fresh) = (tail.end.log_end(), Fresh::default());
        self.view.0.commit(&mut state, LogEnd::beginning(first));
        drop(state);
        self.tail = tail;
        self.forget(Vec::new());
        Ok(())
    }

    /// Takes the state from the files, after a cut.
    fn reopen(&mut self) -> Result<()> {
        let shared = &self.view.0;
        let found = match recover(&shared.files, &shared.dir, None)? {
            Some(found) => found,
            None => {
                let first = first_of(&self.options);
                create(&shared.files, &shared.dir, first, self.notes.identity)?
            }
        };
        let OpenedLog { state: new, tail, left } = opened(&shared.files, &shared.dir, &found);
        let mut state = shared.state();
        state.segments = new.segments;
        (state.written, state.fresh) = (new.written, new.fresh);
        drop(state);
        self.tail = tail;
        self.forget(left);
        Ok(())
    }

    fn forget(&mut self, left: Vec<Unsynced>) {
        self.pending.forget(left);
        self.n_trailers = 0;
    }
}

/// How many chunks with tracking records there are since the last snapshot.
fn count_trailers(before: u64, headers: &[ChunkHeader]) -> u64 {
    headers.iter().fold(before, |n, header| match header.chunk_type {
        ChunkType::TRACKING_SNAPSHOT => 0,
        ChunkType::TRACKING_DELTA => n + 1,
        _ => n + u64::from(header.trailer_bytes > 0),
    })
}

/// The lack of something that was noted, if that was accepted.
fn lost(files: &StreamFiles, id: u64, note: Option<StreamNote>) -> Result<Option<Lack>> {
    let lack = match note {
        Some(note) => find_lack(files.disk(), id, &note)?,
        None if files.table().is_some_and(|table| table.may_be_incomplete(id)) => {
            find_unnoted(files.disk(), id)?
        }
        None => None,
    };
    match lack {
        Some(lack) if !note.is_some_and(|note| note.is_loss_accepted) => {
            Err(ChunkLogError::Lost(lack))
        }
        lack => Ok(lack),
    }
}

/// The end of a log some of which is missing; what cannot be read goes, and a chunk takes its place.
fn recover_without(
    files: &Arc<StreamFiles>,
    dir: &str,
    note: &StreamNote,
) -> Result<Option<FoundLog>> {
    mend(files, dir, note)?;
    let found = recover(files, dir, None)?;
    let Some(end) = found.as_ref().map(|found| found.tail) else { return Ok(found) };
    if end.next_offset >= note.next_offset {
        return Ok(found);
    }
    fill(files.disk(), dir, &end, note.next_offset)?;
    let found = found.map(|it| it.report.cut).zip(recover(files, dir, None)?);
    Ok(found.map(|(cut, mut found)| {
        found.report.cut.extend(cut);
        found
    }))
}

/// The identity in the headers of a log's files.
fn identity(
    files: &StreamFiles,
    id: u64,
    note: Option<StreamNote>,
    found: Option<&FoundLog>,
) -> Result<u32> {
    let Some(table) = files.table() else { return Ok(0) };
    let noted = note.map(|note| note.identity).filter(|identity| *identity != 0);
    if let Some(identity) = noted {
        return Ok(identity);
    }
    let of_tail =
        found.map(|found| identity_in(files.disk(), id, found.tail.first.offset)).transpose()?;
    let of_tail = of_tail.filter(|identity| *identity != 0);
    Ok(of_tail.unwrap_or_else(|| table.new_identity(id)))
}

/// Makes the first files of a log.
fn create(files: &Arc<StreamFiles>, dir: &str, first: First, identity: u32) -> Result<FoundLog> {
    files.disk().create_dir(dir).context("create", dir)?;
    let tail = OpenSegment::create(files, dir, first, identity)?.end;
    let report = Recovered { is_new: true, end: tail.log_end(), ..Recovered::default() };
    Ok(FoundLog { segments: vec![first.offset], tail, left: Vec::new(), report })
}

/// A log that was found and is to be written on.
struct OpenedLog {
    state: LogState,
    tail: OpenSegment,
    /// Segments before the tail that are not durable.
    left: Vec<Unsynced>,
}

/// The state of a log that was found; nothing is committed.
fn opened(files: &Arc<StreamFiles>, dir: &str, found: &FoundLog) -> OpenedLog {
    let tail = OpenSegment::open(files, dir, found.tail);
    let mut segments: Vec<Segment> =
        found.segments.iter().map(|first| Segment::new(*first, None)).collect();
    segments.pop();
    segments.push(tail.segment());
    let first = segments.first().map_or(0, |it| it.first_offset);
    let beginning = First { ordinal: 0, offset: first };
    let committed = LogEnd::beginning(beginning);
    let left =
        found.left.iter().map(|end| OpenSegment::open(files, dir, *end).unsynced(true)).collect();
    let (written, fresh) = (found.tail.log_end(), Fresh::default());
    OpenedLog { state: LogState { segments, written, committed, fresh }, tail, left }
}
