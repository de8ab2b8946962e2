//! The undo entries of a node.

use crate::entry::{self, Busy, Entry, KeptStream, UndoEntry, name_of};
use content::{Services, Storage};
use queues::QueueRef;
use segments::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stdx::UnixMs;
use stream::StreamService;

/// Entries that are kept at a time.
const ENTRIES_MAX: usize = 10_000;

/// How messages are kept that operators take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoOptions {
    /// How long messages can be brought back, in milliseconds; 0 is not at all.
    pub window_ms: u64,
    /// Bytes that all undo entries may take together.
    pub bytes_max: u64,
    /// The part of the free disk space that undo entries may take, in percent.
    pub free_percent_max: u64,
    /// Bytes of messages that are written together; the last message may exceed them.
    pub portion_bytes: usize,
}

impl Default for UndoOptions {
    fn default() -> Self {
        Self { window_ms: 0, bytes_max: 1 << 30, free_percent_max: 5, portion_bytes: 4 << 20 }
    }
}

/// The bounds within which messages that are taken away next can be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoOffer {
    /// How long messages can be brought back, in milliseconds.
    pub window_ms: u64,
    /// Bytes that can be brought back.
    pub bytes_max: u64,
}

/// The undo entries of the node.
#[derive(Debug)]
pub struct Undo {
    pub(crate) options: UndoOptions,
    pub(crate) entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    last_id: AtomicU64,
    services: Arc<Services>,
    /// The service with the files of deleted streams that entries name.
    pub(crate) streams: Arc<StreamService>,
}

impl Undo {
    /// Reads the entries that an earlier run of the node left. Unreadable entries are removed, and so are
    /// entries of a stream that has no files, is defined, or has another entry: the node crashed before the
    /// stream's deletion, or after the stream was brought back.
    #[must_use]
    pub fn open(
        services: Arc<Services>,
        streams: Arc<StreamService>,
        options: UndoOptions,
        is_defined: impl Fn(u64) -> bool,
    ) -> Self {
        let (mut entries, mut kept, disk) =
            (BTreeMap::new(), BTreeSet::new(), services.storage.disk());
        let mut is_over = |entry: &Entry| {
            entry.stream().is_some_and(|KeptStream { id, .. }| {
                is_defined(id)
                    || is_brought_back(entry, id, &streams, &is_defined)
                    || !streams.has_files(id)
                    || !kept.insert(id)
            })
        };
        let names = segments::list_if_there(disk, entry::DIR).ok().flatten().unwrap_or_default();
        for id in names.iter().filter_map(|name| name.strip_suffix(".undo")?.parse().ok()) {
            match Entry::open(disk, id) {
                Ok(entry) if is_over(&entry) => remove(disk, id),
                Ok(entry) => drop(entries.insert(id, Arc::new(entry))),
                Err(error) => {
                    tracing::warn!("removing unreadable undo data: {error}");
                    remove(disk, id);
                }
            }
        }
        let last_id = entries.last_key_value().map_or(0, |(id, _)| *id);
        let (entries, last_id) = (Mutex::new(entries), AtomicU64::new(last_id));
        Self { options, entries, last_id, services, streams }
    }

    fn storage(&self) -> &Storage {
        &self.services.storage
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.storage().disk()
    }

    pub(crate) fn unix_ms(&self) -> UnixMs {
        self.storage().time.unix_ms()
    }

    /// The bounds within which messages that are taken away next can be brought back; `None` if they cannot.
    #[must_use]
    pub fn offer(&self) -> Option<UndoOffer> {
        let options = self.options;
        if options.window_ms == 0 || self.storage().is_short() {
            return None;
        }
        let taken: u64 = stdx::lock(&self.entries).values().map(|it| it.bytes()).sum();
        let free = self.disk().space().ok()?.free_bytes.saturating_add(taken);
        let bytes_max = options.bytes_max.min(free / 100 * options.free_percent_max);
        Some(UndoOffer { window_ms: options.window_ms, bytes_max })
    }

    /// The stream that can be brought back if the queue is deleted now; `None` if it cannot, or is no stream.
    /// The caller waits for the disk.
    #[must_use]
    pub fn kept_stream(&self, queue: &QueueRef) -> Option<KeptStream> {
        let (stream, offer) = (queue.as_stream()?, self.offer()?);
        let bytes = stream.view.stored_bytes().ok().filter(|bytes| *bytes < offer.bytes_max)?;
        Some(KeptStream { id: stream.id().0, bytes, n_messages: stream.stat().n_ready })
    }

    /// All entries that can be brought back or are busy, the last first.
    #[must_use]
    pub fn all(&self) -> Vec<UndoEntry> {
        let unix_ms = self.unix_ms();
        let entries = stdx::lock(&self.entries);
        let shown = entries.values().rev().map(|entry| entry.shown());
        shown.filter(|it| it.head.until_ms > unix_ms || it.busy != Busy::No).collect()
    }

    /// Returns the id of a new entry: the Unix time in milliseconds, or more, to be higher than the ids
    /// before.
    pub(crate) fn next_id(&self, unix_ms: UnixMs) -> u64 {
        let next = |last: u64| unix_ms.get().max(last.saturating_add(1));
        let last =
            self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(next(it)));
        last.map_or_else(|_| unix_ms.get(), next)
    }

    /// The highest id that files of a stream were given to, whether a stream was made of them or not; 0 if
    /// there is none.
    #[must_use]
    pub fn last_moved_to(&self) -> u64 {
        let entries = stdx::lock(&self.entries);
        entries.values().filter_map(|entry| entry.moved_to()).max().unwrap_or_default()
    }

    /// The deleted streams whose files stay.
    #[must_use]
    pub fn kept_streams(&self) -> Vec<u64> {
        let entries = stdx::lock(&self.entries);
        entries.values().filter_map(|entry| Some(entry.stream()?.id)).collect()
    }

    /// Whether the files of a stream stay when it is deleted.
    pub fn keeps_stream(&self, id: u64) -> bool {
        let entries = stdx::lock(&self.entries);
        entries.values().any(|entry| entry.stream().is_some_and(|stream| stream.id == id))
    }

    /// Inserts a new entry; returns false if another entry has its stream already.
    pub(crate) fn insert(&self, entry: &Arc<Entry>) -> bool {
        let id = |entry: &Entry| entry.stream().map(|stream| stream.id);
        let mut entries = stdx::lock(&self.entries);
        let is_twice = id(entry).is_some() && entries.values().any(|other| id(other) == id(entry));
        if !is_twice {
            entries.insert(entry.id, Arc::clone(entry));
        }
        !is_twice
    }

    /// Removes the entries whose time is over.
    pub fn expire(&self, unix_ms: UnixMs) {
        let is_over = |entry: &Entry| entry.head.until_ms <= unix_ms && !entry.is_busy();
        let mut entries = stdx::lock(&self.entries);
        for (_, entry) in entries.extract_if(.., |_, entry| is_over(entry)) {
            self.remove(&entry);
        }
    }

    /// Removes the oldest entries, except `kept`, until `more` bytes fit within `bytes_max`; returns false if
    /// they do not fit.
    pub(crate) fn make_room(&self, kept: u64, more: u64, bytes_max: u64) -> bool {
        let mut entries = stdx::lock(&self.entries);
        let mut bytes: u64 = entries.values().map(|entry| entry.bytes()).sum();
        let is_short =
            |bytes: u64, n: usize| bytes.saturating_add(more) > bytes_max || n > ENTRIES_MAX;
        while is_short(bytes, entries.len()) {
            let oldest = entries.iter().find(|(id, entry)| **id != kept && !entry.is_busy());
            let Some((id, entry)) = oldest.map(|(id, entry)| (*id, Arc::clone(entry))) else {
                return false;
            };
            tracing::info!(
                vhost = %entry.head.vhost, queue = %entry.head.queue,
                "undo data was deleted to make room"
            );
            bytes -= entry.bytes();
            entries.remove(&id);
            self.remove(&entry);
        }
        true
    }

    /// Removes an entry; returns false if the entry does not exist or is busy. The caller waits for the disk.
    #[must_use]
    pub fn forget(&self, id: u64) -> bool {
        let mut entries = stdx::lock(&self.entries);
        if entries.get(&id).is_none_or(|entry| entry.is_busy()) {
            return false;
        }
        entries.remove(&id).inspect(|entry| self.remove(entry)).is_some()
    }

    /// Removes an entry for good, then the files of its stream: no entry is left with only a part of the
    /// files.
    fn remove(&self, entry: &Entry) {
        remove(self.disk(), entry.id);
        let Some(KeptStream { id, .. }) = entry.stream() else { return };
        match self.disk().sync_dir(entry::DIR) {
            Ok(()) => self.streams.remove_kept(id),
            Err(error) => tracing::warn!("cannot delete the files of deleted stream {id}: {error}"),
        }
    }
}

/// Whether the deleted stream `id` of an entry was made again under another id. If it was to be, and was not,
/// its files are moved back.
fn is_brought_back(
    entry: &Entry,
    id: u64,
    streams: &StreamService,
    is_defined: impl Fn(u64) -> bool,
) -> bool {
    let Some(moved_to) = entry.moved_to() else { return false };
    if !is_defined(moved_to)
        && streams.has_files(moved_to)
        && let Err(error) = streams.move_files(moved_to, id)
    {
        tracing::error!("cannot move back the files of a deleted stream: {error}");
    }
    is_defined(moved_to)
}

fn remove(disk: &dyn Disk, id: u64) {
    if let Err(error) = disk.remove(&name_of(id)) {
        tracing::warn!("cannot remove {}: {error}", name_of(id));
    }
}
