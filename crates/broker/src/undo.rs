//! Undo entries: one for each purge, deletion or removal of messages by an operator, kept until the entry is
//! too old or its room is needed. How messages are taken away and brought back is in `undoing`.

mod entry;

pub use entry::{Act, Busy, Head, KeptStream, UndoEntry};
pub(crate) use entry::{Entry, PortionRecord, name_of};

use crate::options::UndoOptions;
use log::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use stream::StreamService;

/// Entries that are kept at a time.
const ENTRIES_MAX: usize = 10_000;

/// The places of the files of undo entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoFiles<'f> {
    /// The disk with the files of entries.
    pub(crate) disk: &'f dyn Disk,
    /// The service with the files of deleted streams that entries name.
    pub(crate) streams: &'f StreamService,
}

/// The undo entries of the node.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pub(crate) options: UndoOptions,
    pub(crate) entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    last_id: AtomicU64,
}

impl Undo {
    /// Reads the entries that an earlier run of the node left. Unreadable entries are removed, and so are
    /// entries of a stream that has no files, is defined, or has another entry: the node crashed before the
    /// stream's deletion, or after the stream was brought back.
    pub(crate) fn open(
        files: UndoFiles<'_>,
        options: UndoOptions,
        is_defined: impl Fn(u64) -> bool,
    ) -> Self {
        let (mut entries, mut kept, disk) = (BTreeMap::new(), BTreeSet::new(), files.disk);
        let mut is_over = |it: &KeptStream| {
            is_defined(it.id) || !files.streams.has_files(it.id) || !kept.insert(it.id)
        };
        let names = log::list_if_there(disk, entry::DIR).ok().flatten().unwrap_or_default();
        for id in names.iter().filter_map(|name| name.strip_suffix(".undo")?.parse().ok()) {
            match Entry::open(disk, id) {
                Ok(entry) if entry.head.stream.as_ref().is_some_and(&mut is_over) => {
                    remove(disk, id)
                }
                Ok(entry) => drop(entries.insert(id, Arc::new(entry))),
                Err(error) => {
                    tracing::warn!("removing unreadable undo data: {error}");
                    remove(disk, id);
                }
            }
        }
        let last_id = entries.last_key_value().map_or(0, |(id, _)| *id);
        Self { options, entries: Mutex::new(entries), last_id: AtomicU64::new(last_id) }
    }

    /// Returns the id of a new entry: the Unix time in milliseconds, or more, to be higher than the ids
    /// before.
    pub(crate) fn next_id(&self, unix_ms: u64) -> u64 {
        let next = |last: u64| unix_ms.max(last.saturating_add(1));
        let last =
            self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(next(it)));
        last.map_or(unix_ms, next)
    }

    /// The deleted streams whose files stay.
    pub(crate) fn kept_streams(&self) -> Vec<u64> {
        let entries = stdx::lock(&self.entries);
        entries.values().filter_map(|entry| Some(entry.stream()?.id)).collect()
    }

    /// Whether the files of a stream stay when it is deleted.
    pub(crate) fn keeps_stream(&self, id: u64) -> bool {
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
    pub(crate) fn expire(&self, files: UndoFiles<'_>, unix_ms: u64) {
        let is_over = |entry: &Entry| entry.head.until_ms <= unix_ms && !entry.is_busy();
        let mut entries = stdx::lock(&self.entries);
        for (_, entry) in entries.extract_if(.., |_, entry| is_over(entry)) {
            files.remove(&entry);
        }
    }

    /// Removes the oldest entries, except `kept`, until `more` bytes fit within `bytes_max`; returns false if
    /// they do not fit.
    pub(crate) fn make_room(
        &self,
        files: UndoFiles<'_>,
        kept: u64,
        (more, bytes_max): (u64, u64),
    ) -> bool {
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
            files.remove(&entry);
        }
        true
    }

    /// Removes an entry; returns false if the entry does not exist or is busy.
    pub(crate) fn forget(&self, files: UndoFiles<'_>, id: u64) -> bool {
        let mut entries = stdx::lock(&self.entries);
        if entries.get(&id).is_none_or(|entry| entry.is_busy()) {
            return false;
        }
        entries.remove(&id).inspect(|entry| files.remove(entry)).is_some()
    }
}

impl UndoFiles<'_> {
    /// Removes an entry for good, then the files of its stream: no entry is left with only a part of the
    /// files.
    fn remove(self, entry: &Entry) {
        remove(self.disk, entry.id);
        let Some(KeptStream { id, .. }) = entry.stream() else { return };
        match self.disk.sync_dir(entry::DIR) {
            Ok(()) => self.streams.remove_kept(id),
            Err(error) => tracing::warn!("cannot delete the files of deleted stream {id}: {error}"),
        }
    }
}

fn remove(disk: &dyn Disk, id: u64) {
    if let Err(error) = disk.remove(&name_of(id)) {
        tracing::warn!("cannot remove {}: {error}", name_of(id));
    }
}
