//! The names of messages that deduplicating exchanges have seen, on disk. A name is there only if a crash
//! cannot undo its message, which would otherwise be dropped when it came again.
//!
//! A publisher holds the present [`DedupBarrier`] from before exchanges take note of its messages until these
//! are in their queues, and leaves there what must be durable for them. A save copies the names, begins
//! another `DedupBarrier`, and writes the copy once nobody holds the one before and its token is durable.

use super::dedup_window::{self, Window};
use super::{Exchanges, NamedExchange, StatefulExchanges};
use confirm::DurabilityToken;
use log::Wal;
use segments::{Disk, FileError};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use stdx::MonotonicMs;
use stdx::record::{Reader, RecordError, put_str};

/// The file that holds what deduplicating exchanges have seen, in the data directory.
const SEEN_FILE: &str = "deduplication.snapshot";
/// The least pause between two snapshots, in milliseconds.
const SEEN_EVERY_MS: u64 = 2_000;
/// Bytes written that lengthen the pause after a snapshot by a millisecond.
const SEEN_BYTES_PER_MS: u64 = 4_096;

/// A token for what must be durable before the names that exchanges note meanwhile may be on disk.
#[derive(Debug, Default)]
pub struct DedupBarrier(Mutex<DurabilityToken>);

impl DedupBarrier {
    /// Notes that messages are in their queues, and safe when `awaited` is durable.
    pub fn placed(&self, awaited: &DurabilityToken) {
        stdx::lock(&self.0).add(awaited.clone());
    }
}

#[derive(Debug, Default)]
pub(super) struct Saving {
    /// The barrier for publishers as of now.
    present: Arc<DedupBarrier>,
    copied: Option<Copied>,
}

/// Names on their way to the disk.
#[derive(Debug)]
struct Copied {
    bytes: Vec<u8>,
    /// The barrier of the publishers whose messages were noted.
    noted: Arc<DedupBarrier>,
}

/// The outcome of a save.
enum Saved {
    /// No names are written: all of them are on disk.
    Nothing,
    /// No names are written: a message is not durable yet.
    NotYet,
    /// The names are written, in so many bytes.
    Written(usize),
}

impl Exchanges {
    /// The barrier that is held while messages are noted and put into their queues.
    pub fn noted(&self) -> Arc<DedupBarrier> {
        Arc::clone(&stdx::lock(&self.saving).present)
    }

    /// Reads what deduplicating exchanges had seen before a restart.
    pub fn restore_seen(&self, disk: &dyn Disk) -> Result<(), FileError> {
        let Some(bytes) = segments::read_snapshot(disk, SEEN_FILE)? else { return Ok(()) };
        if read_seen(&mut Reader::new(&bytes), &self.now()).is_err() {
            tracing::error!("cannot read {SEEN_FILE}: deduplication state of exchanges is lost");
        }
        Ok(())
    }

    /// Writes what deduplicating exchanges have seen, if that is not on disk yet. The caller sees to it that
    /// nobody publishes any more, and that all that is to survive is durable.
    pub fn save_seen_at_end(&self, disk: &dyn Disk) -> Result<(), FileError> {
        let unwritten = stdx::lock(&self.saving).copied.take().map(|copied| copied.bytes);
        match self.copy_seen().or(unwritten) {
            Some(bytes) => segments::write_snapshot(disk, SEEN_FILE, &bytes),
            None => Ok(()),
        }
    }

    /// Writes what deduplicating exchanges have seen, if the messages are durable.
    fn save_seen(&self, disk: &dyn Disk, wal: &Wal) -> Result<Saved, FileError> {
        if stdx::lock(&self.saving).copied.is_none() {
            let Some(bytes) = self.copy_seen() else { return Ok(Saved::Nothing) };
            // Publishers whose noted names were copied hold this barrier; those of names noted from here on
            // hold the next.
            let mut saving = stdx::lock(&self.saving);
            let noted = std::mem::take(&mut saving.present);
            saving.copied = Some(Copied { bytes, noted });
        }
        let mut saving = stdx::lock(&self.saving);
        let Some(mut copied) = saving.copied.take() else { return Ok(Saved::Nothing) };
        let awaited = Arc::get_mut(&mut copied.noted).map(|noted| stdx::lock(&noted.0).clone());
        if !awaited.is_some_and(|awaited| awaited.is_durable(wal)) {
            saving.copied = Some(copied);
            wal.commit_soon();
            return Ok(Saved::NotYet);
        }
        // Publishers must not wait for the disk.
        drop(saving);
        if let Err(error) = segments::write_snapshot(disk, SEEN_FILE, &copied.bytes) {
            stdx::lock(&self.saving).copied = Some(copied);
            return Err(error);
        }
        Ok(Saved::Written(copied.bytes.len()))
    }

    /// Copies all names, if they have changed since the last copy.
    fn copy_seen(&self) -> Option<Vec<u8>> {
        let watched = self.now();
        let deduplicating = || watched.all().filter(|it| it.exchange.deduplicates());
        if !deduplicating().any(|it| stdx::lock(&it.exchange.seen).is_changed()) {
            return None;
        }
        let mut bytes = Vec::new();
        for NamedExchange { vhost, name, exchange } in deduplicating() {
            put_str(&mut bytes, vhost);
            put_str(&mut bytes, name);
            dedup_window::encode(&exchange.seen, &mut bytes);
        }
        Some(bytes)
    }
}

/// Reads a snapshot: virtual host, exchange and names, for each exchange.
fn read_seen(reader: &mut Reader<'_>, watched: &StatefulExchanges) -> Result<(), RecordError> {
    while !reader.is_empty() {
        let (vhost, name) = (reader.str()?.to_owned(), reader.str()?.to_owned());
        let window = Window::decode(reader)?;
        if let Some(exchange) = watched.get(&vhost, &name) {
            *stdx::lock(&exchange.seen) = window;
            exchange.shrink();
        }
    }
    Ok(())
}

impl Exchanges {
    /// Writes what deduplicating exchanges have seen, at intervals: after a crash, exchanges do not know the
    /// messages of the last seconds.
    pub fn save_seen_at_times(&self, disk: &dyn Disk, wal: &Wal, now_ms: MonotonicMs) {
        if now_ms.get() < self.save_at_ms.load(Ordering::Relaxed) {
            return;
        }
        let pause_ms = match self.save_seen(disk, wal) {
            Ok(Saved::Nothing) => SEEN_EVERY_MS,
            Ok(Saved::NotYet) => return,
            Ok(Saved::Written(n_bytes)) => SEEN_EVERY_MS + n_bytes as u64 / SEEN_BYTES_PER_MS,
            Err(error) => {
                tracing::error!("cannot write {SEEN_FILE}: {error}");
                SEEN_EVERY_MS
            }
        };
        self.save_at_ms.store(now_ms.plus(pause_ms).get(), Ordering::Relaxed);
    }
}
