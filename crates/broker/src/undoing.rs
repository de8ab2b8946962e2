//! Purging queues, deleting queues and removing messages so that this can be undone, and undoing it.
//! Permissions are checked elsewhere.
//!
//! ```text
//! look at messages -> write them down, sync -> take away exactly these -> the next ones
//! ```
//! At each moment, a message is therefore in its queue or written down.

mod bringing_back;
mod keeping;

pub use bringing_back::{BringingBack, UndoRefused};
pub use keeping::{Keeping, TakenAway, Taking};

use crate::admin::Operations;
use crate::alarms::Alarm;
use crate::broker::Broker;
use crate::queue_ref::QueueRef;
use crate::undo::{Busy, KeptStream, UndoEntry, UndoFiles};
use log::Disk;

/// The bounds within which messages that are taken away next can be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoOffer {
    /// How long messages can be brought back, in milliseconds.
    pub window_ms: u64,
    /// Bytes that can be brought back.
    pub bytes_max: u64,
}

/// The undo entries as operators see and use them.
#[derive(Clone, Copy, Debug)]
pub struct UndoEntries<'b>(&'b Broker);

impl<'b> Operations<'b> {
    /// The undo entries.
    #[must_use]
    pub const fn undo(self) -> UndoEntries<'b> {
        UndoEntries(self.0)
    }
}

impl<'b> UndoEntries<'b> {
    fn disk(self) -> &'b dyn Disk {
        self.0.classic.storage().disk()
    }

    pub(crate) fn files(self) -> UndoFiles<'b> {
        UndoFiles { disk: self.disk(), streams: &self.0.control_plane.streams }
    }

    fn unix_ms(self) -> u64 {
        self.0.classic.storage().time.unix_ms()
    }

    /// The bounds within which messages that are taken away next can be brought back; `None` if they cannot.
    #[must_use]
    pub fn offer(&self) -> Option<UndoOffer> {
        let options = self.0.undo.options;
        if options.window_ms == 0 || self.0.alarms.is_on(Alarm::Disk) {
            return None;
        }
        let taken: u64 = stdx::lock(&self.0.undo.entries).values().map(|it| it.bytes()).sum();
        let free = self.disk().space().ok()?.free_bytes.saturating_add(taken);
        let bytes_max = options.bytes_max.min(free / 100 * options.free_percent_max);
        Some(UndoOffer { window_ms: options.window_ms, bytes_max })
    }

    /// The stream that can be brought back if the queue is deleted now; `None` if it cannot, or is no stream.
    /// The caller waits for the disk.
    #[must_use]
    pub fn kept_stream(&self, queue: &QueueRef) -> Option<KeptStream> {
        let (QueueRef::Stream(stream), Some(offer)) = (queue, self.offer()) else { return None };
        let bytes = stream.view.stored_bytes().ok().filter(|bytes| *bytes < offer.bytes_max)?;
        Some(KeptStream { id: stream.id().0, bytes, n_messages: stream.stat().n_ready })
    }

    /// All entries that can be brought back or are busy, the last first.
    #[must_use]
    pub fn all(&self) -> Vec<UndoEntry> {
        let unix_ms = self.unix_ms();
        let entries = stdx::lock(&self.0.undo.entries);
        let shown = entries.values().rev().map(|entry| entry.shown());
        shown.filter(|it| it.head.until_ms > unix_ms || it.busy != Busy::No).collect()
    }

    /// Removes an entry; returns false if the entry does not exist or is busy. The caller waits for the disk.
    #[must_use]
    pub fn forget(&self, id: u64) -> bool {
        self.0.undo.forget(self.files(), id)
    }
}
