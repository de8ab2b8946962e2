//! All that can be brought back of what operators have purged, deleted or removed: an entry of each act,
//! until it is too old or its room is needed. Never how messages go and come.

mod entry;

pub use entry::{Act, Busy, Head, UndoEntry};
pub(crate) use entry::{Entry, PortionRecord, name_of};

use crate::options::UndoOptions;
use log::Disk;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Entries at a time.
const ENTRIES_MAX: usize = 10_000;

/// The entries.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pub(crate) options: UndoOptions,
    pub(crate) entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    last_id: AtomicU64,
}

impl Undo {
    /// Those that an earlier life has left, but those without anything that can be read.
    pub(crate) fn open(disk: &dyn Disk, options: UndoOptions) -> Self {
        let mut entries = BTreeMap::new();
        let names = log::list_if_there(disk, entry::DIR).ok().flatten().unwrap_or_default();
        for id in names.iter().filter_map(|name| name.strip_suffix(".undo")?.parse().ok()) {
            match Entry::open(disk, id) {
                Ok(entry) => drop(entries.insert(id, Arc::new(entry))),
                Err(error) => {
                    tracing::warn!("nothing of it can be brought back, it is removed: {error}");
                    remove(disk, id);
                }
            }
        }
        let last_id = entries.last_key_value().map_or(0, |(id, _)| *id);
        Self { options, entries: Mutex::new(entries), last_id: AtomicU64::new(last_id) }
    }

    /// The number of a new entry: about the time, and higher than those before.
    pub(crate) fn next_id(&self, unix_ms: u64) -> u64 {
        let next = |last: u64| unix_ms.max(last.saturating_add(1));
        let last =
            self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(next(it)));
        last.map_or(unix_ms, next)
    }

    /// Removes what is there for too long.
    pub(crate) fn expire(&self, disk: &dyn Disk, unix_ms: u64) {
        let is_over = |entry: &Entry| entry.head.until_ms <= unix_ms && !entry.is_busy();
        let mut entries = stdx::lock(&self.entries);
        for (id, _) in entries.extract_if(.., |_, entry| is_over(entry)) {
            remove(disk, id);
        }
    }

    /// Removes the oldest entries but `kept`, until there is room for more bytes of `bytes_max`; false if
    /// there is not.
    pub(crate) fn make_room(
        &self,
        disk: &dyn Disk,
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
                "what was taken away can no longer be brought back: there is no room for it"
            );
            bytes -= entry.bytes();
            entries.remove(&id);
            remove(disk, id);
        }
        true
    }

    /// Forgets one of them; false if it is not there, or busy.
    pub(crate) fn forget(&self, disk: &dyn Disk, id: u64) -> bool {
        let mut entries = stdx::lock(&self.entries);
        let is_gone = entries.get(&id).is_some_and(|entry| !entry.is_busy());
        if is_gone {
            entries.remove(&id);
            remove(disk, id);
        }
        is_gone
    }
}

fn remove(disk: &dyn Disk, id: u64) {
    if let Err(error) = disk.remove(&name_of(id)) {
        tracing::warn!("{} cannot be removed: {error}", name_of(id));
    }
}
