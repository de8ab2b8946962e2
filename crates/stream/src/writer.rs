//! The writing side of a stream, behind its lock: chunks that are being made, who waits for them, and the
//! log, which is elsewhere while somebody writes. Never who publishes or reads.

use crate::confirms::{Confirms, Waiter};
use crate::making::{Chunks, Making};
use crate::services::{StreamDurability, StreamServices};
use chunk_log::{
    Appended, ChunkLog, ChunkLogError, LogEnd, LogOptions, SyncJob, Tracking, may_be_too_old,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::UnixMs;
use streamproto::ChunkHeader;

/// The writing side of a stream.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The log; elsewhere while somebody writes.
    pub(crate) log: Option<Box<ChunkLog>>,
    pub(crate) making: Making,
    pub(crate) tracking: Tracking,
    /// The last publishing id by publisher's name, in chunks that are being made.
    sequences: BTreeMap<Arc<[u8]>, u64>,
    pub(crate) confirms: Confirms,
    /// Entries that were added since the start.
    n_added: u64,
    /// The entries added by the last tick.
    n_ticked: u64,
    epoch: u64,
    settings: Settings,
    /// Syncs beside the writing that have come to their end.
    pub(crate) synced: Vec<(SyncJob, Result<(), ChunkLogError>)>,
    /// Whether a thread is to write.
    pub(crate) is_asked: bool,
}

/// Settings as of an epoch of the definitions.
#[derive(Debug)]
struct Settings {
    epoch: u64,
    /// Whether retention is to be looked at: nobody has with these settings, or since the start.
    is_review_due: bool,
    /// The options that the log takes when nobody writes.
    to_take: Option<LogOptions>,
}

impl Writer {
    /// The writer of a log, with what its chunks track. Filters take so many bytes.
    pub(crate) fn new(log: ChunkLog, tracking: Tracking, filter_bytes: u8) -> Self {
        Self::of(Some(Box::new(log)), tracking, filter_bytes)
    }

    fn of(log: Option<Box<ChunkLog>>, tracking: Tracking, filter_bytes: u8) -> Self {
        Self {
            epoch: log.as_ref().and_then(|log| log.epoch()).unwrap_or(0) + 1,
            log,
            making: Making::new(filter_bytes),
            tracking,
            sequences: BTreeMap::new(),
            confirms: Confirms::default(),
            n_added: 0,
            n_ticked: 0,
            settings: Settings { epoch: 0, is_review_due: true, to_take: None },
            synced: Vec::new(),
            is_asked: false,
        }
    }

    /// The writer of a stream that is closed, without a log.
    pub(crate) fn closed(filter_bytes: u8) -> Self {
        Self::of(None, Tracking::default(), filter_bytes)
    }

    /// Sets the settings; another filter size counts from the next start on. True if that makes a review due.
    pub(crate) fn set_settings(&mut self, options: LogOptions, epoch: u64) -> bool {
        if epoch < self.settings.epoch {
            return false;
        }
        let to_take = Some(options);
        let before =
            std::mem::replace(&mut self.settings, Settings { epoch, is_review_due: true, to_take });
        !before.is_review_due
    }

    /// Whether what is kept is to be looked at now, and nobody writes.
    pub(crate) fn is_review_due(&self, now_ms: i64) -> bool {
        let is_due = |log| self.settings.is_review_due || may_be_too_old(log, now_ms);
        self.log.as_deref().is_some_and(is_due)
    }

    /// Takes the log for a review by the settings of now; none if somebody writes, who does it then.
    pub(crate) fn take_for_review(&mut self) -> Option<Box<ChunkLog>> {
        let log = self.take_log()?;
        self.settings.is_review_due = false;
        Some(log)
    }

    fn take_log(&mut self) -> Option<Box<ChunkLog>> {
        let mut log = self.log.take()?;
        if let Some(options) = self.settings.to_take.take() {
            log.set_options(options);
        }
        Some(log)
    }

    /// The epoch of chunks that are written from now on.
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Begins another epoch, as with another writer.
    pub(crate) const fn begin_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Counts entries that were added; returns how many there are since the start.
    pub(crate) const fn count(&mut self, n: u64) -> u64 {
        self.n_added += n;
        self.n_added
    }

    /// Has `waiter` told when everything that was added is committed; gives it back if it is already, when
    /// nobody else will tell it. Whoever has the log may still be telling those before it.
    #[must_use]
    pub(crate) fn confirm_added(&mut self, n_committed: u64, waiter: Waiter) -> Option<Waiter> {
        if n_committed >= self.n_added && self.log.is_some() {
            return Some(waiter);
        }
        self.confirms.push(self.n_added, waiter);
        None
    }

    /// The last publishing id of a name.
    pub(crate) fn sequence(&self, reference: &[u8]) -> Option<u64> {
        let written = || self.tracking.sequence(reference).map(|last| last.publishing_id);
        self.sequences.get(reference).copied().or_else(written)
    }

    /// Notes the last publishing id of a publisher of that name.
    pub(crate) fn note_sequence(&mut self, reference: &Arc<[u8]>, publishing_id: u64) {
        self.sequences.insert(Arc::clone(reference), publishing_id);
    }

    /// The offset that a consumer of that name has stored.
    pub(crate) fn stored_offset(&self, reference: &[u8]) -> Option<u64> {
        self.making.offset(reference).or_else(|| self.tracking.offset(reference))
    }

    /// Takes what is to be written.
    fn take_chunks(&mut self, log: &ChunkLog, now_ms: UnixMs) -> Chunks {
        let timestamp_ms = i64::try_from(now_ms.get()).unwrap_or(i64::MAX);
        let chunk_id = log.end().next_offset;
        let header =
            ChunkHeader { timestamp_ms, epoch: self.epoch, chunk_id, ..ChunkHeader::default() };
        let first_offset = log.view().first_offset();
        let snapshot =
            log.is_snapshot_due().then(|| self.tracking.snapshot(first_offset, 0)).flatten();
        self.sequences.clear();
        self.making.place(header, snapshot.as_deref(), &mut self.tracking)
    }

    /// Whether nothing was added since this was asked before, and something is not synced; or nothing is
    /// noted of it yet.
    pub(crate) fn is_idle(&mut self) -> bool {
        let is_idle = self.n_ticked == self.n_added;
        self.n_ticked = self.n_added;
        let is_due =
            |log: &ChunkLog| (is_idle && !log.is_checkpointed()) || log.notes.are_missing();
        self.log.as_deref().is_some_and(is_due)
    }

    /// Takes what is to be written together with the log; none if there is nothing, or somebody writes.
    pub(crate) fn next_turn(&mut self, now_ms: UnixMs) -> Option<Turn> {
        if self.making.is_empty() {
            return None;
        }
        let log = self.take_log()?;
        let chunks = self.take_chunks(&log, now_ms);
        Some(Turn {
            log,
            chunks,
            n_added: self.n_added,
            reviews: std::mem::take(&mut self.settings.is_review_due).then_some(now_ms),
            synced: std::mem::take(&mut self.synced),
            to_sync: None,
        })
    }
}

/// Chunks on their way to the disk, by whoever has the log meanwhile.
pub(crate) struct Turn {
    pub(crate) log: Box<ChunkLog>,
    pub(crate) chunks: Chunks,
    /// Entries that are committed afterwards.
    pub(crate) n_added: u64,
    /// The time at which retention is looked at; none if it is not.
    reviews: Option<UnixMs>,
    /// Syncs that have come to their end beside the writing.
    synced: Vec<(SyncJob, Result<(), ChunkLogError>)>,
    /// The sync that is to begin.
    pub(crate) to_sync: Option<SyncJob>,
}

impl Turn {
    /// Writes, and syncs if that is how streams are kept.
    pub(crate) fn run(&mut self, services: &StreamServices) -> Result<LogEnd, ChunkLogError> {
        for (job, ran) in self.synced.drain(..) {
            self.log.finish_sync(&job, ran)?;
        }
        let Appended { end, is_new_segment } =
            self.log.append(&self.chunks.headers, &self.chunks.bytes)?;
        let reviewed = self.reviews.map(|now_ms| review(&mut self.log, now_ms));
        if services.options.durability == StreamDurability::Write {
            // A start verifies what no sync is known of; what was removed goes with it.
            let is_due = is_new_segment || reviewed.is_some_and(|n_removed| n_removed > 0);
            self.to_sync = if is_due { Some(self.log.begin_sync()?) } else { None };
            return Ok(end);
        }
        let job = self.log.begin_sync()?;
        let (ran, end) = (job.run(&*services.disk), job.end());
        self.log.finish_sync(&job, ran)?;
        Ok(end)
    }
}

/// Removes what is not to be kept; returns how many segments. A later review removes what cannot go now.
pub(crate) fn review(log: &mut ChunkLog, now_ms: UnixMs) -> usize {
    log.evaluate_retention(i64::try_from(now_ms.get()).unwrap_or(i64::MAX)).unwrap_or(0)
}
